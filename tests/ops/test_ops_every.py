"""Every registered op on its samples: values, dtypes, layouts, empty operands, gradients to second order, errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.each import each
from tests.samples import SAMPLES
from tests.samples.sample import Sample
from wyrm.errors import NotFinite, ShapeError
from wyrm.graph import REGISTRY
from wyrm.testing import check_grads, check_op

# Ops with operands that are functions of others, which are not made alone: by `wy.checkpoint`, `custom_vjp` and others.
APART = frozenset(["Checkpoint", "CofactorsSlope", "Custom", "ResidualsPart-weight", "Updating"])


def leaf(array: Any, dtype: Any = None) -> Any:
    array = np.asarray(array)
    if array.dtype.kind == "i":
        return wy.IndexInput(array)
    if array.dtype.kind == "b":
        return wy.Input(array)
    return wy.Parameter(array.astype(dtype or array.dtype))


def run(sample: Sample, operands: Any, dtype: Any = None) -> Any:
    wy.random.set_step(0)
    return sample.build(*(leaf(operand, dtype) for operand in operands))


def projected(node: Any) -> Any:
    """Return the sum of a node's elements with weights that differ from element to element."""
    return (node * wy.Constant(np.cos(np.arange(node.size)).reshape(node.shape).astype(node.dtype))).sum()


def every(
    keep: Callable[[Sample], bool] = lambda sample: True,
) -> Callable[[Callable[[Sample], None]], Callable[[list[Sample]], None]]:
    """Run a test on every sample for which `keep` is true, many in one test."""
    return each(sample for sample in SAMPLES if keep(sample))


def differentiable(sample: Sample) -> bool:
    return sample.differentiable


def test_every_op_has_a_sample() -> None:
    sampled = {s.op for s in SAMPLES}
    missing = [name for name, op in REGISTRY.items() if name.startswith("wyrm.") and op not in sampled]
    assert missing == []


@every()
def test_values(sample: Sample) -> None:
    """They equal NumPy's, have the declared shape and dtype, and do not depend on the layout of operands."""
    node = run(sample, sample.operands)
    assert any(type(ancestor) is sample.op for ancestor in (node, *node.parents))
    value, expected = node.forward(), sample.expected(*sample.operands)
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-14)
    assert value.shape == node.shape == np.shape(expected)
    assert value.dtype == node.dtype and (node.dtype.kind != "f" or node.dtype == np.float64)
    strided = []
    for operand in sample.operands:
        wide = np.zeros((*operand.shape, 2), operand.dtype)
        wide[..., 0] = operand
        strided.append(np.asfortranarray(wide[..., 0]) if operand.ndim > 1 else wide[..., 0])
    np.testing.assert_array_equal(run(sample, strided).forward(), value)


@every(lambda sample: not sample.name.startswith("Cast-"))
def test_values_in_float32(sample: Sample) -> None:
    node = run(sample, sample.operands, np.float32)
    assert node.forward().dtype == node.dtype
    if node.dtype.kind == "f":
        assert node.dtype == np.float32
        # At the operands as they are in float32: next to a pole, rounding them changes the result.
        rounded = [np.asarray(each, np.float32).astype(each.dtype) if each.dtype.kind == "f" else each
                   for each in sample.operands]  # fmt: skip
        expected = np.asarray(sample.expected(*rounded))
        np.testing.assert_allclose(node.value, expected, rtol=2e-5, atol=2e-6)


@every(lambda sample: sample.empty)
def test_operands_without_elements(sample: Sample) -> None:
    operands = tuple(operand[:0] for operand in sample.operands)
    node = run(sample, operands)
    np.testing.assert_array_equal(node.forward(), sample.expected(*operands))
    if sample.differentiable:
        node.sum().backward()
        assert all(p.gradient.shape == p.shape for p in node.parameters())


@every(lambda sample: str(sample) not in APART)
def test_all_rules_agree(sample: Sample) -> None:
    """Gradients to second order, both float types, `vmap`, rows and copies; engines have tests of their own."""
    node = run(sample, sample.operands)
    node.forward()
    check_op(node, expected=sample.expected(*sample.operands), order=2 if sample.differentiable else 0, engines=())


@every(lambda sample: str(sample) in APART and sample.differentiable)
def test_gradients(sample: Sample) -> None:
    check_grads(run(sample, sample.operands))


@every(
    lambda sample: (
        not sample.differentiable
        and "implicit gradient" not in sample.tags
        and any(operand.dtype.kind == "f" for operand in sample.operands)
    )
)
def test_what_has_no_gradient_declares_zero(sample: Sample) -> None:
    node = run(sample, sample.operands)
    if node.dtype.kind == "f":
        gradients = wy.grad(node.sum(), [leaf for leaf in node.parents if leaf.dtype.kind == "f"])
        assert all(not gradient.forward().any() for gradient in gradients)
    else:
        assert all(part is wy.ZERO for part in node.vjp(None))


@every(differentiable)
def test_gradient_in_float32(sample: Sample) -> None:
    wide, narrow = run(sample, sample.operands), run(sample, sample.operands, np.float32)
    for node in (wide, narrow):
        wy.random.set_step(0)
        node.sum().backward()
    for p, q in zip(wide.parameters(), narrow.parameters(), strict=True):
        assert q.gradient.dtype == np.float32
        # Where the terms of a gradient cancel to 0, as those of group norm may, their rounding is left.
        np.testing.assert_allclose(q.gradient, p.gradient, rtol=1e-4, atol=2e-5)


@every(lambda sample: sample.misfit is not None)
def test_shape_error_names_the_users_line(sample: Sample) -> None:
    assert sample.misfit is not None
    leaves = [leaf(operand) for operand in sample.misfit]
    with pytest.raises((ShapeError, ValueError)) as error:
        sample.build(*leaves)
    assert isinstance(error.value, wy.WyrmError)
    message = str(error.value)
    assert sample.op.op_name() in message
    assert str(leaves[0].dims[0]) in message


def test_every_op_tells_where_a_nan_came_from() -> None:
    x = wy.Constant([4.0, -1.0], name="x")
    with wy.watch_nan(), pytest.raises(NotFinite) as error:
        (x.sqrt() + 1.0).sum().forward()
    message = str(error.value)
    assert message.startswith("sqrt: the first NaN is at position (1,)")
    assert "x (2,) float32" in message
    assert "(x.sqrt() + 1.0).sum().forward()" in message


@pytest.mark.parametrize("extreme", [1e4, -1e4])
def test_edges_stay_finite(extreme: float) -> None:
    builds: list[Callable[[Any], Any]] = [
        lambda x: x.softmax(), lambda x: x.log_softmax(), lambda x: x.logsumexp(axis=-1), lambda x: x.sigmoid(),
        lambda x: x.softplus(), lambda x: x.silu(), lambda x: x.gelu(), lambda x: x.tanh(),
        lambda x: x.elu(), lambda x: x.cross_entropy(np.array([0])), lambda x: x.gelu(approximate=True),
    ]  # fmt: skip
    for build in builds:
        x = wy.Parameter(np.array([[extreme, 0.0, -extreme]], np.float32))
        node = build(x)
        assert np.isfinite(node.forward()).all(), inspect.getsource(build)
        node.sum().backward()
        assert np.isfinite(x.gradient).all(), inspect.getsource(build)

"""Fused ops and dropout against PyTorch and JAX, in every engine; errors."""

from __future__ import annotations

from typing import Any, assert_type

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from tests.samples.fused import linear_gelu, linear_gelu_gradient
from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.ops.products.embed import Embed
from wyrm.ops.products.linear_gelu import LinearGelu
from wyrm.ops.random.dropout import AddDropout
from wyrm.testing import check_grads

TOLERANCE: dict[Any, float] = {np.float32: 2e-5, np.float64: 1e-9}


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Width(wy.Dim): ...


class Hidden(wy.Dim): ...


def arrays(*shapes: tuple[int, ...], dtype: Any = np.float64) -> list[Any]:
    random = np.random.default_rng(1)
    return [random.normal(size=shape).astype(dtype) for shape in shapes]


def both_engines(loss: Any, leaves: list[Any]) -> list[tuple[Any, list[Any]]]:
    """Return the value and the gradients with respect to `leaves`, of the reference and of the native engine."""
    for leaf in leaves:
        leaf.clear_gradient()
    wy.random.set_step(0)
    value = loss.forward()
    loss.backward()
    compiled, *gradients = wy.compile([loss, *wy.grad(loss, leaves)])()
    return [(value, [leaf.gradient for leaf in leaves]), (compiled, gradients)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("approximate", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", [(3,), (7, 3), (2, 5, 3), (0, 3)])
def test_linear_gelu_equals_pytorch_and_jax(
    shape: tuple[int, ...], biased: bool, approximate: bool, dtype: Any
) -> None:
    operands = arrays(shape, (3, 6), (6,), dtype=dtype)[: 2 + biased]
    (cotangent,) = arrays((*shape[:-1], 6), dtype=dtype)
    leaves = [wy.Parameter(array) for array in operands]
    loss = (LinearGelu(*leaves, approximate=approximate) * cotangent).sum()
    wide = [array.astype(np.float64) for array in operands]

    def jax_loss(x: Any, weight: Any, bias: Any = 0.0) -> Any:
        return (jax.nn.gelu(x @ weight + bias, approximate=approximate) * cotangent.astype(np.float64)).sum()

    with jax.enable_x64(True):
        expected, gradients = jax.jit(jax.value_and_grad(jax_loss, argnums=tuple(range(len(wide)))))(*wide)
    preactivation_gradient = linear_gelu_gradient(*wide, cotangent.astype(np.float64), approximate=approximate)
    weight_gradient = wide[0].reshape(-1, 3).T @ preactivation_gradient.reshape(-1, 6)
    torch_value = (linear_gelu(*wide, approximate=approximate) * cotangent).sum()
    tolerance = TOLERANCE[dtype]
    for value, engine_gradients in both_engines(loss, leaves):
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(value, torch_value, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(engine_gradients[1], weight_gradient, rtol=tolerance, atol=tolerance)
        for ours, theirs in zip(engine_gradients, gradients, strict=True):
            assert ours.dtype == dtype
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("approximate", [True, False])
def test_linear_gelu_to_third_order(approximate: bool) -> None:
    leaves = [wy.Parameter(0.5 * array) for array in arrays((2, 3), (3, 2), (2,))]
    check_grads(LinearGelu(*leaves, approximate=approximate), order=3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("context", [4, 6])
def test_embedding_with_positions_equals_pytorch(context: int, dtype: Any) -> None:
    table, positions = arrays((7, 3), (context, 3), dtype=dtype)
    tokens = np.array([[0, 3, 3, 6], [3, 1, 0, 0]])
    (cotangent,) = arrays((2, 4, 3), dtype=dtype)
    leaves = [wy.Parameter(table), wy.Parameter(positions)]
    loss = (leaves[0].embed(tokens, leaves[1]) * cotangent).sum()
    tensors = [torch.tensor(array, requires_grad=True) for array in (table, positions)]
    embedded = torch.nn.functional.embedding(torch.tensor(tokens), tensors[0]) + tensors[1][:4]
    expected = (embedded * torch.tensor(cotangent)).sum()
    gradients = torch.autograd.grad(expected, tensors)
    tolerance = TOLERANCE[dtype]
    for value, engine_gradients in both_engines(loss, leaves):
        np.testing.assert_allclose(value, expected.item(), rtol=tolerance)
        for ours, theirs in zip(engine_gradients, gradients, strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=tolerance, atol=tolerance)


class Positions(wy.Dim): ...


@pytest.mark.parametrize("time", [3, 4])
def test_time_and_positions_may_be_axes_of_two_names(time: int) -> None:
    table, given = (wy.Parameter(array) for array in arrays((5, 2), (4, 2)))
    positions = wy.Parameter(given.value, (Positions(4), 2))
    tokens = wy.IndexInput(np.array([[4, 0, 1, 1][:time]]), dims=(1, Time(time)))
    loss = table.embed(tokens, positions).square().sum()
    expected = ((table.value[tokens.value] + given.value[:time]) ** 2).sum()
    for value, gradients in both_engines(loss, [table, positions]):
        np.testing.assert_allclose(value, expected)
        assert np.abs(gradients[1][:time]).min() > 0.0


def test_the_gradient_of_a_table_with_positions_is_row_sparse() -> None:
    table, positions = (wy.Parameter(array) for array in arrays((100, 3), (4, 3)))
    Embed(table, positions, np.array([[2, 5, 2, 2]])).sum().backward()
    assert np.flatnonzero(table.gradient.any(axis=1)).tolist() == [2, 5]
    assert type(wy.grad(Embed(table, positions, np.array([[2]])).sum(), table)).gives_rows
    assert positions.gradient.tolist() == [[1.0] * 3] * 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rate", [0.0, 0.5, 0.9])
def test_a_residual_with_dropout_is_the_sum_of_both(rate: float, dtype: Any) -> None:
    residual, x = (wy.Parameter(array) for array in arrays((40, 50), (40, 50), dtype=dtype))
    fused, apart = residual.add_dropout(x, rate, 3, 5), residual + x.dropout(rate, 3, 5)
    both = [both_engines((node * node).sum(), [residual, x]) for node in (fused, apart)]
    values = [value for engine in both for value, _ in engine]
    np.testing.assert_allclose(values, values[0], rtol=TOLERANCE[dtype])
    for ours, theirs in zip(*both, strict=True):
        for a, b in zip(ours[1], theirs[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    kept = (fused.forward() != residual.forward()).mean()
    assert abs(kept - (1.0 - rate)) < 0.05


def test_dropout_masks_are_uniform_and_independent_over_positions_and_steps() -> None:
    """Means over steps and positions deviate from the rate as chance predicts; neighbours are uncorrelated."""
    node = wy.Constant(np.ones((64, 64))).dropout(0.3, seed=1, stream=2)
    kept = []
    for step in range(400):
        wy.random.set_step(step)
        kept.append(node.forward() > 0.0)
    drawn = np.stack(kept).astype(np.float64) - 0.7
    deviation = np.sqrt(0.3 * 0.7)
    for axes in ((0,), (1, 2), (0, 1), (0, 2)):
        means = drawn.mean(axes) * np.sqrt(np.prod([drawn.shape[a] for a in axes])) / deviation
        assert abs((means**2).mean() - 1.0) < 0.5
    for axis in range(3):
        pairs = drawn.take(range(1, drawn.shape[axis]), axis) * drawn.take(range(drawn.shape[axis] - 1), axis)
        assert abs(pairs.mean()) * np.sqrt(pairs.size) / deviation**2 < 4.0


def test_dropping_does_not_spread_infinities() -> None:
    x = wy.Constant(np.full(1000, np.inf))
    value = x.dropout(0.5).forward()
    assert set(value.tolist()) == {0.0, np.inf}


def test_axes_are_those_that_mypy_sees() -> None:
    x = wy.Input(dims=(Batch(), Time(4), Width(3)), dtype=np.float64)
    weight = wy.Parameter(np.zeros((3, 6)), (Width, Hidden))
    bias = wy.Parameter(np.zeros(6), (Hidden,))
    assert_type(x.linear_gelu(weight, bias).dims, tuple[Batch, Time, Hidden])
    tokens = wy.IndexInput(dims=(Batch(), Time(4)))
    table, positions = wy.Parameter(np.zeros((9, 3)), (Hidden, Width)), wy.Parameter(np.zeros((5, 3)), (Batch, Width))
    assert_type(table.embed(tokens, positions).dims, tuple[Batch, Time, Width])
    assert_type(x.add_dropout(x, 0.5).dims, tuple[Batch, Time, Width])
    assert x.linear_gelu(weight, bias).dims == (Batch(), Time(4), Hidden(6))
    assert table.embed(tokens, positions).dims == (Batch(), Time(4), Width(3))


def test_sizes_may_come_from_the_data() -> None:
    batch, time = Batch(), Time()
    tokens = wy.IndexInput(dims=(batch, time))
    positions = wy.Input(dims=(time, Width(3)), dtype=np.float64)
    table, position_values = arrays((9, 3), (2, 3))
    node = wy.Constant(table).embed(tokens, positions)
    rows = np.array([[1, 8]])
    np.testing.assert_array_equal(
        wy.compile(node)({tokens: rows, positions: position_values}), table[rows] + position_values
    )


def two_tables(positions: tuple[int, int], indices: Any) -> Any:
    """Return an `Embed` with 4 tokens of width 2 and position embeddings of the given shape."""
    return Embed(wy.Constant(np.ones((4, 2))), wy.Constant(np.ones(positions)), indices)


X, Y = wy.Input(dims=(2, 3), name="x", dtype=np.float64), wy.Input(dims=(2, 3), dtype=np.float64)


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: LinearGelu(X, wy.Constant(np.ones((4, 5)))), ShapeError, "last axis of x"),
        (lambda: LinearGelu(X, wy.Constant(np.ones(3))), ShapeError, r"\(inputs, outputs\)"),
        (lambda: LinearGelu(X, wy.Constant(np.ones((3, 2))), X), ShapeError, "must have one axis, the outputs"),
        (lambda: LinearGelu(X > 0.0, wy.Constant(np.ones((3, 5)) > 0.0)), DTypeError, "mask"),
        (lambda: AddDropout(X, wy.Constant(np.ones(3)), 0.5, 0, 0), ShapeError, "does not broadcast"),
        (lambda: X.add_dropout(Y, 1.0), ValueError, "add_dropout of x"),
        (lambda: two_tables((3, 2), [[0] * 5]), ShapeError, "longer than"),
        (lambda: two_tables((3, 3), [[0] * 3]), ShapeError, "2.*3"),
        (lambda: two_tables((3, 2), [[4]]), IndexOutOfRange, "4"),
        (lambda: two_tables((3, 2), wy.IndexInput(dims=(Batch(), Time()))), ShapeError, "need sizes"),
    ],
)  # fmt: skip
def test_mistakes(build: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        build()


def test_residuals_of_other_sizes_in_the_data_are_an_error() -> None:
    x, residual = wy.Input(dims=(Batch(), 3), name="x"), wy.Input(dims=(Batch(), 3), name="residual")
    node = residual.add_dropout(x, 0.5)
    x.set(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="Batch"):
        residual.set(np.ones((1, 3)))
        node.forward()

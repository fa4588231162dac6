"""Edge cases of ops in native code: views, empty and zero-dimensional operands, second gradients, odd numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.samples import SAMPLES
from tests.samples.grouped import grouped
from tests.samples.sample import Sample

GROUP = 32


def leaf(operand: Any) -> Any:
    if operand.dtype.kind == "i":
        return wy.IndexInput(operand)
    return wy.Input(operand) if operand.dtype.kind == "b" else wy.Parameter(operand)


def view(operand: Any) -> tuple[Any, Any]:
    """Return a leaf, and a node of this value that views the leaf's memory with other strides."""
    if operand.ndim > 1 and operand.dtype.kind == "f":
        held = leaf(np.ascontiguousarray(operand.T))
        return held, held.transpose(*reversed(range(operand.ndim)))
    if operand.ndim and operand.dtype.kind in "fi":
        held = leaf(np.repeat(operand[::-1], 2, axis=0))
        return held, held[::-2]
    held = leaf(operand)
    return held, held


def projected(node: Any, leaves: Sequence[Any], seed: int = 0) -> list[Any]:
    """Return the gradients of a random projection of a node with respect to its float leaves."""
    floats = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
    if node.dtype.kind != "f" or not floats:
        return []
    projection = np.random.default_rng(seed).standard_normal(node.shape)
    gradients: Any = wy.vjp(node, floats, wy.Constant(projection.astype(node.dtype)))
    return list(gradients)


def check(outputs: dict[str, Any], rtol: float, atol: float, loop: Any = "python") -> None:
    """Check that the program's outputs are the reference engine's, NaNs and infinities included."""
    wy.random.set_step(0)
    with np.errstate(all="ignore"):
        expected = wy.run(list(outputs.values()))
    found = wy.compile(list(outputs.values()), loop=loop)()
    wrong = []
    for name, want, have in zip(outputs, expected, found, strict=True):
        assert have.dtype == want.dtype and have.shape == want.shape, name
        if not np.allclose(have, want, rtol=rtol, atol=atol, equal_nan=True):
            wrong.append(f"{name}: {have.tolist()} is not {want.tolist()}")
    assert not wrong, "\n".join(wrong)


def is_recurrent(sample: Sample) -> bool:
    """Return whether a sample is of a recurrent op, which takes a minute to compile."""
    return sample.op.__module__.startswith("wyrm.ops.recurrence.lstm")


@grouped(GROUP, lambda sample: not is_recurrent(sample))
def test_operands_that_are_views(samples: list[Sample]) -> None:
    outputs = {}
    for sample in samples:
        pairs = [view(operand) for operand in sample.operands]
        node = sample.build(*(shown for _, shown in pairs))
        outputs[str(sample)] = node
        if sample.differentiable:
            for i, gradient in enumerate(projected(node, [held for held, _ in pairs])):
                outputs[f"{sample}, gradient {i}"] = gradient
    check(outputs, rtol=1e-12, atol=1e-13)


@grouped(GROUP, lambda sample: sample.empty)
def test_operands_without_elements(samples: list[Sample]) -> None:
    outputs = {}
    for sample in samples:
        leaves = [leaf(operand[:0]) for operand in sample.operands]
        node = sample.build(*leaves)
        outputs[str(sample)] = node
        if sample.differentiable:
            for i, gradient in enumerate(projected(node, leaves)):
                outputs[f"{sample}, gradient {i}"] = gradient
    check(outputs, rtol=0.0, atol=0.0)


@grouped(GROUP, lambda sample: sample.scalar and str(sample) == sample.op.__name__ + ("-same" if sample.name else ""))
def test_operands_without_axes(samples: list[Sample]) -> None:
    outputs = {}
    for sample in samples:
        leaves = [leaf(operand[1, 2]) for operand in sample.operands]
        node = sample.build(*leaves)
        outputs[str(sample)] = node
        if sample.differentiable:
            for i, gradient in enumerate(projected(node, leaves)):
                outputs[f"{sample}, gradient {i}"] = gradient
    check(outputs, rtol=1e-13, atol=1e-15)


def _first_of_each_op() -> dict[str, Sample]:
    first: dict[str, Sample] = {}
    for sample in SAMPLES:
        if is_recurrent(sample) or not sample.differentiable:
            continue
        if any(operand.dtype.kind == "f" for operand in sample.operands):
            first.setdefault(sample.op.__name__, sample)
    return first


FIRST = _first_of_each_op()


@grouped(GROUP, lambda sample: FIRST.get(sample.op.__name__) is sample)
def test_gradients_of_gradients(samples: list[Sample]) -> None:
    outputs = {}
    for sample in samples:
        leaves = [leaf(operand) for operand in sample.operands]
        floats = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
        total: Any = sum((g * g).sum() for g in projected(sample.build(*leaves), leaves))
        second: list[Any] = wy.grad(total, floats, allow_unused=True)
        for i, gradient in enumerate(second):
            outputs[f"{sample}, second gradient {i}"] = gradient
    check(outputs, rtol=1e-11, atol=1e-12)


ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-3, -20.0, 88.0, 100.0, -100.0, 1e30, -1e30, 1e-30]
ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: x.exp(), "expm1": lambda x: x.expm1(), "log": lambda x: x.log(), "log1p": lambda x: x.log1p(),
    "tanh": lambda x: x.tanh(), "sigmoid": lambda x: x.sigmoid(), "softplus": lambda x: x.softplus(),
    "erf": lambda x: x.erf(), "relu": lambda x: x.relu(), "leaky_relu": lambda x: x.leaky_relu(0.1),
    "elu": lambda x: x.elu(), "silu": lambda x: x.silu(), "gelu": lambda x: x.gelu(), "abs": abs,
    "gelu_tanh": lambda x: x.gelu(approximate=True), "sign": lambda x: x.sign(), "square": lambda x: x.square(),
    "sqrt": lambda x: x.sqrt(), "clip": lambda x: x.clip(-2.0, 2.0), "reciprocal": lambda x: 1.0 / x,
    "maximum": lambda x: x.maximum(0.5), "minimum": lambda x: x.minimum(0.5), "power": lambda x: x**0.75,
    "cube": lambda x: x**3.0, "where": lambda x: wy.where(x > 0.0, x, -1.0), "equal": lambda x: x.equal(x),
    "not_equal": lambda x: x.not_equal(x), "less_equal": lambda x: x <= 1.0, "exp2": np.exp2, "log2": np.log2,
    "log10": np.log10, "sinh": np.sinh, "cosh": np.cosh, "logaddexp": lambda x: np.logaddexp(x, x[::-1]),
}  # fmt: skip
REDUCING: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(axis=-1), "mean": lambda x: x.mean(axis=-1), "max": lambda x: x.max(axis=-1),
    "min": lambda x: x.min(axis=-1), "max_of_columns": lambda x: x.max(axis=0), "min_of_all": lambda x: x.min(),
    "logsumexp": lambda x: x.logsumexp(axis=-1), "softmax": lambda x: x.softmax(), "argmax": lambda x: x.argmax(-1),
    "log_softmax": lambda x: x.log_softmax(), "argmax_of_columns": lambda x: x.argmax(0),
    "cross_entropy": lambda x: x.cross_entropy(np.zeros(11, int), reduction="none"),
}  # fmt: skip
ROWS = [
    [np.nan, 1.0, 2.0], [1.0, np.nan, 2.0], [3.0, 1.0, np.nan], [np.inf, 1.0, 2.0], [-np.inf, 1.0, 2.0],
    [-np.inf, -np.inf, -np.inf], [np.inf, -np.inf, 0.0], [0.0, -0.0, 0.0], [88.0, -90.0, 100.0], [2.0, 2.0, 2.0],
    [1.0, np.copysign(np.nan, -1.0), 2.0],
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_odd_numbers_give_what_they_do_in_the_reference(dtype: type) -> None:
    x: Any = wy.Input(np.array(ODD, dtype), finite=False)
    with np.errstate(all="ignore"):
        outputs = {name: build(x) for name, build in ELEMENTWISE.items()}
    # float32 has its own exponential, within 1.2 units in the last place.
    tolerance = 1e-6 if dtype is np.float32 else 1e-13
    check(outputs, rtol=tolerance, atol=1e-37 if dtype is np.float32 else 0.0)


@pytest.mark.parametrize("times", [1, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_with_odd_numbers_give_what_they_do_in_the_reference(dtype: type, times: int) -> None:
    x: Any = wy.Input(np.repeat(np.array(ROWS, dtype), times, axis=1), finite=False)
    with np.errstate(all="ignore"):
        outputs = {name: build(x) for name, build in REDUCING.items()}
    tolerance = 1e-6 if dtype is np.float32 else 1e-13
    check(outputs, rtol=tolerance, atol=1e-37 if dtype is np.float32 else 0.0)


@pytest.mark.parametrize("engine", ["native", "jax"])
@pytest.mark.parametrize(("shape", "axis"), [((0, 3), 0), ((3, 0), 0), ((0,), -1)])
def test_softmax_of_no_elements(engine: Any, shape: tuple[int, ...], axis: int) -> None:
    x = wy.Parameter(np.zeros(shape))
    nodes: list[wy.Node] = [x.softmax(axis=axis), x.log_softmax(axis=axis)]
    nodes += [wy.grad(node.square().sum(), x) for node in nodes]
    for found, expected in zip(wy.compile(nodes, engine=engine)(), wy.run(nodes), strict=True):
        assert found.shape == expected.shape == shape

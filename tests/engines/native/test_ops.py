"""Every op's native form against the reference engine: values and gradients, in both float types.

In float32 with all optimizations, in float64 without: what optimizations do to a kernel does not depend on its type.
Memory is spoiled before it is written, so that an element that a kernel leaves out is NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.samples import SAMPLES
from tests.samples.grouped import grouped
from tests.samples.sample import Sample
from wyrm.engines.native.llvm import cache

pytestmark = [pytest.mark.optimized, pytest.mark.usefixtures("_spoiled_memory")]

# For native exponentials, reordered sums, and products fused with sums.
TOLERANCE: dict[Any, float] = {np.float32: 3e-5, np.float64: 1e-11}


def _leaf(operand: Any, dtype: type) -> Any:
    if operand.dtype.kind == "i":
        return wy.IndexInput(operand)
    return wy.Input(operand if operand.dtype.kind == "b" else operand.astype(dtype))


def _outputs(sample: Sample, dtype: type, random: np.random.Generator) -> list[Any]:
    """Return the sample's node, and the gradients of a random projection of it."""
    leaves = [_leaf(operand, dtype) for operand in sample.operands]
    node: Any = sample.build(*leaves)
    outputs = [node]
    floats = [leaf for leaf in leaves if leaf.dtype.kind == "f"]
    if sample.differentiable and node.dtype.kind == "f" and floats:
        found: Any = wy.vjp(node, floats, wy.Constant(random.standard_normal(node.shape).astype(dtype)))
        outputs += list(found)
    return outputs


def check(samples: list[Sample], dtype: type, **options: Any) -> None:
    """Check the values and gradients of samples that a program gives, with these options of `wyrm.compile`."""
    random = np.random.default_rng(0)
    outputs, names = [], []
    for sample in samples:
        made = _outputs(sample, dtype, random)
        outputs += made
        names += [f"{sample}, output {i}" for i in range(len(made))]
    wy.random.set_step(0)
    expected = wy.run(outputs)
    found = wy.compile(outputs, **options)()
    for name, want, have in zip(names, expected, found, strict=True):
        assert have.dtype == want.dtype, name
        np.testing.assert_allclose(have, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], err_msg=name)


@grouped(24)
def test_every_op_equals_the_reference(samples: list[Sample]) -> None:
    check(samples, np.float32, loop="python")


@grouped(24)
def test_every_op_equals_the_reference_in_float64(samples: list[Sample], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LEVEL", 0)
    check(samples, np.float64, loop="python")


@pytest.mark.parametrize("family", ["Add", "Where", "Mean", "LogSumExp", "MatMul", "Index", "Softmax", "CrossEntropy"])
def test_the_compiled_loop_gives_the_same(family: str) -> None:
    samples = [sample for sample in SAMPLES if sample.op.__name__ == family][:6]
    assert samples
    check(samples, np.float64, loop="compiled")


def test_an_empty_batch() -> None:
    class Batch(wy.Dim): ...

    x = wy.Input(dims=(Batch(), 3), name="x")
    total, rows = wy.compile([x.sum(), x.square() + 1.0])({x: np.zeros((0, 3), np.float32)})
    assert total == 0.0 and rows.shape == (0, 3)


def test_strided_data() -> None:
    data = np.arange(24.0).reshape(4, 6)[::2, ::-2]
    x = wy.Input(dims=data.shape, dtype=np.float64)
    np.testing.assert_array_equal(wy.compile(x * 2.0)({x: data}), data * 2.0)


def test_an_op_without_a_native_form_runs_by_its_evaluate() -> None:
    class Reversed(wy.Node[Any, Any]):
        """The elements in reverse order."""

        __slots__ = ()

        def __init__(self, x: Any) -> None:
            super().__init__(x)

        def shape_rule(self) -> Any:
            return self.parents[0].dims

        def dtype_rule(self) -> Any:
            return self.parents[0].dtype

        def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
            return xp.flip(operands[0])

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (Reversed(gradient),)

    x = wy.Parameter([1.0, 2.0, 3.0])
    loss = (Reversed(x * 2.0) * np.array([1.0, 0.0, 0.0])).sum()
    train = wy.compile(loss, wy.optim.SGD([x], learning_rate=1.0))
    assert train({}) == 6.0
    assert x.value.tolist() == [1.0, 2.0, 1.0]
    with pytest.raises(wy.WyrmError, match="reversed"):
        wy.compile(loss, loop="compiled")


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_a_function_of_one_number_a_row_has_a_loop_of_its_own(rows: int) -> None:
    """In a loop with short inner loops, it would be computed number by number."""

    class Batch(wy.Dim): ...

    batch, random = Batch(), np.random.default_rng(0)
    x, y = wy.Input(dims=(batch, 5), name="x"), wy.Input(dims=(batch, 5), name="y")
    gate = x.vector_dot(y).sigmoid()
    nodes = [gate, gate.expand_dims(-1) * x, (gate * 2.0).tanh()]
    data = {leaf: random.standard_normal((rows, 5)).astype(np.float32) for leaf in (x, y)}
    program = wy.compile(nodes)
    computing = [part for part in program.source.split("\n\n\n") if "float32_exp(" in part and "range(n_5)" in part]
    assert not computing
    for leaf, value in data.items():
        leaf.set(value)
    for found, node in zip(program(data), nodes, strict=True):
        np.testing.assert_allclose(found, node.forward(), rtol=1e-6, atol=1e-7)

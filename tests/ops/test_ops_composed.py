"""Ops that are compositions of others: `wy.Composed`, alone and with a kernel."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, IndexOutOfRange, LinAlgError, RegistrationError, ShapeError
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.ops.attention.cached_attention import CachedAttention
from wyrm.ops.normalization.group_norm import GroupNorm
from wyrm.ops.normalization.statistics import Variance


class Batch(wy.Dim): ...


SCAN: Any = wy.scan  # of functions of any axes


class Softmin(wy.Composed):
    """`softmax(-x)` along `axis`."""

    __slots__ = ("axis",)
    axis: int

    def compose(self, x: wy.Node) -> wy.Node:
        powers = (x.min(self.axis, keepdims=True) - x).exp()
        result: wy.Node = powers / powers.sum(self.axis, keepdims=True)
        return result


class Gated(wy.Composed):
    """`x * sigmoid(x @ weight)`."""

    def compose(self, x: wy.Node, weight: wy.Node) -> wy.Node:
        result: wy.Node = x * (x @ weight).sigmoid()
        return result


class Picked(HasIndexOperands[Any, Any], wy.Composed):
    """The row of `x` with an index."""

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(1, self.parents[0].dims[0]),)

    def compose(self, x: wy.Node, index: wy.IndexNode) -> wy.Node:
        rows: Any = x
        result: wy.Node = rows[index]
        return result


def expected(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x.min(axis, keepdims=True) - x)
    result: np.ndarray = powers / powers.sum(axis, keepdims=True)
    return result


def test_all_engines_gradients_and_vmap_follow_from_the_composition() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4))
    nodes = [Softmin(wy.Parameter(x), axis=axis) for axis in (-1, 0)]
    wy.testing.check_op(nodes, expected=[expected(x, axis) for axis in (-1, 0)])
    weight = np.random.default_rng(1).normal(size=(4, 4))
    wy.testing.check_op(Gated(wy.Parameter(x), wy.Parameter(weight)))


def test_axes_and_dtype_are_those_of_the_composition() -> None:
    x = wy.Input(dims=(Batch(), 4), name="x")
    y = Softmin(x, axis=-1)
    assert y.dims == x.dims and y.dtype == np.float32
    program = wy.compile(y)
    for rows in (2, 5, 0):
        data = np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)
        x.set(data)
        np.testing.assert_allclose(y.forward(), expected(data, -1), rtol=1e-6)
        np.testing.assert_allclose(program({x: data}), expected(data, -1), rtol=1e-6)
    # A node of Python numbers takes the float type that it meets.
    wide = wy.Parameter(np.ones(2)) + Softmin(wy.Constant([0.0, 0.0]), axis=0)
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide.forward(), [1.5, 1.5])


def test_equal_ops_share_one_composition() -> None:
    first, second, third = (wy.Constant(np.ones(size)).var() for size in (3, 3, 4))
    assert first.composition() is second.composition() is not third.composition()
    assert wy.Constant(np.ones(3)).var(ddof=1).composition() is not first.composition()


def test_a_composition_keeps_no_operand() -> None:
    class Doubled(wy.Composed):
        def compose(self, x: wy.Node) -> wy.Node:
            own: wy.Node = self.parents[0] + x
            return own

    assert Doubled(wy.Constant([1.0])).forward().tolist() == [2.0]
    assert Doubled(wy.Constant([5.0])).forward().tolist() == [10.0]


def test_an_error_inside_names_the_op_and_its_line() -> None:
    with pytest.raises(ShapeError) as refused:
        Gated(wy.Constant(np.ones((2, 3))), wy.Constant(np.ones((4, 4))))
    text = str(refused.value)
    assert text.startswith("gated: last axis of left and second-to-last axis of right do not match: 3 against 4")
    lines = text.splitlines()
    assert lines[1] == "  in matmul of operand 0 (2, 3) float64 and operand 1 (4, 4) float64"
    assert lines[2].startswith("  in compose at test_ops_composed.py:") and "@ weight" in lines[2]
    assert text.count("test_ops_composed.py") == 4  # the composition, the operands and the op
    with pytest.raises(DTypeError, match=r"^softmin\(axis=0\): "):
        Softmin(wy.Constant([1.0]) > 0.0, axis=0)
    with pytest.raises(ShapeError, match=r"(?s)^softmin\(axis=3\): .*\n  operand +x \(2,\)"):
        Softmin(wy.Parameter([1.0, 2.0], name="x"), axis=3)


def test_an_error_of_a_composition_in_another_names_both() -> None:
    class Twofold(wy.Composed):
        def compose(self, x: wy.Node) -> wy.Node:
            return Gated(x, x)

    with pytest.raises(ShapeError) as refused:
        Twofold(wy.Constant(np.ones((2, 3))))
    first, *lines = str(refused.value).splitlines()
    assert first.startswith("twofold: last axis of left and second-to-last axis of right do not match: 3 against 2")
    assert [re.sub(r":\d+", "", line) for line in lines] == [
        "  in matmul of operand 0 (2, 3) float64 and operand 1 (2, 3) float64",
        "  in compose at test_ops_composed.py: result: wy.Node = x * (x @ weight).sigmoid()",
        "  in gated of operand 0 (2, 3) float64 and operand 0 (2, 3) float64",
        "  in compose at test_ops_composed.py: return Gated(x, x)",
        "  operand  constant (2, 3) float64 (at test_ops_composed.py)",
        f"  at {__file__}: Twofold(wy.Constant(np.ones((2, 3))))",
    ]


def test_an_error_in_an_op_of_this_library_has_its_reason_alone() -> None:
    with pytest.raises(ShapeError) as refused:
        GroupNorm(wy.Constant(np.ones((2, 3))), groups=2)
    assert "\n  in " not in str(refused.value)


def test_an_error_in_the_data_names_the_op_and_its_line() -> None:
    x, index = wy.Constant(np.ones((3, 2))), wy.IndexInput(name="index")
    for value in (3, -4):
        picked = Picked(x, index)
        with pytest.raises(IndexOutOfRange, match=str(value)) as refused:
            index.set(value)
            picked.forward()
        assert "picked" in str(refused.value)
    inverse = wy.linalg.pinv(wy.Constant([[np.nan, 1.0], [0.0, 1.0]]))
    with pytest.raises(LinAlgError, match=r"^pinv.*: the matrix holds a NaN") as raised:
        inverse.forward()
    assert "svd" not in str(raised.value)


def test_an_op_without_a_composition_is_refused() -> None:
    with pytest.raises(RegistrationError, match="op Nothing lacks compose, which returns its value as a graph"):

        class Nothing(wy.Composed): ...


def test_a_composition_of_other_leaves_is_refused() -> None:
    hidden = wy.Parameter([2.0], name="hidden")

    class Scaled(wy.Composed):
        def compose(self, x: wy.Node) -> wy.Node:
            result: wy.Node = x * hidden
            return result

    class Empty(wy.Composed):
        def compose(self, x: wy.Node) -> Any:
            x.exp()

    class Layer(wy.Composed):
        def compose(self, x: wy.Node) -> Any:
            return wy.nn.Linear(3, 3)(x)

    with pytest.raises(RegistrationError, match=r"op Scaled: compose reads hidden \(1,\) float32 .*make it an operand"):
        Scaled(wy.Constant([1.0]))
    with pytest.raises(RegistrationError, match="op Empty: compose returned NoneType; return a node made of operands"):
        Empty(wy.Constant([1.0]))
    with pytest.raises(RegistrationError, match="op Layer: compose reads weight"):
        Layer(wy.Constant([1.0, 1.0, 1.0]))


def test_the_value_of_an_operand_is_not_known_in_a_composition() -> None:
    class Early(wy.Composed):
        def compose(self, x: wy.Node) -> wy.Node:
            return wy.Constant(x.forward())

    with pytest.raises(wy.errors.NotSet, match=r"an argument of .* a composed op"):
        Early(wy.Constant([1.0]))


def test_a_kernel_must_equal_the_composition() -> None:
    class Halved(wy.Composed):
        def compose(self, x: wy.Node) -> wy.Node:
            result: wy.Node = x * 0.5
            return result

    class HalvedLoops(wy.LoopForm):
        @staticmethod
        def kernel(x: np.ndarray, out: np.ndarray) -> None:
            for i in range(x.size):
                out[i] = x[i] / 3

        def kernel_arguments(self, node: Any, operands: Any, out: np.ndarray) -> tuple[np.ndarray, ...]:
            return operands[0].reshape(-1), out.reshape(-1)

    wy.testing.check_op(Halved(wy.Parameter([1.0, 2.0])))
    wy.LOOPS.register(Halved)(HalvedLoops)
    with pytest.raises(wy.testing.OpError, match="kernel"):
        wy.testing.check_op(Halved(wy.Parameter([1.0, 2.0])))


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_an_axis_without_elements_has_no_value_to_compute(engine: Any) -> None:
    x = wy.Input(dims=(Batch(), 6), name="x")
    for node in (x.softmax(), x.logsumexp(-1), Variance(x, -1), GroupNorm(x, groups=2)):
        program = wy.compile(node, engine=engine)
        for rows in (0, 2):
            x.set(np.ones((rows, 6), np.float32))
            assert node.forward().shape == program({x: np.ones((rows, 6), np.float32)}).shape


class FirstFive(wy.Composed):
    def compose(self, x: wy.Node) -> wy.Node:
        rows: Any = x
        result: wy.Node = rows[:5].sum(0)
        return result


class Spread(wy.Composed):
    def compose(self, x: wy.Node) -> wy.Node:
        result: wy.Node = x.std(0)
        return result


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
@pytest.mark.parametrize("op", [FirstFive, Spread])
def test_sizes_that_the_parts_refuse_are_refused(op: Any, engine: Any) -> None:
    x = wy.Input(dims=(Batch(), 3), name="x")
    node = op(x)
    for rows in (0, 3):
        data = np.ones((rows, 3), np.float32)
        if op is Spread and rows:
            continue
        with pytest.raises(ShapeError, match=r"^(first_five|spread): "):
            if engine == "numpy":
                x.set(data)
                node.forward()
            else:
                wy.compile(node, engine=engine)({x: data})


def test_a_composition_that_looks_up_an_operand_without_saying_so_is_refused() -> None:
    class Unchecked(wy.Composed):
        def compose(self, x: Any, index: wy.IndexNode) -> Any:
            return x[index]

    with pytest.raises(RegistrationError, match="op Unchecked: compose looks up elements by an operand"):
        Unchecked(wy.Constant(np.ones((3, 2))), wy.IndexConstant(1))


def test_indices_of_composed_ops_in_loops_are_checked() -> None:
    table, positions = wy.Parameter(np.ones((4, 2)), name="table"), wy.Parameter(np.zeros((1, 2)))
    indices = wy.IndexInput(dims=(3, 1), name="indices")

    def step(carry: Any, row: Any) -> Any:
        found = table.embed(row * 1, positions)
        return carry + found.sum(), found

    last, _ = SCAN(step, wy.Constant(0.0, dtype=np.float64), indices)
    for wrong in (-5, 4):
        indices.set(np.array([[0], [wrong], [1]]))
        with pytest.raises(IndexOutOfRange, match=str(wrong)):
            last.forward()


SHARED = wy.Constant(np.arange(3.0))


class Inner(wy.Composed):
    def compose(self, x: wy.Node) -> wy.Node:
        result: wy.Node = x * SHARED
        return result


class Outer(wy.Composed):
    def compose(self, x: wy.Node) -> wy.Node:
        result: wy.Node = (Inner(x + SHARED) + SHARED) * SHARED
        return result


def test_compositions_share_constants() -> None:
    x, k = np.array([1.0, 5.0, 7.0]), np.arange(3.0)
    node = Outer(wy.Constant(x))
    for value in (node.forward(), wy.compile(node)(), wy.compile(node, engine="jax")()):
        np.testing.assert_allclose(value, ((x + k) * k + k) * k, rtol=1e-6)


def test_masks_keep_the_float_type_behind_them() -> None:
    class Marked(wy.Composed):
        def compose(self, mask: wy.Node) -> wy.Node:
            result: wy.Node = wy.where(mask, 0.1, 0.0)
            return result

    for dtype in (np.float64, np.float32):
        node = Marked(wy.Constant(np.array([1.0, 3.0], dtype)) > 2.0)
        assert node.dtype == dtype
        for value in (node.forward(), wy.compile(node)()):
            assert value.dtype == dtype and value[1] == dtype(0.1)


def test_attributes_that_are_equal_and_differ() -> None:
    class Signed(wy.Composed):
        __slots__ = ("beside",)
        beside: float

        def compose(self, x: wy.Node) -> wy.Node:
            result: wy.Node = wy.copysign(x, self.beside)
            return result

    x = wy.Constant([1.0, 2.0])
    assert [Signed(x, beside=sign).forward()[0] for sign in (0.0, -0.0, 0.0)] == [1.0, -1.0, 1.0]


def test_a_composed_op_takes_a_gradient_of_rows_in_a_loop() -> None:
    table, weight = wy.Parameter(np.ones((4, 2)), name="table"), wy.Constant(np.ones(2))

    def step(carry: Any, row: Any) -> Any:
        of_table = wy.grad(table[row].square().sum(), table)
        return carry + of_table.layer_norm(weight).sum(), of_table.layer_norm(weight)

    last, each = SCAN(step, wy.Constant(0.0, dtype=np.float64), wy.IndexConstant([[0], [2]]))
    assert each.forward().shape == (2, 4, 2) and last.forward() == 0.0


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_loop_in_a_composition_in_a_loop(engine: Any) -> None:
    class Doubled(wy.Composed):
        def compose(self, x: wy.Node) -> wy.Node:
            result: wy.Node = SCAN(lambda carry, row: (carry + row, carry), wy.zeros_like(x[0]), x)[0]
            return result

    data = np.arange(12.0).reshape(2, 3, 2)
    total, _ = SCAN(lambda carry, rows: (carry + Doubled(rows), carry), wy.Constant(np.zeros(2)), wy.Constant(data))
    np.testing.assert_allclose(total.forward(), data.sum((0, 1)))
    np.testing.assert_allclose(wy.compile(total, engine=engine)(), data.sum((0, 1)), rtol=1e-6)


def test_gradients_by_jax_are_those_of_the_graph() -> None:
    class Bent(wy.Composed):
        def compose(self, x: wy.Node) -> wy.Node:
            result: wy.Node = x.relu() + abs(x)
            return result

    x = wy.Input(np.array([-1.0, 0.0, 2.0], np.float32), name="x")
    bent, parameters = wy.jax.lower(Bent(x).sum(), [x])
    slope = jax.grad(lambda value: bent(parameters, value))(np.array([-1.0, 0.0, 2.0], np.float32))
    np.testing.assert_array_equal(slope, wy.grad(Bent(x).sum(), x).forward())
    a = wy.Input(np.eye(3, dtype=np.float32), name="a")
    inverse, parameters = wy.jax.lower(wy.linalg.pinv(a).sum(), [a])
    slope = jax.grad(lambda value: inverse(parameters, value))(np.eye(3, dtype=np.float32))
    assert np.isfinite(slope).all()


def test_what_is_not_finite_stays_out_of_earlier_positions() -> None:
    qkv = np.ones((1, 2, 3, 1, 2), np.float32)
    qkv[0, 1, 1] = np.nan
    cache, allowed = wy.Constant(np.ones((1, 2, 1, 1, 2), np.float32)), wy.Constant(np.array([[True]]))
    query, key, value = (wy.Constant(qkv[:, :, i]) for i in range(3))
    node = CachedAttention(query, key, value, cache, allowed)
    for found in (node.forward(), wy.compile(node)(), wy.compile(node, engine="jax")()):
        np.testing.assert_allclose(found[0, 0], np.ones((1, 2)), rtol=1e-6)

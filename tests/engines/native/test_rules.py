"""Native code for user-defined ops: each way in which a loop form can define the elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import RegistrationError
from wyrm.graph.index_maps import IndexLiteral, IndexMap
from wyrm.graph.loop_form import Reducer, ScatterTarget

pytestmark = pytest.mark.optimized


class Mine(wy.Unary, abstract=True):
    """An op on rows of numbers, without a formula."""

    __slots__ = ()

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (wy.Undefined("nobody asks"),)


class Flip(Mine):
    """The last axis in reverse order."""

    __slots__ = ()

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return operands[0][..., ::-1]


class FlipByReading(Flip):
    """By the index of each element in the operand."""

    __slots__ = ()


@wy.LOOPS.register(FlipByReading)
class FlipByReadingLoops(wy.LoopForm):
    def gather_index(self, node: Any, index: IndexMap) -> IndexMap:
        return (*index[:-1], IndexLiteral(node.shape[-1] - 1) - index[-1])


class FlipByWriting(Flip):
    """By the index of each element in the result."""

    __slots__ = ()


@wy.LOOPS.register(FlipByWriting)
class FlipByWritingLoops(wy.LoopForm):
    starts_from_zero = False

    def scatter_index(self, node: Any, parent: int, index: IndexMap) -> ScatterTarget:
        return ScatterTarget((*index[:-1], IndexLiteral(node.shape[-1] - 1) - index[-1]))


class FlipByKernel(Flip):
    """By a kernel."""

    __slots__ = ()


@wy.LOOPS.register(FlipByKernel)
class FlipByKernelLoops(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, x.shape[1] - 1 - j]


class Cubed(Mine):
    """By simpler ops."""

    __slots__ = ()

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return operands[0] * operands[0] * operands[0]


@wy.LOOPS.register(Cubed)
class CubedLoops(wy.LoopForm):
    def decompose(self, node: Any) -> Any:
        (x,) = node.parents
        return x * x * x


class SumOfSquares(Mine):
    """By a reduction over the last axis."""

    __slots__ = ()

    def shape_rule(self) -> Any:
        return self.parents[0].dims[:-1]

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return xp.sum(operands[0] * operands[0], axis=-1)


@wy.LOOPS.register(SumOfSquares)
class SumOfSquaresLoops(wy.LoopForm):
    reducer = Reducer(0.0, "total + x * x")

    def reduce_axes(self, node: Any) -> tuple[int, ...]:
        return (node.ndim,)


VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("op", [FlipByReading, FlipByWriting, FlipByKernel, Cubed, SumOfSquares])
def test_native_code_computes_what_the_op_means(op: Any) -> None:
    x = wy.Input(dims=(3, 4), name="x")
    node = op(x * 2.0) + 1.0
    found = wy.compile(node, loop="compiled")({x: VALUES})
    x.set(VALUES)
    np.testing.assert_array_equal(found, node.forward())


class FlipOfKind(FlipByKernel):
    """An op that has the loop form of its base class."""

    __slots__ = ()


class Plain(Flip):
    """An op without a loop form, and then with one."""

    __slots__ = ()


def test_an_op_has_the_loop_form_of_its_base_class() -> None:
    x = wy.Input(dims=(3, 4), name="x")
    np.testing.assert_array_equal(wy.compile(FlipOfKind(x), loop="compiled")({x: VALUES}), VALUES[:, ::-1])


def test_a_loop_form_may_be_registered_after_the_op_was_compiled_without() -> None:
    x = wy.Input(dims=(3, 4), name="x")
    node = Plain(x)
    assert "evaluate_plain" in wy.compile(node).source
    wy.LOOPS.register(Plain)(FlipByKernelLoops)
    program = wy.compile(node, loop="compiled")
    assert "plain_kernel" in program.source
    np.testing.assert_array_equal(program({x: VALUES}), VALUES[:, ::-1])


class Three(wy.Elementwise):
    """A sum of two of its three operands."""

    __slots__ = ()
    formula = "x + y"

    def __init__(self, x: Any, y: Any, z: Any) -> None:
        super().__init__(x, y, z)

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return gradient, gradient, wy.ZERO


def test_a_formula_of_fewer_operands_than_there_are() -> None:
    x = wy.Input(dims=(3, 4), name="x")
    node = Three(x @ np.ones((4, 4), np.float32), x * 2.0, x.tanh())
    np.testing.assert_array_equal(wy.compile(node)({x: VALUES}), VALUES.sum(1, keepdims=True) + 2.0 * VALUES)


def test_a_kernel_in_the_class_of_an_op_is_refused() -> None:
    with pytest.raises(RegistrationError, match="op Old has 'kernel', which belongs in a rule for the op"):

        class Old(Flip):
            @staticmethod
            def kernel(x: Any, out: Any) -> None:
                out[0] = x[0]

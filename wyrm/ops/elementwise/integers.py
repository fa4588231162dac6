"""Arithmetic of integer nodes, elementwise: operators, maximum and minimum, selection by a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, overload

import numpy as np

from wyrm.errors import DTypeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Dim, Dims, broadcast
from wyrm.graph.base import ZERO, BaseNode, Gradient, describe, label
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.storage import bound_array
from wyrm.graph.typing import IntegerArray, Number, Size
from wyrm.ops.batching import aligned
from wyrm.ops.elementwise.broadcasts import operator_of_integers
from wyrm.ops.elementwise.conversion import weak_floats
from wyrm.ops.elementwise.elementwise import Axes, S, bind_operator, method, size_beside
from wyrm.support.imports import jnp


class IndexArithmetic(IndexNode[Axes], abstract=True):
    """An elementwise op on integers, with int64 results that wrap around on overflow, as in NumPy.

    The operands broadcast. `operator` is the Python operator that constructs the op.
    """

    __slots__ = ()
    # The declarations of the operator and of its reflected form.
    index_declaration: ClassVar[str] = operator_of_integers()
    index_reflected = "def {method}(self: IndexNode[S], other: Size | IntegerArray) -> {op}[S]: ..."

    @classmethod
    def _bind_members(cls) -> None:
        if "operator" in cls.__dict__:
            bind_operator(cls, str(cls.operator), IndexNode, integers_beside)
        if "method" in cls.__dict__:
            method(cls.op_name(), IndexNode, op=cls)(_method_of(cls))

    def __init__(self, x: IndexNode, y: IndexNode) -> None:
        self._construct((x, y))

    def shape_rule(self) -> Dims:
        x, y = self.parents
        return broadcast(x.dims, y.dims)

    def dtype_rule(self) -> np.dtype:
        self.check_integers(self.parents)
        return super().dtype_rule()

    @staticmethod
    def check_integers(operands: Sequence[BaseNode]) -> None:
        """Raise `DTypeError` for an operand that does not hold integers."""
        for operand in operands:
            if not isinstance(operand, IndexNode):
                raise DTypeError(f"{describe(operand)} holds {operand.dtype}, not integers")

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> BaseNode | None:
        parents: Any = (aligned(x, many, self.ndim) for x, many in zip(operands, mapped, strict=True))
        return type(self)(*parents)

    # Integers have no derivatives.
    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,) * len(self.parents)


def integers_beside(other: object, node: IndexNode) -> IndexNode | None:
    """Return the other operand as integers; None if it does not hold numbers."""
    if isinstance(other, IndexNode):
        return other
    if isinstance(other, Dim):
        size: IndexNode = size_beside(other, node)
        return size
    if isinstance(other, list):
        other = as_array(other, lambda: f"the operand beside {describe(node)}")
    kind = other.dtype.kind if isinstance(other, BaseNode | np.ndarray | np.generic) else ""
    if isinstance(other, int | np.integer | np.ndarray) and not isinstance(other, bool) and kind in ("", "i", "u"):
        integers: Any = other
        return IndexConstant(integers)
    if isinstance(other, bool | float) or kind:
        what = describe(other) if isinstance(other, BaseNode) else repr(other)
        raise DTypeError(
            f"{describe(node)} holds integers, and {what} does not: convert the integers with .astype(np.float32), or "
            f"use integers"
        )
    return None


def _method_of(cls: Any) -> Callable[[IndexNode, object], object]:
    """Return the method by which an index node constructs an op of two operands that is no operator."""

    def build(self: IndexNode, other: object) -> object:
        integers = integers_beside(other, self)
        if integers is None:
            raise TypeError(f"{cls.op_name()}: {describe(self)} holds integers, and {type(other).__name__} does not")
        return cls(self, integers)

    return build


class IndexAdd(IndexArithmetic[Axes]):
    """Elementwise sum of integers."""

    __slots__ = ()
    formula = "x + y"
    operator = "add"


class IndexSubtract(IndexArithmetic[Axes]):
    """Elementwise difference of integers."""

    __slots__ = ()
    formula = "x - y"
    operator = "sub"


class IndexMultiply(IndexArithmetic[Axes]):
    """Elementwise product of integers."""

    __slots__ = ()
    formula = "x * y"
    operator = "mul"


class IndexFloorDivide(IndexArithmetic[Axes]):
    """Elementwise quotient of integers, rounded down; 0 where the divisor is 0, as in NumPy."""

    __slots__ = ()
    formula = "floor_divide(x, y)"
    operator = "floordiv"


class IndexRemainder(IndexArithmetic[Axes]):
    """Elementwise rest of the division of integers that rounds down; 0 where the divisor is 0, as in NumPy."""

    __slots__ = ()
    formula = "remainder(x, y)"
    operator = "mod"

    @property
    def within(self) -> int | None:
        """The divisor, if it is one constant above 0: the values are below it, and at least 0."""
        divisor = self.parents[1]
        if not isinstance(divisor, IndexConstant) or divisor.dims:
            return None
        return max(0, int(bound_array(divisor))) or None


@JAX.register(IndexFloorDivide, IndexRemainder)
class _DivisionForm(JaxForm):
    """The quotient or the rest; XLA gives other values than 0 where the divisor is 0."""

    def lower(self, node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, y = operands
        divide = jnp.floor_divide if isinstance(node, IndexFloorDivide) else jnp.remainder
        return jnp.where(y == 0, 0, divide(x, jnp.where(y == 0, 1, y)))


@method("__neg__", IndexNode)
def negated(x: IndexNode[S]) -> IndexSubtract[S]:
    """Return the elementwise negation of integers."""
    zero: Any = IndexConstant(0)
    return IndexSubtract(zero, x)


class IndexMaximum(IndexArithmetic[Axes]):
    """The larger of two integers, elementwise; the other operand is an integer node, an integer, or an array."""

    __slots__ = ()
    formula = "maximum(x, y)"
    method = "maximum"


class IndexMinimum(IndexArithmetic[Axes]):
    """The smaller of two integers, elementwise; the other operand is an integer node, an integer, or an array."""

    __slots__ = ()
    formula = "minimum(x, y)"
    method = "minimum"


class IndexWhere(IndexArithmetic[Axes]):
    """Elementwise selection of integers: `y` where the mask `x` is true, else `z`; the operands broadcast."""

    __slots__ = ()
    formula = "where(x, y, z)"

    def __init__(self, condition: Node, x: IndexNode, y: IndexNode, name: str | None = None) -> None:
        self._construct((condition, x, y), name)

    def shape_rule(self) -> Dims:
        condition, x, y = self.parents
        return broadcast(broadcast(condition.dims, x.dims), y.dims)

    def dtype_rule(self) -> np.dtype:
        condition, *choices = self.parents
        if condition.dtype.kind != "b":
            raise DTypeError(f"the condition must be a mask, such as x > 0; {label(condition)} is {condition.dtype}")
        self.check_integers(choices)
        return np.dtype(np.int64)

    def bounds(self, operands: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return the least and the greatest value for integers within these."""
        return min(least for least, _ in operands), max(greatest for _, greatest in operands)


def where_integers(condition: Node, x: object, y: object) -> IndexWhere:
    """Return `wy.where` for operands of which one is an integer node; the other holds integers too."""
    beside: Any = next(each for each in (x, y) if isinstance(each, IndexNode))
    first, second = (integers_beside(each, beside) for each in (x, y))
    if first is None or second is None:
        other = x if first is None else y
        raise TypeError(f"where: {describe(beside)} holds integers, and {type(other).__name__} does not")
    return IndexWhere(condition, first, second)


@overload
def clip(x: IndexNode, min: IndexNode, max: IndexNode | IntegerArray | Size | None = None) -> IndexNode: ...
@overload
def clip(x: IndexNode, min: IntegerArray | Size | None, max: IndexNode) -> IndexNode: ...
@overload
def clip(
    x: IndexNode[S], min: IntegerArray | Size | None = None, max: IntegerArray | Size | None = None
) -> IndexNode[S]: ...
@method("clip", IndexNode)
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """Return the integers limited to `min` and `max`, of which None is no limit; where they cross, `max` wins.

    >>> wy.IndexConstant([-2, 1, 7]).clip(0, 5).forward().tolist()
    [0, 1, 5]
    """
    if min is not None:
        x = x.maximum(min)
    return x if max is None else x.minimum(max)


@method("abs", IndexNode)
def absolute(x: IndexNode[S]) -> IndexNode[S]:
    """Return the absolute values of integers; the smallest integer of 64 bits has none and stays, as in NumPy.

    >>> abs(wy.IndexConstant([-2, 1])).forward().tolist()
    [2, 1]
    """
    return IndexMaximum(x, IndexConstant(0) - x)


method("__abs__", IndexNode)(absolute)


@overload
def quotient(x: IndexNode[S], other: Number) -> Node[Any, S]: ...


@overload
def quotient(x: IndexNode, other: IndexNode | IntegerArray) -> Node: ...


@method("__truediv__", IndexNode)
def quotient(x: IndexNode, other: object) -> Any:
    """Return the elementwise quotient of integers, of a weak float type.

    >>> ((wy.Constant([1.0, 0.0]) > 0.5).sum() / 2).forward().item()
    0.5
    """
    divisor: Any = other if isinstance(other, float) else integers_beside(other, x)
    if divisor is None:
        return NotImplemented
    return weak_floats(x) / (divisor if isinstance(divisor, float) else weak_floats(divisor))

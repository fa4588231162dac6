"""Masks, elementwise: comparisons, logical ops, questions about a number; and `where`, which selects by a mask."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Dim, One
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import A, Array, BoolArray, Bs, FittingShape, IntegerArray, M, N, Number, OfShape, Shaped, Size
from wyrm.graph.weak_types import FLOATS, chosen, default_type
from wyrm.ops.elementwise.broadcasts import operator_of_integers
from wyrm.ops.elementwise.elementwise import (
    COMPARISONS,
    Axes,
    Binary,
    Elementwise,
    L,
    Left_co,
    R,
    Right_co,
    Unary,
    bind_operator,
    common_dtype,
    operand,
    size_beside,
)


class Comparison(Binary[Left_co, Right_co, Axes], abstract=True):
    """An elementwise comparison; the result is a bool mask, and the gradient is `ZERO`."""

    __slots__ = ()
    # For `x < y` Python's reflected method is `y > x`, another op, so the left operand's method has all overloads.
    operator_declaration: ClassVar[str] = Binary.declaration
    index_declaration: ClassVar[str] = operator_of_integers("Any, Any, ")

    @classmethod
    def _bind_members(cls) -> None:
        super()._bind_members()
        if cls.operator in COMPARISONS:
            bind_operator(cls, cls.operator, IndexNode, _integers_to_compare)

    def dtype_rule(self) -> np.dtype:
        if not all(isinstance(parent, IndexNode) for parent in self.parents):
            common_dtype(self.parents)
        return np.dtype(np.bool_)

    def _is_mask(self) -> Literal[True]:
        return True


def _integers_to_compare(other: object, node: IndexNode) -> IndexNode | None:
    """Return the other operand of a comparison as integers; None if it does not hold numbers."""
    if isinstance(other, IndexNode):
        return other
    if isinstance(other, Dim):
        size: IndexNode = size_beside(other, node)
        return size
    if isinstance(other, int | np.integer | np.ndarray) and not isinstance(other, bool):
        integers: Any = other
        return IndexConstant(integers)
    if isinstance(other, Node | bool | np.bool_ | float | np.floating):
        what = describe(other) if isinstance(other, Node) else repr(other)
        raise DTypeError(f"{describe(node)} holds integers; compare it with integers, not with {what}")
    return None


class _Mask(BaseNode, abstract=True):
    """An op whose operands are bool masks."""

    __slots__ = ()

    def _is_mask(self) -> Literal[True]:
        return True

    def dtype_rule(self) -> np.dtype:
        for parent in self.parents:
            if parent.dtype.kind != "b":
                raise DTypeError(f"operands must be masks, such as x > 0; {label(parent)} is {parent.dtype}")
        return np.dtype(np.bool_)


class Less(Comparison[Left_co, Right_co, Axes]):
    """Elementwise `x < y`, as a mask."""

    __slots__ = ()
    _own: Less[Any, Any, Axes]
    formula = "x < y"
    operator = "lt"


class LessEqual(Comparison[Left_co, Right_co, Axes]):
    """Elementwise `x <= y`, as a mask."""

    __slots__ = ()
    _own: LessEqual[Any, Any, Axes]
    formula = "x <= y"
    operator = "le"


class Greater(Comparison[Left_co, Right_co, Axes]):
    """Elementwise `x > y`, as a mask."""

    __slots__ = ()
    _own: Greater[Any, Any, Axes]
    formula = "x > y"
    operator = "gt"


class GreaterEqual(Comparison[Left_co, Right_co, Axes]):
    """Elementwise `x >= y`, as a mask."""

    __slots__ = ()
    _own: GreaterEqual[Any, Any, Axes]
    formula = "x >= y"
    operator = "ge"


class Equal(Comparison[Left_co, Right_co, Axes]):
    """Elementwise `x == y`, as a mask.

    >>> wy.Constant([1.0, 2.0]).equal(2.0).forward().tolist()
    [False, True]
    """

    __slots__ = ()
    _own: Equal[Any, Any, Axes]
    formula = "x == y"
    operator = "eq"
    method = "equal"
    only_method = True


class NotEqual(Comparison[Left_co, Right_co, Axes]):
    """Elementwise `x != y`, as a mask.

    >>> wy.Constant([1.0, 2.0]).not_equal(2.0).forward().tolist()
    [True, False]
    """

    __slots__ = ()
    _own: NotEqual[Any, Any, Axes]
    formula = "x != y"
    operator = "ne"
    method = "not_equal"
    only_method = True


class LogicalAnd(_Mask, Comparison[Left_co, Right_co, Axes]):
    """Elementwise logical and of two masks, `x & y`."""

    __slots__ = ()
    _own: LogicalAnd[Any, Any, Axes]
    operator_declaration: ClassVar[str] = Binary.operator_declaration
    formula = "x & y"
    operator = "and"


class LogicalOr(_Mask, Comparison[Left_co, Right_co, Axes]):
    """Elementwise logical or of two masks, `x | y`."""

    __slots__ = ()
    _own: LogicalOr[Any, Any, Axes]
    operator_declaration: ClassVar[str] = Binary.operator_declaration
    formula = "x | y"
    operator = "or"


class LogicalXor(_Mask, Comparison[Left_co, Right_co, Axes]):
    """Elementwise exclusive or of two masks, `x ^ y`."""

    __slots__ = ()
    _own: LogicalXor[Any, Any, Axes]
    operator_declaration: ClassVar[str] = Binary.operator_declaration
    formula = "x != y"
    operator = "xor"


class LogicalNot(_Mask, Unary[Left_co, Axes]):
    """Elementwise logical not of a mask, `~x`."""

    __slots__ = ()
    _own: LogicalNot[Any, Axes]
    formula = "~x"
    method = "__invert__"

    @classmethod
    def op_name(cls) -> str:
        return "logical_not"


class Where(Elementwise[tuple[Any, Left_co, Right_co], Axes]):
    """Elementwise selection: `y` where the mask `x` is true, else `z`; the operands broadcast."""

    __slots__ = ()
    _own: Where[Any, Any, Axes]
    formula = "where(x, y, z)"

    def __init__(self, condition: BaseNode, x: Node, y: Node) -> None:
        self._construct((condition, x, y))

    def dtype_rule(self) -> np.dtype:
        condition, x, y = self.parents
        if condition.dtype.kind != "b":
            raise DTypeError(f"the condition must be a mask, such as x > 0; {label(condition)} is {condition.dtype}")
        return common_dtype((x, y))


Mask = BoolArray | bool
OneNumber = Number | Array | Shaped[Any, tuple[()]]
Shape = TypeVar("Shape")  # mypy's messages show this name


@overload
def where(
    condition: Shaped[Any, Shape] | Shaped[Any, tuple[()]] | Mask, x: Shaped[L, Shape], y: Number | Array
) -> Where[L, Constant, Shape]: ...
@overload
def where(
    condition: Shaped[Any, Shape] | Shaped[Any, tuple[()]] | Mask, x: Number | Array, y: Shaped[R, Shape]
) -> Where[Constant, R, Shape]: ...
@overload
def where(
    condition: Shaped[Any, Shape] | Shaped[Any, tuple[()]] | Mask,
    x: Shaped[L, Shape],
    y: Shaped[Any, FittingShape[Shape]],
) -> Where[L, Any]: ...
@overload
def where(condition: Node | Mask, x: Shaped[Any, FittingShape], y: Shaped[R, Shape]) -> Where[Any, R]: ...
@overload
def where(
    condition: Shaped[Any, Shape] | Shaped[Any, tuple[()]] | Mask,
    x: Shaped[L, Shape],
    y: Shaped[R, Shape] | Shaped[R, tuple[()]],
) -> Where[L, R, Shape]: ...
@overload
def where(condition: Shaped[Any, Shape], x: OneNumber, y: OneNumber) -> Where[Any, Any, Shape]: ...
@overload
def where(condition: Shaped[Any, Shape] | Mask, x: Shaped[L, tuple[()]], y: Shaped[R, Shape]) -> Where[L, R, Shape]: ...
@overload
def where(
    condition: Shaped[Any, tuple[*Bs, N]] | Shaped[Any, tuple[N]] | Shaped[Any, tuple[*Bs, One]] | Mask,
    x: OfShape[L, tuple[*Bs, N]],
    y: Shaped[R, tuple[*Bs, N]] | Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]],
) -> Where[L, R, tuple[*Bs, N]]: ...
@overload
def where(
    condition: Shaped[Any, tuple[*Bs, N]] | Shaped[Any, tuple[N]] | Shaped[Any, tuple[*Bs, One]] | Mask,
    x: Shaped[L, tuple[N]] | Shaped[L, tuple[*Bs, One]],
    y: OfShape[R, tuple[*Bs, N]],
) -> Where[L, R, tuple[*Bs, N]]: ...
@overload
def where(
    condition: Shaped[Any, tuple[N]] | Shaped[Any, tuple[*Bs, One]], x: OfShape[L, tuple[*Bs, N]], y: Number | Array
) -> Where[L, Constant, tuple[*Bs, N]]: ...
@overload
def where(
    condition: Shaped[Any, tuple[M, N]], x: OfShape[L, tuple[A, *Bs, M, N]], y: Number | Array
) -> Where[L, Constant, tuple[A, *Bs, M, N]]: ...
@overload
def where(condition: Node | Mask, x: IndexNode, y: IndexNode | Size | IntegerArray) -> IndexNode: ...
@overload
def where(condition: Node | Mask, x: Size | IntegerArray, y: IndexNode) -> IndexNode: ...
def where(condition: Any, x: object, y: object) -> Any:
    """Return `x` where the mask `condition` is true, else `y`, elementwise; the operands broadcast.

    Raise `DTypeError` if `condition` is not a bool mask, and `TypeError` if `x` or `y` does not hold numbers.

    >>> x = wy.Constant([-1.0, 2.0])
    >>> wy.where(x > 0, x, 0.0).forward().tolist()
    [0.0, 2.0]
    """
    nodes = [v for v in (x, y) if isinstance(v, Node)]
    if nodes:
        beside: Node = next((node for node in nodes if node.dtype.kind == "f"), nodes[0])
    else:  # arrays keep their float dtype, as in a leaf
        floats = [v.dtype for v in (x, y) if isinstance(v, np.ndarray | np.generic) and v.dtype in FLOATS]
        sources = (condition,) if isinstance(condition, BaseNode) else ()
        beside = as_constant(0.0, chosen(max(floats)) if floats else default_type(*sources))
    if isinstance(condition, BaseNode):
        mask: Any = condition
    else:
        array = as_array(condition, "where: the condition")
        if array.dtype.kind != "b":
            raise DTypeError(f"where: the condition must be a mask, such as x > 0, not an array of {array.dtype}")
        mask = as_constant(array, np.bool_)
    if isinstance(x, IndexNode) or isinstance(y, IndexNode):
        from wyrm.ops.elementwise.integers import where_integers

        return where_integers(mask, x, y)
    return Where(mask, operand(x, beside), operand(y, beside))


class _Predicate(Unary[Left_co, Axes], abstract=True):
    """An op whose result is a mask."""

    __slots__ = ()

    def _is_mask(self) -> Literal[True]:
        return True

    def dtype_rule(self) -> np.dtype:
        common_dtype(self.parents)
        return np.dtype(np.bool_)


class IsNan(_Predicate[Left_co, Axes]):
    """Elementwise, whether `x` is NaN.

    >>> wy.isnan(wy.Constant([np.nan, 1.0])).forward().tolist()
    [True, False]
    """

    __slots__ = ()
    _own: IsNan[Any, Axes]
    formula = "isnan(x)"
    function = "isnan"


class IsInf(_Predicate[Left_co, Axes]):
    """Elementwise, whether `x` is infinite, of either sign.

    >>> wy.isinf(wy.Constant([-np.inf, np.nan])).forward().tolist()
    [True, False]
    """

    __slots__ = ()
    _own: IsInf[Any, Axes]
    formula = "isinf(x)"
    function = "isinf"


class IsFinite(_Predicate[Left_co, Axes]):
    """Elementwise, whether `x` is neither infinite nor NaN.

    >>> wy.isfinite(wy.Constant([np.inf, np.nan, 1.0])).forward().tolist()
    [False, False, True]
    """

    __slots__ = ()
    _own: IsFinite[Any, Axes]
    formula = "isfinite(x)"
    function = "isfinite"


class Signbit(_Predicate[Left_co, Axes]):
    """Elementwise, whether the sign bit of `x` is set: `x` is below zero, or a zero below zero.

    >>> wy.signbit(wy.Constant([-0.0, 0.0, -2.0])).forward().tolist()
    [True, False, True]
    """

    __slots__ = ()
    _own: Signbit[Any, Axes]
    formula = "signbit(x)"
    function = "signbit"

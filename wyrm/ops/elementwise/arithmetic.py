"""Elementwise arithmetic: `+ - * / ** // %`, maximum and minimum, absolute value, roots, clipping."""

from __future__ import annotations

import math
from typing import Any, ClassVar, overload

import numpy as np

from wyrm.errors import DTypeError
from wyrm.graph.arrays import as_array
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, Number, Shaped
from wyrm.ops.elementwise.derivatives import Rule
from wyrm.ops.elementwise.elementwise import (
    Axes,
    Binary,
    L,
    Left_co,
    R,
    Right_co,
    S,
    Unary,
    method,
    operand,
)
from wyrm.support.foreign_names import explains_keywords


class Add(Binary[Left_co, Right_co, Axes]):
    """Elementwise sum `x + y`; the operands broadcast."""

    __slots__ = ()
    _own: Add[Any, Any, Axes]
    formula = "x + y"
    operator = "add"


class Subtract(Binary[Left_co, Right_co, Axes]):
    """Elementwise difference `x - y`; the operands broadcast."""

    __slots__ = ()
    _own: Subtract[Any, Any, Axes]
    formula = "x - y"
    operator = "sub"


class Multiply(Binary[Left_co, Right_co, Axes]):
    """Elementwise product `x * y`; the operands broadcast."""

    __slots__ = ()
    _own: Multiply[Any, Any, Axes]
    formula = "x * y"
    operator = "mul"


class Divide(Binary[Left_co, Right_co, Axes]):
    """Elementwise quotient `x / y`; the operands broadcast."""

    __slots__ = ()
    _own: Divide[Any, Any, Axes]
    formula = "x / y"
    operator = "truediv"


class Power(Binary[Left_co, Right_co, Axes]):
    """Elementwise power `x ** y`; the operands broadcast.

    The derivative with respect to `x` at `y = 0` is 0. The derivative with respect to `y` at `x = 0` is 0 for `y >= 0`,
    else -inf.
    """

    __slots__ = ()
    _own: Power[Any, Any, Axes]
    formula = "x ** y"
    operator = "pow"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        from wyrm.ops.elementwise.comparison import where

        base, exponent = (parent.erase() for parent in self.parents)
        at_zero = (base == 0.0) & (exponent >= 0.0)
        logarithm = where(at_zero, 0.0, where(at_zero, 1.0, base).log())
        by_exponent = gradient * self * logarithm
        if isinstance(exponent, Constant) and not exponent.dims and float(exponent.value) != 0.0:
            power = float(exponent.value)
            return gradient * (power * base ** (power - 1.0)), by_exponent
        # The derivative of x ** 0 is 0, but where 1 / x is infinite the product 0 * (1 / x) is NaN: mask it there.
        # Where 1 / x is finite, keep the product, whose derivative with respect to the exponent is 1 / x.
        infinite = (exponent == 0.0) & ~(abs(1.0 / base) < math.inf)
        slope = where(infinite, 0.0, exponent * where(infinite, 1.0, base) ** (exponent - 1.0))
        return gradient * slope, by_exponent


class Maximum(Binary[Left_co, Right_co, Axes]):
    """Elementwise maximum of two operands, which broadcast; equal elements get half the gradient each.

    >>> wy.Constant([1.0, 4.0]).maximum(3.0).forward().tolist()
    [3.0, 4.0]
    """

    __slots__ = ()
    _own: Maximum[Any, Any, Axes]
    formula = "maximum(x, y)"
    method = "maximum"


class Minimum(Binary[Left_co, Right_co, Axes]):
    """Elementwise minimum of two operands, which broadcast; equal elements get half the gradient each.

    >>> wy.Constant([1.0, 4.0]).minimum(3.0).forward().tolist()
    [1.0, 3.0]
    """

    __slots__ = ()
    _own: Minimum[Any, Any, Axes]
    formula = "minimum(x, y)"
    method = "minimum"


class Negative(Unary[Left_co, Axes]):
    """Elementwise negation `-x`."""

    __slots__ = ()
    _own: Negative[Any, Axes]
    formula = "-x"
    method = "__neg__"

    @classmethod
    def op_name(cls) -> str:
        return "negative"


class Absolute(Unary[Left_co, Axes]):
    """Elementwise absolute value `|x|`; the derivative at 0 is 0.

    >>> wy.Constant([-1.0, 2.0]).abs().forward().tolist()
    [1.0, 2.0]
    """

    __slots__ = ()
    _own: Absolute[Any, Axes]
    formula = "abs(x)"
    method = "abs"


@method("__abs__")
def absolute(x: Shaped[L, S]) -> Absolute[L, S]:
    """Return the elementwise absolute value `|x|`; the derivative at 0 is 0."""
    return Absolute(x)


class Sign(Unary[Left_co, Axes]):
    """Elementwise sign: -1, 0 or 1; the gradient is zero.

    >>> wy.Constant([-3.0, 0.0, 2.0]).sign().forward().tolist()
    [-1.0, 0.0, 1.0]
    """

    __slots__ = ()
    _own: Sign[Any, Axes]
    formula = "sign(x)"
    method = "sign"


class Square(Unary[Left_co, Axes]):
    """Elementwise square `x * x`.

    >>> wy.Constant([-3.0, 2.0]).square().forward().tolist()
    [9.0, 4.0]
    """

    __slots__ = ()
    _own: Square[Any, Axes]
    formula = "x * x"
    method = "square"


class Sqrt(Unary[Left_co, Axes]):
    """Elementwise square root; NaN for negative `x`. The derivative at 0 is infinite.

    >>> wy.Constant([4.0, 9.0]).sqrt().forward().tolist()
    [2.0, 3.0]
    """

    __slots__ = ()
    _own: Sqrt[Any, Axes]
    formula = "sqrt(x)"
    method = "sqrt"


class Clip(Unary[Left_co, Axes]):
    """`x` limited to `low`..`high`; the derivative is 1 from `low` to `high` inclusive, and 0 outside."""

    __slots__ = ("high", "low")
    _own: Clip[Any, Axes]
    formula = "where(x < low, low, where(x > high, high, x))"
    derivatives: ClassVar[tuple[Rule, ...]] = ("where((x >= low) & (x <= high), g, 0.0)",)  # 1 at the bounds, 0 for NaN
    low: float
    high: float

    def __init__(self, x: Shaped[Left_co, Axes], low: float, high: float) -> None:
        self._construct((x,), low=low, high=high)


@overload
def clip(x: Shaped[L, S], min: float | None = None, max: float | None = None) -> Clip[L, S]: ...
@overload
def clip(
    x: Shaped[L, S],
    min: Shaped[R, S] | Shaped[R, tuple[()]] | Array | float | None = None,
    max: Shaped[R, S] | Shaped[R, tuple[()]] | Array | float | None = None,
) -> Node[Any, S]: ...
@overload
def clip(x: Shaped[L, S], min: Node | Array | float | None = None, max: Node | Array | float | None = None) -> Node: ...
@method("clip")
@explains_keywords
def clip(x: Any, min: Any = None, max: Any = None) -> Node:
    """Return `x` limited to `min`..`max`; None means no bound. The derivative is 1 within the bounds, at them too.

    Bounds that are arrays or nodes broadcast with `x`; where `min` is above `max`, the result is `max`. Raise
    `ValueError` if the number `min` is above the number `max`.

    >>> wy.Constant([-2.0, 0.5, 2.0]).clip(-1.0, 1.0).forward().tolist()
    [-1.0, 0.5, 1.0]
    >>> wy.Constant([-2.0, 0.5]).clip(np.array([-1.0, 1.0])).forward().tolist()
    [-1.0, 1.0]
    """
    for bound in (min, max):
        if isinstance(bound, str | bytes):  # Python's float would read a number from it
            raise DTypeError(f"clip: a bound must be a number, an array or a node, not {bound!r}")
    min, max = (as_array(bound, "clip: a bound") if isinstance(bound, list) else bound for bound in (min, max))
    if all(bound is None or not (isinstance(bound, BaseNode) or np.ndim(bound)) for bound in (min, max)):
        low = float("-inf") if min is None else float(min)
        high = float("inf") if max is None else float(max)
        if not low <= high:
            raise ValueError(f"clip: min must be at most max, but min is {low} and max is {high}")
        return Clip(x, low, high)
    from wyrm.ops.elementwise.comparison import where

    result: Node = x
    if min is not None:
        least = operand(min, result)
        result = where((result < least) | least.not_equal(least), least, result)
    if max is not None:
        most = operand(max, result)
        result = where((result > most) | most.not_equal(most), most, result)
    return result


class FloorDivide(Binary[Left_co, Right_co, Axes]):
    """Elementwise quotient `x // y`, rounded down; the gradient is zero.

    >>> (wy.Constant([7.0, -7.0]) // 2.0).forward().tolist()
    [3.0, -4.0]
    """

    __slots__ = ()
    _own: FloorDivide[Any, Any, Axes]
    formula = "floor_divide(x, y)"
    function = "floor_divide"
    operator = "floordiv"


class Remainder(Binary[Left_co, Right_co, Axes]):
    """Elementwise rest `x % y` of the division that rounds down; it has the sign of `y`.

    The derivative with respect to `y` is `-(x // y)`.

    >>> (wy.Constant([7.0, -7.0]) % 3.0).forward().tolist()
    [1.0, 2.0]
    """

    __slots__ = ()
    _own: Remainder[Any, Any, Axes]
    formula = "remainder(x, y)"
    function = "remainder mod"
    operator = "mod"


class Fmod(Binary[Left_co, Right_co, Axes]):
    """Elementwise rest of the division that rounds towards zero; it has the sign of `x`.

    The derivative with respect to `y` is minus the quotient, rounded towards zero.

    >>> wy.fmod(wy.Constant([7.0, -7.0]), 3.0).forward().tolist()
    [1.0, -1.0]
    """

    __slots__ = ()
    _own: Fmod[Any, Any, Axes]
    formula = "fmod(x, y)"
    function = "fmod"


@method("__divmod__")
def divmod_of(x: Shaped[L, S], other: Shaped[L, S] | Number | Array) -> tuple[Node[Any, S], Node[Any, S]]:
    """Return `x // other` and `x % other`, elementwise."""
    node: Any = x
    return node // other, node % other


@method("__rdivmod__")
def reflected_divmod(x: Shaped[L, S], other: Number | Array) -> tuple[Node[Any, S], Node[Any, S]]:
    """Return `other // x` and `other % x`, elementwise."""
    node: Any = x
    return other // node, other % node


@method("__pos__")
def positive(x: Shaped[L, S]) -> L:
    """Return `x` itself; raise `DTypeError` for a mask, which has no sign."""
    node: Any = x
    if node.dtype.kind != "f":
        raise DTypeError(f"positive: {describe(node)} is a mask, which has no sign")
    same: L = node
    return same


class Cbrt(Unary[Left_co, Axes]):
    """Elementwise cube root.

    >>> wy.cbrt(wy.Constant([8.0, -1.0])).forward().tolist()
    [2.0, -1.0]
    """

    __slots__ = ()
    _own: Cbrt[Any, Axes]
    formula = "cbrt(x)"
    function = "cbrt"

"""Elementwise questions about a number, as masks: NaN, infinite, finite, below zero."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from wyrm.ops.elementwise.elementwise import Axes, Left_co, Unary, common_dtype


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

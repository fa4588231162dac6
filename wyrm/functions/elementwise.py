"""NumPy's elementwise functions that are made of other functions, and those for complex numbers, such as `conj`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from wyrm.functions.creation import full_like, zeros_like
from wyrm.functions.operands import Operand, S, as_node, as_nodes
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, BoolArray, Number
from wyrm.ops.elementwise.comparison import IsFinite, IsInf, IsNan, where
from wyrm.ops.elementwise.conversion import of_chosen_type
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.elementwise.trigonometric import Arctan2
from wyrm.support.foreign_names import explains_keywords


def _as_mask(x: Operand) -> Node:
    """Return a mask unchanged, and for numbers whether they are not 0."""
    node = as_node(x)
    return node if node.dtype.kind == "b" else node.not_equal(0.0)


def reciprocal(x: Operand[S]) -> Node[Any, S]:
    """Return `1 / x`, elementwise.

    >>> wy.reciprocal(wy.Constant([2.0, 0.0])).forward().tolist()
    [0.5, inf]
    """
    return 1.0 / as_node(x)


def positive(x: Operand[S]) -> Node[Any, S]:
    """Return `+x`, which is `x`. Raise `DTypeError` for a mask.

    >>> wy.positive(wy.Constant([-2.0])).forward().tolist()
    [-2.0]
    """
    return +as_node(x)


def deg2rad(x: Operand[S]) -> Node[Any, S]:
    """Return angles in degrees as radians, elementwise; `radians` is the same function.

    >>> f'{wy.deg2rad(180.0).forward().item():.4f}'
    '3.1416'
    """
    return as_node(x) * (math.pi / 180.0)


def rad2deg(x: Operand[S]) -> Node[Any, S]:
    """Return angles in radians as degrees, elementwise; `degrees` is the same function.

    >>> wy.rad2deg(np.pi).forward().item()
    180.0
    """
    return as_node(x) * (180.0 / math.pi)


radians = deg2rad
degrees = rad2deg


def sinc(x: Operand[S]) -> Node[Any, S]:
    """Return `sin(pi x) / (pi x)`, elementwise, and 1 at 0; the derivatives of all orders are accurate near 0 too.

    >>> wy.sinc(wy.Constant([0.0, 0.5])).forward().round(4).tolist()
    [1.0, 0.6366000175476074]
    """
    angle = as_node(x) * math.pi
    square = angle.square()
    near: Any = square < 1.0
    # Below 1 the power series, up to a term of 1e-22, keeps the digits that the quotient's derivatives lose.
    small = where(near, square, 0.0)
    series: Node = small * (1.0 / math.factorial(23)) * -1.0 + 1.0 / math.factorial(21)
    for k in range(9, -1, -1):
        series = small * series + (-1.0) ** k / math.factorial(2 * k + 1)
    far = where(near, 1.0, angle)
    return where(near, series, far.sin() / far)


@overload
def pow(x: Node[Any, S], y: Node[Any, S] | Node[Any, tuple[()]] | Number | Array) -> Node[Any, S]: ...
@overload
def pow(x: Operand, y: Operand) -> Node: ...
def pow(x: Operand, y: Operand) -> Node:
    """Return `x ** y`, elementwise; the operands broadcast. `power` is the same function.

    >>> wy.pow(2.0, wy.Constant([3.0, -1.0])).forward().tolist()
    [8.0, 0.5]
    """
    base, exponent = as_nodes(x, y)
    result: Node = base**exponent
    return result


power = pow


@overload
def float_power(x: Node[Any, S], y: Node[Any, S] | Node[Any, tuple[()]] | Number | Array) -> Node[Any, S]: ...
@overload
def float_power(x: Operand, y: Operand) -> Node: ...
def float_power(x: Operand, y: Operand) -> Node:
    """Return `x ** y` in float64, elementwise; the operands broadcast.

    >>> wy.float_power(wy.Constant([2.0]), 0.5).forward().tolist()
    [1.4142135623730951]
    """
    base, exponent = (each.astype(np.float64) if isinstance(each, Node) else each for each in (x, y))
    left, right = as_nodes(np.asarray(base, np.float64) if not isinstance(base, Node) else base, exponent)
    result: Node = left**right
    return result


def divmod(x: Operand, y: Operand) -> tuple[Node, Node]:
    """Return `x // y` and `x % y`, elementwise; the operands broadcast.

    >>> [each.forward().item() for each in wy.divmod(wy.Constant(-7.0), 2.0)]
    [-4.0, 1.0]
    """
    left, right = as_nodes(x, y)
    return left // right, left % right


# --- masks ------------------------------------------------------------------------------------------------------------


def logical_not(x: Operand[S]) -> Node[Any, S]:
    """Return whether `x` is false, or 0, elementwise.

    >>> wy.logical_not(wy.Constant([0.0, 2.0])).forward().tolist()
    [True, False]
    """
    return ~_as_mask(x)


@overload
def logical_and(x: Node[Any, S], y: Node[Any, S] | Node[Any, tuple[()]] | Number) -> Node[Any, S]: ...
@overload
def logical_and(x: Operand, y: Operand) -> Node: ...
def logical_and(x: Operand, y: Operand) -> Node:
    """Return whether both operands are true, or not 0, elementwise; they broadcast.

    >>> wy.logical_and(wy.Constant([0.0, 2.0]), 1.0).forward().tolist()
    [False, True]
    """
    result: Node = _as_mask(x) & _as_mask(y)
    return result


@overload
def logical_or(x: Node[Any, S], y: Node[Any, S] | Node[Any, tuple[()]] | Number) -> Node[Any, S]: ...
@overload
def logical_or(x: Operand, y: Operand) -> Node: ...
def logical_or(x: Operand, y: Operand) -> Node:
    """Return whether an operand is true, or not 0, elementwise; they broadcast.

    >>> wy.logical_or(wy.Constant([0.0, 2.0]), 0.0).forward().tolist()
    [False, True]
    """
    result: Node = _as_mask(x) | _as_mask(y)
    return result


@overload
def logical_xor(x: Node[Any, S], y: Node[Any, S] | Node[Any, tuple[()]] | Number) -> Node[Any, S]: ...
@overload
def logical_xor(x: Operand, y: Operand) -> Node: ...
def logical_xor(x: Operand, y: Operand) -> Node:
    """Return whether one operand alone is true, or not 0, elementwise; they broadcast.

    >>> wy.logical_xor(wy.Constant([0.0, 2.0]), 1.0).forward().tolist()
    [True, False]
    """
    result: Node = _as_mask(x) ^ _as_mask(y)
    return result


def _infinite(x: Operand, sign: float) -> Node:
    node = as_node(x)
    return node.equal(sign * math.inf)


def isposinf(x: Operand) -> Node:
    """Return whether `x` is infinity, elementwise.

    >>> wy.isposinf(wy.Constant([np.inf, -np.inf])).forward().tolist()
    [True, False]
    """
    return _infinite(x, 1.0)


def isneginf(x: Operand) -> Node:
    """Return whether `x` is minus infinity, elementwise.

    >>> wy.isneginf(wy.Constant([np.inf, -np.inf])).forward().tolist()
    [False, True]
    """
    return _infinite(x, -1.0)


def isclose(a: Operand, b: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Node:
    """Return whether `abs(a - b) <= atol + rtol * abs(b)`, elementwise; equal infinities are close.

    >>> wy.isclose(wy.Constant([1.0, 1.0]), np.array([1.0, 1.1])).forward().tolist()
    [True, False]
    """
    x, y = as_nodes(a, b)
    finite: Node = IsFinite(y)
    close: Node = (finite & (abs(x - y) <= abs(y) * rtol + atol)) | x.equal(y)
    if equal_nan:
        nans: tuple[Node, Node] = IsNan(x), IsNan(y)
        close = close | (nans[0] & nans[1])
    return close


def allclose(
    a: Operand, b: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Node[Any, tuple[()]]:
    """Return whether all elements of `isclose` are true, as a mask without axes.

    >>> wy.allclose(wy.Constant([1.0, 2.0]), np.array([1.0, 2.0])).forward().item()
    True
    """
    return isclose(a, b, rtol, atol, equal_nan).all()


def array_equal(a1: Operand, a2: Operand) -> Node[Any, tuple[()]]:
    """Return whether two arrays have the same shape and equal elements, as a mask without axes.

    >>> wy.array_equal(wy.Constant([1.0, 2.0]), np.array([1.0, 2.0])).forward().item()
    True
    """
    x, y = as_nodes(a1, a2)
    return x.equal(y).all() if x.shape == y.shape else Constant(np.False_)


# --- choices ----------------------------------------------------------------------------------------------------------


@explains_keywords
def nan_to_num(
    x: Operand[S], *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Node[Any, S]:
    """Return `x` with NaN and the infinities replaced by numbers, by default 0 and the largest of the dtype.

    They are keywords: NumPy's second argument by position is `copy`. No gradient goes to replaced elements.

    >>> wy.nan_to_num(wy.Constant([np.nan, np.inf, 1.0]), posinf=9.0).forward().tolist()
    [0.0, 9.0, 1.0]
    """
    node = of_chosen_type(as_node(x))
    largest = float(np.finfo(node.dtype).max)
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    infinite: Node = IsInf(node)
    is_positive: Node = node > 0.0
    largest_of_sign: Node = where(is_positive, high, operand(low, node))
    result: Node = where(infinite, largest_of_sign, node)
    unknown: Node = IsNan(node)
    return where(unknown, nan, result)


def select(condlist: Sequence[Node | BoolArray], choicelist: Sequence[Operand], default: Operand = 0.0) -> Node:
    """Return, elementwise, the choice of the first condition that is true, else `default`; all broadcast.

    Raise `ValueError` unless there are as many conditions as choices, and at least one.

    >>> x = wy.Constant([-1.0, 0.5, 2.0])
    >>> wy.select([x < 0, x < 1], [0.0, x], 1.0).forward().tolist()
    [0.0, 0.5, 1.0]
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(f"select: {len(condlist)} conditions for {len(choicelist)} choices")
    result: Any = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        mask: Any = condition
        chosen: Any = choice
        result = where(mask, chosen, result)
    return result  # type: ignore[no-any-return]  # a node, as there is at least one condition


def real(val: Operand) -> Node:
    """Return the real part, as `numpy.real`: the operand itself.

    >>> wy.real(wy.Constant([1.0, -2.0])).forward().tolist()
    [1.0, -2.0]
    """
    return as_node(val)


def imag(val: Operand) -> Node:
    """Return the imaginary part, as `numpy.imag`: zeros.

    >>> wy.imag(wy.Constant([1.0, -2.0])).forward().tolist()
    [0.0, 0.0]
    """
    return zeros_like(as_node(val))


def conj(x: Operand) -> Node:
    """Return the complex conjugate, as `numpy.conj`: the operand itself.

    >>> wy.conj(wy.Constant([1.0, -2.0])).forward().tolist()
    [1.0, -2.0]
    """
    return as_node(x)


conjugate = conj


def real_if_close(a: Operand, tol: float = 100.0) -> Node:
    """Return the operand, as `numpy.real_if_close` does for real numbers.

    >>> wy.real_if_close(wy.Constant([1.0])).forward().tolist()
    [1.0]
    """
    return as_node(a)


def angle(z: Operand, deg: bool = False) -> Node:
    """Return the angle of each number in the complex plane, as `numpy.angle`: 0, or pi for a negative number.

    >>> wy.angle(wy.Constant([1.0, -2.0]), deg=True).forward().tolist()
    [0.0, 180.0]
    """
    node = as_node(z)
    radians: Node = Arctan2(zeros_like(node), node)
    return radians * (180.0 / math.pi) if deg else radians


def iscomplex(x: Operand) -> Node:
    """Return a mask of the numbers with an imaginary part, as `numpy.iscomplex`: all False.

    >>> wy.iscomplex(wy.Constant([1.0, -2.0])).forward().tolist()
    [False, False]
    """
    return full_like(as_node(x), False, bool)


def isreal(x: Operand) -> Node:
    """Return a mask of the numbers without an imaginary part, as `numpy.isreal`: all True.

    >>> wy.isreal(wy.Constant([1.0, -2.0])).forward().tolist()
    [True, True]
    """
    return full_like(as_node(x), True, bool)

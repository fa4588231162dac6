"""Division with rest: `//`, `%`, `divmod` and `fmod`, and the unary plus."""

from __future__ import annotations

from typing import Any

from wyrm.errors import DTypeError
from wyrm.graph.base import describe
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, Number, Shaped
from wyrm.ops.elementwise.elementwise import Axes, Binary, L, Left_co, Right_co, S, method


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

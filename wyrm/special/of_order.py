"""Functions of an order or of three arguments, and relatives of the gamma and error functions."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np

from wyrm.functions.operands import Numbers, Operand, as_node, as_nodes
from wyrm.graph.node import Node
from wyrm.ops.elementwise.bessel import BesselI, BesselIe, BesselJ, BesselY
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import S
from wyrm.ops.elementwise.gamma import BetaInc, GammaLn
from wyrm.ops.elementwise.probability import Ndtri
from wyrm.ops.elementwise.rounding import Floor, Rint


def betainc(a: Operand, b: Operand, x: Operand) -> Node:
    """Return the regularized incomplete beta function; `a` and `b` are above 0 and `x` is in [0, 1].

    It has a gradient with respect to `x` only. The operands broadcast.

    >>> round(wy.special.betainc(1.0, 2.0, wy.Constant(0.5)).forward().item(), 4)
    0.75
    """
    return BetaInc(as_nodes(a, b, x))


@overload
def jv(v: float, z: Node[Any, S]) -> Node[Any, S]: ...
@overload
def jv(v: float, z: Numbers) -> Node: ...
def jv(v: float, z: Operand) -> Node:
    """Return the Bessel function of the first kind of order `v`, a number.

    >>> wy.special.jv(0, wy.Constant(0.0)).forward().item()
    1.0
    """
    return BesselJ(as_node(z), v)


@overload
def j0(x: Node[Any, S]) -> Node[Any, S]: ...
@overload
def j0(x: Numbers) -> Node: ...
def j0(x: Operand) -> Node:
    """Return the Bessel function of the first kind of order 0.

    >>> wy.special.j0(wy.Constant(0.0)).forward().item()
    1.0
    """
    return jv(0.0, x)


@overload
def j1(x: Node[Any, S]) -> Node[Any, S]: ...
@overload
def j1(x: Numbers) -> Node: ...
def j1(x: Operand) -> Node:
    """Return the Bessel function of the first kind of order 1.

    >>> wy.special.j1(wy.Constant(0.0)).forward().item()
    0.0
    """
    return jv(1.0, x)


@overload
def yv(v: float, z: Node[Any, S]) -> Node[Any, S]: ...
@overload
def yv(v: float, z: Numbers) -> Node: ...
def yv(v: float, z: Operand) -> Node:
    """Return the Bessel function of the second kind of order `v`, a number; `z` is above 0.

    >>> round(wy.special.yv(0, wy.Constant(1.0)).forward().item(), 4)
    0.0883
    """
    return BesselY(as_node(z), v)


@overload
def y0(x: Node[Any, S]) -> Node[Any, S]: ...
@overload
def y0(x: Numbers) -> Node: ...
def y0(x: Operand) -> Node:
    """Return the Bessel function of the second kind of order 0; `x` is above 0.

    >>> round(wy.special.y0(wy.Constant(1.0)).forward().item(), 4)
    0.0883
    """
    return yv(0.0, x)


@overload
def y1(x: Node[Any, S]) -> Node[Any, S]: ...
@overload
def y1(x: Numbers) -> Node: ...
def y1(x: Operand) -> Node:
    """Return the Bessel function of the second kind of order 1; `x` is above 0.

    >>> round(wy.special.y1(wy.Constant(1.0)).forward().item(), 4)
    -0.7812
    """
    return yv(1.0, x)


@overload
def iv(v: float, z: Node[Any, S]) -> Node[Any, S]: ...
@overload
def iv(v: float, z: Numbers) -> Node: ...
def iv(v: float, z: Operand) -> Node:
    """Return the modified Bessel function of the first kind of order `v`, a number.

    >>> wy.special.iv(0, wy.Constant(0.0)).forward().item()
    1.0
    """
    return BesselI(as_node(z), v)


@overload
def ive(v: float, z: Node[Any, S]) -> Node[Any, S]: ...
@overload
def ive(v: float, z: Numbers) -> Node: ...
def ive(v: float, z: Operand) -> Node:
    """Return `exp(-abs(z)) * iv(v, z)`, which does not overflow.

    >>> wy.special.ive(0, wy.Constant(0.0)).forward().item()
    1.0
    """
    return BesselIe(as_node(z), v)


@overload
def gammasgn(x: Node[Any, S]) -> Node[Any, S]: ...
@overload
def gammasgn(x: Numbers) -> Node: ...
def gammasgn(x: Operand) -> Node:
    """Return the sign of the gamma function, of which the gradient is zero; NaN at the integers below 0.

    >>> wy.special.gammasgn(wy.Constant([-0.5, -1.5, 2.0])).forward().tolist()
    [-1.0, 1.0, 1.0]
    """
    node = as_node(x)
    below = Floor(node).erase()
    odd = (0.5 * below - Floor(0.5 * below)) * 4.0  # 2 for an odd number, else 0
    sign = where(node > 0.0, 1.0, 1.0 - odd)
    return where(node.equal(below) & (node < 0.0), math.nan, sign)


@overload
def rgamma(x: Node[Any, S]) -> Node[Any, S]: ...
@overload
def rgamma(x: Numbers) -> Node: ...
def rgamma(x: Operand) -> Node:
    """Return the reciprocal of the gamma function, which is smooth everywhere and 0 at the integers up to 0.

    >>> wy.special.rgamma(wy.Constant([3.0, 0.0])).forward().tolist()
    [0.5, 0.0]
    """
    node = as_node(x)
    # Below 1/2, `sin(pi x) / pi` has the zeros, and `gamma(1 - x)` is smooth: NIST DLMF 5.5.3.
    below = (node < 0.5) & (node > -math.inf)
    left = where(below, node, 0.25)
    nearest: Node = Rint(left)
    odd = 0.5 * nearest - Floor(0.5 * nearest)  # 1/2 for an odd number, else 0
    distance = left - nearest
    sine = (distance * math.pi).sin() * ((1.0 - 4.0 * odd) / math.pi)
    size: Node = GammaLn(1.0 - left)
    # At a far zero, a factor that overflows would make NaN of the zero.
    largest = 0.99 * math.log(np.finfo(node.dtype).max)
    size = where(distance.equal(0.0), size.minimum(largest), size)
    right: Node = GammaLn(abs(where(below, 1.0, node)))  # infinite at -inf too
    return where(below, sine * size.exp(), (-right).exp())


@overload
def erfcinv(y: Node[Any, S]) -> Node[Any, S]: ...
@overload
def erfcinv(y: Numbers) -> Node: ...
def erfcinv(y: Operand) -> Node:
    """Return the inverse of `erfc`, of numbers in (0, 2).

    >>> round(wy.special.erfcinv(wy.Constant(0.5)).forward().item(), 4)
    0.4769
    """
    node = as_node(y)
    quantile: Node = Ndtri(0.5 * node)
    return quantile * -math.sqrt(0.5)


jn, yn = jv, yv

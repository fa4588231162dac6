"""Special functions made of other functions, and those of an order or of three arguments."""

from __future__ import annotations

import math
import operator
from typing import Any, Literal, overload

import numpy as np

from wyrm.functions.operands import Operand, S, as_node, as_nodes
from wyrm.graph.axes import AxisLike, all_axes, reduced_dims
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, Number
from wyrm.ops.elementwise.bessel import BesselI, BesselIe, BesselJ, BesselY
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.elementwise.gamma import BetaInc, Digamma, GammaLn, HurwitzZeta
from wyrm.ops.elementwise.probability import Ndtri, RelEntr
from wyrm.ops.elementwise.rounding import Floor, Rint
from wyrm.support.options import is_integer


def polygamma(n: int, x: Operand[S]) -> Node[Any, S]:
    """Return the derivative of order `n` of `digamma` at `x`, elementwise. Raise `ValueError` for `n` below 0.

    >>> f'{wy.special.polygamma(1, 1.0).forward().item():.4f}'
    '1.6449'
    """
    order, node = operator.index(n), as_node(x)
    if order < 0:
        raise ValueError(f"polygamma: n must be at least 0, not {order}")
    if order == 0:
        digamma: Node = Digamma(node)
        return digamma
    zeta: Node = HurwitzZeta(node, order + 1.0)
    return zeta * (-1.0 if order % 2 == 0 else 1.0) * math.gamma(order + 1.0)


def multigammaln(a: Operand[S], d: int) -> Node[Any, S]:
    """Return the logarithm of the multivariate gamma function of dimension `d`, elementwise in `a > (d - 1) / 2`.

    It is NaN at other `a`, where SciPy raises an error. Raise `ValueError` for `d` below 1.

    >>> wy.special.multigammaln(2.0, 1).forward().item()
    0.0
    """
    count, node = operator.index(d), as_node(a)
    if count < 1:
        raise ValueError(f"multigammaln: d must be at least 1, not {count}")
    result: Node = GammaLn(node)
    for j in range(1, count):
        shifted: Node = GammaLn(node - 0.5 * j)
        result = result + shifted
    result = result + 0.25 * count * (count - 1) * math.log(math.pi)
    return where(node > 0.5 * (count - 1), result, math.nan)


@overload
def kl_div(x: Node[Any, S], y: Node[Any, S] | Node[Any, tuple[()]] | Number | Array) -> Node[Any, S]: ...
@overload
def kl_div(x: Operand, y: Operand) -> Node: ...
def kl_div(x: Operand, y: Operand) -> Node:
    """Return `rel_entr(x, y) - x + y`, elementwise: `x * log(x / y) - x + y`, or infinity, where the gradient is 0.

    >>> wy.special.kl_div(wy.Constant([1.0, 0.0]), 1.0).forward().tolist()
    [0.0, 1.0]
    """
    left, right = as_nodes(x, y)
    entropy: Node = RelEntr(left, right)
    return where(entropy.equal(math.inf), math.inf, entropy - left + right)


# --- over axes --------------------------------------------------------------------------------------------------------


def _positions(axis: AxisLike, x: Node) -> tuple[int, ...]:
    return all_axes(axis, x.ndim)


def _less_maximum(x: Node, axis: AxisLike) -> Node:
    """Return `x` less its maximum over `axis`, which counts as a constant in derivatives."""
    largest: Node = x.max(axis=_positions(axis, x), keepdims=True)
    return x - where(abs(largest) < math.inf, largest, 0.0).stop_gradient()


def softmax(x: Operand[S], axis: AxisLike = None) -> Node[Any, S]:
    """Return `exp(x) / sum(exp(x))` over `axis`: an axis, several, or all by default.

    Raise `ShapeError` for an axis that `x` lacks, or of size 0.

    >>> wy.special.softmax(wy.Constant([[0.0, 0.0], [0.0, 0.0]])).forward().tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    node = as_node(x)
    if is_integer(axis):
        return node.softmax(axis=axis)
    powers = _less_maximum(node, axis).exp()
    return powers / powers.sum(axis=_positions(axis, node), keepdims=True)


def log_softmax(x: Operand[S], axis: AxisLike = None) -> Node[Any, S]:
    """Return the logarithm of `softmax(x, axis)`, accurate where it is small.

    Raise `ShapeError` for an axis that `x` lacks, or of size 0.

    >>> wy.special.log_softmax(wy.Constant([0.0, -1e4])).forward().tolist()
    [0.0, -10000.0]
    """
    node = as_node(x)
    if is_integer(axis):
        return node.log_softmax(axis=axis)
    shifted = _less_maximum(node, axis)
    return shifted - shifted.exp().sum(axis=_positions(axis, node), keepdims=True).log()


@overload
def logsumexp(
    a: Operand,
    axis: AxisLike = None,
    b: Operand | None = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
) -> Node: ...
@overload
def logsumexp(
    a: Operand,
    axis: AxisLike = None,
    b: Operand | None = None,
    keepdims: bool = False,
    *,
    return_sign: Literal[True],
) -> tuple[Node, Node]: ...
def logsumexp(
    a: Operand,
    axis: AxisLike = None,
    b: Operand | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> Node | tuple[Node, Node]:
    """Return `log(sum(b * exp(a)))` over `axis`, without overflow: an axis, several, or all by default.

    `b` scales the terms and broadcasts with `a`; terms of scale 0 are left out. A sum below 0 gives NaN, unless
    `return_sign=True`: then the result is the logarithm of the size of the sum, and its sign. `keepdims=True` keeps the
    axes at size 1. Raise `ShapeError` for an axis that `a` lacks, or of size 0.

    >>> wy.special.logsumexp(wy.Constant([1e4, 1e4]), b=np.array([2.0, -1.0])).forward().item()
    10000.0
    """
    node = as_node(a)
    if b is None and not return_sign:
        return node.logsumexp(axis=axis, keepdims=keepdims)
    if b is not None:
        scale = operand(b, node)
        dims: Any = (node + scale).dims
        node, scale = (each if each.dims == dims else each.broadcast_to(dims) for each in (node, scale))
        node = where(scale.equal(0.0), -math.inf, node)
    axes = _positions(axis, node)
    largest: Node = node.max(axis=axes, keepdims=True)
    top = where(abs(largest) < math.inf, largest, 0.0).stop_gradient()
    powers = (node - top).exp()
    total: Node = (powers if b is None else powers * scale).sum(axis=axes, keepdims=True)
    result: Node = (abs(total) if return_sign else total).log() + top
    kept = reduced_dims(node.dims, axes, keepdims)
    sign: Node = total.sign()
    if not keepdims:
        result, sign = result.reshape(kept), sign.reshape(kept)
    return (result, sign) if return_sign else result


def betainc(a: Operand, b: Operand, x: Operand) -> Node:
    """Return the regularized incomplete beta function; `a` and `b` are above 0 and `x` is in [0, 1].

    It has a gradient with respect to `x` only. The operands broadcast.

    >>> round(wy.special.betainc(1.0, 2.0, wy.Constant(0.5)).forward().item(), 4)
    0.75
    """
    return BetaInc(as_nodes(a, b, x))


def jv(v: float, z: Operand[S]) -> Node[Any, S]:
    """Return the Bessel function of the first kind of order `v`, a number.

    >>> wy.special.jv(0, wy.Constant(0.0)).forward().item()
    1.0
    """
    return BesselJ(as_node(z), v)


def j0(x: Operand[S]) -> Node[Any, S]:
    """Return the Bessel function of the first kind of order 0.

    >>> wy.special.j0(wy.Constant(0.0)).forward().item()
    1.0
    """
    return jv(0.0, x)


def j1(x: Operand[S]) -> Node[Any, S]:
    """Return the Bessel function of the first kind of order 1.

    >>> wy.special.j1(wy.Constant(0.0)).forward().item()
    0.0
    """
    return jv(1.0, x)


def yv(v: float, z: Operand[S]) -> Node[Any, S]:
    """Return the Bessel function of the second kind of order `v`, a number; `z` is above 0.

    >>> round(wy.special.yv(0, wy.Constant(1.0)).forward().item(), 4)
    0.0883
    """
    return BesselY(as_node(z), v)


def y0(x: Operand[S]) -> Node[Any, S]:
    """Return the Bessel function of the second kind of order 0; `x` is above 0.

    >>> round(wy.special.y0(wy.Constant(1.0)).forward().item(), 4)
    0.0883
    """
    return yv(0.0, x)


def y1(x: Operand[S]) -> Node[Any, S]:
    """Return the Bessel function of the second kind of order 1; `x` is above 0.

    >>> round(wy.special.y1(wy.Constant(1.0)).forward().item(), 4)
    -0.7812
    """
    return yv(1.0, x)


def iv(v: float, z: Operand[S]) -> Node[Any, S]:
    """Return the modified Bessel function of the first kind of order `v`, a number.

    >>> wy.special.iv(0, wy.Constant(0.0)).forward().item()
    1.0
    """
    return BesselI(as_node(z), v)


def ive(v: float, z: Operand[S]) -> Node[Any, S]:
    """Return `exp(-abs(z)) * iv(v, z)`, which does not overflow.

    >>> wy.special.ive(0, wy.Constant(0.0)).forward().item()
    1.0
    """
    return BesselIe(as_node(z), v)


def gammasgn(x: Operand[S]) -> Node[Any, S]:
    """Return the sign of the gamma function, of which the gradient is zero; NaN at the integers below 0.

    >>> wy.special.gammasgn(wy.Constant([-0.5, -1.5, 2.0])).forward().tolist()
    [-1.0, 1.0, 1.0]
    """
    node = as_node(x)
    below = Floor(node).erase()
    odd = (0.5 * below - Floor(0.5 * below)) * 4.0  # 2 for an odd number, else 0
    is_positive, is_pole = node > 0.0, node.equal(below) & (node < 0.0)
    sign: Node = where(is_positive, 1.0, 1.0 - odd)
    return where(is_pole, math.nan, sign)


def rgamma(x: Operand[S]) -> Node[Any, S]:
    """Return the reciprocal of the gamma function, which is smooth everywhere and 0 at the integers up to 0.

    >>> wy.special.rgamma(wy.Constant([3.0, 0.0])).forward().tolist()
    [0.5, 0.0]
    """
    node = as_node(x)
    # Below 1/2, `sin(pi x) / pi` has the zeros, and `gamma(1 - x)` is smooth: NIST DLMF 5.5.3.
    below: Node = (node < 0.5) & (node > -math.inf)
    left: Node = where(below, node, 0.25)
    nearest: Node = Rint(left)
    odd = 0.5 * nearest - Floor(0.5 * nearest)  # 1/2 for an odd number, else 0
    distance = left - nearest
    sine = (distance * math.pi).sin() * ((1.0 - 4.0 * odd) / math.pi)
    size: Node = GammaLn(1.0 - left)
    # Far from 0, the sine is 0 and `exp(size)` would be infinite: 0 * inf is NaN, so the size is limited there.
    largest = 0.99 * math.log(np.finfo(node.dtype).max)
    size = where(distance.equal(0.0), size.minimum(largest), size)
    right: Node = GammaLn(abs(where(below, 1.0, node)))  # infinite at -inf too
    at_left, at_right = sine * size.exp(), (-right).exp()
    return where(below, at_left, at_right)


def erfcinv(y: Operand[S]) -> Node[Any, S]:
    """Return the inverse of `erfc`, of numbers in (0, 2).

    >>> round(wy.special.erfcinv(wy.Constant(0.5)).forward().item(), 4)
    0.4769
    """
    node = as_node(y)
    quantile: Node = Ndtri(0.5 * node)
    return quantile * -math.sqrt(0.5)


jn = jv
yn = yv

"""Special functions made of other functions."""

from __future__ import annotations

import math
import operator
from typing import Any, Literal, overload

from wyrm.functions.operands import Operand, as_node, as_nodes
from wyrm.graph.axes import AxisLike, all_axes, reduced_dims
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, Number
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import S, operand
from wyrm.ops.elementwise.entropy import RelEntr
from wyrm.ops.elementwise.gamma import Digamma, GammaLn, HurwitzZeta
from wyrm.support.options import is_integer


@overload
def polygamma(n: int, x: Node[Any, S]) -> Node[Any, S]: ...
@overload
def polygamma(n: int, x: Number | Array) -> Node: ...
def polygamma(n: int, x: Operand) -> Node:
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


@overload
def multigammaln(a: Node[Any, S], d: int) -> Node[Any, S]: ...
@overload
def multigammaln(a: Number | Array, d: int) -> Node: ...
def multigammaln(a: Operand, d: int) -> Node:
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


def _shifted(x: Node, axis: AxisLike) -> Node:
    """Return `x` less its maximum over `axis`, which is a constant to differentiation."""
    largest: Node = x.max(axis=_positions(axis, x), keepdims=True)
    return x - where(abs(largest) < math.inf, largest, 0.0).stop_gradient()


@overload
def softmax(x: Node[Any, S], axis: AxisLike = None) -> Node[Any, S]: ...
@overload
def softmax(x: Number | Array, axis: AxisLike = None) -> Node: ...
def softmax(x: Operand, axis: AxisLike = None) -> Node:
    """Return `exp(x) / sum(exp(x))` over `axis`: an axis, several, or all by default.

    Raise `ShapeError` for an axis that `x` lacks, or of size 0.

    >>> wy.special.softmax(wy.Constant([[0.0, 0.0], [0.0, 0.0]])).forward().tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    node = as_node(x)
    if is_integer(axis):
        return node.softmax(axis=axis)
    powers = _shifted(node, axis).exp()
    return powers / powers.sum(axis=_positions(axis, node), keepdims=True)


@overload
def log_softmax(x: Node[Any, S], axis: AxisLike = None) -> Node[Any, S]: ...
@overload
def log_softmax(x: Number | Array, axis: AxisLike = None) -> Node: ...
def log_softmax(x: Operand, axis: AxisLike = None) -> Node:
    """Return the logarithm of `softmax(x, axis)`, accurate where it is small.

    Raise `ShapeError` for an axis that `x` lacks, or of size 0.

    >>> wy.special.log_softmax(wy.Constant([0.0, -1e4])).forward().tolist()
    [0.0, -10000.0]
    """
    node = as_node(x)
    if is_integer(axis):
        return node.log_softmax(axis=axis)
    shifted = _shifted(node, axis)
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

"""Reductions that are made of others: counts, ranges, averages, and those that leave out NaN."""

from __future__ import annotations

import math
from typing import Literal, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.functions.creation import full_like
from wyrm.functions.operands import Operand, as_node, as_nodes
from wyrm.functions.reduction_types import reduction
from wyrm.graph.axes import AxisLike, normalize_axis
from wyrm.graph.base import describe
from wyrm.graph.node import IndexNode, Node
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.predicates import IsNan
from wyrm.ops.reducing.counting import CountTrue

__all__ = [
    "average", "count_nonzero", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "ptp",
]  # fmt: skip


def count_nonzero(a: Operand | IndexNode, axis: AxisLike = None, *, keepdims: bool = False) -> IndexNode:
    """Return the number of elements over `axis` that are true, or not 0, as integers.

    >>> wy.count_nonzero(wy.Constant([0.0, 2.0, 3.0])).forward().item()
    2
    """
    if isinstance(a, IndexNode):
        return CountTrue(a != 0, axis, keepdims)
    node = as_node(a)
    return CountTrue(node if node.dtype.kind == "b" else node.not_equal(0.0), axis, keepdims)


def ptp(a: Operand, axis: AxisLike = None, *, keepdims: bool = False) -> Node:
    """Return the maximum less the minimum over `axis`. Raise `ShapeError` over an axis of size 0.

    >>> wy.ptp(wy.Constant([1.0, 4.0, 2.0])).forward().item()
    3.0
    """
    node = as_node(a)
    return node.max(axis=axis, keepdims=keepdims) - node.min(axis=axis, keepdims=keepdims)


@overload
def average(
    a: Operand,
    axis: AxisLike = None,
    weights: Operand | None = None,
    returned: Literal[False] = False,
    *,
    keepdims: bool = False,
) -> Node: ...
@overload
def average(
    a: Operand,
    axis: AxisLike = None,
    weights: Operand | None = None,
    *,
    returned: Literal[True],
    keepdims: bool = False,
) -> tuple[Node, Node]: ...
def average(
    a: Operand,
    axis: AxisLike = None,
    weights: Operand | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Node | tuple[Node, Node]:
    """Return the mean over `axis`, weighted by `weights` of the shape of `a`, or with one axis that is `axis`.

    With `returned=True` the sum of the weights is returned too. Raise `ShapeError` for weights of another shape.

    >>> wy.average(wy.Constant([1.0, 4.0]), weights=np.array([3.0, 1.0])).forward().item()
    1.75
    """
    node = as_node(a)
    if weights is None:
        mean: Node = node.mean(axis=axis, keepdims=keepdims)
        return (mean, full_like(mean, node.size / max(1, mean.size))) if returned else mean
    scale = as_nodes(node, weights)[1]
    if scale.ndim != node.ndim:
        if scale.ndim != 1 or not isinstance(axis, int | np.integer):
            raise ShapeError(
                f"average: the weights must have the shape of {describe(node)}, or one axis that is the axis of the "
                f"mean; they have {scale.ndim} axes"
            )
        position = normalize_axis(int(axis), node.ndim)
        scale = scale.reshape([-1, *[1] * (node.ndim - position - 1)])
    scale = scale.broadcast_to(node.dims)
    total: Node = scale.sum(axis=axis, keepdims=keepdims)
    result: Node = (node * scale).sum(axis=axis, keepdims=keepdims) / total
    return (result, total) if returned else result


# --- without NaN ------------------------------------------------------------------------------------------------------


def _replaced(a: Operand, value: float) -> tuple[Node, Node]:
    """Return the elements with NaN replaced by `value`, and the mask of NaN."""
    node = as_node(a)
    missing: Node = IsNan(node)
    return where(missing, value, node), missing


def _count(missing: Node, node: Node, axis: AxisLike, keepdims: bool) -> Node:
    """Return the number of elements that are not NaN, as floats."""
    present: Node = (~missing).astype(node.dtype)
    return present.sum(axis=axis, keepdims=keepdims)


@reduction
def nansum(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the sum over `axis` without the NaN; no gradient goes to them.

    >>> wy.nansum(wy.Constant([1.0, np.nan])).forward().item()
    1.0
    """
    return _replaced(a, 0.0)[0].sum(axis=axis, keepdims=keepdims)


@reduction
def nanprod(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the product over `axis` without the NaN; no gradient goes to them.

    >>> wy.nanprod(wy.Constant([3.0, np.nan])).forward().item()
    3.0
    """
    return _replaced(a, 1.0)[0].prod(axis=axis, keepdims=keepdims)


@reduction
def nanmean(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the mean over `axis` without the NaN; NaN where all elements are.

    >>> wy.nanmean(wy.Constant([1.0, 3.0, np.nan])).forward().item()
    2.0
    """
    node, missing = _replaced(a, 0.0)
    return node.sum(axis=axis, keepdims=keepdims) / _count(missing, node, axis, keepdims)


@reduction
def nanmax(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the maximum over `axis` without the NaN; NaN where all elements are.

    Raise `ShapeError` over an axis of size 0.

    >>> wy.nanmax(wy.Constant([1.0, 3.0, np.nan])).forward().item()
    3.0
    """
    node, missing = _replaced(a, -math.inf)
    return where(missing.all(axis=axis, keepdims=keepdims), math.nan, node.max(axis=axis, keepdims=keepdims))


@reduction
def nanmin(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the minimum over `axis` without the NaN; NaN where all elements are.

    Raise `ShapeError` over an axis of size 0.

    >>> wy.nanmin(wy.Constant([1.0, 3.0, np.nan])).forward().item()
    1.0
    """
    node, missing = _replaced(a, math.inf)
    return where(missing.all(axis=axis, keepdims=keepdims), math.nan, node.min(axis=axis, keepdims=keepdims))


def nanvar(a: Operand, axis: AxisLike = None, ddof: int = 0, keepdims: bool = False) -> Node:
    """Return the variance over `axis` without the NaN; NaN where at most `ddof` elements are left.

    >>> wy.nanvar(wy.Constant([1.0, 3.0, np.nan])).forward().item()
    1.0
    """
    node, missing = _replaced(a, 0.0)
    count = _count(missing, node, axis, True)
    distance = where(missing, 0.0, node - node.sum(axis=axis, keepdims=True) / count)
    left = _count(missing, node, axis, keepdims) - float(ddof)
    total: Node = distance.square().sum(axis=axis, keepdims=keepdims)
    return total / where(left > 0.0, left, math.nan)


def nanstd(a: Operand, axis: AxisLike = None, ddof: int = 0, keepdims: bool = False) -> Node:
    """Return the standard deviation over `axis` without the NaN: the square root of `nanvar`.

    >>> wy.nanstd(wy.Constant([1.0, 3.0, np.nan])).forward().item()
    1.0
    """
    return nanvar(a, axis, ddof, keepdims).sqrt()

"""Losses that compare: scores with scores, vectors with vectors."""

from __future__ import annotations

import math
from typing import Literal, overload

from typing_extensions import TypeVar, TypeVarTuple

from wyrm.losses.checks import (
    as_node,
    check_axes,
    check_range,
    check_reduction,
    check_values,
    reduced,
    rows_of,
    same_axes,
)
from wyrm.node.node import Node, Tensor
from wyrm.ops.comparison import where
from wyrm.ops.softmax import Reduction
from wyrm.types.typing import Array

N = TypeVar("N")
Axes = TypeVarTuple("Axes")
Bs = TypeVarTuple("Bs")

# Keep the slope of a length finite at 0. The values are PyTorch's.
_DISTANCE_EPSILON = 1e-6
_COSINE_EPSILON = 1e-12


@overload
def bpr(
    positive: Tensor[*Axes], negative: Tensor[*Axes], *, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor[()]: ...
@overload
def bpr(positive: Tensor[*Axes], negative: Tensor[*Axes], *, reduction: Literal["none"]) -> Tensor[*Axes]: ...
def bpr(positive: Node, negative: Node, *, reduction: Reduction = "mean") -> Node:
    """Bayesian personalised ranking, `-log sigmoid(positive - negative)`, finite for all finite scores.

    `positive` are scores of what was chosen, `negative` of what was not, of the same shape. Rendle et al., "BPR:
    Bayesian personalized ranking from implicit feedback" (2009). Reductions are those of `mse`.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an operand holds no floats, or the two float types differ.
        ValueError: `reduction` is none of the three.

    >>> bpr(wy.Constant([1.0]), wy.Constant([1.0])).forward().round(4).item()
    0.6930999755859375
    """
    check_reduction("bpr", reduction)
    positive, negative = same_axes("bpr", positive=positive, negative=negative)
    return reduced((negative - positive).softplus(), reduction)


@overload
def margin_ranking(
    first: Tensor[*Axes],
    second: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    margin: float = 0.0,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def margin_ranking(
    first: Tensor[*Axes],
    second: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    margin: float = 0.0,
    reduction: Literal["none"],
) -> Tensor[*Axes]: ...
def margin_ranking(
    first: Node, second: Node, target: Node | Array, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Node:
    """How far the wrong score is ahead, `max(0, margin - target * (first - second))`.

    `target`, a node or an array of the shape of the scores, is 1 where `first` belongs above `second`, -1 where it
    belongs below. `margin`, at least 0, is by how much. Shapes, reductions and other errors are those of `hinge`.

    >>> margin_ranking(wy.Constant([1.0]), wy.Constant([0.5]), np.array([-1]), margin=0.25).forward().item()
    0.75
    """
    check_reduction("margin_ranking", reduction)
    check_range("margin_ranking", "margin", margin, 0.0, math.inf)
    first, second, target = same_axes("margin_ranking", "signs", first=first, second=second, target=target)
    return reduced((margin - target * (first - second)).relu(), reduction)


@overload
def triplet(
    anchor: Tensor[*Bs, N],
    positive: Tensor[*Bs, N],
    negative: Tensor[*Bs, N],
    *,
    margin: float = 1.0,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def triplet(
    anchor: Tensor[*Bs, N],
    positive: Tensor[*Bs, N],
    negative: Tensor[*Bs, N],
    *,
    margin: float = 1.0,
    reduction: Literal["none"],
) -> Tensor[*Bs]: ...
def triplet(
    anchor: Node, positive: Node, negative: Node, *, margin: float = 1.0, reduction: Reduction = "mean"
) -> Node:
    """`max(0, |anchor - positive| - |anchor - negative| + margin)`, with Euclidean lengths over the last axis.

    The three have the same shape (..., features). `margin`, at least 0, is by how much the negative should be further
    from the anchor than the positive. Schroff et al., "FaceNet" (2015), without its squares. As in PyTorch 1e-6 is
    added to each difference, so that equal vectors have a gradient. The result is a scalar for `reduction="mean"` and
    `"sum"`; for `"none"` it has the leading axes. Errors are those of `bpr`, and `ValueError` for the margin.

    >>> near, far = wy.Constant([[0.0, 1.0]]), wy.Constant([[3.0, 4.0]])
    >>> triplet(wy.Constant([[0.0, 0.0]]), far, near).forward().round(4).item()
    5.0
    """
    check_reduction("triplet", reduction)
    check_range("triplet", "margin", margin, 0.0, math.inf)
    anchor, positive, negative = same_axes("triplet", anchor=anchor, positive=positive, negative=negative)
    rows_of("triplet", "anchor", anchor)
    near, far = ((anchor - other + _DISTANCE_EPSILON).square().sum(axis=-1).sqrt() for other in (positive, negative))
    return reduced((near - far + margin).relu(), reduction)


@overload
def cosine_embedding(
    first: Tensor[*Bs, N],
    second: Tensor[*Bs, N],
    target: Tensor[*Bs] | Array,
    *,
    margin: float = 0.0,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def cosine_embedding(
    first: Tensor[*Bs, N],
    second: Tensor[*Bs, N],
    target: Tensor[*Bs] | Array,
    *,
    margin: float = 0.0,
    reduction: Literal["none"],
) -> Tensor[*Bs]: ...
def cosine_embedding(
    first: Node, second: Node, target: Node | Array, *, margin: float = 0.0, reduction: Reduction = "mean"
) -> Node:
    """`1 - cos(first, second)` where `target` is 1, `max(0, cos(first, second) - margin)` where it is -1.

    `first` and `second` have the same shape (..., features) and the cosine is taken over the last axis; `target`, a
    node or an array, has the leading axes. `margin` goes from -1 to 1. As in PyTorch 1e-12 is added to each squared
    length, so that a vector of zeros has the cosine 0. The result is a scalar for `reduction="mean"` and `"sum"`; for
    `"none"` it has the leading axes. Other errors are those of `hinge`.

    >>> x, y = wy.Constant([[1.0, 0.0]]), wy.Constant([[0.0, 2.0]])
    >>> cosine_embedding(x, y, np.array([1])).forward().item()
    1.0
    """
    check_reduction("cosine_embedding", reduction)
    check_range("cosine_embedding", "margin", margin, -1.0, 1.0)
    first, second = same_axes("cosine_embedding", first=first, second=second)
    rows = rows_of("cosine_embedding", "first", first)
    sign = as_node("cosine_embedding", "target", target, first)
    check_values("cosine_embedding", "target", target, sign, "signs")
    rule = "cosine_embedding: the target has the axes of the vectors but the last"
    check_axes(rule, sign, rows, {"first": first, "second": second, "target": sign})
    # The root of each squared length, not of their product, which may overflow.
    lengths = [(x.square().sum(axis=-1) + _COSINE_EPSILON).sqrt() for x in (first, second)]
    cosine = first.vector_dot(second) / lengths[0] / lengths[1]
    return reduced(where(sign > 0.0, 1.0 - cosine, (cosine - margin).relu()), reduction)

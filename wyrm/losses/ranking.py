"""Losses that compare scores or vectors with each other."""

from __future__ import annotations

from typing import Unpack, overload

from typing_extensions import TypeVar, TypeVarTuple

from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import Array
from wyrm.losses.loss import Each, Total, loss, within
from wyrm.ops.elementwise.comparison import where

N = TypeVar("N")
Axes = TypeVarTuple("Axes")
Bs = TypeVarTuple("Bs")

# PyTorch's values. They keep the gradient of a norm finite at 0.
_DISTANCE_EPSILON = 1e-6
_COSINE_EPSILON = 1e-12


@overload
def bpr(positive: Tensor[*Axes], negative: Tensor[*Axes], **options: Unpack[Total]) -> Tensor[()]: ...
@overload
def bpr(positive: Tensor[*Axes], negative: Tensor[*Axes], **options: Unpack[Each]) -> Tensor[*Axes]: ...
@loss()
def bpr(positive: Node, negative: Node) -> Node:
    """Return the Bayesian personalised ranking loss, `-log sigmoid(positive - negative)`, finite for finite scores.

    `positive` and `negative` are scores of chosen and of other items, of the same shape. Rendle et al., "BPR: Bayesian
    personalized ranking from implicit feedback" (2009). `sample_weight` and reductions are as in `mse`.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an operand is not float, or the dtypes differ.
        ValueError: `reduction` is unknown.

    >>> bpr(wy.Constant([1.0]), wy.Constant([1.0])).forward().round(4).item()
    0.6930999755859375
    """
    return (negative - positive).softplus()


@overload
def margin_ranking(
    first: Tensor[*Axes],
    second: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    margin: float = 0.0,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def margin_ranking(
    first: Tensor[*Axes],
    second: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    margin: float = 0.0,
    **options: Unpack[Each],
) -> Tensor[*Axes]: ...
@loss(target="signs", margin=within(0.0))
def margin_ranking(first: Node, second: Node, target: Node, *, margin: float = 0.0) -> Node:
    """Return the margin ranking loss, `max(0, margin - target * (first - second))`.

    `target`, a node or an array of the shape of the scores, is 1 where `first` should rank higher and -1 where `second`
    should. `margin` is at least 0. Shapes, weights, reductions and other errors are as in `hinge`.

    >>> margin_ranking(wy.Constant([1.0]), wy.Constant([0.5]), np.array([-1]), margin=0.25).forward().item()
    0.75
    """
    return (margin - target * (first - second)).relu()


@overload
def triplet(
    anchor: Tensor[*Bs, N],
    positive: Tensor[*Bs, N],
    negative: Tensor[*Bs, N],
    *,
    margin: float = 1.0,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def triplet(
    anchor: Tensor[*Bs, N],
    positive: Tensor[*Bs, N],
    negative: Tensor[*Bs, N],
    *,
    margin: float = 1.0,
    **options: Unpack[Each],
) -> Tensor[*Bs]: ...
@loss("vectors", margin=within(0.0))
def triplet(anchor: Node, positive: Node, negative: Node, *, margin: float = 1.0) -> Node:
    """Return the triplet loss, `max(0, |anchor - positive| - |anchor - negative| + margin)`, of Euclidean distances.

    The operands have the same shape (..., features), the vectors along the last axis. `margin`, at least 0, is how much
    farther from the anchor the negative should be than the positive. Schroff et al., "FaceNet" (2015), but with
    distances not squared. As in PyTorch, 1e-6 is added to each difference, so that equal vectors have a finite
    gradient. `reduction="mean"` and `"sum"` return a scalar, `"none"` the leading axes. `sample_weight` and errors are
    as in `bpr`, and `ValueError` for the margin.

    >>> near, far = wy.Constant([[0.0, 1.0]]), wy.Constant([[3.0, 4.0]])
    >>> triplet(wy.Constant([[0.0, 0.0]]), far, near).forward().round(4).item()
    5.0
    """
    near, far = ((anchor - other + _DISTANCE_EPSILON).square().sum(axis=-1).sqrt() for other in (positive, negative))
    return (near - far + margin).relu()


@overload
def cosine_embedding(
    first: Tensor[*Bs, N],
    second: Tensor[*Bs, N],
    target: Tensor[*Bs] | Array,
    *,
    margin: float = 0.0,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def cosine_embedding(
    first: Tensor[*Bs, N],
    second: Tensor[*Bs, N],
    target: Tensor[*Bs] | Array,
    *,
    margin: float = 0.0,
    **options: Unpack[Each],
) -> Tensor[*Bs]: ...
@loss("vectors and a target of each", target="signs", margin=within(-1.0, 1.0))
def cosine_embedding(first: Node, second: Node, target: Node, *, margin: float = 0.0) -> Node:
    """Return the cosine embedding loss: `1 - cos(first, second)` for target 1, `max(0, cos - margin)` for target -1.

    `first` and `second` have the same shape (..., features), the vectors along the last axis; `target`, a node or an
    array, has the leading axes. `margin` lies between -1 and 1. As in PyTorch, 1e-12 is added to each squared norm, so
    that a zero vector has cosine 0. `reduction="mean"` and `"sum"` return a scalar, `"none"` the leading axes.
    `sample_weight` and other errors are as in `hinge`.

    >>> x, y = wy.Constant([[1.0, 0.0]]), wy.Constant([[0.0, 2.0]])
    >>> cosine_embedding(x, y, np.array([1])).forward().item()
    1.0
    """
    # Divide by one norm at a time: the product of the squared norms may overflow.
    lengths = [(x.square().sum(axis=-1) + _COSINE_EPSILON).sqrt() for x in (first, second)]
    cosine = first.vector_dot(second) / lengths[0] / lengths[1]
    return where(target > 0.0, 1.0 - cosine, (cosine - margin).relu())

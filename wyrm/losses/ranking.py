"""Losses that compare scores or vectors, and those of recommenders: a chosen item against other items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack, overload

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dim, axis_size
from wyrm.graph.base import describe
from wyrm.graph.leaves import constant_beside
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.traversal import topological_order
from wyrm.graph.typing import Array, FloatArray, IntegerArray, Size
from wyrm.losses.loss import (
    Each,
    Total,
    Values,
    Weights,
    above_zero,
    check_reduction,
    loss,
    rows_of,
    weighted,
    within,
)
from wyrm.ops.cross_entropy.labels import CountedLabels, as_node, check_axes, sample_weights
from wyrm.ops.cross_entropy.softmax import LossReduction
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.index import Index, as_indices
from wyrm.ops.reducing.positions import first_true
from wyrm.ops.shaping.arange import positions
from wyrm.support.foreign_names import explains_keywords

N = TypeVar("N")
Axes = TypeVarTuple("Axes")
Bs = TypeVarTuple("Bs")
B = TypeVar("B")
I = TypeVar("I")  # noqa: E741  # the axis of items


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


# The score of an item that is no negative; its exponential is 0 in both float types.
_NEVER = -1e30
# What is added to squared norms, as in `cosine_embedding`.
_EPSILON = 1e-12


def _temperature(name: str, option: str, value: Any) -> None:
    """Raise an error unless a temperature is a number above 0 or a scalar node."""
    if not isinstance(value, Node):
        above_zero(name, option, value)
    elif value.dims:
        raise ShapeError(f"{name}: {option} must be one number, not {describe(value)}")


def _score_and_others(loss: str, names: Sequence[str], operands: Sequence[Any], values: Values) -> list[Node]:
    """Return scores and, of one more axis at the end, the scores that they are compared with, as nodes."""
    score = as_node(loss, names[0], operands[0])
    others = as_node(loss, names[1], operands[1], score)
    rule = f"{loss}: {names[0]} must have the axes of {names[1]} but the last"
    check_axes(rule, score, rows_of(loss, names[1], others), {names[0]: score, names[1]: others})
    return [score, others]


def _numbers_of_items(name: str, option: str, values: Node | Array, scores: Node) -> Node:
    """Return numbers of all items as a node of one axis."""
    node = as_node(name, option, values, scores)
    if node.ndim != 1:
        raise ShapeError(f"{name}: {option} must have one number for each item, not {describe(node)}")
    return node


def _check_towers(query: Node, positive: Node, items: object) -> None:
    """Raise `ShapeError` for vectors that are no batch of two rows or more, are transposed, or are swapped."""
    takes = "info_nce takes vectors of the axes (batch, features)"
    if query.ndim != 2:
        raise ShapeError(f"{takes}, not {describe(query)}")
    rows, features = map(axis_size, query.dims)
    if rows is not None and features is None:
        raise ShapeError(f"{takes}: {describe(query)} seems to be transposed, because data decides its last axis")
    if rows == 1:
        raise ShapeError(
            f"{takes}, of two rows or more: {describe(query)} has one row, whose item has no negatives; give it a "
            f"batch axis, as in wy.IndexInput(dims=(Batch(),))"
        )
    if not isinstance(items, IndexNode):
        return
    of_query, of_positive = (any(each is items for each in topological_order([node])) for node in (query, positive))
    if of_query and not of_positive:
        raise ShapeError(
            f"info_nce: items are the numbers of the rows of positive, but query, {describe(query)}, depends on "
            f"{describe(items)}, and positive, {describe(positive)}, does not: give the vectors of users first, then "
            f"those of items"
        )


@overload
def info_nce(
    query: Tensor[B, N],
    positive: Tensor[B, N],
    *,
    temperature: float | Tensor[()] = 1.0,
    symmetric: bool = False,
    normalize: bool = False,
    items: IndexNode[tuple[B]] | IntegerArray | None = None,
    log_frequency: Node | Array | None = None,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def info_nce(
    query: Tensor[B, N],
    positive: Tensor[B, N],
    *,
    temperature: float | Tensor[()] = 1.0,
    symmetric: bool = False,
    normalize: bool = False,
    items: IndexNode[tuple[B]] | IntegerArray | None = None,
    log_frequency: Node | Array | None = None,
    **options: Unpack[Each],
) -> Tensor[B]: ...
@loss("vectors", temperature=_temperature)
def info_nce(
    query: Node,
    positive: Node,
    *,
    temperature: float | Node = 1.0,
    symmetric: bool = False,
    normalize: bool = False,
    items: IndexNode | IntegerArray | None = None,
    log_frequency: Node | Array | None = None,
) -> Node:
    """Return the cross-entropy of each query's own item among all items of the batch, as for two towers.

    `query` and `positive`, of the axes (batch, features), are the vectors of users and of the items that they chose.
    The scores are `query @ positive.T / temperature`; the loss of row i is `-log softmax(scores)[i, i]`, so that the
    items of the other rows are its negatives (van den Oord et al., "Representation learning with contrastive predictive
    coding", 2018). The data of each run may decide the size of the batch; one of a single row has no negatives and a
    loss of 0, so give `epoch` or `fit` a `batch_size`.

    - `temperature` is a number above 0 or a scalar node, such as a parameter.
    - `normalize=True` divides all vectors by their lengths: scores are cosines. Then rank by cosines too, with
      `wy.recommend(users, items, k, normalize=True)`.
    - `symmetric=True` returns the mean of this loss and that of each item's own query among all queries, as in CLIP.
    - `items`, of the axis (batch,), says which item each row has: a row that has the same item is no negative.
    - `log_frequency` is subtracted from the scores of items, because frequent items are negatives more often: the
      logarithms of the probabilities of items in a batch (Yi et al., "Sampling-bias-corrected neural modeling", 2019).
      With `items` it has a number for each item there is, without them one for each row. Scores of queries, which
      `symmetric` adds, are not corrected.

    `sample_weight`, of the axis (batch,), and reductions are as in `mse`; `"none"` returns the axis (batch,).

    Raises:
        ShapeError: the shapes differ, the vectors do not have two axes, they are transposed or a fixed batch has one
            row; or `query` depends on the node `items`, and `positive` does not, so that the two are swapped.
        IndexOutOfRange: an item is not in `log_frequency`.
        DTypeError: an operand is not float, or the dtypes differ.
        ValueError: `reduction` is unknown, or `temperature` is not above 0.

    >>> users, films = wy.Constant([[4.0, 0.0], [0.0, 4.0]]), wy.Constant([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(info_nce(users, films).forward()), 3)
    0.018
    """
    _check_towers(query, positive, items)
    if normalize:
        query, positive = (x / (x.square().sum(-1, keepdims=True) + _EPSILON).sqrt() for x in (query, positive))
    batch = query.dims[0]
    rows = positions(batch)
    scores: Node = query @ positive.T
    if isinstance(temperature, Node) or temperature != 1.0:
        scores = scores / temperature
    chosen = None if items is None else as_indices(items)
    if chosen is not None:
        check_axes("info_nce: items must have the batch", chosen, (batch,), {"query": query, "items": chosen})
        again = (chosen.expand_dims(1) == chosen) & (rows.expand_dims(1) != rows)
        scores = where(again, _NEVER, scores)
    corrected = scores
    if log_frequency is not None:
        if chosen is not None:
            subtracted: Node = Index(_numbers_of_items("info_nce", "log_frequency", log_frequency, query), chosen)
        else:
            subtracted = as_node("info_nce", "log_frequency", log_frequency, query)
            rule = "info_nce: log_frequency must have the batch, or one number for each item with items="
            check_axes(rule, subtracted, (batch,), {"query": query, "log_frequency": subtracted})
        corrected = scores - subtracted
    losses: Node = corrected.cross_entropy(rows, reduction="none")
    return 0.5 * (losses + scores.T.cross_entropy(rows, reduction="none")) if symmetric else losses


@overload
def sampled_softmax(
    positive: Tensor[*Axes],
    negative: Tensor[*Axes, N],
    *,
    items: tuple[IndexNode[tuple[*Axes]], IndexNode] | None = None,
    log_frequency: Node | Array | None = None,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def sampled_softmax(
    positive: Tensor[*Axes],
    negative: Tensor[*Axes, N],
    *,
    items: tuple[IndexNode[tuple[*Axes]], IndexNode] | None = None,
    log_frequency: Node | Array | None = None,
    **options: Unpack[Each],
) -> Tensor[*Axes]: ...
@loss(_score_and_others)
def sampled_softmax(
    positive: Node,
    negative: Node,
    *,
    items: tuple[IndexNode, IndexNode] | None = None,
    log_frequency: Node | Array | None = None,
) -> Node:
    """Return the cross-entropy of a chosen item among a sample of items, in place of all of them.

    `positive`, of any axes, are the scores of chosen items; `negative`, with one more axis at the end, those of drawn
    items, as of `wy.random.index`. The loss is `log(e ** p + sum(e ** n)) - p`. Jean et al., "On using very large
    target vocabulary for neural machine translation" (2015).

    `items` are the numbers of the items that were chosen, of the axes of `positive`, and drawn, of those of `negative`
    or of its last axis alone: a drawn item that was chosen is no negative then. `log_frequency`, which needs `items`,
    has for each item the logarithm of how often it is drawn, up to a constant; it is subtracted from all scores, so
    that the scores at the minimum are about those of the softmax over all items, whatever the distribution of the
    draws. Without it that holds for uniform draws. For a temperature, divide the scores by it. `sample_weight` and
    reductions are as in `mse`.

    Raises:
        ShapeError: the axes of `positive` are not the leading axes of `negative`, or those of `items` are others.
        IndexOutOfRange: an item is not in `log_frequency`.
        DTypeError: an operand is not float, or the dtypes differ.
        ValueError: `reduction` is unknown, or there is a `log_frequency` without `items`.

    >>> chosen, drawn = wy.Constant([2.0]), wy.Constant([[0.0, 1.0]])
    >>> round(float(sampled_softmax(chosen, drawn).forward()), 3)
    0.408
    """
    name = "sampled_softmax"
    if items is None:
        if log_frequency is not None:
            raise ValueError(f"{name}: log_frequency needs items=(chosen, drawn), the items that it has numbers of")
        return (negative.logsumexp(-1) - positive).softplus()
    chosen, drawn = map(as_indices, items)
    operands = {"positive": positive, "negative": negative, "items[0]": chosen, "items[1]": drawn}
    check_axes(f"{name}: the chosen items must have the axes of their scores", chosen, positive.dims, operands)
    rule = f"{name}: the drawn items must have the axes of their scores, or the last of them"
    check_axes(rule, drawn, negative.dims[-1:] if drawn.ndim == 1 else negative.dims, operands)
    if log_frequency is not None:
        table = _numbers_of_items(name, "log_frequency", log_frequency, positive)
        positive, negative = positive - Index(table, chosen), negative - Index(table, drawn)
    negative = where(chosen.expand_dims(-1) == drawn, _NEVER, negative)
    return (negative.logsumexp(-1) - positive).softplus()


def _score_and_draws(loss: str, names: Sequence[str], operands: Sequence[Any], values: Values) -> list[Any]:
    """Return scores as nodes, and those that they are compared with too, unless these are a function of items."""
    if not callable(operands[1]):
        return [*_score_and_others(loss, names, operands, values)]
    return [as_node(loss, names[0], operands[0]), operands[1]]


def _scores_of(loss: str, score: Callable[[IndexNode], Node], items: IndexNode, positive: Node) -> list[Node]:
    """Return the chosen scores and those of items, which have the axes of the items."""
    found = _score_and_others(loss, ("positive", "negative(items)"), (positive, score(items)), "any")
    rule = f"{loss}: negative(items) must have the axes of items"
    check_axes(rule, found[1], items.dims, {"items": items, "negative(items)": found[1]})
    return found


@overload
def warp(
    positive: Tensor[*Axes],
    negative: Tensor[*Axes, N],
    *,
    num_items: Size | Dim,
    margin: float = 1.0,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def warp(
    positive: Tensor[*Axes],
    negative: Tensor[*Axes, N],
    *,
    num_items: Size | Dim,
    margin: float = 1.0,
    **options: Unpack[Each],
) -> Tensor[*Axes]: ...
@overload
def warp(
    positive: Tensor[*Axes],
    negative: Callable[[IndexNode], Node],
    *,
    num_items: Size | Dim,
    items: IndexNode[tuple[*Axes, N]],
    margin: float = 1.0,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def warp(
    positive: Tensor[*Axes],
    negative: Callable[[IndexNode], Node],
    *,
    num_items: Size | Dim,
    items: IndexNode[tuple[*Axes, N]],
    margin: float = 1.0,
    **options: Unpack[Each],
) -> Tensor[*Axes]: ...
@loss(_score_and_draws, margin=within(0.0))
def warp(
    positive: Node,
    negative: Node | Callable[[IndexNode], Node],
    *,
    num_items: Size | Dim,
    items: IndexNode | IntegerArray | None = None,
    margin: float = 1.0,
) -> Node:
    """Return the weighted approximate-rank pairwise loss, which attends to the top of the ranking.

    `positive`, of any axes, are the scores of chosen items; `negative`, with one more axis at the end, those of items
    drawn uniformly among the `num_items` that there are. The first drawn item that scores above `positive - margin`
    counts: if it is the k-th, the rank of the chosen item is about r = (num_items - 1) // k, and the loss is
    `(1 + 1/2 + ... + 1/r) * (margin - positive + negative)`. It is 0 if there is no such item. Weston et al., "WSABIE:
    scaling up to large vocabulary image annotation" (2011). The weight has no gradient. `sample_weight` and reductions
    are as in `mse`.

    With the drawn `items`, `negative` is a function that returns the scores of items, of the axes of the items that it
    gets. The numbers are the same for less work: native code scores a row's items only until one counts, and the
    gradient is that of one item a row. It is called twice, the second time with a last axis of size 1.

    Raises:
        ShapeError: the axes of `positive` are not the leading axes of `negative`, or `num_items` is below 2.
        IndexOutOfRange: a drawn item is not in a table that `negative` reads.
        DTypeError: an operand is not float, or the dtypes differ.
        ValueError: `reduction` is unknown, `margin` is negative, or there are `items` without a function.

    >>> chosen, drawn = wy.Constant([2.0]), wy.Constant([[0.0, 1.5, 4.0]])
    >>> warp(chosen, drawn, num_items=5).forward().item()  # the second of the drawn items: (1 + 1/2) * 0.5
    0.75
    >>> vectors, user = wy.Parameter([[0.0], [1.5], [4.0]]), wy.Constant([[1.0]])
    >>> drawn = wy.IndexConstant([[0, 1, 2]])
    >>> score = lambda items: (user.expand_dims(1) * vectors.index(items)).sum(-1)
    >>> warp(chosen, score, items=drawn, num_items=5).forward().item()
    0.75
    """
    count = axis_size(num_items) if isinstance(num_items, Dim) else int(num_items)
    if count is None or count < 2:
        raise ShapeError(f"warp: num_items must be a size of at least 2, not {num_items!r}")
    drawn = None if items is None else as_indices(items)
    given: Any = negative if drawn is None else drawn
    if callable(negative) != (drawn is not None):
        raise ValueError("warp: a function from items to scores needs items, the drawn ones, and items need a function")
    draws = axis_size(given.dims[-1])
    weights = constant_beside(rank_weights(count, count if draws is None else draws + 1), positive.dtype)
    return warp_by_weights(positive, negative, weights, drawn, margin)


def rank_weights(count: int, draws: int) -> FloatArray:
    """Return 1 + 1/2 + ... + 1/r for each of `draws` draws among `count` items, with r the rank that it tells."""
    sums = np.cumsum(1.0 / np.maximum(np.arange(count), 1)) - 1.0
    found: FloatArray = sums[(count - 1) // np.arange(1, draws + 1)]
    return found


def warp_by_weights(
    positive: Node, negative: Node | Callable[[IndexNode], Node], weights: Node, drawn: IndexNode | None, margin: float
) -> Node:
    """Return the loss of `warp` by a table of the weights of draws, so that the code is the same for any catalogue."""
    scores: Any = negative
    if callable(negative) and drawn is not None:
        positive, scores = _scores_of("warp", negative, drawn, positive)
    tries: Any = scores.shape[-1]
    # This order lets compiled code know the threshold before the loop over scores, which ends at the first one above.
    first = first_true(positive.expand_dims(-1) - margin < scores)
    # A table for any number of draws has as many weights as there are items.
    known = axis_size(scores.dims[-1]) is not None
    weight = Index(weights, first if known else first.minimum(int(weights.shape[0]) - 1))
    place = (first % tries).expand_dims(-1)
    if callable(negative) and drawn is not None:
        _, score = _scores_of("warp", negative, drawn.take_along_axis(place, axis=-1), positive)
    else:
        score = scores.take_along_axis(place, axis=-1)
    return where(first != tries, weight * (margin - positive + score.squeeze(-1)), 0.0)


@overload
def implicit_squares(
    users: Tensor[B, N],
    items: Tensor[I, N],
    chosen: IndexNode[tuple[B, Any]] | IntegerArray,
    *,
    confidence: float | Node | Array = 1.0,
    unobserved: float = 0.1,
    ignore_index: int | None = None,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def implicit_squares(
    users: Tensor[B, N],
    items: Tensor[I, N],
    chosen: IndexNode[tuple[B, Any]] | IntegerArray,
    *,
    confidence: float | Node | Array = 1.0,
    unobserved: float = 0.1,
    ignore_index: int | None = None,
    **options: Unpack[Each],
) -> Tensor[B]: ...
@explains_keywords
def implicit_squares(
    users: Node,
    items: Node,
    chosen: IndexNode | IntegerArray,
    *,
    confidence: float | Node | Array = 1.0,
    unobserved: float = 0.1,
    ignore_index: int | None = None,
    sample_weight: Weights = None,
    reduction: LossReduction = "mean",
) -> Node:
    """Return the weighted squares of implicit feedback: the loss that alternating least squares minimizes.

    A user's score of an item is the dot product of their vectors: `users` has the axes (batch, features), `items`
    (items, features). The loss of a user is the sum over all items of `c * (p - score) ** 2`: for items that the user
    chose, p is 1 and c their `confidence`; for others, p is 0 and c `unobserved`. Hu, Koren and Volinsky,
    "Collaborative filtering for implicit feedback datasets" (2008). The sum over the other items costs features**2 for
    a user, whatever the number of items, by the matrix `items.T @ items`.

    `chosen`, of the axes (batch, length), has the items of each user, each once; entries of `ignore_index` fill rows
    that are shorter. `confidence` is a number, or an array or node of the axes of `chosen`, as `1.0 + 40.0 * counts`.
    `sample_weight`, of the axis (batch,), and reductions are as in `mse`; `"none"` returns the axis (batch,).

    Raises:
        ShapeError: axes do not match.
        IndexOutOfRange: a chosen item is neither in `items` nor `ignore_index`; for an input, when it is set.
        DTypeError: vectors are not floats, or `chosen` not integers.
        ValueError: `unobserved` or an array of confidences is negative, or `reduction` is unknown.

    >>> users, items = wy.Constant([[1.0, 0.0]]), wy.Constant([[0.5, 0.0], [2.0, 1.0], [0.0, 3.0]])
    >>> implicit_squares(users, items, np.array([[0]]), unobserved=0.5).forward().item()  # 0.5**2 + 0.5 * (2**2 + 0)
    2.25
    """
    name = "implicit_squares"
    check_reduction(name, reduction)
    within(0.0)(name, "unobserved", unobserved)
    users, table = as_node(name, "users", users), as_node(name, "items", items)
    indices = as_indices(chosen)
    operands = {"users": users, "items": table, "chosen": indices}
    if (users.ndim, table.ndim, indices.ndim) != (2, 2, 2):
        rule = f"{name} takes users (batch, features), items (items, features) and the chosen items (batch, length)"
        raise ShapeError("\n".join([rule, *(f"  {each}  {describe(node)}" for each, node in operands.items())]))
    check_axes(f"{name}: users and items must have the same features", table, (table.dims[0], users.dims[1]), operands)
    rule = f"{name}: users and chosen must have the same batch"
    check_axes(rule, indices, (users.dims[0], indices.dims[1]), operands)
    counted = None
    if ignore_index is not None:
        counted = indices != ignore_index
        indices = CountedLabels(indices, table.dims[0], ignore_index)
    scores = (Index(table, indices) * users.expand_dims(1)).sum(-1)
    weights: Any = confidence
    if not isinstance(confidence, int | float):
        weights = sample_weights(name, confidence, scores, scores.dims, "confidence")
    # The sum over all items, below, counts chosen items as if they were not chosen. This corrects it.
    more = weights * (1.0 - scores).square() - unobserved * scores.square()
    more = more if counted is None else where(counted, more, 0.0)
    gram: Node = table.T @ table
    losses = more.sum(-1) + unobserved * (users @ gram).vector_dot(users)
    return weighted(name, losses, reduction, sample_weight)

"""Losses of classes: of one label or several, and of sequences whose labels have no given positions."""

from __future__ import annotations

import math
from typing import Unpack, overload

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import describe
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.typing import Array, IntegerArray
from wyrm.losses.loss import (
    Each,
    EachOfLabels,
    Labels,
    Total,
    TotalOfLabels,
    Weights,
    check_reduction,
    check_values,
    loss,
    positive_weights,
    weighted,
    within,
)
from wyrm.ops.cross_entropy.labels import as_node, warn_of_probabilities
from wyrm.ops.cross_entropy.softmax import LossReduction
from wyrm.ops.ctc import CTC
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.exponential import LimitedLog
from wyrm.ops.indexing.index import as_indices
from wyrm.support.foreign_names import explains_keywords

Axes = TypeVarTuple("Axes")
N = TypeVar("N")
B = TypeVar("B")
T = TypeVar("T")
L = TypeVar("L")
Bs = TypeVarTuple("Bs")


@overload
def bce(probability: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Total]) -> Tensor[()]: ...
@overload
def bce(probability: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Each]) -> Tensor[*Axes]: ...
@loss(target="probabilities")
def bce(probability: Node, target: Node) -> Node:
    """Return the binary cross-entropy of probabilities, `-(t * log(p) + (1 - t) * log(1 - p))`.

    `probability` and `target`, a node or an array of the same shape, lie between 0 and 1; a mask counts as 0 and 1. As
    in PyTorch, logarithms are at least -100 and their derivatives at most 1e12, so that loss and gradient are finite
    for probabilities of 0 and 1. Values outside the range count as the nearest probability, with gradient 0. For
    sigmoids, prefer `bce_with_logits`, which is exact. `sample_weight` and reductions are as in `mse`.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an operand is not numeric, or the float dtypes differ.
        ValueError: `reduction` is unknown, or an array of targets has values outside 0 to 1.

    >>> bce(wy.Constant([0.5, 1.0]), np.array([1.0, 1.0]), reduction="none").forward().round(3).tolist()
    [0.693, 0.0]
    """
    inside = probability.clip(0.0, 1.0)
    if_yes: Node = -LimitedLog(inside)
    # log1p keeps the digits of a small probability; for a large one the subtraction is exact.
    if_no = -where(inside < 0.5, (-inside.minimum(0.5)).log1p(), LimitedLog(1.0 - inside))
    return target * if_yes + (1.0 - target) * if_no


@overload
def bce_with_logits(
    logits: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    pos_weight: float | Weights = None,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def bce_with_logits(
    logits: Tensor[*Axes], target: Tensor[*Axes] | Array, *, pos_weight: float | Weights = None, **options: Unpack[Each]
) -> Tensor[*Axes]: ...
@loss(target="probabilities")
def bce_with_logits(logits: Node, target: Node, *, pos_weight: float | Weights = None) -> Node:
    """Return the binary cross-entropy of `sigmoid(logits)`, `log(1 + e ** x) - t * x`, finite for all finite logits.

    `target`, a node or an array of the same shape, lies between 0 and 1; a mask counts as 0 and 1. `pos_weight`, one
    number or one for each entry of the last axis, multiplies the loss of target 1, against an imbalance of the classes;
    as in PyTorch, the mean does not divide by it. Other weights, reductions and errors are as in `bce`.

    >>> bce_with_logits(wy.Constant([1e4, -1e4]), np.array([1.0, 1.0]), reduction="none").forward().tolist()
    [0.0, 10000.0]
    """
    warn_of_probabilities("bce_with_logits", logits, "sigmoid", "logits, to which it applies sigmoid itself")
    if pos_weight is None:
        losses: Node = logits.softplus() - logits * target
    else:
        positive = positive_weights("bce_with_logits", pos_weight, logits)
        losses = (1.0 - target) * logits.softplus() + positive * target * (-logits).softplus()
    return losses


@overload
def focal(
    logits: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    gamma: float = 2.0,
    alpha: float | None = 0.25,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def focal(
    logits: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    gamma: float = 2.0,
    alpha: float | None = 0.25,
    **options: Unpack[Each],
) -> Tensor[*Axes]: ...
@loss(target="probabilities", gamma=within(0.0), alpha=within(0.0, 1.0, none=True))
def focal(logits: Node, target: Node, *, gamma: float = 2.0, alpha: float | None = 0.25) -> Node:
    """Return the binary focal loss, `-a * (1 - q) ** gamma * log(q)`, in which easy examples weigh less.

    `q` is the probability of the right answer: `sigmoid(logits)` for target 1, `1 - sigmoid(logits)` for target 0; for
    a target in between, the loss is the average of both, weighted by the target. `a` is `alpha` for target 1 and
    `1 - alpha` for target 0, or 1 for both if `alpha` is None. Lin et al., "Focal loss for dense object detection"
    (2017), formula 5. `gamma` is at least 0; with 0 the loss is a weighted `bce_with_logits`. `alpha` lies between 0
    and 1. Shapes, weights, reductions and other errors are as in `bce`.

    >>> focal(wy.Constant([0.0]), np.array([1.0]), gamma=1.0, alpha=None).forward().round(4).item()
    0.3466
    """
    warn_of_probabilities("focal", logits, "sigmoid", "logits, to which it applies sigmoid itself")
    # -log(q) if the target is 1, and if it is 0. The q of one is 1 minus that of the other, so (1 - q) ** gamma is
    # exp(-gamma * -log(q of the other)), which stays below 1.
    if_yes, if_no = (-logits).softplus(), logits.softplus()
    yes, no = (if_no * -gamma).exp() * if_yes, (if_yes * -gamma).exp() * if_no
    if alpha is not None:
        yes, no = yes * alpha, no * (1.0 - alpha)
    return target * yes + (1.0 - target) * no


@overload
def hinge(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Total]) -> Tensor[()]: ...
@overload
def hinge(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Each]) -> Tensor[*Axes]: ...
@loss(target="signs")
def hinge(prediction: Node, target: Node) -> Node:
    """Return the hinge loss of a support vector machine, `max(0, 1 - target * prediction)`.

    `target`, a node or an array of the shape of the prediction, is -1 or 1. Cortes and Vapnik, "Support-vector
    networks" (1995). `sample_weight` and reductions are as in `mse`.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an operand is not float, or the dtypes differ.
        ValueError: `reduction` is unknown, or an array of targets has values other than -1 and 1.

    >>> hinge(wy.Constant([0.5, 2.0, 2.0]), np.array([1, 1, -1]), reduction="none").forward().tolist()
    [0.5, 0.0, 3.0]
    """
    return (1.0 - target * prediction).relu()


@overload
def squared_hinge(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Total]) -> Tensor[()]: ...
@overload
def squared_hinge(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Each]
) -> Tensor[*Axes]: ...
@loss(target="signs")
def squared_hinge(prediction: Node, target: Node) -> Node:
    """Return the square of the hinge loss, `max(0, 1 - target * prediction) ** 2`, which is differentiable everywhere.

    Shapes, weights, reductions and errors are as in `hinge`.

    >>> squared_hinge(wy.Constant([0.5, 2.0, 2.0]), np.array([1, 1, -1]), reduction="none").forward().tolist()
    [0.25, 0.0, 9.0]
    """
    return (1.0 - target * prediction).relu().square()


# What losses of log-probabilities take.
_LOGARITHMS = "log-probabilities, such as those of log_softmax"


@overload
def cross_entropy(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    label_smoothing: float = 0.0,
    **options: Unpack[TotalOfLabels],
) -> Tensor[()]: ...
@overload
def cross_entropy(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    label_smoothing: float = 0.0,
    **options: Unpack[EachOfLabels],
) -> Tensor[*Bs]: ...
@loss("labels", label_smoothing=within(0.0, 1.0))
def cross_entropy(logits: Node, labels: Labels, *, label_smoothing: float = 0.0) -> Node:
    """Return `-log softmax(logits)[label]` over the last axis, finite for all finite logits.

    `logits` have the axes (..., classes), `labels` the leading axes: an index node or an array of integers in
    0..classes - 1. `label_smoothing`, in [0, 1], is the part of each target that is spread evenly over all classes
    (Szegedy et al., "Rethinking the inception architecture", 2015). The result is a scalar for `reduction="mean"` and
    `"sum"`; for `"none"` it has the axes of the labels. `wy.linear_cross_entropy` fuses this loss with the linear layer
    before it.

    `weight`, of the axis of classes, multiplies the loss of each label by the weight of its class; with smoothing, the
    part of each class by its weight. `sample_weight`, of the axes of the labels or their leading axes, multiplies the
    loss of each row. Labels of `ignore_index` have the loss 0. The mean divides by the sum of the weights of the labels
    that count, as in PyTorch, and is 0 if that is 0.

    Raises:
        ShapeError: the axes of the labels are not the leading axes of the logits, or weights have other axes.
        IndexOutOfRange: a label is neither a class nor `ignore_index`; for an input, when it is set.
        DTypeError: the logits are not floats, or the labels not integers.
        ValueError: `label_smoothing` or `reduction` is out of range, or an array of weights has negative ones.

    >>> cross_entropy(wy.Constant([[0.0, 0.0]]), np.array([1]), label_smoothing=0.1).forward().round(4).item()
    0.6930999755859375
    """
    if labels.are_even and label_smoothing == 0.0:
        return logits.cross_entropy(labels.indices, reduction=labels.reduction)
    losses = labels.weighted(logits.cross_entropy(labels.indices, reduction="none"), labels.of_rows)
    if label_smoothing > 0.0:
        every = logits.log_softmax() if labels.of_classes is None else logits.log_softmax() * labels.of_classes
        even = labels.weighted(-every.mean(axis=-1), labels.of_samples)
        losses = (1.0 - label_smoothing) * losses + label_smoothing * even
    return labels.reduced(losses)


@overload
def nll(
    log_probability: Tensor[*Bs, N], labels: IndexNode[tuple[*Bs]] | IntegerArray, **options: Unpack[TotalOfLabels]
) -> Tensor[()]: ...
@overload
def nll(
    log_probability: Tensor[*Bs, N], labels: IndexNode[tuple[*Bs]] | IntegerArray, **options: Unpack[EachOfLabels]
) -> Tensor[*Bs]: ...
@loss("labels")
def nll(log_probability: Node, labels: Labels) -> Node:
    """Return the negative log-likelihood, `-log_probability[label]` over the last axis.

    `log_probability` has shape (..., classes), as `log_softmax` returns it. Labels, weights, reductions and errors are
    as in `cross_entropy`, which fuses both.

    >>> nll(wy.Constant([[-2.0, -0.5]]), np.array([1])).forward().item()
    0.5
    """
    warn_of_probabilities("nll", log_probability, "softmax", _LOGARITHMS)
    chosen = log_probability.take_along_axis(labels.indices.reshape((*labels.indices.dims, 1)), axis=-1)
    return labels.reduced(labels.weighted(-chosen.squeeze(-1), labels.of_rows))


@overload
def multiclass_focal(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    gamma: float = 2.0,
    **options: Unpack[TotalOfLabels],
) -> Tensor[()]: ...
@overload
def multiclass_focal(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    gamma: float = 2.0,
    **options: Unpack[EachOfLabels],
) -> Tensor[*Bs]: ...
@loss("labels", gamma=within(0.0))
def multiclass_focal(logits: Node, labels: Labels, *, gamma: float = 2.0) -> Node:
    """Return the focal loss of classes, `-(1 - q) ** gamma * log(q)` with `q = softmax(logits)[label]`.

    Easy examples weigh less than in `cross_entropy`, which `gamma=0` gives. Lin et al., "Focal loss for dense object
    detection" (2017); `weight` is their alpha for each class. `focal` is the binary form. `gamma` is at least 0.
    Labels, weights, reductions and other errors are as in `cross_entropy`.

    >>> multiclass_focal(wy.Constant([[0.0, 0.0]]), np.array([1]), gamma=1.0).forward().round(4).item()
    0.3465999960899353
    """
    losses: Node = logits.cross_entropy(labels.indices, reduction="none")
    if gamma > 0.0:
        # 1 - q is 0 for a q that rounds to 1. There, a power below 1 would have no finite derivative.
        wrong = (-(-losses).expm1()).maximum(float(np.finfo(logits.dtype).tiny))
        losses = losses * wrong**gamma
    return labels.reduced(labels.weighted(losses, labels.of_rows))


@overload
def kl_divergence(
    log_prediction: Tensor[*Bs, N],
    target: Tensor[*Bs, N] | Array,
    *,
    log_target: bool = False,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def kl_divergence(
    log_prediction: Tensor[*Bs, N], target: Tensor[*Bs, N] | Array, *, log_target: bool = False, **options: Unpack[Each]
) -> Tensor[*Bs]: ...
@loss("vectors")
def kl_divergence(log_prediction: Node, target: Node, *, log_target: bool = False) -> Node:
    """Return the Kullback-Leibler divergence, `sum(t * (log(t) - log_prediction))` over the last axis.

    Both operands have shape (..., outcomes), one distribution per row. `log_prediction` holds log-probabilities, as
    `log_softmax` returns them. `target`, a node or an array, holds probabilities, or log-probabilities with
    `log_target=True`. A target probability of 0 adds 0. Kullback and Leibler, "On information and sufficiency" (1951).
    `reduction="mean"` returns the mean over the distributions, `"sum"` the sum, both scalars; `"none"` returns the
    divergences, of the leading axes. `sample_weight` is as in `mse`.

    Raises:
        ShapeError: the shapes differ, or the operands are scalars.
        DTypeError: an operand is not float, or the dtypes differ.
        ValueError: `reduction` is unknown, or an array of probabilities has values outside 0 to 1.

    >>> kl_divergence(wy.Constant([[0.5, 0.5]]).log(), np.array([[1.0, 0.0]])).forward().round(4).item()
    0.6931
    """
    warn_of_probabilities("kl_divergence", log_prediction, "softmax", _LOGARITHMS)
    if not log_target:
        check_values("kl_divergence", "target", target, target, "probabilities")
    # An outcome of target probability 0 adds 0, even if its log-probability or the prediction's is -inf.
    present = target.not_equal(-math.inf) if log_target else target > 0.0
    predicted = where(present | log_prediction.not_equal(-math.inf), log_prediction, 0.0)
    if log_target:
        losses = target.exp() * (where(present, target, 0.0) - predicted)
    else:
        losses = target * (where(present, target, 1.0).log() - predicted)
    return losses.sum(axis=-1)


@overload
def ctc(
    log_probability: Tensor[B, T, N],
    labels: IndexNode[tuple[B, L]] | IntegerArray,
    input_lengths: IndexNode[tuple[B]] | IntegerArray | None = None,
    label_lengths: IndexNode[tuple[B]] | IntegerArray | None = None,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def ctc(
    log_probability: Tensor[B, T, N],
    labels: IndexNode[tuple[B, L]] | IntegerArray,
    input_lengths: IndexNode[tuple[B]] | IntegerArray | None = None,
    label_lengths: IndexNode[tuple[B]] | IntegerArray | None = None,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    **options: Unpack[Each],
) -> Tensor[B]: ...
@explains_keywords
def ctc(
    log_probability: Node,
    labels: IndexNode | IntegerArray,
    input_lengths: IndexNode | IntegerArray | None = None,
    label_lengths: IndexNode | IntegerArray | None = None,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    sample_weight: Weights = None,
    reduction: LossReduction = "mean",
) -> Node:
    """Return the connectionist temporal classification loss: the negative log-likelihood of labels without positions.

    The likelihood is the sum over all paths of one class a step that become the labels when repeated classes are merged
    and blanks removed (Graves et al., 2006). `log_probability` has the axes (batch, time, classes), as `log_softmax`
    returns it, `labels` (batch, labels). `input_lengths` and `label_lengths`, of the axis (batch,), are the numbers of
    steps and labels that count, all by default; labels after that are any classes. `blank` is the class of no label.

    `reduction="none"` returns the loss of each sequence, `"sum"` their sum, and `"mean"` the mean of the losses divided
    by their numbers of labels, as PyTorch. `sample_weight` is as in `mse`. A sequence too short for its labels has an
    infinite loss, or 0 with `zero_infinity`, and gradient 0.

    Raises:
        ShapeError: axes do not match, or classes, or lengths left out, have no size.
        IndexOutOfRange: a label is no class, or a length is larger than its axis.
        DTypeError: the log-probabilities are not floats, or labels or lengths not integers.
        ValueError: `reduction` is unknown, or an array of weights has negative ones.

    >>> even = wy.Constant(np.zeros((1, 2, 2))).log_softmax()
    >>> ctc(even, np.array([[1]])).forward().round(4).item()
    0.2877
    """
    check_reduction("ctc", reduction)
    log_probability = as_node("ctc", "log_probability", log_probability)
    labels = as_indices(labels)
    if log_probability.ndim != 3 or labels.ndim != 2:
        raise ShapeError(
            f"ctc takes log-probabilities (batch, time, classes) and labels (batch, labels), not "
            f"{describe(log_probability)} and {describe(labels)}"
        )
    steps = _lengths("input_lengths", input_lengths, log_probability)
    lengths = _lengths("label_lengths", label_lengths, labels)
    warn_of_probabilities("ctc", log_probability, "softmax", _LOGARITHMS)
    losses: Node = CTC(log_probability, labels, steps, lengths, blank)
    if zero_infinity:
        losses = where(losses < np.inf, losses, 0.0)
    if reduction == "mean":
        losses = losses / lengths.astype(losses.dtype).maximum(1.0)
    return weighted("ctc", losses, reduction, sample_weight)


def _lengths(name: str, lengths: IndexNode | IntegerArray | None, of: Node | IndexNode) -> IndexNode:
    """Return the lengths; by default, every sequence has the size of the second axis of `of`."""
    if lengths is not None:
        return as_indices(lengths)
    batch, size = axis_size(of.dims[0]), axis_size(of.dims[1])
    if batch is None or size is None:
        raise ShapeError(f"ctc: {describe(of)} has axes without a size; give {name}")
    return as_indices(np.full(batch, size))

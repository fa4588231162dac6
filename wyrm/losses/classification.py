"""Classification losses, whose class scores lie along the last axis."""

from __future__ import annotations

import math
from typing import Literal, overload

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple

from wyrm.foreign_names import answering
from wyrm.losses.checks import (
    as_node,
    check_range,
    check_reduction,
    labels_of,
    rows_of,
    same_axes,
)
from wyrm.losses.weights import Weights, class_weights, label_weights, weighted
from wyrm.node.node import IndexNode, Node, Tensor
from wyrm.ops.comparison import where
from wyrm.ops.softmax import Reduction
from wyrm.types.typing import Array, IntegerArray

N = TypeVar("N")
Bs = TypeVarTuple("Bs")


@overload
def cross_entropy(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    label_smoothing: float = 0.0,
    weight: Weights = None,
    ignore_index: int | None = None,
    sample_weight: Weights = None,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def cross_entropy(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    label_smoothing: float = 0.0,
    weight: Weights = None,
    ignore_index: int | None = None,
    sample_weight: Weights = None,
    reduction: Literal["none"],
) -> Tensor[*Bs]: ...
@answering
def cross_entropy(
    logits: Node,
    labels: IndexNode | IntegerArray,
    *,
    label_smoothing: float = 0.0,
    weight: Weights = None,
    ignore_index: int | None = None,
    sample_weight: Weights = None,
    reduction: Reduction = "mean",
) -> Node:
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
    check_reduction("cross_entropy", reduction)
    check_range("cross_entropy", "label_smoothing", label_smoothing, 0.0, 1.0)
    logits = as_node("cross_entropy", "logits", logits)
    labels = labels_of("cross_entropy", "logits", logits, labels)
    classes = None if weight is None else class_weights("cross_entropy", weight, logits)
    weights = label_weights("cross_entropy", logits, labels, classes, ignore_index, sample_weight)
    if weights.are_even and label_smoothing == 0.0:
        return logits.cross_entropy(labels, reduction=reduction)
    losses = weights.apply(logits.cross_entropy(weights.labels, reduction="none"), weights.of_rows)
    if label_smoothing > 0.0:
        every = logits.log_softmax() if classes is None else logits.log_softmax() * classes
        even = weights.apply(-every.mean(axis=-1), weights.of_samples)
        losses = (1.0 - label_smoothing) * losses + label_smoothing * even
    return weights.reduced(losses, reduction)


@overload
def nll(
    log_probability: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    weight: Weights = None,
    ignore_index: int | None = None,
    sample_weight: Weights = None,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def nll(
    log_probability: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    weight: Weights = None,
    ignore_index: int | None = None,
    sample_weight: Weights = None,
    reduction: Literal["none"],
) -> Tensor[*Bs]: ...
@answering
def nll(
    log_probability: Node,
    labels: IndexNode | IntegerArray,
    *,
    weight: Weights = None,
    ignore_index: int | None = None,
    sample_weight: Weights = None,
    reduction: Reduction = "mean",
) -> Node:
    """Return the negative log-likelihood, `-log_probability[label]` over the last axis.

    `log_probability` has shape (..., classes), as `log_softmax` returns it. Labels, weights, reductions and errors are
    as in `cross_entropy`, which fuses both.

    >>> nll(wy.Constant([[-2.0, -0.5]]), np.array([1])).forward().item()
    0.5
    """
    check_reduction("nll", reduction)
    log_probability = as_node("nll", "log_probability", log_probability)
    labels = labels_of("nll", "log_probability", log_probability, labels)
    classes = None if weight is None else class_weights("nll", weight, log_probability)
    weights = label_weights("nll", log_probability, labels, classes, ignore_index, sample_weight)
    chosen = log_probability.take_along_axis(weights.labels.reshape((*labels.dims, 1)), axis=-1)
    return weights.reduced(weights.apply(-chosen.squeeze(-1), weights.of_rows), reduction)


@overload
def multiclass_focal(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    gamma: float = 2.0,
    weight: Weights = None,
    ignore_index: int | None = None,
    sample_weight: Weights = None,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def multiclass_focal(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    gamma: float = 2.0,
    weight: Weights = None,
    ignore_index: int | None = None,
    sample_weight: Weights = None,
    reduction: Literal["none"],
) -> Tensor[*Bs]: ...
@answering
def multiclass_focal(
    logits: Node,
    labels: IndexNode | IntegerArray,
    *,
    gamma: float = 2.0,
    weight: Weights = None,
    ignore_index: int | None = None,
    sample_weight: Weights = None,
    reduction: Reduction = "mean",
) -> Node:
    """Return the focal loss of classes, `-(1 - q) ** gamma * log(q)` with `q = softmax(logits)[label]`.

    Easy examples weigh less than in `cross_entropy`, which `gamma=0` gives. Lin et al., "Focal loss for dense object
    detection" (2017); `weight` is their alpha for each class. `focal` is the binary form. `gamma` is at least 0.
    Labels, weights, reductions and other errors are as in `cross_entropy`.

    >>> multiclass_focal(wy.Constant([[0.0, 0.0]]), np.array([1]), gamma=1.0).forward().round(4).item()
    0.3465999960899353
    """
    check_reduction("multiclass_focal", reduction)
    check_range("multiclass_focal", "gamma", gamma, 0.0, math.inf)
    logits = as_node("multiclass_focal", "logits", logits)
    labels = labels_of("multiclass_focal", "logits", logits, labels)
    classes = None if weight is None else class_weights("multiclass_focal", weight, logits)
    weights = label_weights("multiclass_focal", logits, labels, classes, ignore_index, sample_weight)
    losses: Node = logits.cross_entropy(weights.labels, reduction="none")
    if gamma > 0.0:
        # 1 - q is 0 for a q that rounds to 1. There, a power below 1 would have no finite derivative.
        wrong = (-(-losses).expm1()).maximum(float(np.finfo(logits.dtype).tiny))
        losses = losses * wrong**gamma
    return weights.reduced(weights.apply(losses, weights.of_rows), reduction)


@overload
def kl_divergence(
    log_prediction: Tensor[*Bs, N],
    target: Tensor[*Bs, N] | Array,
    *,
    log_target: bool = False,
    sample_weight: Weights = None,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def kl_divergence(
    log_prediction: Tensor[*Bs, N],
    target: Tensor[*Bs, N] | Array,
    *,
    log_target: bool = False,
    sample_weight: Weights = None,
    reduction: Literal["none"],
) -> Tensor[*Bs]: ...
@answering
def kl_divergence(
    log_prediction: Node,
    target: Node | Array,
    *,
    log_target: bool = False,
    sample_weight: Weights = None,
    reduction: Reduction = "mean",
) -> Node:
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
    check_reduction("kl_divergence", reduction)
    log_prediction, target = same_axes(
        "kl_divergence", "any" if log_target else "probabilities", log_prediction=log_prediction, target=target
    )
    rows_of("kl_divergence", "log_prediction", log_prediction)
    # An outcome of target probability 0 adds 0, even if its log-probability or the prediction's is -inf.
    present = target.not_equal(-math.inf) if log_target else target > 0.0
    predicted = where(present | log_prediction.not_equal(-math.inf), log_prediction, 0.0)
    if log_target:
        losses = target.exp() * (where(present, target, 0.0) - predicted)
    else:
        losses = target * (where(present, target, 1.0).log() - predicted)
    return weighted("kl_divergence", losses.sum(axis=-1), reduction, sample_weight)

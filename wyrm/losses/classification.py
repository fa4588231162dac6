"""Classification losses, whose class scores lie along the last axis."""

from __future__ import annotations

import math
from typing import Literal, overload

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import ShapeError
from wyrm.foreign_names import answering
from wyrm.losses.checks import (
    as_node,
    check_range,
    check_reduction,
    labels_of,
    reduced,
    rows_of,
    same_axes,
)
from wyrm.node.base import describe
from wyrm.node.leaves import Constant
from wyrm.node.node import IndexNode, Node, Tensor
from wyrm.ops.comparison import where
from wyrm.ops.linear_cross_entropy import LabelTargets
from wyrm.ops.softmax import Reduction
from wyrm.types.dims import axis_size, product
from wyrm.types.typing import Array, IntegerArray

N = TypeVar("N")
Bs = TypeVarTuple("Bs")


@overload
def cross_entropy(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def cross_entropy(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: Literal["none"],
) -> Tensor[*Bs]: ...
@answering
def cross_entropy(
    logits: Node,
    labels: IndexNode | IntegerArray,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> Node:
    """Return `-log softmax(logits)[label]` over the last axis, finite for all finite logits.

    `logits` have the axes (..., classes), `labels` the leading axes: an index node or an array of integers in
    0..classes - 1. `label_smoothing`, in [0, 1], is the part of each target that is spread evenly over all classes
    (Szegedy et al., "Rethinking the inception architecture", 2015). Labels of `ignore_index` have the loss 0 and do not
    count in the mean, which is 0 where no label counts. The result is a scalar for `reduction="mean"` and `"sum"`; for
    `"none"` it has the axes of the labels. `wy.linear_cross_entropy` fuses this loss with the linear layer before it.

    Raises:
        ShapeError: the axes of the labels are not the leading axes of the logits, or with `ignore_index` the axis of
            classes has no size.
        IndexOutOfRange: a label is neither a class nor `ignore_index`; for an input, when it is set.
        DTypeError: the logits are not floats, or the labels not integers.
        ValueError: `label_smoothing` or `reduction` is out of range.

    >>> cross_entropy(wy.Constant([[0.0, 0.0]]), np.array([1]), label_smoothing=0.1).forward().round(4).item()
    0.6930999755859375
    """
    check_reduction("cross_entropy", reduction)
    check_range("cross_entropy", "label_smoothing", label_smoothing, 0.0, 1.0)
    logits = as_node("cross_entropy", "logits", logits)
    labels = labels_of("cross_entropy", "logits", logits, labels)
    if ignore_index is not None:
        return _without_ignored(logits, labels, label_smoothing, ignore_index, reduction)
    exact = logits.cross_entropy(labels, reduction=reduction)
    if label_smoothing == 0.0:
        return exact
    even = reduced(-logits.log_softmax().mean(axis=-1), reduction)
    return (1.0 - label_smoothing) * exact + label_smoothing * even


def _without_ignored(
    logits: Node, labels: IndexNode, label_smoothing: float, ignore_index: int, reduction: Reduction
) -> Node:
    """Return the cross-entropy of the labels that are not `ignore_index`."""
    classes = axis_size(logits.dims[-1])
    if classes is None:
        raise ShapeError(f"cross_entropy: ignore_index needs an axis of classes with a size, not {describe(logits)}")
    # `LabelTargets` takes the axis of classes and the dtype from a weight, and reads none of its elements.
    weight = Constant(np.zeros((classes, 0)), (logits.dims[-1], 0), dtype=logits.dtype)
    rows = labels.reshape((product(labels.dims),))
    targets: Node = LabelTargets(rows, weight, label_smoothing, ignore_index).reshape(logits.dims)
    # A class of target 0 counts nothing, even where its logit is minus infinity.
    losses = -where(targets > 0.0, targets * logits.log_softmax(), 0.0).sum(axis=-1)
    if reduction != "mean":
        return reduced(losses, reduction)
    return losses.sum() / (targets.max(axis=-1) > 0.0).astype(logits.dtype).sum().maximum(1.0)


@overload
def nll(
    log_probability: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def nll(
    log_probability: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    reduction: Literal["none"],
) -> Tensor[*Bs]: ...
@answering
def nll(log_probability: Node, labels: IndexNode | IntegerArray, *, reduction: Reduction = "mean") -> Node:
    """Return the negative log-likelihood, `-log_probability[label]` over the last axis.

    `log_probability` has shape (..., classes), as `log_softmax` returns it. Labels, reductions and errors are as in
    `cross_entropy`, which fuses both.

    >>> nll(wy.Constant([[-2.0, -0.5]]), np.array([1])).forward().item()
    0.5
    """
    check_reduction("nll", reduction)
    log_probability = as_node("nll", "log_probability", log_probability)
    labels = labels_of("nll", "log_probability", log_probability, labels)
    chosen = log_probability.take_along_axis(labels.reshape((*labels.dims, 1)), axis=-1)
    return reduced(-chosen.squeeze(-1), reduction)


@overload
def kl_divergence(
    log_prediction: Tensor[*Bs, N],
    target: Tensor[*Bs, N] | Array,
    *,
    log_target: bool = False,
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def kl_divergence(
    log_prediction: Tensor[*Bs, N],
    target: Tensor[*Bs, N] | Array,
    *,
    log_target: bool = False,
    reduction: Literal["none"],
) -> Tensor[*Bs]: ...
@answering
def kl_divergence(
    log_prediction: Node, target: Node | Array, *, log_target: bool = False, reduction: Reduction = "mean"
) -> Node:
    """Return the Kullback-Leibler divergence, `sum(t * (log(t) - log_prediction))` over the last axis.

    Both operands have shape (..., outcomes), one distribution per row. `log_prediction` holds log-probabilities, as
    `log_softmax` returns them. `target`, a node or an array, holds probabilities, or log-probabilities with
    `log_target=True`. A target probability of 0 adds 0. Kullback and Leibler, "On information and sufficiency" (1951).
    `reduction="mean"` returns the mean over the distributions, `"sum"` the sum, both scalars; `"none"` returns the
    divergences, of the leading axes.

    Raises:
        ShapeError: the shapes differ, or the operands are scalars.
        DTypeError: an operand is not float, or the dtypes differ.
        ValueError: `reduction` is unknown, or an array of probabilities has values outside 0 to 1.

    >>> kl_divergence(wy.Constant([[0.5, 0.5]]).log(), np.array([[1.0, 0.0]])).forward().round(4).item()
    0.6930999755859375
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
    return reduced(losses.sum(axis=-1), reduction)

"""Losses for one answer out of several, whose scores lie along the last axis."""

from __future__ import annotations

import math
from typing import Literal, overload

from typing_extensions import TypeVar, TypeVarTuple

from wyrm.losses.checks import (
    as_node,
    check_range,
    check_reduction,
    labels_of,
    reduced,
    rows_of,
    same_axes,
)
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
    reduction: Literal["mean", "sum"] = "mean",
) -> Tensor[()]: ...
@overload
def cross_entropy(
    logits: Tensor[*Bs, N],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    label_smoothing: float = 0.0,
    reduction: Literal["none"],
) -> Tensor[*Bs]: ...
def cross_entropy(
    logits: Node, labels: IndexNode | IntegerArray, *, label_smoothing: float = 0.0, reduction: Reduction = "mean"
) -> Node:
    """`-log softmax(logits)[label]` over the last axis, finite for all finite logits.

    `logits` have shape (..., classes) and `labels`, an index node or an array of integers from 0 to classes - 1, the
    leading axes. `label_smoothing`, from 0 to 1, is the part of each label that is spread evenly over all classes
    (Szegedy et al., "Rethinking the inception architecture", 2015); without it this is the method of the same name.
    The result is a scalar for `reduction="mean"`, the mean over the labels, and for `"sum"`; for `"none"` it has the
    shape of the labels.

    Raises:
        ShapeError: the labels have not the leading axes of the logits.
        IndexOutOfRange: a label is no class; for an input, when it is set.
        DTypeError: the logits hold no floats, or the labels no integers.
        ValueError: `label_smoothing` or `reduction` is out of its range.

    >>> cross_entropy(wy.Constant([[0.0, 0.0]]), np.array([1]), label_smoothing=0.1).forward().round(4).item()
    0.6930999755859375
    """
    check_reduction("cross_entropy", reduction)
    check_range("cross_entropy", "label_smoothing", label_smoothing, 0.0, 1.0)
    logits = as_node("cross_entropy", "logits", logits)
    labels = labels_of("cross_entropy", "logits", logits, labels)
    exact = logits.cross_entropy(labels, reduction=reduction)
    if label_smoothing == 0.0:
        return exact
    even = reduced(-logits.log_softmax().mean(axis=-1), reduction)
    return (1.0 - label_smoothing) * exact + label_smoothing * even


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
def nll(log_probability: Node, labels: IndexNode | IntegerArray, *, reduction: Reduction = "mean") -> Node:
    """The negative log-likelihood, `-log_probability[label]` over the last axis.

    `log_probability` has shape (..., classes), as `log_softmax` gives it. The labels, reductions and errors are those
    of `cross_entropy`, which does both in one.

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
def kl_divergence(
    log_prediction: Node, target: Node | Array, *, log_target: bool = False, reduction: Reduction = "mean"
) -> Node:
    """The divergence of a predicted distribution from the target, `sum(t * (log(t) - log_prediction))`.

    Both have shape (..., outcomes), and the sum is over the last axis, along which each is one distribution: the
    prediction by its logarithms, as `log_softmax` gives them, the target, a node or an array, by its probabilities or
    with `log_target=True` by their logarithms. A probability of 0 in the target counts nothing. Kullback and Leibler,
    "On information and sufficiency" (1951). The result is a scalar for `reduction="mean"`, the mean over the
    distributions, and for `"sum"`; for `"none"` it has the leading axes.

    Raises:
        ShapeError: the shapes differ, or are those of scalars.
        DTypeError: an operand holds no floats, or the two float types differ.
        ValueError: `reduction` is none of the three, or an array of probabilities is not between 0 and 1.

    >>> kl_divergence(wy.Constant([[0.5, 0.5]]).log(), np.array([[1.0, 0.0]])).forward().round(4).item()
    0.6930999755859375
    """
    check_reduction("kl_divergence", reduction)
    log_prediction, target = same_axes(
        "kl_divergence", "any" if log_target else "probabilities", log_prediction=log_prediction, target=target
    )
    rows_of("kl_divergence", "log_prediction", log_prediction)
    # An outcome of probability 0 counts nothing, even where its logarithm, or that of the prediction, is -inf.
    present = target.not_equal(-math.inf) if log_target else target > 0.0
    predicted = where(present | log_prediction.not_equal(-math.inf), log_prediction, 0.0)
    if log_target:
        losses = target.exp() * (where(present, target, 0.0) - predicted)
    else:
        losses = target * (where(present, target, 1.0).log() - predicted)
    return reduced(losses.sum(axis=-1), reduction)

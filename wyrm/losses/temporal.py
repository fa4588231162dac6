"""Losses of sequences whose labels have no given positions."""

from __future__ import annotations

from typing import Unpack, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import describe
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.typing import IntegerArray
from wyrm.losses.checks import as_node, check_reduction
from wyrm.losses.loss import Each, Total
from wyrm.losses.weights import Weights, weighted
from wyrm.ops.cross_entropy.softmax import Reduction
from wyrm.ops.ctc.ctc import CTC
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.index import as_indices
from wyrm.support.foreign_names import answering

B = TypeVar("B")
T = TypeVar("T")
N = TypeVar("N")
L = TypeVar("L")


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
@answering
def ctc(
    log_probability: Node,
    labels: IndexNode | IntegerArray,
    input_lengths: IndexNode | IntegerArray | None = None,
    label_lengths: IndexNode | IntegerArray | None = None,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    sample_weight: Weights = None,
    reduction: Reduction = "mean",
) -> Node:
    """Return the connectionist temporal classification loss: the negative log-likelihood of labels without positions.

    The likelihood is the sum over all paths of one class a step that become the labels when repeated classes are merged
    and blanks removed (Graves et al., 2006). `log_probability` has the axes (batch, time, classes), as `log_softmax`
    returns it, `labels` (batch, labels). `input_lengths` and `label_lengths`, of the axis (batch,), are the numbers of
    steps and labels that count, all by default; labels after that are any classes. `blank` is the class of no label.

    `reduction="none"` returns the loss of each sequence, `"sum"` their sum, and `"mean"` the mean of the losses divided
    by their numbers of labels, as PyTorch. `sample_weight` is as in `mse`. A sequence too short for its labels has an
    infinite loss, or 0 with `zero_infinity`, and gradient 0. A second-order gradient needs the size of time.

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
    losses: Node = CTC(log_probability, labels, steps, lengths, blank)
    if zero_infinity:
        losses = where(losses < np.inf, losses, 0.0)
    if reduction == "mean":
        losses = losses / lengths.astype(losses.dtype).maximum(1.0)
    return weighted("ctc", losses, reduction, sample_weight)


def _lengths(name: str, lengths: IndexNode | IntegerArray | None, of: Node | IndexNode) -> IndexNode:
    """Return the lengths, by default the size of the second axis of `of` for each of the batch."""
    if lengths is not None:
        return as_indices(lengths)
    batch, size = axis_size(of.dims[0]), axis_size(of.dims[1])
    if batch is None or size is None:
        raise ShapeError(f"ctc: {describe(of)} has axes without a size; give {name}")
    return as_indices(np.full(batch, size))

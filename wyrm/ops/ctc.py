"""Connectionist temporal classification: the likelihood of labels over all their alignments with a sequence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, Plus, axis_size, unify
from wyrm.graph.base import ZERO, Gradient, format_dims, label
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.leaves import as_constant
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.composed import Composed
from wyrm.ops.control.scan import over_time
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, float_dtype
from wyrm.ops.elementwise.exponential import LogAddExp
from wyrm.ops.gradients.accumulation import composite_vjp
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.kernels.native import scratch
from wyrm.ops.shaping.shape import zeros_like
from wyrm.reach.rules import REACH, Reach
from wyrm.reach.ways import How, Way, ways_by

# In place of minus infinity in the composition, whose gradient it would make NaN: far below what a masked class, a
# score of -1e30, adds up to, and so many times above the least float32 that sums over steps do not reach it.
_NEVER = -1e33


def log_add(x: float, y: float) -> float:
    """Return `log(exp(x) + exp(y))` of numbers that may be minus infinity."""
    if x == -math.inf:
        return y
    if y == -math.inf:
        return x
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


def forward_row(
    log_probability: FloatArray, labels: IntegerArray, blank: int, before: FloatArray, after: FloatArray
) -> None:
    """Write the forward values after one step into `after`."""
    for s in range(after.size):
        label = blank if s % 2 == 0 else labels[s // 2]
        total = before[s]
        if s > 0:
            total = log_add(total, before[s - 1])
        if s > 2 and s % 2 == 1 and label != labels[s // 2 - 1]:
            total = log_add(total, before[s - 2])
        after[s] = total + log_probability[label]


def forward_values(
    log_probability: FloatArray, labels: IntegerArray, steps: int, blank: int, forward: FloatArray
) -> float:
    """Fill rows 0 to `steps` of `forward` and return the log-probability of the labels."""
    states = 2 * labels.size + 1
    for s in range(states):
        forward[0, s] = 0 if s == 0 else -math.inf
    for t in range(steps):
        forward_row(log_probability[t], labels, blank, forward[t, :states], forward[t + 1, :states])
    return log_add(forward[steps, states - 1], -math.inf if states == 1 else forward[steps, states - 2])


def backward_row(
    log_probability: FloatArray, labels: IntegerArray, blank: int, after: FloatArray, before: FloatArray
) -> None:
    """Write the backward values before a step into `before`, from those after it."""
    for s in range(before.size):
        label = blank if s % 2 == 0 else labels[s // 2]
        total = after[s] + log_probability[label]
        if s + 1 < before.size:
            following = labels[s // 2] if s % 2 == 0 else blank
            total = log_add(total, after[s + 1] + log_probability[following])
        if s % 2 == 1 and s + 2 < before.size and labels[s // 2 + 1] != label:
            total = log_add(total, after[s + 2] + log_probability[labels[s // 2 + 1]])
        before[s] = total


def ctc_kernel(
    log_probability: FloatArray,
    labels: IntegerArray,
    steps: IntegerArray,
    lengths: IntegerArray,
    blank: int,
    forward: FloatArray,
    out: FloatArray,
) -> None:
    """Write the loss of each sequence into `out`; `forward`, (time + 1, states), is scratch memory."""
    for b in range(out.size):
        out[b] = -forward_values(log_probability[b], labels[b, : lengths[b]], steps[b], blank, forward)


def ctc_gradient_kernel(
    log_probability: FloatArray,
    labels: IntegerArray,
    steps: IntegerArray,
    lengths: IntegerArray,
    blank: int,
    forward: FloatArray,
    backward: FloatArray,
    out: FloatArray,
) -> None:
    """Write the gradient of each loss into `out`; `backward`, (2, states), is scratch memory too.

    Unlike the kernel derived from `ctc_kernel`, it records nothing: two rows of backward values are enough. A loss that
    is infinite has the gradient 0.
    """
    out[:] = 0
    for b in range(out.shape[0]):
        own, states = labels[b, : lengths[b]], 2 * lengths[b] + 1
        total = forward_values(log_probability[b], own, steps[b], blank, forward)
        if total == -math.inf:
            continue
        last = steps[b]
        for s in range(states):
            backward[last % 2, s] = 0 if s >= states - 2 else -math.inf
        for t in range(last, 0, -1):
            after = backward[t % 2, :states]
            for s in range(states):
                label = blank if s % 2 == 0 else own[s // 2]
                out[b, t - 1, label] -= np.exp(forward[t, s] + after[s] - total)
            backward_row(log_probability[b, t - 1], own, blank, after, backward[(t - 1) % 2, :states])


Parents = tuple[Node, IndexNode, IndexNode, IndexNode]


class _Alignment(HasIndexOperands[Parents, Axes], Composed[Parents, Axes], abstract=True):
    """Base class; the parents are log-probabilities, (batch, time, classes), labels, and the lengths of both."""

    __slots__ = ("blank",)
    blank: int

    def __init__(
        self, log_probability: Node, labels: IndexNode, steps: IndexNode, lengths: IndexNode, blank: int
    ) -> None:
        self._construct((log_probability, labels, steps, lengths), blank=blank)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        log_probability, labels = self.parents[:2]
        return (
            IndexOperand(1, log_probability.dims[2]),
            IndexOperand(2, Plus((log_probability.dims[1], 1))),
            IndexOperand(3, Plus((labels.dims[1], 1))),
        )

    def dtype_rule(self) -> np.dtype:
        return float_dtype(self.parents[0])

    def shape_rule(self) -> Dims:
        log_probability, labels, steps, lengths = self.parents
        for node, count in ((log_probability, 3), (labels, 2), (steps, 1), (lengths, 1)):
            if len(node.dims) != count:
                raise ShapeError(f"{label(node)} must have {count} axes, not {format_dims(node.dims)}")
            unify(log_probability.dims[0], node.dims[0])
        classes = axis_size(log_probability.dims[2])
        if classes is None or not 0 <= self.blank < classes:
            raise ShapeError(
                f"the blank {self.blank} must be a class, and the axis of classes have a size, not "
                f"{format_dims(log_probability.dims)}"
            )
        dims: Dims = log_probability.dims
        return dims


@REACH.register(_Alignment)
class _AlignmentReach(Reach):
    """Sequences stay apart."""

    def ways(self, node: _Alignment[Any]) -> list[Way]:
        places = [(k, [0, *[None] * (parent.ndim - 1)]) for k, parent in enumerate(node.parents)]
        return ways_by(node, places, dict.fromkeys(range(1, node.ndim), How.ANY))


class CTC(_Alignment[Axes]):
    """The negative log-likelihood of the labels of each sequence, (batch,); inf where no alignment exists.

    It is the sum of the probabilities of all paths of one class a step from which the labels remain when repeated
    classes are merged and blanks removed (Graves et al., "Connectionist temporal classification", 2006). The gradient
    of an infinite loss is 0.
    """

    __slots__ = ()

    def shape_rule(self) -> Dims:
        return super().shape_rule()[:1]

    def compose(self, log_probability: Any, labels: Any, steps: Any, lengths: Any) -> Node:
        total = _log_probability(log_probability, labels, steps, lengths, self.blank)
        return where(total <= 0.5 * _NEVER, math.inf, -total)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        slopes: Node = CTCGradient(*self.parents, self.blank)
        return gradient.expand_dims((1, 2)) * slopes, ZERO, ZERO, ZERO


@LOOPS.register(CTC)
class _CTCLoops(ByKernel):
    kernel = staticmethod(ctc_kernel)

    def kernel_arguments(self, node: CTC, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return *operands, node.blank, _forward_rows(node, operands), out


def _forward_rows(node: _Alignment, operands: Sequence[Array]) -> Array:
    """Return scratch memory for the forward values of one sequence."""
    return scratch((operands[0].shape[1] + 1, 2 * operands[1].shape[1] + 1), node.dtype)


def _log_probability(log_probability: Node, labels: Any, steps: Any, lengths: Any, blank: int) -> Node:
    """Return the log-probability of the labels of each sequence, (batch,); about `_NEVER` for those without any.

    The loop carries the forward values of the blanks, (batch, labels + 1), and of the labels, (batch, labels), the
    result, and the number of steps.
    """
    batch, count = labels.dims
    place, dtype = lengths.reshape((batch, 1)), log_probability.dtype
    follows = labels[:, 1:] != labels[:, :-1]
    never, zero = as_constant(_NEVER, dtype), as_constant(0.0, dtype)
    column = never.broadcast_to((batch, 1))
    of_blanks: Node = concatenate([zero.broadcast_to((batch, 1)), never.broadcast_to((batch, count))], axis=1)
    of_labels: Node = never.broadcast_to((batch, count))

    def step(states: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Node], list[Node]]:
        (of_blanks, of_labels, total, done), (row,) = states, rows
        likely = row.maximum(_NEVER)  # also of a class that is impossible
        of_row = likely.take_along_axis(labels, axis=-1), likely[:, blank : blank + 1]
        after, done = _after(of_blanks, of_labels, of_row, follows, column), done + 1.0
        return [*after, where(steps.astype(dtype) == done, _at_end(*after, column, place), total), done], []

    starts = [of_blanks, of_labels, _at_end(of_blanks, of_labels, column, place), zero]
    return over_time(step, starts, [log_probability]).last(2)


def _after(
    of_blanks: Node, of_labels: Node, of_row: tuple[Node, Node], follows: Any, column: Node
) -> tuple[Node, Node]:
    """Return the forward values after a step, whose log-probabilities of the labels and of the blank are `of_row`."""
    before: Node = where(follows, of_labels[:, :-1], _NEVER)
    entered: Node = LogAddExp(of_blanks[:, :-1], concatenate([column, before], axis=1))
    blanks: Node = LogAddExp(of_blanks, concatenate([column, of_labels], axis=1))
    labels: Node = LogAddExp(of_labels, entered)
    return blanks + of_row[1], labels + of_row[0]


def _at_end(of_blanks: Node, of_labels: Node, column: Node, place: Any) -> Node:
    """Return the log-probability of having passed all labels."""
    ends = (of_blanks, concatenate([column, of_labels], axis=1))
    last, before_last = (x.take_along_axis(place, axis=-1).squeeze(-1) for x in ends)
    return LogAddExp(last, before_last)


class CTCGradient(_Alignment[Axes]):
    """The gradients of `CTC`, each loss with respect to the log-probabilities of its sequence."""

    __slots__ = ()
    written = "ctc"

    def compose(self, log_probability: Any, labels: Any, steps: Any, lengths: Any) -> Node:
        total = _log_probability(log_probability, labels, steps, lengths, self.blank)
        losses = where(total <= 0.5 * _NEVER, 0.0, -total)
        ones = as_constant(1.0, self.dtype).broadcast_to(losses.dims)
        (slopes,) = composite_vjp(losses, ones, [log_probability])
        return zeros_like(log_probability) if slopes is ZERO else slopes


@LOOPS.register(CTCGradient)
class _CTCGradientLoops(ByKernel):
    kernel = staticmethod(ctc_gradient_kernel)

    def kernel_arguments(self, node: CTCGradient, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        backward = scratch((2, 2 * operands[1].shape[1] + 1), node.dtype)
        return *operands, node.blank, _forward_rows(node, operands), backward, out

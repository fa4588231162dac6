"""Connectionist temporal classification: the likelihood of labels over all their alignments with a sequence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, Plus, axis_size, unify
from wyrm.graph.base import ZERO, Gradient, Undefined, format_dims, label
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.leaves import as_constant
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, BoolArray, FloatArray, IntegerArray
from wyrm.ops.attention.attention import MASKED_SCORE
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, float_dtype
from wyrm.ops.elementwise.exponential import LogAddExp
from wyrm.ops.gradients.accumulation import composite_vjp
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.kernels.loops_jax import scan
from wyrm.ops.kernels.native import scratch
from wyrm.support.imports import unread


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
    """Write the gradient of each loss into `out`; `backward`, (2, states), is scratch memory too."""
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


class _Alignments:
    """The states of each sequence, blank, label 0, blank, ..., blank, and what they emit; all are JAX arrays."""

    def __init__(self, operands: Sequence[Any], blank: int) -> None:
        jnp = unread("jax.numpy")
        log_probability, labels, steps, lengths = operands
        batch, time, _ = log_probability.shape
        self.steps, self.lengths, self._length = steps, lengths, time
        self.states = jnp.full((batch, 2 * labels.shape[1] + 1), blank, labels.dtype).at[:, 1::2].set(labels)
        emitted = jnp.broadcast_to(self.states[:, None], (batch, time, self.states.shape[1]))
        self.emissions = jnp.take_along_axis(log_probability, emitted, axis=2).swapaxes(0, 1)
        follows = jnp.zeros(self.states.shape, bool).at[:, 3::2].set(labels[:, 1:] != labels[:, :-1])
        # The log-probability, 0 or minus infinity, of a step that skips the state before.
        self._skips = jnp.where(follows, 0.0, -np.inf).astype(log_probability.dtype)

    def forward(self) -> tuple[Any, Any]:
        """Return the log-probability of each sequence, and that of each state after each step: (time, batch, states).

        The second array costs nothing if it is not used.
        """
        import jax.numpy as jnp

        def step(carry: tuple[Any, Any], now: tuple[Any, Any]) -> tuple[tuple[Any, Any], Any]:
            (row, final), (t, emission) = carry, now
            stayed = jnp.logaddexp(jnp.logaddexp(row, _moved_by_xla(row, 1)), _moved_by_xla(row, 2) + self._skips)
            row = stayed + emission
            return (row, jnp.where((self.steps == t)[:, None], row, final)), row

        first = jnp.full(self._skips.shape, -np.inf, self._skips.dtype).at[:, 0].set(0.0)
        times = jnp.arange(1, self._length + 1)
        (_, final), rows = scan(step, (first, first), (times, self.emissions))
        last = 2 * self.lengths[:, None]
        at_end = jnp.take_along_axis(final, jnp.concatenate([last, jnp.maximum(last - 1, 0)], axis=1), axis=1)
        before_last = jnp.where(self.lengths > 0, at_end[:, 1], -np.inf)
        return jnp.logaddexp(at_end[:, 0], before_last), rows

    def posterior(self) -> Any:
        """Return the probability of each state at each step, given the labels: (time, batch, states)."""
        import jax.numpy as jnp

        totals, rows = self.forward()
        is_finite = jnp.isfinite(totals)[:, None]
        subtrahend = jnp.where(is_finite, totals[:, None], 0.0)
        before_last = 2 * self.lengths[:, None] - jnp.arange(self.states.shape[1])
        is_end = (before_last == 0) | ((before_last == 1) & (self.lengths > 0)[:, None])
        end = jnp.where(is_end, 0.0, -np.inf).astype(rows.dtype)
        skips = _moved_by_xla(self._skips, -2)

        def step(backward: Any, now: tuple[Any, Any, Any]) -> tuple[Any, Any]:
            t, emission, row = now
            backward = jnp.where((self.steps == t)[:, None], end, backward)
            exponent = jnp.where(is_finite, row + backward - subtrahend, -np.inf)
            after = backward + emission
            before = jnp.logaddexp(jnp.logaddexp(after, _moved_by_xla(after, -1)), _moved_by_xla(after, -2) + skips)
            return before, jnp.exp(exponent)

        times = jnp.arange(1, self._length + 1)
        first = jnp.full(end.shape, -np.inf, end.dtype)
        return scan(step, first, (times, self.emissions, rows), reverse=True)[1]


def _moved_by_xla(row: Any, by: int) -> Any:
    """Return rows of states moved by a number of states, backward if it is negative."""
    import jax

    return jax.lax.pad(row, np.array(-np.inf, row.dtype), [(0, 0, 0), (by, -by, 0)])


class CTCForm(JaxForm):
    """The lowering of `CTC`."""

    def own_gradient(self, node: Any) -> bool:
        return True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return -_Alignments(operands, node.blank).forward()[0]


class CTCGradientForm(JaxForm):
    """The lowering of `CTCGradient`."""

    def own_gradient(self, node: Any) -> bool:
        return True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        alignments = _Alignments(operands, node.blank)
        batch, time = jnp.arange(shape[0]), jnp.arange(shape[1])[:, None, None]
        slopes = -alignments.posterior()
        return jnp.zeros(shape, slopes.dtype).at[batch[:, None], time, alignments.states].add(slopes)


Parents = tuple[Node, IndexNode, IndexNode, IndexNode]


class _Alignment(HasIndexOperands[Parents, Axes], Node[Parents, Axes], abstract=True):
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

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if all(row == 0 for row in rows) else None

    def _forward(self, operands: Sequence[Any]) -> tuple[FloatArray, list[FloatArray], FloatArray, BoolArray]:
        """Return the log-probability of each sequence, the forward rows, the emissions and where labels may follow.

        A row has the axes (batch, states), and the emissions have (batch, time, states).
        """
        log_probability, labels, steps, lengths = (np.asarray(operand) for operand in operands)
        states = _states(labels, self.blank)
        emissions = np.take_along_axis(
            log_probability, np.broadcast_to(states[:, None], (*log_probability.shape[:2], states.shape[1])), axis=2
        )
        follows = np.zeros(states.shape, bool)
        follows[:, 3::2] = labels[:, 1:] != labels[:, :-1]
        row = np.full(states.shape, -np.inf, log_probability.dtype)
        row[:, 0] = 0.0
        rows = [row]
        for t in range(log_probability.shape[1]):
            skipped = np.where(follows, _moved(row, 2), -np.inf)
            row = np.logaddexp(np.logaddexp(row, _moved(row, 1)), skipped) + emissions[:, t]
            rows.append(row)
        batch = np.arange(len(labels))
        final = np.stack(rows)[steps, batch]
        before_last = np.where(lengths > 0, final[batch, np.maximum(2 * lengths - 1, 0)], -np.inf)
        totals = np.logaddexp(final[batch, 2 * lengths], before_last).astype(self.dtype)
        return totals, rows, emissions, follows


def _states(labels: IntegerArray, blank: int) -> IntegerArray:
    """Return the labels between blanks, (batch, 2 * length + 1)."""
    states = np.full((len(labels), 2 * labels.shape[1] + 1), blank, np.int64)
    states[:, 1::2] = labels
    return states


def _moved(row: FloatArray, by: int) -> FloatArray:
    """Return a row of states moved by a number of states, backward if it is negative."""
    result = np.full(row.shape, -np.inf, row.dtype)
    if by > 0:
        result[:, by:] = row[:, :-by]
    else:
        result[:, :by] = row[:, -by:]
    return result


class CTC(_Alignment[Axes]):
    """The negative log-likelihood of the labels of each sequence, (batch,); inf where no alignment exists.

    It is the sum of the probabilities of all paths of one class a step from which the labels remain when repeated
    classes are merged and blanks removed (Graves et al., "Connectionist temporal classification", 2006). The gradient
    of an infinite loss is 0. A second-order gradient needs the size of time.
    """

    __slots__ = ()

    def shape_rule(self) -> Dims:
        return super().shape_rule()[:1]

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.asarray(-self._forward(operands)[0])

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        slopes: Node = CTCGradient(*self.parents, self.blank)
        return gradient.expand_dims((1, 2)) * slopes, ZERO, ZERO, ZERO


@LOOPS.register(CTC)
class _CTCLoops(ByKernel):
    kernel = staticmethod(ctc_kernel)

    def kernel_arguments(self, node: CTC, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return *operands, node.blank, _forward_rows(node, operands), out


JAX.register(CTC)(CTCForm)


def _forward_rows(node: _Alignment, operands: Sequence[Array]) -> Array:
    """Return scratch memory for the forward values of one sequence."""
    return scratch((operands[0].shape[1] + 1, 2 * operands[1].shape[1] + 1), node.dtype)


def _composed(log_probability: Node, labels: Any, steps: Any, lengths: Any, blank: int) -> Node:
    """Return the losses composed of ordinary ops, for the second-order gradient; 0 where no alignment exists."""
    batch, count = labels.dims
    place = lengths.reshape((batch, 1))
    follows = labels[:, 1:] != labels[:, :-1]
    never = as_constant(MASKED_SCORE, log_probability.dtype)
    start, column = as_constant(0.0, log_probability.dtype).broadcast_to((batch, 1)), never.broadcast_to((batch, 1))
    # The forward values of the blanks, (batch, labels + 1), and of the labels, (batch, labels).
    of_blanks: Node = concatenate([start, never.broadcast_to((batch, count))], axis=1)
    of_labels: Node = never.broadcast_to((batch, count))
    total = _at_end(of_blanks, of_labels, column, place)
    for t in range(axis_size(log_probability.dims[1]) or 0):
        row: Node = log_probability[:, t]
        of_row = row.take_along_axis(labels, axis=-1), row[:, blank : blank + 1]
        of_blanks, of_labels = _after(of_blanks, of_labels, of_row, follows, column)
        total = where(steps == t + 1, _at_end(of_blanks, of_labels, column, place), total)
    return where(total > 0.5 * MASKED_SCORE, -total, 0.0)


def _after(
    of_blanks: Node, of_labels: Node, of_row: tuple[Node, Node], follows: Any, column: Node
) -> tuple[Node, Node]:
    """Return the forward values after a step, whose log-probabilities of the labels and of the blank are `of_row`."""
    before: Node = where(follows, of_labels[:, :-1], MASKED_SCORE)
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

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        totals, rows, emissions, follows = self._forward(operands)
        labels, steps, lengths = (np.asarray(operand, np.int64) for operand in operands[1:])
        states = _states(labels, self.blank)
        batch = np.arange(len(labels))
        last = 2 * lengths[:, None] - np.arange(states.shape[1])
        end = np.where((last == 0) | ((last == 1) & (lengths > 0)[:, None]), 0.0, -np.inf)
        backward = np.full(states.shape, -np.inf)
        result = np.zeros(shape, self.dtype)
        is_finite = np.isfinite(totals)[:, None]
        # A sequence that allows a skip to a state allows it from two states before.
        from_here = _moved(np.where(follows, 0.0, -np.inf), -2)
        for t in range(shape[1], 0, -1):
            backward = np.where((steps == t)[:, None], end, backward)
            exponents = np.where(is_finite, rows[t] + backward - np.where(is_finite, totals[:, None], 0.0), -np.inf)
            for s in range(states.shape[1]):
                result[batch, t - 1, states[:, s]] -= np.exp(exponents[:, s])
            after = backward + emissions[:, t - 1]
            backward = np.logaddexp(np.logaddexp(after, _moved(after, -1)), _moved(after, -2) + from_here)
        return xp.asarray(result)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        log_probability = self.parents[0]
        time: Any = log_probability.dims[1]
        if axis_size(time) is None:
            reason = f"the second-order gradient of ctc needs a time axis with a size, as in {type(time).__name__}(20)"
            return Undefined(reason), ZERO, ZERO, ZERO
        composed = _composed(log_probability, *self.parents[1:], self.blank)
        ones = as_constant(1.0, self.dtype).broadcast_to(composed.dims)
        (slopes,) = composite_vjp(composed, ones, (log_probability,))
        if slopes is ZERO:
            return ZERO, ZERO, ZERO, ZERO
        return (*composite_vjp(slopes, gradient, (log_probability,)), ZERO, ZERO, ZERO)


@LOOPS.register(CTCGradient)
class _CTCGradientLoops(ByKernel):
    kernel = staticmethod(ctc_gradient_kernel)

    def kernel_arguments(self, node: CTCGradient, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        backward = scratch((2, 2 * operands[1].shape[1] + 1), node.dtype)
        return *operands, node.blank, _forward_rows(node, operands), backward, out


JAX.register(CTCGradient)(CTCGradientForm)

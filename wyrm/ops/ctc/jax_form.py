"""Connectionist temporal classification by JAX: the steps of all sequences at once, in a loop over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.kernels.loops_jax import scan
from wyrm.support.imports import unread


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
            stayed = jnp.logaddexp(jnp.logaddexp(row, _moved(row, 1)), _moved(row, 2) + self._skips)
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
        skips = _moved(self._skips, -2)

        def step(backward: Any, now: tuple[Any, Any, Any]) -> tuple[Any, Any]:
            t, emission, row = now
            backward = jnp.where((self.steps == t)[:, None], end, backward)
            exponent = jnp.where(is_finite, row + backward - subtrahend, -np.inf)
            after = backward + emission
            before = jnp.logaddexp(jnp.logaddexp(after, _moved(after, -1)), _moved(after, -2) + skips)
            return before, jnp.exp(exponent)

        times = jnp.arange(1, self._length + 1)
        first = jnp.full(end.shape, -np.inf, end.dtype)
        return scan(step, first, (times, self.emissions, rows), reverse=True)[1]


def _moved(row: Any, by: int) -> Any:
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


__all__ = ["CTCForm", "CTCGradientForm"]

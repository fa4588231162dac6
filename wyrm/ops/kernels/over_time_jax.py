"""Ops that go along an axis step by step, as loops of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wyrm.graph.jax_form import JaxForm, Lowering

State = tuple[Any, ...]


def over_time(
    step: Callable[[State, list[Any]], tuple[State, Any]],
    state: State,
    sequences: Sequence[Any],
    axis: int = 1,
    reverse: bool = False,
) -> Any:
    """Return the results of all steps along `axis`; a step gets the state and parts of the sequences of size 1."""
    import jax
    import jax.numpy as jnp

    def one(state: State, rows: list[Any]) -> tuple[State, Any]:
        state, made = step(state, [jnp.expand_dims(row, axis) for row in rows])
        return state, jnp.squeeze(made, axis)

    moved = [jnp.moveaxis(x, axis, 0) for x in sequences]
    return jnp.moveaxis(jax.lax.scan(one, state, moved, reverse=reverse)[1], 0, axis)


class RecurrenceForm(JaxForm):
    """The lowering of `Recurrence`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        factor, term = operands
        first = jnp.arange(shape[node.axis]) == (shape[node.axis] - 1 if node.reverse else 0)
        factor = jnp.where(jnp.expand_dims(first, range(1, len(shape) - node.axis)), 0.0, factor)

        def step(state: State, rows: list[Any]) -> tuple[State, Any]:
            factor, term = rows
            made = factor * state[0] + term
            return (made,), made

        before = jnp.zeros([1 if axis == node.axis else size for axis, size in enumerate(shape)], node.dtype)
        return over_time(step, (before,), [factor, term], node.axis, node.reverse)


__all__ = ["RecurrenceForm", "State", "over_time"]

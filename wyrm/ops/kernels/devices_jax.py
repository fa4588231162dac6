"""Loops and tangents inside of `jax.shard_map`, where a type says over which devices a value varies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def varying_as(value: Any, like: Any) -> Any:
    """Return a value that varies over the devices that another one, or a type, varies over."""
    import jax

    missing = tuple(_axes(like) - _axes(value))
    return jax.lax.pcast(value, missing, to="varying") if missing else value


def steady(step: Callable[[Any], Any], state: Any) -> Any:
    """Return the first state of a loop as later ones vary: `step(state)` returns the next state.

    A state of zeros is the same on all devices, that after a step of their rows is not.
    """
    import jax

    if not jax.sharding.get_abstract_mesh().manual_axes:
        return state
    while True:
        following = jax.eval_shape(partial(step, state))
        before = list(map(_axes, jax.tree.leaves(state)))
        state = jax.tree.map(varying_as, state, following)
        if before == list(map(_axes, jax.tree.leaves(state))):
            return state


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]], state: Any, rows: Any, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Return the last state and the stacked results of `jax.lax.scan`, from a `steady` first state."""
    import jax

    def step(state: Any) -> Any:
        return body(state, jax.tree.map(lambda array: array[0], rows))[0]

    results: tuple[Any, Any] = jax.lax.scan(body, steady(step, state), rows, length, reverse)
    return results


def _axes(value: Any) -> frozenset[str]:
    """Return the axes of a mesh that a value, or the result of `jax.eval_shape`, varies over."""
    import jax

    described = value if isinstance(value, jax.ShapeDtypeStruct) else jax.typeof(value)
    manual: Any = getattr(described, "manual_axis_type", None)
    # Versions of JAX before 0.10 call it `vma`.
    return frozenset((getattr(described, "vma", None) if manual is None else manual.varying) or ())


__all__ = ["scan", "steady", "varying_as"]

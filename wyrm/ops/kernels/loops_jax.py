"""Loops of JAX: over blocks of rows, whose intermediate values stay in the caches, and over the steps of an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wyrm.ops.kernels.devices_jax import scan

State = tuple[Any, ...]


def in_blocks(
    function: Callable[..., tuple[Any, Any]], blocks: int, shards: int, arrays: Sequence[Any], apart: bool = False
) -> tuple[Any, Any]:
    """Return the two results of `function(*arrays)`, computed for one block of rows after the other.

    The first axis of the arrays and of the first result, a pytree, is the rows, a multiple of `blocks * shards`. The
    second result, a pytree too, is summed over the blocks. The rows are in `shards` equal parts, and a
    block takes as many rows from each part. If each part is on its own device, a device computes with its own rows
    alone, and the devices add up their sums once, after the last block, or with `apart` not at all: the sums then
    have a first axis of shards.
    """
    import jax
    import jax.numpy as jnp

    if blocks == 1 and not apart:
        return function(*arrays)

    def divided(array: Any) -> Any:
        rows, rest = array.shape[0] // (blocks * shards), array.shape[1:]
        parts = array.reshape(shards, blocks, rows, *rest)
        return parts.swapaxes(0, 1).reshape(blocks, shards * rows, *rest)

    def joined(array: Any) -> Any:
        rows, rest = array.shape[1] // shards, array.shape[2:]
        return array.reshape(blocks, shards, rows, *rest).swapaxes(0, 1).reshape(blocks * shards * rows, *rest)

    def by_shard(*block: Any) -> tuple[Any, Any]:
        """Return the results of a block, with a sum for each shard."""
        of_shards = [array.reshape(shards, array.shape[0] // shards, *array.shape[1:]) for array in block]
        of_rows, sums = jax.vmap(function)(*of_shards)
        return jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), of_rows), sums

    def step(totals: Any, block: Any) -> tuple[Any, Any]:
        of_rows, sums = of_block(*block)
        return jax.tree.map(jnp.add, totals, sums), of_rows

    parts = [divided(array) for array in arrays]
    _, sums = jax.eval_shape(function, *(part[0] for part in parts))
    of_block = by_shard if apart or (shards > 1 and jax.tree.leaves(sums)) else function
    if of_block is by_shard:
        _, sums = jax.eval_shape(by_shard, *(part[0] for part in parts))
    zeros = jax.tree.map(lambda total: jnp.zeros(total.shape, total.dtype), sums)
    # JAX's derivatives compute each block again, and keep the rows alone.
    totals, of_rows = scan(jax.checkpoint(step), zeros, parts)
    if of_block is by_shard and not apart:
        totals = jax.tree.map(lambda total: total.sum(axis=0), totals)
    return jax.tree.map(joined, of_rows), totals


def number_of_blocks(rows: int, bytes_in_all: int, block_bytes: int) -> int:
    """Return the divisor of `rows` nearest to the number of blocks of `block_bytes` each.

    >>> number_of_blocks(64, 2**26, 2**22)
    16
    """
    wanted = max(1.0, bytes_in_all / block_bytes)
    divisors = (n for n in range(1, rows + 1) if rows % n == 0)
    return min(divisors, key=lambda n: max(n / wanted, wanted / n), default=1)


def over_time(
    step: Callable[[State, list[Any]], tuple[State, Any]],
    state: State,
    sequences: Sequence[Any],
    axis: int = 1,
    reverse: bool = False,
) -> Any:
    """Return the results of all steps along `axis`; a step gets the state and parts of the sequences of size 1."""
    import jax.numpy as jnp

    def one(state: State, rows: list[Any]) -> tuple[State, Any]:
        state, made = step(state, [jnp.expand_dims(row, axis) for row in rows])
        return state, jnp.squeeze(made, axis)

    moved = [jnp.moveaxis(x, axis, 0) for x in sequences]
    return jnp.moveaxis(scan(one, state, moved, reverse=reverse)[1], 0, axis)


__all__ = ["State", "in_blocks", "number_of_blocks", "over_time"]

"""What JAX forms share: loops over rows and over steps, also inside `jax.shard_map`, and calls of NumPy code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from wyrm.support.imports import jax, jnp


def varying_as(value: Any, like: Any) -> Any:
    """Return a value that varies over the devices that another one, or a type, varies over."""
    missing = tuple(_mesh_axes(like) - _mesh_axes(value))
    return jax.lax.pcast(value, missing, to="varying") if missing else value


def steady(step: Callable[[Any], Any], state: Any) -> Any:
    """Return the first state of a loop as later ones vary: `step(state)` returns the next state.

    A state of zeros is the same on all devices, that after a step of their rows is not.
    """
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return state
    while True:
        following = jax.eval_shape(partial(step, state))
        before = list(map(_mesh_axes, jax.tree.leaves(state)))
        state = jax.tree.map(varying_as, state, following)
        if before == list(map(_mesh_axes, jax.tree.leaves(state))):
            return state


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]], state: Any, rows: Any, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Return the last state and the stacked results of `jax.lax.scan`, from a `steady` first state."""

    def step(state: Any) -> Any:
        return body(state, jax.tree.map(lambda array: array[0], rows))[0]

    results: tuple[Any, Any] = jax.lax.scan(body, steady(step, state), rows, length, reverse)
    return results


def _mesh_axes(value: Any) -> frozenset[str]:
    """Return the axes of a mesh that a value, or the result of `jax.eval_shape`, varies over."""
    described = value if isinstance(value, jax.ShapeDtypeStruct) else jax.typeof(value)
    manual: Any = getattr(described, "manual_axis_type", None)
    # Versions of JAX before 0.10 call it `vma`.
    return frozenset((getattr(described, "vma", None) if manual is None else manual.varying) or ())


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

    def one(state: State, rows: list[Any]) -> tuple[State, Any]:
        state, made = step(state, [jnp.expand_dims(row, axis) for row in rows])
        return state, jnp.squeeze(made, axis)

    moved = [jnp.moveaxis(x, axis, 0) for x in sequences]
    return jnp.moveaxis(scan(one, state, moved, reverse=reverse)[1], 0, axis)


def on_host(
    compute: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: np.dtype,
    operands: Sequence[Any],
    vmap_method: Literal["sequential", "broadcast_all"] = "sequential",
) -> Any:
    """Return `compute(*arrays)`, of this shape and dtype, for the NumPy arrays of JAX's operands; it may change them.

    JAX computes the rows of a `jax.vmap` one by one, or with "broadcast_all" in one call, with axes before `shape`.
    """
    # The call gets and returns words of 32 bits: it may run in a thread of XLA's, in which JAX has no 64-bit types.
    kinds = [np.dtype(operand.dtype) for operand in operands]
    words = [_words(operand, kind) for operand, kind in zip(operands, kinds, strict=True)]
    result = jax.ShapeDtypeStruct((*shape, 2) if dtype.itemsize == 8 else shape, _word_dtype(dtype))

    def call(*given: Any) -> Any:
        arrays = (_array_of_words(np.asarray(x), kind) for x, kind in zip(given, kinds, strict=True))
        found = np.asarray(compute(*arrays), dtype)
        many = found.view(_word_dtype(dtype)) if found.ndim else found.reshape(1).view(_word_dtype(dtype))
        return many.reshape((*found.shape, 2) if dtype.itemsize == 8 else found.shape)

    found = jax.pure_callback(call, result, *words, vmap_method=vmap_method)
    return found if _word_dtype(dtype) == dtype else jax.lax.bitcast_convert_type(found, dtype)


def _word_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the words that hold numbers of a dtype."""
    return np.dtype(np.uint32) if dtype.itemsize >= 4 else dtype


def _words(operand: Any, dtype: np.dtype) -> Any:
    return operand if _word_dtype(dtype) == dtype else jax.lax.bitcast_convert_type(operand, _word_dtype(dtype))


def _array_of_words(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a new array of the numbers that words hold."""
    shape = words.shape[:-1] if dtype.itemsize == 8 else words.shape
    return np.array(words, order="C").reshape(-1).view(dtype).reshape(shape)


__all__ = ["State", "in_blocks", "number_of_blocks", "over_time", "scan", "steady", "varying_as"]

"""The draws of all engines as JAX arrays, by the same functions of a key and a position.

Words, integers and masks have the same bits in all engines. Floats may differ by a few units in the last place, because
XLA contracts a multiplication and an addition to one operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError
from wyrm.graph.axes import resolve_axis
from wyrm.graph.base import BaseNode, explain
from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS
from wyrm.ops.random.dropout_mask import drop_threshold, is_kept
from wyrm.ops.random.philox_jax import Words, philox_block, word, words_of
from wyrm.support.imports import jnp

# --- words --------------------------------------------------------------------------------------------------------


def key_words(lowering: Lowering, step: Any, seed: Any, stream: Any) -> Words:
    """Return the two words of a `RandomKey`."""
    zero = np.uint32(0)
    first, second, _, _ = philox_block(lowering, (zero, zero), words_of(step), seed, stream)
    return first, second


def positions(lowering: Lowering, node: BaseNode, key: Any, shape: tuple[int, ...]) -> Any:
    """Return the positions of all elements of a node of this shape, uint32; `key` may count the rows before."""
    position, places = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape), lowering.places(node)
    if places is not None:
        moved = places.astype(jnp.uint32) - jnp.arange(shape[0], dtype=jnp.uint32)
        position = position + moved.reshape(-1, *(1 for _ in shape[1:])) * np.uint32(math.prod(shape[1:]))
    return position + key[2] * np.uint32(math.prod(shape[1:])) if len(key) == 3 else position


def check_range(node: Any, low: int, high: int) -> None:
    """Raise `DTypeError` if the integers in [low, high) that a node draws are no integers of JAX."""
    from jax.dtypes import canonicalize_dtype

    bits = 8 * np.dtype(canonicalize_dtype(np.int64)).itemsize - 1
    if not -(2**bits) <= low <= high <= 2**bits:
        text = f"draws integers from {low:,} to {high - 1:,}, and JAX has int32 alone unless jax_enable_x64 is set"
        raise DTypeError(explain(node, text))


# --- forms --------------------------------------------------------------------------------------------------------


class RandomKeyForm(JaxForm):
    """The lowering of `RandomKey`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        step, *rows_before = operands
        key = key_words(lowering, step, lowering.attribute(node, "seed"), lowering.attribute(node, "stream"))
        return lowering.xp.stack([*key, *(words_of(rows)[0] for rows in rows_before)])


class FlatIndexForm(JaxForm):
    """The lowering of draws from a key and a position: the `by_flat_index` of their loops, for all positions."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        (key,), loops = operands, LOOPS.of(node)
        position = positions(lowering, node, key, shape)
        assert loops.by_flat_index is not None
        return lowering.elementwise(loops.by_flat_index, position, key[0], key[1], *loops.flat_index_arguments(node))


class DropoutForm(JaxForm):
    """The lowering of `Dropout` and `AddDropout`."""

    narrow: bool | None = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, *residual, step = operands
        key = key_words(lowering, step, lowering.attribute(node, "seed"), lowering.attribute(node, "stream"))
        threshold = drop_threshold(node.rate, 2**32)
        mask = lowering.elementwise(is_kept, positions(lowering, node, key, shape), *key, threshold)
        dropped = lowering.xp.where(mask, x * (1.0 / (1.0 - node.rate)), 0.0)
        return residual[0] + dropped if residual else dropped


class RandomIntegerForm(FlatIndexForm):
    """The lowering of `RandomInteger`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        check_range(node, node.low, node.low + node.count)
        return super().lower(node, operands, shape, lowering)


class RandomPermutationForm(JaxForm):
    """The lowering of `RandomPermutation`, by a function of positions to integers and a kernel that exchanges them."""

    def __init__(self, integer_at: Callable[..., Any], shuffle: Callable[..., None]) -> None:
        self._integer_at, self._shuffle = integer_at, shuffle

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        (key,), count = operands, shape[-1]
        position, most = positions(lowering, node, key, shape), jnp.arange(1, count + 1, dtype=jnp.uint32)
        check_range(node, 0, count)
        others = lowering.elementwise(self._integer_at, position, key[0], key[1], 0, most)
        rows = others.reshape(math.prod(shape[:-1]), count)
        return lowering.kernel(self._shuffle, rows, jnp.zeros_like(rows))[0].reshape(shape)


class RandomIndexForm(JaxForm):
    """The lowering of `RandomIndex`, by a kernel from the places and the first words of draws to rows."""

    def __init__(self, rows_kernel: Callable[..., None]) -> None:
        self._rows_kernel = rows_kernel

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax.dtypes import canonicalize_dtype

        size = resolve_axis(node.table_size, lowering.sizes)
        check_range(node, 0, size)
        count, step = math.prod(shape), operands[0]
        seed, stream = (word(lowering.attribute(node, name)) for name in ("seed", "stream"))
        place = positions(lowering, node, (), shape).reshape(-1)
        # Word i % 4 of block i // 4.
        apart = lowering.places(node) is not None
        block = place >> np.uint32(2) if apart else jnp.arange(-(-count // 4), dtype=jnp.uint32)
        words = jnp.stack(philox_block(lowering, (block, np.uint32(0)), words_of(step), seed, stream), axis=-1)
        which = (place & np.uint32(3)).astype(np.int32)[:, None]
        words = jnp.take_along_axis(words, which, axis=1)[:, 0] if apart else words.reshape(-1)[:count]
        none = jnp.zeros(0, canonicalize_dtype(np.int64))
        _, table, spans, columns, users = node.drawing_operands(operands, none)
        draws = max(1, node._groups(operands, shape)[1])
        arrays = place, words, step, table, spans, columns.reshape(-1), users.reshape(-1)
        out = jnp.zeros(count, none.dtype)
        rows = lowering.kernel(self._rows_kernel, *arrays, out, draws, size, seed, stream)[0]
        return rows.reshape(shape)


__all__ = [
    "DropoutForm",
    "FlatIndexForm",
    "RandomIndexForm",
    "RandomIntegerForm",
    "RandomKeyForm",
    "RandomPermutationForm",
    "check_range",
    "key_words",
    "positions",
]

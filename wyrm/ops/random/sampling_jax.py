"""The draws of `RandomIndex` as JAX arrays: the same rows as in `wyrm.ops.random.sampling`, without 64-bit types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.random.alias import HALF
from wyrm.ops.random.draws_jax import as_indices, positions
from wyrm.ops.random.philox_jax import philox_block, wide_product, words_of
from wyrm.support.imports import jax, jnp


class RandomIndexForm(JaxForm):
    """The lowering of `RandomIndex`: up to `draws` draws until a row is not excluded, then up to `steps` next rows."""

    def __init__(self, draws: int, steps: int) -> None:
        self._draws, self._steps = draws, steps

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        count, places = math.prod(shape), lowering.places(node)
        seed, stream = lowering.attribute(node, "seed"), lowering.attribute(node, "stream")
        steps = words_of(operands[0])
        block = jnp.arange(-(-count // 4), dtype=jnp.uint32)
        if places is not None:
            position = positions(lowering, node, (), shape).reshape(-1)
            block, which = position >> np.uint32(2), (position & np.uint32(3)).astype(np.int32)[:, None]

        def words(attempt: Any) -> Any:
            """Return the word of each position: word i % 4 of counter (i // 4, attempt)."""
            high = jnp.broadcast_to(jnp.asarray(attempt, jnp.uint32), block.shape)
            found = jnp.stack(philox_block((block, high), steps, seed, stream), axis=-1)
            return found.reshape(-1)[:count] if places is None else jnp.take_along_axis(found, which, axis=1)[:, 0]

        of_word = _weighted(node, operands[1]) if node.weighted else _uniform(node)
        rows = of_word(words(0))
        if not node.rejects:
            return rows.reshape(shape)
        weightless = operands[1][:, 1] < 0 if node.weighted else None
        are_excluded = _excluded(node, operands, count)

        def draw_again(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            attempt, rows, excluded = state
            draws = attempt < self._draws
            following = jnp.where(rows == node.table_size - 1, 0, rows + 1)
            rows = jnp.where(excluded, jnp.where(draws, of_word(words(attempt)), following), rows)
            wrong = are_excluded(rows)
            if weightless is not None:
                wrong = wrong | (~draws & weightless[rows])
            return attempt + 1, rows, excluded & wrong

        most = self._draws + min(node.table_size, self._steps)
        state = (jnp.asarray(1, jnp.int32), rows, are_excluded(rows))
        _, rows, _ = jax.lax.while_loop(lambda state: (state[0] < most) & state[2].any(), draw_again, state)
        return rows.reshape(shape)


def _excluded(node: Any, operands: Sequence[Any], count: int) -> Callable[[Any], Any]:
    """Return the function of `count` rows to whether each is excluded."""
    if not node.compressed:
        listed = operands[-1].reshape(-1, 1, operands[-1].shape[-1])
        return lambda rows: (listed == rows.reshape(listed.shape[0], -1, 1)).any(-1).reshape(-1)
    offsets, columns, users = operands[-3:]
    users = jnp.repeat(users.reshape(-1), count // max(users.size, 1))
    low, high = offsets[users], offsets[users + 1]
    high = jnp.where(high - low < node.table_size, high, low)
    return lambda rows: _are_among(columns, low, high, rows)


def _uniform(node: Any) -> Any:
    """Return the function of words to rows, all equally likely."""

    def rows(words: Any) -> Any:
        drawn = words if node.table_size == 2**32 else wide_product(words, node.table_size)[1]
        return as_indices(node, drawn, 0, node.table_size)

    return rows


def _weighted(node: Any, table: Any) -> Callable[[Any], Any]:
    """Return the function of words to rows by an alias table."""
    limits, others = table[:, 0], table[:, 1]

    def rows(words: Any) -> Any:
        buckets = as_indices(node, wide_product(words, node.table_size)[1], 0, node.table_size)
        own = (words ^ np.uint32(HALF)).astype(np.int32) < limits[buckets]
        other = others[buckets]
        return jnp.where(own, buckets, jnp.where(other < 0, -1 - other, other))

    return rows


def _are_among(columns: Any, low: Any, end: Any, rows: Any) -> Any:
    """Return whether the ascending `columns[low:end]` contain each row, by bisection."""
    count = columns.shape[0]
    if count == 0:
        return jnp.zeros(rows.shape, bool)

    def halved(_: Any, bounds: tuple[Any, Any]) -> tuple[Any, Any]:
        low, high = bounds
        middle = (low + high) >> 1
        less = (low < high) & (columns[jnp.minimum(middle, count - 1)] < rows)
        return jnp.where(less, middle + 1, low), jnp.where(less, high, middle)

    low, _ = jax.lax.fori_loop(0, count.bit_length(), halved, (low, end))
    return (low < end) & (columns[jnp.minimum(low, count - 1)] == rows)


__all__ = ["RandomIndexForm"]

"""Attention to long sequences under JAX, a tile of queries and keys at a time: no array holds all scores.

One loop goes over the pairs of tiles. It keeps the largest score and the sum of each query so far, and corrects what it
has when a larger score comes. The gradient computes scores again, first for these sums, then for its products.
Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness" (2022).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wyrm.ops.attention.scores_jax import Operands, Scores
from wyrm.ops.kernels.loops_jax import scan
from wyrm.support.imports import jax, jnp

# The queries and the keys of a tile. Larger ones leave the caches of a CPU: 256 take 1.0 to 1.3 times the time. Other
# devices start a kernel for each operation on a tile.
_ROWS_ON_CPU, _ROWS = 128, 512


def rows_of_tile() -> int:
    """Return the queries and the keys of a tile."""
    return _ROWS_ON_CPU if jax.default_backend() == "cpu" else _ROWS


class Tiles(Scores):
    """The attention of some sequences, in tiles.

    `queries`, `keys` and `values` have the axes (tile, batch, heads, rows, features); rows behind the last are zeros.
    """

    def __init__(self, operands: Operands, rows: int) -> None:
        super().__init__(operands)
        self._rows, causal = rows, self.node.causal
        counts = [-(-count // rows) for count in (self.queries_count, self.keys_count)]
        self.queries, self.keys, self.values = map(self.tiled, operands.parts)
        self._words = [self._padded(words, -1) for words in operands.words]
        self._masks = [
            None if mask is None else self._padded(mask if mask.shape[2] == 1 else self._padded(mask, 2), 3)
            for mask in (operands.mask, operands.bias)
        ]
        # The numbers of the tiles of queries and keys; tiles of keys that no query of a causal sequence sees are left.
        pairs = [(i, j) for i in range(counts[0]) for j in range(min(i + 1, counts[1]) if causal else counts[1])]
        self._pairs = jnp.asarray(np.array(pairs, np.int32))

    def _padded(self, array: Any, axis: int) -> Any:
        """Return an array with zeros behind the rows of an axis, up to whole tiles."""
        widths = [(0, 0)] * array.ndim
        widths[axis] = (0, -array.shape[axis] % self._rows)
        return jnp.pad(array, widths)

    def tiled(self, rows: Any) -> Any:
        """Return rows, (batch, time, heads, features), as (tile, batch, heads, rows, features)."""
        padded = self._padded(rows, 1)
        batch, _, heads, features = padded.shape
        return padded.reshape(batch, -1, self._rows, heads, features).transpose(1, 0, 3, 2, 4)

    def joined(self, tiles: Any, time: int) -> Any:
        """Return tiles as rows, (batch, time, heads, features)."""
        count, batch, heads, rows, features = tiles.shape
        return tiles.transpose(1, 0, 3, 2, 4).reshape(batch, count * rows, heads, features)[:, :time]

    def scores(self, i: Any, j: Any) -> tuple[Any, Any]:
        """Return the scores of a tile of queries and one of keys, and where a query may see a key."""
        from jax.lax import dynamic_slice_in_dim

        def of_tile(mask: Any) -> Any:
            if mask is None:
                return None
            mask = dynamic_slice_in_dim(mask, j * self._rows, self._rows, 3)
            return mask if mask.shape[2] == 1 else dynamic_slice_in_dim(mask, i * self._rows, self._rows, 2)

        rows, columns = i * self._rows + jnp.arange(self._rows)[:, None], j * self._rows + jnp.arange(self._rows)
        mask, bias = map(of_tile, self._masks)
        scores, allowed = self.scored(
            self.queries[i], self.keys[j], rows, columns, mask, bias, allowed=columns < self.keys_count
        )
        return jnp.where(allowed, scores, np.finfo(self.dtype).min), allowed

    def dropped(self, weights: Any, i: Any, j: Any) -> Any:
        """Return the weights of a tile after dropout."""
        from jax.lax import dynamic_slice_in_dim

        if self.node.dropout_rate == 0.0:
            return weights
        words = [dynamic_slice_in_dim(each, i * self._rows, self._rows, 2) for each in self._words]
        return self.dropped_by(words, weights, j * self._rows)

    def over_pairs(self, step: Callable[[Any, Any, Any], Any], state: Any) -> Any:
        """Return the state after `step(state, i, j)` of all pairs of tiles; derivatives compute a step again."""

        def one(state: Any, pair: Any) -> tuple[Any, tuple[()]]:
            return step(state, pair[0], pair[1]), ()

        return scan(jax.checkpoint(one), state, self._pairs)[0]

    def normalized(self, sums_of: Callable[[Any, Any, Any], Any], like: Any) -> tuple[Any, Any, Any]:
        """Return the largest scores, the inverses of the sums of exponentials, and normalized sums of each query.

        `sums_of(exponentials, i, j)` are added up over the keys, from zeros `like` them.
        """

        def step(state: Any, i: Any, j: Any) -> Any:
            largest, totals, sums = state
            scores, allowed = self.scores(i, j)
            higher = jnp.maximum(largest[i], scores.max(axis=-1, keepdims=True))
            exponentials = jnp.where(allowed, jnp.exp(scores - higher), 0)
            before = jnp.exp(largest[i] - higher)
            total = totals[i] * before + exponentials.sum(axis=-1, keepdims=True)
            added = sums[i] * before + sums_of(exponentials, i, j)
            return largest.at[i].set(higher), totals.at[i].set(total), sums.at[i].set(added)

        shape = (*self.queries.shape[:-1], 1)
        first = jnp.full(shape, np.finfo(self.dtype).min, self.dtype), jnp.zeros(shape, self.dtype), like
        largest, totals, sums = self.over_pairs(step, first)
        inverse = self.inverse(totals)
        return largest, inverse, sums * inverse


def attended(tiles: Tiles) -> Any:
    """Return the sums of values, (batch, queries, heads, columns)."""

    def of_values(exponentials: Any, i: Any, j: Any) -> Any:
        return tiles.product("bhqk,bgkd->bhqd", tiles.dropped(exponentials, i, j), tiles.values[j])

    shape = (*tiles.queries.shape[:-1], tiles.values.shape[-1])
    _, _, sums = tiles.normalized(of_values, jnp.zeros(shape, tiles.dtype))
    return tiles.joined(sums, tiles.queries_count).astype(tiles.narrow)


def gradient(tiles: Tiles, gradient: Any) -> Any:
    """Return the gradients of queries, keys and values as one array."""
    cotangent = tiles.tiled(gradient)

    def of_weights(i: Any, j: Any) -> Any:
        return tiles.dropped(tiles.product("bhqd,bgkd->bhqk", cotangent[i], tiles.values[j]), i, j)

    def means(exponentials: Any, i: Any, j: Any) -> Any:
        return (exponentials * of_weights(i, j)).sum(axis=-1, keepdims=True)

    largest, inverse, mean = tiles.normalized(means, jnp.zeros((*tiles.queries.shape[:-1], 1), tiles.dtype))

    def step(state: Any, i: Any, j: Any) -> Any:
        of_queries, of_keys, of_values = state
        scores, allowed = tiles.scores(i, j)
        shares = jnp.where(allowed, jnp.exp(scores - largest[i]), 0) * inverse[i]
        of_scores = (of_weights(i, j) - mean[i]) * shares * tiles.scale
        of_values = of_values.at[j].add(
            tiles.product("bhqk,bhqd->bgkd", tiles.dropped(shares, i, j), cotangent[i])
        )  # fmt: skip
        of_queries = of_queries.at[i].add(tiles.product("bhqk,bgkd->bhqd", of_scores, tiles.keys[j]))
        of_keys = of_keys.at[j].add(tiles.product("bhqk,bhqd->bgkd", of_scores, tiles.queries[i]))
        return of_queries, of_keys, of_values

    operands = tiles.queries, tiles.keys, tiles.values
    sums = tiles.over_pairs(step, tuple(jnp.zeros(each.shape, tiles.dtype) for each in operands))
    counts = tiles.queries_count, tiles.keys_count, tiles.keys_count
    parts = [tiles.joined(each, count) for each, count in zip(sums, counts, strict=True)]
    return tiles.node.join(parts, jnp.concatenate, jnp.stack).astype(tiles.narrow)


__all__ = ["Tiles", "attended", "gradient", "rows_of_tile"]

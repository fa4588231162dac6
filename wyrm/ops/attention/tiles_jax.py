"""Attention to long sequences under JAX, a tile of queries and keys at a time: no array holds all scores.

One loop goes over the pairs of tiles. It keeps the largest score and the sum of each query so far, and corrects what it
has when a larger score comes. The gradient computes scores again, first for these sums, then for its products.
Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness" (2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.ops.attention.scores_jax import Scores
from wyrm.ops.kernels.loops_jax import scan
from wyrm.ops.random.philox_jax import Words
from wyrm.support.imports import jax, jnp

if TYPE_CHECKING:
    from wyrm.ops.attention.attention import Attention, AttentionGradient

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

    def __init__(
        self, node: Attention | AttentionGradient, qkv: Any, mask: Any, random_keys: Words | tuple[()], rows: int
    ) -> None:
        super().__init__(node, qkv)
        self._rows, self._count = rows, -(-self._time // rows)
        self.queries, self.keys, self.values = (self.tiled(qkv[:, :, i]) for i in range(3))
        self._random_keys = [self._padded(words, -1) for words in random_keys]
        self._mask = None
        if mask is not None:
            self._mask = self._padded(mask if mask.shape[1] == 1 else self._padded(mask, 1), 2)
        # The numbers of the tiles of queries and keys; tiles of keys that no query of a causal sequence sees are left.
        pairs = [(i, j) for i in range(self._count) for j in range(i + 1 if node.causal else self._count)]
        self._pairs = jnp.asarray(np.array(pairs, np.int32))

    def _padded(self, array: Any, axis: int) -> Any:
        """Return an array with zeros behind the rows of an axis, up to whole tiles."""
        widths = [(0, 0)] * array.ndim
        widths[axis] = (0, self._count * self._rows - self._time)
        return jnp.pad(array, widths)

    def tiled(self, rows: Any) -> Any:
        """Return rows, (batch, time, heads, features), as (tile, batch, heads, rows, features)."""
        padded = self._padded(rows, 1)
        batch, _, heads, features = padded.shape
        return padded.reshape(batch, self._count, self._rows, heads, features).transpose(1, 0, 3, 2, 4)

    def joined(self, tiles: Any) -> Any:
        """Return tiles as rows, (batch, time, heads, features)."""
        count, batch, heads, rows, features = tiles.shape
        return tiles.transpose(1, 0, 3, 2, 4).reshape(batch, count * rows, heads, features)[:, : self._time]

    def scores(self, i: Any, j: Any) -> tuple[Any, Any]:
        """Return the scores of a tile of queries and one of keys, and where a query may see a key."""
        from jax.lax import dynamic_slice_in_dim

        mask = self._mask
        if mask is not None:
            mask = dynamic_slice_in_dim(mask, j * self._rows, self._rows, 2)
            mask = mask if mask.shape[1] == 1 else dynamic_slice_in_dim(mask, i * self._rows, self._rows, 1)
        rows, columns = i * self._rows + jnp.arange(self._rows)[:, None], j * self._rows + jnp.arange(self._rows)
        scores, allowed = self.scored(self.queries[i], self.keys[j], rows, columns, mask, allowed=columns < self._time)
        return jnp.where(allowed, scores, np.finfo(self.dtype).min), allowed

    def dropped(self, weights: Any, i: Any, j: Any) -> Any:
        """Return the weights of a tile after dropout."""
        from jax.lax import dynamic_slice_in_dim

        if self._node.dropout_rate == 0.0:
            return weights
        words = [dynamic_slice_in_dim(each, i * self._rows, self._rows, 2) for each in self._random_keys]
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


def attended(operands: Sequence[Any], tiles: Tiles) -> Any:
    """Return the sums of values, (batch, time, heads, features)."""

    def of_values(exponentials: Any, i: Any, j: Any) -> Any:
        return tiles.product("bhqk,bhkd->bhqd", tiles.dropped(exponentials, i, j), tiles.values[j])

    _, _, sums = tiles.normalized(of_values, jnp.zeros(tiles.values.shape, tiles.dtype))
    return tiles.joined(sums).astype(operands[0].dtype)


def gradient(operands: Sequence[Any], tiles: Tiles) -> Any:
    """Return the gradient with respect to `qkv`, of its shape."""
    cotangent = tiles.tiled(operands[1])

    def of_weights(i: Any, j: Any) -> Any:
        return tiles.dropped(tiles.product("bhqd,bhkd->bhqk", cotangent[i], tiles.values[j]), i, j)

    def means(exponentials: Any, i: Any, j: Any) -> Any:
        return (exponentials * of_weights(i, j)).sum(axis=-1, keepdims=True)

    largest, inverse, mean = tiles.normalized(means, jnp.zeros((*tiles.queries.shape[:-1], 1), tiles.dtype))

    def step(state: Any, i: Any, j: Any) -> Any:
        of_queries, of_keys, of_values = state
        scores, allowed = tiles.scores(i, j)
        shares = jnp.where(allowed, jnp.exp(scores - largest[i]), 0) * inverse[i]
        of_scores = (of_weights(i, j) - mean[i]) * shares * tiles.scale
        of_values = of_values.at[j].add(
            tiles.product("bhqk,bhqd->bhkd", tiles.dropped(shares, i, j), cotangent[i])
        )  # fmt: skip
        of_queries = of_queries.at[i].add(tiles.product("bhqk,bhkd->bhqd", of_scores, tiles.keys[j]))
        of_keys = of_keys.at[j].add(tiles.product("bhqk,bhqd->bhkd", of_scores, tiles.queries[i]))
        return of_queries, of_keys, of_values

    zeros = jnp.zeros(tiles.queries.shape, tiles.dtype)
    parts = tiles.over_pairs(step, (zeros, zeros, zeros))
    return jnp.stack([tiles.joined(part) for part in parts], axis=2).astype(operands[0].dtype)


__all__ = ["Tiles", "attended", "gradient", "rows_of_tile"]

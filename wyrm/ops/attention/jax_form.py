"""The lowering of attention to JAX: blocks of sequences, and tiles of queries that skip the keys that none of them see.

Long sequences are computed in smaller tiles, of keys too (`tiles_jax`), and what cuDNN takes by it (`cudnn_jax`).
Neither direction stores attention weights: `AttentionGradient` computes them again from queries and keys, which costs
less than writing and reading them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.graph.jax_form import Lowering
from wyrm.ops.attention import cudnn_jax, tiles_jax
from wyrm.ops.attention.scores_jax import Scores
from wyrm.ops.kernels.loops_jax import in_blocks
from wyrm.ops.products.jax_form import ProductForm
from wyrm.ops.random.dropout_mask import drop_threshold, kept_factor
from wyrm.ops.random.philox_jax import Words, kept_by_rows, row_keys

if TYPE_CHECKING:
    from wyrm.ops.attention.attention import Attention, AttentionGradient, AttentionMask

# The longest sequence whose scores are computed at once. In tiles, forward and gradient take on a CPU 1.3 times the
# time for 512 rows (0.8 if causal), 0.87 (0.8) for 1024 and 0.89 (0.76) for 2048, and 0.5 to 0.1 times the memory.
LONGEST_WHOLE = 512
# The number of tiles of a causal sequence, and the fewest queries of a tile.
_TILES, _FEWEST_QUERIES = 2, 32


class _AttentionForm(ProductForm):
    def operands(self, node: Any, operands: Sequence[Any], lowering: Lowering) -> tuple[int, list[Any]]:
        """Return the number of float operands, and these, with the mask of each sequence and the keys of dropout."""
        qkv = operands[0]
        batch, time, _, heads, _ = qkv.shape
        floats = len(operands) - node.masked - (node.dropout_rate > 0.0)
        arrays = list(operands[:floats])
        if node.masked:
            mask = operands[floats]
            arrays.append(lowering.xp.broadcast_to(mask, (batch, *mask.shape[1:])))
        if node.dropout_rate > 0.0:
            seed, stream = (lowering.attribute(node, name) for name in ("seed", "stream"))
            keys = row_keys(batch * heads * time, operands[-1], seed, stream)
            arrays += [words.reshape(batch, heads, time) for words in keys]
        return floats, arrays

    def blocks(self, node: Any, operands: Sequence[Any], lowering: Lowering, compute: Any, in_tiles: Any) -> Any:
        """Return `compute(float operands, weights)` for all sequences, block by block.

        Long sequences are computed by `in_tiles`, which takes `Tiles` in place of the weights.
        """
        floats, arrays = self.operands(node, operands, lowering)
        batch, time, _, heads, _ = operands[0].shape
        # A size that is open in an export has no order among numbers.
        is_long = isinstance(time, int) and time > LONGEST_WHOLE and lowering.uses_tiles
        tile = tiles_jax.rows_of_tile() if is_long else 0

        def of_block(*block: Any) -> tuple[Any, tuple[()]]:
            extra = list(block[floats:])
            mask = extra.pop(0) if node.masked else None
            if tile:
                return in_tiles(block[:floats], tiles_jax.Tiles(node, block[0], mask, tuple(extra), tile)), ()
            return compute(block[:floats], _Weights(node, block[0], mask, tuple(extra))), ()

        blocks, shards = lowering.blocks(batch, 4 * batch * heads * (tile or time) ** 2)
        return in_blocks(of_block, blocks, shards, arrays)[0]


class AttentionForm(_AttentionForm):
    """The lowering of `Attention`."""

    own_tangent = True

    def own_gradient(self, node: Any) -> bool:
        return True

    def lower(self, node: Attention, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        """Return the sums of values, (batch, time, heads, features)."""
        if 0 in shape:
            return lowering.xp.zeros(shape, operands[0].dtype)
        if cudnn_jax.takes(node, operands[0]):
            return cudnn_jax.attended(node, operands[0])
        return self.blocks(node, operands, lowering, _attended, tiles_jax.attended)


class AttentionGradientForm(_AttentionForm):
    """The lowering of `AttentionGradient`."""

    def lower(
        self, node: AttentionGradient, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering
    ) -> Any:
        """Return the gradient with respect to `qkv`, of its shape."""
        if 0 in shape:
            return lowering.xp.zeros(shape, operands[0].dtype)
        if cudnn_jax.takes(node, operands[0]):
            return cudnn_jax.gradient(node, operands[0], operands[1])
        return self.blocks(node, operands, lowering, _gradient, tiles_jax.gradient)


class AttentionMaskForm(_AttentionForm):
    """The lowering of `AttentionMask`."""

    narrow: bool | None = False
    sums_products = False

    def lower(self, node: AttentionMask, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        """Return the bias or the factors, (batch, heads, queries, keys)."""
        xp = lowering.xp
        _, heads, time, _ = shape
        floats, arrays = self.operands(node, operands, lowering)
        mask = arrays[floats] if node.masked else None
        if node.part == "bias":
            return xp.broadcast_to(node._bias(xp, mask, time, heads), shape)
        factors = node._allowed(xp, mask, time).astype(node.dtype)
        if node.dropout_rate > 0.0:
            keep = kept_by_rows(arrays[-2], arrays[-1], time, drop_threshold(node.dropout_rate))
            factors = factors * xp.where(keep, node.dtype.type(kept_factor(node.dropout_rate)), 0)
        return xp.broadcast_to(factors, shape)


class _Weights(Scores):
    """The attention weights of a block of sequences, for a tile of queries at a time.

    `queries`, `keys` and `values` have the axes (batch, heads, time, features).
    """

    def __init__(
        self, node: Attention | AttentionGradient, qkv: Any, mask: Any, random_keys: Words | tuple[()]
    ) -> None:
        super().__init__(node, qkv)
        self._mask, self._random_keys = mask, random_keys
        self.queries, self.keys, self.values = (qkv[:, :, i].swapaxes(1, 2) for i in range(3))

    def tiles(self) -> Iterator[tuple[slice, slice]]:
        """Return the queries of each tile and the keys that any of them may see."""
        causal, time = self._node.causal, self._time
        step = max(_FEWEST_QUERIES, -(-time // _TILES)) if causal else time
        for first in range(0, time, step):
            last = min(first + step, time)
            yield slice(first, last), slice(0, last if causal else time)

    def unnormalized(self, queries: slice, keys: slice) -> tuple[Any, Any]:
        """Return the weights before normalization and dropout, and the inverses of their sums over keys."""
        import jax.numpy as jnp

        mask = self._mask
        if mask is not None:
            mask = (mask if mask.shape[1] == 1 else mask[:, queries])[:, :, keys]
        rows, columns = np.arange(queries.start, queries.stop)[:, None], np.arange(keys.stop)
        parts = self.queries[:, :, queries], self.keys[:, :, keys]
        scores, allowed = self.scored(*parts, rows, columns, mask, allowed=True)
        if self._node.causal or self._mask is not None:
            scores = jnp.where(allowed, scores, np.finfo(self.dtype).min)
        exponentials = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
        if self._mask is None:
            return exponentials, 1 / exponentials.sum(axis=-1, keepdims=True)
        exponentials = jnp.where(allowed, exponentials, 0)
        return exponentials, self.inverse(exponentials.sum(axis=-1, keepdims=True))

    def dropped(self, weights: Any, queries: slice) -> Any:
        """Return weights after dropout."""
        if self._node.dropout_rate == 0.0:
            return weights
        return self.dropped_by([words[:, :, queries] for words in self._random_keys], weights)


def _attended(operands: Sequence[Any], weights: _Weights) -> Any:
    import jax.numpy as jnp

    tiles = []
    for queries, keys in weights.tiles():
        unnormalized, inverse = weights.unnormalized(queries, keys)
        dropped = weights.dropped(unnormalized, queries)
        tiles.append(weights.product("bhqk,bhkd->bqhd", dropped, weights.values[:, :, keys]) * inverse.swapaxes(1, 2))
    return jnp.concatenate(tiles, axis=1).astype(operands[0].dtype)


def _gradient(operands: Sequence[Any], weights: _Weights) -> Any:
    import jax.numpy as jnp

    cotangent = operands[1].swapaxes(1, 2)
    query_tiles, key_gradient, value_gradient = [], 0, 0
    for queries, keys in weights.tiles():
        unnormalized, inverse = weights.unnormalized(queries, keys)
        shares, of_tile = unnormalized * inverse, cotangent[:, :, queries]
        gradient = weights.product("bhqd,bhkd->bhqk", of_tile, weights.values[:, :, keys])
        gradient = weights.dropped(gradient, queries)
        mean = (gradient * shares).sum(axis=-1, keepdims=True)
        scores = (gradient - mean) * shares * weights.scale
        unseen = ((0, 0), (0, weights.keys.shape[2] - keys.stop), (0, 0), (0, 0))
        query_tiles.append(weights.product("bhqk,bhkd->bqhd", scores, weights.keys[:, :, keys]))
        of_keys = weights.product("bhqk,bhqd->bkhd", scores, weights.queries[:, :, queries])
        of_values = weights.product("bhqk,bhqd->bkhd", weights.dropped(shares, queries), of_tile)
        key_gradient += jnp.pad(of_keys, unseen)
        value_gradient += jnp.pad(of_values, unseen)
    parts = [jnp.concatenate(query_tiles, axis=1), key_gradient, value_gradient]
    return jnp.stack(parts, axis=2).astype(operands[0].dtype)


__all__ = ["AttentionForm", "AttentionGradientForm", "AttentionMaskForm"]

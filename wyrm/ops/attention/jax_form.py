"""The lowerings of the attention ops to JAX: by cuDNN, whole, or in tiles, for one block of sequences after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.graph.jax_form import Lowering
from wyrm.ops.attention import cudnn_jax, tiles_jax
from wyrm.ops.attention.scores_jax import Operands, Scores
from wyrm.ops.kernels.loops_jax import in_blocks
from wyrm.ops.products.product import ProductForm
from wyrm.ops.random.dropout_mask import drop_threshold, kept_factor
from wyrm.ops.random.philox_jax import kept_by_rows, row_keys
from wyrm.support.imports import jnp

if TYPE_CHECKING:
    from wyrm.ops.attention.attention import Attention, AttentionGradient, AttentionMask

# The longest sequence whose scores are computed at once. In tiles, forward and gradient take on a CPU 1.3 times the
# time for 512 rows (0.8 if causal), 0.87 (0.8) for 1024 and 0.89 (0.76) for 2048, and 0.5 to 0.1 times the memory.
LONGEST_WHOLE = 512
# The number of tiles of a causal sequence, and the fewest queries of a tile.
_TILES, _FEWEST_QUERIES = 2, 32


class _AttentionForm(ProductForm):
    def arrays(self, node: Any, operands: Sequence[Any], lowering: Lowering) -> tuple[int, list[Any]]:
        """Return the number of float operands, and these, with masks of each sequence and the keys of dropout."""
        batch, queries, heads, _ = node.parts(operands)[0].shape
        floats = len(operands) - node.extra_count
        arrays = list(operands[:floats])
        masks = [mask for mask in node.masks(operands)[:2] if mask is not None]
        arrays += [lowering.xp.broadcast_to(mask, (batch, *mask.shape[1:])) for mask in masks]
        if node.dropout_rate > 0.0:
            seed, stream = (lowering.attribute(node, name) for name in ("seed", "stream"))
            keys = row_keys(lowering, batch * heads * queries, operands[-1], seed, stream)
            arrays += [words.reshape(batch, heads, queries) for words in keys]
        return floats, arrays

    def blocks(
        self, node: Any, operands: Sequence[Any], lowering: Lowering, compute: Callable[..., Any],
        in_tiles: Callable[..., Any],
    ) -> Any:  # fmt: skip
        """Return `compute(weights, other float operands)` for all sequences, block by block.

        Long sequences are computed by `in_tiles`, which takes `Tiles` in place of the weights.
        """
        floats, arrays = self.arrays(node, operands, lowering)
        query, key, _ = node.parts(operands)
        batch, queries, heads, _ = query.shape
        keys, count = key.shape[1], 1 if node.packed else 3
        # A size that is open in an export has no order among numbers.
        sized = isinstance(queries, int) and isinstance(keys, int) and lowering.uses_tiles
        tile = tiles_jax.rows_of_tile() if sized and queries * keys > LONGEST_WHOLE**2 else 0

        def of_block(*block: Any) -> tuple[Any, tuple[()]]:
            extra = list(block[floats:])
            mask, bias = (extra.pop(0) if has else None for has in (node.masked, node.biased))
            given = Operands(node, node.parts(block), mask, bias, extra)
            weights = tiles_jax.Tiles(given, tile) if tile else _Weights(given)
            return (in_tiles if tile else compute)(weights, *block[count:floats]), ()

        blocks, shards = lowering.blocks(batch, 4 * batch * heads * (tile * tile or queries * keys))
        return in_blocks(of_block, blocks, shards, arrays)[0]


def _is_empty(arrays: Sequence[Any]) -> bool:
    return any(0 in array.shape for array in arrays)


class AttentionForm(_AttentionForm):
    """The lowering of `Attention`."""

    own_tangent = True

    def own_gradient(self, node: Any) -> bool:
        return True

    def lower(self, node: Attention, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        """Return the sums of values, (batch, queries, heads, columns)."""
        parts = node.parts(operands)
        if _is_empty(parts):
            return lowering.xp.zeros(shape, parts[0].dtype)
        if cudnn_jax.takes(node, parts):
            return cudnn_jax.attended(node, parts)
        return self.blocks(node, operands, lowering, _attended, tiles_jax.attended)


class AttentionGradientForm(_AttentionForm):
    """The lowering of `AttentionGradient`."""

    def lower(
        self, node: AttentionGradient, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering
    ) -> Any:
        """Return the gradients of queries, keys and values as one array."""
        parts = node.parts(operands)
        if _is_empty(parts):
            return lowering.xp.zeros(shape, parts[0].dtype)
        if cudnn_jax.takes(node, parts):
            gradients = cudnn_jax.gradients(node, parts, operands[1 if node.packed else 3])
            return node.join(gradients, jnp.concatenate, jnp.stack)
        return self.blocks(node, operands, lowering, _gradient, tiles_jax.gradient)


class AttentionMaskForm(_AttentionForm):
    """The lowering of `AttentionMask`."""

    narrow: bool | None = False
    sums_products = False

    def lower(self, node: AttentionMask, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        """Return the bias or the factors, (batch, heads, queries, keys)."""
        xp = lowering.xp
        floats, arrays = self.arrays(node, operands, lowering)
        mask = arrays[floats] if node.masked else None
        axes: Any = shape
        if node.part == "bias":
            return xp.broadcast_to(node.bias_of(xp, mask, axes), shape)
        factors = node.allowed(xp, mask, axes).astype(node.dtype)
        if node.dropout_rate > 0.0:
            keep = kept_by_rows(arrays[-2], arrays[-1], shape[3], drop_threshold(node.dropout_rate))
            factors = factors * xp.where(keep, node.dtype.type(kept_factor(node.dropout_rate)), 0)
        return xp.broadcast_to(factors, shape)


class _Weights(Scores):
    """The attention weights of a block of sequences, for a tile of queries at a time.

    `queries`, `keys` and `values` have the axes (batch, heads, time, features).
    """

    def __init__(self, operands: Operands) -> None:
        super().__init__(operands)
        self._masks, self._words = (operands.mask, operands.bias), operands.words
        self.queries, self.keys, self.values = (each.swapaxes(1, 2) for each in operands.parts)

    def tiles(self) -> Iterator[tuple[slice, slice]]:
        """Return the queries of each tile and the keys that any of them may see."""
        causal, time, keys = self.node.causal, self.queries_count, self.keys_count
        step = max(_FEWEST_QUERIES, -(-time // _TILES)) if causal else time
        for first in range(0, time, step):
            last = min(first + step, time)
            yield slice(first, last), slice(0, min(last, keys) if causal else keys)

    def unnormalized(self, queries: slice, keys: slice) -> tuple[Any, Any]:
        """Return the weights before normalization and dropout, and the inverses of their sums over keys."""
        mask, bias = (
            each if each is None else (each if each.shape[2] == 1 else each[:, :, queries])[..., keys]
            for each in self._masks
        )
        rows, columns = np.arange(queries.start, queries.stop)[:, None], np.arange(keys.stop)
        parts = self.queries[:, :, queries], self.keys[:, :, keys]
        scores, allowed = self.scored(*parts, rows, columns, mask, bias, allowed=True)
        if self.node.causal or mask is not None:
            scores = jnp.where(allowed, scores, np.finfo(self.dtype).min)
        exponentials = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
        if mask is None:
            return exponentials, 1 / exponentials.sum(axis=-1, keepdims=True)
        exponentials = jnp.where(allowed, exponentials, 0)
        return exponentials, self.inverse(exponentials.sum(axis=-1, keepdims=True))

    def dropped(self, weights: Any, queries: slice) -> Any:
        """Return weights after dropout."""
        if self.node.dropout_rate == 0.0:
            return weights
        return self.dropped_by([words[:, :, queries] for words in self._words], weights)


def _attended(weights: _Weights) -> Any:
    tiles = []
    for queries, keys in weights.tiles():
        unnormalized, inverse = weights.unnormalized(queries, keys)
        dropped = weights.dropped(unnormalized, queries)
        tiles.append(weights.product("bhqk,bgkd->bqhd", dropped, weights.values[:, :, keys]) * inverse.swapaxes(1, 2))
    return jnp.concatenate(tiles, axis=1).astype(weights.narrow)


def _gradient(weights: _Weights, gradient: Any) -> Any:
    cotangent = gradient.swapaxes(1, 2)
    query_tiles, key_gradient, value_gradient = [], 0, 0
    for queries, keys in weights.tiles():
        unnormalized, inverse = weights.unnormalized(queries, keys)
        shares, of_tile = unnormalized * inverse, cotangent[:, :, queries]
        of_weights = weights.product("bhqd,bgkd->bhqk", of_tile, weights.values[:, :, keys])
        of_weights = weights.dropped(of_weights, queries)
        mean = (of_weights * shares).sum(axis=-1, keepdims=True)
        scores = (of_weights - mean) * shares * weights.scale
        unseen = ((0, 0), (0, weights.keys.shape[2] - keys.stop), (0, 0), (0, 0))
        query_tiles.append(weights.product("bhqk,bgkd->bqhd", scores, weights.keys[:, :, keys]))
        of_keys = weights.product("bhqk,bhqd->bkgd", scores, weights.queries[:, :, queries])
        of_values = weights.product("bhqk,bhqd->bkgd", weights.dropped(shares, queries), of_tile)
        key_gradient += jnp.pad(of_keys, unseen)
        value_gradient += jnp.pad(of_values, unseen)
    parts = [jnp.concatenate(query_tiles, axis=1), key_gradient, value_gradient]
    return weights.node.join(parts, jnp.concatenate, jnp.stack).astype(weights.narrow)


__all__ = ["AttentionForm", "AttentionGradientForm", "AttentionMaskForm"]

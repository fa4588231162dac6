"""What blocks of sequences and tiles of long ones have in common under JAX: scores, masks, dropout and sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.ops.products.product import sum_dtype
from wyrm.ops.random.dropout_mask import drop_threshold, kept_factor
from wyrm.ops.random.philox_jax import kept_by_rows
from wyrm.support.imports import jnp

if TYPE_CHECKING:
    from wyrm.ops.attention.attention import Attention, AttentionGradient


class Scores:
    """The scores of some queries and keys of an attention, which are summed and normalized in float32 or wider."""

    def __init__(self, node: Attention | AttentionGradient, qkv: Any) -> None:
        self._node = node
        self.dtype = np.dtype(sum_dtype(qkv))
        _, self._time, _, heads, features = qkv.shape
        self.scale = self.dtype.type(features**-0.5)
        self._slopes = node._slopes(heads).astype(self.dtype)[:, None, None]

    def product(self, subscripts: str, x: Any, y: Any) -> Any:
        """Return an `einsum`; the first operand is rounded to the dtype of the second."""
        return jnp.einsum(subscripts, x.astype(y.dtype), y, preferred_element_type=self.dtype)

    def scored(self, queries: Any, keys: Any, rows: Any, columns: Any, mask: Any, allowed: Any) -> tuple[Any, Any]:
        """Return the scores of queries and keys, (batch, heads, queries, keys), and where a query may see a key.

        `rows` (queries, 1) and `columns` are their positions, `mask` is None or that of each sequence, (batch, queries
        or 1, keys), and `allowed` where keys exist.
        """
        scores = self.product("bhqd,bhkd->bhqk", queries, keys) * self.scale
        if self._node.alibi:
            scores = scores - self._slopes * abs(rows - columns).astype(self.dtype)
        if self._node.causal:
            allowed = allowed & (rows >= columns)
        if mask is not None:
            allowed = allowed & mask[:, None]
        return scores, allowed

    def dropped_by(self, words: Any, weights: Any, beginning: Any = 0) -> Any:
        """Return weights of keys from `beginning` on after dropout, by the random words of each query."""
        rate, (first, second) = self._node.dropout_rate, words
        keep = kept_by_rows(first, second, self._time, drop_threshold(rate), weights.shape[-1], beginning)
        return jnp.where(keep, weights * self.dtype.type(kept_factor(rate)), 0)

    @staticmethod
    def inverse(totals: Any) -> Any:
        """Return the inverses of sums over keys, 0 for a query that sees no key."""
        return jnp.where(totals > 0, 1 / jnp.where(totals > 0, totals, 1), 0)


__all__ = ["Scores"]

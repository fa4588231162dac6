"""What blocks of sequences and tiles of long ones have in common under JAX: scores, masks, dropout and sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wyrm.ops.products.product import sum_dtype
from wyrm.ops.random.dropout_mask import drop_threshold, kept_factor
from wyrm.ops.random.philox_jax import kept_by_rows
from wyrm.support.imports import jnp

if TYPE_CHECKING:
    from wyrm.ops.attention.attention import Attention, AttentionGradient


class Operands(NamedTuple):
    """The operands of an attention to some sequences.

    `parts` are queries, keys and values, (batch, time, heads, features). The mask and the bias are None, and the words
    of dropout empty, where there is none.
    """

    node: Attention | AttentionGradient
    parts: tuple[Any, Any, Any]
    mask: Any
    bias: Any
    words: Sequence[Any]


class Scores:
    """The scores of some queries and keys of an attention, which are summed and normalized in float32 or wider."""

    def __init__(self, operands: Operands) -> None:
        query, key, _ = operands.parts
        self.node, self.narrow = operands.node, query.dtype
        self.dtype = np.dtype(sum_dtype(query))
        _, self.queries_count, heads, features = query.shape
        self.keys_count, shared = key.shape[1:3]
        self._group: int = heads // shared
        self.scale: Any = self.dtype.type(features**-0.5 if self.node.scale is None else self.node.scale)
        self._slopes = self.node.slopes(heads).astype(self.dtype)[:, None, None]

    def product(self, subscripts: str, x: Any, y: Any) -> Any:
        """Return an `einsum`; the first operand is rounded to the dtype of the second.

        The axis `h` is the heads of the queries, and `g` those of the keys: each of these is read for all heads of the
        queries that share it, and a result with `g` is summed over them.
        """
        x = x.astype(y.dtype)
        if self._group == 1:
            return jnp.einsum(subscripts.replace("g", "h"), x, y, preferred_element_type=self.dtype)
        given, result = subscripts.split("->")
        first, second = (self._by_key_heads(axes, array) for axes, array in zip(given.split(","), (x, y), strict=True))
        found = jnp.einsum(subscripts.replace("h", "gr"), first, second, preferred_element_type=self.dtype)
        place = result.find("h")
        return found if place < 0 else found.reshape(*found.shape[:place], -1, *found.shape[place + 2 :])

    def _by_key_heads(self, axes: str, x: Any) -> Any:
        """Return `x` with the heads of the queries as two axes: the heads of the keys, and those that share one."""
        place = axes.find("h")
        return x if place < 0 else x.reshape(*x.shape[:place], -1, self._group, *x.shape[place + 1 :])

    def scored(
        self, queries: Any, keys: Any, rows: Any, columns: Any, mask: Any, bias: Any, allowed: Any
    ) -> tuple[Any, Any]:
        """Return the scores of queries and keys, (batch, heads, queries, keys), and where a query may see a key.

        `rows` (queries, 1) and `columns` are their positions, `mask` and `bias` are None or those of each sequence,
        (batch, heads or 1, queries or 1, keys), and `allowed` where keys exist.
        """
        scores = self.product("bhqd,bgkd->bhqk", queries, keys) * self.scale
        if self.node.alibi:
            scores = scores - self._slopes * abs(rows - columns).astype(self.dtype)
        if bias is not None:
            scores = scores + bias.astype(self.dtype)
        if self.node.causal:
            allowed = allowed & (rows >= columns)
        if mask is not None:
            allowed = allowed & mask
        return scores, allowed

    def dropped_by(self, words: Any, weights: Any, beginning: Any = 0) -> Any:
        """Return weights of keys from `beginning` on after dropout, by the random words of each query."""
        rate, (first, second) = self.node.dropout_rate, words
        keep = kept_by_rows(first, second, self.keys_count, drop_threshold(rate), weights.shape[-1], beginning)
        return jnp.where(keep, weights * self.dtype.type(kept_factor(rate)), 0)

    @staticmethod
    def inverse(totals: Any) -> Any:
        """Return the inverses of sums over keys, 0 for a query that sees no key."""
        return jnp.where(totals > 0, 1 / jnp.where(totals > 0, totals, 1), 0)


__all__ = ["Operands", "Scores"]

"""The draws of `RandomIndex` as JAX arrays: the same rows as in all engines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.graph.axes import resolve_axis
from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.random.draws_jax import check_range, positions
from wyrm.ops.random.philox_jax import philox_block, word, words_of
from wyrm.support.imports import jnp


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


__all__ = ["RandomIndexForm"]

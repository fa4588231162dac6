"""The lowering of weighted sums of neighbouring elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.shaping.jax_form import Integers, taken

# The most taps that are added one by one.
_FEW_TAPS = 8


class ResampleForm(JaxForm):
    """A sum over the taps, one by one where they are few, else a reduction of all.

    `tables` returns the number of taps of each output, and the places and weights of taps, of the axes (taps, outputs).
    """

    def __init__(self, tables: Callable[[Any], tuple[Integers, Integers, Any]]) -> None:
        self.tables = tables

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        (x,), axis = operands, node.axis
        counts, places, weights = self.tables(node.taps)
        present = np.arange(len(places))[:, None] < counts
        column = (*places.shape, *[1] * (x.ndim - axis - 1))
        factors, present = weights.astype(x.dtype).reshape(column), present.reshape(column)

        def weighted(elements: Any, factor: Any, counts: Any) -> Any:
            products = elements * factor
            return products if counts.all() else jnp.where(counts, products, np.zeros((), x.dtype))

        if len(places) > _FEW_TAPS:
            wide = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
            return weighted(taken(x, places.ravel(), axis).reshape(wide), factors, present).sum(axis=axis)
        total = jnp.zeros(shape, x.dtype)
        for k in range(len(places)):
            total = total + weighted(taken(x, places[k], axis), factors[k], present[k])
        return total


__all__ = ["ResampleForm"]

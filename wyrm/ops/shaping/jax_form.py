"""The lowering of ops that only move elements, which take part in bfloat16 programs as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.graph.jax_form import JaxForm, Lowering

Integers = NDArray[np.int64]


class MovingForm(JaxForm):
    """`evaluate`, also in bfloat16: no element changes."""

    narrow: bool | None = True


class PlaceSliceForm(JaxForm):
    """Padding with zeros, also between elements, which XLA fuses; the assignment of `evaluate` would be a scatter."""

    narrow: bool | None = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax import lax

        (x,) = operands
        counts, backwards, padding = [], [], []
        entries = [entry for entry in node.key if entry is not None]
        for axis, (entry, size) in enumerate(zip(entries, shape, strict=True)):
            if entry == (None, None, None) or entry == (0, None, 1):  # the whole axis, whose size may be open
                counts.append(size)
                padding.append((0, 0, 0))
                continue
            places = range(size)[entry : entry + 1 or None] if isinstance(entry, int) else range(size)[slice(*entry)]
            if places.step < 0:
                backwards.append(axis)
                places = places[::-1]
            last = places[-1] + 1 if places else 0
            counts.append(len(places))
            padding.append((places[0] if places else 0, size - last, places.step - 1))
        value = lax.rev(x.reshape(counts), backwards)
        return lax.pad(value, np.zeros((), value.dtype), padding)


def taken(x: Any, places: Integers, axis: int) -> Any:
    """Return the elements of `x` at constant places along an axis, by a slice where they are at equal distances."""
    import jax.numpy as jnp
    from jax import lax

    steps = set(np.diff(places).tolist()) or {1}
    step = steps.pop()
    if steps or step < 1 or not len(places):
        return jnp.take(x, places.astype(np.int32), axis=axis)
    return lax.slice_in_dim(x, int(places[0]), int(places[-1]) + 1, step, axis)


__all__ = ["MovingForm", "PlaceSliceForm", "taken"]

"""The lowering of max pooling: one axis after another, with the position of each maximum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.pooling.windows import Places
from wyrm.ops.shaping.jax_form import Integers, taken

# The most taps along an axis that are compared one by one.
_FEW_TAPS = 8


def _first_maximum(values: Any, positions: Any, table: Integers, axis: int, stride: int) -> tuple[Any, Any]:
    """Return the first maximum of each window along an axis, and its position; `table` is of (taps, outputs).

    The position is that in `positions`, plus `stride` times the place along the axis.
    """
    import jax.numpy as jnp

    places = (table * stride).astype(np.int32).reshape(*table.shape, *[1] * (values.ndim - axis - 1))
    if len(table) > _FEW_TAPS:
        outputs = (*values.shape[:axis], *table.shape, *values.shape[axis + 1 :])
        each, at = (taken(x, table.ravel(), axis).reshape(outputs) for x in (values, positions))
        first = jnp.expand_dims(jnp.argmax(each, axis=axis), axis)
        best, found = (jnp.take_along_axis(x, first, axis=axis).squeeze(axis) for x in (each, at + places))
        return best, found
    best, found = taken(values, table[0], axis), taken(positions, table[0], axis) + places[0]
    for k in range(1, len(table)):
        value, position = taken(values, table[k], axis), taken(positions, table[k], axis) + places[k]
        larger = (value > best) | ((value != value) & (best == best))
        best, found = jnp.where(larger, value, best), jnp.where(larger, position, found)
    return best, found


class MaxPoolForm(JaxForm):
    """The maximum over each row of a window, then the maximum of these; `tables` are the places as (taps, outputs)."""

    narrow: bool | None = True

    def __init__(self, tables: Callable[[Places], Integers]) -> None:
        self.tables = tables

    def maxima(self, node: Any, x: Any) -> tuple[Any, Any]:
        """Return the first maximum of each window, and its flat position among the spatial axes; NaN is the largest.

        The first one in row-major order is in the first row with the largest maximum.
        """
        import jax.numpy as jnp

        found, sizes = jnp.zeros(x.shape, jnp.int32), x.shape[2:]
        places = node.places(sizes)
        for axis in reversed(range(len(sizes))):
            stride = math.prod(sizes[axis + 1 :])
            x, found = _first_maximum(x, found, self.tables(places[axis]), axis + 2, stride)
        return x, found

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return self.maxima(node, operands[0])[0]


class MaxPoolTakeForm(MaxPoolForm):
    """The elements of the second operand at the positions of the maxima of the first one."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        x, values = operands
        found = self.maxima(node, x)[1].reshape(*shape[:2], math.prod(shape[2:]))
        flat = values.reshape(*shape[:2], math.prod(values.shape[2:]))
        return jnp.take_along_axis(flat, found, axis=2).reshape(shape)


class MaxPoolGradientForm(MaxPoolForm):
    """For each element the gradient of its window, if it is the maximum; a scatter where windows overlap."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        x, gradient = operands
        found = self.maxima(node, x)[1]
        size = math.prod(shape[2:])
        sizes = shape[2:]
        owners = [_windows_of_elements(each, own) for each, own in zip(node.places(sizes), sizes, strict=True)]
        if any(owner is None for owner in owners):
            images = math.prod(shape[:2])
            rows, places = jnp.arange(images)[:, None], found.reshape(images, math.prod(found.shape[2:]))
            flat = jnp.zeros((images, size), gradient.dtype).at[rows, places].add(gradient.reshape(places.shape))
            return flat.reshape(shape)
        for axis, owner in enumerate(owners, 2):
            assert owner is not None
            found, gradient = (jnp.take(x, owner.astype(np.int32), axis=axis) for x in (found, gradient))
        here = np.arange(size, dtype=np.int32).reshape(shape[2:])
        return jnp.where(found == here, gradient, np.zeros((), gradient.dtype))


def _windows_of_elements(places: Places, size: int) -> Integers | None:
    """Return the window of each element along an axis, any for elements of none; None if windows share an element."""
    owner: Integers = np.full(size, -1)
    for number, (first, end, distance) in enumerate(places):
        if (owner[first:end:distance] >= 0).any():
            return None
        owner[first:end:distance] = number
    owner[owner < 0] = 0
    return owner

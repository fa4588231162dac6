"""Integers of kernels as sums of constants, of the turns of a loop that are computed at once, and of traced integers.

What is known of an index decides how an element is read: `x[i, j + 1]` of all turns `j` is a slice, `x[labels[j]]` a
gather. Two turns are independent if each has its own index along an axis of what they write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from wyrm.support.frozen import frozen
from wyrm.support.imports import jax, jnp


class Lane:
    """The turns of a loop, or the elements of arrays along an axis, that are computed at once.

    `level` is the axis of a value that has an element for each of them.
    """

    low = 0

    def __init__(self, level: int, size: int) -> None:
        self.level, self.size, self.high = level, size, size - 1

    def array(self) -> Any:
        """Return the numbers of the turns."""
        return jnp.arange(self.size, dtype=np.int64).reshape((1,) * self.level + (self.size,))


class Traced:
    """An integer that JAX traces, with the bounds that are known; it may differ between lanes."""

    def __init__(self, value: Any, low: int | None = None, high: int | None = None) -> None:
        self.value, self.low, self.high = value, low, high

    def array(self) -> Any:
        """Return the value."""
        return self.value


Term = Lane | Traced


@frozen
class Integer:
    """An int64: `constant + sum(factor * term)`; it wraps around as an int64 does."""

    constant: int
    terms: tuple[tuple[Term, int], ...] = ()

    @property
    def known(self) -> int | None:
        """Its value, if it is a constant."""
        return None if self.terms else wrapped(self.constant)

    def __add__(self, other: Integer) -> Integer:
        factors = dict(self.terms)
        for term, factor in other.terms:
            factors[term] = factors.get(term, 0) + factor
        terms = tuple((term, factor) for term, factor in factors.items() if factor)
        return Integer(self.constant + other.constant, terms)

    def times(self, factor: int) -> Integer:
        """Return it `factor` times."""
        terms = ((term, own * factor) for term, own in self.terms) if factor else ()
        return Integer(self.constant * factor, tuple(terms))

    def ends(self) -> tuple[int | None, int | None]:
        """Return the least and the largest value, each None if it is not known."""
        low: int | None = self.constant
        high: int | None = self.constant
        for term, factor in self.terms:
            below, above = (term.low, term.high) if factor > 0 else (term.high, term.low)
            low = None if low is None or below is None else low + factor * below
            high = None if high is None or above is None else high + factor * above
        fit = all(end is None or -(2**63) <= end < 2**63 for end in (low, high))
        return (low, high) if fit else (None, None)

    def bounds(self) -> tuple[int, int] | None:
        """Return the least and the largest value; None if they are not both known."""
        low, high = self.ends()
        return None if low is None or high is None else (low, high)

    def array(self) -> Any:
        """Return its value as an array with an axis for each level of lanes."""
        found = np.int64(wrapped(self.constant))
        if not self.terms:
            return found
        parts = [term.array() * np.int64(wrapped(factor)) for term, factor in self.terms]
        parts = aligned(*(parts if found == 0 else [*parts, found]))
        return reduce(lambda x, y: x + y, parts)

    def lanes(self) -> list[Lane]:
        """Return the lanes among its terms."""
        return [term for term, _ in self.terms if isinstance(term, Lane)]


def wrapped(value: int) -> int:
    """Return an integer as an int64 that wraps around.

    >>> wrapped(2**63)
    -9223372036854775808
    """
    return (value + 2**63) % 2**64 - 2**63


def traced(value: Any, low: int | None = None, high: int | None = None) -> Integer:
    """Return an array of int64 as an integer, with the bounds that are known."""
    return Integer(0, ((Traced(value, low, high), 1),))


def aligned(*values: Any) -> list[Any]:
    """Return values with axes of size 1 appended to those that have fewer levels of lanes than others."""
    most = max(np.ndim(value) for value in values)
    return [
        value if np.ndim(value) in (0, most) else jnp.reshape(value, np.shape(value) + (1,) * (most - np.ndim(value)))
        for value in values
    ]


def by_axes(index: Integer, shape: Sequence[int]) -> tuple[Integer, ...] | None:
    """Return the index along each axis of the element at a position of a row-major array.

    None if it is not known that each is inside of the array: the position alone then says which element it is.
    """
    found, rest = list[Integer](), index
    strides = [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]
    if 0 in shape:
        return None
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            found.append(Integer(0))
            continue
        own = tuple((term, _towards_zero(factor, stride)) for term, factor in rest.terms)
        terms = tuple((term, factor) for term, factor in own if factor)
        rest = rest + Integer(0, terms).times(-stride)
        bounds = rest.bounds()
        if bounds is None:
            return None
        # The rest lies between 0 and the stride.
        constant = bounds[0] // stride
        rest = rest + Integer(-constant * stride)
        axis = Integer(constant, terms)
        inside = axis.bounds()
        if bounds[1] - constant * stride >= stride or inside is None or inside[0] < 0 or inside[1] >= size:
            return None
        found.append(axis)
    return tuple(found) if rest == Integer(0) else None


def _towards_zero(number: int, by: int) -> int:
    return number // by if number >= 0 else -(-number // by)


@frozen
class Box:
    """The elements of an array that are `starts` along its axes, or a range from there for those in `lanes`.

    Along the axes in `backwards` the first lane has the last element of the range.
    """

    starts: tuple[Integer, ...]
    lanes: Mapping[int, Lane]
    backwards: tuple[int, ...]

    def read(self, array: Any) -> Any:
        """Return the elements, with an axis for each level of lanes."""
        starts, sizes = [each.array() for each in self.starts], self._sizes()
        if all(isinstance(each, np.integer) for each in starts):
            ends = [int(start) + size for start, size in zip(starts, sizes, strict=True)]
            found = jax.lax.slice(array, list(map(int, starts)), ends)
        else:
            found = jax.lax.dynamic_slice(array, starts, sizes)
        order = self._order()
        others = [axis for axis in range(array.ndim) if axis not in self.lanes]
        found = jax.lax.rev(found, self.backwards) if self.backwards else found
        return jnp.transpose(found, [*order, *others]).reshape(self._shape(order))

    def written(self, array: Any, values: Any) -> Any:
        """Return the array with these elements replaced by values that have an axis for each level of lanes."""
        order = self._order()
        shape = self._shape(order)
        values = jnp.reshape(values, np.shape(values) + (1,) * (len(shape) - np.ndim(values)))
        values = jnp.broadcast_to(values, shape).reshape([self.lanes[axis].size for axis in order])
        values = jnp.transpose(values, np.argsort(order).tolist()) if order else values
        values = values.reshape(self._sizes())
        values = jax.lax.rev(values, self.backwards) if self.backwards else values
        return jax.lax.dynamic_update_slice(array, values, [each.array() for each in self.starts])

    def _sizes(self) -> list[int]:
        return [self.lanes[axis].size if axis in self.lanes else 1 for axis in range(len(self.starts))]

    def _order(self) -> list[int]:
        return sorted(self.lanes, key=lambda axis: self.lanes[axis].level)

    def _shape(self, order: Sequence[int]) -> list[int]:
        by_level = {self.lanes[axis].level: self.lanes[axis].size for axis in order}
        return [by_level.get(level, 1) for level in range(max(by_level, default=-1) + 1)]


def box(axes: Sequence[Integer]) -> Box | None:
    """Return the elements at these indices as a box of the array; None if they are not one."""
    starts, lanes, backwards = list[Integer](), dict[int, Lane](), list[int]()
    for axis, index in enumerate(axes):
        rest = Integer(index.constant, tuple(each for each in index.terms if not isinstance(each[0], Lane)))
        if any(np.ndim(term.array()) for term, _ in rest.terms):
            return None
        own = [(term, factor) for term, factor in index.terms if isinstance(term, Lane)]
        if own:
            ((lane, step),) = own if len(own) == 1 else [(own[0][0], 0)]
            if step not in (1, -1) or lane in lanes.values():
                return None
            lanes[axis] = lane
            if step == -1:
                rest = rest + Integer(1 - lane.size)
                backwards.append(axis)
        starts.append(rest)
    return Box(tuple(starts), lanes, tuple(backwards))

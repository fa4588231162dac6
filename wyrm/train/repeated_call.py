"""A call like the last one: what was worked out for that is known, and only the numbers are new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wyrm.compiler.arguments import Binding
from wyrm.compiler.pipeline import Graph
from wyrm.node.base import BaseNode
from wyrm.node.leaves import Input
from wyrm.node.storage import Storage, first_beyond, fits_in, is_finite, stored
from wyrm.types.dims import open_axes, resolve_axis

Leaf = BaseNode


class _InputTarget(NamedTuple):
    """An input, and the array of the program that its data goes into."""

    leaf: Leaf
    storage: Storage
    target: np.ndarray
    dtype: np.dtype
    shape: tuple[int, ...]
    finite: bool
    # Of integers: how many there are to choose from, and the number that chooses nothing.
    limits: tuple[tuple[int, int | None], ...]

    def is_within(self, array: np.ndarray) -> bool:
        """Whether integers are in range of all that they choose from."""
        # Mostly there are none: a generator would take longer than all else.
        return not self.limits or all(
            first_beyond(array, size, ignore_index) is None for size, ignore_index in self.limits
        )


class RepeatedCall:
    """The arrays of a program for data of the same kinds as in the last call."""

    def __init__(self, graph: Graph, binding: Binding) -> None:
        self.binding = binding
        self._places = [
            _InputTarget(
                leaf, stored(leaf), binding.array(buffer), leaf.dtype, binding.array(buffer).shape,
                isinstance(leaf, Input) and leaf._finite,
                tuple(
                    (resolve_axis(axis, binding.sizes), ignore_index)
                    for limited, _, axis, ignore_index in graph.ranges.limits
                    # The others are checked by native code.
                    if limited is leaf and set(open_axes((axis,))) <= binding.sizes.keys()
                ),
            )
            for leaf, buffer in graph.source.fed
        ]  # fmt: skip
        # Only where every input is read are all keys known by their number.
        self._usable = {each.leaf for each in self._places} == set(graph.inputs)
        self.columns: Sequence[np.ndarray] = [graph.no_columns[leaf] for leaf in binding.columns]
        self._outputs = [binding.array(buffer) for buffer in graph.lowering.outputs]

    def take(self, feed: object) -> bool:
        """Have the data of a call where it is of these kinds; False leaves the call to who checks all of it."""
        if type(feed) is not dict or not self._usable or not self.binding.is_current():
            return False
        given = 0
        for place in self._places:
            leaf, storage, target, dtype, shape, finite, _ = place
            if leaf not in feed:
                array = storage.array
                if array is None or array.shape != shape or not place.is_within(array):
                    return False
                target[...] = array
                continue
            given += 1
            value: object = feed[leaf]
            if type(value) is float:
                if shape or not fits_in(value, dtype):
                    return False
                target[()] = value
            elif isinstance(value, np.floating) and value.dtype is dtype:
                if shape or not fits_in(float(value), dtype):
                    return False
                target[()] = value
            elif type(value) is np.ndarray and value.dtype is dtype and value.shape == shape:
                if (finite and not is_finite(value)) or not place.is_within(value):
                    return False
                target[...] = value
            else:
                return False
        return given == len(feed)

    def answer(self) -> list[np.ndarray]:
        """The outputs."""
        return [array.copy("K") for array in self._outputs]

"""A call like the last one: what was worked out for that is known, and only the numbers are new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.compiler.binding import Binding
from wyrm.compiler.pipeline import Graph
from wyrm.node.base import BaseNode
from wyrm.node.leaves import Input
from wyrm.node.storage import Storage, fits_in, is_finite, stored

Leaf = BaseNode[Any, Any]


class _Place(NamedTuple):
    """An input, and the array of the program that its data goes into."""

    leaf: Leaf
    storage: Storage
    target: NDArray[Any]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    finite: bool


class Again:
    """The arrays of a program for data of the same kinds as in the last call."""

    def __init__(self, graph: Graph, binding: Binding) -> None:
        self.binding = binding
        self._places = [
            _Place(
                leaf, stored(leaf), binding.array(slot), leaf.dtype, binding.array(slot).shape,
                isinstance(leaf, Input) and leaf._finite,
            )
            for leaf, slot in graph.source.fed
        ]  # fmt: skip
        # Only where every input is read are all keys known by their number.
        self._usable = not graph.ranges.limits and {each.leaf for each in self._places} == set(graph.inputs)
        self.columns: Sequence[NDArray[Any]] = [graph.no_columns[leaf] for leaf in binding.columns]
        self._outputs = [binding.array(slot) for slot in graph.lowering.outputs]

    def take(self, feed: object) -> bool:
        """Have the data of a call where it is of these kinds; False leaves the call to who checks all of it."""
        if type(feed) is not dict or not self._usable or not self.binding.is_current():
            return False
        given = 0
        for leaf, storage, target, dtype, shape, finite in self._places:
            if leaf not in feed:
                array = storage.array
                if array is None or array.shape != shape:
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
                if finite and not is_finite(value):
                    return False
                target[...] = value
            else:
                return False
        return given == len(feed)

    def answer(self) -> list[NDArray[Any]]:
        """The outputs."""
        return [array.copy("K") for array in self._outputs]

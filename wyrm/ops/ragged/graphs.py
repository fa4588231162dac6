"""Graphs with rows of different lengths, as graphs of flat arrays that every engine runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Derived, MadeRagged, Ragged, flat_dims, ragged_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.node import Node
from wyrm.graph.ragged import Layout, Padding, RaggedArray, check_lengths, held_rows, of_values, places
from wyrm.graph.ragged_leaves import MadeRows, Parts, made_rows, parts_of
from wyrm.graph.traversal import topological_order
from wyrm.ops.cross_entropy.softmax import CrossEntropyCount
from wyrm.ops.gradients.reverse import with_sizes
from wyrm.ops.indexing.index import RowGradient, ScatterAdd
from wyrm.ops.normalization.normalization import NormalizationWeightGradient
from wyrm.ops.products.linear_gelu import LinearGeluGradient
from wyrm.ops.ragged.forms import PartsOf, axis_of, extend

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Flattened(NamedTuple):
    """A graph of flat arrays: the node in place of each node, and the inputs with a ragged axis by that axis.

    `whole` is a node that reads all entries of arrays, so that these have no other entries than their rows.
    """

    node: dict[BaseNode, Any]
    inputs: dict[type[Ragged], list[BaseNode]]
    padding: Padding
    whole: BaseNode | None

    @property
    def padded(self) -> bool:
        """Whether arrays may have more entries than their rows."""
        return self.padding is not Padding.NONE

    def parts(self, axis: Ragged) -> Parts:
        """Return the parts of the first input with an axis, whose lengths are those of all."""
        return parts_of(self.inputs[type(axis)][0])

    def users(self, fed: Sequence[BaseNode]) -> list[BaseNode]:
        """Return the inputs that users give data for, given the leaves that a step reads."""
        replaced: dict[BaseNode, list[BaseNode]] = {}
        for leaf in (leaf for leaves in self.inputs.values() for leaf in leaves):
            replaced |= dict.fromkeys(parts_of(leaf), [*leaf.inputs] if isinstance(leaf, MadeRows) else [leaf])
        return list(dict.fromkeys(user for leaf in fed for user in replaced.get(leaf, [leaf])))

    def is_given(self, name: type[Ragged], given: Mapping[BaseNode, Any]) -> bool:
        """Return whether data is given that the lengths of rows along an axis follow from."""
        leaves = self.inputs[name]
        return any(user in given for leaf in leaves for user in self.users(parts_of(leaf)))

    def check_held(self) -> None:
        """Raise `ShapeError` if the data of two inputs with the same ragged axis has other lengths.

        The lengths along axes that are made of others are brought up to date.
        """
        self.arrays({})
        for leaves in self.inputs.values():
            for leaf in leaves:
                if isinstance(leaf, MadeRows):
                    leaf.update()

    def arrays(
        self, given: Mapping[BaseNode, Any], layouts: Mapping[type[Ragged], Layout] = _NOTHING
    ) -> dict[BaseNode, np.ndarray]:
        """Return the arrays of all parts of the inputs, of given rows or else of those that an input holds.

        With a layout for an axis, its arrays have other entries too; without any entry, these are zeros.

        Raise `ShapeError` for inputs with the same ragged axis whose rows have different lengths.
        """
        found: dict[BaseNode, np.ndarray] = {}
        for name, leaves in self.inputs.items():
            data: dict[BaseNode, Any] = {leaf: self._data_of(leaf, given) for leaf in leaves}
            known = [leaf for leaf in leaves if data[leaf] is not None]
            for leaf in known[1:]:
                check_lengths(leaf, data[leaf], known[0], data[known[0]])
            if not known:
                continue
            (rows, starts, lengths), layout, taken = places(data[known[0]]), layouts.get(name), None
            if layout is not None:
                starts, taken = layout.starts(data[known[0]]), layout.taken(data[known[0]])
            for leaf in known:
                if not isinstance(leaf, MadeRows):
                    found[parts_of(leaf).values] = _taken(data[leaf].values, taken)
            found |= zip(parts_of(leaves[0])[1:], (_taken(rows, taken), starts, lengths), strict=True)
        return found

    def as_rows(
        self, outputs: Sequence[BaseNode], values: Sequence[Any], given: Mapping[BaseNode, Any] = {}
    ) -> list[Any]:
        """Return the values of outputs, those along a ragged axis as a `RaggedArray`."""
        found = []
        for output, value in zip(outputs, values, strict=True):
            axis = ragged_axis(output.dims)
            if axis is None:
                found.append(value)
                continue
            rows = self.rows(type(axis), given)
            found.append(of_values(value[: len(rows.values)], rows))
        return found

    def rows(self, name: type[Ragged], given: Mapping[BaseNode, Any]) -> RaggedArray:
        """Return the rows of the first input with an axis that has some, given or held."""
        found = (self._data_of(leaf, given) for leaf in self.inputs[name])
        return next(rows for rows in found if rows is not None)

    def _data_of(self, leaf: BaseNode, given: Mapping[BaseNode, Any]) -> RaggedArray | None:
        if isinstance(leaf, MadeRows):
            return leaf.rows(lambda source: self._data_of(source, given))
        return given[leaf] if leaf in given else held_rows(leaf)


def _taken(entries: np.ndarray, taken: Any) -> np.ndarray:
    """Return these entries, or all; zeros where there are none."""
    if taken is None:
        return entries
    return entries[taken] if len(entries) else np.zeros((len(taken), *entries.shape[1:]), entries.dtype)


def flattened(outputs: Sequence[BaseNode], padding: Padding = Padding.NONE) -> Flattened | None:
    """Return the outputs as a graph of flat arrays; None for a graph without a ragged axis.

    With `padding`, arrays may have more entries than their rows, unless a node reads all entries.

    Raise `ShapeError` for a ragged axis without an input, and for inputs in which it has different rows.
    """
    order = topological_order(outputs)
    inputs: dict[type[Ragged], list[BaseNode]] = {}
    for leaf in order:
        axis = ragged_axis(leaf.dims) if leaf.is_leaf else None
        if axis is not None:
            inputs.setdefault(type(axis), []).append(leaf)
    if not inputs and not any(ragged_axis(node.dims) for node in order):
        return None
    for leaves in inputs.values():
        first = leaves[0]
        for leaf in leaves[1:]:
            if type(leaf.dims[0]) is not type(first.dims[0]):
                raise ShapeError(
                    f"axis {leaf.dims[1]!r} has the rows {first.dims[0]!r} in {describe(first)} and {leaf.dims[0]!r} "
                    f"in {describe(leaf)}: inputs with the same ragged axis have the same rows"
                )

    def source(axis: Ragged, node: BaseNode) -> BaseNode:
        """Return the leaf whose lengths are those of the rows along an axis of a node."""
        if type(axis) not in inputs:
            if not isinstance(axis, MadeRagged):
                raise ShapeError(
                    f"axis {axis!r} of {describe(node)} has no lengths: the rows of data give them, and this graph "
                    f"reads no wy.Input or wy.IndexInput that has the axis"
                )
            sources = [source(part(), node) for part in axis.parts]
            inputs[type(axis)] = [made_rows(axis, sources)]
        return inputs[type(axis)][0]

    for node in order:
        axis = ragged_axis(node.dims)
        if axis is not None:
            source(axis, node)

    def parts(axis: Ragged) -> Parts:
        return parts_of(inputs[type(axis)][0])

    made: dict[BaseNode, Any] = {}
    whole = next(filter(_reads_all_entries, order), None)
    padding = Padding.NONE if whole is not None else padding
    extend(made, order, PartsOf(parts, padding))
    # Rows and entries that no array of the flat graph has, such as a number of rows, get their sizes from the parts.
    of_lengths = [part for leaves in inputs.values() for part in parts_of(leaves[0])[1:]]
    sized = [output for output in outputs if isinstance(output, Node)]
    made |= zip(sized, with_sizes([made[output] for output in sized], of_lengths), strict=True)
    return Flattened(made, inputs, padding, whole)


# Ops that add up all entries of their operands, or count labels, mostly those of gradients.
_OF_ALL_ENTRIES = CrossEntropyCount, LinearGeluGradient, NormalizationWeightGradient, RowGradient, ScatterAdd


def _reads_all_entries(node: BaseNode) -> bool:
    """Return whether padded entries would count in a node, or in what may be made of its axes."""
    if isinstance(node, _OF_ALL_ENTRIES):
        return axis_of(node) is not None
    return any(isinstance(axis, Derived) and flat_dims((axis,)) != (axis,) for axis in node.dims)

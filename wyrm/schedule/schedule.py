"""A schedule: what to compute for the wanted outputs, in which order, under which sizes. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from wyrm.errors import ShapeError
from wyrm.node.base import BaseNode, describe
from wyrm.node.leaves import Constant
from wyrm.node.storage import is_leaf, stored
from wyrm.node.traversal import topological_order
from wyrm.types.dims import Dim, One, axis_size, open_axes, resolve
from wyrm.types.exact import exact

_NO_SHAPES: Mapping[BaseNode[Any, Any], tuple[int, ...]] = MappingProxyType({})


class Schedule:
    """The nodes that `outputs` need, parents first, each operation once however often it was written.

    `nodes` are in order, `representative` maps every node of the graph to the one of `nodes` that computes it,
    `written` are the outputs as the user wrote them, where these are made of simpler ops: they say which sizes fit.
    `last_use` gives for each position the last position that reads it (its own for an output's).
    """

    __slots__ = ("_checking", "_source", "last_use", "leaves", "nodes", "outputs", "representative", "sizes")

    def __init__(
        self, outputs: Sequence[BaseNode[Any, Any]], written: Sequence[BaseNode[Any, Any]] | None = None
    ) -> None:
        order = topological_order(outputs)
        self.sizes, self._source = _one_size_per_name(order)
        self.representative: dict[BaseNode[Any, Any], BaseNode[Any, Any]] = {}
        self.nodes: list[BaseNode[Any, Any]] = []
        known: dict[Any, BaseNode[Any, Any]] = {}
        for node in order:
            if node.same_value:
                self.representative[node] = self.representative[node.parents[0]]
                continue
            try:
                first = known.setdefault(_key(node, self.representative), node)
            except TypeError:  # an attribute that cannot be compared, such as an array: never the same as another
                first = node
            self.representative[node] = first
            if first is node:
                self.nodes.append(node)
        self.leaves = [node for node in self.nodes if is_leaf(node)]
        self.outputs = [self.representative[output] for output in outputs]
        self.last_use = self._last_uses()
        nodes = self.nodes if written is None else topological_order(written)
        self._checking = [node for node in nodes if type(node).check_sizes is not BaseNode.check_sizes]

    def parents(self, node: BaseNode[Any, Any]) -> list[BaseNode[Any, Any]]:
        """The nodes that compute the parents of `node`."""
        return [self.representative[parent] for parent in node.parents]

    def _last_uses(self) -> list[int]:
        position = {node: i for i, node in enumerate(self.nodes)}
        last = list(range(len(self.nodes)))
        for i, node in enumerate(self.nodes):
            for parent in self.parents(node):
                last[position[parent]] = i
        for output in self.outputs:
            last[position[output]] = len(self.nodes)
        return last

    def bind(self, shapes: Mapping[BaseNode[Any, Any], tuple[int, ...]] = _NO_SHAPES) -> dict[type[Dim], int]:
        """The size of every named axis, those without one taken from the data; `ShapeError` names two that disagree.

        `shapes` are those of data that leaves are to be given instead of what they hold.
        """
        sizes = dict(self.sizes)
        source = dict(self._source)
        for leaf in self.leaves:
            shape = _data_shape(leaf, shapes)
            if shape is None:
                continue
            for axis, size in zip(leaf.dims, shape, strict=True):
                if not isinstance(axis, Dim) or axis.size is not None or axis.derived:
                    continue
                bound = sizes.setdefault(type(axis), size)
                if bound != size:
                    raise ShapeError(
                        f"axis {type(axis).__name__} is {size} in the data of {describe(leaf)} and {bound} in "
                        f"{describe(source[type(axis)])}"
                    )
                source.setdefault(type(axis), leaf)
        for leaf in self.leaves:
            given = _data_shape(leaf, shapes)
            if given is not None and any(isinstance(a, Dim) and a.derived and a.size is None for a in leaf.dims):
                shape = resolve(leaf.dims, sizes)
                if shape != given:
                    raise ShapeError(f"{describe(leaf)} is {shape} with the other data of this run, not {given}")
        for node in self._checking:
            if set(open_axes(axis for each in (node, *node.parents) for axis in each.dims)) <= sizes.keys():
                node.check_sizes([resolve(parent.dims, sizes) for parent in node.parents], resolve(node.dims, sizes))
        return sizes

    def shape(self, node: BaseNode[Any, Any], sizes: dict[type[Dim], int]) -> tuple[int, ...]:
        """The shape of a node's value under these sizes."""
        return resolve(node.dims, sizes)


def _data_shape(
    leaf: BaseNode[Any, Any], shapes: Mapping[BaseNode[Any, Any], tuple[int, ...]]
) -> tuple[int, ...] | None:
    """The shape of a leaf's data, None where there is none yet."""
    if leaf in shapes:
        return shapes[leaf]
    array = stored(leaf).array
    return None if array is None else array.shape


def _key(node: BaseNode[Any, Any], representative: dict[BaseNode[Any, Any], BaseNode[Any, Any]]) -> Any:
    """Equal for nodes that compute the same."""
    if isinstance(node, Constant):
        return Constant, *node.key
    if is_leaf(node):
        return node
    parents = tuple([representative[parent] for parent in node.parents])
    return type(node), parents, tuple([exact(getattr(node, name)) for name in node.attributes])


def _one_size_per_name(
    nodes: Iterable[BaseNode[Any, Any]],
) -> tuple[dict[type[Dim], int], dict[type[Dim], BaseNode[Any, Any]]]:
    """The sizes that named axes have in the graph and a node that has each; `ShapeError` where one name has two."""
    sizes: dict[type[Dim], int] = {}
    source: dict[type[Dim], BaseNode[Any, Any]] = {}
    seen: set[int] = set()
    for node in nodes:
        if id(node.dims) in seen:
            continue
        seen.add(id(node.dims))
        for axis in node.dims:
            if not isinstance(axis, Dim) or axis.derived or isinstance(axis, One):
                continue
            size = axis_size(axis)
            if size is None:
                continue
            if sizes.setdefault(type(axis), size) != size:
                raise ShapeError(
                    f"axis {type(axis).__name__} is bound twice to different sizes in one graph: "
                    f"{sizes[type(axis)]} by {describe(source[type(axis)])}, {size} by {describe(node)}"
                )
            source.setdefault(type(axis), node)
    return sizes, source

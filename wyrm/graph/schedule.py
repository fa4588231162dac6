"""A schedule: what to compute for some outputs, in which order, for which sizes, and the ranges of its indices."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dim, One, axis_size, open_axes, resolve, resolve_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_operands import (
    IndexOperand,
    first_out_of_range,
    has_all,
    holds_data,
    is_within,
    rebased,
    source_of,
    used,
)
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS, LoopForm
from wyrm.graph.quotients import named_multiple
from wyrm.graph.source_location import located_at
from wyrm.graph.storage import held_shape, stored
from wyrm.graph.traversal import topological_order
from wyrm.support.texts import exact

# A number for each op without attributes, whose nodes with equal parents are equal. A key of numbers alone is no object
# that the garbage collector must visit.
_PLAIN: dict[type[BaseNode], int] = {}
_numbers = count()
# Axes of these classes have a size and no name.
_NAMELESS = (Dim, One)
_NO_SHAPES: Mapping[BaseNode, tuple[int, ...]] = MappingProxyType({})
_NONE: Mapping[BaseNode, BaseNode] = MappingProxyType({})


def parts_of_residuals(order: Collection[BaseNode]) -> dict[BaseNode, BaseNode]:
    """Return the nodes of an order whose values residuals in it hold, and the parts of these that are the values."""
    ops = {
        op for op in set(map(type, order)) if type(LOOPS.of_op(op)).part_of_residuals is not LoopForm.part_of_residuals
    }
    if not ops:
        return {}
    nodes, present = set(order), {_function_key(node) for node in order if not node.is_leaf}
    found: dict[BaseNode, BaseNode] = {}
    for node in order:
        if type(node) not in ops:
            continue
        with located_at(node.origin):
            part = LOOPS.of(node).part_of_residuals(node)
        if part is not None and any(_function_key(other) in present for other in topological_order([part], nodes)):
            found[node] = part
    return found


def _function_key(node: BaseNode) -> Hashable:
    """Return a key that is equal for nodes that compute the same function of the same parents."""
    return type(node), tuple(map(id, node.parents)), repr(node.attribute_values()) if node.parents else id(node)


class Schedule:
    """The nodes that `outputs` depend on, parents first; equal operations are merged.

    `position` maps every node of the graph to the position in `nodes` of the node that computes it, and
    `parent_positions` lists the positions of each node's parents. `original_outputs` are the outputs before composite
    ops were decomposed; their nodes check their sizes. A schedule that continues `after` another one starts with all
    its nodes; `stops` counts the nodes of each schedule in such a chain.
    """

    __slots__ = (
        "_checking", "_derived", "_known", "_representative", "_source", "leaves", "nodes", "outputs",
        "parent_positions", "position", "sizes", "stops",
    )  # fmt: skip

    def __init__(
        self,
        outputs: Sequence[BaseNode],
        original_outputs: Sequence[BaseNode] | None = None,
        after: Schedule | None = None,
        parts: Mapping[BaseNode, BaseNode] = _NONE,
    ) -> None:
        self.position: dict[BaseNode, int] = {} if after is None else dict(after.position)
        self.nodes: list[BaseNode] = [] if after is None else list(after.nodes)
        self.parent_positions: list[tuple[int, ...]] = [] if after is None else list(after.parent_positions)
        # The position of the first node by its `_key`; constants are found by their storage as well.
        self._known: dict[object, int] = {} if after is None else dict(after._known)
        order = topological_order(outputs, self.position)
        sizes, self._source = _one_size_per_name(order, after)
        self.sizes: dict[type[Dim], int] = sizes
        self._representative: dict[BaseNode, BaseNode] | None = None
        done = len(self.nodes)
        self._add_with(parts, order) if parts else self._add(order)
        self.leaves: list[BaseNode] = [] if after is None else list(after.leaves)
        self.leaves += [node for node in self.nodes[done:] if node.is_leaf]
        # The leaves with a derived axis that gets its size from data.
        self._derived = [
            leaf
            for leaf in self.leaves
            if any(isinstance(axis, Dim) and axis.derived and axis.size is None for axis in leaf.dims)
        ]
        self.outputs: list[BaseNode] = [self.nodes[self.position[output]] for output in outputs]
        nodes = self.nodes[done:] if original_outputs is None else topological_order(original_outputs)
        self._checking: list[BaseNode] = [] if after is None else list(after._checking)
        if any(map(_may_check, set(map(type, nodes)))):
            self._checking += [
                node for node in _with_bodies(nodes) if type(node).check_sizes is not BaseNode.check_sizes
            ]
        self.stops: tuple[int, ...] = (*(() if after is None else after.stops), len(self.nodes))

    def _add(self, order: Iterable[BaseNode]) -> None:
        """Append the nodes that are new, and merge equal operations."""
        position, nodes, parent_positions, known = self.position, self.nodes, self.parent_positions, self._known
        parents: tuple[int, ...]
        for node in order:
            given, op = node.parents, type(node)
            if len(given) == 2:  # most nodes; the other form takes twice the time
                parents = position[given[0]], position[given[1]]
            else:
                parents = tuple([position[parent] for parent in given])
            new = len(nodes)
            number = _PLAIN.get(op)
            if number is not None:
                index = known.setdefault((number, parents), new)
            elif node.same_value:
                index = parents[0]
            elif op is Constant:
                storage = stored(node)
                found = known.get(storage)
                index = known[storage] = known.setdefault(_value_key(node, parents), new) if found is None else found
            else:
                try:
                    index = known.setdefault(_value_key(node, parents), new)
                except TypeError:  # an attribute that cannot be hashed, such as an array: the node is never merged
                    index = new
            position[node] = index
            if index == new:
                nodes.append(node)
                parent_positions.append(parents)

    def _add_with(self, parts: Mapping[BaseNode, BaseNode], order: Iterable[BaseNode]) -> None:
        for node in order:
            part = parts.get(node)
            self._add([node] if part is None else topological_order([part], self.position))
            if part is not None:
                self.position[node] = self.position[part]

    def computes(self, node: BaseNode) -> bool:
        """Return whether the schedule has a node, or one that equals it, and no part of residuals in its place."""
        return node in self.position and type(self.nodes[self.position[node]]) is type(node)

    @property
    def stages(self) -> list[tuple[int, int]]:
        """The (start, stop) positions of the nodes that each schedule of the chain adds."""
        return list(pairwise((0, *self.stops)))

    @property
    def representative(self) -> dict[BaseNode, BaseNode]:
        """Every node of the graph, with the one of `nodes` that computes it."""
        if self._representative is None:
            self._representative = {node: self.nodes[index] for node, index in self.position.items()}
        return self._representative

    def parents(self, node: BaseNode) -> list[BaseNode]:
        """Return the nodes that compute the parents of `node`."""
        return [self.nodes[self.position[parent]] for parent in node.parents]

    @property
    def last_use(self) -> list[int]:
        """For each position the last one that reads it, else its own; the number of nodes for an output."""
        last = list(range(len(self.nodes)))
        for i, parents in enumerate(self.parent_positions):
            for parent in parents:
                last[parent] = i
        for output in self.outputs:
            last[self.position[output]] = len(self.nodes)
        return last

    def bind(self, shapes: Mapping[BaseNode, tuple[int, ...]] = _NO_SHAPES) -> dict[type[Dim], int]:
        """Return the size of every named axis; data gives open ones theirs, `ShapeError` names two that disagree.

        `shapes` has the shapes of data that leaves get instead of the data that they hold.
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
        derived = [(leaf, given) for leaf in self._derived if (given := _data_shape(leaf, shapes)) is not None]
        for leaf, given in derived:
            for axis, size in zip(leaf.dims, given, strict=True):
                _bind_multiple(leaf, axis, size, sizes)
        for leaf, given in derived:
            shape = resolve(leaf.dims, sizes)
            if shape != given:
                raise ShapeError(f"{describe(leaf)} needs shape {shape} to fit the other data, not {given}")
        for node in self._checking:
            if set(open_axes(axis for each in (node, *node.parents) for axis in each.dims)) <= sizes.keys():
                sizes_of_parents = [resolve(parent.dims, sizes) for parent in node.parents]
                node.check_sizes_for(sizes)(sizes_of_parents, resolve(node.dims, sizes))
        return sizes

    def shape(self, node: BaseNode, sizes: dict[type[Dim], int]) -> tuple[int, ...]:
        """Return the shape of a node's value for these sizes."""
        return resolve(node.dims, sizes)


def _bind_multiple(leaf: BaseNode, axis: Axis, size: int, sizes: dict[type[Dim], int]) -> None:
    """Bind the axis that a leaf's axis is a multiple of, unless it is bound; raise `ShapeError` for no multiple."""
    found = named_multiple(axis)
    if found is None or found[0] in sizes:
        return
    name, factor, addend = found
    number, rest = divmod(size - addend, factor)
    if rest or number < 0:
        needed = f"{factor} * n{f' + {addend}' if addend else ''}"
        raise ShapeError(f"axis {axis!r} of {describe(leaf)} needs a size of {needed}, not {size}")
    sizes[name] = number


def _may_check(op: type[BaseNode]) -> bool:
    """Return whether nodes of this class, or those in a loop that it is, check their sizes."""
    loops: bool = type(LOOPS.of_op(op)).steps is not LoopForm.steps
    return loops or op.check_sizes is not BaseNode.check_sizes


def _with_bodies(nodes: Iterable[BaseNode]) -> Iterator[BaseNode]:
    """Yield the nodes, and after a loop those inside of it."""
    for node in nodes:
        yield node
        if not node.is_leaf and (steps := LOOPS.of(node).steps(node)) is not None:
            yield from _with_bodies(topological_order(steps.body.outputs))


def _data_shape(leaf: BaseNode, shapes: Mapping[BaseNode, tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the shape of a leaf's data, or None if it has none yet."""
    return shapes[leaf] if leaf in shapes else held_shape(leaf)


def _value_key(node: BaseNode, parents: tuple[int, ...]) -> object:
    """Return a key that is equal for nodes that compute the same; `parents` are the positions of their parents."""
    if not parents:
        if isinstance(node, Constant):
            return Constant, *node.key
        if node.is_leaf:
            return node
    if parents and not node.attributes:
        return _PLAIN.setdefault(type(node), next(_numbers)), parents
    return type(node), parents, tuple([exact(getattr(node, name)) for name in node.attributes])


def _one_size_per_name(
    nodes: Iterable[BaseNode], after: Schedule | None
) -> tuple[dict[type[Dim], int], dict[type[Dim], BaseNode]]:
    """Return the sizes of the named axes and a node for each; raise `ShapeError` if an axis has two sizes."""
    sizes: dict[type[Dim], int] = {} if after is None else dict(after.sizes)
    source: dict[type[Dim], BaseNode] = {} if after is None else dict(after._source)
    seen: set[int] = set()
    for node in nodes:
        dims = node.dims
        if id(dims) in seen:
            continue
        seen.add(id(dims))
        for axis in dims:
            if not isinstance(axis, Dim) or axis.derived or type(axis) in _NAMELESS:
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


class Limit(NamedTuple):
    """Data of `leaf` must be indices into `axis`, because `user` indexes with it; see `IndexOperand`.

    `part` is the view of the leaf whose elements are the indices, None for all elements.
    """

    leaf: BaseNode
    user: BaseNode
    choice: IndexOperand
    part: BaseNode | None

    @property
    def size(self) -> int | None:
        """The size of the axis, None if the data of a run decides it."""
        return axis_size(self.choice.axis)

    def position(
        self, array: NDArray[np.integer], sizes: Mapping[type[Dim], int], column: bool = False
    ) -> tuple[int, ...] | None:
        """Return the position of the first index out of range, for these sizes of axes; None if there is none.

        `column` is as in `used`.
        """
        _, axis, ignore_index, from_end = self.choice
        counted = None if self.part is None else partial(used, self.part, array.shape, column=column)
        return first_out_of_range(array, resolve_axis(axis, sizes), ignore_index, from_end, counted)


class Ranges:
    """The known ranges of the indices that `nodes` use, in the loops inside them too.

    For the body of a loop, `outer` has the ranges around it, `given` maps each input of the body to the node that it
    replaces, or whose rows it replaces in turn if it is in `rows`, and `always` says whether every run does a step:
    data for a branch that is not taken may be anything.
    """

    def __init__(
        self,
        nodes: Iterable[BaseNode],
        outer: Ranges | None = None,
        given: Mapping[BaseNode, BaseNode] = _NONE,
        rows: Collection[BaseNode] = (),
        always: bool = True,
    ) -> None:
        self._outer, self._given, self._rows, self._always = outer, given, rows, always
        self._limits: dict[tuple[object, ...], Limit] = {}
        self._below: dict[tuple[BaseNode, int | None, bool], int] = {}
        self._inside: dict[BaseNode, Ranges] = {}
        for node in nodes:
            for choice in node.index_operands():
                self._add(node.parents[choice.operand], node, choice)
            if LOOPS.of(node).steps(node) is not None:
                self._inside[node] = self._of_body(node)

    @property
    def limits(self) -> list[Limit]:
        """The limits that data of leaves is checked against when it is given."""
        return list(self._limits.values())

    def inside(self, loop: BaseNode) -> Ranges:
        """Return the ranges inside a loop among the nodes."""
        if loop not in self._inside:  # a loop that an op was decomposed into
            self._inside[loop] = self._of_body(loop)
        return self._inside[loop]

    def _of_body(self, loop: BaseNode) -> Ranges:
        """Return the ranges inside a loop, and add the limits that the loop puts on data to these."""
        steps = LOOPS.of(loop).steps(loop)
        assert steps is not None
        body = steps.body
        given = dict(zip(body.inputs, loop.parents[steps.limited :], strict=True))
        rows = set(body.inputs[steps.carried : steps.carried + steps.sequences])
        return Ranges(topological_order(body.outputs), self, given, rows, not steps.limited and steps.length != 0)

    def _add(self, indices: BaseNode, user: BaseNode, choice: IndexOperand) -> None:
        source = source_of(indices)
        if source in self._given:
            outside = rebased(indices, self._given[source], source in self._rows) if self._always else None
            if self._outer is not None and outside is not None:
                self._outer._add(outside, user, choice)
        elif holds_data(source) and not is_within(indices, choice.axis):
            _, axis, *rest = choice
            part = None if has_all(indices) else indices
            self._limits.setdefault((source, axis, *rest, part), Limit(source, user, choice, part))
            size, key = axis_size(axis), (source, choice.ignore_index, choice.from_end)
            if size is not None and part is None:
                self._below[key] = min(size, self._below.get(key, size))

    def is_known(self, indices: BaseNode, axis: Axis, ignore_index: int | None = None, from_end: bool = False) -> bool:
        """Return whether indices are in range of an axis in every run; they are if all data that they view is."""
        if is_within(indices, axis):
            return True
        source, size = source_of(indices), axis_size(axis)
        if source in self._given:
            return (
                self._always
                and self._outer is not None
                and self._outer.is_known(self._given[source], axis, ignore_index, from_end)
            )
        enough = ((source, None, False), (source, ignore_index, False), (source, ignore_index, from_end))
        known = [self._below[key] for key in enough if key in self._below]
        return size is not None and any(below <= size for below in known)

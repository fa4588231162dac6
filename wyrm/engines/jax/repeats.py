"""Finds equal layers of a graph: runs of nodes in its schedule that repeat with a period.

The nodes are first ordered so that those of a layer, of its backward pass and of its parameters' gradients are
neighbours. Nodes one period apart have the same op, attributes, axes and dtype. Each operand is a node of the same
repetition, one of the repetition before, the same value for all, or another value for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.graph.axes import Dim, resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.jax_form import JAX, JaxForm
from wyrm.graph.schedule import Schedule
from wyrm.support.texts import exact

# Attributes whose values may differ between repetitions; see `Lowering.attribute`.
_VARYING = frozenset(["seed", "stream"])
# The fewest nodes of a period: a shorter one computes too little to be worth a loop.
_FEWEST_NODES = 4
# The fewest nodes of all repetitions: two of a small layer are not worth a loop either.
_FEWEST_NODES_IN_ALL = 16
# A node with more readers may serve all layers, so it comes before them.
_FEW_READERS = 2
# How many periods, and first places of a run, the search tries.
_CANDIDATES, _BEGINNINGS = 16, 4


class Local(NamedTuple):
    """The value of a node of the same repetition."""

    node: int


class Carried(NamedTuple):
    """The value of a node of the repetition before, by its number in `Repeat.carried`."""

    number: int


class Invariant(NamedTuple):
    """A value that all repetitions share, by its position in the schedule."""

    position: int


class Varying(NamedTuple):
    """A value that differs between repetitions, by its number in `Repeat.varying`."""

    number: int


Operand = Local | Carried | Invariant | Varying


@dataclass
class Repeat:
    """Nodes of a schedule that repeat: `positions[k][i]` is node i of repetition k.

    `operands[i]` are the operands of node i. `carried` has, for each carried value, its position before the run and the
    node that computes the next one. `varying` has the positions of a value, one for each repetition. `attributes` has
    the values of an attribute (node, name) that differs. `read` are the nodes that others read outside the run.
    """

    positions: list[list[int]]
    operands: list[list[Operand]] = field(default_factory=list)
    carried: list[tuple[int, int]] = field(default_factory=list)
    varying: list[list[int]] = field(default_factory=list)
    attributes: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of repetitions."""
        return len(self.positions)


def find_repeats(
    schedule: Schedule,
    known: Container[BaseNode],
    fewest: int,
    kind: Callable[[BaseNode], Hashable] = lambda node: None,
) -> list[int | Repeat]:
    """Return the positions of the nodes to compute, in a possible order, with a `Repeat` for each run of equal layers.

    Leaves and `known` nodes are not computed. A run has at least `fewest` repetitions. Nodes with different `kind` are
    never equal.
    """
    computed = [i for i, node in enumerate(schedule.nodes) if not node.is_leaf and node not in known]
    if len(computed) < fewest * _FEWEST_NODES:
        return list(computed)
    plans = [
        _Search(schedule, order, fewest, kind).plan(0, len(order)) for order in _layered_orders(schedule, computed)
    ]
    return min(plans, key=lambda plan: sum(not isinstance(item, Repeat) for item in plan))


def _layered_orders(schedule: Schedule, computed: Sequence[int]) -> list[list[int]]:
    """Return the positions of the computed nodes, ordered by their distance from the leaves, in two ways.

    They differ in where results stand that no node reads. A node with few readers comes just before the first of them,
    unless that needs more memory.
    """
    nodes, parents = schedule.nodes, schedule.parent_positions
    sizes = _Sizes(schedule.sizes)
    depth, readers = [0] * len(nodes), [list[int]() for _ in nodes]
    for i in computed:
        depth[i] = 1 + max((depth[parent] for parent in parents[i]), default=0)
        for parent in set(parents[i]):
            readers[parent].append(i)
    for i in reversed(computed):
        if 0 < len(readers[i]) <= _FEW_READERS:
            later = min(depth[reader] for reader in readers[i]) - 1
            kept = [
                nodes[parent]
                for parent in set(parents[i])
                if not nodes[parent].is_leaf and all(depth[reader] < later for reader in readers[parent] if reader != i)
            ]
            if sum(_elements(node, sizes) for node in kept) <= _elements(nodes[i], sizes):
                depth[i] = later

    def place(i: int) -> tuple[int, bool, int]:
        """Return where a node stands among others: those that only results read come first at their depth."""
        return depth[i], any(readers[reader] for reader in readers[i]), i

    def key(i: int) -> tuple[tuple[int, bool, int], int]:
        """Return the place of a node; a result, which no node reads, follows its last parent, as in each layer."""
        last = max((place(parent) for parent in parents[i] if not nodes[parent].is_leaf), default=None)
        return (place(i), -1) if readers[i] or last is None else (last, i)

    return [sorted(computed, key=key), sorted(computed, key=lambda i: (depth[i], i))]


class _Sizes(dict[type[Dim], int]):
    """The sizes of axes, 1024 for those that the data tells."""

    def __contains__(self, axis: object) -> bool:
        return True

    def __missing__(self, axis: type[Dim]) -> int:
        return 1024


def _elements(node: BaseNode, sizes: _Sizes) -> int:
    return math.prod(resolve(node.dims, sizes))


class _Search:
    def __init__(self, schedule: Schedule, order: list[int], fewest: int, kind: Callable[[BaseNode], Hashable]) -> None:
        self._nodes, self._parents, self._order, self._fewest = schedule.nodes, schedule.parent_positions, order, fewest
        self._place = {position: place for place, position in enumerate(order)}
        known: dict[Hashable, int] = {}
        self._signatures = np.array([known.setdefault(_signature(self._nodes[i], kind), len(known)) for i in order])
        self._readers: list[list[int]] = [[] for _ in order]
        for place, position in enumerate(order):
            for parent in self._parents[position]:
                if parent in self._place:
                    self._readers[self._place[parent]].append(place)
        for output in schedule.outputs:
            if (position := schedule.position[output]) in self._place:
                self._readers[self._place[position]].append(len(order))

    def plan(self, first: int, last: int) -> list[int | Repeat]:
        """Return the plan of the places from `first` to before `last`."""
        for start, period, length in self._candidates(first, last):
            for begin in self._beginnings(start, period, length):
                count = (start + length - begin) // period
                # The first or the last repetition may have other operands than those between.
                for skipped, dropped in ((0, 0), (1, 0), (0, 1), (1, 1)):
                    repetitions = count - skipped - dropped
                    if repetitions < self._fewest or repetitions * period < _FEWEST_NODES_IN_ALL:
                        continue
                    at = begin + skipped * period
                    repeat = self._repeat(at, period, repetitions)
                    if repeat is not None:
                        end = at + repeat.count * period
                        return [*self.plan(first, at), repeat, *self.plan(end, last)]
        return list(self._order[first:last])

    def _candidates(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """Return (start, period, length) of runs of equal signatures, first those that save most nodes."""
        signatures = self._signatures[first:last]
        found: list[tuple[int, int, int, int]] = []
        for period in range(_FEWEST_NODES, len(signatures) // self._fewest + 1):
            for start, length in _runs(signatures[:-period] == signatures[period:]):
                if length >= (self._fewest - 1) * period:
                    saved = length // period * period
                    found.append((-saved, period, first + start, length + period))
        return [(start, period, length) for _, period, start, length in sorted(found)[:_CANDIDATES]]

    def _beginnings(self, start: int, period: int, length: int) -> list[int]:
        """Return where repetitions may begin, first where the fewest values pass from one to the next."""
        middle = start + (length // period // 2) * period

        def crossing(begin: int) -> tuple[int, int]:
            boundary = middle + begin - start
            places = range(max(0, boundary - period), boundary)
            inside = range(boundary, boundary + period)
            return sum(any(reader in inside for reader in self._readers[place]) for place in places), begin

        spare = min(period, length - self._fewest * period + 1)
        return sorted(range(start, start + spare), key=crossing)[:_BEGINNINGS]

    def _repeat(self, start: int, period: int, count: int) -> Repeat | None:
        """Return the run of these places, or None where the operands of its nodes do not repeat."""
        order, end = self._order, start + count * period
        repeat = Repeat([order[start + k * period : start + (k + 1) * period] for k in range(count)])
        carried: dict[tuple[int, int], int] = {}
        varying: dict[tuple[int, ...], int] = {}
        for i in range(period):
            rows = [self._parents[positions[i]] for positions in repeat.positions]
            operands: list[Operand] = []
            for column in zip(*rows, strict=True):
                operand = self._operand(column, start, period, count, carried, varying)
                if operand is None:
                    return None
                operands.append(operand)
            repeat.operands.append(operands)
            for name in _varying(self._nodes[repeat.positions[0][i]]):
                values = [getattr(self._nodes[positions[i]], name) for positions in repeat.positions]
                if len(set(values)) > 1:
                    repeat.attributes[i, name] = values
        repeat.carried, repeat.varying = list(carried), [list(column) for column in varying]
        repeat.read = [
            i
            for i in range(period)
            if any(not start <= reader < end for k in range(count) for reader in self._readers[start + k * period + i])
        ]
        return repeat

    def _operand(
        self,
        column: tuple[int, ...],
        start: int,
        period: int,
        count: int,
        carried: dict[tuple[int, int], int],
        varying: dict[tuple[int, ...], int],
    ) -> Operand | None:
        """Return the kind of an operand, given its position in each repetition; None if it fits no kind."""
        places = [self._place.get(position, -1) for position in column]
        repetitions = [(place - start) // period if start <= place < start + count * period else -1 for place in places]
        if all(repetition == -1 for repetition in repetitions):
            if len(set(column)) == 1:
                return Invariant(column[0])
            if not self._alike(column):
                return None
            return Varying(varying.setdefault(column, len(varying)))
        number = (places[-1] - start) % period
        if any(place >= 0 and (place - start) % period != number for place in places[1:]):
            return None
        if repetitions == list(range(count)) and (places[0] - start) % period == number:
            return Local(number)
        if repetitions == list(range(-1, count - 1)) and self._alike((column[0], column[-1])):
            return Carried(carried.setdefault((column[0], number), len(carried)))
        return None

    def _alike(self, positions: Sequence[int]) -> bool:
        """Return whether the values at these positions have the same axes and dtype, and are arrays."""
        first, *others = (self._nodes[position] for position in positions)
        return not first.gives_rows and all(
            node.dims == first.dims and node.dtype == first.dtype and not node.gives_rows for node in others
        )


def _varying(node: BaseNode) -> list[str]:
    """Return the attributes of a node that its form reads by `Lowering.attribute`."""
    has_form = type(JAX.of(node)) is not JaxForm
    return [name for name in node.attributes if name in _VARYING and has_form]


def _signature(node: BaseNode, kind: Callable[[BaseNode], Hashable]) -> Hashable:
    """Return a key that is equal for nodes that may correspond in two repetitions."""
    if node.gives_rows or JAX.of(node).reads_constants:
        return id(node)
    varying = _varying(node)
    attributes = tuple([exact(getattr(node, name)) for name in node.attributes if name not in varying])
    key = type(node), attributes, node.dims, node.dtype, len(node.parents), kind(node)
    try:
        hash(key)
    except TypeError:  # an unhashable attribute, such as an array
        return id(node)
    return key


def _runs(equal: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Return the start and the length of each run of true elements."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], equal, [False]]).astype(np.int8)))
    return ((int(start), int(stop - start)) for start, stop in zip(edges[::2], edges[1::2], strict=True))


__all__ = ["Carried", "Invariant", "Local", "Operand", "Repeat", "Varying", "find_repeats"]

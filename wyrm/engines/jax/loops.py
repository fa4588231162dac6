"""Runs of equal layers as loops of XLA: `lax.scan` over the values that differ from layer to layer.

Equal layers are runs of nodes in a schedule that repeat with a period. The nodes are first ordered so that those of a
layer, of its backward pass and of its parameters' gradients are neighbours. Nodes one period apart have the same op,
attributes, axes and dtype. Each operand is a node of the same repetition, one of the repetition before, the same value
for all, or another value for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.jax.partial_sums import PartialSum, whole
from wyrm.errors import RegistrationError
from wyrm.graph.axes import Dim, resolve
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.jax_form import JAX, JaxForm, Unjoined
from wyrm.graph.schedule import Schedule
from wyrm.ops.random.philox import WORD
from wyrm.support.imports import jax, jnp, lax
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
        self._signatures = np.array(
            [known.setdefault(_repetition_key(self._nodes[i], kind), len(known)) for i in order]
        )
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


def _repetition_key(node: BaseNode, kind: Callable[[BaseNode], Hashable]) -> Hashable:
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


# Returns the value of a node from the values of its parents and the traced attributes.
Compute = Callable[[BaseNode, list[Any], "Attributes"], Any]


class Attributes:
    """The attributes that differ between equal layers, such as seeds: traced values by node and name."""

    def __init__(self, values: dict[tuple[BaseNode, str], Any]) -> None:
        self._values = values
        self.unread: set[tuple[BaseNode, str]] = set(values)

    def get(self, node: BaseNode, name: str) -> Any:
        """Return the traced value of an attribute, or else that of the node."""
        self.unread.discard((node, name))
        return self._values.get((node, name), getattr(node, name))


NO_ATTRIBUTES = Attributes({})


class _Stacked(NamedTuple):
    """A value for each repetition: repetition k has `array[first + k * step]`."""

    array: Any
    first: int
    step: int


class Values:
    """The values of a schedule's nodes by position; those that a loop stacks are sliced when they are read."""

    def __init__(self, count: int) -> None:
        self._values: list[Any] = [None] * count
        self._stacked: dict[int, tuple[Any, int]] = {}

    def __contains__(self, position: int) -> bool:
        return self._values[position] is not None or position in self._stacked

    def __getitem__(self, position: int) -> Any:
        if self._values[position] is None:
            array, index = self._stacked[position]
            self._values[position] = array[index]
        return self._values[position]

    def __setitem__(self, position: int, value: Any) -> None:
        self._values[position] = value

    def unstack(self, positions: Sequence[int], array: Any) -> None:
        """Set the values at these positions to the elements of an array along its first axis."""
        for index, position in enumerate(positions):
            self._stacked[position] = array, index

    def stack(self, positions: Sequence[int]) -> _Stacked:
        """Return the values at these positions as elements of one array: the one that they come from, or a new one."""
        sources = [self._stacked.get(position) for position in positions]
        if (
            (first := sources[0]) is not None
            and not isinstance(first[0], PartialSum)
            and (second := sources[1]) is not None
        ):
            step = second[1] - first[1]
            if abs(step) == 1 and all(
                source is not None and source[0] is first[0] and source[1] == first[1] + step * k
                for k, source in enumerate(sources)
            ):
                return _Stacked(first[0], first[1], step)
        return _Stacked(jnp.stack([_as_one_array(self[position]) for position in positions]), 0, 1)

    def stacked(self, positions: Sequence[int]) -> Any:
        """Return the values at these positions as one array."""
        array, first, step = self.stack(positions)
        if step == 1:
            return array[first : first + len(positions)]
        return array[first - len(positions) + 1 : first + 1][::-1]


def _joined_parts(value: Any) -> Any:
    """Return a value that a loop stacks: one that an op left in parts as one array."""
    return value.flat() if isinstance(value, Unjoined) else value


def _as_one_array(value: Any) -> Any:
    """Return a value as one array, also a partial sum."""
    return _joined_parts(whole(value))


def compute_repeat(repeat: Repeat, schedule: Schedule, values: Values, compute: Compute) -> None:
    """Compute the nodes of equal layers: in a loop, or one by one if carried values change their shape or dtype.

    Raise `RegistrationError` for a form that does not read an attribute that differs between the layers.
    """
    layer = [schedule.nodes[position] for position in repeat.positions[0]]
    invariant = {
        operand.position: whole(values[operand.position])
        for operands in repeat.operands
        for operand in operands
        if isinstance(operand, Invariant)
    }
    stacked = [values.stack(positions) for positions in repeat.varying]
    # `lax.scan` slices arrays that are read from the first to the last element.
    in_order = [each.first == 0 and each.step == 1 and each.array.shape[0] == repeat.count for each in stacked]
    sequences = [each.array for each, direct in zip(stacked, in_order, strict=True) if direct]
    words = [np.array([value & WORD for value in numbers], np.uint32) for numbers in repeat.attributes.values()]
    unread: set[tuple[BaseNode, str]] = set()

    def body(carries: list[Any], elements: tuple[Any, list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
        turn, given, numbers = elements
        rest = iter(given)
        varying = [
            next(rest)
            if direct
            else lax.dynamic_index_in_dim(each.array, each.first + each.step * turn, keepdims=False)
            for each, direct in zip(stacked, in_order, strict=True)
        ]
        attributes = Attributes(
            {(layer[i], name): number for (i, name), number in zip(repeat.attributes, numbers, strict=True)}
        )
        found: list[Any] = []

        def value(operand: Operand) -> Any:
            match operand:
                case Local(i):
                    return found[i]
                case Carried(i):
                    return carries[i]
                case Invariant(position):
                    return invariant[position]
                case Varying(i):
                    return varying[i]

        for node, operands in zip(layer, repeat.operands, strict=True):
            found.append(compute(node, [value(operand) for operand in operands], attributes))
        unread.update(attributes.unread)
        return [_as_one_array(found[i]) for _, i in repeat.carried], [_joined_parts(found[i]) for i in repeat.read]

    traced_once: Any = jax.jit(body)
    first = [_as_one_array(values[position]) for position, _ in repeat.carried]
    elements = (jnp.arange(repeat.count, dtype=jnp.int32), sequences, words)
    of_layer = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape[1:], array.dtype), elements)
    after, _ = jax.eval_shape(traced_once, first, of_layer)
    if unread:
        node, name = unread.pop()
        raise RegistrationError(
            f"the lowering of {describe(node)} to JAX must read the {name} by lowering.attribute(node, {name!r}): it "
            f"differs between equal layers, which share code"
        )
    if any((x.shape, x.dtype) != (y.shape, y.dtype) for x, y in zip(first, after, strict=True)):
        for position in chain.from_iterable(repeat.positions):
            operands = [values[parent] for parent in schedule.parent_positions[position]]
            values[position] = compute(schedule.nodes[position], operands, NO_ATTRIBUTES)
        return
    _, results = lax.scan(traced_once, first, elements)
    for i, array in zip(repeat.read, results, strict=True):
        values.unstack([positions[i] for positions in repeat.positions], array)

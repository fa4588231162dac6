"""The arrays of a program on JAX's devices, synchronized with those that leaves and the optimizer hold on the host."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from wyrm.engines.jax.graph import JaxGraph
from wyrm.engines.jax.loops import Repeat
from wyrm.engines.jax.namespace import narrowed
from wyrm.errors import OptionError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.parameters import Parameter
from wyrm.graph.storage import DeviceStorage, FirstValues, Storage, Undrawn, bound_array, stored, touch
from wyrm.support.imports import jax, jnp
from wyrm.support.interrupts import deferred

# A step donates its arrays to JAX, after which nobody may read them. This lock is held while a step replaces arrays and
# while arrays are copied to the host. It is one for all programs, because they share parameters.
exchange: Final = threading.RLock()
# Returns `array[index]`, the part of an array that belongs to one device.
Read = Callable[[tuple[slice, ...]], np.ndarray]


class State(NamedTuple):
    """What training changes: the values of `JaxGraph.trained`, and the optimizer's arrays by parameter and name.

    Functions that train take the parameters of equal layers stacked: see `StepFunctions.stacks`. `alive` becomes false
    when a loss or gradient is not finite or an index is out of range; nothing changes after that.
    """

    values: list[Any]
    slots: list[dict[str, Any]]
    alive: Any


class Placement:
    """Puts arrays on JAX's devices: all on one, or by the axes of nodes on those of a mesh."""

    def __init__(self, sharding: Any = None) -> None:
        self.sharding = sharding
        # Whether the devices belong to several processes, which all do the same steps.
        self.several_processes: bool = sharding is not None and bool(sharding.mesh.is_multi_process)

    def array(self, leaf: BaseNode, array: np.ndarray | Undrawn) -> Any:
        """Return a copy of a leaf's array, or of one of its state arrays, on the devices."""
        if isinstance(array, Undrawn):
            return self.drawn(leaf, array)
        if self.sharding is None:
            return jax.device_put(narrowed(leaf, array), may_alias=False)
        whole, shape = narrowed(leaf, array), self.sharding.stored_shape(leaf, array.shape)
        return self._divided(leaf, shape, lambda index: _padded_part(whole, shape, index or ()))

    def _divided(self, leaf: BaseNode, shape: tuple[int, ...], part: Read) -> Any:
        """Return an array of a leaf on the devices of a mesh: the host has the part of one device at a time."""
        placed = self.sharding.of_array(leaf, shape)
        parts = [
            jax.block_until_ready(jax.device_put(part(index), device, may_alias=False))
            for device, index in placed.addressable_devices_indices_map(shape).items()
        ]
        return jax.make_array_from_single_device_arrays(shape, placed, parts)

    def abstract(self, leaf: BaseNode, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Return the shape, dtype and placement of what `array` returns for a leaf's array, or one of its state."""
        from jax.dtypes import canonicalize_dtype

        if self.sharding is None:
            placed = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        else:
            shape = self.sharding.stored_shape(leaf, shape)
            placed = self.sharding.of_array(leaf, shape)
        return jax.ShapeDtypeStruct(shape, canonicalize_dtype(dtype), sharding=placed)

    def drawn(self, leaf: BaseNode, undrawn: Undrawn) -> Any:
        """Return first values of a leaf on the devices; the host has the rows of one device at a time."""
        if self.sharding is None or not undrawn.shape:
            return self.array(leaf, np.asarray(undrawn))
        shape, rows = self.sharding.stored_shape(leaf, undrawn.shape), undrawn.shape[0]

        @lru_cache(maxsize=1)  # for devices with the same rows
        def drawn(low: int, high: int) -> np.ndarray:
            return narrowed(leaf, undrawn.rows(min(low, rows), min(high, rows)))

        def part(index: tuple[slice, ...]) -> np.ndarray:
            low, high, _ = index[0].indices(shape[0])
            return _padded_part(drawn(low, high), (high - low, *shape[1:]), (slice(None), *index[1:]))

        return self._divided(leaf, shape, part)

    def batch(self, leaf: BaseNode, shape: tuple[int, ...], read: Read) -> Any:
        """Return data for an input; `read` is called for the part of each device of this process.

        `shape` is the input's, or has a first axis of batches before it.
        """
        if self.sharding is None:
            return jax.device_put(narrowed(leaf, read(tuple(slice(0, size) for size in shape))))
        return jax.make_array_from_callback(
            shape, self.sharding.of_array(leaf, shape), lambda index: narrowed(leaf, read(index or ()))
        )


def _padded_part(array: np.ndarray, shape: tuple[int, ...], index: tuple[slice, ...]) -> np.ndarray:
    """Return `array[index]`, with zeros for the rows that `shape` has and the array does not."""
    part = array[index]
    if array.shape == shape:
        return part
    low, high, _ = index[0].indices(shape[0])
    return np.concatenate([part, np.zeros((high - low - len(part), *part.shape[1:]), part.dtype)])


def first_rows(leaf: BaseNode, count: int = 64) -> np.ndarray:
    """Return the array of a leaf, or if nobody has read its first values, some rows of them."""
    newer = stored(leaf).newer
    if isinstance(newer, FirstValues) and newer.undrawn.shape:
        return newer.undrawn.rows(0, min(count, newer.undrawn.shape[0]))
    return bound_array(leaf)


def without_padding(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return the part of an array from the devices that has this shape; rows after it are padding."""
    part: np.ndarray = array[tuple(map(slice, shape))]
    return part


def on_host(array: Any, what: BaseNode | None = None) -> np.ndarray:
    """Return a device array as a NumPy array. Raise `OptionError` if other processes hold a part of it."""
    if isinstance(array, np.ndarray) or array.is_fully_addressable:
        return np.asarray(array)
    if array.is_fully_replicated:
        return np.asarray(array.addressable_data(0))
    raise OptionError(
        f"{'the array' if what is None else describe(what)} is sharded over several processes, so no process can read "
        f"all of it: let each of them call wy.jax.gather(program) first"
    )


def gathered(array: Any, what: BaseNode | None = None) -> np.ndarray:
    """Return a device array as a NumPy array, with the parts of other processes; every process calls it."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return on_host(array, what)
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(array, tiled=True))


class Newest:
    """The newest array of a trained leaf, on the devices; a call copies it to the host."""

    def __init__(self, state: DeviceState, position: int, before: FirstValues | None = None) -> None:
        self.state = state
        self.position = position
        # What draws the array on the host, if nobody has read it.
        self.before = before

    def __call__(self) -> None:
        """Copy the array to the host."""
        self.state.copy_value(self.position)


class DeviceState:
    """What a program reads and trains, on the devices.

    The newest array of a parameter, a buffer or the optimizer's state is either on the host or on the devices. Reading
    it on the host copies it from the devices; if it changes on the host, the next step copies it back. A caller holds
    `exchange` from reading arrays here until its computation has started.
    """

    def __init__(self, graph: JaxGraph, placement: Placement, stacks: Stacks) -> None:
        self._graph, self._placement, self._stacks = graph, placement, stacks
        # Arrays, or parts of stacked ones.
        self._values: list[Any] = [None] * len(graph.trained)
        self._slots: list[dict[str, Any]] | None = None
        self._held: list[Any] = [None] * len(graph.held)
        # The versions of the arrays that the devices have.
        self._versions: dict[BaseNode, int] = {}
        # Whether the host lacks the newest state of the optimizer.
        self._slots_ahead = False

    def values(self) -> list[Any]:
        """Return the arrays of the trained leaves."""
        self._update(self._graph.trained, self._values)
        return list(map(unstacked, self._values))

    def held(self) -> list[Any]:
        """Return the arrays of the other leaves that hold data."""
        self._update(self._graph.held, self._held)
        return self._held

    def _update(self, leaves: Sequence[BaseNode], arrays: list[Any]) -> None:
        """Fetch the arrays that have changed on the host or in another program."""
        for position, leaf in enumerate(leaves):
            storage = stored(leaf)
            if self._versions.get(leaf) != storage.version:
                newest = storage.newer
                if isinstance(newest, Newest) and newest.state._placement.sharding == self._placement.sharding:
                    arrays[position] = unstacked(newest.state._values[newest.position])
                elif isinstance(newest, FirstValues):
                    arrays[position] = self._placement.drawn(leaf, newest.undrawn)
                else:
                    arrays[position] = self._placement.array(leaf, bound_array(leaf))
                self._versions[leaf] = storage.version

    def state(self) -> State:
        """Return the state of training."""
        return State(self.values(), self.slots(), np.bool_(True))

    def abstract(self) -> State:
        """Return the state of training as shapes, dtypes and placements; arrays that are not there are not made."""
        place, optimizer = self._placement.abstract, self._graph.optimizer
        values = [place(leaf, tuple(leaf.shape), leaf.dtype) for leaf in self._graph.trained]
        if self._slots is not None or optimizer is None:
            return State(values, self.slots(), None)
        states = ((parameter, optimizer.first_state_of(parameter)) for parameter in self._graph.parameters)
        slots = [
            {name: place(parameter, array.shape, array.dtype) for name, array in state.items()}
            for parameter, state in states
        ]
        return State(values, slots, None)

    def stacked(self) -> State:
        """Return the state of training with equal layers stacked; after a step, call `replace_stacked`."""
        self._update(self._graph.trained, self._values)
        slots = self._stacks.stack_slots(self._slot_parts())
        return State(self._stacks.stack(self._values), slots, np.bool_(True))

    def slots(self) -> list[dict[str, Any]]:
        """Return the optimizer's arrays for each parameter with a gradient."""
        return [{name: unstacked(array) for name, array in arrays.items()} for arrays in self._slot_parts()]

    def _slot_parts(self) -> list[dict[str, Any]]:
        optimizer = self._graph.optimizer
        if self._slots is None and optimizer is not None:
            place, states = self._placement.array, map(optimizer.first_state_of, self._graph.parameters)
            self._slots = [
                {name: place(parameter, array) for name, array in state.items()}
                for parameter, state in zip(self._graph.parameters, states, strict=True)
            ]
            # A later reader of the optimizer's state may change it, so a read drops these arrays.
            optimizer.hold_on_device(self._copy_slots)
        return self._slots or []

    def replace_stacked(self, state: State) -> None:
        """Keep the arrays of a new state with equal layers stacked."""
        self.replace(State(self._stacks.parts(state.values), self._stacks.slot_parts(state.slots), None))

    def replace(self, state: State) -> None:
        """Keep the arrays of a new state; the host copies them when it reads them."""
        assert self._graph.optimizer is not None
        with exchange, deferred:
            self._graph.optimizer.hold_on_device(self._copy_slots)
            self._values, self._slots, self._slots_ahead = list(state.values), list(state.slots), True
            for position, leaf in enumerate(self._graph.trained):
                storage = stored(leaf)
                if type(storage) is not DeviceStorage:
                    storage.__class__ = DeviceStorage
                before = storage.newer
                if isinstance(before, Newest):
                    before = before.before
                storage.newer = Newest(self, position, before if isinstance(before, FirstValues) else None)
                touch(storage)
                self._versions[leaf] = storage.version

    def forget(self) -> None:
        """Drop the arrays on the devices, so that those on the host count as the newest."""
        with exchange, deferred:
            self._versions.clear()
            self._slots, self._slots_ahead = None, False
            for storage in map(stored, self._graph.trained):
                if isinstance(storage.newer, Newest) and self._is_newest(storage):
                    storage.newer = storage.newer.before
                    touch(storage)

    def _is_newest(self, storage: Storage) -> bool:
        """Return whether the newest array of a trained leaf is here."""
        return isinstance(storage.newer, Newest) and storage.newer.state is self

    def gather(self) -> None:
        """Copy everything to the host of each process, with the parts that other processes hold."""
        for position in range(len(self._values)):
            self.copy_value(position, gathered)
        self._copy_slots(gathered)

    def copy_value(self, position: int, fetch: Callable[[Any, BaseNode], np.ndarray] = on_host) -> None:
        """Copy a trained leaf's array to the host, unless the host or another program has a newer one."""
        with exchange:
            leaf = self._graph.trained[position]
            storage = stored(leaf)
            if self._is_newest(storage):
                array = fetch(unstacked(self._values[position]), leaf)
                with deferred:
                    storage.newer = None
                    target = bound_array(leaf)
                    np.copyto(target, without_padding(array, target.shape))

    def _copy_slots(self, fetch: Callable[[Any, BaseNode], np.ndarray] = on_host) -> None:
        """Copy the optimizer's state to the host, and drop it here, because the host may change it."""
        optimizer, slots = self._graph.optimizer, self._slots
        assert optimizer is not None
        with exchange:
            if self._slots_ahead and slots is not None:
                found = [
                    {name: fetch(unstacked(array), parameter) for name, array in arrays.items()}
                    for parameter, arrays in zip(self._graph.parameters, slots, strict=True)
                ]
                with deferred:
                    self._slots, self._slots_ahead = None, False
                    for parameter, arrays in zip(self._graph.parameters, found, strict=True):
                        targets: Mapping[str, np.ndarray] = optimizer.state_of(parameter)
                        for name, array in arrays.items():
                            np.copyto(targets[name], without_padding(array, targets[name].shape))
            self._slots = None


class StackElement(NamedTuple):
    """One element of a stacked array, sliced when it is read."""

    array: Any
    place: int


def unstacked(value: Any) -> Any:
    """Return the value, sliced if it is an element of a stack."""
    return value.array[value.place] if isinstance(value, StackElement) else value


class Stacks:
    """Which parameters are stacked. `units`: the positions of each array's parameters, just one if not stacked."""

    def __init__(self, count: int, groups: Iterable[Sequence[int]] = ()) -> None:
        stacked = [list(group) for group in groups]
        inside = {position for group in stacked for position in group}
        self.units: list[list[int]] = sorted([*stacked, *([i] for i in range(count) if i not in inside)], key=min)
        self.count = count

    def stack(self, values: Sequence[Any]) -> list[Any]:
        """Return the arrays of units from those of parameters; values after the parameters stay."""
        return [*(_stacked([values[i] for i in unit]) for unit in self.units), *map(unstacked, values[self.count :])]

    def stack_slots(self, slots: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the state arrays of units by name."""
        return [{name: _stacked([slots[i][name] for i in unit]) for name in slots[unit[0]]} for unit in self.units]

    def parts(self, stacked: Sequence[Any]) -> list[Any]:
        """Return the arrays of parameters, as elements of stacks, from the arrays of units; later values stay."""
        values: list[Any] = [None] * self.count
        for unit, array in zip(self.units, stacked, strict=False):
            for index, i in enumerate(unit):
                values[i] = StackElement(array, index) if len(unit) > 1 else array
        return [*values, *stacked[len(self.units) :]]

    def slot_parts(self, stacked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the state arrays of parameters by name, as elements of stacks."""
        slots: list[dict[str, Any]] = [{} for _ in range(self.count)]
        for unit, arrays in zip(self.units, stacked, strict=True):
            for index, i in enumerate(unit):
                slots[i] = {
                    name: StackElement(array, index) if len(unit) > 1 else array for name, array in arrays.items()
                }
        return slots


def _stacked(values: Sequence[Any]) -> Any:
    """Return the values stacked: the stack whose elements they are, or a new one."""
    if len(values) == 1:
        return unstacked(values[0])
    first = values[0]
    if isinstance(first, StackElement) and all(
        isinstance(value, StackElement) and value.array is first.array and value.place == index
        for index, value in enumerate(values)
    ):
        return first.array

    return jnp.stack([unstacked(value) for value in values])


def stacks_of(graph: JaxGraph, plan: Iterable[int | Repeat]) -> Stacks:
    """Return the stacks of parameters: a loop of the plan reads one parameter of a stack in each repetition.

    Parameters of one stack have dense gradients and share an elementwise rule of the optimizer.
    """
    nodes, targets, optimizer = graph.schedule.nodes, graph.targets, graph.optimizer
    positions = {parameter: i for i, parameter in enumerate(graph.parameters)}
    if optimizer is None:
        return Stacks(len(positions))

    def kind(parameter: Parameter) -> object:
        rule = optimizer.rule(parameter)
        dense = parameter in targets.gradients and rule.elementwise
        return (id(rule), id(optimizer.average_rule(parameter))) if dense else None

    groups: list[list[int]] = []
    inside: set[int] = set()
    columns = (column for item in plan if isinstance(item, Repeat) for column in item.varying)
    for column in columns:
        leaves = [nodes[position] for position in column]
        members = {positions[leaf] for leaf in leaves if isinstance(leaf, Parameter) and leaf in positions}
        if len(members) < len(column) or members & inside:
            continue
        kinds = {kind(graph.parameters[i]) for i in members}
        if len(kinds) == 1 and None not in kinds:
            inside |= members
            groups.append([positions[leaf] for leaf in leaves if isinstance(leaf, Parameter)])
    return Stacks(len(positions), groups)

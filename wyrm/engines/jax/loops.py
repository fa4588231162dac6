"""Runs of equal layers as loops of XLA: `lax.scan` over the values that differ from layer to layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.jax.partial_sums import PartialSum, whole
from wyrm.engines.jax.repeats import Carried, Invariant, Local, Operand, Repeat, Varying
from wyrm.errors import RegistrationError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.jax_form import Unjoined
from wyrm.graph.schedule import Schedule
from wyrm.ops.random.philox import WORD
from wyrm.support.imports import jax, jnp, lax

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
        return _Stacked(jnp.stack([_array(self[position]) for position in positions]), 0, 1)

    def stacked(self, positions: Sequence[int]) -> Any:
        """Return the values at these positions as one array."""
        array, first, step = self.stack(positions)
        if step == 1:
            return array[first : first + len(positions)]
        return array[first - len(positions) + 1 : first + 1][::-1]


def _joined(value: Any) -> Any:
    """Return a value that a loop stacks: one that an op left in parts as one array."""
    return value.flat() if isinstance(value, Unjoined) else value


def _array(value: Any) -> Any:
    """Return a value as one array, also a partial sum."""
    return _joined(whole(value))


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
        return [_array(found[i]) for _, i in repeat.carried], [_joined(found[i]) for i in repeat.read]

    traced_once: Any = jax.jit(body)
    first = [_array(values[position]) for position, _ in repeat.carried]
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


__all__ = ["NO_ATTRIBUTES", "Attributes", "Values", "compute_repeat"]

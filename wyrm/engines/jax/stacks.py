"""The parameters of equal layers, each stacked to one array: the code of a training step does not grow with depth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from wyrm.engines.jax.graph import JaxGraph
from wyrm.engines.jax.repeats import Repeat
from wyrm.graph.leaves import Parameter


class StackElement(NamedTuple):
    """One element of a stacked array, sliced when it is read."""

    array: Any
    place: int


def unstacked(value: Any) -> Any:
    """Return an array, or the element that a part stands for."""
    return value.array[value.place] if isinstance(value, StackElement) else value


class Stacks:
    """Which parameters are stacked: `units` has the positions of those of each array, one for an array of its own."""

    def __init__(self, count: int, groups: Iterable[Sequence[int]] = ()) -> None:
        stacked = [list(group) for group in groups]
        inside = {position for group in stacked for position in group}
        self.units = sorted([*stacked, *([i] for i in range(count) if i not in inside)], key=min)
        self.count = count

    def stack(self, values: Sequence[Any]) -> list[Any]:
        """Return the arrays of units from those, or the parts, of parameters; values after the parameters stay."""
        return [*(_stacked([values[i] for i in unit]) for unit in self.units), *map(unstacked, values[self.count :])]

    def stack_slots(self, slots: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the state arrays of units by name."""
        return [{name: _stacked([slots[i][name] for i in unit]) for name in slots[unit[0]]} for unit in self.units]

    def parts(self, stacked: Sequence[Any]) -> list[Any]:
        """Return the arrays or parts of parameters from the arrays of units, and the values after these."""
        values: list[Any] = [None] * self.count
        for unit, array in zip(self.units, stacked, strict=False):
            for index, i in enumerate(unit):
                values[i] = StackElement(array, index) if len(unit) > 1 else array
        return [*values, *stacked[len(self.units) :]]

    def slot_parts(self, stacked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the arrays or parts of the state of parameters by name."""
        slots: list[dict[str, Any]] = [{} for _ in range(self.count)]
        for unit, arrays in zip(self.units, stacked, strict=True):
            for index, i in enumerate(unit):
                slots[i] = {
                    name: StackElement(array, index) if len(unit) > 1 else array for name, array in arrays.items()
                }
        return slots


def _stacked(values: Sequence[Any]) -> Any:
    """Return one array of values: the one that they are all the parts of, if there is one."""
    if len(values) == 1:
        return unstacked(values[0])
    first = values[0]
    if isinstance(first, StackElement) and all(
        isinstance(value, StackElement) and value.array is first.array and value.place == index
        for index, value in enumerate(values)
    ):
        return first.array
    import jax.numpy as jnp

    return jnp.stack([unstacked(value) for value in values])


def stacks_of(graph: JaxGraph, plan: Iterable[int | Repeat]) -> Stacks:
    """Return the stacks of the parameters that the loops of a plan read one of in each repetition.

    Parameters of one stack have dense gradients and one elementwise rule of the optimizer.
    """
    nodes, targets, optimizer = graph.schedule.nodes, graph.targets, graph.optimizer
    positions = {parameter: i for i, parameter in enumerate(graph.parameters)}
    if optimizer is None:
        return Stacks(len(positions))

    def kind(parameter: Parameter) -> object:
        rule = optimizer.rule(parameter)
        dense = parameter in targets.gradients and rule.elementwise
        return (id(rule), optimizer.average_of(parameter)) if dense else None

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

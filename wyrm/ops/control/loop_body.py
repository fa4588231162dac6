"""The graph of one loop step: its description, the layout of residuals, and closure conversion."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

from wyrm.graph.axes import Axis, Dim, Dims, axis_size, resolve_axis
from wyrm.graph.base import BaseNode, label
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.graph.shapes import total_size
from wyrm.graph.source_location import located_at
from wyrm.graph.traversal import topological_order
from wyrm.ops.subgraph import Subgraph, placeholder_like

# The length of an unbounded loop, which stores no residuals.
ENDLESS = 2**62


class Iteration:
    """The body of a loop, the number of its steps, and the roles of its inputs and outputs.

    The inputs of `body` are the carries, a row of each sequence, and the loop invariants. Its outputs are the next
    carries, outputs to stack, outputs to sum, and if the loop `stops`, a mask: whether to continue.
    """

    def __init__(
        self,
        body: LoopBody,
        time: Axis,
        carried: int,
        sequences: int,
        *,
        summed: int = 0,
        reverse: bool = False,
        limited: bool = False,
        stops: bool = False,
        written_as: str = "scan",
    ) -> None:
        self.body = body
        self.time = time
        self.carried = carried
        self.sequences = sequences
        self.summed = summed
        self.reverse = reverse
        self.stops = stops
        # Whether the first parent is the number of steps to run, at most `length`.
        self.limited = limited
        # The function that the user called, for pictures: "scan", "while_loop", "cond", "switch" or "vmap".
        self.written_as = written_as

    def __repr__(self) -> str:
        return f"<{self.count}{' backwards' if self.reverse else ''} of {self.body}>"

    @property
    def length(self) -> int | None:
        """The largest number of steps, None if it comes from data."""
        return axis_size(self.time)

    @property
    def count(self) -> str:
        """The largest number of steps as a text."""
        if not self.keeps:
            return "steps"
        return f"{self.time!r} steps" if self.length is None else f"{self.length:,} steps"

    def length_for(self, sizes: Mapping[type[Dim], int]) -> int:
        """Return the largest number of steps in a run that has bound `sizes`."""
        return resolve_axis(self.time, sizes)

    @property
    def keeps(self) -> bool:
        """Whether the residuals hold the carries before each step, and not only after the last."""
        return self.length is None or self.length < ENDLESS

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The outputs of the body without the mask."""
        return self.body.outputs[: -1 if self.stops else None]

    @cached_property
    def axes(self) -> list[Dims]:
        """The axes of the parts of the residuals: two parts for each carry, then one for each other output.

        The values of a carry before each step and after the last are adjacent, in the order of the time axis.
        """
        parts: list[Dims] = []
        for position, output in enumerate(self.outputs):
            if position < self.carried:
                before: Dims = (self.time if self.keeps else 0, *output.dims)
                parts += [output.dims, before] if self.reverse else [before, output.dims]
            elif position < len(self.outputs) - self.summed:
                parts.append((self.time, *output.dims))
            else:
                parts.append(output.dims)
        return [*parts, ()] if self.stops else parts

    def history_of(self, carry: int) -> int:
        """Return the number of the part with the values of a carry before each step."""
        return 2 * carry + self.reverse

    def last_of(self, carry: int) -> int:
        """Return the number of the part with a carry after the last step."""
        return 2 * carry + 1 - self.reverse

    def place_of(self, part: int) -> PackedPlace:
        """Return the place of the part with this number."""
        return PackedPlace(self.axes[:part])

    def place_after(self, carry: int) -> PackedPlace:
        """Return the place of the values of a carry after each step."""
        place = self.place_of(2 * carry)
        return place if self.reverse else place.after(self.outputs[carry].dims)


class PackedPlace(tuple[Dims, ...]):
    """A place in packed residuals, as the axes of the parts before it."""

    __slots__ = ()

    def is_within(self, other: PackedPlace) -> bool:
        """Return whether this place is not behind another one, whatever sizes the data gives; False if unknown."""
        own, others = self.offset, other.offset
        if isinstance(own, Dim) or isinstance(others, Dim):
            return Counter(self) <= Counter(other)
        return own <= others

    @property
    def offset(self) -> Axis:
        """The number of elements before the place."""
        return total_size(self)

    def after(self, dims: Dims) -> PackedPlace:
        """Return the place behind a part with the axes `dims` that begins here."""
        return PackedPlace((*self, dims))


_NONE: Mapping[Any, Any] = MappingProxyType({})
_numbers = itertools.count(1)


class LoopBody(Subgraph):
    """The graph of a step; texts tell bodies apart by numbers."""

    @cached_property
    def _number_of_body(self) -> int:
        return next(_numbers)

    def __repr__(self) -> str:
        return f"body {self._number_of_body}"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(LoopBody, checked=self.checked), (self.inputs, self.outputs)


def closure_convert(
    outputs: Sequence[BaseNode],
    inputs: Sequence[BaseNode],
    inner: Collection[BaseNode] = (),
    known: Mapping[BaseNode, BaseNode] = _NONE,
    built: Collection[BaseNode] = (),
) -> tuple[list[BaseNode], list[Any], list[Any]]:
    """Return the free nodes of `outputs`, placeholders for them, and `outputs` rebuilt with the placeholders.

    Nodes that depend on no input are free, unless they are in `inner`: they are computed outside, once for all steps.
    Scalar constants are not free. `known` maps nodes to inputs that hold their values and replace them. `built` holds
    nodes that nothing will differentiate with respect to any more, so aliases among them are removed.
    """
    order = topological_order(outputs, known)
    inside = {*inputs, *known, *(node for node in inner if not node.is_leaf)}
    for node in order:
        if not inside.isdisjoint(node.parents):
            inside.add(node)
    replacements: dict[BaseNode, BaseNode] = {node: node for node in inputs} | dict(known)
    outside: list[BaseNode] = []
    removed = {node for node in built if node.same_value}

    def replacement(node: BaseNode) -> BaseNode:
        while node in removed and node not in replacements:
            node = node.parents[0]
        if node not in replacements:
            if isinstance(node, Constant) and not node.dims:
                replacements[node] = node
            else:
                outside.append(node)
                with located_at(node.origin):
                    replacements[node] = placeholder_like(node, node.dims, label(node))
        return replacements[node]

    for node in order:
        if node in inside and node not in replacements and node.same_value:
            replacements[node] = replacement(node.parents[0])
        elif node in inside and node not in replacements:
            parents = tuple(replacement(parent) for parent in node.parents)
            with located_at(node.origin):
                same = all(map(operator.is_, parents, node.parents))
                replacements[node] = node if same else node.rebuild(parents)
    rebuilt = [replacement(output) for output in outputs]
    return outside, [replacements[node] for node in outside], rebuilt

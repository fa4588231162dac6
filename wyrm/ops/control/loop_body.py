"""The graph of one loop step: description, layout of residuals, evaluation by NumPy or JAX, and closure conversion."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from wyrm.graph.axes import Axis, Dim, Dims, axis_size, resolve, resolve_axis
from wyrm.graph.base import BaseNode, label
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.index_operands import check_index_operands
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.op import NUMPY, ArrayNamespace
from wyrm.graph.rows import RowSparse
from wyrm.graph.shapes import total_size
from wyrm.graph.source_location import located_at
from wyrm.graph.storage import bound_array
from wyrm.graph.traversal import topological_order
from wyrm.graph.typing import Array
from wyrm.ops.elementwise.formula import formula_value, numpy_function
from wyrm.ops.indexing.index import Indexable

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


_STANDS_FOR = (
    "an argument of a loop step, a branch or a vmapped function, and has no value outside of it: return results from "
    "the function instead of storing nodes"
)
_NONE: Mapping[Any, Any] = MappingProxyType({})


class Placeholder(Indexable, Input, abstract=True):
    """An input that stands for an argument of each step of a loop."""

    __slots__ = ()
    stands_for = _STANDS_FOR


class WeakPlaceholder(Placeholder, abstract=True):
    """A `Placeholder` of a weak float type; `met` holds the types of the floats that it meets in the step.

    It cannot take their type, so the step is traced again with placeholders that have it.
    """

    __slots__ = ("_met",)
    _met: list[np.dtype]

    def __init__(self, like: BaseNode, dims: Any, name: str) -> None:
        super().__init__(dims=dims, name=name, dtype=like.dtype, finite=False)
        object.__setattr__(self, "dtype", like.dtype)
        object.__setattr__(self, "_met", [])

    @property
    def met(self) -> Sequence[np.dtype]:
        """The types of the floats that the placeholder has met."""
        return tuple(self._met)

    def in_float_type(self, dtype: np.dtype, parents: tuple[BaseNode, ...]) -> BaseNode:
        self._met.append(dtype)
        return Placeholder(dims=self.dims, name=self.name, dtype=dtype, finite=False)


class IndexPlaceholder(IndexInput, abstract=True):
    """A `Placeholder` for integers."""

    __slots__ = ()
    stands_for = _STANDS_FOR


def placeholder_like(node: BaseNode, dims: Any, name: str) -> Any:
    """Return a placeholder with the dtype of a node and the given axes."""
    if node.dtype.kind == "i":
        return IndexPlaceholder(dims=dims, name=name)
    return Placeholder(dims=dims, name=name, dtype=node.dtype, finite=False)


_numbers = itertools.count(1)


class LoopBody:
    """A graph from `inputs`, which are leaves, to `outputs`; it holds no data and compares by identity.

    `checked`: whether all indices are in range whatever the inputs are, because the caller checks them.
    """

    def __init__(self, inputs: Sequence[Any], outputs: Sequence[Any], *, checked: bool = False) -> None:
        self.checked: bool = checked
        self.inputs: tuple[Any, ...] = tuple(inputs)
        self.outputs: tuple[Any, ...] = tuple(outputs)

    @cached_property
    def _number(self) -> int:
        return next(_numbers)

    def __repr__(self) -> str:
        return f"body {self._number}"

    def __reduce__(self) -> tuple[object, ...]:
        return LoopBody, (self.inputs, self.outputs)

    @cached_property
    def _steps(self) -> tuple[list[_Step], list[int]]:
        """The functions that compute the values after those of the inputs, and the places of the outputs among all."""
        steps: list[_Step] = []
        place: dict[BaseNode, int] = {leaf: position for position, leaf in enumerate(self.inputs)}

        def add(nodes: Sequence[BaseNode], checked: bool) -> None:
            for node in nodes:
                if node in place:
                    continue
                if node.same_value:
                    place[node] = place[node.parents[0]]
                    continue
                places = [place[parent] for parent in node.parents]
                composition = node.composition() if node.dims and 0 not in map(axis_size, node.dims) else None
                if composition is not None and all(axis_size(axis) is not None for axis in node.dims):
                    place.update(zip(composition.inputs, places, strict=True))
                    add(composition.order, checked or composition.checked)
                    place[node] = place[composition.outputs[0]]
                    for each in composition.order:  # another node may have the same composition
                        place.pop(each, None)
                else:
                    steps.append(_numpy_step(node, places, checked))
                    place[node] = len(self.inputs) + len(steps) - 1

        add(self.order, self.checked)
        return steps, [place[output] for output in self.outputs]

    @cached_property
    def order(self) -> list[BaseNode]:
        """The nodes in the order of computation."""
        return topological_order(self.outputs)

    def __call__(self, xp: ArrayNamespace, sizes: Mapping[type[Dim], int], *values: Array) -> list[Array]:
        """Return the outputs for the values of the inputs and the sizes of axes, computed with an array namespace."""
        if xp is NUMPY:
            found: list[Any] = [*values]
            steps, places = self._steps
            for step in steps:
                found.append(step(sizes, found))
            return [_dense(found[place]) for place in places]
        computed: dict[BaseNode, Array | RowSparse] = dict(zip(self.inputs, values, strict=True))
        for node in self.order:
            if node not in computed:
                computed[node] = xp.asarray(bound_array(node)) if node.is_leaf else value_of(xp, node, computed, sizes)
        return [_dense(computed[output]) for output in self.outputs]


# Computes a node by NumPy, from the sizes of axes and the values before it.
_Step = Callable[[Mapping[type[Dim], int], Sequence[Any]], Any]


def _numpy_step(node: BaseNode, places: Sequence[int], checked: bool) -> _Step:
    """Return the function that computes a node from the values at `places`, whose indices may be `checked`."""
    if isinstance(node, Constant):
        constant = bound_array(node)
        return lambda sizes, values: constant
    if node.is_leaf:
        return lambda sizes, values: bound_array(node)
    is_open = any(axis_size(axis) is None for each in (node, *node.parents) for axis in each.dims)
    indexed = bool(node.index_operands()) and not checked
    if is_open or indexed or node.takes_rows or any(parent.gives_rows for parent in node.parents):

        def step(sizes: Mapping[type[Dim], int], values: Sequence[Any]) -> Any:
            operands = [values[place] for place in places]
            if not checked:
                check_index_operands(node, operands, sizes)
            return _value(NUMPY, node, operands, sizes, resolve(node.dims, sizes))

        return step
    if node.formula:
        function = numpy_function(node)
        return lambda sizes, values: function([values[place] for place in places])
    evaluate = partial(node.evaluate_for(_NONE), NUMPY, shape=resolve(node.dims, _NONE))
    if len(places) == 1:
        (only,) = places
        return lambda sizes, values: evaluate(values[only])
    return lambda sizes, values: evaluate(*[values[place] for place in places])


def _dense(value: Array | RowSparse) -> Array:
    return value.dense() if isinstance(value, RowSparse) else value


def value_of(
    xp: ArrayNamespace,
    node: BaseNode,
    computed: Mapping[BaseNode, Array | RowSparse],
    sizes: Mapping[type[Dim], int] = _NONE,
) -> Array | RowSparse:
    """Return the value of a node from the `computed` values of its parents; `sizes` holds sizes from the data.

    Raise `IndexOutOfRange` for indices out of range, if `xp` is NumPy.
    """
    operands: list[Any] = [computed[parent] for parent in node.parents]
    if xp is NUMPY:
        check_index_operands(node, operands, sizes)
    return _value(xp, node, operands, sizes, resolve(node.dims, sizes))


def _value(
    xp: ArrayNamespace, node: BaseNode, operands: list[Any], sizes: Mapping[type[Dim], int], shape: tuple[int, ...]
) -> Array | RowSparse:
    if not node.takes_rows:
        operands = [_dense(operand) for operand in operands]
    if node.formula:
        return xp.broadcast_to(formula_value(xp, node, operands), shape)
    value: Array | RowSparse = node.evaluate_for(sizes)(xp, *operands, shape=shape)
    return value


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
                replacements[node] = node if same else type(node).rebuild(parents, node.attribute_values(), node.name)
    rebuilt = [replacement(output) for output in outputs]
    return outside, [replacements[node] for node in outside], rebuilt

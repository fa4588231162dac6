"""A graph from placeholders to outputs as a value of its own: the step of a loop, or the composition of an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from wyrm.graph.axes import Dim, axis_size, open_axes, resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.index_operands import check_index_operands
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.op import NUMPY, ArrayNamespace
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array
from wyrm.graph.traversal import topological_order
from wyrm.graph.typing import Array
from wyrm.ops.elementwise.formula import formula_value, numpy_call, numpy_function
from wyrm.ops.indexing.index import Indexable

_STANDS_FOR = (
    "an argument of a loop step, a branch, a vmapped function or a composed op, and has no value outside of it: return "
    "results from the function instead of storing nodes"
)
_NONE: Mapping[Any, Any] = MappingProxyType({})


class Placeholder(Indexable, Input, abstract=True):
    """An input that stands for an argument of each step of a loop, or for an operand of a composed op."""

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


class Subgraph:
    """A graph from `inputs`, which are leaves, to `outputs`; it holds no data and compares by identity.

    `checked`: whether all indices are in range whatever the inputs are, because the caller checks them.
    """

    def __init__(self, inputs: Sequence[Any], outputs: Sequence[Any], *, checked: bool = False) -> None:
        self.checked: bool = checked
        self.inputs: tuple[Any, ...] = tuple(inputs)
        self.outputs: tuple[Any, ...] = tuple(outputs)

    @cached_property
    def _functions_and_places(self) -> tuple[list[_Step], list[int]]:
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
                composition = node.composition() if _can_be_spliced(node, checked) else None
                if composition is not None:
                    outside = dict(place)
                    place.update(zip(composition.inputs, places, strict=True))
                    add(composition.order, checked or composition.checked)
                    value = place[composition.outputs[0]]
                    place.clear()  # another node may have the same composition, and constants are in both
                    place.update(outside)
                    place[node] = value
                else:
                    steps.append(_numpy_step(node, places, checked))
                    place[node] = len(self.inputs) + len(steps) - 1

        add(self.order, self.checked)
        return steps, [place[output] for output in self.outputs]

    @cached_property
    def checking(self) -> list[BaseNode]:
        """The nodes that check sizes which come from data."""
        return [
            node for node in self.order if type(node).check_sizes is not BaseNode.check_sizes and _has_open_axes(node)
        ]

    @cached_property
    def order(self) -> list[BaseNode]:
        """The nodes in the order of computation."""
        return topological_order(self.outputs)

    def __call__(self, xp: ArrayNamespace, sizes: Mapping[type[Dim], int], *values: Array) -> list[Array]:
        """Return the outputs for the values of the inputs and the sizes of axes, computed with an array namespace."""
        if xp is NUMPY:
            found: list[Any] = [*values]
            steps, places = self._functions_and_places
            for step in steps:
                found.append(step(sizes, found))
            return [_dense(found[place]) for place in places]
        computed: dict[BaseNode, Array | RowSparse] = dict(zip(self.inputs, values, strict=True))
        for node in self.order:
            if node not in computed:
                computed[node] = xp.asarray(bound_array(node)) if node.is_leaf else value_of(xp, node, computed, sizes)
        return [_dense(computed[output]) for output in self.outputs]


def _has_open_axes(node: BaseNode) -> bool:
    """Return whether data decides the size of an axis of a node or of its parents."""
    return next(open_axes(axis for each in (node, *node.parents) for axis in each.dims), None) is not None


def _can_be_spliced(node: BaseNode, checked: bool) -> bool:
    """Return whether the steps of a composed node may stand in its place, with the sizes and indices as they are."""
    known = all(axis_size(axis) not in (None, 0) for axis in node.dims)
    return known and (checked or not node.index_operands()) and not any(parent.gives_rows for parent in node.parents)


# Computes a node by NumPy, from the sizes of axes and the values before it.
_Step = Callable[[Mapping[type[Dim], int], Sequence[Any]], Any]


def _numpy_step(node: BaseNode, places: Sequence[int], checked: bool) -> _Step:
    """Return the function that computes a node from the values at `places`, whose indices may be `checked`."""
    if isinstance(node, Constant):
        constant = bound_array(node)
        return lambda sizes, values: constant
    if node.is_leaf:
        return lambda sizes, values: bound_array(node)
    indexed = bool(node.index_operands()) and not checked
    if _has_open_axes(node) or indexed or node.takes_rows or any(parent.gives_rows for parent in node.parents):

        def step(sizes: Mapping[type[Dim], int], values: Sequence[Any]) -> Any:
            operands = [values[place] for place in places]
            if not checked:
                check_index_operands(node, operands, sizes)
            return _value(NUMPY, node, operands, sizes, resolve(node.dims, sizes))

        return step
    if node.formula:
        single = numpy_call(node.formula)
        if single is not None:
            call, given = single[0], [places[position] for position in single[1]]
            if len(given) == 1:
                (only,) = given
                return lambda sizes, values: call(values[only])
            if len(given) == 2:
                first, second = given
                return lambda sizes, values: call(values[first], values[second])
            return lambda sizes, values: call(*[values[place] for place in given])
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
    """Return the value of a node, of this shape, from those of its parents."""
    if not node.takes_rows:
        operands = [_dense(operand) for operand in operands]
    if node.formula:
        return xp.broadcast_to(formula_value(xp, node, operands), shape)
    value: Array | RowSparse = node.evaluate_for(sizes)(xp, *operands, shape=shape)
    return value

"""The graph of one step of a loop: what it is given, what it makes, and how NumPy or JAX computes it."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from wyrm.node.base import BaseNode, label
from wyrm.node.index_leaves import IndexInput
from wyrm.node.index_operands import check_index_operands
from wyrm.node.leaves import Constant, Input
from wyrm.node.source_location import located_at
from wyrm.node.storage import bound_array
from wyrm.node.traversal import topological_order
from wyrm.ops.formula import FormulaCall, array_function, interpret
from wyrm.ops.index import Indexable
from wyrm.types.dims import Dim, resolve
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.rows import RowSparse
from wyrm.types.typing import Array

_STANDS_FOR = (
    "what a step of a loop, a branch or a row of vmap is given, and has no value outside: return what is needed from "
    "the function, instead of keeping it"
)
_NONE: Mapping[Any, Any] = MappingProxyType({})


class Placeholder(Indexable, Input, abstract=True):
    """An input that stands for what each step of a loop is given."""

    __slots__ = ()
    stands_for = _STANDS_FOR


class IndexPlaceholder(IndexInput, abstract=True):
    """As `Placeholder`, for integers."""

    __slots__ = ()
    stands_for = _STANDS_FOR


def placeholder_like(node: BaseNode, dims: Any, name: str) -> Any:
    """An input for values like those of a node, of these axes."""
    if node.dtype.kind == "i":
        return IndexPlaceholder(dims=dims, name=name)
    return Placeholder(dims=dims, name=name, dtype=node.dtype, finite=False)


_numbers = itertools.count(1)


class LoopBody:
    """A graph from `inputs`, which are leaves, to `outputs`. It holds no data, and is equal to itself alone."""

    def __init__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._number = next(_numbers)

    def __repr__(self) -> str:
        return f"body {self._number}"

    def __reduce__(self) -> tuple[Any, ...]:
        return LoopBody, (self.inputs, self.outputs)

    @cached_property
    def _order(self) -> list[BaseNode]:
        return topological_order(self.outputs)

    def __call__(self, xp: ArrayNamespace, *values: Array) -> list[Array]:
        """The outputs for these inputs, by the functions of an array namespace."""
        found: dict[BaseNode, Array | RowSparse] = dict(zip(self.inputs, values, strict=True))
        for node in self._order:
            if node not in found:
                found[node] = xp.asarray(bound_array(node)) if node.is_leaf else value_of(xp, node, found)
        return [_dense(found[output]) for output in self.outputs]


def _dense(value: Array | RowSparse) -> Array:
    return value.dense() if isinstance(value, RowSparse) else value


def value_of(
    xp: ArrayNamespace,
    node: BaseNode,
    found: Mapping[BaseNode, Array | RowSparse],
    sizes: Mapping[type[Dim], int] = _NONE,
) -> Array | RowSparse:
    """The value of one node by those that were `found` for its parents; `sizes` are of axes that have none.

    Raises `IndexOutOfRange` for integers that NumPy holds and that are out of range of what they choose from.
    """
    operands: list[Any] = [found[parent] for parent in node.parents]
    if not node.takes_rows:
        operands = [_dense(operand) for operand in operands]
    if xp is np:
        check_index_operands(node, operands, sizes)
    shape = resolve(node.dims, sizes)
    if node.formula is not None:
        return _formula_value(xp, node, operands, shape)
    value: Array | RowSparse = node.evaluate(xp, *operands, shape=shape)
    return value


def _formula_value(xp: ArrayNamespace, node: BaseNode, operands: list[Array], shape: tuple[int, ...]) -> Array:
    assert node.formula is not None
    dtype = next((x.dtype for x in operands if x.dtype.kind == "f"), np.dtype(np.float32))

    def constant(value: float) -> Array:
        return xp.asarray(value, dtype=dtype)

    def apply(_: int, call: FormulaCall, arguments: list[Array]) -> Array:
        result: Array = array_function(xp, call.function)(*arguments)
        return result

    value = interpret(node.formula, operands, lambda name: constant(getattr(node, name)), constant, apply)
    return xp.broadcast_to(value, shape)


def closure_convert(
    outputs: Sequence[BaseNode],
    inputs: Sequence[BaseNode],
    inner: Collection[BaseNode] = (),
    known: Mapping[BaseNode, BaseNode] = _NONE,
    built: Collection[BaseNode] = (),
) -> tuple[list[BaseNode], list[Any], list[Any]]:
    """What outputs need besides `inputs`: those nodes, inputs that stand for them, and the outputs made of these.

    Nodes that depend on no input are computed outside, once for all steps, unless they are `inner`; numbers stay. Of
    what is `known` an input has the value, which then takes its place. What was `built` for the outputs alone, no
    derivative is taken by any more, so that other identities among it can go.
    """
    order = topological_order(outputs, known)
    inside = {*inputs, *known, *(node for node in inner if not node.is_leaf)}
    for node in order:
        if not inside.isdisjoint(node.parents):
            inside.add(node)
    standing: dict[BaseNode, BaseNode] = {node: node for node in inputs} | dict(known)
    outside: list[BaseNode] = []
    gone = {node for node in built if node.same_value}

    def stands(node: BaseNode) -> BaseNode:
        while node in gone and node not in standing:
            node = node.parents[0]
        if node not in standing:
            if isinstance(node, Constant) and not node.dims:
                standing[node] = node
            else:
                outside.append(node)
                with located_at(node.origin):
                    standing[node] = placeholder_like(node, node.dims, label(node))
        return standing[node]

    for node in order:
        if node in inside and node not in standing and node.same_value:
            standing[node] = stands(node.parents[0])
        elif node in inside and node not in standing:
            parents = tuple(stands(parent) for parent in node.parents)
            with located_at(node.origin):
                same = all(map(operator.is_, parents, node.parents))
                standing[node] = node if same else type(node).rebuild(parents, node.attribute_values(), node.name)
    made = [stands(output) for output in outputs]
    return outside, [standing[node] for node in outside], made

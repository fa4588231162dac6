"""Joining nodes along an axis, stacking them along a new one, and splitting a node."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Literal, overload

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, Plus, axis_size, normalize_axis, unify
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.index_maps import IndexLiteral, IndexMap
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, Scattered, ScatterTarget
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import Node
from wyrm.graph.typing import S2, Array, AtLeast1D, Bs, FittingShape, M, N, Shaped
from wyrm.ops.batching import spread
from wyrm.ops.elementwise.elementwise import Axes, L, Parents_co, R, S, common_dtype, method, operand
from wyrm.ops.indexing.keys import (
    ALL,
    Range,
)
from wyrm.ops.indexing.slicing import Slice
from wyrm.ops.shaping.jax_form import MovingForm
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import is_integer


class _Joined(Node[Parents_co, Axes], abstract=True):
    """Base class of ops that join operands along `axis`."""

    __slots__ = ("axis",)
    axis: int

    def __init__(self, parts: Sequence[Node], axis: int) -> None:
        self._construct(tuple(parts), axis=axis)

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents)

    def check_rank(self, parent: BaseNode) -> None:
        """Raise `ShapeError` unless a parent has as many axes as the first one."""
        first = self.parents[0]
        if len(parent.dims) != len(first.dims):
            raise ShapeError(f"{label(parent)} has {len(parent.dims)} axes, {label(first)} {len(first.dims)}")

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        return self.rebuild(tuple(spread(operands, mapped)), {"axis": self.axis + 1})

    def part_of(self, gradient: Node, entry: int | Range) -> Slice:
        """Return the part of a gradient at an entry of the key along the axis."""
        return Slice(gradient, (*(ALL,) * self.axis, entry, *(ALL,) * (self.ndim - self.axis - 1)))


class Concatenate(_Joined[Parents_co, Axes]):
    """The operands joined along `axis`."""

    __slots__ = ()
    _own: Concatenate[Any, Axes]

    def shape_rule(self) -> Dims:
        first: Dims = self.parents[0].dims
        axis = normalize_axis(self.axis, len(first))
        object.__setattr__(self, "axis", axis)
        joined: list[Axis] = []
        dims = list(first)
        for parent in self.parents:
            self.check_rank(parent)
            if axis_size(parent.dims[axis]) is None:
                raise ShapeError(f"axis {parent.dims[axis]!r} has no size; only an axis with a size can be joined")
            joined.append(parent.dims[axis])
            dims = [d if i == axis else unify(d, parent.dims[i]) for i, d in enumerate(dims)]
        named = any(isinstance(part, Dim) for part in joined)
        dims[axis] = Plus(joined) if named and len(joined) > 1 else _total(joined)
        return tuple(dims)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.concat(operands, axis=self.axis)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        sizes = [operator.index(parent.dims[self.axis]) for parent in self.parents]
        bounds = np.cumsum([0, *sizes]).tolist()
        return tuple(self.part_of(gradient, (start, stop, None)) for start, stop in itertools.pairwise(bounds))


@LOOPS.register(Concatenate)
class _ConcatenateLoops(Scattered):
    starts_from_zero = False

    def scatter_index(self, node: Concatenate, parent: int, index: IndexMap) -> ScatterTarget:
        axis = node.axis
        before = sum(operator.index(part.dims[axis]) for part in node.parents[:parent])
        return ScatterTarget((*index[:axis], before + index[axis], *index[axis + 1 :]))


def _parts(what: str, given: object) -> list[Node]:
    """Return the parts as nodes; arrays get the dtype of the first node, and one node stands for its rows."""
    if not isinstance(given, Iterable):
        raise DTypeError(f"{what}: takes a list of nodes, not {type(given).__name__}")
    parts = list(given)
    beside = next((part for part in parts if isinstance(part, Node)), None)
    if beside is None:
        integers = next((part for part in parts if isinstance(part, BaseNode)), None)
        if integers is not None:
            raise DTypeError(f"{what}: {describe(integers)} holds integers; convert them with .astype(np.float32)")
        raise ShapeError(f"{what}: takes at least one node")
    return [operand(part, beside) for part in parts]


def _total(axes: Sequence[Axis]) -> Axis:
    return axes[0] if len(axes) == 1 else sum(operator.index(axis) for axis in axes)


Joinable = Node | Array


@overload
def concatenate(nodes: Sequence[Node[Any, FittingShape]], axis: int = 0) -> Concatenate: ...


@overload
def concatenate(
    nodes: Sequence[Node[Any, tuple[Any, *Bs]]], axis: Literal[0] = 0
) -> Concatenate[Any, tuple[Any, *Bs]]: ...


@overload
def concatenate(
    nodes: Sequence[Node[Any, tuple[*Bs, Any]]], axis: Literal[-1]
) -> Concatenate[Any, tuple[*Bs, Any]]: ...


@overload
def concatenate(
    nodes: Sequence[Node[Any, tuple[M, Any, *Bs]]], axis: Literal[1]
) -> Concatenate[Any, tuple[M, Any, *Bs]]: ...


@overload
def concatenate(nodes: Sequence[Joinable], axis: int = 0) -> Concatenate: ...


@explains_keywords
def concatenate(nodes: Sequence[Joinable], axis: int = 0) -> Concatenate:
    """Return the nodes joined along `axis`, as `numpy.concatenate`.

    Raise `ShapeError` unless all other axes are equal.

    >>> wy.concatenate([wy.Constant([1.0]), wy.Constant([2.0, 3.0])]).forward().tolist()
    [1.0, 2.0, 3.0]
    """
    return Concatenate(_parts("concatenate", nodes), axis)


@overload
def concat(
    x: Shaped[L, tuple[*Bs, M]], other: Shaped[Any, FittingShape[tuple[*Bs, M]]]
) -> Concatenate[tuple[L, Any], tuple[*Bs, Any]]: ...


@overload
def concat(x: Shaped[L, AtLeast1D], other: Shaped[R, S]) -> Concatenate[tuple[L, R]]: ...


@overload
def concat(
    x: Shaped[L, tuple[*Bs, M]], other: Shaped[R, tuple[*Bs, N]]
) -> Concatenate[tuple[L, R], tuple[*Bs, Plus[M, N]]]: ...


@method("concat", function=False)
def concat(x: Any, other: Any) -> Concatenate:
    """Return this node joined with another along the last axis, which becomes `Plus[M, N]`.

    Raise `ShapeError` unless all other axes are equal.

    >>> wy.Constant([1.0]).concat(wy.Constant([2.0])).forward().tolist()
    [1.0, 2.0]
    """
    return Concatenate((x, other), -1)


class Stack(_Joined[Parents_co, Axes]):
    """Operands of equal shapes stacked along a new axis."""

    __slots__ = ()
    _own: Stack[Any, Axes]

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        for parent in self.parents[1:]:
            self.check_rank(parent)
            dims = tuple(map(unify, dims, parent.dims))
        axis = normalize_axis(self.axis, len(dims) + 1)
        object.__setattr__(self, "axis", axis)
        return (*dims[:axis], len(self.parents), *dims[axis:])

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.stack(operands, axis=self.axis)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return tuple(self.part_of(gradient, i) for i in range(len(self.parents)))


JAX.register(Concatenate, Stack)(MovingForm)


@LOOPS.register(Stack)
class _StackLoops(Scattered):
    starts_from_zero = False

    def scatter_index(self, node: Stack, parent: int, index: IndexMap) -> ScatterTarget:
        return ScatterTarget((*index[: node.axis], IndexLiteral(parent), *index[node.axis :]))


@overload
def stack(nodes: Sequence[Node[Any, FittingShape]], axis: int = 0) -> Stack: ...


@overload
def stack(nodes: Sequence[Node[Any, tuple[*Bs]]], axis: Literal[0] = 0) -> Stack[Any, tuple[Any, *Bs]]: ...


@overload
def stack(nodes: Sequence[Node[Any, tuple[*Bs]]], axis: Literal[-1]) -> Stack[Any, tuple[*Bs, Any]]: ...


@overload
def stack(nodes: Sequence[Node[Any, tuple[M, *Bs]]], axis: Literal[1]) -> Stack[Any, tuple[M, Any, *Bs]]: ...


@overload
def stack(nodes: Sequence[Node[Any, S2]], axis: int) -> Stack: ...


@explains_keywords
def stack(nodes: Sequence[Joinable], axis: int = 0) -> Stack:
    """Return nodes of equal shapes stacked along a new axis, as `numpy.stack`.

    Raise `ShapeError` if the shapes differ.

    >>> wy.stack([wy.Constant([1.0]), wy.Constant([2.0])]).shape
    (2, 1)
    """
    return Stack(_parts("stack", nodes), axis)


@overload
def split(x: Shaped[L, AtLeast1D], sections: int | Sequence[int], axis: int = 0) -> list[Slice[L]]: ...


@overload
def split(
    x: Shaped[L, tuple[N, *Bs]], sections: int | Sequence[int], axis: Literal[0] = 0
) -> list[Slice[L, tuple[Any, *Bs]]]: ...


@overload
def split(
    x: Shaped[L, tuple[*Bs, N]], sections: int | Sequence[int], axis: Literal[-1]
) -> list[Slice[L, tuple[*Bs, Any]]]: ...


@overload
def split(x: Shaped[L, S], sections: int | Sequence[int], axis: int = 0) -> list[Slice[L]]: ...


@method("split")
@explains_keywords
def split(x: Any, sections: int | Sequence[int], axis: int = 0) -> list[Slice]:
    """Return the parts of `x` along `axis`: `sections` equal parts, or those between the positions `sections`.

    Raise `ShapeError` if the axis does not divide into equal parts.

    >>> [part.shape for part in wy.Constant(np.zeros((2, 6))).split(3, axis=1)]
    [(2, 2), (2, 2), (2, 2)]
    """
    node: Node = x
    axis = normalize_axis(axis, node.ndim)
    size = operator.index(node.dims[axis])
    if is_integer(sections):
        sections = int(sections)
        if sections < 1 or size % sections:
            raise ShapeError(f"split: {describe(node)}: axis {axis} is not divisible into {sections} equal parts")
        cuts = list(range(0, size + 1, size // sections)) if size else [0] * (sections + 1)
    else:
        cuts = [0, *sections, size]
    return [
        Slice(x, (*((ALL,) * axis), (start, stop, None), *((ALL,) * (node.ndim - axis - 1))))
        for start, stop in itertools.pairwise(cuts)
    ]

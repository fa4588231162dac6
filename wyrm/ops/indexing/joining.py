"""Joining nodes along an axis, stacking them along a new one, and splitting a node."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Literal, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, Joined, Plus, Ragged, axis_size, normalize_axis, ragged_axis, unify
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.index_maps import AxisLength, IndexLiteral, IndexMap
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, Scattered, ScatterTarget
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.quotients import Quotient, scaled
from wyrm.graph.typing import S2, Array, AtLeast1D, Bs, FittingShape, M, N, OfShape, Shaped
from wyrm.ops.batching import spread
from wyrm.ops.elementwise.elementwise import Axes, L, Parents_co, R, S, common_dtype, method, operand
from wyrm.ops.indexing.keys import ALL, Range
from wyrm.ops.indexing.made_rows import joined
from wyrm.ops.indexing.slicing import Slice
from wyrm.ops.shaping.shape import MovingForm
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import is_integer

# Two axes of rows of different lengths.
First = TypeVar("First", bound=Ragged)
Second = TypeVar("Second", bound=Ragged)


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
        return self.rebuild(spread(operands, mapped), axis=self.axis + 1)

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
            joined.append(parent.dims[axis])
            dims = [d if i == axis else unify(d, parent.dims[i]) for i, d in enumerate(dims)]
        dims[axis] = _joined_axis(joined)
        return tuple(dims)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.concat(operands, axis=self.axis)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        sizes = [axis_size(parent.dims[self.axis]) for parent in self.parents]
        known = [0 if size is None else size for size in sizes]
        bounds = np.cumsum([0, *known]).tolist()
        if None not in sizes:
            return tuple(self.part_of(gradient, (start, stop, None)) for start, stop in itertools.pairwise(bounds))
        # What stands after the part without a size is counted from the end.
        total, at = bounds[-1], sizes.index(None)
        entries: list[Range] = [(start, stop, None) for start, stop in itertools.pairwise(bounds[: at + 1])]
        entries += [(bounds[at], bounds[at] - total or None, None)]
        entries += [(start - total, stop - total or None, None) for start, stop in itertools.pairwise(bounds[at + 1 :])]
        # From the end, a part without elements would begin at 0, as the whole axis does.
        parts = [(0, 0, None) if size == 0 else entry for size, entry in zip(sizes, entries, strict=True)]
        return tuple(self.part_of(gradient, entry) for entry in parts)


@LOOPS.register(Concatenate)
class _ConcatenateLoops(Scattered):
    starts_from_zero = False

    def scatter_index(self, node: Concatenate, parent: int, index: IndexMap) -> ScatterTarget:
        axis = node.axis
        place = index[axis]
        for part in node.parents[:parent]:
            size = axis_size(part.dims[axis])
            place = AxisLength(part.dims[axis]) + place if size is None else size + place
        return ScatterTarget((*index[:axis], place, *index[axis + 1 :]))


def _joined_nodes(what: str, given: object) -> list[Node]:
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


def _joined_axis(axes: Sequence[Axis]) -> Axis:
    """Return the axis of parts joined along these axes; raise `ShapeError` if two get their sizes from data."""
    axes = [axis for axis in axes if axis_size(axis) != 0] or axes[:1]
    if len(axes) == 1:
        return axes[0]
    unsized = [axis for axis in axes if axis_size(axis) is None]
    if any(isinstance(axis, Ragged) for axis in axes):
        raise ShapeError(
            f"axes {axes[0]!r} and {axes[1]!r}: the entries of rows of different lengths are joined by "
            f"wy.concatenate((x, y), axis=1)"
        )
    if len(unsized) > 1:
        raise ShapeError(
            f"axes {unsized[0]!r} and {unsized[1]!r} get their sizes from the data of each run; only one of the axes "
            f"to join may"
        )
    known = sum(size for axis in axes if (size := axis_size(axis)) is not None)
    named = sum(isinstance(axis, Dim) for axis in axes)
    if unsized and (named == 1 or isinstance(unsized[0], Quotient)):
        return scaled(unsized[0], 1, known)
    return Plus(axes) if named else known


Joinable = Node | Array


@overload
def concatenate(nodes: Sequence[Node[Any, FittingShape]], axis: int = 0) -> Concatenate: ...


@overload
def concatenate(
    nodes: tuple[Node[Any, tuple[M, First, *Bs]], Node[Any, tuple[M, Second, *Bs]]], axis: Literal[1]
) -> Node[Any, tuple[M, Joined[First, Second], *Bs]]: ...


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
def concatenate(
    nodes: tuple[IndexNode[tuple[M, First, *Bs]], IndexNode[tuple[M, Second, *Bs]]], axis: Literal[1]
) -> IndexNode[tuple[M, Joined[First, Second], *Bs]]: ...


@overload
def concatenate(nodes: Sequence[Joinable], axis: int = 0) -> Concatenate: ...


@explains_keywords
def concatenate(nodes: Any, axis: int = 0) -> Any:
    """Return the nodes joined along `axis`, as `numpy.concatenate`.

    One of the axes that are joined may get its size from the data of each run.

    Nodes of floats or of integers of the shapes (rows, entries of each, ...), with axes A and B of different lengths,
    joined along axis 1, have the axis `wy.Joined[A, B]` there: each row has its entries of the first node, then those
    of the second.

    Raise `ShapeError` unless all other axes are equal.

    >>> wy.concatenate([wy.Constant([1.0]), wy.Constant([2.0, 3.0])]).forward().tolist()
    [1.0, 2.0, 3.0]
    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> class Tags(wy.Ragged): ...
    >>> words = wy.IndexInput([[3, 1], [], [2]], dims=(Batch(), Words()))
    >>> tags = wy.IndexInput([[7], [8, 9], []], dims=(Batch(), Tags()))
    >>> wy.concatenate((words, tags), axis=1).forward().tolist()
    [[3, 1, 7], [8, 9], [2]]
    """
    parts = list(nodes) if Ragged.declared and isinstance(nodes, Iterable) else nodes
    if _joins_rows(parts, axis):
        return joined("concatenate", parts, axis)
    return Concatenate(_joined_nodes("concatenate", parts), axis)


def _joins_rows(parts: Any, axis: int) -> bool:
    """Return whether parts are joined along an axis of different lengths that one of them has."""
    if not Ragged.declared or not isinstance(parts, Iterable) or not is_integer(axis):
        return False
    ragged = (part for part in parts if isinstance(part, BaseNode) and ragged_axis(part.dims) is not None)
    return any(axis in (1, 1 - len(part.dims)) for part in ragged)


@overload
def concat(
    x: OfShape[L, tuple[*Bs, M]], other: Shaped[Any, FittingShape[tuple[*Bs, M]]]
) -> Concatenate[tuple[L, Any], tuple[*Bs, Any]]: ...


@overload
def concat(x: Shaped[L, AtLeast1D], other: Shaped[R, S]) -> Concatenate[tuple[L, R]]: ...


@overload
def concat(
    x: OfShape[L, tuple[*Bs, M]], other: Shaped[R, tuple[*Bs, N]]
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
    return Stack(_joined_nodes("stack", nodes), axis)


@overload
def split(x: Shaped[L, AtLeast1D], sections: int | Sequence[int], axis: int = 0) -> list[Slice[L]]: ...


@overload
def split(
    x: OfShape[L, tuple[N, *Bs]], sections: int | Sequence[int], axis: Literal[0] = 0
) -> list[Slice[L, tuple[Any, *Bs]]]: ...


@overload
def split(
    x: OfShape[L, tuple[*Bs, N]], sections: int | Sequence[int], axis: Literal[-1]
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
        cuts = [0, *map(operator.index, sections), size]
    return [
        Slice(x, (*((ALL,) * axis), (start, stop, None), *((ALL,) * (node.ndim - axis - 1))))
        for start, stop in itertools.pairwise(cuts)
    ]

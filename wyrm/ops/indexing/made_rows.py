"""Ops along axes that are made of others: the entries of two axes joined in each row, and pairs of a row's entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims, Joined, Pairs, made_axis, ragged_axis, unify
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.ops.elementwise.elementwise import Axes, common_dtype
from wyrm.ops.shaping.shape import BroadcastTo


class _OfEntries(Node[Any, Axes], abstract=True):
    """An op whose elements are those of its operand, or sums of them."""

    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents)


# --- two axes joined --------------------------------------------------------------------------------------------------


def _joined_dims(x: Dims, y: Dims) -> Dims:
    """Return the axes of the entries of two arrays, one after the other in each row."""
    first, second = ragged_axis(x), ragged_axis(y)
    assert first is not None and second is not None
    rest = tuple(map(unify, x[2:], y[2:]))
    return (unify(x[0], y[0]), made_axis(Joined, first, second), *rest)


class JoinedEntries(_OfEntries[Axes], abstract=True):
    """The entries of each row of the first operand, and behind them those of the same row of the second."""

    __slots__ = ()

    def __init__(self, x: Node, y: Node) -> None:
        self._construct((x, y))

    def shape_rule(self) -> Dims:
        x, y = self.parents
        return _joined_dims(x.dims, y.dims)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, y = self.parents
        return JoinedPart(gradient, 0, x.dims, y.dims), JoinedPart(gradient, 1, y.dims, x.dims)


class IndexJoinedEntries(IndexNode[Axes], abstract=True):
    """The same as `JoinedEntries` for integers."""

    __slots__ = ()

    def __init__(self, x: IndexNode, y: IndexNode) -> None:
        self._construct((x, y))

    def shape_rule(self) -> Dims:
        x, y = self.parents
        return _joined_dims(x.dims, y.dims)


class JoinedPart(_OfEntries[Axes], abstract=True):
    """The entries of one of two arrays that were joined, those of the first or the second `part`, with the axes `to`.

    `other` are the axes of the other one.
    """

    __slots__ = ("other", "part", "to")
    part: int
    to: Dims
    other: Dims

    def __init__(self, x: Node, part: int, to: Dims, other: Dims) -> None:
        self._construct((x,), part=part, to=to, other=other)

    def shape_rule(self) -> Dims:
        return self.to

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        zeros = BroadcastTo(as_constant(0.0, gradient.dtype), self.other)
        return (JoinedEntries(zeros, gradient) if self.part else JoinedEntries(gradient, zeros),)


def joined(what: str, arrays: Sequence[Any], axis: int) -> Any:
    """Return arrays of floats or of integers, joined along their ragged axis.

    Raise `ShapeError` for one that has none, or has other rows or other axes, and `DTypeError` for floats among
    integers.
    """
    for each in arrays:
        if not isinstance(each, BaseNode) or ragged_axis(each.dims) is None:
            given = describe(each) if isinstance(each, BaseNode) else f"an array of {type(each).__name__}"
            raise ShapeError(
                f"{what} along axis {axis}, where rows have different lengths, takes nodes that all have such an axis, "
                f"not {given}: a value of each row becomes an entry with an input of lengths 1 along an axis wy.Ragged"
            )
        if isinstance(each, IndexNode) != isinstance(arrays[0], IndexNode):
            raise DTypeError(
                f"{what}: {describe(arrays[0])} and {describe(each)} hold numbers of two kinds; convert the integers "
                f"with .astype(np.float32)"
            )
    found, *others = arrays
    for each in others:
        _check_joined(what, found, each)
        found = IndexJoinedEntries(found, each) if isinstance(found, IndexNode) else JoinedEntries(found, each)
    return found


def _check_joined(what: str, x: BaseNode, y: BaseNode) -> None:
    if len(x.dims) != len(y.dims):
        raise ShapeError(f"{what}: {label(x)} has {len(x.dims)} axes, {label(y)} {len(y.dims)}")
    for a, b in zip((*x.dims[:1], *x.dims[2:]), (*y.dims[:1], *y.dims[2:]), strict=True):
        try:
            unify(a, b)
        except ShapeError as error:
            raise ShapeError(
                f"{what} of {describe(x)} and {describe(y)}: {error}; only the axes of different lengths may differ"
            ) from None


# --- pairs of a row's entries -----------------------------------------------------------------------------------------


def _paired_dims(x: Dims) -> Dims:
    axis = ragged_axis(x)
    assert axis is not None
    return (x[0], made_axis(Pairs, axis), *x[2:])


class PairEntries(_OfEntries[Axes], abstract=True):
    """The first or the second entry, `part` 0 or 1, of each unordered pair of entries of a row."""

    __slots__ = ("part",)
    part: int

    def __init__(self, x: Node, part: int) -> None:
        self._construct((x,), part=part)

    def shape_rule(self) -> Dims:
        return _paired_dims(self.parents[0].dims)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (PairTotals(gradient, self.part, self.parents[0].dims),)


class IndexPairEntries(IndexNode[Axes], abstract=True):
    """The same as `PairEntries` for integers."""

    __slots__ = ("part",)
    part: int

    def __init__(self, x: IndexNode, part: int) -> None:
        self._construct((x,), part=part)

    def shape_rule(self) -> Dims:
        return _paired_dims(self.parents[0].dims)


class PairTotals(_OfEntries[Axes], abstract=True):
    """The sum over the pairs in which each entry is the first or the second, with the axes `to` of the entries."""

    __slots__ = ("part", "to")
    part: int
    to: Dims

    def __init__(self, x: Node, part: int, to: Dims) -> None:
        self._construct((x,), part=part, to=to)

    def shape_rule(self) -> Dims:
        return self.to

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (PairEntries(gradient, self.part),)


def pairs(x: Any) -> tuple[Any, Any]:
    """Return the two entries of each unordered pair of a row's entries, of a node of floats or of integers."""
    op: Any = IndexPairEntries if isinstance(x, IndexNode) else PairEntries
    return op(x, 0), op(x, 1)

"""Sorting, and searching in sorted values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, normalize_axis, unify
from wyrm.graph.base import format_dims
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, AtLeast1D, FloatArray, IntegerArray, Shaped
from wyrm.ops.batching import spread
from wyrm.ops.elementwise.elementwise import Axes, L, S, common_dtype, method
from wyrm.ops.indexing.taking import IndexTakeAlongAxis, TakeAlongAxis
from wyrm.ops.kernels.native import scratch
from wyrm.ops.reducing.base import PositionsAlongAxis, SortedReach, split_at
from wyrm.reach.rules import REACH, Reach
from wyrm.reach.ways import Way, ways_by
from wyrm.support.imports import jax
from wyrm.support.options import choice


class ArgSort(PositionsAlongAxis[Axes]):
    """The indices that sort the operand along `axis`: equal elements keep their order, and NaN comes last.

    With `parts`, an integer for each position along the axis that does not decrease, the elements of each part, those
    with the same integer, are sorted among themselves.
    """

    __slots__ = ()
    method = "argsort"

    def __init__(self, x: Node | IndexNode, axis: int, parts: IndexNode | None = None) -> None:
        self._construct((x,) if parts is None else (x, parts), axis=axis)

    def shape_rule(self) -> Dims:
        x, *parts = self.parents
        object.__setattr__(self, "axis", normalize_axis(self.axis, len(x.dims)))
        for each in parts:
            if len(each.dims) != 1:
                raise ShapeError(
                    f"parts have one axis, that along which elements are sorted, not {format_dims(each.dims)}"
                )
            unify(x.dims[self.axis], each.dims[0])
        dims: Dims = x.dims
        return dims

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        return ArgSort(operands[0], self.axis + 1, *operands[1:]) if mapped[0] and not any(mapped[1:]) else None

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> IntegerArray:
        x, *parts = operands
        order = xp.argsort(x, axis=self.axis, stable=True)
        for each in parts:
            order = xp.take_along_axis(order, xp.argsort(each[order], axis=self.axis, stable=True), axis=self.axis)
        return order


REACH.register(ArgSort)(SortedReach())


# Runs of this length are sorted by insertion before they are merged.
_RUN = 8


def sort_run(values: FloatArray, order: IntegerArray, start: int, stop: int) -> None:
    """Sort the values from `start` to `stop` by insertion, and their indices with them."""
    for j in range(start + 1, stop):
        value, index, place = values[j], order[j], j
        while place > start and values[place - 1] > value:
            values[place], order[place] = values[place - 1], order[place - 1]
            place -= 1
        values[place], order[place] = value, index


@LOOPS.register(ArgSort)
class _ArgSortLoops(ByKernel):
    @staticmethod
    def kernel(
        x: FloatArray, parts: IntegerArray, out: IntegerArray, values: FloatArray, order: IntegerArray, divided: bool
    ) -> None:
        """Sort each part by merging runs; the halves of `values` and `order` hold it before and after each pass."""
        size = x.shape[1]
        for i in range(x.shape[0]):
            first = 0
            while first < size:
                last = first + 1 if divided else size
                while last < size and parts[last] == parts[first]:
                    last += 1
                for k in range(x.shape[2]):
                    count = 0
                    for j in range(first, last):
                        if x[i, j, k] == x[i, j, k]:
                            values[count] = x[i, j, k]
                            order[count] = j
                            count += 1
                    place = first + count
                    for j in range(first, last):
                        if x[i, j, k] != x[i, j, k]:  # NaN comes last
                            out[i, place, k] = j
                            place += 1
                    for start in range(0, count, _RUN):
                        sort_run(values, order, start, min(start + _RUN, count))
                    source, width = 0, _RUN
                    while width < count:
                        target = size - source
                        for start in range(0, count, 2 * width):
                            left, right = source + start, source + min(start + width, count)
                            middle, end = right, source + min(start + 2 * width, count)
                            place = target + start
                            while left < middle and right < end:
                                from_left = 1 if values[left] <= values[right] else 0
                                chosen = left if from_left == 1 else right
                                values[place] = values[chosen]
                                order[place] = order[chosen]
                                left += from_left
                                right += 1 - from_left
                                place += 1
                            while left < middle:
                                values[place] = values[left]
                                order[place] = order[left]
                                left += 1
                                place += 1
                            while right < end:
                                values[place] = values[right]
                                order[place] = order[right]
                                right += 1
                                place += 1
                        source, width = target, 2 * width
                    for j in range(count):
                        out[i, first + j, k] = order[source + j]
                first = last

    def kernel_arguments(self, node: ArgSort, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        x, *parts = operands
        size = out.shape[node.axis]
        values, order = scratch(2 * size, x.dtype), scratch(2 * size, np.int64)
        by_axes, made = split_at(node.axis, x, out)
        # Without parts the kernel reads none.
        return by_axes, parts[0] if parts else scratch(1, np.int64), made, values, order, bool(parts)


def _last_axis(x: Any, axis: int | None) -> tuple[Any, int]:
    """Return the operand and the axis to sort along; None sorts all elements in row-major order."""
    return (x.ravel(), 0) if axis is None else (x, axis)


@overload
def argsort(x: Shaped[L, AtLeast1D], axis: int | None = -1) -> ArgSort: ...
@overload
def argsort(x: Shaped[L, S], axis: int = -1) -> ArgSort[S]: ...
@overload
def argsort(x: Shaped[L, S], axis: None) -> ArgSort[tuple[Any]]: ...
@method("argsort", integers=ArgSort)
def argsort(x: Any, axis: int | None = -1) -> ArgSort:
    """Return the indices that sort `x` along `axis`, or all elements in row-major order if it is None.

    Equal elements keep their order, and NaN comes last. Raise `ShapeError` for an axis that `x` lacks.

    >>> wy.Constant([3.0, 1.0, 2.0]).argsort().forward().tolist()
    [1, 2, 0]
    """
    return ArgSort(*_last_axis(x, axis))


@overload
def sort(x: Shaped[L, AtLeast1D], axis: int | None = -1) -> TakeAlongAxis[L, IndexNode]: ...
@overload
def sort(x: Shaped[L, S], axis: int = -1) -> TakeAlongAxis[L, IndexNode, S]: ...
@overload
def sort(x: Shaped[L, S], axis: None) -> TakeAlongAxis[Any, IndexNode, tuple[Any]]: ...
@method("sort", integers=IndexTakeAlongAxis)
def sort(x: Any, axis: int | None = -1) -> Any:
    """Return `x` sorted along `axis`, or all elements in row-major order if it is None. NaN comes last.

    The gradient of each element goes to the element that it came from; of equal ones, the first comes first. Raise
    `ShapeError` for an axis that `x` lacks.

    >>> wy.Constant([3.0, 1.0, 2.0]).sort().forward().tolist()
    [1.0, 2.0, 3.0]
    """
    x, axis = _last_axis(x, axis)
    return (IndexTakeAlongAxis if isinstance(x, IndexNode) else TakeAlongAxis)(x, ArgSort(x, axis), axis)


class SearchSorted(IndexNode[Axes]):
    """For each element of the second operand, where it belongs in the sorted first one, as `numpy.searchsorted`.

    The first `batch` axes of both are rows, each with its own sorted values.
    """

    __slots__ = ("batch", "side")
    side: Literal["left", "right"]
    batch: int

    def __init__(self, a: Node, v: Node, side: Literal["left", "right"] = "left", batch: int = 0) -> None:
        self._construct((a, v), side=side, batch=batch)

    @property
    def within(self) -> Axis | None:
        """An axis that the values index: they are at most the number of sorted values."""
        size = axis_size(self.parents[0].dims[-1])
        return None if size is None else size + 1

    def dtype_rule(self) -> np.dtype:
        common_dtype(self.parents)
        return super().dtype_rule()

    def shape_rule(self) -> Dims:
        a, v = self.parents
        choice("side", self.side, ("left", "right"), ShapeError)
        if len(a.dims) != self.batch + 1:
            raise ShapeError(f"the sorted values must have one axis, not {format_dims(a.dims)}")
        rows = tuple(map(unify, a.dims[: self.batch], v.dims[: self.batch]))
        return rows + tuple(v.dims[self.batch :])

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> IndexNode | None:
        a, v = operands if mapped == [False, True] and not self.batch else spread(operands, mapped)
        return SearchSorted(a, v, self.side, self.batch + 1 if mapped[0] or self.batch else 0)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Any:
        count = math.prod(shape[: self.batch])
        a, v = (operand.reshape(count, *operand.shape[self.batch :]) for operand in operands)
        rows = [xp.searchsorted(a[i], v[i], side=self.side) for i in range(count)]
        return xp.stack(rows).reshape(shape) if rows else xp.zeros(shape, np.int64)


@REACH.register(SearchSorted)
class _SearchSortedReach(Reach):
    """A place depends on its own value and on all sorted ones of its row."""

    def ways(self, node: SearchSorted) -> list[Way]:
        rows = [*range(node.batch), *[None] * (node.parents[0].ndim - node.batch)]
        return ways_by(node, [(0, rows), (1, range(node.ndim))])


@JAX.register(SearchSorted)
class _SearchSortedForm(JaxForm):
    """One search for each row, mapped over the rows."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        def search(a: Any, v: Any) -> Any:
            return jax.numpy.searchsorted(a, v, side=node.side)

        for _ in range(node.batch):
            search = jax.vmap(search)
        return lowering.xp.astype(search(*operands), node.dtype)


@LOOPS.register(SearchSorted)
class _SearchSortedLoops(ByKernel):
    @staticmethod
    def kernel(a: FloatArray, v: FloatArray, out: IntegerArray, after_equal: bool) -> None:
        """Search by bisection; NaN is larger than any number."""
        for row in range(v.shape[0]):
            for i in range(v.shape[1]):
                value, low, high = v[row, i], 0, a.shape[1]
                while low < high:
                    middle = (low + high) // 2
                    element = a[row, middle]
                    if after_equal:
                        is_before = element <= value or value != value
                    else:
                        is_before = element < value or (value != value and element == element)
                    if is_before:
                        low = middle + 1
                    else:
                        high = middle
                out[row, i] = low

    def kernel_arguments(self, node: SearchSorted, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        rows = math.prod(out.shape[: node.batch])
        a, v, out = (x.reshape(rows, math.prod(x.shape[node.batch :])) for x in (*operands, out))
        return a, v, out, node.side == "right"

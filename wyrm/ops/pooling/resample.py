"""Weighted sums of neighbouring elements along one axis: average pooling and upsampling, an axis at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import explain, format_dims, label
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, BoolArray, FloatArray, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes, unmasked_dtype
from wyrm.ops.kernels.sums import add_scaled
from wyrm.ops.shaping.shape import taken
from wyrm.reach.rules import KEPT, REACH, Windowed

# For each output the place of its first tap, and the weights of neighbouring taps.
Taps = tuple[tuple[int, tuple[float, ...]], ...]


class Weighting:
    """Base class of what decides the taps of `Resample`; a frozen dataclass, so that equal ones are equal."""

    def taps(self, old: int, new: int) -> Taps:
        """Return the taps of `new` outputs along an axis of `old` elements."""
        raise NotImplementedError

    def misfit(self, axis: Axis, old: int, new: int) -> str:
        """Return the reason why an axis that has `old` elements has no such outputs; empty if it has."""
        return "" if min(old, new) > 0 else f"{axis!r} of size {old} cannot be resampled to {new} elements"


# The number of taps of each output, and the places and weights of taps, of the axes (taps, outputs).
Tables = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
# The most taps that are added one by one: a program for JAX names each.
_FEW_TAPS = 8


def resample_kernel(
    x: FloatArray, out: FloatArray, counts: IntegerArray, places: IntegerArray, weights: FloatArray
) -> None:
    """Fill `out`, (outer, outputs, inner), from `x`, (outer, elements, inner).

    The tables have the axes (taps, outputs): output i has `counts[i]` taps, with the weights `weights[:, i]` at the
    elements `places[:, i]`.
    """
    for n in range(out.shape[0]):
        if out.shape[2] == 1:
            sum_elements(x[n, :, 0], counts, places, weights, out[n, :, 0])
        else:
            for i in range(out.shape[1]):
                row = out[n, i]
                for j in range(row.size):
                    row[j] = 0
                for k in range(counts[i]):
                    add_scaled(x[n, places[k, i]], weights[k, i], row)


def sum_elements(
    x: FloatArray, counts: IntegerArray, places: IntegerArray, weights: FloatArray, out: FloatArray
) -> None:
    """`out[i] = sum_k weights[k, i] * x[places[k, i]]`."""
    for i in range(out.size):
        out[i] = 0
    for k in range(places.shape[0]):
        for i in range(out.size):
            out[i] += weights[k, i] * x[places[k, i]] if k < counts[i] else 0


class Resample(Node[tuple[Node], Axes]):
    """Weighted sums of neighbouring elements along an axis: `sum_k taps[i].weights[k] * x[taps[i].first + k]`.

    The result has the axis `to` in place of the axis, and `by` gives the taps for the sizes of both. The op is linear,
    and its gradient is the same op with the taps transposed, `back`.

    Raise `ShapeError` for an axis that `x` does not have and for sizes that do not fit, `DTypeError` for masks.

    >>> from wyrm.ops.pooling.windows import Even, Means
    >>> x = wy.Constant([1.0, 3.0, 2.0, 0.0])
    >>> wy.ops.pooling.resample.Resample(x, axis=0, by=Means(Even(2)), to=2).forward().tolist()
    [2.0, 1.0]
    """

    __slots__ = ("axis", "back", "by", "to")
    written = "pooling"
    axis: int
    by: Weighting
    to: Axis
    back: bool

    def __init__(self, x: Node, *, axis: int, by: Weighting, to: Axis, back: bool = False) -> None:
        self._construct((x,), axis=axis, by=by, to=to, back=back)

    def dtype_rule(self) -> np.dtype:
        return unmasked_dtype(self.parents)

    def shape_rule(self) -> Dims:
        (x,) = self.parents
        if not 0 <= self.axis < len(x.dims):
            raise ShapeError(f"axis {self.axis} is out of range for the axes {format_dims(x.dims)} of {label(x)}")
        sizes = axis_size(x.dims[self.axis]), axis_size(self.to)
        if sizes[0] is not None and sizes[1] is not None:
            self._check_size(sizes[0], sizes[1])
        return (*x.dims[: self.axis], self.to, *x.dims[self.axis + 1 :])

    def _check_size(self, size: int, to: int) -> None:
        """Raise `ShapeError` unless the axis and that of the result may have these sizes."""
        axes = self.parents[0].dims[self.axis], self.to
        axis, old, new = (axes[1], to, size) if self.back else (axes[0], size, to)
        reason = self.by.misfit(axis, old, new)
        if not reason and len(taps := _checked_taps(self.by, old, new)) != new:
            reason = f"there are {len(taps)} outputs along an axis of {old} elements, not {new}"
        if reason:
            raise ShapeError(reason)

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        try:
            self._check_size(shapes[0][self.axis], shape[self.axis])
        except ShapeError as error:
            raise ShapeError(explain(self, f"{error} in this run")) from None

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        (x,) = operands
        axis = self.axis
        counts, places, weights = self.tables(x.shape, shape)
        present = np.arange(len(places))[:, None] < counts
        column = (*places.shape, *[1] * (x.ndim - axis - 1))
        factors, present = weights.astype(x.dtype).reshape(column), present.reshape(column)

        def weighted(elements: FloatArray, factor: FloatArray, counts: BoolArray) -> FloatArray:
            products = elements * factor
            return products if counts.all() else xp.where(counts, products, np.zeros((), x.dtype))

        if len(places) > _FEW_TAPS:
            wide = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
            return xp.sum(weighted(taken(xp, x, places.ravel(), axis).reshape(wide), factors, present), axis=axis)
        total = xp.zeros(shape, x.dtype)
        for k in range(len(places)):
            total = total + weighted(taken(xp, x, places[k], axis), factors[k], present[k])
        return total

    def tables(self, of: Sequence[int], shape: Sequence[int]) -> Tables:
        """Return the tables of the taps from an operand of the shape `of` to a result of this shape."""
        return _tables(self.by, of[self.axis], shape[self.axis], self.back)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        return Resample(operands[0], axis=self.axis + 1, by=self.by, to=self.to, back=self.back)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        axis: Axis = self.parents[0].dims[self.axis]
        return (Resample(gradient, axis=self.axis, by=self.by, to=axis, back=not self.back),)


@REACH.register(Resample)
class _ResampleReach(Windowed):
    """All elements along one axis reach each other."""

    def windows(self, node: Resample) -> Sequence[Any]:
        return [None if k == node.axis else KEPT for k in range(node.ndim)]


@LOOPS.register(Resample)
class _ResampleLoops(ByKernel):
    kernel = staticmethod(resample_kernel)

    def kernel_arguments(self, node: Resample, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        x, axis = operands[0], node.axis
        counts, places, weights = node.tables(x.shape, out.shape)
        outer, inner = math.prod(out.shape[:axis]), math.prod(out.shape[axis + 1 :])
        return (
            x.reshape(outer, x.shape[axis], inner), out.reshape(outer, out.shape[axis], inner), counts, places,
            weights.astype(node.dtype),
        )  # fmt: skip


@lru_cache(maxsize=256)
def _checked_taps(by: Weighting, old: int, new: int) -> Taps:
    """Return the taps; raise `ShapeError` if they reach outside of the axis."""
    taps = by.taps(old, new)
    if any(first < 0 or first + len(weights) > old for first, weights in taps):
        raise ShapeError(f"the taps reach outside of an axis of {old} elements")
    return taps


@lru_cache(maxsize=256)
def _tables(by: Weighting, size: int, to: int, back: bool) -> Tables:
    """Return the tables of the taps from an axis of one size to another; `back` are those of the transposed sums."""
    taps = _transposed(_checked_taps(by, to, size), to) if back else _checked_taps(by, size, to)
    most = max((len(weights) for _, weights in taps), default=0)
    counts = np.array([len(weights) for _, weights in taps], np.int64)
    places, table = np.zeros((most, len(taps)), np.int64), np.zeros((most, len(taps)))
    for i, (first, weights) in enumerate(taps):
        for k, weight in enumerate(weights):
            places[k, i], table[k, i] = first + k, weight
    return counts, places, table


def _transposed(taps: Taps, size: int) -> Taps:
    """Return the taps of the transposed sums, from the outputs back to an axis of this size."""
    found: list[dict[int, float]] = [{} for _ in range(size)]
    for i, (first, weights) in enumerate(taps):
        for place, weight in enumerate(weights, first):
            found[place][i] = found[place].get(i, 0.0) + weight
    result = []
    for each in found:
        low, high = min(each, default=0), max(each, default=-1)
        result.append((low, tuple(each.get(i, 0.0) for i in range(low, high + 1))))
    return tuple(result)


__all__ = ["Resample", "Taps", "Weighting"]

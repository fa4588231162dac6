"""Weighted sums of neighbouring elements along one axis: average pooling and upsampling, an axis at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import format_dims, label
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes, common_dtype
from wyrm.ops.kernels.sums import add_scaled
from wyrm.ops.shaping.jax_form import taken

# For each output the place of its first tap, and the weights of neighbouring taps.
Taps = tuple[tuple[int, tuple[float, ...]], ...]

# The most taps that JAX adds one by one.
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

    The result has the axis `to` in place of the axis. The op is linear, and its gradient is the same op with the taps
    transposed.

    Raise `ShapeError` for an axis without a size and for taps outside of it, `DTypeError` for masks.

    >>> halves = ((0, (0.5, 0.5)), (2, (0.5, 0.5)))
    >>> x = wy.Constant([1.0, 3.0, 2.0, 0.0])
    >>> wy.ops.pooling.resample.Resample(x, axis=0, taps=halves, to=2).forward().tolist()
    [2.0, 1.0]
    """

    __slots__ = ("axis", "taps", "to")
    axis: int
    taps: Taps
    to: Axis

    def __init__(self, x: Node, *, axis: int, taps: Taps, to: Axis) -> None:
        self._construct((x,), axis=axis, taps=taps, to=to)

    def dtype_rule(self) -> np.dtype:
        (x,) = self.parents
        if x.dtype.kind == "b":
            raise DTypeError(f"{label(x)} is a mask; convert it with .astype(np.float32)")
        return common_dtype(self.parents)

    def shape_rule(self) -> Dims:
        (x,) = self.parents
        if not 0 <= self.axis < len(x.dims):
            raise ShapeError(f"axis {self.axis} is out of range for the axes {format_dims(x.dims)} of {label(x)}")
        size = axis_size(x.dims[self.axis])
        if size is None or axis_size(self.to) != len(self.taps):
            raise ShapeError(
                f"axis {self.axis} of {label(x)}, {x.dims[self.axis]!r}, and the axis of the result, {self.to!r}, need "
                f"sizes; the second is that of the {len(self.taps)} outputs"
            )
        if any(first < 0 or first + len(weights) > size for first, weights in self.taps):
            raise ShapeError(f"the taps reach outside of axis {self.axis} of {label(x)}, {x.dims[self.axis]!r}")
        return (*x.dims[: self.axis], self.to, *x.dims[self.axis + 1 :])

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        (x,) = operands
        counts, places, weights = _tables(self.taps)
        column = (-1, *[1] * (len(shape) - self.axis - 1))
        total = xp.zeros(shape, dtype=self.dtype)
        for k in range(len(places)):
            at: Any = xp.asarray(places[k])
            part = xp.take(x, at, axis=self.axis)
            weight = xp.asarray(weights[k].astype(self.dtype).reshape(column))
            total = total + xp.where(xp.asarray((k < counts).reshape(column)), part * weight, self.dtype.type(0))
        return total

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if rows[0] == 0 and self.axis > 0 else None

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        return Resample(operands[0], axis=self.axis + 1, taps=self.taps, to=self.to)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        axis: Any = self.parents[0].dims[self.axis]
        return (Resample(gradient, axis=self.axis, taps=transposed(self.taps, int(axis)), to=axis),)


@LOOPS.register(Resample)
class _ResampleLoops(ByKernel):
    kernel = staticmethod(resample_kernel)

    def kernel_arguments(self, node: Resample, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        counts, places, weights = _tables(node.taps)
        x, outer = operands[0], math.prod(out.shape[: node.axis])
        inner = math.prod(out.shape[node.axis + 1 :])
        return (
            x.reshape(outer, x.shape[node.axis], inner), out.reshape(outer, len(node.taps), inner), counts, places,
            weights.astype(node.dtype),
        )  # fmt: skip


@lru_cache(maxsize=256)
def _tables(taps: Taps) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the number of taps of each output, and the places and weights of taps, of the axes (taps, outputs)."""
    most = max((len(weights) for _, weights in taps), default=0)
    counts = np.array([len(weights) for _, weights in taps], np.int64)
    places, table = np.zeros((most, len(taps)), np.int64), np.zeros((most, len(taps)))
    for i, (first, weights) in enumerate(taps):
        for k, weight in enumerate(weights):
            places[k, i], table[k, i] = first + k, weight
    return counts, places, table


@lru_cache(maxsize=256)
def transposed(taps: Taps, size: int) -> Taps:
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


@JAX.register(Resample)
class _ResampleForm(JaxForm):
    """A sum over the taps, one by one where they are few, else a reduction of all."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        (x,), axis = operands, node.axis
        counts, places, weights = _tables(node.taps)
        present = np.arange(len(places))[:, None] < counts
        column = (*places.shape, *[1] * (x.ndim - axis - 1))
        factors, present = weights.astype(x.dtype).reshape(column), present.reshape(column)

        def weighted(elements: Any, factor: Any, counts: Any) -> Any:
            products = elements * factor
            return products if counts.all() else jnp.where(counts, products, np.zeros((), x.dtype))

        if len(places) > _FEW_TAPS:
            wide = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
            return weighted(taken(x, places.ravel(), axis).reshape(wide), factors, present).sum(axis=axis)
        total = jnp.zeros(shape, x.dtype)
        for k in range(len(places)):
            total = total + weighted(taken(x, places[k], axis), factors[k], present[k])
        return total


__all__ = ["Resample", "Taps", "transposed"]

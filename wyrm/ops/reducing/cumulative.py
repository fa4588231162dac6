"""Cumulative sums and products, and the linear recurrence that is their gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from wyrm.graph.axes import Axis, axis_size
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, AtLeast1D, FloatArray, Shaped
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, L, S, method
from wyrm.ops.kernels.loops_jax import over_time
from wyrm.ops.reducing.base import AlongAxis, OneAxis, split_at
from wyrm.reach.rules import REACH, Along
from wyrm.support.imports import jnp, lax

# The least and the greatest value of integers.
Interval = tuple[int, int]
# The number of elements along an axis whose size comes from data, at most.
_MOST = 2**31


def bounds_of_sums(values: Interval, axis: Axis) -> Interval:
    """Return the least and the greatest sum of some of the values along an axis."""
    size = axis_size(axis)
    count = _MOST if size is None else size
    return min(0, values[0] * count), max(0, values[1] * count)


class _Cumulative(AlongAxis[Axes], abstract=True):
    """An op whose elements depend on those before them along `axis`, or on those after them with `reverse`."""

    __slots__ = ("reverse",)
    reverse: bool

    def __init__(self, *parents: Node, axis: int, reverse: bool = False, **attributes: Any) -> None:
        self._construct(parents, axis=axis, reverse=reverse, **attributes)

    def along(self, part: slice) -> tuple[slice, ...]:
        """Return the index of a part of the axis."""
        return (*(slice(None),) * self.axis, part)

    def in_order(self, x: FloatArray) -> FloatArray:
        """Return `x` with the elements along its axis in the order of the op; it is its own inverse."""
        backward = self.along(slice(None, None, -1))
        return x[backward] if self.reverse else x


class _CumulativeLoops(ByKernel):
    """The kernel of an op along an axis: its arrays have three axes, and `first` and `step` give the order."""

    def kernel_arguments(self, node: Any, operands: Sequence[np.ndarray], out: np.ndarray) -> tuple[Any, ...]:
        last = out.shape[node.axis] - 1
        return *split_at(node.axis, *operands, out), *((last, -1) if node.reverse else (0, 1))


class _CumulativeForm(JaxForm):
    """A function of `jax.lax`."""

    def __init__(self, function: str) -> None:
        self.function = function

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return getattr(lax, self.function)(operands[0], axis=node.axis, reverse=node.reverse)


class CumSum(_Cumulative[Axes]):
    """The sums of the elements up to each one along `axis`; from each one on with `reverse`."""

    __slots__ = ()
    written = "cumsum"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return self.in_order(xp.cumsum(self.in_order(operands[0]), axis=self.axis))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (CumSum(gradient, axis=self.axis, reverse=not self.reverse),)


@LOOPS.register(CumSum)
class _CumSumLoops(_CumulativeLoops):
    @staticmethod
    def kernel(x: FloatArray, out: FloatArray, first: int, step: int) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                place = first + step * j
                for k in range(x.shape[2]):
                    out[i, place, k] = x[i, place, k] if j == 0 else out[i, place - step, k] + x[i, place, k]


class CumProd(_Cumulative[Axes]):
    """The products of the elements up to each one along `axis`; from each one on with `reverse`."""

    __slots__ = ()
    written = "cumprod"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return self.in_order(xp.cumprod(self.in_order(operands[0]), axis=self.axis))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        # The product before element i, times the sum over j >= i of gradient[j] and the elements between i and j. Both
        # are polynomials, so the gradient of any order is right at zeros too.
        x: Node = self.parents[0]
        before = Shift(self, axis=self.axis, reverse=self.reverse, fill=1.0)
        after = Shift(x, axis=self.axis, reverse=not self.reverse, fill=0.0)
        return (before * Recurrence(after, gradient, axis=self.axis, reverse=not self.reverse),)


JAX.register(CumProd)(_CumulativeForm("cumprod"))


@LOOPS.register(CumProd)
class _CumProdLoops(_CumulativeLoops):
    @staticmethod
    def kernel(x: FloatArray, out: FloatArray, first: int, step: int) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                place = first + step * j
                for k in range(x.shape[2]):
                    out[i, place, k] = x[i, place, k] if j == 0 else out[i, place - step, k] * x[i, place, k]


class Shift(_Cumulative[Axes]):
    """The operand moved by one element along `axis`, forward or with `reverse` backward; `fill` comes in."""

    __slots__ = ("fill",)
    fill: float

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        (x,) = operands
        first, last = self.along(slice(1)), self.along(slice(-1, None))
        kept, lost = (self.along(slice(1, None)), first) if self.reverse else (self.along(slice(-1)), last)
        parts = xp.zeros_like(x[lost]) + self.fill, x[kept]
        return xp.concat(parts[::-1] if self.reverse else parts, axis=self.axis)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (Shift(gradient, axis=self.axis, reverse=not self.reverse, fill=0.0),)


@LOOPS.register(Shift)
class _ShiftLoops(_CumulativeLoops):
    @staticmethod
    def kernel(x: FloatArray, out: FloatArray, first: int, step: int, fill: np.floating) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                place = first + step * j
                for k in range(x.shape[2]):
                    out[i, place, k] = fill if j == 0 else x[i, place - step, k]

    def kernel_arguments(self, node: Shift, operands: Sequence[np.ndarray], out: np.ndarray) -> tuple[Any, ...]:
        return *super().kernel_arguments(node, operands, out), node.dtype.type(node.fill)


class Recurrence(_Cumulative[Axes]):
    """The solution of `h[i] = factor[i] * h[i - 1] + term[i]` along `axis`, which begins at `h[0] = term[0]`.

    With a third operand it goes on where that is above one half, and begins anew, at `h[i] = term[i]`, elsewhere:
    nothing of the elements before counts, not even an infinity or a NaN, which a factor of 0 would carry on.

    With `reverse` it is `h[i] = factor[i] * h[i + 1] + term[i]`, which begins at the end. Its gradient is a recurrence
    in the other direction.
    """

    __slots__ = ()

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        factor, term, *goes_on = (xp.moveaxis(self.in_order(operand), self.axis, 0) for operand in operands)
        rows: list[FloatArray] = []
        for i in range(shape[self.axis]):
            following = term[i] if i == 0 else factor[i] * rows[-1] + term[i]
            rows.append(xp.where(goes_on[0][i] > 0.5, following, term[i]) if goes_on else following)
        return self.in_order(xp.stack(rows, axis=self.axis)) if rows else operands[1]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        factor, _, *goes_on = self.parents
        after = Shift(factor, axis=self.axis, reverse=not self.reverse, fill=0.0)
        before: Any = Shift(self, axis=self.axis, reverse=self.reverse, fill=0.0)
        # The way back begins anew behind an element that does.
        goes_back = [Shift(each, axis=self.axis, reverse=not self.reverse, fill=0.0) for each in goes_on]
        total = Recurrence(after, gradient, *goes_back, axis=self.axis, reverse=not self.reverse)
        for each in goes_on:
            before = where(each > 0.5, before, 0.0)
        return total * before, total, *(ZERO for _ in goes_on)


@LOOPS.register(Recurrence)
class _RecurrenceLoops(_CumulativeLoops):
    @staticmethod
    def kernel(
        factor: FloatArray, term: FloatArray, goes_on: FloatArray, out: FloatArray, first: int, step: int, ends: bool
    ) -> None:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                place = first + step * j
                for k in range(out.shape[2]):
                    if j == 0 or (ends and not goes_on[i, place, k] > 0.5):
                        out[i, place, k] = term[i, place, k]
                    else:
                        out[i, place, k] = factor[i, place, k] * out[i, place - step, k] + term[i, place, k]

    def kernel_arguments(self, node: Recurrence, operands: Sequence[np.ndarray], out: np.ndarray) -> tuple[Any, ...]:
        factor, term, *goes_on = operands
        # Without a third operand the kernel reads none, whatever array stands in its place.
        return *super().kernel_arguments(node, (factor, term, *(goes_on or [term])), out), bool(goes_on)


@JAX.register(Recurrence)
class _RecurrenceForm(JaxForm):
    """A loop over the axis."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        factor, term, *goes_on = operands
        first = jnp.arange(shape[node.axis]) == (shape[node.axis] - 1 if node.reverse else 0)
        factor = jnp.where(jnp.expand_dims(first, range(1, len(shape) - node.axis)), 0.0, factor)

        def step(state: tuple[Any, ...], rows: list[Any]) -> tuple[tuple[Any, ...], Any]:
            factor, term, *goes_on = rows
            made = factor * state[0] + term
            for each in goes_on:
                made = jnp.where(each > 0.5, made, term)
            return (made,), made

        before = jnp.zeros([1 if axis == node.axis else size for axis, size in enumerate(shape)], node.dtype)
        return over_time(step, (before,), [factor, term, *goes_on], node.axis, node.reverse)


REACH.register(CumSum, CumProd, Recurrence)(Along(None, 0))
REACH.register(Shift)(Along(-1, -1))


class IndexCumSum(OneAxis[Any, Axes], IndexNode[Axes]):
    """The sums of the integers up to each one along `axis`."""

    __slots__ = ()
    written = "cumsum"
    # The direction of the loops of `CumSum`, which computes floats in either.
    reverse = False

    def __init__(self, x: IndexNode, axis: int) -> None:
        self._construct((x,), axis=axis)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.cumsum(operands[0], axis=self.axis)

    def bounds(self, operands: Sequence[Interval]) -> Interval:
        """Return the least and the greatest value for operands within these."""
        return bounds_of_sums(operands[0], self.parents[0].dims[self.axis])


LOOPS.register(IndexCumSum)(_CumSumLoops)
REACH.register(IndexCumSum)(Along(None, 0))
JAX.register(CumSum, IndexCumSum)(_CumulativeForm("cumsum"))


@overload
def cumsum(x: Shaped[L, AtLeast1D], axis: int | None = None) -> CumSum: ...
@overload
def cumsum(x: Shaped[L, S], axis: int) -> CumSum[S]: ...
@overload
def cumsum(x: Shaped[L, S], axis: None = None) -> CumSum[tuple[Any]]: ...
@method("cumsum", integers=IndexCumSum)
def cumsum(x: Any, axis: int | None = None) -> Any:
    """Return the sums of the elements up to each one along `axis`, or of all elements in row-major order if it is None.

    Raise `ShapeError` for an axis that `x` lacks.

    >>> wy.Constant([[1.0, 2.0], [3.0, 4.0]]).cumsum(axis=1).forward().tolist()
    [[1.0, 3.0], [3.0, 7.0]]
    """
    op: Any = IndexCumSum if isinstance(x, IndexNode) else CumSum
    return op(x.ravel(), axis=0) if axis is None else op(x, axis=axis)


@overload
def cumprod(x: Shaped[L, AtLeast1D], axis: int | None = None) -> CumProd: ...
@overload
def cumprod(x: Shaped[L, S], axis: int) -> CumProd[S]: ...
@overload
def cumprod(x: Shaped[L, S], axis: None = None) -> CumProd[tuple[Any]]: ...
@method("cumprod")
def cumprod(x: Any, axis: int | None = None) -> CumProd:
    """Return the products of the elements up to each one along `axis`, or of all in row-major order if it is None.

    The gradient is correct at zeros too. Raise `ShapeError` for an axis that `x` lacks.

    >>> wy.Constant([1.0, 2.0, 3.0]).cumprod().forward().tolist()
    [1.0, 2.0, 6.0]
    """
    return CumProd(x.ravel(), axis=0) if axis is None else CumProd(x, axis=axis)

"""Running maxima and minima: the greatest or least of the elements up to each one."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import NUMPY, ArrayNamespace
from wyrm.graph.typing import Array, AtLeast1D, FloatArray, IntegerArray, Shaped
from wyrm.ops.elementwise.elementwise import Axes, L, S, method
from wyrm.ops.indexing.taking import IndexTakeAlongAxis, TakeAlongAxis
from wyrm.ops.reducing.base import PositionsAlongAxis, split_at
from wyrm.reach.rules import REACH, Along, Reached
from wyrm.reach.zones import ZERO
from wyrm.support.imports import lax

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis


class RunningArg(PositionsAlongAxis[Axes]):
    """The index of the greatest element up to each one along `axis`, or of the least unless `greatest`.

    Of equal elements it is the last, as in PyTorch. From the first NaN on it is that one's.
    """

    __slots__ = ("greatest",)
    greatest: bool

    def __init__(self, x: Node | IndexNode, axis: int, greatest: bool) -> None:
        self._construct((x,), axis=axis, greatest=greatest)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> IntegerArray:
        (x,) = operands
        running = (np.maximum if self.greatest else np.minimum).accumulate(x, axis=self.axis)
        found: IntegerArray = np.maximum.accumulate(_candidates(NUMPY, x, running, self.axis), axis=self.axis)
        return found


def _candidates(xp: Any, x: Any, running: Any, axis: int) -> Any:
    """Return the position of each element that is the extreme up to itself, and 0 at the others."""
    is_nan = x != x
    is_extreme = (x == running) | (is_nan & (xp.cumsum(is_nan, axis=axis) == 1))
    positions = xp.arange(x.shape[axis]).reshape([-1, *[1] * (x.ndim - axis - 1)])
    return xp.where(is_extreme, positions, 0)


@LOOPS.register(RunningArg)
class _RunningArgLoops(ByKernel):
    @staticmethod
    def kernel(x: FloatArray, out: IntegerArray, greatest: bool) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                for k in range(x.shape[2]):
                    best = out[i, j - 1, k] if j > 0 else 0
                    value, element = x[i, best, k], x[i, j, k]
                    comes_next = element >= value if greatest else element <= value
                    # A NaN is followed by itself alone.
                    out[i, j, k] = j if comes_next or (element != element and value == value) else best

    def kernel_arguments(self, node: RunningArg, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        return *split_at(node.axis, operands[0], out), node.greatest


@REACH.register(RunningArg)
class _RunningArgReach(Along):
    """The index is at most that of the element."""

    def __init__(self) -> None:
        super().__init__(None, 0)

    def reached(self, node: RunningArg, operands: Sequence[Reached], analysis: Analysis) -> Reached | None:
        found = super().reached(node, operands, analysis)
        if found is not None:
            found.numbers = {(atom, ZERO): (-inf, 0) for atom in found.axes[node.axis] if atom > 0}
        return found


@JAX.register(RunningArg)
class _RunningArgForm(JaxForm):
    """The functions of `jax.lax`."""

    def lower(self, node: RunningArg, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        (x,) = operands
        running = (lax.cummax if node.greatest else lax.cummin)(x, axis=node.axis)
        found = lax.cummax(_candidates(lowering.xp, x, running, node.axis), axis=node.axis)
        return lowering.xp.astype(found, node.dtype)


@overload
def cummax(x: Shaped[L, AtLeast1D], axis: int | None = None) -> TakeAlongAxis[L, IndexNode]: ...
@overload
def cummax(x: Shaped[L, S], axis: int) -> TakeAlongAxis[L, IndexNode, S]: ...
@overload
def cummax(x: Shaped[L, S], axis: None = None) -> TakeAlongAxis[Any, IndexNode, tuple[Any]]: ...
@method("cummax", integers=IndexTakeAlongAxis)
def cummax(x: Any, axis: int | None = None) -> Any:
    """Return the greatest of the elements up to each one along `axis`, or of all in row-major order if it is None.

    This is `numpy.maximum.accumulate`. The gradient of each element goes to the one that it came from, of equal ones to
    the last. From the first NaN on the result is NaN. Raise `ShapeError` for an axis that `x` lacks.

    >>> wy.Constant([1.0, 3.0, 2.0, 4.0]).cummax().forward().tolist()
    [1.0, 3.0, 3.0, 4.0]
    """
    return _running(x, axis, greatest=True)


@overload
def cummin(x: Shaped[L, AtLeast1D], axis: int | None = None) -> TakeAlongAxis[L, IndexNode]: ...
@overload
def cummin(x: Shaped[L, S], axis: int) -> TakeAlongAxis[L, IndexNode, S]: ...
@overload
def cummin(x: Shaped[L, S], axis: None = None) -> TakeAlongAxis[Any, IndexNode, tuple[Any]]: ...
@method("cummin", integers=IndexTakeAlongAxis)
def cummin(x: Any, axis: int | None = None) -> Any:
    """Return the least of the elements up to each one along `axis`, or of all in row-major order if it is None.

    This is `numpy.minimum.accumulate`; gradients, NaN and errors are as in `cummax`.

    >>> wy.Constant([3.0, 1.0, 2.0, 0.0]).cummin().forward().tolist()
    [3.0, 1.0, 1.0, 0.0]
    """
    return _running(x, axis, greatest=False)


def _running(x: Any, axis: int | None, greatest: bool) -> Any:
    if axis is None:
        x, axis = x.ravel(), 0
    take = IndexTakeAlongAxis if isinstance(x, IndexNode) else TakeAlongAxis
    return take(x, RunningArg(x, axis, greatest), axis)

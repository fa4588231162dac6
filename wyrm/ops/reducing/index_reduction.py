"""Reductions of integer nodes, exact in 64 bits: sum, maximum, minimum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.graph.axes import AxisLike, all_axes
from wyrm.graph.loop_form import LOOPS, KernelArgument
from wyrm.graph.node import IndexNode
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes, method
from wyrm.ops.reducing.base import ReducedAxis, ReducedAxisLoops, check_keepdims
from wyrm.ops.reducing.cumulative import Interval, bounds_of_sums
from wyrm.support.foreign_names import explains_keywords


class IndexReduction(ReducedAxis[Axes], abstract=True):
    """An op that reduces one axis of integers; `method` reduces several by several such ops, since no digit is lost."""

    __slots__ = ()
    index_declaration = """
@overload
def {method}(self: IndexNode[S], axis: None = None, keepdims: Literal[False] = False) -> IndexNode[tuple[()]]: ...
@overload
def {method}(self: IndexNode[AtLeast1D], axis: AxisLike = None, keepdims: bool = False) -> IndexNode: ...
@overload
def {method}(self: IndexNode[tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False) -> IndexNode[tuple[*Bs]]: ...
@overload
def {method}(self: IndexNode[tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False) -> IndexNode[tuple[*Bs]]: ...
@overload
def {method}(self: IndexNode, axis: AxisLike = None, keepdims: bool = False) -> IndexNode: ...
"""  # noqa: E501  # one declaration per line

    @classmethod
    def _bind_members(cls) -> None:
        method(cls.op_name(), IndexNode, op=cls)(_of_axes(cls))

    def bounds(self, operands: Sequence[Interval]) -> Interval:
        """Return the least and the greatest value for operands within these."""
        return operands[0]


def _of_axes(cls: Callable[[Any, int, bool], IndexNode]) -> Callable[..., IndexNode]:
    """Return the method that reduces several axes, all by default, from the last to the first."""

    @explains_keywords
    def reduce(x: IndexNode, axis: AxisLike = None, keepdims: bool = False) -> IndexNode:
        kept = check_keepdims("a reduction of integers", keepdims)
        axes = all_axes(axis, x.ndim)
        for each in reversed(axes):
            x = cls(x, each, kept)
        return x if axes else x.reshape(x.dims)

    return reduce


class IndexSum(IndexReduction[Axes]):
    """Sum of integers over `axis`: an axis, several, or all by default; it wraps around on overflow, as in NumPy."""

    __slots__ = ()
    takes_empty = True
    method = "sum"

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.sum(operands[0], axis=self.axis, keepdims=self.keepdims)

    def bounds(self, operands: Sequence[Interval]) -> Interval:
        return bounds_of_sums(operands[0], self.parents[0].dims[self.axis])


@LOOPS.register(IndexSum)
class _SumLoops(ReducedAxisLoops):
    @staticmethod
    def kernel(x: IntegerArray, out: IntegerArray) -> None:
        for i in range(x.shape[0]):
            for k in range(x.shape[2]):
                out[i, k] = 0
            for j in range(x.shape[1]):
                for k in range(x.shape[2]):
                    out[i, k] += x[i, j, k]


class IndexMax(IndexReduction[Axes]):
    """Maximum of integers over `axis`: an axis, several, or all by default. Raise `ShapeError` over no elements."""

    __slots__ = ()
    method = "max"

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.max(operands[0], axis=self.axis, keepdims=self.keepdims)


class IndexMin(IndexReduction[Axes]):
    """Minimum of integers over `axis`: an axis, several, or all by default. Raise `ShapeError` over no elements."""

    __slots__ = ()
    method = "min"

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.min(operands[0], axis=self.axis, keepdims=self.keepdims)


@LOOPS.register(IndexMax, IndexMin)
class _ExtremeLoops(ReducedAxisLoops):
    @staticmethod
    def kernel(x: IntegerArray, out: IntegerArray, largest: bool) -> None:
        for i in range(x.shape[0]):
            for k in range(x.shape[2]):
                out[i, k] = x[i, 0, k]
            for j in range(1, x.shape[1]):
                for k in range(x.shape[2]):
                    if (x[i, j, k] > out[i, k]) == largest:
                        out[i, k] = x[i, j, k]

    def kernel_arguments(
        self, node: IndexMax | IndexMin, operands: Sequence[np.ndarray], out: np.ndarray
    ) -> tuple[KernelArgument, ...]:
        return *super().kernel_arguments(node, operands, out), isinstance(node, IndexMax)

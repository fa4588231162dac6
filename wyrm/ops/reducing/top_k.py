"""The indices of the largest elements along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import label
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.reducing.along_axis import OneAxis, split_at


class TopIndices(OneAxis[Any, Axes], IndexNode[Axes]):
    """The indices of the `k` largest elements along `axis`, the largest first.

    Of equal elements the first comes first, and NaN counts as the largest. The axis has a size of at least `k`.
    """

    __slots__ = ("k",)
    written = "top_k"
    k: int

    def __init__(self, x: Node | IndexNode, k: int, axis: int) -> None:
        self._construct((x,), axis=axis, k=k)

    @property
    def within(self) -> Axis:
        """The axis that the values index."""
        axis: Axis = self.parents[0].dims[self.axis]
        return axis

    def shape_rule(self) -> Dims:
        dims = super().shape_rule()
        axis = dims[self.axis]
        size = axis_size(axis)
        if size is None:
            raise ShapeError(
                f"top_k works along an axis with a size, but {label(self.parents[0])} has {axis!r}; give the axis one"
            )
        if not 1 <= self.k <= size:
            raise ShapeError(f"k must be from 1 to {size}, the size of axis {self.axis}, not {self.k}")
        return (*dims[: self.axis], self.k, *dims[self.axis + 1 :])

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> IntegerArray:
        # The last of equal elements is the first of those in reverse order.
        backward: Any = xp.argsort(xp.flip(operands[0], axis=self.axis), axis=self.axis, stable=True)
        order: Any = operands[0].shape[self.axis] - 1 - xp.flip(backward, axis=self.axis)
        chosen: IntegerArray = order[(*(slice(None) for _ in range(self.axis)), slice(self.k))]
        return chosen


@JAX.register(TopIndices)
class _TopIndicesForm(JaxForm):
    """`jax.lax.top_k`, which works along the last axis."""

    ranks: bool = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        indices = lowering.largest(node, operands[0])
        return lowering.xp.astype(jnp.moveaxis(indices, -1, node.axis), node.dtype)


@LOOPS.register(TopIndices)
class _TopIndicesLoops(ByKernel):
    @staticmethod
    def kernel(x: FloatArray, out: IntegerArray) -> None:
        """Insert each element among the largest ones so far."""
        for i in range(x.shape[0]):
            for k in range(x.shape[2]):
                count = 0
                for j in range(x.shape[1]):
                    place = count
                    while place > 0:
                        before = x[i, out[i, place - 1, k], k]
                        is_larger = x[i, j, k] > before or (x[i, j, k] != x[i, j, k] and before == before)
                        if not is_larger:
                            break
                        if place < out.shape[1]:
                            out[i, place, k] = out[i, place - 1, k]
                        place -= 1
                    if place < out.shape[1]:
                        out[i, place, k] = j
                        count = min(count + 1, out.shape[1])

    def kernel_arguments(self, node: TopIndices, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        return *split_at(node.axis, operands[0]), *split_at(node.axis, out)


__all__ = ["TopIndices"]

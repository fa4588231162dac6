"""A copy of an array with the elements at distinct positions replaced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims
from wyrm.graph.base import ZERO, Gradient, describe
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.shapes import same_sizes
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.batching import spread
from wyrm.ops.elementwise.elementwise import Axes, Left_co, common_dtype
from wyrm.ops.indexing.take_along_axis import TakeAlongAxis
from wyrm.ops.shaping.shape import zeros_like


class Replaced(HasIndexOperands[tuple[Left_co, Any, IndexNode], Axes], Node[tuple[Left_co, Any, IndexNode], Axes]):
    """`x` with `values` at `positions` along the last axis.

    `x` has the axes (..., n), `values` (..., m), and `positions`, integers, (m) or (..., m); they are distinct in each
    row, which is not checked.
    """

    __slots__ = ()
    written = "at[...].set"
    _own: Replaced[Any, Axes]

    def __init__(self, x: Node, values: Node, positions: IndexNode) -> None:
        self._construct((x, values, positions))

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents[:2])

    def shape_rule(self) -> Dims:
        x, values, positions = self.parents
        if (
            not x.dims
            or not same_sizes(x.dims[:-1], values.dims[:-1])
            or not same_sizes(values.dims[len(values.dims) - len(positions.dims) :], positions.dims)
            or len(positions.dims) not in (1, len(x.dims))
        ):
            raise ShapeError(f"{describe(values)} at {describe(positions)} does not fit into {describe(x)}")
        dims: Dims = x.dims
        return dims

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(2, self.parents[0].dims[-1]),)

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, values, positions = operands
        result = np.array(x)
        np.put_along_axis(result, np.broadcast_to(positions, values.shape), values, -1)
        return result

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        x, values, positions = operands
        if mapped[2] and len(self.parents[0].dims) > len(self.parents[2].dims):
            return None
        if mapped[2]:
            x, values, positions = spread(operands, mapped)
            return Replaced(x, values, positions)
        if len(positions.dims) > 1:
            return None
        x, values = spread((x, values), mapped[:2])
        return Replaced(x, values, positions)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        _, values, positions = self.parents
        if len(positions.dims) < len(values.dims):
            chosen: Any = gradient.take(positions, axis=len(values.dims) - 1)
        else:
            chosen = TakeAlongAxis(gradient, positions, len(values.dims) - 1)
        return Replaced(gradient, zeros_like(values), positions), chosen, ZERO


@JAX.register(Replaced)
class _ReplacedForm(JaxForm):
    """A scatter; where a position is out of range, the row is NaN."""

    def lower(self, node: Replaced, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        x, values, positions = operands
        positions = jnp.broadcast_to(positions, values.shape)
        leading = [jnp.arange(size).reshape((-1, *[1] * (len(shape) - 1 - i))) for i, size in enumerate(shape[:-1])]
        wrong = ((positions < 0) | (positions >= shape[-1])).any(axis=-1, keepdims=True)
        replaced = x.at[(*leading, jnp.where(wrong, 0, positions))].set(values)
        return jnp.where(wrong, jnp.nan, replaced)


@LOOPS.register(Replaced)
class _ReplacedLoops(ByKernel):
    @staticmethod
    def kernel(x: FloatArray, values: FloatArray, positions: IntegerArray, out: FloatArray) -> None:
        for row in range(out.shape[0]):
            for i in range(out.shape[1]):
                out[row, i] = x[row, i]
        for row in range(out.shape[0]):
            for i in range(values.shape[1]):
                out[row, positions[row % positions.shape[0], i]] = values[row, i]

    def kernel_arguments(self, node: Replaced, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        rows, count = math.prod(out.shape[:-1]), operands[1].shape[-1]
        own = math.prod(operands[2].shape[:-1])
        return (
            operands[0].reshape(rows, out.shape[-1]), operands[1].reshape(rows, count),
            operands[2].reshape(own, count), out.reshape(rows, out.shape[-1]),
        )  # fmt: skip


__all__ = ["Replaced"]

"""Rows of weights in narrow numbers, which are widened one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.axes import Dims
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.parameters import NarrowWeight
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes


def widened(xp: ArrayNamespace, numbers: Any) -> Any:
    """Return integers of int8, or bits of bfloat16 in uint16, as numbers of float32; floats are unchanged."""
    if numbers.dtype not in (np.int8, np.uint16):
        return numbers
    if numbers.dtype == np.int8:
        return xp.astype(numbers, np.float32)
    bits: Any = xp.astype(numbers, np.uint32)
    bits = bits << 16
    if xp is np:
        return bits.view(np.float32)
    from jax.lax import bitcast_convert_type

    return bitcast_convert_type(bits, np.float32)


class NarrowRows(HasIndexOperands[tuple[Any, ...], Axes], Node[tuple[Any, ...], Axes], abstract=True):
    """Rows of a narrow weight at indices; the parents are the indices, the numbers and, of int8, the factors."""

    __slots__ = ()
    written = "index"

    def __init__(self, indices: IndexNode, *held: Any) -> None:
        self._construct((indices, *held))

    def dtype_rule(self) -> np.dtype:
        return np.dtype(np.float32)

    def shape_rule(self) -> Dims:
        indices, numbers, *_ = self.parents
        dims: Dims = (*indices.dims, numbers.dims[1])
        return dims

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(0, self.parents[1].dims[0]),)

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        indices, numbers, *factors = operands
        rows: Array = widened(xp, xp.take(numbers, indices, axis=0))
        for each in factors:
            rows = rows * (xp.take(each, indices, axis=0) if each.shape[0] == numbers.shape[0] else each)
        return rows

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,) * len(self.parents)


class Int8Rows(NarrowRows[Axes], abstract=True):
    """Rows of integers of int8, times their factors."""

    __slots__ = ()


class Bfloat16Rows(NarrowRows[Axes], abstract=True):
    """Rows of numbers of bfloat16."""

    __slots__ = ()


def int8_rows_kernel(indices: IntegerArray, numbers: IntegerArray, factors: FloatArray, out: FloatArray) -> None:
    """Fill the rows of `out`; `factors` has the shape of the numbers."""
    for i in range(out.shape[0]):
        row = indices[i]
        for j in range(out.shape[1]):
            out[i, j] = numbers[row, j] * factors[row, j]


def bfloat16_rows_kernel(indices: IntegerArray, numbers: IntegerArray, out: FloatArray) -> None:
    """Fill the rows of `out`; the bits of a number are the upper half of those in float32."""
    for i in range(out.shape[0]):
        row = indices[i]
        for j in range(out.shape[1]):
            out[i, j] = np.int32(np.int32(numbers[row, j]) << 16).view(np.float32)


class _RowsLoops(ByKernel):
    def kernel_arguments(self, node: Any, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        indices, numbers, *factors = operands
        whole = [np.broadcast_to(each, numbers.shape) for each in factors]
        rows = math.prod(indices.shape)
        return indices.reshape(rows), numbers, *whole, out.reshape(rows, out.shape[-1])


@LOOPS.register(Int8Rows)
class _Int8RowsLoops(_RowsLoops):
    kernel = staticmethod(int8_rows_kernel)


@LOOPS.register(Bfloat16Rows)
class _Bfloat16RowsLoops(_RowsLoops):
    kernel = staticmethod(bfloat16_rows_kernel)


def narrow_rows(table: NarrowWeight, indices: IndexNode) -> NarrowRows:
    """Return the rows of a narrow weight at these indices."""
    if table.factors is None:
        return Bfloat16Rows(indices, table.numbers)
    return Int8Rows(indices, table.numbers, table.factors)

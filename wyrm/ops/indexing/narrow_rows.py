"""Rows of weights in narrow numbers, which are widened one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.axes import Axis, Dims
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.parameters import NarrowWeight
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.support.narrow_numbers import INT4_BLOCK, INT4_BYTES, from_bfloat16, from_int4


def widened(xp: ArrayNamespace, numbers: Any) -> Any:
    """Return narrow numbers, as `NarrowNumbers` holds them, without their factors, in float32; floats are unchanged."""
    if numbers.dtype == np.int8:
        return xp.astype(numbers, np.float32)
    if numbers.dtype == np.uint8:
        return _from_blocks(xp, numbers)
    if numbers.dtype != np.uint16:
        return numbers
    if xp is np:
        return from_bfloat16(numbers)
    from jax.lax import bitcast_convert_type

    return bitcast_convert_type(numbers.astype(np.uint32) << 16, np.float32)


def _from_blocks(xp: ArrayNamespace, held: Any) -> Any:
    """Return rows of blocks of int4, (..., bytes), as numbers, (..., columns)."""
    if xp is np:
        return from_int4(held.reshape(-1, held.shape[-1])).reshape(*held.shape[:-1], -1)
    from jax.lax import bitcast_convert_type

    blocks: Any = held.reshape(*held.shape[:-1], -1, INT4_BYTES)
    factors, packed = bitcast_convert_type(blocks[..., :4], np.float32)[..., None], blocks[..., 4:]
    integers: Any = xp.concat([packed & 15, packed >> 4], axis=-1)
    return ((integers.astype(np.float32) - 8.0) * factors).reshape(*held.shape[:-1], -1)


class NarrowRows(HasIndexOperands[tuple[Any, ...], Axes], Node[tuple[Any, ...], Axes], abstract=True):
    """Rows of a narrow weight at indices; the parents are the indices, the numbers and, of int8, the factors.

    The last axis of the result is `to`.
    """

    __slots__ = ("to",)
    written = "index"
    to: Axis

    def __init__(self, indices: IndexNode, *held: Any, to: Axis) -> None:
        self._construct((indices, *held), to=to)

    def dtype_rule(self) -> np.dtype:
        return np.dtype(np.float32)

    def shape_rule(self) -> Dims:
        dims: Dims = (*self.parents[0].dims, self.to)
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


class Int4Rows(NarrowRows[Axes], abstract=True):
    """Rows of blocks of integers of int4."""

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


def int4_rows_kernel(indices: IntegerArray, numbers: IntegerArray, out: FloatArray) -> None:
    """Fill the rows of `out` from blocks of bytes: a factor, and then two integers in each byte."""
    half = INT4_BLOCK // 2
    for i in range(out.shape[0]):
        row = indices[i]
        for block in range(out.shape[1] // INT4_BLOCK):
            start, first = INT4_BYTES * block, INT4_BLOCK * block
            bits = np.int32(0)
            for place in range(4):
                bits = np.int32(bits | np.int32(np.int32(numbers[row, start + place]) << np.int32(8 * place)))
            factor = np.int32(bits).view(np.float32)
            for place in range(half):
                both = np.int32(numbers[row, start + 4 + place])
                out[i, first + place] = np.float32(np.int32(both & 15) - 8) * factor
                out[i, first + half + place] = np.float32(np.int32(both >> 4) - 8) * factor


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


@LOOPS.register(Int4Rows)
class _Int4RowsLoops(_RowsLoops):
    kernel = staticmethod(int4_rows_kernel)


def narrow_rows(table: NarrowWeight, indices: IndexNode) -> NarrowRows | None:
    """Return the rows of a narrow weight at these indices; None for blocks that do not run along rows."""
    to = table.dims[1]
    if table.factors is not None:
        return Int8Rows(indices, table.numbers, table.factors, to=to)
    if table.storage == "bfloat16":
        return Bfloat16Rows(indices, table.numbers, to=to)
    return Int4Rows(indices, table.numbers, to=to) if table.along == 1 else None

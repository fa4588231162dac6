"""Sums of shifted rows in kernels, by tiles; see `wyrm.engines.native.products.shifted`."""

from __future__ import annotations

from collections.abc import Sequence

from wyrm.engines.native.ir.program import Offset, ShiftedSums
from wyrm.engines.native.ir.types import INT64, UINT8, PointerType
from wyrm.engines.native.kernels.arithmetic import as_type
from wyrm.engines.native.kernels.calls import builtin
from wyrm.engines.native.kernels.expressions import Expressions
from wyrm.engines.native.kernels.values import KernelValue, NotCompiled, Num, View, literal
from wyrm.engines.native.products.shifted import most_rows
from wyrm.engines.native.products.target import host
from wyrm.ops.convolution import shifted


@builtin(shifted.rows_of_tile)
def _rows_of_tile(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Return the most rows of a tile of this processor."""
    return literal(most_rows(body.translation.target or host()))


@builtin(shifted.masks_rows)
def _masks_rows(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Return whether this processor reads a part of a vector as fast as a whole one."""
    return literal((body.translation.target or host()).masks)


@builtin(shifted.shifted_sums)
def _shifted_sums(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a `ShiftedSums`; the shapes are the caller's care."""
    arrays = [each for each in arguments if isinstance(each, View)]
    numbers = [each for each in arguments if isinstance(each, Num)]
    if len(arrays) != 6 or len(numbers) != 3 or len(arguments) != 9:
        raise NotCompiled("shifted_sums takes six arrays and three integers")
    weights, steps, ends, box, masks, out = arrays
    terms, start, stride = (as_type(each, INT64).expression for each in numbers)
    if len(out.shape) != 2 or [each.element for each in (steps, ends, masks)] != [INT64, INT64, UINT8]:
        raise NotCompiled("shifted_sums takes steps and ends in int64, masks in uint8, and writes a matrix")
    operands = (
        *out.shape, ends.shape[0], weights.pointer, terms, steps.pointer, ends.pointer,
        Offset(box.pointer, start, PointerType(box.element)), stride, masks.pointer, out.pointer, out.strides[0],
    )  # fmt: skip
    body.builder.add(ShiftedSums(operands, out.element))
    return literal(0)

"""Sums of shifted rows in kernels, by tiles; see `wyrm.engines.native.products.shifted`."""

from __future__ import annotations

from collections.abc import Sequence

from wyrm.engines.native.ir.program import Offset, ShiftedSums
from wyrm.engines.native.ir.types import INT64, PointerType
from wyrm.engines.native.kernels.arithmetic import as_type, truth
from wyrm.engines.native.kernels.calls import builtin
from wyrm.engines.native.kernels.expressions import Expressions
from wyrm.engines.native.kernels.values import KernelValue, NotCompiled, Num, View, literal
from wyrm.engines.native.products.shifted import most_rows
from wyrm.engines.native.products.target import host
from wyrm.ops.convolution import shifted


@builtin(shifted.rows_of_tile)
def _rows_of_tile(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Return the most rows of a tile of this processor."""
    return literal(most_rows(host()))


@builtin(shifted.shifted_sums)
def _shifted_sums(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a `ShiftedSums`; the shapes are the caller's care."""
    weights, first, total, offsets, box, start, out, adds = arguments
    if not (
        isinstance(weights, View)
        and isinstance(offsets, View)
        and isinstance(box, View)
        and isinstance(start, Num)
        and isinstance(first, Num)
        and isinstance(total, Num)
        and isinstance(out, View)
        and isinstance(adds, Num)
    ):
        raise NotCompiled("shifted_sums takes four arrays, three integers and a bool")
    if [len(each.shape) for each in (weights, offsets, box, out)] != [1, 1, 2, 2] or offsets.element != INT64:
        raise NotCompiled("shifted_sums takes weights, offsets in int64 and two matrices")
    begin, terms, corner = (as_type(each, INT64).expression for each in (first, total, start))
    operands = (
        *out.shape, offsets.shape[0], weights.pointer, begin, terms, offsets.pointer,
        Offset(box.pointer, corner, PointerType(box.element)), out.pointer, out.strides[0], truth(adds),
    )  # fmt: skip
    body.builder.add(ShiftedSums(operands, out.element))
    return literal(0)

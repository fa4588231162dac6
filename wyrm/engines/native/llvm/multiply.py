"""Products of matrices, and sums of shifted rows, in kernels: by tiles, or by loops where these are faster.

The product is compiled and cached once per precision; programs only call it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.engines.native.ir.program import Offset, ShiftedSums
from wyrm.engines.native.ir.types import INT64, UINT8, PointerType
from wyrm.engines.native.kernels import calls
from wyrm.engines.native.kernels.arithmetic import as_type
from wyrm.engines.native.kernels.calls import builtin, general, same_size
from wyrm.engines.native.kernels.expressions import Expressions
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.values import KernelValue, NotCompiled, Num, Static, View, literal
from wyrm.engines.native.products.low import LONGEST_SUM
from wyrm.engines.native.products.matrix import SHARED_PRODUCTS
from wyrm.engines.native.products.shifted import most_rows
from wyrm.engines.native.products.target import host
from wyrm.ops.convolution import kernels as convolution_kernels
from wyrm.ops.kernels.native import DEBUG
from wyrm.ops.kernels.sums import accumulated, natural
from wyrm.ops.products import narrow_product, product

# Below so many multiplications the loops, which are compiled into the program, save a call and the choice of tiles.
DOTS_BELOW = 64


def _loops_kernel(function: Any) -> KernelFunction:
    return KernelFunction(function, distinct=True, fused=True)


# --- loops ------------------------------------------------------------------------------------------------------------


@_loops_kernel
def dots(
    x: np.ndarray, y: np.ndarray, out: np.ndarray, rows: int, columns: int, first: int, length: int, beta: int
) -> None:
    """Compute `out = beta * out + x @ y.T` for a range of the inner axis, four rows of y at a time."""
    zero = x.dtype.type(0)
    fours = columns - columns % 4
    for i in range(rows):
        for k in range(0, fours, 4):
            a = b = c = d = zero
            for offset in range(length):
                j = natural(first + offset)
                a = accumulated(a, x[i, j] * y[k, j])
                b = accumulated(b, x[i, j] * y[k + 1, j])
                c = accumulated(c, x[i, j] * y[k + 2, j])
                d = accumulated(d, x[i, j] * y[k + 3, j])
            out[i, k] = out[i, k] + a if beta else a
            out[i, k + 1] = out[i, k + 1] + b if beta else b
            out[i, k + 2] = out[i, k + 2] + c if beta else c
            out[i, k + 3] = out[i, k + 3] + d if beta else d
        for k in range(fours, columns):
            a = zero
            for offset in range(length):
                j = natural(first + offset)
                a = accumulated(a, x[i, j] * y[k, j])
            out[i, k] = out[i, k] + a if beta else a


@_loops_kernel
def by_four_dots(x: np.ndarray, y: np.ndarray, out: np.ndarray, rows: int, columns: int, inner: int, beta: int) -> None:
    """Compute `out = beta * out + x @ y.T` for x and y with contiguous rows of any length.

    A long float32 sum loses precision; a sum of partial sums loses little.
    """
    for first in range(0, inner, LONGEST_SUM):
        adds = 1 if first > 0 else beta
        dots(x, y, out, rows, columns, first, min(LONGEST_SUM, inner - first), adds)


@_loops_kernel
def with_any_strides(
    x: np.ndarray, y: np.ndarray, out: np.ndarray, rows: int, columns: int, inner: int, beta: int
) -> None:
    """Compute `out = beta * out + x @ y` for arrays with any strides."""
    for i in range(rows):
        for k in range(columns):
            total = 0.0
            for j in range(inner):
                total = accumulated(total, x[i, j] * y[j, k])
            out[i, k] = out[i, k] + total if beta else total


# --- the choice of an implementation ----------------------------------------------------------------------------------

# In debug mode accesses are checked against the true shapes, so no view may change them.
CHECKED = DEBUG
_ROUNDED = Static("rounded")


def in_registers(x: np.ndarray, y: np.ndarray, out: np.ndarray, beta: int, how: str) -> None:
    """Compute `out = beta * out + x @ y` by tiles; see `wyrm.engines.native.ir.program.TiledProduct`.

    `how`: with operands "rounded" to bfloat16 if the program's are, or "exact".
    """
    raise NotImplementedError("only compiled code computes by tiles")


def as_shape(x: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Return a row-major view of this shape over the memory that starts at the array's first element."""
    raise NotImplementedError("only compiled code reinterprets memory")


def element_strides(x: np.ndarray) -> tuple[int, ...]:
    """Return the strides of an array in elements."""
    return tuple(stride // x.itemsize for stride in x.strides)


def multiply(x: np.ndarray, y: np.ndarray, out: np.ndarray, beta: int, how: str) -> None:
    """Compute `out = beta * out + x @ y` with the fastest implementation for the shapes and strides.

    See `in_registers` for `how`.
    """
    rows, columns, inner = out.shape[0], out.shape[1], x.shape[1]
    x_row, x_column = element_strides(x)
    y_row, y_column = element_strides(y)
    out_row, out_column = element_strides(out)
    by_dots = out_column == 1 and y_row == 1 and x_column == 1
    products = rows * columns * inner
    # Threads share larger products, and tiles know how.
    loops = by_dots and products < SHARED_PRODUCTS and (rows == 1 or columns == 1 or products < DOTS_BELOW)
    # A single column whose operands have contiguous columns is a single row of the transposed product.
    across = columns == 1 and x_row == 1 and y_row == 1 and out_row == 1
    if not loops:
        if out_column == 1 and (y_column == 1 or y_row == 1) and not across:
            in_registers(x, y, out, beta, how)
            return
        if out_row == 1 and (x_column == 1 or x_row == 1):
            in_registers(y.T, x.T, out.T, beta, how)
            return
    if inner > 0 and by_dots and not CHECKED:
        if columns == 1 and out_row == 1:  # the transposed product: four rows of x at a time
            first, second, result = as_shape(y, (1, inner)), as_shape(x, (rows, x_row)), as_shape(out, (1, rows))
        else:
            first, second, result = (
                as_shape(x, (rows, x_row)),
                as_shape(y, (columns, y_column)),
                as_shape(out, (rows, out_row)),
            )
        by_four_dots(first, second, result, first.shape[0], second.shape[0], inner, beta)
        return
    with_any_strides(x, y, out, rows, columns, inner, beta)


MULTIPLY = KernelFunction(multiply, distinct=True, fused=True, shared="always")
builtin(as_shape)(calls.as_shape)
builtin(element_strides)(calls.element_strides)
builtin(accumulated)(calls.accumulate)
builtin(natural)(calls.natural)


@builtin(product.multiply_into)
def _multiply_into(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a call of `multiply`, with a check of the shapes at run time."""
    return _checked(body, arguments, _ROUNDED)


@builtin(product.multiply_exactly)
def _multiply_exactly(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a product whose operands are not rounded."""
    return _checked(body, arguments, Static("exact"))


def _checked(body: Expressions, arguments: Sequence[KernelValue], how: Static) -> KernelValue:
    x, y, out, beta = arguments
    if not (isinstance(x, View) and isinstance(y, View) and isinstance(out, View)):
        raise NotCompiled("multiply_into takes three arrays")
    if not len(x.shape) == len(y.shape) == len(out.shape) == 2:
        raise NotCompiled("multiply_into takes three matrices, with two axes each")
    if not x.element == y.element == out.element:
        raise NotCompiled(
            f"multiply_into: x is {x.element}, y is {y.element}, out is {out.element}; they must have the same dtype"
        )
    pairs = [(x.shape[0], out.shape[0]), (x.shape[1], y.shape[0]), (y.shape[1], out.shape[1])]
    same_size(body, pairs, "multiply_into: the shapes of x, y and out do not match")
    return body.invoke(MULTIPLY, [general(x), general(y), general(out), beta, how])


@builtin(narrow_product.multiply_widened)
def _multiply_widened(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a product by tiles if the right operand has narrower numbers; the shapes are the caller's care then."""
    if len({each.element for each in arguments if isinstance(each, View)}) == 1:
        return _multiply_into(body, [*arguments, literal(0)])
    return calls.in_registers(body, [*arguments, literal(0), _ROUNDED])


@builtin(convolution_kernels.rows_of_tile)
def _rows_of_tile(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Return the most rows of a tile of this processor."""
    return literal(most_rows(body.translation.target or host()))


@builtin(convolution_kernels.masks_rows)
def _masks_rows(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Return whether this processor reads a part of a vector as fast as a whole one."""
    return literal((body.translation.target or host()).masks)


@builtin(convolution_kernels.shifted_sums)
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

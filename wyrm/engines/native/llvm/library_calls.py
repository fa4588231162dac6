"""Calls of BLAS and LAPACK in kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wyrm.engines.native.ir.program import Expression, LibraryCall, Number
from wyrm.engines.native.ir.types import FLOAT32, FLOAT64, INT32, UINT8
from wyrm.engines.native.kernels import calls
from wyrm.engines.native.kernels.arithmetic import as_type
from wyrm.engines.native.kernels.calls import builtin
from wyrm.engines.native.kernels.expressions import Expressions
from wyrm.engines.native.kernels.functions import KernelFunction, kernel_of
from wyrm.engines.native.kernels.values import KernelValue, NotCompiled, Num, Static, View, literal
from wyrm.engines.native.llvm.lapack import LAPACK
from wyrm.engines.native.llvm.multiply import element_strides, in_registers
from wyrm.ops.kernels import eigenvalues, native
from wyrm.support.imports import scipy_is_installed

# --- products ---------------------------------------------------------------------------------------------------------

# The numbers of CBLAS: rows are contiguous, a matrix is read as it is, or transposed.
_BY_ROWS, _AS_IT_IS, _TRANSPOSED = 101, 111, 112
_LARGEST = 2**31 - 1


def tiles(x: np.ndarray, y: np.ndarray, out: np.ndarray, beta: int, how: str) -> None:
    """Compute `out = beta * out + x @ y` by tiles."""
    raise NotImplementedError("only compiled code computes by tiles")


def gemm(*arguments: object) -> None:
    """Call the product of CBLAS for the float type of its arrays."""
    raise NotImplementedError("only compiled code calls CBLAS")


def by_library(x: np.ndarray, y: np.ndarray, out: np.ndarray, beta: int) -> None:
    """Compute `out = beta * out + x @ y` by CBLAS where it reads all operands as they lie, else by tiles."""
    rows, columns, inner = out.shape[0], out.shape[1], x.shape[1]
    x_row, x_column = element_strides(x)
    y_row, y_column = element_strides(y)
    out_row, _ = element_strides(out)
    x_by_rows = x_column == 1 and x_row >= inner
    y_by_rows = y_column == 1 and y_row >= columns
    x_fits = x_by_rows or (x_row == 1 and x_column >= rows)
    y_fits = y_by_rows or (y_row == 1 and y_column >= inner)
    largest = max(rows, columns, inner, x_row, x_column, y_row, y_column, out_row)
    if inner > 0 and rows > 0 and columns > 0 and x_fits and y_fits and out_row >= columns and largest <= _LARGEST:
        gemm(
            _BY_ROWS, _AS_IT_IS if x_by_rows else _TRANSPOSED, _AS_IT_IS if y_by_rows else _TRANSPOSED,
            rows, columns, inner, 1.0, x, x_row if x_by_rows else x_column, y, y_row if y_by_rows else y_column,
            1.0 if beta else 0.0, out, out_row,
        )  # fmt: skip
    else:
        tiles(x, y, out, beta, "exact")


_BY_LIBRARY = KernelFunction(by_library)
builtin(tiles)(calls.in_registers)


@builtin(in_registers)
def _in_registers(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a product by tiles, or by the CBLAS of the target."""
    target = body.translation.target
    if target is not None and target.cblas:
        return body.invoke(_BY_LIBRARY, arguments[:4])
    return calls.in_registers(body, arguments)


@builtin(gemm)
def _gemm(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a call of CBLAS, which takes its arguments by value."""
    (number,) = {each.element for each in arguments if isinstance(each, View)}
    operands: list[Expression] = []
    for each in arguments:
        if isinstance(each, View):
            operands.append(each.pointer)
        elif isinstance(each, Num):
            operands.append(as_type(each, number if each.type.kind == "f" else INT32).expression)
        else:
            raise NotCompiled("gemm takes numbers and arrays")
    name = "cblas_sgemm" if number == FLOAT32 else "cblas_dgemm"
    body.builder.add(LibraryCall(name, tuple(operands), by_value=True))
    return literal(0)


# --- factorizations ---------------------------------------------------------------------------------------------------

_WITHOUT_LIBRARY = {
    function.__name__: kernel_of(function) for name, function in vars(eigenvalues).items() if f"d{name}" in LAPACK
}


@builtin(native.lapack)
def _lapack(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a call of a library function, or of the kernel that does its work where there is no library."""
    name, *given = arguments[0], *map(_without_letter, arguments[1:])
    floats = {each.element for each in given if isinstance(each, View)} & {FLOAT32, FLOAT64}
    full = f"{'s' if floats == {FLOAT32} else 'd'}{name.value if isinstance(name, Static) else ''}"
    if full not in LAPACK or len(floats) != 1:
        raise NotCompiled(f"lapack takes the name of a function and arrays of one float type; no function is {full!r}")
    target = body.translation.target
    if not scipy_is_installed() or (target is not None and not target.has_libraries):
        return body.invoke(_WITHOUT_LIBRARY[full[1:]], given)
    (number,) = floats
    operands: list[Expression] = []
    for each in given:
        if isinstance(each, View) and each.element in (number, INT32) and each.layout == "contiguous":
            operands.append(each.pointer)
        elif isinstance(each, Num) and each.type == UINT8:
            operands.append(each.expression)
        elif isinstance(each, Num):
            operands.append(as_type(each, number if each.type.kind == "f" else INT32).expression)
        else:
            raise NotCompiled(f"{full}: an argument is not a letter, a scalar, or a row-major array of its types")
    body.builder.add(LibraryCall(f"wyrm_{full}", tuple(operands)))
    return literal(0)


def _without_letter(argument: KernelValue) -> KernelValue:
    """Return a number instead of a text of one letter."""
    if isinstance(argument, Static) and isinstance(argument.value, str) and len(argument.value) == 1:
        return Num(Number(ord(argument.value), UINT8))
    return argument

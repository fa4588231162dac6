"""Calls of BLAS and LAPACK functions in kernels."""

from __future__ import annotations

from collections.abc import Sequence

from wyrm.engines.native.ir.program import Expression, LibraryCall, Number
from wyrm.engines.native.ir.types import FLOAT32, FLOAT64, INT32, UINT8
from wyrm.engines.native.kernels.arithmetic import as_type, literal
from wyrm.engines.native.kernels.calls import builtin
from wyrm.engines.native.kernels.errors import NotCompiled
from wyrm.engines.native.kernels.expressions import Expressions
from wyrm.engines.native.kernels.values import Num, Static, Value, View
from wyrm.engines.native.llvm.blas import LAPACK
from wyrm.ops.kernels import lapack


@builtin(lapack.lapack)
def _lapack(body: Expressions, arguments: Sequence[Value]) -> Value:
    """Add a call of a library function."""
    name, *given = arguments
    floats = {each.element for each in given if isinstance(each, View)} & {FLOAT32, FLOAT64}
    full = f"{'s' if floats == {FLOAT32} else 'd'}{name.value if isinstance(name, Static) else ''}"
    if full not in LAPACK or len(floats) != 1:
        raise NotCompiled(f"lapack takes the name of a function and arrays of one float type; no function is {full!r}")
    (number,) = floats
    operands: list[Expression] = []
    for each in given:
        if isinstance(each, View) and each.element in (number, INT32) and each.layout == "contiguous":
            operands.append(each.pointer)
        elif isinstance(each, Static) and isinstance(each.value, str) and len(each.value) == 1:
            operands.append(Number(ord(each.value), UINT8))
        elif isinstance(each, Num) and each.type == UINT8:
            operands.append(each.expression)
        elif isinstance(each, Num):
            operands.append(as_type(each, number if each.type.kind == "f" else INT32).expression)
        else:
            raise NotCompiled(f"{full}: an argument is not a letter, a scalar, or a row-major array of its types")
    body.builder.add(LibraryCall(full, tuple(operands)))
    return literal(0)

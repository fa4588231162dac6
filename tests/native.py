"""A helper that compiles a single kernel the way programs do."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from wyrm.engines.native.ir.arrays import ArrayFunction, ArraySize, CallResult, CountedLoop, Element, Name, Store
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.kernels.functions import kernel_of
from wyrm.engines.native.llvm.library import CompiledFunction


def compiled(function: Callable[..., Any], *, elementwise: bool = False) -> Callable[..., Any]:
    """Compile a kernel; with `elementwise`, a scalar function becomes `(x, out)`, applied to each element of x."""
    assert isinstance(function, FunctionType)
    kernel = kernel_of(function)
    if not elementwise:
        return CompiledFunction(kernel)
    i = Name("i")
    store = Store("out", (i,), CallResult(kernel, (Element("x", (i,)),)))
    return CompiledFunction(
        ArrayRoutine(
            ArrayFunction("fill", ("x", "out"), (CountedLoop("i", ArraySize("x", 0), (store,)),)), distinct=True
        )
    )

"""Kernels compiled by themselves, as programs compile them."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from wyrm.backends.llvm.library import Entry
from wyrm.ir.arrays import ArrayFunction, Element, Extent, Loop, Name, Result, Store
from wyrm.kernels.arrays import ArrayRoutine
from wyrm.kernels.functions import kernel_of


def compiled(function: Callable[..., Any], *, elementwise: bool = False) -> Callable[..., Any]:
    """A kernel; `elementwise`, a function of a number for each element: `(x, out)`."""
    assert isinstance(function, FunctionType)
    kernel = kernel_of(function)
    if not elementwise:
        return Entry(kernel)
    i = Name("i")
    made = Store("out", (i,), Result(kernel, (Element("x", (i,)),)))
    return Entry(
        ArrayRoutine(ArrayFunction("fill", ("x", "out"), (Loop("i", Extent("x", 0), (made,)),)), distinct=True)
    )

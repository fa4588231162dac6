"""The decorators of generated code: what numba is told about each kind of function.

Importing this imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba import njit
from numba.core.compiler import Compiler

# Sums may be reordered and products fused with sums, which vector code needs; nothing assumes that there is no NaN.
FAST_MATH = {"reassoc", "contract", "nsz"}
# Generated code and kernels make no arrays, so they need not count who holds those that they are given: that costs
# more than the work where a function with a few array arguments is called for every row.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "fastmath": FAST_MATH, "_nrt": False}

Function = Callable[..., Any]


class _Distinct(Compiler):
    """A compiler for functions whose array arguments do not overlap, which lets their loops be vectorised."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)  # type: ignore[no-untyped-call]  # numba's class
        self.state.flags.noalias = True


def loops(function: Function) -> Function:
    """Compile a function of generated loops; no two of its arguments overlap."""
    return cast(Function, njit(pipeline_class=_Distinct, forceinline=True, **OPTIONS)(function))


def kernel(function: Function) -> Function:
    """Compile the kernel of an op, or a function that it calls; what it writes overlaps with no other argument."""
    return cast(Function, njit(pipeline_class=_Distinct, **OPTIONS)(function))


def inlined(function: Function) -> Function:
    """Compile a function that becomes a part of those that call it."""
    return cast(Function, njit(forceinline=True, **OPTIONS)(function))


def precise(function: Function) -> Function:
    """Compile a function whose sums keep their order, as a part of those that call it."""
    return cast(Function, njit(forceinline=True, **{**OPTIONS, "fastmath": {"contract", "nsz"}})(function))


def entry(function: Function) -> Function:
    """Compile the function that a program calls, and keep it in the folder of its source."""
    return cast(Function, njit(cache=True, **OPTIONS)(function))


def kept(function: Function) -> Function:
    """Compile generated loops or a kernel to be called from Python, and keep them in the folder of their source."""
    return cast(Function, njit(cache=True, pipeline_class=_Distinct, **OPTIONS)(function))

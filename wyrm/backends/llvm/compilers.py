"""The decorators of generated code: what the compiler is told about each kind of function.

Functions of all kinds can be called from Python too, and are compiled for that when they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wyrm.backends.llvm.library import Entry
from wyrm.ops.sums import accumulated, natural

Function = Callable[..., Any]

__all__ = [
    "accumulated", "entry", "fused", "fused_kernel", "inlined", "kernel", "large_entry", "loops", "natural", "steps",
]  # fmt: skip

# Products may be fused with sums inside the ops of this library. The arithmetic of users is done as it is written,
# which gives the numbers of NumPy.


def loops(function: Function) -> Entry:
    """Compile a function of generated loops; no two of its arguments overlap."""
    return Entry(function, distinct=True, generated=True)


def kernel(function: Function) -> Entry:
    """Compile the kernel of an op, or a function that it calls; what it writes overlaps with no other argument."""
    return Entry(function, distinct=True, shared="called")


def fused_kernel(function: Function) -> Entry:
    """Compile a kernel whose products may be fused with sums."""
    return Entry(function, distinct=True, fused=True, shared="called")


def inlined(function: Function) -> Entry:
    """Compile a function that becomes a part of those that call it."""
    return Entry(function, inlined=True)


def fused(function: Function) -> Entry:
    """Compile a function whose products may be fused with sums, as a part of those that call it."""
    return Entry(function, inlined=True, fused=True)


def steps(function: Function) -> Entry:
    """Compile a loop inside a graph, some arguments of which are views of others."""
    return Entry(function, calls_shared=True, generated=True)


def entry(function: Function) -> Entry:
    """Compile the function that a program calls, and keep it on disk."""
    return Entry(function, calls_shared=True, generated=True)


def large_entry(function: Function) -> Entry:
    """Compile the function of a large program, whose parts are compiled apart."""
    return Entry(function, calls_shared=True, calls_apart=True, generated=True)

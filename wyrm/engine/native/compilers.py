"""The decorators of generated code: what numba is told about each kind of function; and how it adds up terms.

Importing this imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from io import BytesIO
from typing import Any, cast

from llvmlite import ir
from llvmlite.binding import Linkage
from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.event import Event, Listener, install_listener
from numba.extending import intrinsic

# Products may be fused with sums inside the ops of this library. The arithmetic of users is done as it is written,
# which gives the numbers of NumPy.
FUSED = {"contract"}
# What is allowed of an addition to a total: the terms in another order, which vector code needs.
_REORDERED = ("reassoc", "contract", "nsz")
# Generated code and kernels make no arrays, so they need not count who holds those that they are given: that costs
# more than the work where a function with a few array arguments is called for every row.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}

Function = Callable[..., Any]


class _Part(JITCodeLibrary):
    """A function that only other functions call: they take it in, and it becomes no machine code of its own."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]  # numba's class
        self._finalized = True


class _Whole(JITCodeLibrary):
    """The machine code of a function with its own copies of all that it calls.

    numba makes those copies weak, so that they give way to code of the same name in the process; where a program is
    loaded from the cache there is none. The two can round otherwise, and a run would not be repeatable.
    """

    def _optimize_final_module(self) -> None:
        for each in self._final_module.functions:
            if each.linkage == Linkage.linkonce_odr:
                each.linkage = Linkage.internal
        super()._optimize_final_module()  # type: ignore[no-untyped-call]  # numba's class


class _Compiler(Compiler):
    """A compiler that makes a library of its own kind, of a function whose array arguments may or may not overlap."""

    library: type[JITCodeLibrary] = _Part
    distinct = False

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)  # type: ignore[no-untyped-call]  # numba's class
        state = self.state
        state.flags.noalias = self.distinct
        state.flags.no_cfunc_wrapper = True
        if state.library is None:
            state.library = self.library(state.targetctx.codegen(), self.library.__name__)
            state.library.enable_object_caching()


class _Inner(_Compiler):
    """The compiler of functions that only other functions call."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.state.flags.no_compile = self.state.flags.no_cpython_wrapper = True

    def compile_extra(self, func: Any) -> Any:
        found = super().compile_extra(func)  # type: ignore[no-untyped-call]  # numba's class
        # numba knows a function by its entry, a builtin. There is none to call: this one stands for it, and raises.
        found = found._replace(entry_point=BytesIO().fileno)
        found.target_context.insert_user_function(found.entry_point, found.fndesc, [found.library])
        return found


class _DistinctInner(_Inner):
    distinct = True


class _Entry(_Compiler):
    library = _Whole


class _DistinctEntry(_Entry):
    distinct = True


def loops(function: Function) -> Function:
    """Compile a function of generated loops; no two of its arguments overlap."""
    return cast(Function, njit(pipeline_class=_DistinctInner, forceinline=True, **OPTIONS)(function))


def kernel(function: Function) -> Function:
    """Compile the kernel of an op, or a function that it calls; what it writes overlaps with no other argument."""
    return cast(Function, njit(pipeline_class=_DistinctInner, **OPTIONS)(function))


def fused_kernel(function: Function) -> Function:
    """Compile a kernel whose products may be fused with sums."""
    return cast(Function, njit(pipeline_class=_DistinctInner, fastmath=FUSED, **OPTIONS)(function))


def inlined(function: Function) -> Function:
    """Compile a function that becomes a part of those that call it."""
    return cast(Function, njit(pipeline_class=_Inner, forceinline=True, **OPTIONS)(function))


def fused(function: Function) -> Function:
    """Compile a function whose products may be fused with sums, as a part of those that call it."""
    return cast(Function, njit(pipeline_class=_Inner, forceinline=True, fastmath=FUSED, **OPTIONS)(function))


def fused_loops(function: Function) -> Function:
    """Compile loops whose products may be fused with sums; no two of their arguments overlap."""
    return cast(Function, njit(pipeline_class=_DistinctInner, forceinline=True, fastmath=FUSED, **OPTIONS)(function))


def steps(function: Function) -> Function:
    """Compile a loop inside a graph, some arguments of which are views of others."""
    return cast(Function, njit(pipeline_class=_Inner, **OPTIONS)(function))


def entry(function: Function) -> Function:
    """Compile the function that a program calls, and keep it in the folder of its source."""
    return cast(Function, njit(cache=True, pipeline_class=_Entry, **OPTIONS)(function))


def kept(function: Function) -> Function:
    """Compile generated loops or a kernel to be called from Python, and keep them in the folder of their source."""
    return cast(Function, njit(cache=True, pipeline_class=_DistinctEntry, **OPTIONS)(function))


def fused_kept(function: Function) -> Function:
    """Compile a kernel whose products may be fused with sums to be called from Python, and keep it likewise."""
    return cast(Function, njit(cache=True, pipeline_class=_DistinctEntry, fastmath=FUSED, **OPTIONS)(function))


# --- sums -------------------------------------------------------------------------------------------------------------


@intrinsic
def accumulated(typing: Any, total: Any, term: Any) -> Any:
    """`total + term`, of the type of `total`, of the terms of a sum in any order; see `wyrm.ops.sums`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        added = context.cast(builder, arguments[1], signature.args[1], signature.args[0])
        return builder.fadd(arguments[0], added, flags=_REORDERED)

    return total(total, term), generate


@intrinsic
def natural(typing: Any, index: Any) -> Any:
    """An index that is known to be at least 0: a loop that uses it needs no check for negative ones."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at_least_zero = builder.icmp_signed(">=", arguments[0], arguments[0].type(0))
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(1)])
        builder.call(builder.module.declare_intrinsic("llvm.assume", fnty=kind), [at_least_zero])
        return arguments[0]

    return index(index), generate


class Compiling(Listener):
    """Whether anything has been compiled, and not only loaded or run."""

    def __init__(self) -> None:
        self.seen = False

    def on_start(self, event: Event) -> None:
        self.seen = True

    def on_end(self, event: Event) -> None:
        pass


def watch_compiling() -> AbstractContextManager[Compiling]:
    """Within it, what it gives knows whether anything has been compiled."""
    watched: AbstractContextManager[Compiling] = install_listener("numba:compile", Compiling())
    return watched

"""The decorators of generated code: what numba is told about each kind of function; and how it adds up terms.

Importing this imports numba.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from io import BytesIO
from typing import Any, cast

from llvmlite import ir
from llvmlite.binding import Linkage
from numba import njit
from numba.core.caching import NullCache
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.event import Event, Listener, install_listener
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from wyrm.engine.interrupts import deliver
from wyrm.engine.native import cache
from wyrm.ops.scratch import DEBUG

# Products may be fused with sums inside the ops of this library. The arithmetic of users is done as it is written,
# which gives the numbers of NumPy.
FUSED = {"contract"}
# What is allowed of an addition to a total: the terms in another order, which vector code needs.
_REORDERED = ("reassoc", "contract", "nsz")
# Generated code and kernels make no arrays, so they need not count who holds those that they are given: that costs
# more than the work where a function with a few array arguments is called for every row.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}
if DEBUG:
    OPTIONS["boundscheck"] = True

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


class _MachineCode(NullCache):
    """The machine code of a function of a generated module, for each signature, in the store of the cache.

    numba's own files have no digest, and are unpickled whoever wrote them.
    """

    def __init__(self, function: Function) -> None:
        # The module's name stands for its source, and for all else that the code depends on.
        self._place = function.__module__, function.__qualname__, function.__code__.co_firstlineno

    def _name(self, signature: Any, generator: Any) -> str:
        return f"wyrm_{cache.key(repr((*self._place, signature, generator.magic_tuple())))}.machine"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        kept = cache.store().read(self._name(sig, target_context.codegen()))
        if kept is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(kept))  # type: ignore[no-untyped-call]  # numba's
        except Exception:
            # What is whole may still be of no use, as where a library that it names has moved: it is compiled again.
            return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        if cres.library.has_dynamic_globals or not all(each.can_cache for each in cres.lifted):
            return
        cache.store().write(self._name(sig, cres.codegen), dumps(cres._reduce()))  # type: ignore[no-untyped-call]  # numba's


def _kept(dispatcher: Any, function: Function) -> Function:
    dispatcher._cache = _MachineCode(function)
    return cast(Function, dispatcher)


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
    """Compile the function that a program calls, and keep it on disk."""
    return _kept(njit(pipeline_class=_Entry, **OPTIONS)(function), function)


def kept(function: Function) -> Function:
    """Compile generated loops or a kernel to be called from Python, and keep them on disk."""
    return _kept(njit(pipeline_class=_DistinctEntry, **OPTIONS)(function), function)


def addressable(function: Function, signature: Any, **options: Any) -> Any:
    """Compile a function of one signature to be called by its address, and keep it on disk."""
    compiled = CFunc(function, normalize_signature(signature), locals={}, options=OPTIONS | options)  # type: ignore[no-untyped-call]  # numba's
    _kept(compiled, function)
    compiled.compile()
    return compiled


def fused_kept(function: Function) -> Function:
    """Compile a kernel whose products may be fused with sums to be called from Python, and keep it likewise."""
    return _kept(njit(pipeline_class=_DistinctEntry, fastmath=FUSED, **OPTIONS)(function), function)


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


class _BetweenPasses(Listener):
    """Runs the handlers of signals that wait before each pass of the compiler, which may raise at any other time."""

    def on_start(self, event: Event) -> None:
        deliver()

    def on_end(self, event: Event) -> None:
        pass


def interruptible() -> AbstractContextManager[Any]:
    """Within it, signals that wait are delivered between the passes of the compiler, and nowhere inside one.

    An exception somewhere else can leave numba with some of its own functions unknown to it, for good.
    """
    between: AbstractContextManager[Any] = install_listener("numba:run_pass", _BetweenPasses())
    return between


def is_compiled(function: object) -> bool:
    """Whether a function is compiled when it is called, and not run by Python."""
    return isinstance(function, Dispatcher)


def compile_for(function: Any, arguments: Iterable[Any]) -> None:
    """Compile a function for arguments like these, or load it, where that has not been done."""
    types = tuple(map(function.typeof_pyval, arguments))
    if types not in function.overloads:
        function.compile(types)


def watch_compiling() -> AbstractContextManager[Compiling]:
    """Within it, what it gives knows whether anything has been compiled."""
    watched: AbstractContextManager[Compiling] = install_listener("numba:compile", Compiling())
    return watched

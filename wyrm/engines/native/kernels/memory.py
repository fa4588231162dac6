"""Memory beside arrays, in kernels: words that threads share, tables, addresses, and calls of what is outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wyrm.engines.native.ir.program import (
    AddressOf,
    Atomic,
    Conversion,
    Expression,
    Fail,
    If,
    LibraryCall,
    Number,
    Offset,
    Operation,
    Symbol,
    Table,
    Variable,
)
from wyrm.engines.native.ir.types import BOOL, INT32, INT64, PointerType, ScalarType
from wyrm.engines.native.kernels.arithmetic import as_type
from wyrm.engines.native.kernels.calls import builtin, numbers
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.values import (
    KernelValue,
    NotCompiled,
    Num,
    Static,
    View,
    contiguous_strides,
    kind_of,
    literal,
    times,
)

if TYPE_CHECKING:
    from wyrm.engines.native.kernels.expressions import Expressions

_COMPILED = "only compiled code has addresses"


# --- words that threads share -----------------------------------------------------------------------------------------


def atomic_load(words: np.ndarray, index: int) -> int:
    """Return a word that other threads may write; see `wyrm.engines.native.ir.program.Atomic`."""
    raise NotImplementedError(_COMPILED)


def atomic_store(words: np.ndarray, index: int, value: int) -> None:
    """Write a word that other threads may read."""
    raise NotImplementedError(_COMPILED)


def atomic_add(words: np.ndarray, index: int, value: int) -> int:
    """Add to a word; return it as it was before."""
    raise NotImplementedError(_COMPILED)


def compare_exchange(words: np.ndarray, index: int, expected: int, value: int) -> bool:
    """Write a word if it is the expected one; return whether it was."""
    raise NotImplementedError(_COMPILED)


def pause() -> None:
    """Let another thread of the processor's core run for some cycles."""
    raise NotImplementedError(_COMPILED)


# --- addresses and calls ----------------------------------------------------------------------------------------------


def address(array: np.ndarray) -> int:
    """Return the address of the first element of an array, 0 for a missing one."""
    raise NotImplementedError(_COMPILED)


def words_of(place: int | str, *shape: int) -> np.ndarray:
    """Return the row-major array of int64 at an address, or at a symbol outside of the program."""
    raise NotImplementedError(_COMPILED)


def table(*words: int) -> np.ndarray:
    """Return an array of these numbers, in int64, until the kernel returns or comes to this table again."""
    raise NotImplementedError(_COMPILED)


def address_of(function: Callable[..., Any], *arguments: object) -> int:
    """Return the address of a kernel, for callers that pass arguments of the kinds of these."""
    raise NotImplementedError(_COMPILED)


def call(function: int | str, *arguments: object) -> int:
    """Call a function of C that returns an int32, at an address or a symbol, with the addresses of arrays."""
    raise NotImplementedError(_COMPILED)


def end_if(status: int) -> None:
    """End the program with a status other than 0."""
    raise NotImplementedError(_COMPILED)


# --- their translation ------------------------------------------------------------------------------------------------


def _register_atomic(
    function: object, name: Literal["load", "store", "add", "compare_exchange"], type: ScalarType | None
) -> None:
    @builtin(function)
    def access(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
        words, *given = arguments
        if not isinstance(words, View) or words.element != INT64 or len(words.shape) != 1:
            raise NotCompiled("threads share words of an array of int64 with one axis")
        index, *values = _integers(given)
        body.builder.check(index, words.shape[0])
        word = Offset(words.pointer, times(index, words.strides[0]), PointerType(INT64))
        result = None if type is None else Variable(body.builder.fresh("before"), type)
        body.builder.add(Atomic(name, word, tuple(values), result))
        return Static(None) if result is None else Num(result)


_register_atomic(atomic_load, "load", INT64)
_register_atomic(atomic_store, "store", None)
_register_atomic(atomic_add, "add", INT64)
_register_atomic(compare_exchange, "compare_exchange", BOOL)


@builtin(pause)
def _pause(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    target = body.translation.target
    architecture = "" if target is None else target.architecture.lower()
    if architecture in ("x86_64", "amd64"):
        body.builder.add(LibraryCall("llvm.x86.sse2.pause", ()))
    elif architecture in ("aarch64", "arm64"):
        body.builder.add(LibraryCall("llvm.aarch64.isb", (Number(15, INT32),), by_value=True))
    return Static(None)


def _word(value: KernelValue) -> Expression:
    """Return the address of an array, or a number."""
    return value.pointer if isinstance(value, View) else numbers([value])[0].expression


@builtin(address)
def _address(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    if len(arguments) != 1 or not isinstance(arguments[0], View):
        raise NotCompiled("address takes an array")
    return Num(Conversion(arguments[0].pointer, INT64))


@builtin(words_of)
def _words_of(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    place, *sizes = arguments
    type = PointerType(INT64)
    pointer = Symbol(place.value, type) if isinstance(place, Static) else Conversion(_word(place), type)
    return _array(body.builder.let(pointer), tuple(body.builder.let(each) for each in _integers(sizes)))


@builtin(table)
def _table(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    found = Variable(body.builder.fresh("table"), PointerType(INT64))
    body.builder.add(Table(found, _integers(arguments)))
    return _array(found, (literal(len(arguments)).expression,))


def _integers(values: Sequence[KernelValue]) -> tuple[Expression, ...]:
    return tuple(as_type(each, INT64).expression for each in numbers(values))


def _array(first: Expression, shape: tuple[Expression, ...]) -> View:
    return View(first, INT64, shape, contiguous_strides(shape), "contiguous")


@builtin(address_of)
def _address_of(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    function, *given = arguments
    if not isinstance(function, Static) or not isinstance(function.value, Routine):
        raise NotCompiled("address_of takes a kernel, and arguments of the kinds of its parameters")
    specialized = body.translation.specialized(function.value, tuple(map(kind_of, given)))
    found = Variable(body.builder.fresh("address"), INT64)
    body.builder.add(AddressOf(found, specialized.function.name))
    return Num(found)


@builtin(call)
def _call(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    function, *values = (each.value if isinstance(each, Static) else _word(each) for each in arguments)
    status = Variable(body.builder.fresh("status"), INT32)
    body.builder.add(LibraryCall(function, tuple(values), by_value=True, result=status))
    return Num(status)


@builtin(end_if)
def _end_if(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    (given,) = numbers(arguments)
    status = body.builder.let(as_type(given, INT32).expression)
    body.builder.add(If(Operation("not_equal", (status, literal(0).expression), BOOL), (Fail(status),)))
    body.builder.fails = True
    return Static(None)

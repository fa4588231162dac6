"""The type of a `NumbaFunction` for numba, and the code of its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.core.typing.templates import signature
from numba.extending import (
    NativeValue,
    intrinsic,
    lower_builtin,
    make_attribute_wrapper,
    models,
    overload,
    register_model,
    typeof_impl,
    unbox,
)

from wyrm.numba.compiled import NumbaFunction

# What native code takes of a function, in the order of `NumbaFunction.native`.
_FIELDS = ("entry", "table", "step", "inputs", "bounds", "outputs")
_TABLE = types.Array(types.int64, 1, "C")
_BOUNDS = types.Array(types.int64, 2, "C")


class FunctionType(types.Callable):  # type: ignore[misc]  # numba has no types
    """The type of functions whose inputs and outputs have these dtypes and numbers of axes."""

    def __init__(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.fields = (
            types.uintp, _TABLE, types.intp, types.Tuple(inputs), types.Tuple((_BOUNDS,) * len(inputs)),
            types.Tuple(outputs),
        )  # fmt: skip
        super().__init__(f"wyrm.numba.callable({', '.join(map(str, inputs))}) -> ({', '.join(map(str, outputs))})")

    @property
    def result(self) -> Any:
        """The type of what a call returns."""
        found = [each.dtype if not each.ndim else each.copy(layout="C") for each in self.outputs]
        return found[0] if len(found) == 1 else types.Tuple(found)

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call; raise `TypingError` for arguments of other types."""
        if kws or len(args) != len(self.inputs):
            raise errors.TypingError(f"a function of wyrm.numba.callable takes {len(self.inputs)} arrays by position")
        for position, (given, own) in enumerate(zip(args, self.inputs, strict=True)):
            if not _fits(given, own):
                wanted = f"an array of {own.dtype} with {own.ndim} axes" if own.ndim else f"a number of {own.dtype}"
                raise errors.TypingError(
                    f"argument {position} of a function of wyrm.numba.callable is {wanted}, as its example, not {given}"
                )
        return signature(self.result, *args, recvr=self)

    def get_call_signatures(self) -> tuple[tuple[Any, ...], bool]:
        """Return the known signatures: none, because they depend on the arguments."""
        return (), True

    def get_impl_key(self, sig: Any) -> Any:
        """Return the key of the implementation."""
        return FunctionType


def _fits(given: Any, own: Any) -> bool:
    if isinstance(given, types.Array):
        return bool(given.dtype == own.dtype and given.ndim == own.ndim)
    return bool(own.ndim == 0 and types.unliteral(given) == own.dtype)


def _array_type(array: np.ndarray) -> Any:
    return types.Array(numba.from_dtype(array.dtype), array.ndim, "C" if array.flags.c_contiguous else "A")


@typeof_impl.register(NumbaFunction)
def _typeof(function: NumbaFunction, _context: Any) -> FunctionType:
    *_, inputs, _, outputs = function.native
    return FunctionType(tuple(map(_array_type, inputs)), tuple(map(_array_type, outputs)))


@register_model(FunctionType)
class _Model(models.StructModel):  # type: ignore[misc]  # numba has no types
    def __init__(self, manager: Any, type: FunctionType) -> None:
        super().__init__(manager, type, list(zip(_FIELDS, type.fields, strict=True)))


for _name in _FIELDS:
    make_attribute_wrapper(FunctionType, _name, _name)


@unbox(FunctionType)
def _unbox(type: FunctionType, value: Any, c: Any) -> Any:
    whole = c.pyapi.object_getattr_string(value, "native")
    native = c.unbox(types.Tuple(type.fields), whole)
    c.pyapi.decref(whole)
    found = cgutils.create_struct_proxy(type)(c.context, c.builder)
    for position, name in enumerate(_FIELDS):
        setattr(found, name, c.builder.extract_value(native.value, position))
    return NativeValue(found._getvalue(), is_error=native.is_error, cleanup=native.cleanup)


# --- a call -----------------------------------------------------------------------------------------------------------


def _typed_run(_context: Any, entry: Any, table: Any) -> Any:
    """Call machine code at an address with the address of its table of arguments; return its status."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        address, table = arguments
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(8).as_pointer()])
        words = context.make_array(_TABLE)(context, builder, table)
        data = builder.bitcast(words.data, ir.IntType(8).as_pointer())
        return builder.call(builder.inttoptr(address, kind.as_pointer()), [data])

    return types.int32(entry, table), generate


_run: Any = intrinsic(_typed_run)


def _fill(targets: Any, bounds: Any, given: Any) -> None:
    """Copy arrays to those of the program; raise `ValueError` or `IndexError` before the first that does not fit."""


@overload(_fill, strict=False)  # the names of parameters agree, annotations need not
def _fill_all(targets: Any, bounds: Any, given: Any) -> Callable[..., None]:
    if not len(targets):
        return lambda targets, bounds, given: None

    def fill(targets: Any, bounds: Any, given: Any) -> None:
        _copy_array(targets[0], bounds[0], given[0])
        _fill(targets[1:], bounds[1:], given[1:])

    return fill


def _copy_array(target: Any, bounds: Any, given: Any) -> None:
    """Copy one array."""


@overload(_copy_array, strict=False)
def _put_one(target: Any, bounds: Any, given: Any) -> Callable[..., None]:
    number, integer = not isinstance(given, types.Array), isinstance(target.dtype, types.Integer)

    def put(target: Any, bounds: Any, given: Any) -> None:
        if target.shape != given.shape:
            raise ValueError("an array has not the shape of its example")
        if integer and len(bounds):
            for position, each in enumerate(given.flat):
                if not bounds[position, 0] <= each <= bounds[position, 1]:
                    raise IndexError("an index is out of range")
        target[...] = given

    def put_number(target: Any, bounds: Any, given: Any) -> None:
        if integer and len(bounds) and not bounds[0, 0] <= given <= bounds[0, 1]:
            raise IndexError("an index is out of range")
        target[()] = given

    return put_number if number else put


def _results(outputs: Any) -> Any:
    """Return new arrays of the outputs."""


@overload(_results, strict=False)
def _all_results(outputs: Any) -> Callable[..., Any]:
    if not len(outputs):
        return lambda outputs: ()
    if not outputs[0].ndim:
        return lambda outputs: (outputs[0][()], *_results(outputs[1:]))
    return lambda outputs: (outputs[0].copy(), *_results(outputs[1:]))


def _called(function: Any, given: Any) -> Any:
    """Call a function with a tuple of its arguments; return a tuple of its outputs."""
    _fill(function.inputs, function.bounds, given)
    if _run(function.entry, function.table) != 0:
        raise ValueError("the program failed: call the function from Python to see why")
    if function.step >= 0:
        function.table[function.step] += 1
    return _results(function.outputs)


@lower_builtin(FunctionType, FunctionType, types.VarArg(types.Any))
def _lower_call(context: Any, builder: Any, signature_: Any, arguments: Sequence[Any]) -> Any:
    function, *given = signature_.args
    several = types.Tuple(given)
    packed = context.make_tuple(builder, several, arguments[1:])
    single = len(function.outputs) == 1
    result = types.Tuple((function.result,)) if single else function.result
    found = context.compile_internal(
        builder, _called, signature(result, function, several), [arguments[0], packed]
    )  # fmt: skip
    return builder.extract_value(found, 0) if single else found

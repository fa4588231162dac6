"""What kernels of exports can do beyond other kernels: they find arrays in the memory of an export.

`block` is the block of memory and the constant data. An array is found by the place of its first byte there, because
neither has a known address. The table of an entry has the words of its arguments: those of an array are its address,
its sizes and its strides, as far as its kind does not imply them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wyrm.engines.native.ir.program import Conversion, Expression, Load, Offset, StoreAt
from wyrm.engines.native.ir.types import INT64, UINT8, PointerType
from wyrm.engines.native.kernels.arithmetic import as_type
from wyrm.engines.native.kernels.calls import as_shape, builtin, numbers
from wyrm.engines.native.kernels.expressions import Expressions
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.values import (
    KernelValue,
    Static,
    TupleValue,
    View,
    dtype_named,
    fields_of,
    kind_of,
    literal,
    plus,
    rebuilt,
    types_of,
)
from wyrm.exporting.image import DataArray, Kind, Region

if TYPE_CHECKING:
    from wyrm.exporting.runs import ArrayPlace

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Return a kernel of exports, whose callees of other rooms are modules of their own, which the cache keeps."""
    found: Any = KernelFunction(function, calls_shared=True)
    result: Function = found
    return result


def array_at(block: Any, place: Region | int, dtype: Any, shape: tuple[int, ...] = ()) -> Any:
    """Return the row-major array that begins a region, or at a place of the block, by default without axes."""
    raise NotImplementedError(_COMPILED)


def in_data(block: Any, value: float | DataArray) -> Any:
    """Return an array of the data, and a number as it is."""
    raise NotImplementedError(_COMPILED)


def view_at(block: Any, table: np.ndarray, array: ArrayPlace) -> Any:
    """Return an array of a program whose table is filled."""
    raise NotImplementedError(_COMPILED)


def put_at(table: np.ndarray, at: int, array: np.ndarray) -> None:
    """Write the words of an array to a table from `at` on."""
    raise NotImplementedError(_COMPILED)


_COMPILED = "only compiled code has addresses"


@builtin(array_at)
def _array_at(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    block, place, dtype, *rest = arguments
    data = isinstance(place, Static) and place.value.kind is Kind.CONSTANT
    start = literal(place.value.offset) if isinstance(place, Static) else numbers([place])[0]
    first = View(_behind(block, data, as_type(start, INT64).expression), dtype_named(dtype), (), (), "contiguous")
    return as_shape(body, [first, *rest]) if rest else first


@builtin(in_data)
def _in_data(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    block, value = arguments
    return _array_at(body, [block, *value.items]) if isinstance(value, TupleValue) else value


@builtin(view_at)
def _view_at(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    block, table, array = arguments
    assert isinstance(table, View) and isinstance(array, Static)
    kind, at = array.value.kind, array.value.at
    words = [body.builder.let(Load(table.pointer, _literal_number(at + i), INT64)) for i in range(len(types_of(kind)))]
    return rebuilt(kind, [_behind(block, array.value.constant, words[0]), *words[1:]])


@builtin(put_at)
def _put_at(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    table, at, array = arguments
    assert isinstance(table, View) and isinstance(array, View)
    (first,) = numbers([at])
    for i, word in enumerate(fields_of(array, kind_of(array))):
        number = Conversion(word, INT64) if isinstance(word.type, PointerType) else word
        body.builder.add(StoreAt(table.pointer, plus(first.expression, _literal_number(i)), number))
    return Static(None)


def _behind(block: KernelValue, data: bool, place: Expression) -> Expression:
    """Return the address of a place in the block, or in the data."""
    assert isinstance(block, TupleValue)
    memory = block.items[data]
    assert isinstance(memory, View)
    return Offset(memory.pointer, place, PointerType(UINT8))


def _literal_number(value: int) -> Expression:
    return literal(value).expression

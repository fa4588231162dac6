"""The module of exported functions: kernels with C's parameters, and what several of them do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from wyrm.engines.native.ir.types import FLOAT64, INT32, INT64, UINT8, scalar_of
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.memory import address, call
from wyrm.engines.native.kernels.values import GroupKind, Kind, NumKind, StaticKind, ViewKind
from wyrm.engines.native.llvm.call_table import returned_type
from wyrm.engines.native.llvm.multiply import as_shape
from wyrm.engines.native.run.shuffle import are_within, is_finite
from wyrm.exporting import errors
from wyrm.exporting.batches import BatchSizes
from wyrm.exporting.image import DataArray, Image, Region
from wyrm.exporting.interface import FunctionParameter, FunctionSignature, Role, Tensor
from wyrm.exporting.intrinsics import array_at, kernel, put_at, view_at
from wyrm.exporting.kernels import are_offsets, count_outside, forget_count, forget_rows
from wyrm.exporting.plan import Given, GivenLengths, PlannedFormulas, Prediction, Training
from wyrm.exporting.routines import Bound, Code
from wyrm.exporting.tables import fill, table_of
from wyrm.ops.kernels.native import OUT_OF_RANGE

# The words at the start of a block: the version, whether the parameters are set, and the learning rates of groups.
VERSION, READY, RATES = 0, 1, 8
_MEMORY = FunctionParameter("memory", Role.MEMORY)
# What a kernel takes: parameters of the exported function, or an integer that is always the same.
Argument: TypeAlias = "FunctionParameter | Sequence[Argument] | int"


@dataclass(eq=False)
class Model:
    """What all functions of an export know of it.

    `tensors` are those of the block, and those that a training changes begin at `first`; `floats` are the places and
    the lengths of those of each type, and `changed` of those that a training changes. `version` is the place in the
    data of the number that a block of this model has; `statuses` has the error codes of statuses of routines.
    """

    sizes: BatchSizes
    first: int
    tensors: tuple[Tensor, ...]
    floats: tuple[tuple[np.dtype, DataArray], ...]
    changed: tuple[tuple[np.dtype, DataArray], ...]
    bytes: int
    version: Region
    statuses: tuple[tuple[int, int], ...]


class Module:
    """The module of an export's functions, after the memory has been planned."""

    def __init__(
        self, code: Code, image: Image, sizes: BatchSizes, tensors: Sequence[Tensor], changed: set[str],
        bound: Sequence[Bound], packed: Region,
    ) -> None:  # fmt: skip
        self._code, self._image = code, image
        own = sorted({message for message in code.errors.values() if message != OUT_OF_RANGE})
        # The codes of the errors that operations end with.
        self.own_errors: dict[str, int] = {message: errors.FIRST_OWN_ERROR + i for i, message in enumerate(own)}
        self._version, *_ = image.append(np.zeros(1, np.int64))
        for each in bound:
            each.filled = table_of(image, each, packed.offset)
        self.model: Model = Model(
            sizes, image.changed[0], tuple(tensors), _floats(image, tensors),
            _floats(image, [each for each in tensors if each.name in changed]), image.size, self._version,
            tuple((status, self.own_errors[text]) for status, text in code.errors.items() if text in self.own_errors),
        )  # fmt: skip
        self.signatures: list[FunctionSignature] = []
        # The symbols of the kernels by the names of the translated functions, and the functions of C that call them.
        self._symbols: dict[str, str] = {}
        self._texts: list[str] = []

    def define(
        self, name: str, comment: str, function: Callable[..., int], plan: object, *given: Argument,
        results: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Add an exported function: a kernel, called with the model, a plan, the block, and what else is given."""
        assert isinstance(function, KernelFunction)
        block = GroupKind((_POINTER, _POINTER))
        kinds = (StaticKind(self.model), StaticKind(plan), block, *map(_kind_of, given))
        found = self._code.translated(function, kinds).function
        symbol = self._symbols[found.name] = f"kernel{len(self._symbols)}"
        every = list(_each(given))
        signature = FunctionSignature(
            name, [_MEMORY, *(each for each in every if not isinstance(each, int))], comment, results
        )
        values = [f"i64 {each}" if isinstance(each, int) else f"{each.llvm} %{each.name}" for each in every]
        returned = returned_type(found)
        parameters = ", ".join(f"{each.llvm} %{each.name}" for each in signature.parameters)
        self._texts += [
            f"define i32 @{name}({parameters}) nounwind {{",
            f"  %found = call {returned} @{symbol}({', '.join(['ptr %memory', 'ptr @data', *values])})",
            f"  %code = extractvalue {returned} %found, {int(found.fails)}",
            "  %short = trunc i64 %code to i32",
            "  ret i32 %short",
            "}",
        ]
        self.signatures.append(signature)

    @cached_property
    def kernels(self) -> tuple[str, frozenset[str]]:
        """The text of all kernels, and the symbols of all other modules."""
        return self._code.together(self._symbols), frozenset(unit.symbol for unit in self._code.units)

    def text(self, version: int) -> str:
        """Return the module of an interface with this version."""
        data = bytearray(self._image.data)
        place = self._version.offset
        data[place : place + 8] = version.to_bytes(8, "little")
        content = "".join(f"\\{byte:02X}" for byte in data)
        constant = f'@data = internal constant [{len(data)} x i8] c"{content}", align 64'
        return "\n".join([self.kernels[0], constant, *self._texts]) + "\n"


def _floats(image: Image, tensors: Sequence[Tensor]) -> tuple[tuple[np.dtype, DataArray], ...]:
    """Return the places and the numbers of elements of all floats, by their types."""
    found: dict[np.dtype, list[tuple[int, int]]] = {}
    for each in tensors:
        if each.dtype.kind == "f" and each.count:
            found.setdefault(each.dtype, []).append((each.offset, each.count))
    return tuple((dtype, image.append(np.array(pairs, np.int64))) for dtype, pairs in found.items())


_POINTER = ViewKind(UINT8, 0, "contiguous")
_KINDS: dict[str, Kind] = {"i64": NumKind(INT64), "i32": NumKind(INT32), "double": NumKind(FLOAT64)}
_ELEMENTS = {Role.ORDER: INT64, Role.RESULTS: FLOAT64, Role.OFFSETS: INT64}


def _each(given: Argument) -> Iterator[FunctionParameter | int]:
    """Yield the parameters and integers of an argument one after the other."""
    if isinstance(given, Sequence):
        for each in given:
            yield from _each(each)
    else:
        yield given


def _kind_of(given: Argument) -> Kind:
    """Return the kind of an argument of a kernel: that of an array is that of its first element."""
    if isinstance(given, Sequence):
        return GroupKind(tuple(map(_kind_of, given)))
    if isinstance(given, int):
        return NumKind(INT64)
    if given.llvm != "ptr":
        return _KINDS[given.llvm]
    number = UINT8 if given.dtype is None or given.dtype == np.bool_ else scalar_of(given.dtype)
    return ViewKind(_ELEMENTS.get(given.role, number or UINT8), 0, "contiguous")


def input_parameters(given: Sequence[Given], lengths: Sequence[GivenLengths]) -> list[FunctionParameter]:
    """Return the parameters for inputs."""
    return [
        FunctionParameter(each.name, Role.INPUT, each.leaf.dtype, each.shape, each.by_rows, each.elements)
        if each.along is None
        else FunctionParameter(
            each.name, Role.INPUT, each.leaf.dtype, each.shape, length=each.elements, along=lengths[each.along].entries
        )
        for each in given
    ]


def length_parameters(lengths: Sequence[GivenLengths]) -> list[list[FunctionParameter]]:
    """Return the parameters for offsets and numbers of entries, in pairs."""
    return [
        [
            FunctionParameter(
                each.offsets, Role.OFFSETS, np.dtype(np.int64), () if each.rows is None else (each.rows,),
                each.rows is None, 1 + (each.rows or 0), each.entries,
            ),
            FunctionParameter(each.entries, Role.ENTRIES, length=each.most),
        ]
        for each in lengths
    ]  # fmt: skip


# --- pieces of functions ----------------------------------------------------------------------------------------------


@kernel
def check_block(model: Model, block: Any) -> int:
    """Return the error code of a block that was not initialized for this model."""
    if address(block[0]) == 0 or address(block[0]) & 63 != 0:
        return errors.MEMORY
    return (
        errors.OK
        if array_at(block, 8 * VERSION, np.int64)[()] == array_at(block, model.version, np.int64)[()]
        else errors.STATE
    )


@kernel
def check_ready(model: Model, block: Any) -> int:
    """Return the error code of a block that was not initialized, or whose parameters were not set."""
    code = check_block(model, block)
    if code == errors.OK and array_at(block, 8 * READY, np.int64, ())[()] != 1:
        return errors.NOT_READY
    return code


@kernel
def place_of(sizes: BatchSizes, size: int) -> int:
    """Return the place of a batch size among the listed ones, -1 for other sizes."""
    if len(sizes.listed) == 0:
        return size - sizes.least if sizes.least <= size <= sizes.most else -1
    for place, each in enumerate(sizes.listed):
        if size == each:
            return place
    return -1


@kernel
def check_data(plan: Prediction | Training, block: Any, columns: Any, lengths: Any, rows: int) -> int:
    """Return the error code of data that is missing, not finite, or has offsets or indices that are out of range."""
    for each, (offsets, entries) in zip(plan.lengths, lengths, strict=True):
        if address(offsets) == 0 or entries < 0 or entries >= 2**31:
            return errors.ARGUMENT
        if not are_offsets(as_shape(offsets, (rows_of(each, rows) + 1,)), entries):
            return errors.OFFSETS
    for given, column in zip(plan.given, columns, strict=True):
        code = _check_column(given, block, column, _count(given, lengths, rows))
        if code != errors.OK:
            return code
    return errors.OK


@kernel
def rows_of(lengths: GivenLengths, rows: int) -> int:
    """Return the number of rows that lengths are of."""
    return rows if lengths.rows is None else lengths.rows


@kernel
def _count(given: Given, lengths: Any, rows: int) -> int:
    """Return the number of rows or entries that an input has."""
    if given.along is not None:
        return int(lengths[given.along][1])
    return rows if given.by_rows else 1


@kernel
def put_columns(plan: Prediction | Training, table: Any, columns: Any, lengths: Any, rows: int) -> None:
    """Write the columns that a program reads itself to its table."""
    for given, at, column in zip(plan.given, plan.words, columns, strict=True):
        if at is not None:
            put_at(table, at, as_shape(column, (_count(given, lengths, rows), given.elements)))
    for each, at, (offsets, _) in zip(plan.lengths, plan.offsets, lengths, strict=True):
        put_at(table, at, as_shape(offsets, (rows_of(each, rows) + 1, 1)))


@kernel
def _check_column(given: Given, block: Any, column: Any, count: int) -> int:
    if address(column) == 0 and (given.along is None or count > 0):  # an array without entries may have no memory
        return errors.ARGUMENT
    values = as_shape(column, (count * given.elements,))
    if given.finite and not is_finite(values):
        return errors.NOT_FINITE
    if given.masks and not are_within(values, 0, 2, 0, 0):
        return errors.ARGUMENT
    for limit in given.limits:
        if limit.used is None:
            if not are_within(values, *limit.bounds):
                return errors.INDEX
        else:
            used = array_at(block, limit.used, np.uint8, (limit.used.size,))
            if count_outside(values, *limit.bounds, used) != 0:
                return errors.INDEX
    return errors.OK


@kernel
def check_finite(floats: tuple[tuple[Any, DataArray], ...], block: Any) -> bool:
    """Return whether all numbers are finite in the arrays of these types whose places and lengths the data has."""
    for dtype, arrays in floats:
        found = array_at(block, *arrays)
        for each in found:
            if not is_finite(array_at(block, each[0], dtype, (each[1],))):
                return False
    return True


@kernel
def error_of(model: Model, run: Any, block: Any, table: Any, status: int) -> int:
    """Clear the sums of rows of a step that was not finished; return the error code of its status."""
    for each in run.touched:
        forget_rows(view_at(block, table, each.sums), view_at(block, table, each.count))
    for count in run.counts:
        forget_count(view_at(block, table, count))
    for known, code in model.statuses:
        if status == known:
            return code
    return errors.INDEX


@kernel
def compute(formulas: PlannedFormulas, block: Any, given: Any, results: Any) -> None:
    """Write the results of formulas of these numbers."""
    if formulas.run is not None:
        table = fill(formulas.run.bound.filled, block, 1, 0)
        for array, number in zip(formulas.fed, given, strict=True):
            if array is not None:
                view_at(block, table, array)[()] = number
        call(formulas.run.bound.entry.symbol, table)
    for i, each in enumerate(formulas.results):
        if each.array is not None:
            results[i] = float(view_at(block, table, each.array)[()])
        elif each.position is not None:
            results[i] = given[each.position]
        else:
            results[i] = each.value

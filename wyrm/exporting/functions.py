"""The exported functions as text for LLVM: they check what they are given, fill tables of words and call routines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wyrm.engines.native.ir.types import FLOAT32, FLOAT64, INT8, INT64, UINT8, UINT16, ScalarType, scalar_of
from wyrm.engines.native.kernels.values import NumKind, ViewKind
from wyrm.engines.native.products.writer import DECLARED, Writer
from wyrm.engines.native.run import shuffle
from wyrm.exporting import kernels
from wyrm.exporting.batches import BatchSizes
from wyrm.exporting.image import Image, Kind, Region
from wyrm.exporting.interface import ERRORS, FIRST_OWN_ERROR, FunctionParameter, FunctionSignature, Role, Tensor
from wyrm.exporting.plan import Given, IndexRange, PlannedFormulas
from wyrm.exporting.routines import ArrayRegions, Code, Entry, array_kind
from wyrm.exporting.runs import ArrayPlace, BoundRun
from wyrm.exporting.writing import (
    ARGUMENT_WORDS,
    TableFunctions,
    Value,
    address,
    call_kernel,
    load,
    refuse_if,
    store,
    value_of,
)
from wyrm.graph.base import BaseNode
from wyrm.ops.kernels.native import OUT_OF_RANGE

# The words at the start of a block: the version, whether the parameters are set, and the learning rates of groups.
VERSION, READY, RATES = 0, 1, 8
_INTEGER = NumKind(INT64)


def code_of(error: str) -> int:
    """Return the code of an error."""
    return ERRORS[error][0]


class Kernels:
    """The kernels that exported functions call, compiled."""

    def __init__(self, code: Code) -> None:
        integers = array_kind(INT64)
        words = array_kind(scalar_of(np.uint64) or INT64)
        self.code = code
        self.count_up: Entry = code.kernel(shuffle.count_up, integers, _INTEGER)
        self.shuffle: Entry = code.kernel(shuffle.shuffle, integers, _INTEGER, words)
        self.epoch_seed: Entry = code.kernel(kernels.epoch_seed, _INTEGER, _INTEGER, words)
        self.forget_count: Entry = code.kernel(kernels.forget_count, integers)
        self.count_outside: Entry = code.kernel(
            kernels.count_outside, integers, _INTEGER, _INTEGER, _INTEGER, _INTEGER, array_kind(UINT8)
        )
        self.finite: dict[ScalarType, Entry] = {
            each: code.kernel(shuffle.is_finite, array_kind(each)) for each in (FLOAT32, FLOAT64)
        }
        self.float16: Entry = code.kernel(kernels.expand_float16, array_kind(UINT16), array_kind(FLOAT32))
        self.int8: Entry = code.kernel(
            kernels.expand_int8, array_kind(INT8, 2), array_kind(FLOAT32), array_kind(FLOAT32, 2)
        )
        self._others: dict[tuple[Any, ...], Entry] = {}

    def within(self, type: ScalarType) -> Entry:
        """Return the kernel that checks a range of integers of a type."""
        return self._kernel(shuffle.are_within, array_kind(type), _INTEGER, _INTEGER, _INTEGER, _INTEGER)

    def forget_rows(self, dtype: np.dtype) -> Entry:
        """Return the kernel that clears sums of rows."""
        number = scalar_of(dtype)
        assert number is not None
        return self._kernel(kernels.forget_rows, array_kind(number, 2), array_kind(INT64))

    def assign(self, source: ArrayPlace) -> Entry:
        """Return the kernel that copies an array of any strides to a row-major one."""
        number = scalar_of(source.dtype)
        assert number is not None
        layouts: dict[int, Any] = {1 + source.axes: "contiguous", 2 * source.axes: "rows", 1 + 2 * source.axes: "any"}
        kind: Any = layouts[len(source.words)] if source.axes else "contiguous"
        return self._kernel(
            kernels.assign,
            ViewKind(number, source.axes, kind),
            array_kind(number, source.axes),
        )

    def _kernel(self, function: Any, *kinds: Any) -> Entry:
        key = function, *kinds
        if key not in self._others:
            self._others[key] = self.code.kernel(function, *kinds)
        return self._others[key]


class ModuleText:
    """The text of an export's functions, after the memory has been planned."""

    def __init__(self, code: Code, image: Image, kernels: Kernels, sizes: BatchSizes, packed: Region) -> None:
        self.code, self.image, self.kernels, self.sizes = code, image, kernels, sizes
        self.tables = TableFunctions(image, packed.offset)
        self.parts: list[str] = []
        # The codes of the errors that operations end with, by the statuses of routines.
        own = sorted({message for message in code.errors.values() if message != OUT_OF_RANGE})
        self.own_errors: dict[str, int] = {message: FIRST_OWN_ERROR + i for i, message in enumerate(own)}
        # The tensors that a training changes.
        self.trained: list[Tensor] = []

    def text(self, version: int) -> str:
        """Return the module of an interface with this version."""
        image = self.image
        data = "".join(f"\\{byte:02X}" for byte in image.data)
        symbols = sorted({f"declare i32 @{symbol}(ptr)" for symbol in self._symbols()})
        helpers = [self._copy_bytes(), self._zero_bytes(), self._error_of(), self._place_of()]
        number = f"@version = internal constant i64 {version}"
        constant = f'@data = internal constant [{len(image.data)} x i8] c"{data}", align 64'
        return "\n".join([*DECLARED, *symbols, number, constant, *self.tables.texts(), *helpers, *self.parts]) + "\n"

    def _symbols(self) -> set[str]:
        return {entry.symbol for entry in self.code.entries}

    # --- helpers --------------------------------------------------------------------------------------------------

    def _copy_bytes(self) -> str:
        to = Writer()

        def copy(index: str) -> None:
            store(to, "i8", load(to, "i8", address(to, "%from", index)), address(to, "%to", index))

        to.loop("%count", 1, copy)
        return to.function("internal void @copy_bytes(ptr noalias %to, ptr noalias %from, i64 %count) nounwind")

    def _zero_bytes(self) -> str:
        to = Writer()
        to.loop("%count", 1, lambda index: store(to, "i8", 0, address(to, "%to", index)))
        return to.function("internal void @zero_bytes(ptr %to, i64 %count) nounwind")

    def _error_of(self) -> str:
        """Return the function that turns the status of a routine into an error code."""
        to = Writer()
        found = str(code_of("INDEX"))
        for status, message in self.code.errors.items():
            if message in self.own_errors:
                same = to.new(f"icmp eq i32 %status, {status}")
                found = to.select(same, "i32", str(self.own_errors[message]), found)
        return to.function("internal i32 @error_of(i32 %status) nounwind", f"ret i32 {found}")

    def _place_of(self) -> str:
        """Return the function that gives the place of a batch size among the listed ones, -1 for other sizes."""
        to = Writer()
        sizes = self.sizes
        if not sizes.listed:
            inside = to.both(to.compare("sge", "%size", sizes.least), to.compare("sle", "%size", sizes.most))
            found = to.select(inside, "i64", to.subtract("%size", sizes.least), "-1")
        else:
            found = "-1"
            for place, size in enumerate(sizes.listed):
                found = to.select(to.compare("eq", "%size", size), "i64", str(place), found)
        return to.function("internal i64 @place_of(i64 %size) nounwind", f"ret i64 {found}")

    # --- pieces of functions --------------------------------------------------------------------------------------

    def begin(self) -> Writer:
        """Return a writer of a function that calls kernels."""
        to = Writer()
        to.do(f"%arguments = alloca [{ARGUMENT_WORDS} x i64], align 8")
        return to

    def check_memory(self, to: Writer, *, ready: bool = True) -> None:
        """Refuse a block that was not initialized for this model, or whose parameters were not set."""
        word = to.new("ptrtoint ptr %memory to i64")
        refuse_if(to, to.compare("eq", word, 0), code_of("MEMORY"))
        refuse_if(to, to.compare("ne", to.new(f"and i64 {word}, 63"), 0), code_of("MEMORY"))
        own, version = load(to, "i64", self.head(to, VERSION)), load(to, "i64", "@version")
        refuse_if(to, to.compare("ne", own, version), code_of("STATE"))
        if ready:
            refuse_if(to, to.compare("ne", load(to, "i64", self.head(to, READY)), 1), code_of("NOT_READY"))

    def head(self, to: Writer, word: int) -> str:
        """Return the address of a word at the start of the block."""
        return to.address("i64", "%memory", word)

    def at(self, to: Writer, region: Region, offset: int = 0) -> str:
        """Return the address of a region."""
        base = "@data" if region.kind is Kind.CONSTANT else "%memory"
        return address(to, base, region.offset + offset)

    def check_pointer(self, to: Writer, name: str) -> None:
        """Refuse an array that is missing."""
        refuse_if(to, to.new(f"icmp eq ptr %{name}, null"), code_of("ARGUMENT"))

    def check_data(
        self, to: Writer, given: Given, rows: str, limits: Mapping[BaseNode, Sequence[IndexRange]]
    ) -> None:  # fmt: skip
        """Refuse data that is missing, not finite, or indices that are out of range."""
        leaf, pointer = given.leaf, f"%{given.name}"
        self.check_pointer(to, given.name)
        count = to.multiply(rows, given.elements) if given.by_rows else str(given.elements)
        number = scalar_of(leaf.dtype)
        assert number is not None
        if number.kind == "f":
            if getattr(leaf, "_finite", False):
                finite = call_kernel(to, self.kernels.finite[number], [("ptr", pointer), ("i64", count)], "i64")
                refuse_if(to, to.compare("eq", finite, 0), code_of("NOT_FINITE"))
        elif number.kind == "b":
            values: list[Value] = [("ptr", pointer), ("i64", count), *(("i64", word) for word in ("0", "2", "0", "0"))]
            within = call_kernel(to, self.kernels.within(UINT8), values, "i64")
            refuse_if(to, to.compare("eq", within, 0), code_of("ARGUMENT"))
        for limit in limits.get(leaf, ()):
            ignored = (0, 0) if limit.ignored is None else (limit.ignored, 1)
            bounds = (limit.low, limit.high, *ignored)
            values = [("ptr", pointer), ("i64", count), *(("i64", str(bound)) for bound in bounds)]
            if limit.used is None:
                within = call_kernel(to, self.kernels.within(INT64), values, "i64")
                refuse_if(to, to.compare("eq", within, 0), code_of("INDEX"))
            else:
                values += [("ptr", self.at(to, limit.used)), ("i64", str(limit.used.size))]
                outside = call_kernel(to, self.kernels.count_outside, values, "i64")
                refuse_if(to, to.compare("ne", outside, 0), code_of("INDEX"))

    def copy(self, to: Writer, target: str, source: str, count: str | int) -> None:
        """Copy so many bytes."""
        to.do(f"call void @copy_bytes(ptr {target}, ptr {source}, i64 {count})")

    def zero(self, to: Writer, target: str, count: str | int) -> None:
        """Clear so many bytes."""
        to.do(f"call void @zero_bytes(ptr {target}, i64 {count})")

    def elements(self, to: Writer, array: ArrayPlace, size: str, place: str) -> str:
        """Return the number of elements of an array."""
        total = "1"
        for axis in array.shape:
            total = to.multiply(total, value_of(to, axis.value, size, place, self.tables.listed))
        return total

    def copy_in(self, to: Writer, array: ArrayPlace, source: str, size: str, place: str) -> None:
        """Copy a caller's array to one of the program."""
        count = to.multiply(self.elements(to, array, size, place), array.dtype.itemsize)
        self.copy(to, self.tables.pointer(to, array.address, size, place), source, count)

    def copy_out(self, to: Writer, array: ArrayPlace, target: str, size: str, place: str) -> None:
        """Copy an array of the program to the caller's."""
        if array.contiguous:
            count = to.multiply(self.elements(to, array, size, place), array.dtype.itemsize)
            self.copy(to, target, self.tables.pointer(to, array.address, size, place), count)
            return
        words = [self.tables.word(to, word, size, place) for word in array.words]
        shape = words[1 : 1 + array.axes]
        values: list[Value] = [("i64", word) for word in words]
        values += [("ptr", target), *(("i64", each) for each in shape)]
        call_kernel(to, self.kernels.assign(array), values)

    def forget(self, to: Writer, run: BoundRun, size: str, place: str) -> None:
        """Clear the sums of rows of a step that was not finished."""
        counts: dict[tuple[Any, ...], ArrayPlace] = {}
        for each in run.touched:
            words = [self.tables.word(to, word, size, place) for word in (*each.sums.words, *each.count.words)]
            call_kernel(to, self.kernels.forget_rows(each.sums.dtype), [("i64", word) for word in words])
            counts[each.count.words] = each.count
        for array in counts.values():
            words = [self.tables.word(to, word, size, place) for word in array.words]
            call_kernel(to, self.kernels.forget_count, [("i64", word) for word in words])

    def compute(self, to: Writer, planned: PlannedFormulas, inputs: Mapping[BaseNode, str]) -> list[str]:
        """Compute formulas of these values; return the results, all as doubles of LLVM."""
        from wyrm.exporting.writing import double

        run, computed = planned.run, list[str]()
        if run is not None:
            table = self.tables.fill(to, run.bound, "1", "0")
            for leaf, array in run.fed.items():
                store(to, "double", inputs[leaf], self.tables.pointer(to, array.address, "1", "0"))
            to.new(f"call i32 @{run.bound.entry.symbol}(ptr {table})")
            for array in run.outputs:
                type = {"f8": "double", "f4": "float", "i8": "i64"}[array.dtype.str[1:]]
                value = load(to, type, self.tables.pointer(to, array.address, "1", "0"))
                if type == "float":
                    value = to.new(f"fpext float {value} to double")
                elif type == "i64":
                    value = to.new(f"sitofp i64 {value} to double")
                computed.append(value)
        waiting = iter(computed)
        return [
            double(each) if isinstance(each, float | int) else inputs[each] if each.is_leaf else next(waiting)
            for each in planned.formulas.results
        ]

    def define(self, function: FunctionSignature, body: Callable[[Writer], None]) -> None:
        """Add an exported function."""
        to = self.begin()
        body(to)
        self.parts.append(
            to.function(f"i32 @{function.name}({_parameters(function.parameters)}) nounwind", "ret i32 0")
        )


def _parameters(parameters: Sequence[FunctionParameter]) -> str:
    return ", ".join(f"{each.llvm} %{each.name}" for each in parameters)


MEMORY = FunctionParameter("memory", Role.MEMORY)


def input_parameters(given: Sequence[Given]) -> list[FunctionParameter]:
    """Return the parameters for inputs."""
    return [
        FunctionParameter(each.name, Role.INPUT, each.leaf.dtype, each.shape, each.by_rows, each.elements)
        for each in given
    ]


__all__ = [
    "MEMORY",
    "RATES",
    "READY",
    "VERSION",
    "ArrayRegions",
    "Kernels",
    "ModuleText",
    "code_of",
    "input_parameters",
]

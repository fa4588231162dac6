"""Functions that programs call: those of the engine, which are inlined, and kernels of ops, checked before use."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from wyrm.engines.native.kernels.functions import KernelFunction, global_names, kernel_of
from wyrm.engines.native.kernels.njit import NumbaKernel, numba_kernel
from wyrm.errors import RegistrationError
from wyrm.graph.loop_form import is_njit, python_function
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.kernels.native import INVALID_INDEX, OUT_OF_RANGE, lapack
from wyrm.ops.kernels.sums import accumulated, natural, shared_turns
from wyrm.ops.products.product import multiply_exactly, multiply_into

Function = Callable[..., object]


def inlined(function: Function) -> KernelFunction:
    """Return a kernel function that is inlined into its callers."""
    return KernelFunction(function, inlined=True)


@inlined
def claim(row: int, positions: IntegerArray, rows: IntegerArray, count: IntegerArray) -> int:
    """Return the position of a row's sum; a row not touched in this step gets the next position.

    `count[0]` is the number of rows touched in this step. `positions` counts from `count[1]`: smaller numbers are from
    earlier steps.
    """
    position = positions[row] - count[1]
    if position < 0:
        position = natural(count[0])
        positions[row] = count[1] + position
        rows[position] = row
        count[0] = position + 1
    return natural(position)


@inlined
def checked(row: int, size: int) -> int:
    """Return an index into `size` elements; raise `IndexError` if it is out of range."""
    if row < 0 or row >= size:
        raise IndexError(OUT_OF_RANGE)
    return natural(row)


@inlined
def check_all(indices: IntegerArray, size: int) -> None:
    """Raise `IndexError` if an index into `size` elements is out of range."""
    for row in indices.flat:
        if row < 0 or row >= size:
            raise IndexError(OUT_OF_RANGE)


@inlined
def check_from_end(indices: IntegerArray, size: int) -> None:
    """Raise `IndexError` if an index into `size` elements, of which negative ones count from the end, is too far."""
    for row in indices.flat:
        if row < -size or row >= size:
            raise IndexError(OUT_OF_RANGE)


@inlined
def check_counted(indices: IntegerArray, size: int, ignore_index: int) -> None:
    """Raise `IndexError` if an index into `size` elements is out of range and is not `ignore_index`."""
    for row in indices.flat:
        if row != ignore_index and (row < 0 or row >= size):
            raise IndexError(OUT_OF_RANGE)


@inlined
def release(count: IntegerArray) -> None:
    """Forget the touched rows, at the end of a step."""
    count[1] += count[0]
    count[0] = 0


@inlined
def load(column: Array, order: IntegerArray, start: int, out: Array) -> None:
    """Copy the rows `order[start:]` of a (rows, width) column to the flat array `out`, until it is full.

    A column without rows means that the input keeps its data.
    """
    width, first, i = column.shape[1], 0, 0
    if column.shape[0] == 0 or width == 0:
        return
    if width == 1:
        for k in range(out.shape[0]):
            out[k] = column[natural(order[natural(start + k)]), 0]
        return
    # Without the division that would give the row: it takes as long as the rest of a step on numbers.
    while first < out.shape[0]:
        row = natural(order[natural(start + i)])
        for j in range(width):
            out[natural(first + j)] = column[row, j]
        first += width
        i += 1


@inlined
def load_number(column: Array, order: IntegerArray, position: int, out: Array) -> None:
    """Copy the number in row `order[position]` of a column to `out`, as `load` does."""
    if column.shape[0] > 0:
        out[0] = column[natural(order[natural(position)]), 0]


# --- rows of different lengths: a column has their offsets, and none if the data stays --------------------------------


@inlined
def count_entries(offsets: IntegerArray, order: IntegerArray, start: int, batch: int, most: int) -> int:
    """Return the number of entries of the rows of a step; raise `IndexError` if there are more than `most`."""
    if offsets.shape[0] == 0:
        return natural(most)
    total = 0
    for i in range(batch):
        row = natural(order[natural(start + i)])
        total += offsets[natural(row + 1), 0] - offsets[row, 0]
    if total > most:
        raise IndexError(OUT_OF_RANGE)
    return natural(total)


@inlined
def load_entries(column: Array, offsets: IntegerArray, order: IntegerArray, start: int, batch: int, out: Array) -> None:
    """Copy the entries of the rows of a step from a column of all entries to the flat array `out`."""
    width, place = column.shape[1], 0
    if offsets.shape[0] == 0:
        return
    for i in range(batch):
        row = natural(order[natural(start + i)])
        first = natural(offsets[row, 0])
        count = natural(offsets[natural(row + 1), 0] - first)
        if width == 1:
            for k in range(count):
                out[natural(place + k)] = column[natural(first + k), 0]
        else:
            for k in range(count):
                for j in range(width):
                    out[natural(place + natural(k * width) + j)] = column[natural(first + k), j]
        place += natural(count * width)


@inlined
def load_entry_rows(offsets: IntegerArray, order: IntegerArray, start: int, batch: int, out: IntegerArray) -> None:
    """Write the row of each entry of a step, counted from its first row."""
    place = 0
    if offsets.shape[0] == 0:
        return
    for i in range(batch):
        row = natural(order[natural(start + i)])
        count = natural(offsets[natural(row + 1), 0] - offsets[row, 0])
        for k in range(count):
            out[natural(place + k)] = i
        place += count


@inlined
def load_row_starts(offsets: IntegerArray, order: IntegerArray, start: int, batch: int, out: IntegerArray) -> None:
    """Write the position of the first entry of each row among those of a step."""
    place = 0
    if offsets.shape[0] == 0:
        return
    for i in range(batch):
        row = natural(order[natural(start + i)])
        out[i] = place
        place += natural(offsets[natural(row + 1), 0] - offsets[row, 0])


@inlined
def load_row_lengths(offsets: IntegerArray, order: IntegerArray, start: int, batch: int, out: IntegerArray) -> None:
    """Write the number of entries of each row of a step."""
    if offsets.shape[0] == 0:
        return
    for i in range(batch):
        row = natural(order[natural(start + i)])
        out[i] = natural(offsets[natural(row + 1), 0] - offsets[row, 0])


# The functions that read the data of a step, one for each leaf.
LOADS = (load, load_number, load_entries, load_entry_rows, load_row_starts, load_row_lengths)

# --- for loops inside a graph: arrays are flat, or have a row for each step -------------------------------------------


@inlined
def copied(x: Array, out: Array) -> None:
    """`out = x`."""
    for i in range(out.shape[0]):
        out[i] = x[i]


@inlined
def added(x: FloatArray, total: FloatArray) -> None:
    """`total += x`."""
    for i in range(total.shape[0]):
        total[i] += x[i]


@inlined
def taken(rows: Array, step: int, out: Array) -> None:
    """`out = rows[step]`."""
    for i in range(out.shape[0]):
        out[i] = rows[step, i]


@inlined
def put(x: Array, rows: Array, step: int) -> None:
    """`rows[step] = x`."""
    for i in range(rows.shape[1]):
        rows[step, i] = x[i]


# --- where memory is spoiled ------------------------------------------------------------------------------------------


@inlined
def fill_with_nan(x: FloatArray) -> None:
    """Fill a flat array with NaN."""
    for i in range(x.shape[0]):
        x[i] = np.nan


@inlined
def fill_with_invalid_indices(x: IntegerArray) -> None:
    """Fill a flat array with integers that are out of range."""
    for i in range(x.shape[0]):
        x[i] = INVALID_INDEX


@inlined
def fill_with_ones(x: Array) -> None:
    """Fill a flat array of masks, or of random keys, with ones."""
    for i in range(x.shape[0]):
        x[i] = x.dtype.type(1)


# Functions that are not compiled from their Python code.
_BUILTINS: tuple[Any, ...] = (multiply_into, multiply_exactly, lapack, accumulated, natural, shared_turns)
_MODULES = {"numpy", "math"}


class OpKernels:
    """The kernels of one program, in the order of addition."""

    def __init__(self) -> None:
        self.kernels: list[KernelFunction] = []
        # Whether threads share any work, products or loops, and whether any kernel calls LAPACK.
        self.takes_threads: bool = False
        self.calls_lapack: bool = False
        # The functions that numba compiles, and for each the kernel that it is or that calls it.
        self.of_numba: dict[str, str] = {}
        self._checked: dict[FunctionType, None] = {}

    def add(self, function: Callable[..., Any], name: str) -> KernelFunction | NumbaKernel:
        """Add a kernel; raise `RegistrationError` if its source is unknown or it uses what cannot be compiled."""
        if is_njit(function):
            self._checked[python_function(function)] = None
            self.of_numba[python_function(function).__name__] = name
            return numba_kernel(function, name)
        assert isinstance(function, FunctionType)
        self._check_kernel(function, name)
        kernel = kernel_of(function, name)
        if kernel not in self.kernels:
            self.kernels.append(kernel)
        return kernel

    @property
    def sources(self) -> list[str]:
        """The Python code of the kernels, named as they are called, and of the functions that they call."""
        names = {kernel.function: kernel.__name__ for kernel in self.kernels}
        texts = []
        for function in self._checked:
            text, name = textwrap.dedent(inspect.getsource(function)), names.get(function, function.__name__)
            texts.append(re.sub(rf"^def {function.__name__}\b", f"def {name}", text, count=1, flags=re.MULTILINE))
        return texts

    def _check_kernel(self, function: FunctionType, kernel: str) -> None:
        if function in self._checked:
            return
        self._checked[function] = None
        if function.__code__.co_freevars:
            raise RegistrationError(
                f"the kernel {kernel} uses {', '.join(function.__code__.co_freevars)} of the function that encloses "
                f"{function.__name__} ({_where(function)}); a kernel may only use its arguments and the names of its "
                f"module: pass numbers through kernel_arguments"
            )
        if inspect.getsourcefile(function) is None:
            raise RegistrationError(
                f"the kernel {kernel} cannot be compiled: its source is not in a file; define the op in a file or a "
                f"notebook"
            )
        for used in global_names(function.__code__):
            if used in function.__globals__:
                self._check_use(function, used, function.__globals__[used], kernel)

    def _check_use(self, function: FunctionType, used: str, value: Any, kernel: str) -> None:
        self.takes_threads |= any(value is each for each in (multiply_into, multiply_exactly, shared_turns))
        self.calls_lapack |= value is lapack
        if isinstance(value, FunctionType):
            if value not in _BUILTINS:
                self._check_kernel(value, kernel)
            return
        if is_njit(value):
            numba_kernel(value)
            self.of_numba[used] = kernel
            self._checked[python_function(value)] = None
            return
        module = isinstance(value, ModuleType) and value.__name__ in _MODULES
        if not (module or isinstance(value, bool | int | float | str | np.generic | tuple | type)):
            raise RegistrationError(
                f"the kernel {kernel} uses {used}, a {type(value).__name__} ({_where(function)}); a kernel may use np, "
                f"math, numbers, texts, functions under the same rules, and any function decorated with numba.njit"
            )


def _where(function: FunctionType) -> str:
    return f"{function.__name__}, {function.__code__.co_filename}:{function.__code__.co_firstlineno}"

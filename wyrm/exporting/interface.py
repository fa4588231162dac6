"""The functions of an export, the arrays that it saves, and its error codes, as languages around it see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cached_property
from hashlib import sha256

import numpy as np

# Errors of every export by their codes, and what they mean.
ERRORS = {
    "OK": (0, "no error"),
    "MEMORY": (1, "the block of memory is missing, too small, or does not begin at a multiple of 64 bytes"),
    "STATE": (2, "the block of memory was not initialized for this model and version"),
    "NOT_READY": (3, "the parameters were not set: load a file, or write them and call ready"),
    "ARGUMENT": (4, "an argument is missing or out of range"),
    "BATCH": (5, "the model does not take batches of this size"),
    "INDEX": (6, "an index in the data, or one computed from it, is out of range"),
    "NOT_FINITE": (7, "the data holds a NaN or an infinity"),
    "DIVERGED": (8, "the loss or a parameter became a NaN or infinite; the state is as it was before the call"),
    "FULL": (15, "the sequence is as long as the model takes: begin a new one"),
    "TENSORS": (9, "a parameter or a number of the optimizer is a NaN or infinite, or a count is negative"),
}
# Errors of reading and writing files of tensors.
FILE_ERRORS = {
    "FILE_OPEN": (10, "the file cannot be opened"),
    "FILE_FORMAT": (11, "the file is no safetensors file: its header cannot be read"),
    "FILE_OTHER": (12, "the file is of another model: it lacks a tensor, or has one more"),
    "FILE_SHORT": (13, "the file is truncated, or longer than its tensors"),
    "FILE_WRITE": (14, "the file cannot be written; an earlier one is unchanged"),
    "FILE_TYPE": (16, "the file is of another model: a tensor has another type"),
    "FILE_SHAPE": (17, "the file is of another model: a tensor has another shape"),
    "FILE_OFFSETS": (18, "the file is damaged: its header does not place each tensor behind the one before"),
    "FILE_VERSION": (19, "the file was written by another version of wyrm"),
}
# The first code of an error that an operation of a model ends with.
FIRST_OWN_ERROR = 20


class Role(Enum):
    """What a parameter of an exported function is."""

    MEMORY = "memory"
    INPUT = "input"
    OUTPUT = "output"
    ROWS = "rows"
    BATCH = "batch"
    FLAG = "flag"
    SEED = "seed"
    ORDER = "order"
    RESULTS = "results"
    NUMBER = "number"
    TOKEN = "token"
    COUNT = "count"


@dataclass(frozen=True)
class FunctionParameter:
    """A parameter of an exported function.

    An array has a `dtype` and the `shape` of its elements behind the rows; `by_rows`: it has rows, whose number is
    another parameter. `length` is the number of elements of an array without rows.
    """

    name: str
    role: Role
    dtype: np.dtype | None = None
    shape: tuple[int, ...] = ()
    by_rows: bool = False
    length: int = 1

    @property
    def llvm(self) -> str:
        """The type in LLVM."""
        if self.role is Role.NUMBER:
            return "double"
        if self.role in (Role.ROWS, Role.BATCH, Role.SEED, Role.TOKEN, Role.COUNT):
            return "i64"
        return "i32" if self.role is Role.FLAG else "ptr"


@dataclass(frozen=True)
class FunctionSignature:
    """An exported function; all return an error code."""

    name: str
    parameters: Sequence[FunctionParameter]
    comment: str
    # The names of the numbers that it writes to `results`.
    results: Sequence[str] = ()


@dataclass(frozen=True)
class Tensor:
    """An array that is saved, with its place in the block of memory."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def bytes(self) -> int:
        """The bytes of the array."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(frozen=True)
class Interface:
    """All that a program around an export needs to know.

    `least` and `most` are the smallest and the largest batch, and `listed` the batch sizes if only some are allowed.
    `routines` has the symbols of the routines, which differ for other code.
    """

    name: str
    memory_bytes: int
    tensors: Sequence[Tensor]
    functions: Sequence[FunctionSignature]
    errors: dict[str, tuple[int, str]]
    most: int
    listed: tuple[int, ...]
    least: int
    routines: frozenset[str]

    @cached_property
    def version(self) -> int:
        """A number that differs for other models, layouts, functions and code, but not for other weights."""
        content = [getattr(self, each.name) for each in fields(self) if each.name != "routines"]
        digest = sha256(repr([*content, sorted(self.routines)]).encode()).digest()
        return int.from_bytes(digest[:8], "little") >> 2 | 1

    def symbol(self, function: str) -> str:
        """Return a function's name in the object file.

        That of `init` has the version: a program that was compiled with the header of another export is not linked.
        """
        return f"{function}_{self.version:016x}" if function == f"{self.name}_init" else function

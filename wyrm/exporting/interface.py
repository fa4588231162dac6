"""The functions of an export, the arrays that it saves, and its error codes, as languages around it see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cached_property
from hashlib import sha256

import numpy as np

from wyrm.exporting.names import OPTIMIZER, PROGRAM


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
    PART = "part"
    FACTOR = "factor"
    LIST = "list"
    LISTED = "listed"
    OFFSETS = "offsets"
    ENTRIES = "entries"


@dataclass(frozen=True)
class FunctionParameter:
    """A parameter of an exported function.

    An array has a `dtype` and the `shape` of its elements behind the rows; `by_rows`: it has rows, whose number is
    another parameter. `length` is the number of elements of an array without rows. One `along` rows of different
    lengths has such elements for each of their entries, whose number is the parameter of that name; offsets have one
    number more than there are rows.
    """

    name: str
    role: Role
    dtype: np.dtype | None = None
    shape: tuple[int, ...] = ()
    by_rows: bool = False
    length: int = 1
    along: str = ""

    @property
    def llvm(self) -> str:
        """The type in LLVM."""
        if self.role in (Role.NUMBER, Role.PART, Role.FACTOR):
            return "double"
        if self.role in (Role.ROWS, Role.BATCH, Role.SEED, Role.TOKEN, Role.COUNT, Role.LISTED, Role.ENTRIES):
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
    def count(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def bytes(self) -> int:
        """The bytes of the array."""
        return self.count * self.dtype.itemsize

    @property
    def counts(self) -> bool:
        """Whether it has counts of steps or epochs."""
        return self.dtype.kind == "i" and self.name.startswith((OPTIMIZER, PROGRAM))


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

"""The functions of an export, the arrays that it saves, and its error codes, as languages around it see them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

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

    `version` is a hash of the layout: memory, tensors and functions. `least` and `most` are the smallest and the
    largest batch, and `listed` the batch sizes if only some are allowed.
    """

    name: str
    version: int
    memory_bytes: int
    tensors: Sequence[Tensor]
    functions: Sequence[FunctionSignature]
    errors: dict[str, tuple[int, str]]
    most: int
    listed: tuple[int, ...]
    least: int = 1


def identifier(text: str, taken: Sequence[str] = ()) -> str:
    """Return a name for C and JavaScript that resembles the text and is not taken.

    >>> identifier("hidden layer.0"), identifier("7"), identifier("x", ["x"])
    ('hidden_layer_0', 'n7_', 'x_2')
    """
    name = "".join(each if each.isascii() and each.isalnum() else "_" for each in text).strip("_") or "value"
    if name[0].isdigit():
        name = f"n{name}"
    if name in _RESERVED or _OF_CODE.fullmatch(name):
        name = f"{name}_"
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found


# The names that generated code gives to its values and labels.
_OF_CODE = re.compile(r"(v|i|n|c|r|head|body|end|turn|done|again|given|joined|then|else|after|never)\d+")
# The words of C, C++ and JavaScript, and the names of other parameters.
_RESERVED = frozenset({
    "auto", "break", "case", "char", "const", "continue", "default", "delete", "do", "double", "else", "enum",
    "extern", "float", "for", "function", "goto", "if", "in", "inline", "int", "let", "long", "memory", "new",
    "order", "register", "restrict", "results", "return", "rows", "seed", "shuffle", "batch", "short", "signed",
    "sizeof", "static", "struct", "switch", "this", "typedef", "typeof", "union", "unsigned", "var", "void",
    "volatile", "while", "with", "yield", "await", "class", "export", "import", "bytes", "null", "true", "false",
    "arguments", "table", "size", "place", "step", "count",
})  # fmt: skip

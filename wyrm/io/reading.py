"""Reading safetensors files: the shapes in them, and the arrays one by one."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import CheckpointError
from wyrm.io.files import FilePath, path_of

# NumPy names of the format's dtypes; bfloat16, which NumPy lacks, is read as float32, which has all its numbers.
_BFLOAT16 = "BF16"
_DTYPES = {
    _BFLOAT16: "float32", "F64": "float64", "F32": "float32", "F16": "float16", "C64": "complex64", "BOOL": "bool",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
}  # fmt: skip


def load_some(path: FilePath, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the named arrays of a file; raises the errors of `opened`."""
    with opened(path) as file:
        return read_arrays(path, file, names)


def read_arrays(path: FilePath, file: Any, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the named arrays of a file that is open; arrays of bfloat16 become float32."""
    parts = {name: file.get_slice(name) for name in names}
    halves = {name: part.get_shape() for name, part in parts.items() if part.get_dtype() == _BFLOAT16}
    read = _read_bfloat16(path, halves) if halves else {}
    # Copied, since the reader's array may be a memory map of the file, which can be truncated later.
    return {name: read[name] if name in read else np.array(file.get_tensor(name)) for name in parts}


def _read_bfloat16(path: FilePath, shapes: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray]:
    """Return arrays of bfloat16, the upper 16 bits of float32, as float32; the reader has checked the file's header."""
    read: dict[str, np.ndarray] = {}
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        for name, shape in shapes.items():
            first, end = header[name]["data_offsets"]
            file.seek(8 + length + first)
            words = np.fromfile(file, "<u2", (end - first) // 2)
            if words.size != math.prod(shape):
                raise CheckpointError(f"{os.fspath(path)!r} was truncated while it was read")
            read[name] = (words.astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return read


def metadata_of(file: Any) -> dict[str, str]:
    """Return the text metadata of a file that is open."""
    return dict(file.metadata() or {})


class Outline(NamedTuple):
    """Shape and dtype of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype


def outlines(path: FilePath) -> dict[str, Outline]:
    """Return shape and dtype of every array of a safetensors file, without reading any; errors as in `opened`.

    A sparse file can declare arrays that are larger than memory.
    """
    with opened(path) as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        return {
            name: Outline(tuple(part.get_shape()), np.dtype(_DTYPES[part.get_dtype()])) for name, part in parts.items()
        }


@contextmanager
def opened(path: FilePath) -> Iterator[Any]:
    """Open a safetensors file to read arrays one by one.

    Raise `CheckpointError`, also for errors inside the block: for a file that is missing, unreadable, truncated,
    corrupt or of another format, or that has a dtype which NumPy lacks.
    """
    from safetensors import SafetensorError, safe_open

    file = os.fspath(path_of("file", path))
    try:
        with Path(path).open("rb"):  # safe_open's errors for an unreadable file are less clear
            pass
        with safe_open(file, framework="numpy") as reader:
            yield reader
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError(f"no such file: {file!r}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read {file!r}: {error.strerror or error}") from error
    except MemoryError as error:
        raise CheckpointError(f"{file!r} does not fit in memory") from error
    except SafetensorError as error:
        raise CheckpointError(f"{file!r} is not a safetensors file, or is truncated or corrupt: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file!r} holds an array of a dtype that NumPy lacks: {error}") from error

"""Named arrays in a safetensors file, with optional text metadata."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import CheckpointError, DTypeError
from wyrm.io.files import FilePath, path_of, replacing
from wyrm.types.arrays import as_array

# The key that the format reserves for metadata.
_RESERVED = "__metadata__"
_KINDS = "fiub"
# NumPy names of the format's dtypes.
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "C64": "complex64", "BOOL": "bool",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
}  # fmt: skip


class Arrays(NamedTuple):
    """The content of a file: arrays and text metadata, both by name."""

    arrays: dict[str, np.ndarray]
    metadata: dict[str, str]


def save_arrays(path: FilePath, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays of floats, integers or booleans, of any shape, and text metadata to a safetensors file.

    The write is atomic: an existing file is replaced once the new one is complete and on disk, and is unchanged if
    anything fails before.

    Raises:
        CheckpointError: the file cannot be written, or the format does not support a dtype.
        DTypeError: a name or a text is not a string, or an array is not numeric.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_arrays(f"{directory}/state.safetensors", {"steps": np.array([3, 4])}, {"epoch": "2"})
    ...     load_arrays(f"{directory}/state.safetensors")
    Arrays(arrays={'steps': array([3, 4])}, metadata={'epoch': '2'})
    """
    if not isinstance(arrays, Mapping):
        raise DTypeError(f"save_arrays takes arrays by name, as in {{'weight': array}}, not {arrays!r}")
    with replacing(path) as temporary:
        write_arrays(temporary, os.fspath(path), arrays, metadata or {})


def write_arrays(temporary: Path, file: str, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write to the path that `replacing` returned for `file`; errors name `file`."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = dict(metadata)
    for name, value in text.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise DTypeError(f"saving {file!r}: metadata must map strings to strings, not {name!r}: {value!r}")
    contents = {name: _writable(file, name, array) for name, array in arrays.items()}
    try:
        save_file(contents, temporary, text or None)
    except SafetensorError as error:
        raise CheckpointError(f"cannot write {file!r}: {error}; an existing file is unchanged") from error


def _writable(file: str, name: object, array: Any) -> np.ndarray:
    if not isinstance(name, str) or name == _RESERVED:
        raise DTypeError(f"saving {file!r}: a name must be a string other than {_RESERVED!r}, not {name!r}")
    contents = np.asarray(as_array(array), order="C")
    if contents.dtype.kind not in _KINDS:
        raise DTypeError(
            f"saving {file!r}: {name} has dtype {contents.dtype}; a file stores floats, integers and booleans"
        )
    return contents


def load_arrays(path: FilePath) -> Arrays:
    """Return the arrays and the text metadata of a safetensors file.

    Raises:
        CheckpointError: the file is missing, unreadable, truncated, corrupt or of another format, or has a dtype that
            NumPy lacks; the message names the file.

    >>> load_arrays("missing.safetensors")
    Traceback (most recent call last):
    ...
    wyrm.errors.CheckpointError: no such file: 'missing.safetensors'
    """
    with opened(path) as file:
        return Arrays(_read(file, file.keys()), dict(file.metadata() or {}))


def load_some(path: FilePath, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the named arrays of a file; raises the errors of `load_arrays`."""
    with opened(path) as file:
        return _read(file, names)


def _read(file: Any, names: Iterable[str]) -> dict[str, np.ndarray]:
    # Copied, since the reader's array may be a memory map of the file, which can be truncated later.
    return {name: np.array(file.get_tensor(name)) for name in names}


class Outline(NamedTuple):
    """Shape and dtype of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype


def outlines(path: FilePath) -> dict[str, Outline]:
    """Return shape and dtype of every array of a safetensors file, without reading any; errors as in `load_arrays`.

    A sparse file can declare arrays that are larger than memory.
    """
    with opened(path) as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        return {
            name: Outline(tuple(part.get_shape()), np.dtype(_DTYPES[part.get_dtype()])) for name, part in parts.items()
        }


@contextmanager
def opened(path: FilePath) -> Iterator[Any]:
    """Open a safetensors file to read arrays one by one; errors inside the block become `CheckpointError`."""
    from safetensors import SafetensorError, safe_open

    file = os.fspath(path_of("file", path))
    try:
        with Path(path).open("rb"):  # safe_open's errors for an unreadable file are less clear
            pass
        with safe_open(file, framework="numpy") as reader:
            yield reader
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

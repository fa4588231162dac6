"""Arrays by name in a safetensors file, with a little text beside them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import CheckpointError, DTypeError
from wyrm.io.files import FilePath, replacing
from wyrm.types.arrays import as_array

# The name under which the format keeps its text.
_RESERVED = "__metadata__"
_KINDS = "fiub"
# NumPy's names of the dtypes of the format.
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "C64": "complex64", "BOOL": "bool",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
}  # fmt: skip


class Arrays(NamedTuple):
    """What a file holds: the arrays by name, and the text by name."""

    arrays: dict[str, NDArray[Any]]
    metadata: dict[str, str]


def save_arrays(path: FilePath, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays of floats, integers or booleans, of any shape, and text to a safetensors file.

    A file that is there is replaced in a single step once the new one is whole and on the disk; whatever goes wrong
    before that, it stays as it was.

    Raises:
        CheckpointError: the file cannot be written, or the format has no such dtype.
        DTypeError: a name or a text is no string, or an array holds no numbers.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_arrays(f"{directory}/state.safetensors", {"steps": np.array([3, 4])}, {"epoch": "2"})
    ...     load_arrays(f"{directory}/state.safetensors")
    Arrays(arrays={'steps': array([3, 4])}, metadata={'epoch': '2'})
    """
    with replacing(path) as temporary:
        write_arrays(temporary, os.fspath(path), arrays, metadata or {})


def write_arrays(temporary: Path, file: str, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write to the path that `replacing` gave for `file`, which errors name."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = dict(metadata)
    for name, value in text.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise DTypeError(f"saving {file!r}: metadata is text by name, not {name!r}: {value!r}")
    contents = {name: _writable(file, name, array) for name, array in arrays.items()}
    try:
        save_file(contents, temporary, text or None)
    except SafetensorError as error:
        raise CheckpointError(f"cannot write {file!r}: {error}; a file that was there is unchanged") from error


def _writable(file: str, name: object, array: Any) -> NDArray[Any]:
    if not isinstance(name, str) or name == _RESERVED:
        raise DTypeError(f"saving {file!r}: a name is a string other than {_RESERVED!r}, not {name!r}")
    contents = np.asarray(as_array(array), order="C")
    if contents.dtype.kind not in _KINDS:
        raise DTypeError(f"saving {file!r}: {name} holds {contents.dtype}; a file takes floats, integers and booleans")
    return contents


def load_arrays(path: FilePath) -> Arrays:
    """The arrays and the text of a safetensors file.

    Raises:
        CheckpointError: there is no such file, it cannot be read, it is truncated, corrupt or of another format, or
            NumPy has not its dtypes. The message names the file.

    >>> load_arrays("missing.safetensors")
    Traceback (most recent call last):
    ...
    wyrm.errors.CheckpointError: no such file: 'missing.safetensors'
    """
    with opened(path) as file:
        return Arrays(_read(file, file.keys()), dict(file.metadata() or {}))


def load_some(path: FilePath, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Some of the arrays of a file; raises what `load_arrays` does."""
    with opened(path) as file:
        return _read(file, names)


def _read(file: Any, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    # Copied, for what the reader gives may lie in a mapping of the file, which can shrink later.
    return {name: np.array(file.get_tensor(name)) for name in names}


class Outline(NamedTuple):
    """What an array of a file is, without its numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def outlines(path: FilePath) -> dict[str, Outline]:
    """What the header of a safetensors file says of its arrays, of which none is read; raises what `load_arrays` does.

    A file can tell of arrays that no memory holds, and take no room on the disk for them.
    """
    with opened(path) as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        return {
            name: Outline(tuple(part.get_shape()), np.dtype(_DTYPES[part.get_dtype()])) for name, part in parts.items()
        }


@contextmanager
def opened(path: FilePath) -> Iterator[Any]:
    """A safetensors file, to read one array after another; what goes wrong within is a `CheckpointError`."""
    from safetensors import SafetensorError, safe_open

    file = os.fspath(path)
    try:
        with Path(path).open("rb"):  # the reader of the format has its own words for a file that cannot be opened
            pass
        with safe_open(file, framework="numpy") as reader:
            yield reader
    except FileNotFoundError as error:
        raise CheckpointError(f"no such file: {file!r}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read {file!r}: {error.strerror or error}") from error
    except MemoryError as error:
        raise CheckpointError(f"{file!r} holds more than there is memory for") from error
    except SafetensorError as error:
        raise CheckpointError(f"{file!r} is no safetensors file, or truncated or corrupt: {error}") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file!r} holds an array of a dtype that NumPy has not: {error}") from error

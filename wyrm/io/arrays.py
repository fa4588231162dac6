"""Named arrays in a safetensors file, with optional text metadata."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import CheckpointError, DTypeError
from wyrm.graph.arrays import as_array
from wyrm.io.files import is_index, metadata_of, opened, read_arrays, replacing, stored_arrays
from wyrm.support.files import FilePath

# The key that the format reserves for metadata.
_RESERVED = "__metadata__"
_KINDS = "fiub"


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
    """Write to `temporary`, the path that `replacing` returned for `file`; errors name `file`."""
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
    """Return the arrays and the text metadata of a safetensors file; arrays of bfloat16 become float32.

    `path` may be the index of files that the arrays are divided over, such as `model.safetensors.index.json`.

    Raises:
        CheckpointError: the file is missing, unreadable, truncated, corrupt or of another format, or has a dtype that
            NumPy lacks, or an index does not fit its files; the message names the file.

    >>> load_arrays("missing.safetensors")
    Traceback (most recent call last):
    ...
    wyrm.errors.CheckpointError: no such file: 'missing.safetensors'
    """
    if is_index(path):
        stored = stored_arrays(path)
        return Arrays(stored.read(stored.outlines), stored.metadata())
    with opened(path) as file:  # opened only once, because another process may replace the file
        return Arrays(read_arrays(path, file, file.keys()), metadata_of(file))

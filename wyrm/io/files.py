"""Checkpoint files: atomic writing, reading, shards, and named arrays. Failures raise `CheckpointError`."""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import CheckpointError, DTypeError
from wyrm.graph.arrays import as_array
from wyrm.support import files as _files
from wyrm.support.files import FilePath, path_of
from wyrm.support.imports import unread

# The key that the format reserves for metadata.
_RESERVED = "__metadata__"
# The metadata of the digest of all arrays and other metadata.
_DIGEST = "wyrm_digest"
_KINDS = "fiub"


class Arrays(NamedTuple):
    """The content of a file: arrays and text metadata, both by name."""

    arrays: dict[str, np.ndarray]
    metadata: dict[str, str]


def save_arrays(path: FilePath, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays of floats, integers or booleans, of any shape, and text metadata to a safetensors file.

    The write is atomic: an existing file is replaced once the new one is complete and on disk, and is unchanged if
    anything fails before. The file has a digest, so that `load_arrays` refuses it if it was damaged.

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


def write_arrays(
    temporary: Path,
    file: str,
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, str],
    *,
    with_digest: bool = True,
) -> None:
    """Write to `temporary`, the path that `replacing` returned for `file`; errors name `file`."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    text = dict(metadata)
    for name, value in text.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise DTypeError(f"saving {file!r}: metadata must map strings to strings, not {name!r}: {value!r}")
    contents = {name: _writable(file, name, array) for name, array in arrays.items()}
    if with_digest:
        text.pop(_DIGEST, None)
        text[_DIGEST] = digest_of(dict(sorted(text.items())), sorted(contents.items()))
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
    return contents.astype(contents.dtype.newbyteorder("="), copy=False)


def digest_of(content: Mapping[str, Any], arrays: Iterable[tuple[str, np.ndarray]]) -> str:
    """Return the SHA-256 of arrays, sorted by name, and of JSON values beside them."""
    digest = hashlib.sha256(json.dumps(content).encode())
    for name, array in arrays:
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def load_arrays(path: FilePath) -> Arrays:
    """Return the arrays and the text metadata of a safetensors file; arrays of bfloat16 become float32.

    `path` may be the index of files that the arrays are divided over, such as `model.safetensors.index.json`. A file
    without a digest, as of other libraries and earlier versions, is read as it is.

    Raises:
        CheckpointError: the file is missing, unreadable, truncated, corrupt or of another format, does not match its
            digest, or has a dtype that NumPy lacks, or an index does not fit its files; the message names the file.

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


@contextmanager
def replacing(path: FilePath) -> Iterator[Path]:
    """Replace a file atomically; raise `CheckpointError` with its name if it cannot be written."""
    path_of("file", path)
    try:
        with _files.replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise CheckpointError(
            f"cannot write {os.fspath(path)!r}: {error.strerror or error}; an existing file is unchanged"
        ) from error


# NumPy's names of the format's dtypes. NumPy lacks bfloat16, whose numbers are read as float32.
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
    """Return the named arrays of a file that is open; arrays of bfloat16 become float32.

    Raise `CheckpointError` if the file has a digest, and any of its arrays or metadata does not match it.
    """
    parts = {name: file.get_slice(name) for name in names}
    halves = {name: part.get_shape() for name, part in parts.items() if part.get_dtype() == _BFLOAT16}
    read = _read_bfloat16(path, halves) if halves else {}
    # Copied, since the reader's array may be a memory map of the file, which another process may truncate.
    found = {name: read[name] if name in read else np.array(file.get_tensor(name)) for name in parts}
    digest = (file.metadata() or {}).get(_DIGEST)
    if digest is not None:
        every = ((name, found[name] if name in found else file.get_tensor(name)) for name in sorted(file.keys()))
        if digest != digest_of(metadata_of(file), every):
            raise CheckpointError(
                f"{os.fspath(path)!r} is corrupt: its contents have changed since it was written; a program that "
                f"changes them on purpose leaves out the metadata {_DIGEST!r}"
            )
    return found


def _read_bfloat16(path: FilePath, shapes: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray]:
    """Return arrays of bfloat16 as float32, whose upper 16 bits they are; the file's header is checked already."""
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
    """Return the text metadata of a file that is open, sorted by name, without the digest."""
    return {name: text for name, text in sorted((file.metadata() or {}).items()) if name != _DIGEST}


class Outline(NamedTuple):
    """Shape and dtype of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype


def outlines(path: FilePath) -> dict[str, Outline]:
    """Return shape and dtype of every array of a safetensors file; raise the errors of `opened`.

    The arrays are not read: a file can declare arrays that are larger than memory.
    """
    with opened(path) as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        return {
            name: Outline(tuple(part.get_shape()), np.dtype(_DTYPES[part.get_dtype()])) for name, part in parts.items()
        }


@contextmanager
def opened(path: FilePath) -> Iterator[Any]:
    """Open a safetensors file to read arrays one by one.

    Raise `CheckpointError` for a file that is missing, unreadable, truncated, corrupt or of another format, or that has
    a dtype which NumPy lacks; also for such errors inside the block.
    """
    safetensors = unread("safetensors")
    file = os.fspath(path_of("file", path))
    try:
        with Path(path).open("rb"):  # safe_open's errors for an unreadable file are less clear
            pass
        with safetensors.safe_open(file, framework="numpy") as reader:
            yield reader
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError(f"no such file: {file!r}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read {file!r}: {error.strerror or error}") from error
    except MemoryError as error:
        raise CheckpointError(f"{file!r} does not fit in memory") from error
    except safetensors.SafetensorError as error:
        with Path(path).open("rb") as stream:
            archive = stream.read(2) == b"PK"  # of a ZIP file, which `torch.save` writes
        convert = "; safetensors.torch.save_file(torch.load(path), 'model.safetensors') converts files of torch.save"
        raise CheckpointError(
            f"{file!r} is not a safetensors file, or is truncated or corrupt: {error}{convert if archive else ''}"
        ) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file!r} holds an array of a dtype that NumPy lacks: {error}") from error


_INDEX = ".index.json"


class StoredArrays(NamedTuple):
    """The arrays of a file or of several shards: the outline and the file of each. `source` names them in errors."""

    source: str
    outlines: dict[str, Outline]
    files: dict[str, Path]

    def read(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Return the named arrays; raise the errors of `opened`."""
        by_file: dict[Path, list[str]] = {}
        for name in names:
            by_file.setdefault(self.files[name], []).append(name)
        return {name: array for file, own in by_file.items() for name, array in load_some(file, own).items()}

    def metadata(self) -> dict[str, str]:
        """Return the text metadata of all files in one."""
        found: dict[str, str] = {}
        for file in dict.fromkeys(self.files.values()):
            with opened(file) as reader:
                found |= metadata_of(reader)
        return found


def is_index(path: FilePath) -> bool:
    """Return whether a path has the name of an index and not of a safetensors file."""
    return os.fspath(path).endswith(_INDEX)


def stored_arrays(path: FilePath) -> StoredArrays:
    """Return the arrays of the file `path`, or without it those of the shards that `path.index.json` lists.

    `path` may be that of the index, too.

    Raises:
        CheckpointError: neither exists, a file is damaged, or the index does not fit its shards: one is missing or is
            no file beside the index, or an array is in another shard, in several or in none.
    """
    file = Path(path)
    index = file if is_index(file) else file.with_name(file.name + _INDEX)
    if not is_index(file) and (file.exists() or not index.exists()):
        found = outlines(file)
        return StoredArrays(os.fspath(file), found, dict.fromkeys(found, file))
    listed = _listed(index)
    arrays: dict[str, Outline] = {}
    files: dict[str, Path] = {}
    problems: list[str] = []
    for shard in sorted(set(listed.values())):
        for name, outline in outlines(index.with_name(shard)).items():
            if name in files:
                problems.append(f"  {name}: in {files[name].name!r} and in {shard!r}")
            elif listed.get(name) != shard:
                where = f"by the index in {listed[name]!r}" if name in listed else "not in the index"
                problems.append(f"  {name}: in {shard!r}, {where}")
            arrays[name], files[name] = outline, index.with_name(shard)
    problems += [f"  {name}: not in {shard!r}" for name, shard in listed.items() if name not in files]
    if problems:
        raise CheckpointError("\n".join([f"{os.fspath(index)!r} does not fit its shards:", *problems]))
    return StoredArrays(os.fspath(index), arrays, files)


def _listed(index: Path) -> dict[str, str]:
    """Return the file of each array, as the index lists them; raise `CheckpointError` for a malformed index."""
    what = repr(os.fspath(index))

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            name = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
            raise CheckpointError(f"{what} is damaged: it has {name!r} twice")
        return found

    try:
        contents = json.loads(index.read_text(encoding="utf-8"), object_pairs_hook=once)
    except (OSError, ValueError, RecursionError) as error:  # of text, of JSON, and of its nesting
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"cannot read {what}: {error}") from error
    shards = contents.get("weight_map") if isinstance(contents, dict) else None
    if not isinstance(shards, dict) or not shards:
        raise CheckpointError(f"{what} is damaged: it has no 'weight_map', which lists the shard of each array")
    for name, shard in shards.items():
        # A path with folders could be that of any file of the machine.
        if not isinstance(shard, str) or not shard.endswith(".safetensors") or set(shard) & set("/\\:\0"):
            raise CheckpointError(
                f"{what} is damaged: the shard of {name} must be the name of a safetensors file beside it, "
                f"not {shard!r}"
            )
    return dict(shards)

"""Arrays that are divided over several safetensors files, as an index beside them says: a shard is one of the files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import CheckpointError
from wyrm.io.files import FilePath
from wyrm.io.reading import Outline, load_some, metadata_of, opened, outlines

_INDEX = ".index.json"


class StoredArrays(NamedTuple):
    """The arrays of a file or of several shards: the file or index for errors, and outline and file of each array."""

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
    """Return whether a path is by its name that of an index, and not of a safetensors file."""
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
    """Return the shard of each array by the index; raise `CheckpointError` for an index that cannot be."""
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
        # A path could lead to any file of the machine.
        if not isinstance(shard, str) or not shard.endswith(".safetensors") or set(shard) & set("/\\:\0"):
            raise CheckpointError(
                f"{what} is damaged: the shard of {name} must be the name of a safetensors file beside it, "
                f"not {shard!r}"
            )
    return dict(shards)

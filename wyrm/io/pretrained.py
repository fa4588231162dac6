"""Folders of pretrained models as transformers lays them out: `config.json` and `model.safetensors`, or its shards."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wyrm.errors import CheckpointError
from wyrm.graph.parameters import NarrowWeight, Parameter
from wyrm.io.checkpoint import not_finite
from wyrm.io.files import Outline, replacing, save_arrays, stored_arrays
from wyrm.support.files import FilePath

CONFIG, WEIGHTS = "config.json", "model.safetensors"


@dataclass(frozen=True)
class Layout:
    """The arrays of a model in its file.

    `shapes` returns the shape of each by transformers' name without `prefix`, which files may leave out. Names that
    match `ignored` may be there, too, and so may a copy of the array that the output layer is `tied` to, given as the
    pair of its name and that of the copy. `layers` is the number of blocks, each of at least one array, by its `field`.
    """

    prefix: str
    shapes: Callable[[], dict[str, tuple[int, ...]]]
    ignored: re.Pattern[str]
    tied: tuple[str, str] | None
    layers: int
    field: str

    def full(self, name: str) -> str:
        """Return the name of an array in a file."""
        return name if name.startswith("lm_head") else self.prefix + name


def write_folder(
    directory: FilePath,
    config: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    names: tuple[str, str] = (CONFIG, WEIGHTS),
) -> None:
    """Write a configuration and weights to files of these names, each atomically.

    Raise `CheckpointError` where that fails.
    """
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"cannot make the folder {os.fspath(directory)!r}: {error.strerror or error}") from error
    save_arrays(folder / names[1], dict(arrays), {"format": "pt"})
    text = json.dumps(config, indent=2) + "\n"
    with replacing(folder / names[0]) as temporary:
        temporary.write_text(text, encoding="utf-8")


def written_weights(model: Any, paths: Collection[str]) -> dict[str, Parameter | NarrowWeight]:
    """Return the weights of a model by path, also narrow ones, whose values are written in float32.

    Raise `CheckpointError` for a weight that is not at one of the `paths` that a file has, such as of an adapter.
    """
    named: dict[str, Any] = dict([*model.named_parameters(), *model.named_narrow_weights()])
    extra = [path for path in named if path not in paths]
    if extra:
        raise CheckpointError(
            f"{type(model).__name__} has weights that the file has no place for: {extra[0]} and {len(extra) - 1} more. "
            f"Those of an adapter, wy.nn.LoRA, are added by adapter.merge(), or written alone by adapter.save(file)"
        )
    return named


def config_of(path: FilePath, model_types: Collection[str]) -> dict[str, Any]:
    """Return the contents of a `config.json` of one of these models.

    Raise `CheckpointError` for a file that is missing, damaged or of another model.
    """
    contents = read_json(path)
    model_type = contents.get("model_type") if isinstance(contents, dict) else None
    if model_type not in model_types:
        wanted = " or ".join(map(repr, model_types))
        raise CheckpointError(f"{os.fspath(path)!r} describes a model of type {model_type!r}, not {wanted}")
    found: dict[str, Any] = contents
    return found


def read_json(path: FilePath) -> Any:
    """Return the contents of a configuration; raise `CheckpointError` for a file that is missing or damaged."""
    file = os.fspath(path)
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(
            f"no such file: {file!r}; give a folder on this machine, since wyrm downloads no models"
        ) from error
    except (OSError, ValueError, RecursionError) as error:  # of text, of JSON, and of its nesting
        raise CheckpointError(f"cannot read {file!r}: {error}") from error


def check_supported(
    file: FilePath, contents: Mapping[str, Any], model: str, values: Mapping[str, tuple[Any, ...]]
) -> None:
    """Raise `CheckpointError` for a field that has another value than those that a model supports."""
    for name, supported in values.items():
        if name in contents and contents[name] not in supported:
            raise CheckpointError(
                f"{os.fspath(file)!r} has {name} = {contents[name]!r}; {model} supports "
                f"{' and '.join(map(repr, supported))} only"
            )


def read_weights(folder: Path, layout: Layout) -> dict[str, np.ndarray]:
    """Return the arrays of a model by transformers' names without their prefix.

    The weights may be divided over several files, which `model.safetensors.index.json` lists. Raise `CheckpointError`
    for a file that is missing or damaged, and where the arrays do not match the configuration.
    """
    file, stored, _ = weights = stored_arrays(folder / WEIGHTS)
    full = {name.removeprefix(layout.prefix): name for name in stored}
    # The configuration may ask for more memory than there is: compare everything before allocating or reading arrays.
    if layout.layers > len(full):
        raise CheckpointError(
            f"{file!r} holds {len(full)} arrays, too few for {layout.field} {layout.layers} of {CONFIG}"
        )
    shapes = layout.shapes()
    if layout.tied is not None and layout.tied[1] in full:  # a copy, in older files
        shapes[layout.tied[1]] = shapes[layout.tied[0]]
    missing = [name for name in shapes if name not in full]
    extra = [name for name in full if name not in shapes and not layout.ignored.fullmatch(name)]
    twice = [name for name in full if name in stored and layout.prefix + name in stored]
    problems = [f"  missing: {', '.join(missing)}"] if missing else []
    problems += [f"  stored with and without {layout.prefix!r}: {', '.join(twice)}"] if twice else []
    problems += [f"  unknown: {', '.join(extra)}"] if extra else []
    problems += [
        f"  {name}: {problem}"
        for name, shape in shapes.items()
        if name in full and (problem := _problem(stored[full[name]], shape))
    ]
    arrays: dict[str, np.ndarray] = {}
    if not problems:
        read = weights.read(full[name] for name in shapes)
        arrays = {name: read[full[name]] for name in shapes}
        problems = not_finite(arrays)
        if layout.tied is not None:
            table, copy = layout.tied
            if not np.array_equal(arrays.get(copy, arrays[table]), arrays[table]):
                problems.append(f"  {copy}: differs from {table}, to which it is tied")
    if problems:
        raise CheckpointError("\n".join([f"{file!r} does not match the configuration beside it:", *problems]))
    return arrays


def _problem(stored: Outline, shape: tuple[int, ...]) -> str | None:
    """Return what is wrong with an array of the file for a parameter of this shape; None if it fits."""
    if stored.shape != shape:
        return f"{stored.shape} in the file, {shape} by the configuration"
    return None if stored.dtype.kind == "f" else f"holds {stored.dtype}, not floats"

"""Adapters of low rank in the files of peft: `adapter_config.json` and `adapter_model.safetensors`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from wyrm.errors import CheckpointError
from wyrm.io.checkpoint import not_finite
from wyrm.io.files import load_arrays
from wyrm.io.pretrained import read_json, write_folder
from wyrm.support.files import FilePath

if TYPE_CHECKING:
    from wyrm.nn.lora import LoRA

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_MATRIX = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
# The paths of transformers' linear modules, with the columns of each, by the path of the layer here.
LinearModules: TypeAlias = Mapping[str, Sequence[tuple[str, int]]]
# Fields that would make another adapter of it, with the values that do not.
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",), "bias": ("none", None), "use_dora": (None, False), "use_rslora": (None, False),
    "rank_pattern": (None, {}), "alpha_pattern": (None, {}), "modules_to_save": (None, []), "lora_bias": (None, False),
}  # fmt: skip


def save_pretrained(adapter: LoRA, modules: LinearModules, directory: FilePath) -> None:
    """Write the matrices of an adapter as `peft.PeftModel.from_pretrained` reads them.

    A layer for queries, keys and values is three modules there, which have the same first matrix. Each file is replaced
    atomically. Raise `CheckpointError` for a file that cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    for path, layer in adapter.layers.items():
        ends = np.cumsum([columns for _, columns in modules[path]])[:-1]
        for (name, _), up in zip(modules[path], np.split(layer.up.value, ends, axis=1), strict=True):
            arrays[f"{_PREFIX}{name}.lora_A.weight"] = np.ascontiguousarray(layer.down.value.T)
            arrays[f"{_PREFIX}{name}.lora_B.weight"] = np.ascontiguousarray(up.T)
    names = sorted({name for path in adapter.layers for name, _ in modules[path]})
    contents = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": adapter.rank, "lora_alpha": adapter.alpha, "bias": "none",
        "lora_dropout": adapter.dropout, "target_modules": names, "inference_mode": True,
        "fan_in_fan_out": any(name.startswith("transformer.h.") for name in names), "base_model_name_or_path": None,
    }  # fmt: skip
    write_folder(directory, contents, arrays, (CONFIG, WEIGHTS))


class Matrices:
    """The matrices of an adapter in a folder, by the paths of `layers`.

    They are `down`, (in_features, rank), and `up`, (rank, out_features).

    Raise `CheckpointError` for a file that is missing, damaged, or of an adapter that the model cannot have.
    """

    def __init__(self, model: Any, modules: LinearModules, directory: FilePath) -> None:
        folder = Path(directory)
        contents = _contents(folder / CONFIG)
        self.rank: int = contents["r"]
        self.alpha: float = float(contents["lora_alpha"])
        self.dropout: float = float(contents.get("lora_dropout", 0.0))
        arrays, _ = load_arrays(folder / WEIGHTS)
        found = _by_module(folder / WEIGHTS, arrays)
        layers = {name: path for path, each in modules.items() for name, _ in each}
        strange = [name for name in found if name not in layers]
        if strange:
            raise CheckpointError(
                f"{os.fspath(folder)!r} has an adapter of {strange[0]}, which is no linear module of a "
                f"{type(model).__name__}: {', '.join(list(layers)[:3])}, ..."
            )
        self.layers: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        inputs = {path: int(layer.weight.shape[0]) for path, layer in model.named_modules() if path in modules}
        for path in dict.fromkeys(layers[name] for name in found):
            self.layers[path] = self._of_layer(modules[path], inputs[path], found)

    def _of_layer(
        self, parts: Sequence[tuple[str, int]], inputs: int, found: Mapping[str, dict[str, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrices of a layer, of which transformers have parts of so many columns."""
        given = [found[name] for name, _ in parts if name in found]
        shared = len(given) == len(parts) and all(np.array_equal(each["A"], given[0]["A"]) for each in given)
        blocks, first = [], 0
        for name, columns in parts:
            if name in found:
                shapes = found[name]["A"].shape, found[name]["B"].shape
                if shapes != ((self.rank, inputs), (columns, self.rank)):
                    raise CheckpointError(
                        f"{name}: lora_A and lora_B have the shapes {shapes}; of rank {self.rank} they are "
                        f"{((self.rank, inputs), (columns, self.rank))}"
                    )
                blocks.append((found[name], first, columns))
            first += columns
        if shared:
            return blocks[0][0]["A"].T, np.concatenate([each["B"].T for each, _, _ in blocks], axis=1)
        # Parts with first matrices of their own stand side by side, each with the columns that it reaches.
        up = np.zeros((self.rank * len(blocks), first), np.float32)
        for number, (each, start, columns) in enumerate(blocks):
            up[number * self.rank : (number + 1) * self.rank, start : start + columns] = each["B"].T
        return np.concatenate([each["A"].T for each, _, _ in blocks], axis=1), up


def _contents(path: Path) -> dict[str, Any]:
    """Return the contents of a configuration, checked."""
    file, contents = os.fspath(path), read_json(path)
    if not isinstance(contents, dict):
        raise CheckpointError(f"{file!r} has no configuration of an adapter")
    for name, supported in _SUPPORTED.items():
        if contents.get(name) not in supported:
            raise CheckpointError(f"{file!r} has {name} = {contents.get(name)!r}, which wy.nn.LoRA does not have")
    rank, alpha = contents.get("r"), contents.get("lora_alpha")
    if not isinstance(rank, int) or rank < 1 or not isinstance(alpha, int | float):
        raise CheckpointError(f"{file!r} has r = {rank!r} and lora_alpha = {alpha!r}; expected numbers above 0")
    return contents


def _by_module(path: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Return the matrices "A" and "B" of each module."""
    file, found = os.fspath(path), dict[str, dict[str, np.ndarray]]()
    problems = not_finite(arrays)
    for name, array in arrays.items():
        match = _MATRIX.fullmatch(name)
        if match is None:
            problems.append(f"  {name} is no matrix of low rank of a linear module")
        else:
            found.setdefault(match[1], {})[match[2]] = array.astype(np.float32)
    problems += [f"  {name} has one of lora_A and lora_B" for name, pair in found.items() if len(pair) < 2]
    if problems:
        raise CheckpointError("\n".join([f"{file!r} is not the adapter of a decoder:", *problems]))
    return found

"""A recommender as one safetensors file: options, ids, histories and arrays."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import numpy as np

from wyrm.data.ids import array_of
from wyrm.errors import CheckpointError, DataError
from wyrm.estimators.recommenders.history import History, Names, Rows
from wyrm.io.files import load_arrays, save_arrays
from wyrm.support.files import FilePath

_KEY, _VERSION = "wyrm recommender", 2
_STATE = "state."


class Stored(NamedTuple):
    """What a file holds: the class of a model, its options, and what it knows and has learned."""

    model: str
    options: dict[str, Any]
    mean_weight: float
    history: History
    state: dict[str, np.ndarray]


def write(path: FilePath, stored: Stored) -> None:
    """Write a recommender; see `Recommender.save`."""
    history, rows = stored.history, stored.history.rows
    arrays = {f"{_STATE}{name}": array for name, array in stored.state.items()}
    arrays |= {"offsets": rows.offsets, "items": rows.items, "weights": rows.weights}
    for names in (history.users, history.items):
        arrays[f"{names.kind}_ids"] = np.frombuffer(_encoded(names), np.uint8)
    head = {
        "version": _VERSION, "model": stored.model, "options": stored.options, "mean_weight": stored.mean_weight
    }  # fmt: skip
    save_arrays(path, arrays, {_KEY: json.dumps(head)})


def _encoded(names: Names) -> bytes:
    values, dates = names.values.tolist(), names.values.dtype.kind in "mM"
    odd = next((each for each in values if dates or type(each) not in (int, float, str)), None)
    if odd is not None:
        shown = names.values[0] if dates else odd
        raise DataError(f"{names.kind}s have ids such as {shown!r}; a file takes integers, floats and texts")
    return json.dumps([names.values.dtype.kind, values]).encode()


def read(path: FilePath) -> Stored:
    """Return the recommender of a file; see `Recommender.load`."""
    file = os.fspath(path)
    arrays, metadata = load_arrays(path)
    if _KEY not in metadata:
        raise CheckpointError(f"{file!r} holds no recommender: the arrays are {', '.join(sorted(arrays)[:5])}")
    head: dict[str, Any] = json.loads(metadata[_KEY])
    if head["version"] != _VERSION:
        raise CheckpointError(
            f"{file!r} has version {head['version']} of the format, and this wyrm reads version {_VERSION}: use the "
            f"wyrm that wrote it, or fit again"
        )
    users, items = (Names(kind, _decoded(arrays.pop(f"{kind}_ids"))) for kind in ("user", "item"))
    history = History(users, items, Rows(arrays.pop("offsets"), arrays.pop("items"), arrays.pop("weights")))
    state = {name.removeprefix(_STATE): array for name, array in arrays.items()}
    return Stored(head["model"], head["options"], head["mean_weight"], history, state)


def _decoded(array: np.ndarray) -> np.ndarray:
    kind, values = json.loads(array.tobytes())
    if kind != "O":
        return array_of(values)
    found = np.empty(len(values), object)
    found[:] = values
    return found

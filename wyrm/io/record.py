"""The metadata record of a training checkpoint: a line of JSON with a digest of the file's content."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from wyrm.errors import CheckpointError, DTypeError, NotFinite
from wyrm.io.files import digest_of, opened
from wyrm.support.files import FilePath
from wyrm.support.options import MOST_STEPS

# The metadata key of the record, and the version of its format.
KEY = "wyrm_training"
_VERSION = 1
# The deepest nesting of the state that is allowed, within the recursion limit of the JSON reader.
_DEEPEST = 100


class CheckpointRecord(NamedTuple):
    """The metadata of a checkpoint: step, score, optimizer class, parameter names and user state."""

    step: int
    score: float | None
    optimizer: str
    parameters: list[str]  # names of the optimizer's parameters, in its order
    state: dict[str, Any]

    def text(self, arrays: Mapping[str, np.ndarray]) -> str:
        """Return the record as one line of JSON, with a digest of itself and the arrays."""
        content = {"version": _VERSION, **self._asdict()}
        return json.dumps(content | {"digest": digest_of(content, sorted(arrays.items()))})


def parsed(path: FilePath, metadata: Mapping[str, str], arrays: Iterable[tuple[str, np.ndarray]]) -> CheckpointRecord:
    """Return the record in a file's metadata, given the file's arrays sorted by name.

    Raise `CheckpointError` if there is no record, its version differs, or the digest does not match.
    """
    file = os.fspath(path)
    if KEY not in metadata:
        raise CheckpointError(f"{file!r} is not a training checkpoint written by Checkpoints.save")
    try:
        content = json.loads(metadata[KEY], parse_constant=_refuse_constant)
        version, digest = content["version"], content.pop("digest")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{file!r} is corrupt: its record cannot be read ({error})") from error
    if version != _VERSION:
        raise CheckpointError(f"{file!r} has format version {version!r}; this library reads version {_VERSION}")
    if digest != digest_of(content, arrays):
        raise CheckpointError(f"{file!r} is corrupt: its contents have changed since it was written")
    del content["version"]
    try:
        return _checked(CheckpointRecord(**content))
    except (TypeError, NotFinite) as error:  # possible if another program wrote it
        raise CheckpointError(f"{file!r} is corrupt: its record cannot be used ({error})") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not a JSON number")


def _checked(record: CheckpointRecord) -> CheckpointRecord:
    """Return the record if `Checkpoints.save` can have written it; else raise `DTypeError` or `NotFinite`."""
    step, score = record.step, record.score
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise DTypeError(f"step must be an integer of at least 0, not {step!r}")
    if step >= MOST_STEPS:
        raise DTypeError(f"step must be below 2**62, not {step}")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise DTypeError(f"score must be a number or null, not {score!r}")
    if score is not None and not math.isfinite(score):
        raise NotFinite(f"score must be finite, not {score}")
    names = record.parameters
    if not isinstance(record.optimizer, str) or not isinstance(names, list) or not all(map(_is_text, names)):
        raise DTypeError(f"optimizer and parameters must be names, not {record.optimizer!r} and {names!r}")
    checked_state(record.state)
    return record


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def examined(path: FilePath) -> CheckpointRecord:
    """Return the record of an intact file, or raise `CheckpointError`; reads one array at a time into memory."""
    with opened(path) as file:
        metadata = dict(file.metadata() or {})
        # Errors of the record are raised outside of the block, in which `opened` would replace them.
        arrays = ((name, file.get_tensor(name)) for name in sorted(file.keys()))
        outcome = _outcome(path, metadata, arrays)
    if isinstance(outcome, CheckpointError):
        raise outcome
    return outcome


def _outcome(
    path: FilePath, metadata: Mapping[str, str], arrays: Iterable[tuple[str, np.ndarray]]
) -> CheckpointRecord | CheckpointError:
    try:
        return parsed(path, metadata, arrays)
    except CheckpointError as error:
        return error


def checked_state(state: object) -> dict[str, Any]:
    """Return the state if a checkpoint can hold it: JSON values with finite numbers, and arrays of numbers.

    Else raise `DTypeError` or `NotFinite` with the path of the value.
    """
    if not isinstance(state, dict):
        raise DTypeError(f"the state of a checkpoint must be a dict, not {state!r}")
    waiting: list[tuple[str, Any, int]] = [("state", state, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        if depth > _DEEPEST:
            raise DTypeError(f"the state of a checkpoint is nested more than {_DEEPEST} deep, or contains itself")
        if isinstance(value, dict):
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise DTypeError(f"{path} has the key {key!r}; JSON keys are strings")
                waiting.append((f"{path}[{key!r}]", inner, depth + 1))
        elif isinstance(value, list):
            waiting += [(f"{path}[{position}]", inner, depth + 1) for position, inner in enumerate(value)]
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise NotFinite(
                    f"{path} is {value}; JSON supports finite numbers only; an array, as in np.array(value), holds any"
                )
        elif isinstance(value, np.ndarray):
            if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
                raise DTypeError(f"{path} is an array of {value.dtype}; a file stores floats, integers and booleans")
        elif value is not None and not isinstance(value, bool | int | str):
            raise DTypeError(
                f"{path} is {value!r}, a {type(value).__name__}; JSON supports None, bool, int, float, str, list and "
                f"dict. Convert it, for example with int(...) or .tolist()"
            )
    return state


def without_arrays(state: Any, path: tuple[str | int, ...] = ()) -> tuple[Any, dict[str, np.ndarray]]:
    """Return a copy of a checked state with None in place of each array, and the arrays by their path as JSON.

    >>> without_arrays({"epoch": 2, "best": [np.array([1, 2])]})
    ({'epoch': 2, 'best': [None]}, {'["best", 0]': array([1, 2])})
    """
    if isinstance(state, np.ndarray):
        return None, {json.dumps(path): np.array(state)}
    if not isinstance(state, dict | list):
        return state, {}
    arrays: dict[str, np.ndarray] = {}
    rest: dict[str | int, Any] = {}
    for key, inner in state.items() if isinstance(state, dict) else enumerate(state):
        rest[key], found = without_arrays(inner, (*path, key))
        arrays |= found
    return (rest if isinstance(state, dict) else list(rest.values())), arrays


def with_arrays(state: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Put the arrays that `without_arrays` took out back into the state, and return it.

    Raise `KeyError`, `IndexError` or `TypeError` for a path that the state does not have.
    """
    for name, array in arrays.items():
        *parents, last = json.loads(name)
        place: Any = state
        for key in parents:
            place = place[key]
        place[last] = array
    return state

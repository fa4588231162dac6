"""Training checkpoints: files with weights, optimizer, state and a digest, of which the last and the best are kept."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from wyrm.errors import CheckpointError, DTypeError, NotFinite, OptionError
from wyrm.graph.parameters import Kept
from wyrm.graph.source_location import user_level
from wyrm.io.checkpoint import Parameters, by_name, differences, not_finite
from wyrm.io.files import digest_of, load_arrays, opened, replacing, write_arrays
from wyrm.support.background import Background
from wyrm.support.files import FilePath, flush, path_of, remove_leftovers
from wyrm.support.options import MOST_STEPS, flag, whole

if TYPE_CHECKING:
    from wyrm.optim.optimizer import Optimizer


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
        return _checked_record(CheckpointRecord(**content))
    except (TypeError, NotFinite) as error:  # possible if another program wrote it
        raise CheckpointError(f"{file!r} is corrupt: its record cannot be used ({error})") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not a JSON number")


def _checked_record(record: CheckpointRecord) -> CheckpointRecord:
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


_NAME = re.compile(r"step-([0-9]{8}|[1-9][0-9]{8,})\.safetensors")
_WEIGHTS, _OPTIMIZER, _STATE = "weights/", "optimizer/", "state/"
# Inode, size and mtime, which identify a file's content without reading it.
_Signature = tuple[int, int, int]


class Checkpoints:
    """The checkpoints of one training run in a directory, which is created if missing.

    Each is a safetensors file such as `step-00001000.safetensors`, which holds the weights, the optimizer's state and,
    as JSON metadata, everything else. Writing is atomic and flushed to disk. For people, `step-00001000.json` repeats
    the JSON. It is never loaded; after a crash it may be missing, but it never describes another file. A checkpoint
    counts only if it can be read completely and matches the digest that it contains.

    `save(..., wait=False)` copies and returns; a thread writes while training goes on.

    After each save, the `keep_last` (1 or more) checkpoints of the highest steps are kept, and with `keep_best` the one
    of the best score, which is the lowest unless `higher_is_better`; others are removed. Damaged files and files of
    other origin are not touched. One process at a time may write to a directory; any number may read. Gradients are not
    saved: save between steps.

    Raise `ValueError` for `keep_last` below 1, `DTypeError` if it is not a whole number.

    >>> import tempfile
    >>> model = wy.nn.Linear(2, 3)
    >>> optimizer = wy.optim.Adam(model.parameters())
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     checkpoints = Checkpoints(directory, keep_last=1)
    ...     for step, loss in [(100, 0.5), (200, 0.3), (300, 0.4)]:
    ...         path = checkpoints.save(step, model, optimizer, {"epoch": step // 100}, score=loss)
    ...     latest, best = checkpoints.latest(), checkpoints.best()
    ...     state = checkpoints.load(latest, model, optimizer)
    >>> latest.name, best.name, state
    ('step-00000300.safetensors', 'step-00000200.safetensors', {'epoch': 3})
    """

    def __init__(
        self, directory: FilePath, keep_last: int = 3, keep_best: bool = True, *, higher_is_better: bool = False
    ) -> None:
        self.directory: Path = path_of("directory", directory)
        self.keep_last: int = whole("keep_last", keep_last, 1)
        self.keep_best = keep_best
        self.higher_is_better = higher_is_better
        # Records by path and signature, so that no file is read twice.
        self._known: dict[Path, tuple[_Signature, CheckpointRecord | CheckpointError]] = {}
        self._writing = Background("a checkpoint")

    def save(
        self,
        step: int,
        parameters: Parameters,
        optimizer: Optimizer,
        state: dict[str, Any],
        score: float | None = None,
        *,
        wait: bool = True,
    ) -> Path:
        """Write a checkpoint of step `step`, 0 or more, and return the path of its safetensors file.

        `parameters` are a module or a mapping from names to parameters. `state` is everything else that resuming needs,
        as JSON values and arrays: the epoch, the position in the data, `program.state_dict()`, the configuration, and
        for random nodes of `forward()` the next step, `wy.random.next_step()`. Arrays may hold any numbers. A
        checkpoint of the same step is replaced. Old checkpoints are removed after the new one is written, as the class
        describes.

        With `wait=False` the call returns when everything is copied, and a thread writes the copy: what is written is
        the state at the call, whatever changes meanwhile. One checkpoint is written at a time. `wait()`, all
        that reads and the next `save` wait for it, and raise its errors. A process that is killed before leaves the
        checkpoints before it.

        Raises:
            CheckpointError: the file cannot be written, as on a full disk; existing checkpoints are then unchanged and
                no temporary file is left. Or the optimizer has a parameter that is not among `parameters`, or the
                directory has a checkpoint of a later step, which would stay the latest.
            NotFinite: a parameter, the optimizer's state, a number of the state or the score is not finite.
            DTypeError: the step is not a whole number, or the state holds values JSON lacks, such as tuples.
            ValueError: the step is below 0, or not below 2**62.

        >>> import tempfile
        >>> x = wy.Parameter([1.0, 2.0])
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = Checkpoints(directory).save(7, {"x": x}, wy.optim.SGD([x], 0.1), {"epoch": 0})
        ...     sorted(wy.io.load_arrays(path).arrays)
        ['optimizer/counts', 'optimizer/steps', 'weights/x']
        """
        number = whole("step", step, 0)
        if number >= MOST_STEPS:
            raise OptionError(f"step must be below 2**62, not {number}")
        named = _checked_parameters(parameters, optimizer)
        rest, of_state = without_arrays(checked_state(state))
        record = CheckpointRecord(
            number, _score(score), type(optimizer).__name__, _parameter_names(optimizer, named), rest
        )
        arrays = {f"{_WEIGHTS}{name}": np.array(parameter.value) for name, parameter in named.items()}
        arrays |= {f"{_OPTIMIZER}{name}": array for name, array in optimizer.state_dict().items()}
        arrays |= {f"{_STATE}{name}": array for name, array in of_state.items()}
        path = self.path(number)
        write = partial(self._write, path, arrays, record)
        if flag("wait", wait):
            self.wait()
            write()
        else:
            self._writing.start(write)
        return path

    @property
    def is_writing(self) -> bool:
        """Whether a thread is writing a checkpoint."""
        return self._writing.is_running

    def wait(self) -> None:
        """Return when no checkpoint is being written; raise the errors of one that `save(..., wait=False)` began."""
        self._writing.wait()

    def check(self) -> None:
        """Raise the errors of a checkpoint that could not be written; return at once if one is being written."""
        self._writing.check()

    def _write(self, path: Path, arrays: Mapping[str, np.ndarray], record: CheckpointRecord) -> None:
        for name, array in arrays.items():
            if not name.startswith(_STATE) and not np.isfinite(array).all():
                raise NotFinite(f"saving step {record.step}: {name} holds a NaN or an infinity; nothing was written")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._refuse_later(record.step)
            remove_leftovers(self.directory)
            _write_files(path, arrays, record)
        except OSError as error:
            reason = f"cannot write {os.fspath(path)!r}: {error.strerror or error}"
            raise self._unwritten(record.step, reason) from error
        except CheckpointError as error:
            raise self._unwritten(record.step, str(error)) from error
        self._known[path] = _file_signature(path), record
        self._rotate()

    def _unwritten(self, step: int, reason: str) -> CheckpointError:
        full = any(os.strerror(code) in reason for code in (errno.ENOSPC, errno.EDQUOT))
        return CheckpointError(
            f"no checkpoint of step {step} was written: {reason}. Earlier ones in {os.fspath(self.directory)!r} "
            f"are unchanged{'; the disk is full: free space or lower keep_last' if full else ''}"
        )

    def _refuse_later(self, step: int) -> None:
        for path in self._paths():
            if step_of(path) <= step:
                return
            if isinstance(self._record_of_file(path), CheckpointRecord):
                raise CheckpointError(
                    f"{os.fspath(path)!r} has a later step and would stay the latest; "
                    f"resume from it, remove it, or use another directory"
                )

    def path(self, step: int) -> Path:
        """Return the path that the checkpoint of a step has.

        >>> Checkpoints("run").path(1000).name
        'step-00001000.safetensors'
        """
        return self.directory / f"step-{step:08d}.safetensors"

    def latest(self) -> Path | None:
        """Return the path of the checkpoint of the highest step, None if there is none.

        A damaged file is skipped with a `RuntimeWarning` that names it and the damage.

        >>> Checkpoints("missing").latest() is None
        True
        """
        self.wait()
        for path in self._paths():
            if self._is_whole(path):
                return path
        return None

    def best(self) -> Path | None:
        """Return the path of the checkpoint of the best score, the earliest of equals, None if none has a score.

        A damaged file is skipped with a `RuntimeWarning` that names it and the damage.

        >>> Checkpoints("missing").best() is None
        True
        """
        self.wait()
        return self._best(list(filter(self._is_whole, self._paths())))

    def state(self, path: FilePath) -> dict[str, Any]:
        """Return the state that was saved with a checkpoint, without its arrays; nothing is loaded.

        Raise `CheckpointError` for a file that is missing, corrupt or of another origin.
        """
        self.wait()
        return examined(path_of("file", path)).state

    def load(self, path: FilePath, parameters: Parameters, optimizer: Optimizer) -> dict[str, Any]:
        """Restore the parameters and the optimizer's state and steps, bit for bit, and return the saved user state.

        The optimizer keeps its options, such as the learning rate. Everything is checked before anything changes.

        Raises:
            CheckpointError: the file is missing, truncated, corrupt or of another origin, or belongs to other
                parameters or another optimizer; the message names the file and lists the differences.
            DTypeError: the mapping holds something other than parameters.

        >>> x = wy.Parameter([1.0, 2.0])
        >>> Checkpoints(".").load("missing.safetensors", {"x": x}, wy.optim.SGD([x], 0.1))
        Traceback (most recent call last):
        ...
        wyrm.errors.CheckpointError: no such file: 'missing.safetensors'
        """
        file = os.fspath(path_of("file", path))
        self.wait()
        named = _checked_parameters(parameters, optimizer)
        arrays, metadata = load_arrays(path)
        record = parsed(path, metadata, sorted(arrays.items()))
        weights, slots = _with_prefix(arrays, _WEIGHTS), _with_prefix(arrays, _OPTIMIZER)
        if problems := differences(named, weights) + not_finite(weights):
            what = f"{file!r} does not match the parameters of {type(parameters).__name__}:"
            raise CheckpointError("\n".join([what, *problems]))
        if record.optimizer != type(optimizer).__name__:
            raise CheckpointError(f"{file!r} is a checkpoint of {record.optimizer}, not of {type(optimizer).__name__}")
        parameter_names = _parameter_names(optimizer, named)
        if record.parameters != parameter_names:
            raise CheckpointError(
                f"{file!r} is of an optimizer with other parameters, or another order of them: "
                f"{', '.join(record.parameters)} in the file, {', '.join(parameter_names)} here"
            )
        try:
            state = with_arrays(record.state, _with_prefix(arrays, _STATE))
        except (LookupError, TypeError, ValueError) as error:  # possible if another program wrote it
            raise CheckpointError(f"{file!r} is corrupt: an array of its state has no place ({error})") from error
        try:
            optimizer.load_state_dict(slots)
        except CheckpointError as error:
            raise CheckpointError(f"{file!r} cannot be loaded into this optimizer: {error}") from error
        for name, parameter in named.items():
            parameter.set(weights[name])
        return state

    # --- the files ------------------------------------------------------------------------------------------------

    def _paths(self) -> list[Path]:
        """Return the files named like checkpoints, highest step first."""
        try:
            found = [path for path in self.directory.iterdir() if _NAME.fullmatch(path.name)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError(f"cannot read {os.fspath(self.directory)!r}: {error.strerror or error}") from error
        return sorted(found, key=step_of, reverse=True)

    def _record_of_file(self, path: Path) -> CheckpointRecord | CheckpointError | None:
        """Return the file's record, the error of reading it, or None if the file was removed meanwhile."""
        try:
            signature = _file_signature(path)
        except FileNotFoundError:
            return None
        known = self._known.get(path)
        if known is not None and known[0] == signature:
            return known[1]
        record: CheckpointRecord | CheckpointError
        try:
            record = examined(path)
            if record.step != step_of(path):
                record = CheckpointError(f"{os.fspath(path)!r} was renamed: it is a checkpoint of step {record.step}")
        except CheckpointError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            record = error
        self._known[path] = signature, record
        return record

    def _is_whole(self, path: Path) -> bool:
        """Whether the file is an intact checkpoint; else warn at the line that called the public method."""
        record = self._record_of_file(path)
        if isinstance(record, CheckpointError):
            warnings.warn(f"skipping a damaged checkpoint: {record}", RuntimeWarning, stacklevel=user_level())
        return isinstance(record, CheckpointRecord)

    def _best(self, paths: list[Path]) -> Path | None:
        scored = [
            (-record.score if self.higher_is_better else record.score, record.step, path)
            for path in paths
            if isinstance(record := self._record_of_file(path), CheckpointRecord) and record.score is not None
        ]
        return min(scored)[2] if scored else None

    def _rotate(self) -> None:
        """Remove intact checkpoints that are neither among the last nor the best."""
        intact = [path for path in self._paths() if isinstance(self._record_of_file(path), CheckpointRecord)]
        best = self._best(intact) if self.keep_best else None
        for path in intact[self.keep_last :]:
            if path != best:
                try:
                    # The description first, so that it never remains without its file.
                    path.with_suffix(".json").unlink(missing_ok=True)
                    path.unlink(missing_ok=True)
                except OSError as error:
                    warnings.warn(
                        f"cannot remove the old checkpoint {os.fspath(path)!r}: {error.strerror or error}",
                        RuntimeWarning,
                        stacklevel=user_level(),
                    )
                self._known.pop(path, None)


def _checked_parameters(parameters: Parameters, optimizer: object) -> dict[str, Kept]:
    """Return the parameters by name; raise `DTypeError` for anything else than parameters and an optimizer."""
    if not hasattr(type(optimizer), "load_step_counts"):
        raise DTypeError(f"a checkpoint holds the state of an optimizer, as of wy.optim.Adam(...), not {optimizer!r}")
    return by_name(parameters)


def _write_files(path: Path, arrays: Mapping[str, np.ndarray], record: CheckpointRecord) -> None:
    """Write both files in an order in which the description never describes another file."""
    text = record.text(arrays)
    beside = path.with_suffix(".json")
    with replacing(beside) as description:
        description.write_text(json.dumps(json.loads(text), indent=2) + "\n", encoding="utf-8")
        flush(description)
        with replacing(path) as temporary:
            write_arrays(temporary, os.fspath(path), arrays, {KEY: text}, with_digest=False)  # the record has one
            flush(temporary)
            # Both new files are on disk now. The old description is removed before they replace the old ones: if the
            # process dies, there is a correct description or none.
            beside.unlink(missing_ok=True)


def _file_signature(path: Path) -> _Signature:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def step_of(path: Path) -> int:
    """Return the step of the checkpoint that has a path."""
    found = _NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def _with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _parameter_names(optimizer: Optimizer, named: Mapping[str, Kept]) -> list[str]:
    """Return the names of the optimizer's parameters, in its order."""
    names = {id(parameter): name for name, parameter in named.items()}
    for parameter in optimizer.parameters:
        if id(parameter) not in names:
            raise CheckpointError(
                f"{type(optimizer).__name__} has {parameter!r}, which is not among the parameters of the checkpoint"
            )
    return [names[id(parameter)] for parameter in optimizer.parameters]


def _score(score: object) -> float | None:
    if score is None:
        return None
    if isinstance(score, bool) or not isinstance(score, int | float | np.integer | np.floating):
        raise DTypeError(f"score must be a number or None, not {score!r}")
    if not np.isfinite(score):
        raise NotFinite(f"score must be finite, not {score}; nothing was written")
    return float(score)

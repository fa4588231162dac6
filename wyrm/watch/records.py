"""The records of a run: their fields, their form as lines of JSON, and the files that hold them."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wyrm.errors import DataError, DTypeError, OptionError, WyrmError
from wyrm.graph.parameters import Parameter
from wyrm.support.options import whole

# Readers refuse a higher number.
FORMAT = 2
EVENTS = "events.jsonl"
HISTOGRAMS = "histograms.jsonl"
# A longer line is damaged.
LONGEST_LINE = 1 << 22
# Larger counts are damage too: JavaScript's floats could not tell steps that differ by one.
MOST_STEPS = 10**14
# The most entries of a list or a dict, and bins of a histogram: the page draws them all.
_MOST_ENTRIES, _MOST_BINS = 50_000, 1_000
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

Record = dict[str, Any]


def encoded(record: Mapping[str, Any]) -> bytes:
    r"""Return a record as a line. Floats keep seven digits; those that are not finite become strings.

    >>> encoded({"kind": "values", "values": {"loss": float("nan"), "rate": 1 / 3}})
    b'{"kind":"values","values":{"loss":"NaN","rate":0.3333333}}\n'
    """
    return f"{_json_text(record)}\n".encode("ascii")


def _json_text(value: Any) -> str:
    """Return the JSON of a value of a record."""
    if isinstance(value, float):
        if math.isfinite(value):
            return f"{value:.7g}"
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0.0 else '"-Infinity"'
    if isinstance(value, Mapping):
        return f"{{{','.join([f'{json.dumps(name)}:{_json_text(member)}' for name, member in value.items()])}}}"
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        # Columns of points at once, in a sixth of the time. A sum is finite only of finite numbers.
        if kinds == {float} and math.isfinite(sum(value)):
            return f"[{','.join(['%.7g'] * len(value)) % tuple(value)}]"
        if kinds == {int}:
            return f"[{','.join(map(str, value))}]"
        return f"[{','.join(map(_json_text, value))}]"
    return json.dumps(value, allow_nan=False)


def decoded(line: bytes) -> Record | None:
    """Return the record of a line, None if the line is damaged. Records are UTF-8, without a byte order mark.

    >>> decoded(b'{"kind":"note","text":"hello","time":0,"elapsed":0,"epoch":0,"step":0}')["text"]
    'hello'
    >>> decoded(b'{"kind":"note","te') is None
    True
    """
    try:
        # Given bytes, `json.loads` would guess the encoding, and accept lines that are not UTF-8.
        record = json.loads(line.decode("utf-8"), parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and _is_valid(record) else None


def number(value: Any) -> float:
    """Return a number of a record as a float."""
    return _NOT_FINITE[value] if isinstance(value, str) else float(value)


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _is_valid(record: Record) -> bool:
    """Return whether a record has the fields of its kind, so that the page can rely on them."""
    kind = record.get("kind")
    fields = _FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None or not all(check(record.get(name)) for name, check in (_COMMON | fields).items()):
        return False
    return kind != "points" or _is_series(record)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_number_or_name(value: object) -> bool:
    return _is_finite(value) or (isinstance(value, str) and value in _NOT_FINITE)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_STEPS


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_option(value: object) -> bool:
    return value is None or isinstance(value, bool | str) or _is_finite(value)


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


def _list_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and len(value) <= _MOST_ENTRIES and all(map(check, value))


def _column_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    """Return a check of a list of numbers, at the speed of C for those that JSON has."""
    listed = _list_of(check)

    def holds(value: object) -> bool:
        if not isinstance(value, list) or not set(map(type, value)) <= {int, float} or len(value) > _MOST_ENTRIES:
            return listed(value)
        # Numbers between two that pass do so too; JSON as it is read here has no NaN.
        whole_numbers = check is not _is_count or float not in set(map(type, value))
        return not value or (whole_numbers and check(min(value)) and check(max(value)))

    return holds


def _dict_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and len(value) <= _MOST_ENTRIES and all(map(check, value.values()))


def _is_histogram(value: object) -> bool:
    """Return whether a value is [lowest, highest, counts, number of elements that are not finite]."""
    return (
        isinstance(value, list) and len(value) == 4 and _is_number_or_name(value[0]) and _is_number_or_name(value[1])
        and _list_of(_is_count)(value[2]) and len(value[2]) <= _MOST_BINS and _is_count(value[3])
    )  # fmt: skip


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))


def _is_series(record: Record) -> bool:
    """Return whether the columns of a record of points are equally long."""
    low, high = record["low"] or {}, record["high"] or {}
    columns = [record["steps"], record["epochs"], record["seconds"]]
    columns += [column for kind in (record["means"], low, high) for column in kind.values()]
    return low.keys() == high.keys() and len(set(map(len, columns))) == 1


# Every record has the seconds since 1970, the seconds of training without breaks, the epoch and the step.
_COMMON: dict[str, Callable[[object], bool]] = {
    "time": _is_finite, "elapsed": _is_finite, "epoch": _is_finite, "step": _is_count
}  # fmt: skip
_FIELDS: dict[str, dict[str, Callable[[object], bool]]] = {
    # The start of a training, or of its continuation: earlier records of later steps are void then. `modules` has the
    # names and `sizes` the numbers of elements, in the order of the lists in records of modules.
    "start": {
        "format": _is_count,
        "id": _is_text,
        "name": _is_text,
        "engine": _is_text,
        "epochs": _or_none(_is_count),
        "steps": _or_none(_is_count),
        "rows": _or_none(_is_count),
        "modules": _list_of(_is_text),
        "sizes": _list_of(_is_count),
        "parameters": _list_of(_is_text),
        # The options of the run by name; format 1 has none.
        "config": _or_none(_dict_of(_is_option)),
    },
    # The values of a step, as trainings wrote them before format 2.
    "values": {"values": _dict_of(_is_number_or_name)},
    # Columns of points, each of one or more steps up to the named one: their means by name, and where points join
    # several values the lowest and the highest.
    "points": {
        "steps": _column_of(_is_count),
        "epochs": _column_of(_is_finite),
        "seconds": _column_of(_is_finite),
        "means": _dict_of(_column_of(_is_number_or_name)),
        "low": _or_none(_dict_of(_column_of(_is_number_or_name))),
        "high": _or_none(_dict_of(_column_of(_is_number_or_name))),
    },
    # By module: norms of the weights, norms of the gradients on a batch of `rows` rows, and the change in `over` steps
    # relative to the weights. `dead` has the numbers of dead units and of all units, by activation.
    "modules": {
        "weights": _list_of(_is_number_or_name),
        "gradients": _or_none(_list_of(_is_number_or_name)),
        "updates": _or_none(_list_of(_is_number_or_name)),
        "rows": _or_none(_is_count),
        "over": _or_none(_is_count),
        "dead": _dict_of(_is_pair),
    },
    "text": {"text": _is_text, "prompt": _or_none(_is_text)},
    "note": {"text": _is_text},
    "end": {"stopped": _is_text},
    "histograms": {"weights": _dict_of(_is_histogram), "gradients": _dict_of(_is_histogram)},
}


class Lines:
    """An append-only file of records that this process writes.

    A torn last line, which a killed process or a full disk leaves, is removed. Another process cannot write the file
    meanwhile; the lock ends with the process. Raise `DataError` if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as error:
            raise DataError(f"cannot write {os.fspath(path)!r}: {error.strerror or error}") from error
        try:
            self._lock()
            self._remove_torn_line()
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows has no such locks
            return
        try:
            for attempt in range(5):
                try:
                    fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except BlockingIOError:  # perhaps `is_written`, for a moment
                    if attempt == 4:
                        raise
                    time.sleep(0.02)
        except BlockingIOError:
            raise DataError(
                f"another training writes {os.fspath(self.path)!r}: give each training a folder of its own"
            ) from None
        except OSError:  # some network file systems have no locks
            pass

    def _remove_torn_line(self) -> None:
        end = os.fstat(self._descriptor).st_size
        with open(self._descriptor, "rb", closefd=False) as file:
            kept = end
            while kept:
                start = max(0, kept - (1 << 16))
                file.seek(start)
                newline = file.read(kept - start).rfind(b"\n")
                if newline >= 0:
                    kept = start + newline + 1
                    break
                kept = start
        if kept < end:
            os.ftruncate(self._descriptor, kept)

    def write(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append records, all or none; raise `OSError` if that fails, as when the disk is full."""
        data = b"".join(map(encoded, records))
        size = os.fstat(self._descriptor).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError:
            os.ftruncate(self._descriptor, size)
            raise

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def is_written(path: Path) -> bool | None:
    """Return whether a process has a file of records open for writing; None where the system has no such locks."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # closing the file ends it
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def read(path: Path) -> Iterator[Record]:
    """Yield the records of a file of this process's user, without damaged lines."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            record = decoded(line) if line.endswith(b"\n") else None
            if record is not None:
                yield record


def count(name: str, value: object) -> int:
    """Return a number of steps, rows or epochs; raise `DTypeError` or `OptionError` if readers would refuse it.

    >>> count("step", -1)
    Traceback (most recent call last):
    wyrm.errors.OptionError: step must be an integer of at least 0, not -1
    """
    if type(value) is int and 0 <= value < MOST_STEPS:
        return value
    result = whole(name, value, 0)
    if result >= MOST_STEPS:
        raise OptionError(f"{name} must be an integer below {MOST_STEPS:,}")
    return result


def text(name: str, value: object) -> str:
    """Return a text; raise `DTypeError` for anything else."""
    if not isinstance(value, str):
        raise DTypeError(f"{name} must be text, not {value!r}")
    return value


def folder_or_none(value: object) -> Path | None:
    """Return the folder of a run as a path; raise `DTypeError` if it is none."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if path is not None and not isinstance(path, str):
        raise DTypeError(f'folder must be the path of a folder, such as "runs/first", not {value!r}')
    return None if path is None else Path(path)


def check_tensorboard(value: object) -> None:
    """Raise `DTypeError` unless the option is True, False or None."""
    if value is not None and not isinstance(value, bool):
        raise DTypeError(f"tensorboard must be True, False, or None for where it is installed, not {value!r}")


def numbers(values: object) -> dict[str, float]:
    """Return values as floats by name; raise `DTypeError` unless they are single real numbers by names.

    >>> numbers({"loss": np.float32(0.5), "accuracy": None})
    Traceback (most recent call last):
    wyrm.errors.DTypeError: the value of 'accuracy' must be a number, not None
    """
    if not isinstance(values, Mapping):
        raise DTypeError(f'values must be a dict from names to numbers, such as {{"loss": 0.5}}, not {values!r}')
    return {text("the name of a value", name): _float(name, value) for name, value in values.items()}


def _float(name: str, value: Any) -> float:
    if type(value) is float:
        return value
    # Text and arrays of one element could become floats too.
    if not isinstance(value, str | bytes | bytearray) and not getattr(value, "shape", ()):
        try:
            return float(value)
        except OverflowError:
            raise OptionError(f"the value of {name!r} is too large for a float") from None
        except WyrmError:  # a node that has no value yet says why
            raise
        except (TypeError, ValueError):
            pass
    raise DTypeError(f"the value of {name!r} must be a number, not {value!r}")


def named_parameters(taker: str, parameters: Any) -> dict[str, Parameter]:
    """Return the parameters of a model, or of a mapping, by name; raise `TypeError` for anything else.

    A mapping with other keys than names, or with other values than parameters, raises `DTypeError` or `OptionError`.
    """
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        if not hasattr(parameters, "named_parameters"):
            kind = type(parameters).__name__
            raise TypeError(f"{taker} takes a module, or a dict from names to parameters, not {kind}")
        return dict(parameters.named_parameters())
    for name, parameter in parameters.items():
        if not isinstance(parameter, Parameter):
            raise OptionError(f"{name!r} is {parameter!r}; only parameters have updates")
        text("the name of a parameter", name)
    return dict(parameters)

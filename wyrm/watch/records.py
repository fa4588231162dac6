"""The records of a run: what they hold, and how they are lines of JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

# Readers refuse a higher number.
FORMAT = 1
EVENTS = "events.jsonl"
HISTOGRAMS = "histograms.jsonl"
# A longer line is damaged.
LONGEST_LINE = 1 << 22
# Larger counts are damage too: the page draws steps that differ by one, and its numbers are floats.
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
    return json.dumps(_plain(record), allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if math.isfinite(value):
            return float(f"{value:.7g}")
        return "NaN" if math.isnan(value) else "Infinity" if value > 0.0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value


def decoded(line: bytes) -> Record | None:
    """Return the record of a line, None if the line is damaged. Records are UTF-8, without a byte order mark.

    >>> decoded(b'{"kind":"note","text":"hello","time":0,"elapsed":0,"epoch":0,"step":0}')["text"]
    'hello'
    >>> decoded(b'{"kind":"note","te') is None
    True
    """
    try:
        # Of bytes, JSON's reader guesses the encoding, and takes lines that no answer in UTF-8 can hold.
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
    return fields is not None and all(check(record.get(name)) for name, check in (_COMMON | fields).items())


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_number(value: object) -> bool:
    return _is_finite(value) or (isinstance(value, str) and value in _NOT_FINITE)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_STEPS


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


def _list_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and len(value) <= _MOST_ENTRIES and all(map(check, value))


def _dict_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and len(value) <= _MOST_ENTRIES and all(map(check, value.values()))


def _is_histogram(value: object) -> bool:
    """[lowest, highest, counts, number of elements that are not finite]."""
    return (
        isinstance(value, list) and len(value) == 4 and _is_number(value[0]) and _is_number(value[1])
        and _list_of(_is_count)(value[2]) and len(value[2]) <= _MOST_BINS and _is_count(value[3])
    )  # fmt: skip


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))


# Every record has the time since 1970, the seconds of training without breaks, the epoch and the step.
_COMMON: dict[str, Callable[[object], bool]] = {
    "time": _is_finite, "elapsed": _is_finite, "epoch": _is_finite, "step": _is_count
}  # fmt: skip
_FIELDS: dict[str, dict[str, Callable[[object], bool]]] = {
    # The beginning of a training or its continuation: records before it of later steps are void. `modules` has the
    # names, and `sizes` the numbers of elements, in the order of the lists in records of modules.
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
    },
    "values": {"values": _dict_of(_is_number)},
    # Norms by module: of the weights, of the gradients of a batch of `rows` rows, and of the change over `over` steps
    # relative to the weights. `dead` has the number of dead units and of all units, by activation.
    "modules": {
        "weights": _list_of(_is_number),
        "gradients": _or_none(_list_of(_is_number)),
        "updates": _or_none(_list_of(_is_number)),
        "rows": _or_none(_is_count),
        "over": _or_none(_is_count),
        "dead": _dict_of(_is_pair),
    },
    "text": {"text": _is_text, "prompt": _or_none(_is_text)},
    "note": {"text": _is_text},
    "end": {"stopped": _is_text},
    "histograms": {"weights": _dict_of(_is_histogram), "gradients": _dict_of(_is_histogram)},
}

"""The folder of a run: its name, its creation, what an earlier training left there, and the options that it records."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from wyrm.errors import DataError, DTypeError, OptionError
from wyrm.watch.records import EVENTS, FORMAT, read


def fresh_folder(name: str) -> Path:
    """Return the path of a folder in `runs` for a new run: the name, the date and the time."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
    stem = f"{plain[:80]}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, count = Path("runs") / stem, 1
    while path.exists():
        count += 1
        path = Path("runs") / f"{stem}-{count}"
    return path


def prepare(folder: Path) -> None:
    """Create the folder of a run; raise `DataError` if that fails, or if it is the folder of several runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        inside = next(iter(sorted([*folder.glob(f"*/{EVENTS}"), *folder.glob(f"*/*/{EVENTS}")])), None)
    except (OSError, ValueError) as error:  # no path has a NUL
        reason = error.strerror if isinstance(error, OSError) else None
        raise DataError(f"cannot create the folder {os.fspath(folder)!r}: {reason or error}") from error
    if inside is not None:
        raise DataError(
            f"{os.fspath(folder)!r} holds runs, such as {inside.parent.relative_to(folder).as_posix()!r}: give the "
            f"path of a run's own folder, as in {os.fspath(folder / 'name')!r}"
        )


def earlier(folder: Path, step: int, epoch: float) -> tuple[float, str | None]:
    """Return the seconds of a run up to a step, and its identity; zero and None for a folder without a run."""
    elapsed, identity = 0.0, None
    if (folder / EVENTS).exists():
        try:
            for record in read(folder / EVENTS):
                if record["kind"] == "start":
                    if record["format"] > FORMAT:
                        raise OptionError(f"{os.fspath(folder)!r} was written by a newer version: give another folder")
                    identity = identity or record["id"]
                places = [(record["step"], record["epoch"], record["elapsed"])]
                if record["kind"] == "points":
                    places = list(zip(record["steps"], record["epochs"], record["seconds"], strict=True))
                if record["kind"] != "start":
                    before = (seconds for at, number, seconds in places if at <= step and number <= epoch + 1e-9)
                    elapsed = max(elapsed, max(before, default=0.0))
        except OSError as error:
            raise DataError(f"cannot read {os.fspath(folder)!r}: {error.strerror or error}") from error
    return elapsed, identity


Option = str | int | float | bool | None
# The most options of a run, and characters of one.
_MOST, _LONGEST = 1_000, 1_000


def checked_config(config: object) -> dict[str, Option]:
    """Return options as plain values by name; those of a mapping inside have its name before theirs.

    Raise `DTypeError` for anything but a mapping from names to numbers, texts, booleans, None, paths, sequences of
    them and mappings of them, and `OptionError` for more than a thousand options.

    >>> checked_config({"learning_rate": np.float32(0.5), "model": {"sizes": (64, 10)}})
    {'learning_rate': 0.5, 'model.sizes': '64, 10'}
    >>> checked_config([("seed", 1)])
    Traceback (most recent call last):
    wyrm.errors.DTypeError: config must be a dict from names to values, such as {"seed": 0}, not a list
    """
    if config is None:
        return {}
    found: dict[str, Option] = {}
    _add(found, "", config)
    if len(found) > _MOST:
        raise OptionError(f"config has {len(found):,} options, more than {_MOST:,}: leave out what no run differs in")
    return found


def _add(found: dict[str, Option], before: str, config: object) -> None:
    if not isinstance(config, Mapping):
        # The options of argparse, and objects of data classes.
        advice = ": give vars(...) of it" if hasattr(config, "__dict__") else ""
        kind = type(config).__name__
        raise DTypeError(f'config must be a dict from names to values, such as {{"seed": 0}}, not a {kind}{advice}')
    for name, value in config.items():
        if not isinstance(name, str):
            raise DTypeError(f"the name of an option in config must be text, not {name!r}")
        if isinstance(value, Mapping):
            _add(found, f"{before}{name}.", value)
        else:
            found[f"{before}{name}"] = _plain(f"{before}{name}", value)


def _plain(name: str, value: Any) -> Option:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value[:_LONGEST] if isinstance(value, str) else value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, PurePath):
        return str(value)[:_LONGEST]
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return ", ".join(str(_plain(name, member)) for member in value)[:_LONGEST]
    raise DTypeError(
        f"the option {name!r} in config must be a number, text, True, False, None, or a list or dict of them, not "
        f"{type(value).__name__}: give a text that names it"
    )

"""The folder of a run: its name, its creation, and what an earlier training left there."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from wyrm.errors import DataError, OptionError
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

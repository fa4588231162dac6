"""The harness: cases and contenders, interleaved rounds, medians, and a table of ratios."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROUNDS = 7


class Measurement(NamedTuple):
    """One round: seconds per unit of work, and the peak memory in bytes if measured."""

    seconds: float
    peak_bytes: int | None = None


# Called once to prepare (an ImportError skips the contender); the result is called once per round.
Contender = Callable[[], Callable[[], Measurement]]


@dataclass(frozen=True)
class Case:
    """A task that several contenders perform; the first is `wyrm`."""

    bench: str
    name: str
    contenders: Mapping[str, Contender]
    goal: str = ""
    rounds: int = ROUNDS


@dataclass
class Row:
    """The medians of one contender in one case."""

    bench: str
    case: str
    contender: str
    seconds: float
    ratio_to_wyrm: float
    peak_bytes: int | None
    goal: str = field(default="", repr=False)


def timed(work: Callable[[], object], units: int = 1, least: float = 0.02) -> Callable[[], Measurement]:
    """Return a round of `work`, repeated for at least `least` seconds and measured per unit."""
    work()
    start = time.perf_counter()
    work()
    calls = max(1, int(least / max(time.perf_counter() - start, 1e-9)))

    def once() -> Measurement:
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        return Measurement((time.perf_counter() - begin) / calls / units)

    return once


def in_new_process(code: str, *arguments: str) -> Measurement:
    """Measure one round in a fresh interpreter; the last line it prints is `{"seconds": ..., "peak_bytes": ...}`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    finished = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    answer = json.loads(finished.stdout.splitlines()[-1])
    return Measurement(answer["seconds"], answer.get("peak_bytes"))


def run(case: Case) -> tuple[list[Row], list[str]]:
    """Return the rows of a case, and the names of contenders that are not installed."""
    ready: dict[str, Callable[[], Measurement]] = {}
    skipped: list[str] = []
    for name, prepare in case.contenders.items():
        try:
            ready[name] = prepare()
        except ImportError as error:
            skipped.append(f"{name} ({error.name} is not installed)")
    rounds: dict[str, list[Measurement]] = {name: [] for name in ready}
    for _ in range(case.rounds):
        for name, once in ready.items():
            rounds[name].append(once())
    medians = {name: statistics.median(m.seconds for m in measured) for name, measured in rounds.items()}
    peaks = {name: [m.peak_bytes for m in measured if m.peak_bytes is not None] for name, measured in rounds.items()}
    return [
        Row(
            case.bench, case.name, name, seconds, seconds / medians["wyrm"],
            int(statistics.median(peaks[name])) if peaks[name] else None, case.goal if name == "wyrm" else "",
        )
        for name, seconds in medians.items()
    ], skipped  # fmt: skip


def _duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def table(rows: list[Row]) -> str:
    """Return the rows as text; a ratio of 3.0x means three times wyrm's time."""
    lines = [f"{'ratio':>8}  {'time':>9}  {'peak':>9}  {'contender':<22}{'case':<60}goal"]
    for row in rows:
        peak = "" if row.peak_bytes is None else f"{row.peak_bytes / 2**20:.0f} MiB"
        lines.append(
            f"{row.ratio_to_wyrm:>7.2f}x  {_duration(row.seconds):>9}  {peak:>9}  {row.contender:<22}"
            f"{row.bench + ': ' + row.case:<60}{row.goal}".rstrip()
        )
    return "\n".join(lines)


def write_json(rows: list[Row], path: Path) -> None:
    """Write one JSON object per case and contender."""
    records = [{name: value for name, value in vars(row).items() if name != "goal"} for row in rows]
    path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")

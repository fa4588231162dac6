"""The harness: cases and contenders, and their rounds in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

ROUNDS = 7


class Measurement(NamedTuple):
    """One round: seconds per unit of work, or what else the case measures, and the peak memory in bytes if measured."""

    seconds: float
    peak_bytes: int | None = None


# Called once to prepare (an ImportError skips the contender); the result is called once per round.
Contender = Callable[[], Callable[[], Measurement]]


@dataclass(frozen=True)
class Case:
    """A task that several contenders perform; the first is `wyrm`, and names that begin with it are its variants.

    `floors` are the least ratios of contenders' medians to wyrm's, and `most` the most that wyrm may take: they are
    what the library aims at on any processor. `goal` says in words what no number says. `unit` is "s", or what else is
    measured, of which less is better too. `other_work` names contenders that do less or other work, as a yardstick.
    `slow` ones, and cases that are not `quick`, are left out by `--quick`.
    """

    bench: str
    name: str
    contenders: Mapping[str, Contender]
    goal: str = ""
    rounds: int = ROUNDS
    floors: Mapping[str, float] = field(default_factory=dict)
    most: float | None = None
    unit: str = "s"
    other_work: Collection[str] = ()
    slow: Collection[str] = ()
    quick: bool = True

    def __post_init__(self) -> None:
        if strange := set(self.floors) | set(self.other_work) | set(self.slow):
            strange -= set(self.contenders)
            if strange:
                raise ValueError(f"{self.key}: no contender {', '.join(sorted(strange))}")

    @property
    def key(self) -> str:
        """The name of the case among those of all benchmarks."""
        return f"{self.bench}: {self.name}"


def timed(work: Callable[[], object], units: int = 1, least: float = 0.02) -> Callable[[], Measurement]:
    """Return a round of `work`, repeated for at least `least` seconds and measured per unit.

    How often is decided by the quickest of two or more calls after the first one: the second may still compile or
    prepare what later ones use.
    """
    work()
    spent: list[float] = []
    while len(spent) < 2 or sum(spent) < least:
        start = time.perf_counter()
        work()
        spent.append(max(time.perf_counter() - start, 1e-9))
    calls = max(1, int(least / min(spent)))

    def once() -> Measurement:
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        return Measurement((time.perf_counter() - begin) / calls / units)

    return once


def in_new_process(code: str, *arguments: str) -> Measurement:
    """Measure one round in a fresh interpreter; the last line it prints is `{"seconds": ..., "peak_bytes": ...}`.

    `BENCH_STARTED` tells it when it was started, by `time.monotonic`.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["BENCH_STARTED"] = repr(time.monotonic())
    finished = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment)
    if finished.returncode:
        raise RuntimeError(finished.stderr.strip().splitlines()[-1] if finished.stderr.strip() else "a process failed")
    answer = json.loads(finished.stdout.splitlines()[-1])
    return Measurement(answer["seconds"], answer.get("peak_bytes"))


# What happened in a case: `{"event": "ready" or "absent" or "round" ..., "contender": ..., ...}`.
Tell = Callable[[dict[str, object]], None]


def run(
    case: Case, tell: Tell, *, rounds: int | None = None, seconds: float = float("inf"), fewest: int = 3,
    without: Collection[str] = (),
) -> None:  # fmt: skip
    """Prepare the contenders of a case but for those `without`, and measure them in turn, telling each event.

    After `seconds` no round begins, but each contender has the `fewest`. One that fails takes no more turns.
    """
    ready: dict[str, Callable[[], Measurement]] = {}

    def failed(name: str, error: Exception) -> None:
        why = f"{error.name} is not installed" if isinstance(error, ImportError) and error.name else _first_line(error)
        tell({"event": "absent", "contender": name, "why": why})

    for name, prepare in case.contenders.items():
        if name in without:
            continue
        tell({"event": "preparing", "contender": name})
        try:
            ready[name] = prepare()
        except Exception as error:
            failed(name, error)
    start, most = time.perf_counter(), min(case.rounds, rounds or case.rounds)
    for turn in range(most):
        if turn >= fewest and time.perf_counter() - start > seconds:
            break
        for name, once in list(ready.items()):
            tell({"event": "measuring", "contender": name})
            try:
                found = once()
            except Exception as error:
                del ready[name]
                failed(name, error)
                continue
            tell({"event": "round", "contender": name, "value": found.seconds, "peak_bytes": found.peak_bytes})


def _first_line(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}"[:160]

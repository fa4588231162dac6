"""What the table of runs shows of each: its options, its last and best values, and how it ended."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from wyrm.train.callbacks import is_score
from wyrm.watch.points import columns_of
from wyrm.watch.records import EVENTS, Record, number, read
from wyrm.watch.runs import RunFolder, records_after


@dataclass
class RunSummary:
    """What is known of a run up to a position of a version of its file; `revision` grows when that changes."""

    version: str = ""
    position: int = 0
    revision: int = 0
    start: Record | None = None
    stopped: str | None = None
    step: int = 0
    elapsed: float = 0.0
    # By name: the last value, and the best finite one, the highest of scores such as the accuracy, else the lowest.
    last: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)

    def add(self, record: Record, until: float = math.inf) -> None:
        """Take a record in; of its points, those of a step up to `until`, where a later start began again."""
        if record["kind"] == "start":
            self.start, self.stopped = record, None
        elif record["kind"] == "end":
            self.stopped = record["stopped"]
        if record["step"] <= until:
            self.step, self.elapsed = record["step"], record["elapsed"]
        steps, columns = columns_of(record)
        for name, column in columns.items():
            values = [number(value) for step, value in zip(steps, column, strict=True) if step <= until]
            if values:
                self.last[name] = values[-1]
            if finite := [value for value in values if math.isfinite(value)]:
                better = max if is_score(name) else min
                self.best[name] = better(*finite, self.best.get(name, finite[0]))

    def shown(self) -> dict[str, Any]:
        """Return what the page needs, as JSON values."""
        start = self.start or {}
        return {
            "config": {**(start.get("config") or {}), "engine": start.get("engine")}, "stopped": self.stopped,
            "step": self.step, "elapsed": self.elapsed, "last": _finite(self.last), "best": self.best,
            "scores": [name for name in self.best if is_score(name)],
        }  # fmt: skip


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return values as JSON holds them: None for one that is not finite."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


class Summaries:
    """Summaries of runs, which read only what is new, and for no longer than `seconds` in one call."""

    def __init__(self, seconds: float = 0.3) -> None:
        self._seconds = seconds
        self._known: dict[str, RunSummary] = {}
        self._sizes: dict[str, tuple[float, int]] = {}
        # Counts changes. It starts at the time, so that a page of an earlier server asks for everything again.
        self.revision: int = int(time.time() * 1000)

    def __call__(self, runs: Iterable[RunFolder], since: int) -> tuple[dict[str, dict[str, Any]], bool]:
        """Return the summaries that changed after a revision, by identity, and whether some are not read yet."""
        runs, deadline, more = list(runs), time.perf_counter() + self._seconds, False
        unread = [run for run in runs if self._sizes.get(run.identity) != (run.modified, run.size)]
        for count, run in enumerate(unread, 1):
            self._read(run)
            if time.perf_counter() > deadline:
                more = count < len(unread)
                break
        everything = since > self.revision
        changed = {
            run.identity: summary.shown()
            for run in runs
            if (summary := self._known.get(run.identity)) is not None and (everything or summary.revision > since)
        }
        return changed, more

    def _read(self, run: RunFolder) -> None:
        with suppress(OSError):  # the page says so when it asks for the records
            self._known[run.identity] = self._updated(run, self._known.get(run.identity, RunSummary()))
        self._sizes[run.identity] = run.modified, run.size

    def _updated(self, run: RunFolder, known: RunSummary) -> RunSummary:
        """Return the summary with what is new in the file."""
        self.revision += 1
        more = True
        while more:
            part = records_after(run, known.position, known.version)
            if part.format is not None:
                break
            if part.version != known.version:
                known = RunSummary(part.version)
            starts = sum(record["kind"] == "start" for record in part.records) + (known.start is not None)
            known.position, more = part.position, part.more
            if starts > 1:
                known = _whole(run, known)
                continue
            for record in part.records:
                known.add(record)
        known.revision = self.revision
        return known


def _whole(run: RunFolder, known: RunSummary) -> RunSummary:
    """Return the summary of a run that began again, from its whole file: later records of earlier parts are void."""
    records = list(read(run.path / EVENTS))
    summary = RunSummary(known.version, known.position)
    for record, until in zip(records, _limits(records), strict=True):
        summary.add(record, until)
    return summary


def _limits(records: list[Record]) -> Iterator[float]:
    """Yield for each record the last step that counts: that of the earliest later start.

    >>> list(_limits([{"kind": "start", "step": 0}, {"kind": "values"}, {"kind": "start", "step": 5}]))
    [5, 5, inf]
    """
    limit, limits = math.inf, []
    for record in reversed(records):
        limits.append(limit)
        if record["kind"] == "start":
            limit = min(limit, record["step"])
    yield from reversed(limits)

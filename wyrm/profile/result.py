"""`Profile`: the times of a program's steps, as a table, a page, and a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wyrm.profile.memory import MemoryOfStep
from wyrm.profile.peaks import Peaks
from wyrm.profile.stages import Part, Stage
from wyrm.support.files import replacing
from wyrm.support.texts import aligned_table, of_all_layers, seconds_text

# Rows of the printed table, and the width of its last column.
_ROWS, _WIDTH = 25, 48
_PARTS: tuple[tuple[Part, str], ...] = (
    ("data", "loading data"),
    ("forward", "forward"),
    ("backward", "backward"),
    ("update", "updates"),
    ("", "outside native code"),
)


class Event(NamedTuple):
    """What a thread did at some time: a stage, by its position in the profile, or a whole step (-1).

    `start` and `duration` are microseconds.
    """

    name: str
    stage: int
    thread: int
    start: float
    duration: float


@dataclass(frozen=True)
class Group:
    """Stages that are the same but for their layer, with the sum of their calls and times."""

    stages: tuple[Stage, ...]

    @property
    def stage(self) -> Stage:
        """The first of them."""
        return self.stages[0]

    @property
    def calls(self) -> int:
        """The number of calls."""
        return sum(stage.calls for stage in self.stages)

    @property
    def seconds(self) -> float:
        """The time of all calls."""
        return sum(stage.seconds for stage in self.stages)

    def rate(self, what: str) -> float | None:
        """Return the sum of an amount of each call (`bytes`, `flops` or `least_seconds`) over the typical time."""
        amounts = [getattr(stage, what) for stage in self.stages]
        seconds = sum(stage.typical_seconds * stage.calls for stage in self.stages)
        if seconds <= 0 or any(amount is None for amount in amounts):
            return None
        return sum(a * stage.calls for a, stage in zip(amounts, self.stages, strict=True)) / seconds or None

    @property
    def bound(self) -> str:
        """What limits most of the time."""
        by: dict[str, float] = {}
        for stage in self.stages:
            by[stage.bound] = by.get(stage.bound, 0.0) + stage.seconds
        return max(by, key=by.__getitem__)


@dataclass(frozen=True)
class Profile:
    """Where the time of a program's steps goes; `print` shows it as a table.

    `stages` are the parts of a step in their order, summed over `steps` steps and all threads. `seconds` is the time
    from the first step to the last, and `thread_seconds` that of all threads without the clock's own:
    the stages' times add up to it. `readings` of the clock took `reading_seconds` each. `events` are the last recorded
    steps, in time. `memory` is None unless it was asked for.
    """

    stages: tuple[Stage, ...]
    method: str
    steps: int
    threads: int
    seconds: float
    thread_seconds: float
    reading_seconds: float
    readings: int
    peaks: Peaks
    events: tuple[Event, ...]
    memory: MemoryOfStep | None = None

    @property
    def parts(self) -> Mapping[str, float]:
        """The seconds of each part of a step: loading data, forward, backward, updates, outside native code."""
        return {name: sum(each.seconds for each in self.stages if each.part == part) for part, name in _PARTS}

    @property
    def clock_share(self) -> float:
        """The part of the time that the readings of the clock took."""
        return self.readings * self.reading_seconds / max(1e-12, self.seconds * self.threads)

    @property
    def groups(self) -> list[Group]:
        """The stages with those of equal layers together, the longest first."""
        found: dict[object, list[Stage]] = {}
        for stage in self.stages:
            found.setdefault(_form(stage), []).append(stage)
        return sorted((Group(tuple(stages)) for stages in found.values()), key=lambda group: -group.seconds)

    def table(self, rows: int | None = None) -> str:
        """Return the groups of stages as a table, the longest first; `rows` of them, by default all."""
        groups, total = self.groups, self.thread_seconds or 1.0
        head = ("share", "time a step", "calls", "stage", "GB/s", "GFLOP/s", "roofline", "bound by", "nodes", "line")
        lines = []
        for group in groups[:rows]:
            stage, exact = group.stage, all(each.exact for each in group.stages)
            reached, about = group.rate("least_seconds"), "" if exact else "~"
            lines.append(
                (
                    f"{group.seconds / total:.1%}",
                    seconds_text(group.seconds / max(1, self.steps)),
                    f"{group.calls / max(1, self.steps):.3g}" if stage.part else "",
                    f"{stage.kind} {stage.name}" if stage.kind != "load" else stage.name,
                    _giga(group.rate("bytes"), about),
                    _giga(group.rate("flops"), about),
                    "" if reached is None else f"{about}{reached:.0%}",
                    group.bound,
                    _shortened(", ".join(stage.nodes)),
                    _line(stage),
                )
            )
        table = aligned_table(head, lines, {0, 1, 2, 4, 5, 6})
        left = groups[len(lines) :]
        if left:
            rest = sum(group.seconds for group in left)
            table.append(f"{rest / total:5.1%}  in {len(left)} more: profile.table() has all")
        return "\n".join(table)

    def __str__(self) -> str:
        """Return the parts of a step, the table of the longest stages, the peaks, and the memory."""
        step = self.thread_seconds / max(1, self.threads * self.steps)
        total = self.thread_seconds or 1.0
        parts = ", ".join(f"{name} {spent / total:.0%}" for name, spent in self.parts.items() if spent)
        threads = "one thread" if self.threads == 1 else f"{self.threads} threads, whose times the table adds up"
        lines = [
            f"{self.steps} steps of {self.method}: {seconds_text(step)} a step, in {threads}",
            parts,
            "",
            self.table(_ROWS),
            "",
            "bytes count each array of a call once, FLOPs two for each multiply-add; ~ is an estimate",
            str(self.peaks),
            f"{self.readings:,} readings of the clock took {self.clock_share:.1%} of the time, which is subtracted",
        ]
        return "\n".join([*lines, *([] if self.memory is None else ["", str(self.memory)])])

    def __repr__(self) -> str:
        return f"<Profile of {self.steps} steps of {self.method}, {len(self.stages)} stages>"

    def page(self, path: str | Path, *, title: str = "Profile") -> Path:
        """Write the profile as one self-contained page for a browser; return the path.

        It has the time by module as a flame chart, the roofline plot, a table to sort, the timeline of each thread,
        and the memory if it was asked for.
        """
        from wyrm.profile.page import page_text

        return _written(Path(path), page_text(self, title))

    def chrome_trace(self, path: str | Path) -> Path:
        """Write the last recorded steps in Chrome's trace event format, which https://ui.perfetto.dev opens."""
        from wyrm.profile.page import trace_text

        return _written(Path(path), trace_text(self))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the profile for a notebook: the page in a frame, and the table as text."""
        from wyrm.profile.page import frame_text

        return {"text/plain": str(self), "text/html": frame_text(self)}


def _form(stage: Stage) -> object:
    """Return a key that stages of equal layers share."""
    if stage.kind in ("Python", "wait"):
        return stage.kind, stage.name
    modules = tuple(map(of_all_layers, stage.modules[:1]))
    shapes = stage.nodes if stage.kind != "update" else stage.name
    return stage.kind, stage.part, shapes, modules, stage.location, stage.flops, stage.bytes


def _giga(rate: float | None, about: str) -> str:
    return "" if rate is None else f"{about}{rate / 1e9:.2f}"


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _line(stage: Stage) -> str:
    return "  ".join(filter(None, (stage.location, *map(of_all_layers, stage.modules[:1]))))


def _written(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path

"""`Profile`: the times of a program's steps, as a table, a self-contained HTML page, and a trace for Perfetto."""

from __future__ import annotations

import dataclasses
import json
import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wyrm.profile.memory import MemoryOfStep
from wyrm.profile.peaks import Peaks
from wyrm.profile.stages import Stage, StepPart
from wyrm.support.files import replacing
from wyrm.support.options import whole
from wyrm.support.texts import aligned_table, fitted, of_all_layers, seconds_text, terminal_columns, wrapped
from wyrm.view.html import asset, html_page

# Rows of the printed table, and the width of its last column.
_ROWS, _WIDTH = 25, 48
_PARTS: tuple[tuple[StepPart, str], ...] = (
    ("data", "loading data"),
    ("forward", "forward"),
    ("backward", "backward"),
    ("update", "updates"),
    ("", "outside native code"),
)


class Event(NamedTuple):
    """What a thread did at some time: `stage` is a position among the profile's stages, or -1 for a whole step.

    `start` and `duration` are microseconds.
    """

    name: str
    stage: int
    thread: int
    start: float
    duration: float


@dataclass(frozen=True)
class Group:
    """Stages of equal layers, with the sum of their calls and times."""

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
        """Return the sum of `bytes`, `flops` or `least_seconds` of all calls, divided by their typical time."""
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
    from the first step to the last. `thread_seconds` is the time of all threads without the readings of the clock; the
    stages' times add up to it. `readings` of the clock took `reading_seconds` each. `events` has the timeline of the
    last steps. `memory` is None unless it was requested.
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
            found.setdefault(_key_of_layers(stage), []).append(stage)
        return sorted((Group(tuple(stages)) for stages in found.values()), key=lambda group: -group.seconds)

    def table(self, rows: int | None = None, *, width: int | None = None) -> str:
        """Return the groups of stages as a table, the longest first; `rows` of them, by default all.

        It fits `width` columns of text, by default those of the terminal; 0 is no limit, as in a file.
        """
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
                    stage.name if stage.name.startswith(stage.kind) else f"{stage.kind} {stage.name}",
                    _giga(group.rate("bytes"), about),
                    _giga(group.rate("flops"), about),
                    "" if reached is None else f"{about}{reached:.0%}",
                    group.bound,
                    _shortened(", ".join(stage.nodes)),
                    _line_of_stage(stage),
                )
            )
        columns = terminal_columns() if width is None else whole("width", width, 0)
        # A narrow terminal has room for where the time goes; the page and a wide one show the rest.
        cells, kept = fitted([head, *lines], columns, shrinking=(8, 9, 3), optional=(8, 4, 5, 2, 7))
        table = aligned_table(cells[0], cells[1:], {i for i, column in enumerate(kept) if column in (0, 1, 2, 4, 5, 6)})
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
        head = f"{self.steps} steps of {self.method}: {seconds_text(step)} a step, {_threads_in_words(self)}"
        head += "" if self.threads == 1 else ", whose times the table adds up"
        lines = [
            wrapped(f"{head}\n{parts}"),
            "",
            self.table(_ROWS),
            "",
            wrapped(
                "bytes count each array of a call once, FLOPs two for each multiply-add; ~ is an estimate\n"
                f"{self.peaks}\n"
                f"{self.readings:,} readings of the clock took {self.clock_share:.1%} of the time, which is subtracted"
            ),
        ]
        return "\n".join([*lines, *([] if self.memory is None else ["", str(self.memory)])])

    def __repr__(self) -> str:
        return f"<Profile of {self.steps} steps of {self.method}, {len(self.stages)} stages>"

    def page(self, path: str | Path, *, title: str = "Profile") -> Path:
        """Write the profile as one self-contained page for a browser; return the path.

        It has the time by module as a flame chart, the roofline plot, a table to sort, the timeline of each thread,
        and the memory if it was asked for.
        """
        return _write_text(Path(path), page_text(self, title))

    def chrome_trace(self, path: str | Path) -> Path:
        """Write the last recorded steps in Chrome's trace event format, which https://ui.perfetto.dev opens."""
        return _write_text(Path(path), trace_text(self))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the profile for a notebook: the page in a frame, and the table as text."""
        return {"text/plain": str(self), "text/html": frame_text(self)}


def _threads_in_words(profile: Profile) -> str:
    """Return how many threads did the steps, in words."""
    return "in one thread" if profile.threads == 1 else f"in {profile.threads} threads"


def _key_of_layers(stage: Stage) -> object:
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


def _line_of_stage(stage: Stage) -> str:
    return "  ".join(filter(None, (stage.location, *map(of_all_layers, stage.modules[:1]))))


def _write_text(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


_SCRIPTS = ("profile.js", "table.js", "flame.js", "roofline.js", "timeline.js")
# Operations, modules and owners listed for one stage.
_LISTED = 60


def page_text(profile: Profile, title: str) -> str:
    """Return the page as HTML."""
    return html_page(
        title,
        body=asset("wyrm.profile", "profile.html"),
        data={"profile": _data(profile, title)},
        styles=[asset("wyrm.profile", "profile.css")],
        scripts=[asset("wyrm.profile", name) for name in _SCRIPTS],
    )


def frame_text(profile: Profile) -> str:
    """Return the page in a frame that has no access to the notebook."""
    content = b64encode(page_text(profile, "Profile").encode()).decode()
    return (
        f'<iframe src="data:text/html;base64,{content}" sandbox="allow-scripts" title="Profile" '
        f'style="width:100%;height:900px;border:0"></iframe>'
    )


def _data(profile: Profile, title: str) -> dict[str, Any]:
    positions = {id(stage): position for position, stage in enumerate(profile.stages)}
    peaks = profile.peaks
    return {
        "title": title,
        "what": f"{profile.method} {_threads_in_words(profile)}",
        "part_names": {part or "outside": name for part, name in _PARTS},
        "steps": profile.steps,
        "threads": profile.threads,
        "thread_seconds": profile.thread_seconds,
        "clock_share": profile.clock_share,
        "stages": [_stage(stage) for stage in profile.stages],
        "groups": [[positions[id(stage)] for stage in group.stages] for group in profile.groups],
        "peaks": {
            "float32": peaks.float32, "bandwidth": peaks.bandwidth, "cached": peaks.cached, "threads": peaks.threads
        },
        "peaks_text": str(peaks),
        "events": [event._asdict() for event in one_step(profile.events)],
        "memory": None if profile.memory is None else _memory(profile.memory, profile),
    }  # fmt: skip


def _stage(stage: Stage) -> dict[str, Any]:
    fields = {field.name: getattr(stage, field.name) for field in dataclasses.fields(stage)}
    fields |= {"nodes": stage.nodes[:_LISTED], "modules": stage.modules[:_LISTED]}
    rates = ("flops_per_second", "bytes_per_second", "roofline", "bound")
    return fields | {name: getattr(stage, name) for name in rates}


def _memory(memory: MemoryOfStep, profile: Profile) -> dict[str, Any]:
    native = [stage for stage in profile.stages if stage.part in ("forward", "backward")]
    backward = next((position for position, stage in enumerate(native) if stage.part == "backward"), len(memory.calls))
    return {
        "arrays": [dataclasses.asdict(array) for array in memory.arrays],
        "calls": memory.calls,
        "block_bytes": memory.block_bytes,
        "own_bytes": memory.own_bytes,
        "parameter_bytes": memory.parameter_bytes,
        "optimizer_bytes": memory.optimizer_bytes,
        "peak": memory.peak,
        "peak_bytes": max(memory.totals, default=0),
        "backward": backward,
        "owners": memory.owners[:_LISTED],
    }


def one_step(events: tuple[Event, ...]) -> list[Event]:
    """Return what all threads did from the start of one step of the first thread to the start of its next one."""
    steps = [event for event in events if event.stage < 0 and event.thread == events[0].thread]
    if not steps:
        return []
    # The last step but one is complete.
    first = steps[-2] if len(steps) > 1 else steps[-1]
    stop = steps[-1].start if len(steps) > 1 else first.start + first.duration
    inside = [event for event in events if event.start < stop and event.start + event.duration > first.start]
    return [event for event in inside if event.stage >= 0]


def trace_text(profile: Profile) -> str:
    """Return the events as JSON: complete events with times in microseconds, and the names of process and threads."""
    process = os.getpid()
    events: list[dict[str, Any]] = [_name_event("process_name", process, 0, "wyrm")]
    events += [
        _name_event("thread_name", process, thread, f"thread {thread}")
        for thread in sorted({event.thread for event in profile.events})
    ]
    for event in profile.events:
        stage = profile.stages[event.stage] if event.stage >= 0 else None
        arguments: dict[str, Any] = {}
        if stage is not None:
            arguments = {
                "line": f"{stage.location} {stage.source}".strip(), "nodes": ", ".join(stage.nodes),
                "module": ", ".join(stage.modules), "part": stage.part, "flops": stage.flops, "bytes": stage.bytes,
            }  # fmt: skip
        events.append(
            {
                "name": event.name, "cat": "step" if stage is None else stage.kind, "ph": "X", "pid": process,
                "tid": event.thread, "ts": round(event.start, 3), "dur": round(event.duration, 3),
                "args": {name: value for name, value in arguments.items() if value not in ("", None)},
            }
        )  # fmt: skip
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, allow_nan=False)


def _name_event(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}

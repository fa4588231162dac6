"""A profile as files: a self-contained HTML page, and a trace that Perfetto and `chrome://tracing` open."""

from __future__ import annotations

import dataclasses
import json
import os
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from wyrm.profile.memory import MemoryOfStep
from wyrm.view.html import asset, html_page

if TYPE_CHECKING:
    from wyrm.profile.result import Event, Profile
    from wyrm.profile.stages import Stage

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
    """Return the page in a frame without rights of the notebook around it."""
    content = b64encode(page_text(profile, "Profile").encode()).decode()
    return (
        f'<iframe src="data:text/html;base64,{content}" sandbox="allow-scripts" title="Profile" '
        f'style="width:100%;height:900px;border:0"></iframe>'
    )


def _data(profile: Profile, title: str) -> dict[str, Any]:
    positions = {id(stage): position for position, stage in enumerate(profile.stages)}
    threads = "one thread" if profile.threads == 1 else f"{profile.threads} threads"
    peaks = profile.peaks
    return {
        "title": title,
        "what": f"{profile.method} in {threads}",
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
    events: list[dict[str, Any]] = [_name("process_name", process, 0, "wyrm")]
    events += [
        _name("thread_name", process, thread, f"thread {thread}")
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


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}

"""A profile in Chrome's trace event format, which Perfetto and `chrome://tracing` open."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wyrm.profile.result import Profile


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

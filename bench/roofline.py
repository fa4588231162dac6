"""Rooflines: bytes and FLOPs of GPT-2's step and BPR's epoch, beside the bandwidth and the products of the machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.fma import peak
from bench.models import THREADS
from bench.report.roofline import text

ROOT = Path(__file__).parents[1]
PROGRAMS = ("gpt2, 124M", "gpt2, default", "bpr, 16 dimensions, 1 thread", "bpr, 16 dimensions, 2 threads",
            "bpr, 64 dimensions, 1 thread")  # fmt: skip
# The parts that are shown; the rest of them are one line.
_PARTS = 14


def measured() -> list[dict[str, Any]]:
    """Return the rooflines, each from a process of its own; one that fails has no parts and says why."""
    found = []
    for name in PROGRAMS:
        code = "import json, sys; from bench.roofline import profiled; print(json.dumps(profiled(sys.argv[1])))"
        command = [sys.executable, "-c", code, name]
        try:
            finished = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=240)
            found.append(json.loads(finished.stdout.splitlines()[-1]))
        except subprocess.SubprocessError as error:
            print(f"no roofline of {name}: {error}", file=sys.stderr)
    return found


def profiled(name: str) -> dict[str, Any]:
    """Profile a program of `PROGRAMS` in this process; return its parts and the machine's peaks.

    The times of several threads are added up. A part is the calls of equal layers.
    """
    kind, size, *threads = name.split(", ")
    if kind == "gpt2":
        title, profile, repeats = f"a step of GPT-2, {size}", _gpt2(size), 1.0
        if profile.threads == 1:
            title = f"{title}, products by {THREADS} threads"
    else:
        profile, repeats = _bpr(int(size.split()[0]), int(threads[0].split()[0]))
        title = f"an epoch of BPR on MovieLens 100K, {size}"
    every, a_step = [], repeats / profile.steps
    for group in profile.groups:
        work = {
            what: sum((getattr(each, attribute) or 0.0) * each.calls for each in group.stages) * a_step
            for what, attribute in (("flops", "flops"), ("bytes", "bytes"), ("least", "least_seconds"))
        }
        every.append({"name": _label(group), "seconds": group.seconds * a_step} | work)
    shown, rest = every[:_PARTS], every[_PARTS:]
    if rest:
        shown.append({"name": f"{len(rest)} more parts"} | _sums(rest))
    parts = [*shown, {"name": "all"} | _sums(every)]
    return {
        "name": title, "seconds": profile.thread_seconds * a_step, "threads": profile.threads,
        "peaks": f"{profile.peaks}; {peak() / 1e9:.0f} GFLOP/s of multiply-adds alone", "parts": parts,
    }  # fmt: skip


def _label(group: Any) -> str:
    """Return what the stages of a group do, and in which modules."""
    stage = group.stage
    nodes = [node.partition(" (")[0] for node in stage.nodes] if stage.kind == "loop" else list(stage.nodes)
    shown = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    modules = {re.sub(r"\d+", "*", module) for each in group.stages for module in each.modules[:1]}
    where = f" in {min(modules)}" if modules else ""
    return " ".join(filter(None, [stage.part, shown or stage.name])) + where


def _sums(parts: list[dict[str, Any]]) -> dict[str, float]:
    return {what: sum(each[what] for each in parts) for what in ("seconds", "flops", "bytes", "least")}


def _gpt2(size: str) -> Any:
    from bench.gpt2 import SIZES, profile_of_step

    return profile_of_step(SIZES[size])


def _bpr(dimensions: int, threads: int) -> tuple[Any, float]:
    """Return the profile, and the steps of an epoch."""
    import wyrm as wy
    from bench.models import BPR_BATCH, MOVIELENS, Recommender

    data = wy.data.read_movielens(MOVIELENS)
    model = Recommender(data.user_count, data.item_count, dimensions)
    columns = {model.users: data.users, model.items: data.items}
    return model.program.profile(columns, batch_size=BPR_BATCH, threads=threads), len(data) / BPR_BATCH


if __name__ == "__main__":
    print(text(measured()))

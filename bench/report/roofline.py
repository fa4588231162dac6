"""Rooflines as tables: what a step computes and moves beside what the machine can do, and where the rest is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report.results import Machine, duration

_NAMES = ("share", "time", "part", "FLOPs", "bytes", "GFLOP/s", "GB/s", "least time", "of the roofline")


def lines_of(record: Mapping[str, Any]) -> list[list[str]]:
    """Return the cells of the parts of a step, the longest first, and of the whole."""
    found = []
    for part in record["parts"]:
        seconds, least = part["seconds"], part["least"]
        found.append([
            f"{seconds / record['seconds']:.1%}", duration(seconds), part["name"], _large(part["flops"]),
            _large(part["bytes"]), _giga(part["flops"], seconds), _giga(part["bytes"], seconds), duration(least),
            f"{least / seconds:.0%}" if least and seconds else "",
        ])  # fmt: skip
    return found


def title_of(record: Mapping[str, Any]) -> str:
    """Return what was measured."""
    count = record["threads"]
    return f"{record['name']}: {duration(record['seconds'])} of {'one thread' if count == 1 else f'{count} threads'}"


def rest_of(record: Mapping[str, Any]) -> str:
    """Return how much of the time is above the least time, and in which parts most of that is."""
    parts, whole = record["parts"][:-1], record["seconds"]
    rests = sorted(((part["seconds"] - part["least"]) / whole, part["name"]) for part in parts)[::-1]
    least = record["parts"][-1]["least"] / whole
    most = "; ".join(f"{share:.0%} {name}" for share, name in rests[:4])
    return f"{least:.0%} of the time is the least time; of the rest, the most is in: {most}."


def text(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the rooflines for the terminal."""
    parts = []
    for record in records:
        cells = [list(_NAMES), *lines_of(record)]
        widths = [max(len(line[place]) for line in cells) for place in range(len(_NAMES))]
        rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
        parts.append(
            "\n".join([title_of(record), record["peaks"], rest_of(record), "", *(row.rstrip() for row in rows)])
        )
    return "\n\n".join(parts)


def roofline_tables(machines: Mapping[str, Machine]) -> list[str]:
    """Return a section with a table for each program on each machine."""
    parts = []
    for machine in machines.values():
        for record in machine.roofline:
            about = f"{rest_of(record)} The {record['peaks']}."
            lines = [f"**{title_of(record)}** on {machine.name}", "", about, ""]
            lines += [f"| {' | '.join(_NAMES)} |", f"| {' | '.join('---' for _ in _NAMES)} |"]
            lines += [f"| {' | '.join(cells)} |" for cells in lines_of(record)]
            parts.append("\n".join(lines) + "\n")
    section = (
        "What the parts of a step compute and move, each array of a call counted once, beside the machine's measured "
        "peaks. The least time is that of the FLOPs or of the bytes at the peak, whichever is longer; the rest of a "
        "part's time is above it.\n"
    )
    return ["## Rooflines", section, *parts] if parts else []


def _large(count: float) -> str:
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if count >= scale:
            return f"{count / scale:.3g} {letter}"
    return f"{count:.3g}" if count else ""


def _giga(count: float, seconds: float) -> str:
    return f"{count / seconds / 1e9:.3g}" if count and seconds else ""

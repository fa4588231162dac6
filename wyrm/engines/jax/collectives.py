"""The collectives in the code that XLA compiled."""

from __future__ import annotations

import re
from typing import NamedTuple

_KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
_DEFINITION = re.compile(rf"^\s*(?:ROOT )?%?[\w.-]+ = (.*?) ({_KINDS})(?:-start)?\(")
_WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}


class Collective(NamedTuple):
    """A collective: its kind, the bytes of its result on each device, and the number of loops that it is in.

    `times` is how often the loops of a known length run it.
    """

    kind: str
    size: int
    loops: int
    times: int = 1


def collectives(text: str) -> list[Collective]:
    """Return the collectives of compiled code, given as XLA's text.

    >>> from wyrm.engines.jax.collectives import collectives
    >>> lines = ["ENTRY %main (x: f32[2]) -> f32[2] {", "  %y = f32[2]{0} all-reduce(%x), channel_id=1", "}"]
    >>> collectives("\\n".join(lines))
    [Collective(kind='all-reduce', size=8, loops=0, times=1)]
    """
    bodies = computations(text)
    loops = _loops(text, bodies)
    return [
        Collective(match[2], sum(map(_bytes, re.findall(r"\w+\[[\d,]*\]", match[1]))), *loops[name])
        for name, lines in bodies.items()
        for line in lines
        if (match := _DEFINITION.match(line)) is not None
    ]


def computations(text: str) -> dict[str, list[str]]:
    """Return the lines of each computation by its name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        begins = re.match(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$", line)
        if begins is not None:
            lines = found.setdefault(begins[1], [])
        lines.append(line)
    return found


def loop_depths(text: str, bodies: dict[str, list[str]]) -> dict[str, int]:
    """Return the number of loops around each computation."""
    return {name: depth for name, (depth, _) in _loops(text, bodies).items()}


def _loops(text: str, bodies: dict[str, list[str]]) -> dict[str, tuple[int, int]]:
    """Return the number of loops around each computation, and the product of their known lengths."""
    entry = re.search(r"^ENTRY %?([\w.-]+) ", text, re.MULTILINE)
    assert entry is not None
    found = dict[str, tuple[int, int]]()
    found.update(dict.fromkeys(bodies, (0, 1)))
    waiting = [(entry[1], 0, 1)]
    while waiting:
        name, depth, times = waiting.pop()
        found[name] = max(found[name], (depth, times))
        for line in bodies[name]:
            length = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
            in_loop = times * (1 if length is None else int(length[1]))
            waiting += [(body, depth + 1, in_loop) for body in re.findall(r"body=%?([\w.-]+)", line)]
            waiting += [(body, depth, times) for body in re.findall(r"(?:calls|to_apply)=%?([\w.-]+)", line)]
            for branches in re.findall(r"branch_computations=\{(.*?)\}", line):
                waiting += [(body, depth, times) for body in re.findall(r"[\w.-]+", branches)]
    return found


def _bytes(array: str) -> int:
    dtype, _, shape = array.partition("[")
    size = _WIDTHS[dtype]
    for axis in re.findall(r"\d+", shape):
        size *= int(axis)
    return size

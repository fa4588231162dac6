"""The collectives in the code that XLA compiled, for tests."""

from __future__ import annotations

import re
from typing import NamedTuple

_KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
_DEFINITION = re.compile(rf"^\s*(?:ROOT )?%?[\w.-]+ = (.*?) ({_KINDS})(?:-start)?\(")
_WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}


class Collective(NamedTuple):
    """A collective: its kind, the bytes of its result on each device, and the number of loops that it is in."""

    kind: str
    size: int
    loops: int


def collectives(text: str) -> list[Collective]:
    """Return the collectives of compiled code, given as XLA's text."""
    bodies = _computations(text)
    depths = _depths(text, bodies)
    return [
        Collective(match[2], sum(map(_bytes, re.findall(r"\w+\[[\d,]*\]", match[1]))), depths[name])
        for name, lines in bodies.items()
        for line in lines
        if (match := _DEFINITION.match(line)) is not None
    ]


def carried(text: str) -> list[str]:
    """Return the types of the arrays that the innermost loops of a program carry in its compiled code.

    XLA computes some operations by loops of its own, which do not count.
    """
    bodies = _computations(text)
    depths = _depths(text, bodies)
    of_program = re.compile(r' while\(.*op_name="[^"]*/while"')
    loops = [(depths[name], line) for name, lines in bodies.items() for line in lines if of_program.search(line)]
    innermost = max(depth for depth, _ in loops)
    return [
        array
        for depth, line in loops
        if depth == innermost
        for array in re.findall(r"\w+\[[\d,]*\]", line.partition(" while(")[0])
    ]


def _computations(text: str) -> dict[str, list[str]]:
    """Return the lines of each computation by its name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        begins = re.match(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$", line)
        if begins is not None:
            lines = found.setdefault(begins[1], [])
        lines.append(line)
    return found


def _depths(text: str, bodies: dict[str, list[str]]) -> dict[str, int]:
    """Return the number of loops around each computation."""
    entry = re.search(r"^ENTRY %?([\w.-]+) ", text, re.MULTILINE)
    assert entry is not None
    depths = dict.fromkeys(bodies, 0)
    waiting = [(entry[1], 0)]
    while waiting:
        name, depth = waiting.pop()
        depths[name] = max(depths[name], depth)
        for line in bodies[name]:
            waiting += [(body, depth + 1) for body in re.findall(r"body=%?([\w.-]+)", line)]
            waiting += [(body, depth) for body in re.findall(r"(?:calls|to_apply)=%?([\w.-]+)", line)]
            for branches in re.findall(r"branch_computations=\{(.*?)\}", line):
                waiting += [(body, depth) for body in re.findall(r"[\w.-]+", branches)]
    return depths


def _bytes(array: str) -> int:
    dtype, _, shape = array.partition("[")
    size = _WIDTHS[dtype]
    for axis in re.findall(r"\d+", shape):
        size *= int(axis)
    return size

"""The right programs of the corpus run, and what mypy says of a node's class and axes holds at run time."""

from __future__ import annotations

import linecache
import re
import sys
from typing import Any

import wyrm as wy
from tests.each import each
from tests.typing.check_corpus import REVEALED
from tests.typing.corpus import HEADER, PROGRAMS, Program, programs

_PREAMBLE = (PROGRAMS / "preamble.py").read_text(encoding="utf-8")
# `reveal_type` is the test's own here.
_HEADER = HEADER.replace(", reveal_type", "").replace("from preamble import *", "")
_SHAPE = re.compile(r"tuple\[((?:[^\[\]]|\[[^\]]*\])*)\]\]$")


def _axis(axis: Any) -> str:
    """The axis as a type is written."""
    if isinstance(axis, wy.Plus | wy.Times):
        return f"{type(axis).__name__}[{', '.join(map(_axis, axis.parts))}]"
    return type(axis).__name__ if isinstance(axis, wy.Dim) else "Any"


def _matches(node: Any, expected: str) -> bool:
    """Whether a node is of the class and the axes that are expected of it, as far as they say."""
    declared = expected.partition("[")[0]
    shape = _SHAPE.search(expected)
    axes = [] if shape is None or shape[1] == "()" else re.split(r", (?![^\[]*\])", shape[1])
    actual = [_axis(axis) for axis in node.dims]
    known = shape is None or (len(axes) == len(actual) and all(map(_agree, axes, actual)))
    bases = [base.__name__ for base in (wy.Node, wy.IndexNode) if isinstance(node, base)]
    # What is proved of a node is a type alone.
    return known and declared in ("Any", "Causal", "Independent", type(node).__name__, *bases)


def _agree(expected: str, actual: str) -> bool:
    return expected in ("Any", actual)


@each((program for program in programs() if program.right), size=32)
def test_a_right_program_is_right_when_it_runs(program: Program) -> None:
    lines = (_HEADER + program.source).splitlines()
    names: dict[str, Any] = {"__name__": __name__}  # dataclasses look for their module
    wrong: list[str] = []

    def reveal_type(value: Any) -> Any:
        revealed = REVEALED.search(lines[sys._getframe(1).f_lineno - 1])
        types = [] if revealed is None else [each for each in revealed.groups() if each is not None]
        if isinstance(value, wy.Node | wy.IndexNode):
            wrong.extend(f"{value} is no {expected}" for expected in types if not _matches(value, expected))
        return value

    exec(compile(_PREAMBLE, "preamble.py", "exec"), names)
    names["reveal_type"] = reveal_type
    # Kernels are compiled from their source.
    text = "\n".join(lines)
    linecache.cache[str(program)] = (len(text), None, text.splitlines(keepends=True), str(program))
    exec(compile(text, str(program), "exec"), names)
    assert wrong == []

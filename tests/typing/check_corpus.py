"""Checks the corpus of typed programs with `mypy --strict`: the right ones pass, the wrong ones are rejected.

`python -m tests.typing.check_corpus` prints what mypy caught, what it missed, and where it raised a false alarm;
`--show` prints its messages too. A program is a section of a file in `programs/`, named by a line `#@ name`; it runs
after `programs/preamble.py`. What is expected of a line stands at its end:

    x + y  # error: [operator] Unsupported operand types for +
    reveal_type(x + x)  # reveals: Add[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).with_name("programs")
# Generated modules and mypy's cache: only what changed is checked again.
WORK = ROOT / ".mypy_cache" / "typing_corpus"
# What every program may use besides the names of the preamble, which a star import of strict mypy leaves out.
HEADER = """\
from __future__ import annotations
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal
import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar, TypeVarTuple, reveal_type
import wyrm as wy
from preamble import *
"""
_SECTION = re.compile(r"^#@ (\w+)$")
_EXPECTED = re.compile(r"# error: \[([\w-]+)\] (.+)$")
_REVEALED = re.compile(r"# reveals: (.+)$")
_MESSAGE = re.compile(r"^([\w.]+)\.py:(\d+): (error|note): (.*?)(?:  \[([\w-]+)\])?$")
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=\w)")


class Program(NamedTuple):
    """One section of a file: whether it is right, its source, and where that starts."""

    right: bool
    file: str
    name: str
    line: int
    source: str

    @property
    def module(self) -> str:
        """The name of the module that is generated for it."""
        return f"{'right' if self.right else 'wrong'}_{self.name}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name}"


class Message(NamedTuple):
    """One line of mypy's output about a program; `line` counts in the program's source, from 1."""

    line: int
    severity: str
    text: str
    code: str | None

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" + (f"  [{self.code}]" if self.code else "")


def programs() -> list[Program]:
    """The whole corpus."""
    found = []
    for kind in ("right", "wrong"):
        for path in sorted((PROGRAMS / kind).glob("*.py")):
            name, start, lines = "", 0, list[str]()
            for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), "#@ end"], 1):
                section = _SECTION.match(line)
                if section is None:
                    lines.append(line)
                    continue
                if name:
                    source = "\n".join(lines) + "\n"
                    found.append(Program(kind == "right", f"{kind}/{path.name}", name, start, source))
                name, start, lines = section[1], number, []
    return found


def _write(path: Path, text: str) -> None:
    """Write a file unless it has that text already, for mypy looks at its time first."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_mypy(corpus: list[Program]) -> dict[str, list[Message]]:
    """mypy's messages by module, all programs checked in one process."""
    source = WORK / "source"
    _write(source / "preamble.py", (PROGRAMS / "preamble.py").read_text(encoding="utf-8"))
    for program in corpus:
        _write(source / f"{program.module}.py", HEADER + program.source)
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(WORK / "cache")),
            *("--no-error-summary", "--no-color-output", "--hide-error-context"),
            *("preamble.py", *(f"{program.module}.py" for program in corpus)),
        ],
        cwd=source,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,  # it exits with 1 where it has found errors
    )
    if finished.returncode not in (0, 1):
        raise RuntimeError(finished.stdout + finished.stderr)
    messages: dict[str, list[Message]] = {program.module: [] for program in corpus}
    offset = HEADER.count("\n")
    for line in finished.stdout.splitlines():
        match = _MESSAGE.match(line)
        if match is None or match[1] not in messages:  # about wyrm itself, which has its own check
            continue
        messages[match[1]].append(Message(int(match[2]) - offset, match[3], match[4], match[5]))
    return messages


def short(revealed: str) -> str:
    """A type as mypy reveals it, without the names of modules."""
    return _MODULE.sub("", revealed)


class Report(NamedTuple):
    """How mypy did: what it caught; and, each with the reason, what it missed and where it raised a false alarm."""

    caught: list[Program]
    missed: list[str]
    false_alarms: list[str]


def _judge(program: Program, messages: list[Message]) -> tuple[list[str], list[str]]:
    """What mypy missed in a program, and where it raised a false alarm."""
    missed, alarms = [], []
    errors = [message for message in messages if message.severity == "error"]
    lines = program.source.splitlines()
    for number, line in enumerate(lines, 1):
        here = [error for error in errors if error.line == number]
        expected = _EXPECTED.search(line)
        if expected is None:
            alarms += [f"{program}: {error}" for error in here]
        elif not any(error.code == expected[1] and expected[2] in error.text for error in here):
            missed.append(f"{program}: line {number}: {line.strip()}; mypy says {[str(error) for error in here]}")
        revealed = _REVEALED.search(line)
        if revealed is not None:
            texts = [m.text for m in messages if m.line == number and m.text.startswith("Revealed type is ")]
            found = [short(text.removeprefix('Revealed type is "').removesuffix('"')) for text in texts]
            if found != [revealed[1]]:
                alarms.append(f"{program}: line {number}: revealed {found}, not {revealed[1]}")
    if not program.right and not any(_EXPECTED.search(line) for line in lines):
        missed.append(f"{program}: expects no error, and stands among the wrong programs")
    if program.right and any(_EXPECTED.search(line) for line in lines):
        missed.append(f"{program}: expects an error, and stands among the right programs")
    return missed, alarms


def check(corpus: list[Program], messages: dict[str, list[Message]]) -> Report:
    """The report on the whole corpus."""
    report = Report([], [], [])
    for program in corpus:
        missed, alarms = _judge(program, messages[program.module])
        report.missed.extend(missed)
        report.false_alarms.extend(alarms)
        if not program.right and not missed:
            report.caught.append(program)
    return report


def _lines(corpus: list[Program], messages: dict[str, list[Message]]) -> Iterator[str]:
    for program in corpus:
        for message in messages[program.module]:
            yield f"{program}: {message}"


def main(arguments: list[str]) -> int:
    """Print the report; 1 where something was missed or a false alarm raised."""
    corpus = programs()
    messages = run_mypy(corpus)
    report = check(corpus, messages)
    if "--show" in arguments:
        print("\n".join(_lines(corpus, messages)))
    for title, lines in (("missed", report.missed), ("false alarm", report.false_alarms)):
        for line in lines:
            print(f"{title}: {line}")
    wrong = sum(not program.right for program in corpus)
    print(
        f"{len(corpus) - wrong} right programs, {len(report.false_alarms)} false alarms; "
        f"{wrong} wrong programs, {len(report.caught)} caught, {len(report.missed)} missed"
    )
    return 1 if report.missed or report.false_alarms else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

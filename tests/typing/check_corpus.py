"""Checks the corpus of typed programs: type checkers accept the right ones and reject the wrong ones.

The checkers are mypy, strict, not, and with the plugin `wyrm.mypy`, and pyright. `python -m tests.typing.check_corpus`
prints what each of them caught, what it missed, and where it raised a false alarm; `--show` prints their messages too,
and the names of checkers leave out the others. A program is a section of a file in `programs/`, named by a line
`#@ name`; it runs after `programs/preamble.py`. What is expected of a line stands at its end:

    x + y  # error: [operator] Unsupported operand types for +
    reveal_type(x + x)  # reveals: Add[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
    reveal_type(x[[0]])  # reveals: Node[Any, Any]  # with the plugin: Node[Any, tuple[Any, In]]

mypy has to say just this; of pyright, and of the plugin, an error on that line is expected, in its own words. A program
that pyright cannot judge as expected says why in its first line, and is reported once pyright can:

    #@ name  # pyright cannot: infer the axes of a list whose parts have different classes

The README's Python blocks, one after another, are a right program too.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).with_name("programs")
# Generated modules and mypy's cache: only what changed is checked again.
WORK = ROOT / ".mypy_cache" / "typing_corpus"
# What every program may use besides the names of the preamble: a star import of strict mypy leaves it out, and pyright
# does not know a module that is imported before one.
HEADER = """\
from __future__ import annotations
from preamble import *
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal
import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar, TypeVarTuple, reveal_type
import wyrm as wy
"""
# A later block of the README uses a name again for a node of another class, as the cells of a notebook do.
_README_HEADER = "# mypy: allow-redefinition" + "\n" * HEADER.count("\n")
_SECTION = re.compile(r"^#@ (\w+)(?:  # pyright cannot: (.+))?$")
_EXPECTED = re.compile(r"# error: \[([\w-]+)\] (.+)$")
REVEALED = re.compile(r"# reveals: (.+?)(?:  # with the plugin: (.+))?$")
_MESSAGE = re.compile(r"^(plain/)?(\w+)\.py:(\d+): (error|note): (.*?)(?:  \[([\w-]+)\])?$")
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=\w)")


# Strict mypy's options for modules, with the values that they have without it.
_NOT_STRICT = {
    **dict.fromkeys(
        (
            "disallow_any_generics", "disallow_subclassing_any", "disallow_untyped_calls", "disallow_untyped_defs",
            "disallow_incomplete_defs", "check_untyped_defs", "disallow_untyped_decorators", "warn_unused_ignores",
            "warn_return_any", "strict_equality", "extra_checks",
        ),
        "false",
    ),
    "implicit_reexport": "true",
}  # fmt: skip


# Strict mypy with the plugin `wyrm.mypy`.
PLUGIN = "mypy with plugin"


class Program(NamedTuple):
    """One section of a file: whether it is right, its source, where that starts, and what pyright cannot do in it."""

    right: bool
    file: str
    name: str
    line: int
    source: str
    beyond_pyright: str | None = None
    header: str = HEADER

    @property
    def module(self) -> str:
        """The name of the module that is generated for it."""
        return f"{'right' if self.right else 'wrong'}_{self.name}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name}"


class Message(NamedTuple):
    """What a checker says about a line of a program, counted from 1 in the program's source."""

    line: int
    severity: str
    text: str
    code: str | None

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" + (f"  [{self.code}]" if self.code else "")


# By module.
Messages: TypeAlias = dict[str, list[Message]]


def programs() -> list[Program]:
    """The whole corpus."""
    found = []
    for kind in ("right", "wrong"):
        for path in sorted((PROGRAMS / kind).glob("*.py")):
            name, start, limit, lines = "", 0, None, list[str]()
            for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), "#@ end"], 1):
                section = _SECTION.match(line)
                if section is None:
                    lines.append(line)
                    continue
                if name:
                    source = "\n".join(lines) + "\n"
                    found.append(Program(kind == "right", f"{kind}/{path.name}", name, start, source, limit))
                name, start, limit, lines = section[1], number, section[2], []
    return found


def readme() -> Program:
    """Return the README's Python blocks as one program."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return Program(True, "README.md", "readme", 1, "\n".join(blocks), header=_README_HEADER)


def _is_installed() -> bool:
    """Whether wyrm is installed from this folder: then mypy finds it where it finds a user's, beside NumPy."""
    try:
        source = importlib.metadata.distribution("wyrm-autodiff").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return False
    return source is not None and json.loads(source)["url"] == ROOT.as_uri()


# Where mypy looks for wyrm besides the installed packages.
MYPYPATH = "" if _is_installed() else str(ROOT)


def _write(path: Path, text: str) -> None:
    """Write a file unless it has that text already, for mypy looks at its time first."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _sources(corpus: list[Program]) -> Path:
    """The folder in which the programs are modules, and modules of the package `plain`."""
    source = WORK / "source"
    _write(source / "preamble.py", (PROGRAMS / "preamble.py").read_text(encoding="utf-8"))
    _write(source / "plain" / "__init__.py", "")
    for program in corpus:
        for folder in (source, source / "plain"):
            _write(folder / f"{program.module}.py", program.header + program.source)
    return source


def run_mypy_with_plugin(corpus: list[Program]) -> dict[str, Messages]:
    """The messages of strict mypy with the plugin `wyrm.mypy`."""
    return {PLUGIN: run_mypy(corpus, "plugins = wyrm.mypy\n", "plugin")["mypy --strict"]}


def run_mypy(corpus: list[Program], more: str = "", name: str = "mypy") -> dict[str, Messages]:
    """The messages of strict mypy and, for the modules of `plain`, of mypy without its options, from one process."""
    source = _sources(corpus)
    options = "\n".join(f"{option} = {value}" for option, value in _NOT_STRICT.items())
    _write(source / f"{name}.ini", f"[mypy]\nstrict = true\n{more}[mypy-plain.*]\n{options}\n")
    modules = [program.module for program in corpus]
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", f"{name}.ini", "--cache-dir", str(WORK / f"cache_{name}")),
            *("--no-error-summary", "--no-color-output", "--hide-error-context", "preamble.py"),
            *(f"{module}.py" for module in (*modules, *(() if more else (f"plain/{module}" for module in modules)))),
        ],
        cwd=source,
        env={**os.environ, "MYPYPATH": MYPYPATH, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,  # it exits with 1 where it has found errors
    )
    if finished.returncode not in (0, 1):
        raise RuntimeError(finished.stdout + finished.stderr)
    strict: Messages = {module: [] for module in modules}
    plain: Messages = {module: [] for module in modules}
    offset = HEADER.count("\n")
    for line in finished.stdout.splitlines():
        match = _MESSAGE.match(line)
        if match is None or match[2] not in strict:  # about wyrm itself, which has its own check
            continue
        found = plain if match[1] else strict
        found[match[2]].append(Message(int(match[3]) - offset, match[4], match[5], match[6]))
    return {"mypy --strict": strict, "mypy": plain}


def run_pyright(corpus: list[Program]) -> dict[str, Messages]:
    """pyright's errors, all programs checked in one process."""
    source = _sources(corpus)
    modules = [f"{name}.py" for name in ("preamble", *(program.module for program in corpus))]
    options = {"include": modules, "extraPaths": [str(ROOT)], "pythonVersion": "3.11", "typeCheckingMode": "basic"}
    _write(source / "pyrightconfig.json", json.dumps(options))
    finished = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--project", str(source), "--pythonpath", sys.executable],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,  # as mypy
    )
    if finished.returncode not in (0, 1):
        raise RuntimeError(finished.stdout + finished.stderr)
    messages: Messages = {program.module: [] for program in corpus}
    offset = HEADER.count("\n")
    for found in json.loads(finished.stdout)["generalDiagnostics"]:
        module, line = Path(found["file"]).stem, found["range"]["start"]["line"] + 1 - offset
        if module in messages and found["severity"] == "error":
            messages[module].append(Message(line, "error", found["message"], found.get("rule")))
    return {"pyright": messages}


# What gives the messages of each checker. pyright is an extra of the project's developers.
CHECKERS: dict[str, Callable[[list[Program]], dict[str, Messages]]] = {
    "mypy --strict": run_mypy,
    "mypy": run_mypy,
    PLUGIN: run_mypy_with_plugin,
    "pyright": run_pyright,
}
HAS_PYRIGHT = importlib.util.find_spec("pyright") is not None


def short(revealed: str) -> str:
    """A type as mypy reveals it, without the names of modules."""
    return _MODULE.sub("", revealed)


class Report(NamedTuple):
    """How a checker did: what it caught; and, each with the reason, what it missed and where it raised a false alarm.

    `lengths` are those of the messages about what was caught.
    """

    caught: list[Program]
    missed: list[str]
    false_alarms: list[str]
    lengths: list[int]


def _judge(program: Program, messages: list[Message], checker: str) -> tuple[list[str], list[str], list[int]]:
    """What a checker missed in a program, where it raised a false alarm, and the lengths of its right messages.

    A program says word by word what is expected of mypy without the plugin, and which types with it.
    """
    exact, plugin = checker in ("mypy --strict", "mypy"), checker == PLUGIN
    missed, alarms, lengths = list[str](), list[str](), list[int]()
    errors = [message for message in messages if message.severity == "error"]
    lines = program.source.splitlines()
    for number, line in enumerate(lines, 1):
        here = [error for error in errors if error.line == number]
        expected = _EXPECTED.search(line)
        if expected is None:
            alarms += [f"{program}: {error}" for error in here]
        else:
            right = [e for e in here if not exact or (e.code == expected[1] and expected[2] in e.text)]
            lengths += [len(error.text) for error in right]
            if not right:
                missed.append(f"{program}: line {number}: {line.strip()}; it says {[str(error) for error in here]}")
        revealed = REVEALED.search(line)
        if (exact or plugin) and revealed is not None:
            texts = [m.text for m in messages if m.line == number and m.text.startswith("Revealed type is ")]
            found = [short(text.removeprefix('Revealed type is "').removesuffix('"')) for text in texts]
            wanted = (plugin and revealed[2]) or revealed[1]
            if found != [wanted]:
                alarms.append(f"{program}: line {number}: revealed {found}, not {wanted}")
    if not program.right and not any(_EXPECTED.search(line) for line in lines):
        missed.append(f"{program}: expects no error, and stands among the wrong programs")
    if program.right and any(_EXPECTED.search(line) for line in lines):
        missed.append(f"{program}: expects an error, and stands among the right programs")
    return missed, alarms, lengths


def check(corpus: list[Program], checker: str, messages: Messages) -> Report:
    """The report on the whole corpus."""
    report = Report([], [], [], [])
    for program in corpus:
        missed, alarms, lengths = _judge(program, messages[program.module], checker)
        report.lengths.extend(lengths)
        if checker == "pyright" and program.beyond_pyright is not None:
            if missed or alarms:
                continue
            missed = [f"{program}: pyright judges it as expected, though it says that it cannot"]
        report.missed.extend(missed)
        report.false_alarms.extend(alarms)
        if not program.right and not missed:
            report.caught.append(program)
    return report


def _lines(corpus: list[Program], messages: Messages) -> Iterator[str]:
    for program in corpus:
        for message in messages[program.module]:
            yield f"{program}: {message}"


def main(arguments: list[str]) -> int:
    """Print the reports; 1 where something was missed or a false alarm raised."""
    corpus, failed = [*programs(), readme()], False
    found: dict[str, Messages] = {}
    wrong = sum(not program.right for program in corpus)
    print(f"{len(corpus) - wrong} right programs, {wrong} wrong ones")
    for checker in [name for name in arguments if name in CHECKERS] or CHECKERS:
        if checker == "pyright" and not HAS_PYRIGHT:
            print("pyright: not installed")
            continue
        if checker not in found:
            found |= CHECKERS[checker](corpus)
        messages = found[checker]
        report = check(corpus, checker, messages)
        if "--show" in arguments:
            print("\n".join(_lines(corpus, messages)))
        for title, lines in (("missed", report.missed), ("false alarm", report.false_alarms)):
            for line in lines:
                print(f"{title}: {line}")
        median = statistics.median(report.lengths or [0])
        beyond = sum(program.beyond_pyright is not None for program in corpus) if checker == "pyright" else 0
        print(
            f"{checker}: {len(report.false_alarms)} false alarms, {len(report.caught)} caught, "
            f"{len(report.missed)} missed, {beyond} beyond it; messages of {median:.0f} characters, the median"
        )
        failed |= bool(report.missed or report.false_alarms)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Checks the corpus of typed programs: type checkers accept the right ones and reject the wrong ones.

The checkers are mypy and pyright, strict and not, mypy with the plugin `wyrm.mypy`, ty and pyrefly. `python -m
tests.typing.check_corpus` prints what each of them caught, what it missed, and where it raised a false alarm; `--show`
prints their messages too, and the names of checkers leave out the others. A program is a section of a file in
`programs/`, named by a line `#@ name`; it runs after `programs/preamble.py`. What is expected of a line stands at its
end:

    x + y  # error: [operator] Unsupported operand types for +
    reveal_type(x + x)  # reveals: Add[Input[tuple[Batch, In]], Input[tuple[Batch, In]], tuple[Batch, In]]
    reveal_type(x[[0]])  # reveals: Node[Any, Any]  # with the plugin: Node[Any, tuple[Any, In]]

mypy has to say just this; of the others an error on that line is expected, in their own words. Where a checker does not
judge a program as expected, `cannot.toml` names the program of `programs/limits.py` that shows what it cannot do; both
are reported once the checker can.

The Python blocks of the README and those of each page of the site's tour are right programs too.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from filelock import FileLock

from tests.typing import checkers
from tests.typing.checkers import ROOT, Message, Messages, without_options
from tests.typing.corpus import HEADER, PROGRAMS, Program, documents, limits, programs

# Generated modules and mypy's cache: only what changed is checked again.
WORK = ROOT / ".mypy_cache" / "typing_corpus"
_EXPECTED = re.compile(r"# error: \[([\w-]+)\] (.+)$")
REVEALED = re.compile(r"# reveals: (.+?)(?:  # with the plugin: (.+))?$")
_MESSAGE = re.compile(r"^(plain/)?(\w+)\.py:(\d+): (error|note): (.*?)(?:  \[([\w-]+)\])?$")
_LIMIT = re.compile(r"# (refused|accepted) by: (.+)$")
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


def configuration(options: str) -> str:
    """Return a configuration of mypy with these options, which follows wyrm, NumPy and Numba alone.

    The other packages that wyrm imports, such as PyTorch, would take most of the time of a first run, and no program is
    about their types. wyrm is read as the installed package is: what mypy says of its own functions has another check.
    """
    followed = "[mypy-numpy.*,numba.*]\nfollow_imports = normal\n[mypy-wyrm.*]\nfollow_imports = silent\n"
    return f"[mypy]\nfollow_imports = skip\n{options}\n{followed}"


# Strict mypy with the plugin.
PLUGIN = "mypy with plugin"
WITH_PLUGIN = "strict = true\nplugins = wyrm.mypy\n"


def _is_installed() -> bool:
    """Whether wyrm is installed from this folder: then mypy finds it where it finds a user's, beside NumPy."""
    try:
        source = importlib.metadata.distribution("wyrm-autodiff").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return False
    return source is not None and json.loads(source)["url"] == ROOT.as_uri()


# Returns the messages about programs, by checker.
Run: TypeAlias = Callable[[list[Program]], dict[str, Messages]]
# Where mypy looks for wyrm besides the installed packages.
MYPYPATH = "" if _is_installed() else str(ROOT)


def _write(path: Path, text: str) -> None:
    """Write a file unless it has that text already, for mypy looks at its time first."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _sources(corpus: list[Program]) -> Path:
    """The folder in which the programs are modules; those that depend on options are modules of `plain` too."""
    source = WORK / "source"
    _write(source / "preamble.py", (PROGRAMS / "preamble.py").read_text(encoding="utf-8"))
    _write(source / "plain" / "__init__.py", "")
    for program in corpus:
        for folder in (source, source / "plain") if program.depends_on_options else (source,):
            _write(folder / f"{program.module}.py", program.header + program.source)
    return source


def run_mypy_with_plugin(corpus: list[Program]) -> dict[str, Messages]:
    """The messages of strict mypy with the plugin."""
    return {PLUGIN: _run_mypy(corpus, "plugin", WITH_PLUGIN, plain=False)[0]}


def run_mypy(corpus: list[Program]) -> dict[str, Messages]:
    """The messages of strict mypy and of mypy without its options, from one process."""
    options = "\n".join(f"{option} = {value}" for option, value in _NOT_STRICT.items())
    strict, plain = _run_mypy(corpus, "mypy", f"strict = true\n[mypy-plain.*]\n{options}\n", plain=True)
    return {"mypy --strict": strict, "mypy": without_options(strict, plain)}


def mypy(folder: Path, name: str, *arguments: str) -> str:
    """Return what mypy prints in a folder with the configuration `name`.ini, whose cache all folders share."""
    command = [sys.executable, "-m", "mypy", "--config-file", f"{name}.ini", "--cache-dir", str(WORK / f"cache_{name}")]
    WORK.mkdir(parents=True, exist_ok=True)
    # A second process would check wyrm beside the first: it waits for the cache.
    with FileLock(WORK / f"cache_{name}.lock"):
        finished = subprocess.run(
            [*command, *arguments],
            cwd=folder,
            env={**os.environ, "MYPYPATH": MYPYPATH, "PYTHONPATH": str(ROOT), "WYRM_MYPY_RAISES": "1"},
            capture_output=True,
            text=True,
            check=False,  # it exits with 1 where it has found errors
        )
    if finished.returncode not in (0, 1):
        raise RuntimeError(finished.stdout + finished.stderr)
    return finished.stdout


def _run_mypy(corpus: list[Program], name: str, options: str, plain: bool) -> tuple[Messages, Messages]:
    """Return the messages about all programs and, with `plain`, about the modules of `plain`."""
    source = _sources(corpus)
    _write(source / f"{name}.ini", configuration(options))
    modules = [program.module for program in corpus]
    options_of_output = ("--no-error-summary", "--no-color-output", "--hide-error-context")
    plain_modules = [program.module for program in corpus if plain and program.depends_on_options]
    paths = (f"{module}.py" for module in (*modules, *(f"plain/{module}" for module in plain_modules)))
    output = mypy(source, name, *options_of_output, "preamble.py", *paths)
    every: Messages = {module: [] for module in modules}
    of_plain: Messages = {module: [] for module in plain_modules}
    offset = HEADER.count("\n")
    for line in output.splitlines():
        match = _MESSAGE.match(line)
        if match is None or match[2] not in every:  # about wyrm itself, which has its own check
            continue
        found = of_plain if match[1] else every
        found[match[2]].append(Message(int(match[3]) - offset, match[4], match[5], match[6]))
    return every, of_plain


def run_pyright(corpus: list[Program]) -> dict[str, Messages]:
    """The messages of strict pyright and of pyright without its options, from one process."""
    plain = [program.module for program in corpus if program.depends_on_options]
    return _of_programs(checkers.pyright(_sources(corpus), [program.module for program in corpus], plain))


def _other(run: Callable[[Path, Sequence[str]], dict[str, Messages]]) -> Run:
    """Return the function that gives the messages of a checker of one mode, from one process for the whole corpus."""

    def messages(corpus: list[Program]) -> dict[str, Messages]:
        return _of_programs(run(_sources(corpus), [program.module for program in corpus]))

    messages.__name__ = run.__name__
    return messages


def _of_programs(found: dict[str, Messages]) -> dict[str, Messages]:
    """Return messages with the lines of programs, which are those of modules without their header."""
    return {
        checker: {
            module: [dataclasses.replace(each, line=each.line - HEADER.count("\n")) for each in messages]
            for module, messages in by_module.items()
        }
        for checker, by_module in found.items()
    }


# What gives the messages of each checker.
CHECKERS: dict[str, Run] = {
    "mypy --strict": run_mypy,
    "mypy": run_mypy,
    PLUGIN: run_mypy_with_plugin,
    "pyright": run_pyright,
    "pyright --strict": run_pyright,
    "ty": _other(checkers.ty),
    "pyrefly": _other(checkers.pyrefly),
}
# What checkers cannot do in some programs, by checker and by the name of the program; the names of limits.
CANNOT: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("cannot.toml").read_text(encoding="utf-8"))


def short(revealed: str) -> str:
    """A type as mypy reveals it, without the names of modules."""
    return _MODULE.sub("", revealed)


class Report(NamedTuple):
    """How a checker did: what it caught; and, each with the reason, what it missed and where it raised a false alarm.

    `mended` are the programs that it judges as expected, though `cannot.toml` says that it cannot. `lengths` are those
    of the messages about what was caught.
    """

    caught: list[Program]
    missed: list[str]
    false_alarms: list[str]
    mended: list[str]
    lengths: list[int]


def beyond(checker: str) -> dict[str, str]:
    """Return what a checker cannot do, by the names of programs; a strict one need not do what it cannot otherwise."""
    return CANNOT.get(checker, {}) | CANNOT.get(checker.removesuffix(" --strict"), {})


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
    report, cannot = Report([], [], [], [], []), beyond(checker)
    for program in corpus:
        missed, alarms, lengths = _judge(program, messages[program.module], checker)
        report.lengths.extend(lengths)
        if program.name not in cannot:
            report.missed.extend(missed)
            report.false_alarms.extend(alarms)
        elif not missed and not alarms and program.name in CANNOT[checker]:
            report.mended.append(f"{program}: {cannot[program.name]}")
        if not program.right and not missed:
            report.caught.append(program)
    return report


def other_limits(checker: str, messages: Messages) -> list[str]:
    """Return the lines of limits that a checker judges otherwise than they say.

    A line says which checkers refuse what is right or accept what is wrong. Those in pairs of modes are named for both.
    """
    found = []
    for program in limits():
        for number, line in enumerate(program.source.splitlines(), 1):
            limit = _LIMIT.search(line)
            if limit is None or not (checker.startswith("mypy") or checker in limit[2].split(", ")):
                continue
            refused = any(m.line == number and m.severity == "error" for m in messages[program.module])
            if refused != ((limit[1] == "refused") != checker.startswith("mypy")):
                found.append(f"{program}: line {number}: {line.strip()}")
    return found


def _lines(corpus: list[Program], messages: Messages) -> Iterator[str]:
    for program in corpus:
        for message in messages[program.module]:
            yield f"{program}: {message}"


def main(arguments: list[str]) -> int:
    """Print the reports; 1 where something was missed or a false alarm raised."""
    corpus, failed = [*programs(), *documents()], False
    checked = [*corpus, *limits()]
    found: dict[str, Messages] = {}
    wrong = sum(not program.right for program in corpus)
    print(f"{len(corpus) - wrong} right programs, {wrong} wrong ones")
    for checker in [name for name in arguments if name in CHECKERS] or CHECKERS:
        if not checkers.is_installed(checker):
            print(f"{checker}: not installed")
            continue
        if checker not in found:
            found |= CHECKERS[checker](checked)
        messages = found[checker]
        report = check(corpus, checker, messages)
        if "--show" in arguments:
            print("\n".join(_lines(corpus, messages)))
        for title, lines in (
            ("missed", report.missed),
            ("false alarm", report.false_alarms),
            ("can now", report.mended + other_limits(checker, messages)),
        ):
            for line in lines:
                print(f"{title}: {line}")
        median = statistics.median(report.lengths or [0])
        print(
            f"{checker}: {len(report.false_alarms)} false alarms, {len(report.caught)} caught, "
            f"{len(report.missed)} missed, {len(beyond(checker))} beyond it; "
            f"messages of {median:.0f} characters, the median"
        )
        failed |= bool(report.missed or report.false_alarms)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Type checkers besides mypy, each run once over all programs: pyright in two modes, ty, and pyrefly.

Each is configured as its users have it. Only rules on style are off, such as those on names that nothing uses: the
programs are a few lines each.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
# The oldest version of Python that programs are checked for: NumPy 2.5 has types in the syntax of Python 3.12.
PYTHON = "3.12" if np.lib.NumpyVersion(np.__version__) >= "2.5.0" else "3.11"
# Rules of strict pyright that speak of style, not of types.
_STYLE = (
    "reportUnusedClass", "reportUnusedFunction", "reportUnusedImport", "reportUnusedVariable", "reportUnusedExpression",
    "reportConstantRedefinition", "reportMissingModuleSource", "reportSelfClsParameterName",
)  # fmt: skip
# The same of pyrefly: the types of lambdas whose arguments another argument of the call decides, and decorators.
_STYLE_OF_PYREFLY = ("implicit-any-lambda", "missing-override-decorator")
# What the strict options of mypy and of pyright do not decide, by the codes of messages; None is that of notes.
_WITHOUT_OPTIONS = {
    None, "arg-type", "assignment", "attr-defined", "call-arg", "call-overload", "dict-item", "func-returns-value",
    "index", "list-item", "misc", "operator", "return-value", "type-var", "union-attr", "var-annotated",
    "reportArgumentType", "reportAssignmentType", "reportAttributeAccessIssue", "reportCallIssue",
    "reportGeneralTypeIssues", "reportIndexIssue", "reportOperatorIssue", "reportOptionalCall",
    "reportOptionalMemberAccess", "reportReturnType",
}  # fmt: skip
_CONCISE = re.compile(r"^(?:.*/)?(\w+)\.py:(\d+):\d+: (error|warning|info)\[([\w-]+)\] (.*)$")


@dataclass
class Message:
    """What a checker says about a line of a file, or of a program's source, counted from 1."""

    line: int
    severity: str
    text: str
    code: str | None

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" + (f"  [{self.code}]" if self.code else "")


# By module.
Messages: TypeAlias = dict[str, list[Message]]


def is_installed(checker: str) -> bool:
    """Return whether a checker is installed; those besides mypy are extras of the project's developers."""
    return importlib.util.find_spec(checker.partition(" ")[0]) is not None


def without_options(strict: Messages, checked: Messages) -> Messages:
    """Return the messages of a checker without its strict options: those about `checked` modules, which it checked so.

    About the others, which no such option is about, it says what it says with them.
    """
    rest = {module: [each for each in said if each.code in _WITHOUT_OPTIONS] for module, said in strict.items()}
    return rest | checked


def pyright(source: Path, modules: Sequence[str], plain_modules: Sequence[str]) -> dict[str, Messages]:
    """Return the messages of strict pyright and, for the modules of the folder `plain`, of pyright without it."""
    files = [*(f"{module}.py" for module in modules), *(f"plain/{module}.py" for module in plain_modules)]
    options = {
        "include": ["preamble.py", *files],
        "strict": ["*.py"],
        "extraPaths": [str(ROOT)],
        "pythonVersion": PYTHON,
        "typeCheckingMode": "basic",
    }
    (source / "pyrightconfig.json").write_text(json.dumps(options), encoding="utf-8")
    output = _output("pyright", "--outputjson", "--project", str(source), "--pythonpath", sys.executable, cwd=source)
    strict: Messages = {module: [] for module in modules}
    plain: Messages = {module: [] for module in plain_modules}
    for found in json.loads(output)["generalDiagnostics"]:
        path, rule = Path(found["file"]), found.get("rule")
        messages = plain if path.parent.name == "plain" else strict
        if path.stem in messages and found["severity"] == "error" and rule not in _STYLE:
            line = found["range"]["start"]["line"] + 1
            messages[path.stem].append(Message(line, "error", found["message"], rule))
    return {"pyright": without_options(strict, plain), "pyright --strict": strict}


def ty(source: Path, modules: Sequence[str]) -> dict[str, Messages]:
    """Return ty's messages."""
    output = _output(
        *("ty", "check", "--output-format", "concise", "--color", "never", "--no-progress", "--python", sys.prefix),
        *("--extra-search-path", ".", "--extra-search-path", str(ROOT), "--python-version", PYTHON),
        *(f"{module}.py" for module in modules),
        cwd=source,
    )
    matches = filter(None, map(_CONCISE.match, output.splitlines()))
    found = ((match[1], Message(int(match[2]), match[3], match[5], match[4])) for match in matches)
    return {"ty": _sorted(modules, found)}


def pyrefly(source: Path, modules: Sequence[str]) -> dict[str, Messages]:
    """Return the messages of pyrefly with the preset `strict`."""
    options = f'preset = "strict"\npython-version = "{PYTHON}"\nsearch-path = [".", "{ROOT}"]\n'
    (source / "pyrefly.toml").write_text(options, encoding="utf-8")
    output = _output(
        *("pyrefly", "check", "--config", "pyrefly.toml", "--output-format", "json", "--summary", "none"),
        *("--python-interpreter-path", sys.executable, *(f"{module}.py" for module in modules)),
        cwd=source,
    )
    found = (
        (Path(each["path"]).stem, Message(each["line"], each["severity"], each["concise_description"], each["name"]))
        for each in json.loads(output)["errors"]
        if each["name"] not in _STYLE_OF_PYREFLY
    )
    return {"pyrefly": _sorted(modules, found)}


def _output(checker: str, *arguments: str, cwd: Path) -> str:
    """Return what a checker prints, which exits with 1 where it has found errors."""
    command = [sys.executable, "-m", checker, *arguments]
    finished = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if finished.returncode not in (0, 1):
        raise RuntimeError(finished.stdout + finished.stderr)
    return finished.stdout


def _sorted(modules: Sequence[str], found: Iterable[tuple[str, Message]]) -> Messages:
    """Return the messages about these modules, by module."""
    messages: Messages = {module: [] for module in modules}
    for module, message in found:
        if module in messages:
            messages[module].append(message)
    return messages

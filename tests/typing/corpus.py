"""The corpus of typed programs: right ones, wrong ones, and those that show what single type checkers cannot do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.site.pages import DOCS
from tests.typing.checkers import ROOT

PROGRAMS = Path(__file__).with_name("programs")
# What every program may use; of these lines it has what it names.
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
# A later block uses a name again for a node of another class, as the cells of a notebook do.
_README_HEADER = "# mypy: allow-redefinition" + "\n" * HEADER.count("\n")
_LIMITS_HEADER = """\
from __future__ import annotations
from preamble import x
from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, overload
from typing_extensions import ParamSpec, TypeVar, TypeVarTuple
from wyrm.graph.typing import Shaped
import wyrm as wy

"""
_SECTION = re.compile(r"^#@ (\w+)$")
# What strict options of checkers are about: functions, classes, comparisons, and the types of collections' items.
_OF_OPTIONS = (
    ast.FunctionDef, ast.ClassDef, ast.Compare, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp,
)  # fmt: skip


class Program(NamedTuple):
    """One section of a file: whether it is "right", "wrong" or a "limit", its source, and where that starts."""

    kind: str
    file: str
    name: str
    line: int
    source: str
    header: str

    @property
    def right(self) -> bool:
        """Whether type checkers should accept it."""
        return self.kind == "right"

    @property
    def module(self) -> str:
        """The name of the module that is generated for it."""
        return f"{self.kind}_{self.name}"

    @property
    def depends_on_options(self) -> bool:
        """Whether the strict options of checkers may decide more about it than codes of messages tell."""
        return self.kind == "limit" or any(isinstance(each, _OF_OPTIONS) for each in ast.walk(ast.parse(self.source)))

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name}"


def programs() -> list[Program]:
    """Return the right and the wrong programs."""
    return [
        program
        for kind in ("right", "wrong")
        for path in sorted((PROGRAMS / kind).glob("*.py"))
        for program in _sections(path, kind)
    ]


def limits() -> list[Program]:
    """Return the programs that show what a checker cannot do."""
    return [each._replace(header=_LIMITS_HEADER) for each in _sections(PROGRAMS / "limits.py", "limit")]


def documents() -> list[Program]:
    """Return the Python blocks of the README and of each page of the site's tour as a program."""
    found = []
    for page in (ROOT / "README.md", *sorted((DOCS / "tour").glob("*.md"))):
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        name = page.stem.lower().replace("-", "_")
        file = str(page.relative_to(ROOT))
        if blocks:
            found.append(Program("right", file, f"page_{name}", 1, "\n".join(blocks), header=_README_HEADER))
    return found


def _preamble() -> str:
    """Return the names of the preamble, as an import lists them."""
    body = ast.parse((PROGRAMS / "preamble.py").read_text(encoding="utf-8")).body
    defined = [each.name for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef)]
    assigned = [target for each in body if isinstance(each, ast.Assign) for target in each.targets]
    assigned += [each.target for each in body if isinstance(each, ast.AnnAssign)]
    names = [name.id for target in assigned for name in ast.walk(target) if isinstance(name, ast.Name)]
    return ", ".join([*defined, *names])


def _header(source: str, every: str) -> str:
    """Return the lines of `every` with the imports that a program uses alone: checkers read each a thousand times.

    A line whose imports it does not use is empty, so that its own lines have the same numbers in all programs.
    """
    used = set(re.findall(r"\w+", source))

    def of_line(line: str) -> str:
        start, _, names = line.rpartition("import ")
        kept = [name for name in names.split(", ") if name.rpartition(" ")[2] in used | {"annotations"}]
        return f"{start}import {', '.join(kept)}" if kept else ""

    return "".join(of_line(line) + "\n" for line in every.splitlines())


def _sections(path: Path, kind: str) -> Iterator[Program]:
    every = HEADER.replace("*", _preamble())
    name, start, lines = "", 0, list[str]()
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), "#@ end"], 1):
        section = _SECTION.match(line)
        if section is None:
            lines.append(line)
            continue
        if name:
            source = "\n".join(lines) + "\n"
            yield Program(kind, str(path.relative_to(PROGRAMS)), name, start, source, _header(source, every))
        name, start, lines = section[1], number, []

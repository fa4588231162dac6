"""The size of files and folders of wyrm: a file fits in one head, and a folder in one look."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import wyrm
from tests import tiers

ROOT = Path(wyrm.__file__).parent
FEWEST_LINES, MOST_LINES, MOST_ENTRIES = 40, 900, 30  # one idea, one file: so many lines are an alarm
# Names in `__init__` files, and modules that are run, are as long as they are.
ANY_LENGTH = ("__init__.py", "__main__.py")
# Their contents stand in generated files: the methods and functions that ops give them, with their types.
SHORT = {
    "graph/methods.py",
    "mypy/versions.py",  # is imported before what needs a version of mypy
}
LONG = set[str]()
CROWDED = {"."}  # the rooms


def lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


FILES = {path.relative_to(ROOT).as_posix(): lines(path) for path in sorted(ROOT.rglob("*.py"))}


def test_no_file_is_too_short_to_be_one_of_its_own() -> None:
    short = {name for name, count in FILES.items() if count < FEWEST_LINES and not name.endswith(ANY_LENGTH)}
    assert short <= SHORT, f"a file has at least {FEWEST_LINES} lines; put what it has into a neighbour"


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    assert {name for name, count in FILES.items() if count > MOST_LINES and not name.endswith(ANY_LENGTH)} <= LONG


def test_no_folder_has_too_many_entries() -> None:
    entries = Counter(path.parent for path in ROOT.rglob("*") if "__pycache__" not in path.parts)
    entries -= Counter(path.parent for path in ROOT.rglob("*.pyi"))  # which stand beside their modules
    crowded = {folder.relative_to(ROOT).as_posix() for folder, count in entries.items() if count > MOST_ENTRIES}
    assert crowded <= CROWDED


def test_the_quick_and_the_exhaustive_tests_are_there() -> None:
    assert list(tiers.missing()) == []

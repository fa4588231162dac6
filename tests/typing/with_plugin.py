"""What mypy says with the plugin of programs in tests: one process checks those of all tests, but for drawn ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from tests.once import computed_once
from tests.typing.check_corpus import WITH_PLUGIN, configuration, mypy

# The severity, the text and the code of each message, by line.
Said = dict[int, list[tuple[str, str, str]]]
_LINE = re.compile(r"^program_(\w+)\.py:(\d+): (error|note): (.*?)(?:  \[([\w-]+)\])?$")


class Checked:
    """A program that strict mypy checks with the plugin, beside those of all tests that pytest has collected.

    It is made when its test is imported; `name` is its own among them. Programs that are `drawn` take as long as all
    others, and their tests are exhaustive: they have a process of their own.
    """

    _every: ClassVar[tuple[dict[str, Callable[[], str]], ...]] = {}, {}

    def __init__(self, name: str, source: Callable[[], str], *, drawn: bool = False) -> None:
        assert all(name not in programs for programs in self._every)
        self.name, self.source, self.drawn = name, source, drawn
        self._every[drawn][name] = source

    def says(self, folders: pytest.TempPathFactory) -> Said:
        """Return what mypy says of the program."""
        name, programs = f"mypy_with_plugin_{self.drawn}", self._every[self.drawn]
        said = computed_once(folders, name, lambda: _check(programs, folders.mktemp("with_plugin")))
        assert said[self.name], f"mypy says nothing of {self.name}"
        return said[self.name]


def _check(programs: dict[str, Callable[[], str]], folder: Path) -> dict[str, Said]:
    """Return what mypy says of the programs, by name."""
    for name, source in programs.items():
        (folder / f"program_{name}.py").write_text(source(), encoding="utf-8")
    (folder / "plugin.ini").write_text(configuration(WITH_PLUGIN))
    files = [f"program_{name}.py" for name in programs]
    output = mypy(folder, "plugin", *files)
    said: dict[str, Said] = {name: {} for name in programs}
    for match in filter(None, map(_LINE.match, output.splitlines())):
        said[match[1]].setdefault(int(match[2]), []).append((match[3], match[4], match[5] or ""))
    return said

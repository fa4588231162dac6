"""What mypy says with the plugin of programs in tests: one process checks those of all tests, but for drawn ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
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


class CheckedLines(Checked):
    """A program of a preamble and a line for each expression, which reveals the types of the `right` ones."""

    def __init__(self, name: str, preamble: str, right: Iterable[str], wrong: Iterable[str]) -> None:
        self._preamble, self._right, self._wrong = preamble, list(right), list(wrong)
        super().__init__(name, self._text)

    def _text(self) -> str:
        shown = [f"reveal_type({each})" for each in self._right]
        return self._preamble + "".join(f"{line}\n" for line in [*shown, *self._wrong])

    def of_lines(self, folders: pytest.TempPathFactory) -> dict[str, list[str]]:
        """Return the texts that mypy says of each expression."""
        found, start = self.says(folders), self._preamble.count("\n") + 1
        lines = enumerate([*self._right, *self._wrong], start)
        return {each: [text for _, text, _ in found.get(line, [])] for line, each in lines}


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

"""The extensions that the guide shows as diffs: each is applied to a copy of the project, and its commands run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.guide.forms import GUIDE, ROOT

_EXTENSION = re.compile(
    r"<!-- extension: (?P<name>[^>]+?) -->\n```diff\n(?P<diff>.*?)```\n.*?```sh\n(?P<commands>.*?)```\n",
    re.DOTALL,
)


class Extension(NamedTuple):
    """One extension: its name, the change, and the commands that try it."""

    name: str
    diff: str
    commands: tuple[str, ...]


def extensions() -> list[Extension]:
    """Return the extensions of the guide, in order."""
    found = _EXTENSION.finditer(GUIDE.read_text(encoding="utf-8"))
    return [Extension(each["name"], each["diff"], tuple(each["commands"].splitlines())) for each in found]


def tried(extension: Extension, folder: Path) -> str:
    """Apply an extension to a copy of the project in a folder; return what its commands print, or raise what fails."""
    for each in ("wyrm", "tests", "stubs", "pyproject.toml"):
        here = ROOT / each
        if here.is_dir():
            shutil.copytree(here, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(here, folder / each)
    subprocess.run(["git", "apply"], input=extension.diff, cwd=folder, text=True, check=True)
    printed = []
    for command in extension.commands:
        program, *arguments = command.split()
        assert program == "python", f"a command of the guide begins with python, not {program}"
        done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        printed.append(done.stdout)
    return "".join(printed)

"""The extensions that the guide shows as diffs: applied to a copy of the project, and tried by its commands."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.guide.forms import GUIDE, ROOT

_DIFF = re.compile(r"```diff\n(.*?)```\n", re.DOTALL)
_COMMANDS = re.compile(r"<!-- commands -->\n```sh\n(.*?)```\n", re.DOTALL)


def diffs() -> list[str]:
    """Return the diffs of the guide, in order."""
    return _DIFF.findall(GUIDE.read_text(encoding="utf-8"))


def apply_all(folder: Path) -> None:
    """Write a copy of the project with all extensions to a folder."""
    for each in ("wyrm", "tests", "stubs"):
        shutil.copytree(ROOT / each, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for diff in diffs():
        done = subprocess.run(["git", "apply"], input=diff, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stderr}The code around it has changed: write this diff anew.\n{diff}"


def run_commands(folder: Path) -> list[str]:
    """Run the commands of the guide in a folder; return what each prints, or raise what fails."""
    found = _COMMANDS.search(GUIDE.read_text(encoding="utf-8"))
    assert found is not None, "the guide has no commands"
    printed = []
    for command in found.group(1).splitlines():
        program, *arguments = shlex.split(command)
        assert program == "python", f"a command of the guide begins with python, not {program}"
        done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        printed.append(done.stdout)
    return printed

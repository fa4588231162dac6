"""The extensions that the guide shows, as new files and at the ends of files: a copy of the project with them works."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.guide.forms import GUIDE, ROOT

_EXTENSION = re.compile(r"^(A new file,|At the end of) `([^`]+)`:\n\n```python\n(.*?)```\n", re.DOTALL | re.MULTILINE)
_COMMANDS = re.compile(r"<!-- commands -->\n```sh\n(.*?)```\n", re.DOTALL)


def extensions() -> list[tuple[str, str, str]]:
    """Return where each extension of the guide stands, "A new file," or "At the end of", its path, and its text."""
    return _EXTENSION.findall(GUIDE.read_text(encoding="utf-8"))


def apply_all(folder: Path) -> None:
    """Write a copy of the project with all extensions to a folder."""
    for each in ("wyrm", "tests", "stubs"):
        shutil.copytree(ROOT / each, folder / each)  # with the compiled modules, which stay valid
    shutil.copy(ROOT / "pyproject.toml", folder)
    for place, path, text in extensions():
        file = folder / path
        if place == "A new file,":
            assert not file.exists(), f"{path} is there: the guide needs another name"
            file.write_text(text, encoding="utf-8")
        else:
            file.write_text(f"{file.read_text(encoding='utf-8').rstrip()}\n\n\n{text}", encoding="utf-8")


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

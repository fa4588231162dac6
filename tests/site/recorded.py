"""What type checkers say of the model with swapped layers that the site and the README show."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.site.pages import DOCS, ROOT

RECORDED = DOCS / "recorded"
MODEL = RECORDED / "swapped.py"
_PYPROJECT = '[tool.mypy]\nplugins = ["wyrm.mypy"]\n'


def mypy(plugin: bool) -> str:
    """Return what mypy prints of the model, with the plugin or without."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(MODEL, Path(folder) / "model.py")
        if plugin:
            (Path(folder) / "pyproject.toml").write_text(_PYPROJECT, encoding="utf-8")
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), "model.py"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout


def pyright() -> str:
    """Return what pyright prints of the model."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(MODEL, Path(folder) / "model.py")
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "model.py"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        return done.stdout.replace(f"{Path(folder).resolve()}/", "")


def record() -> None:
    """Write what the checkers say."""
    for name, text in {"plugin": mypy(True), "mypy": mypy(False), "pyright": pyright()}.items():
        (RECORDED / f"swapped-{name}.txt").write_text(text, encoding="utf-8")

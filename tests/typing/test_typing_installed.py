"""Every public name is one for a type checker that finds wyrm installed, as users have it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import wyrm as wy

PACKAGE = Path(wy.__file__).parent


def test_every_public_name_is_exported(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (site,) = environment.glob("lib/python3*/site-packages")
    shutil.copytree(PACKAGE, site / "wyrm", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    rooms = [room for name in wy.__all__ if isinstance(room := getattr(wy, name), ModuleType)]
    names = [f"{room.__name__}.{name}" for room in (wy, *rooms) for name in room.__all__]
    assert "wyrm.einsum" in names
    assert "wyrm.nn.Linear" in names
    uses = [*(f"import {room.__name__}" for room in (wy, *rooms)), *names, "wyrm.abs, wyrm.sum, wyrm.max"]
    program = tmp_path / "uses.py"
    program.write_text("\n".join(uses), encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "basic", "reportUnusedExpression": False})
    )
    command = [sys.executable, "-m", "pyright", "--pythonpath", str(environment / "bin" / "python"), str(program)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout

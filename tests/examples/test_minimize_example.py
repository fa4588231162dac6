"""The example with SciPy's minimizers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.test_examples import ROOT, figure

pytest.importorskip("matplotlib")


def test_the_minimum_is_found_and_drawn(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    command = [sys.executable, str(ROOT / "examples" / "minimize.py"), "--pictures", str(folder), "--dimensions", "30"]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert figure(finished.stdout, r"off by at most (\S+)") < 1e-3
    assert all((folder / name).stat().st_size > 20_000 for name in ("descent.png", "values.png"))
    wrong = subprocess.run([*command[:-1], "1"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "--dimensions must be at least 2" in wrong.stderr

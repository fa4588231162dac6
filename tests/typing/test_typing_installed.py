"""A type checker that finds wyrm installed, as users have it, sees every public name and knows the names' types."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import wyrm as wy

PACKAGE = Path(wy.__file__).parent
# The causes of a type that is not known; the other diagnostics follow from these, or are about docstrings.
CAUSES = ("Type is missing type annotation", "Ambiguous base class override", "Type unknown", "Type argument")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment in which wyrm is installed."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (site,) = environment.glob("lib/python3*/site-packages")
    shutil.copytree(PACKAGE, site / "wyrm", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return environment


def pyright(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pyright in a folder outside of the repository, for the environment's Python."""
    command = [sys.executable, "-m", "pyright", *arguments]
    # `--verifytypes` asks the first Python on PATH; a PYTHONPATH to the repository would come before the environment.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["PATH"] = os.pathsep.join([str(installed / "bin"), variables["PATH"]])
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_every_public_name_is_exported(installed: Path, tmp_path: Path) -> None:
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
    result = pyright(installed, tmp_path, str(program))
    assert result.returncode == 0, result.stdout


def test_the_types_of_public_names_are_known(installed: Path, tmp_path: Path) -> None:
    result = pyright(installed, tmp_path, "--verifytypes", "wyrm", "--ignoreexternal", "--outputjson")
    report: dict[str, Any] = json.loads(result.stdout)["typeCompleteness"]
    assert Path(report["packageRootDirectory"]).resolve().is_relative_to(installed.resolve())
    unknown = [
        f"{symbol['name']}: {diagnostic['message']}"
        for symbol in report["symbols"]
        for diagnostic in symbol["diagnostics"]
        if diagnostic["message"].startswith(CAUSES)
    ]
    assert report["completenessScore"] >= 0.95, "\n".join(unknown)


def test_only_the_types_of_numpy_are_read(installed: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--python-executable", str(installed / "bin" / "python"), "--verbose"]
    command += ["--config-file", os.devnull, "--cache-dir", os.devnull, "-c", "import wyrm"]
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    variables["PYTHONPATH"] = str(tmp_path)  # mypy itself runs outside of the repository
    run = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True)
    read = re.findall(r"^LOG:  Parsing (.+) \(([\w.]+)\)$", run.stderr, re.MULTILINE)
    packages = Counter(module.partition(".")[0] for path, module in read if "typeshed" not in Path(path).parts)
    assert packages.keys() == {"wyrm", "numpy", "__main__"}, run.stderr[-1000:]
    assert packages["wyrm"] > 100

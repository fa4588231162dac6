"""The time of `mypy --strict` on long programs, with NumPy's cache warm; it should be linear."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import wyrm
from bench.harness import Case, Measurement
from tests.typing.generate import programs

_MOST = {"chain": 3.0, "residual": 5.0, "doublings": 2.0, "each other": 2.0}


def _checking(source: str) -> Callable[[], Measurement]:
    import mypy  # noqa: F401  # an ImportError skips the contender

    directory = tempfile.TemporaryDirectory(prefix="wyrm-typing-")
    folder = Path(directory.name)
    # The cases, each in a process of its own, fill one cache; mypy sees what of it is out of date.
    cache = Path(tempfile.gettempdir()) / f"wyrm-bench-mypy-{os.getuid()}"

    def check(path: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--follow-imports=silent",
            "--cache-dir",
            str(cache),
            str(path),
        ]
        # Through MYPYPATH: wyrm may not be installed.
        environment = {**os.environ, "MYPYPATH": str(Path(wyrm.__file__).parents[1])}
        finished = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
        if finished.returncode != 0:
            raise RuntimeError(finished.stdout)

    warm = folder / "warm.py"
    warm.write_text("import numpy as np\nimport wyrm as wy\n", encoding="utf-8")
    check(warm)
    program = folder / "program.py"

    def once(folder: tempfile.TemporaryDirectory[str] = directory) -> Measurement:  # keeps the directory alive
        # A new comment makes mypy check the file again, with everything it imports cached.
        program.write_text(f"{source}\n# {time.time_ns()}\n", encoding="utf-8")
        start = time.perf_counter()
        check(program)
        return Measurement(time.perf_counter() - start)

    return once


def cases() -> list[Case]:
    """One case per program."""
    return [
        Case(
            "typing_speed",
            name,
            {"wyrm": partial(_checking, source)},
            most=next((seconds for key, seconds in _MOST.items() if key in name), None),
            rounds=5,
            quick=False,
        )
        for name, source in programs().items()
    ]

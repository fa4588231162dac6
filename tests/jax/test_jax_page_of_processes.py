"""The script of the page on several processes runs on two of them, and goes on where it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.jax.processes import ROOT, free_port
from tests.jax.page_of_processes import PAGE
from tests.site.pages import blocks

pytest.importorskip("jax")


def run(folder: Path) -> list[tuple[int, str, str]]:
    """Run the script in two processes; return the code of each, and what it prints."""
    coordinator = f"localhost:{free_port()}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.jax.page_of_processes", str(folder)],
            cwd=ROOT,
            env={
                **os.environ, "COORDINATOR": coordinator, "PROCESSES": "2", "PROCESS": str(process),
                "JAX_PLATFORMS": "cpu",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in range(2)
    ]  # fmt: skip
    outputs = [process.communicate() for process in processes]
    return [(process.returncode, *output) for process, output in zip(processes, outputs, strict=True)]


def test_the_script_runs_on_two_processes_and_again(tmp_path: Path) -> None:
    (block,) = blocks(PAGE)
    for _ in range(2):
        (first, printed, errors), (second, by_second, second_errors) = run(tmp_path)
        assert (first, second) == (0, 0), errors + second_errors
        assert block["text"].strip() in printed.splitlines()  # Gloo tells there whom it reaches
        assert "True" not in by_second
    assert sorted(path.name for path in tmp_path.glob("rows-*.npz")) == [f"rows-{file}.npz" for file in range(4)]

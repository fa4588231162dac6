"""Runs `process_worker` in several processes, for tests."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]


class Finished(NamedTuple):
    """How a process ended: its exit code, what it printed on stderr, and what it found if it got to its end."""

    code: int
    text: str
    found: dict[str, Any]


def free_port() -> int:
    """Return a port that nobody listens on; skip the test where none can be opened."""
    try:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            port: int = listening.getsockname()[1]
    except OSError as error:
        pytest.skip(f"no port can be opened on this machine: {error}")
    return port


class Server:
    """A process that has imported JAX and wyrm, and forks those which train: an import takes a second."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.engines.jax.process_worker"],
            cwd=ROOT,
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def run(self, folder: Path, processes: int, /, **options: Any) -> list[Finished]:
        """Train in a number of processes with these options; return how each of them ended."""
        options |= {"processes": processes, "coordinator": f"127.0.0.1:{free_port()}"}
        outputs = [folder / f"found-{process}.json" for process in range(processes)]
        errors = [folder / f"errors-{process}.txt" for process in range(processes)]
        given = []
        for process, (output, error) in enumerate(zip(outputs, errors, strict=True)):
            output.unlink(missing_ok=True)
            given.append(options | {"process": process, "output": str(output), "errors": str(error)})
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(given) + "\n")
        self._server.stdin.flush()
        codes = json.loads(self._server.stdout.readline())
        return [
            Finished(code, error.read_text(), json.loads(output.read_text()) if output.exists() else {})
            for code, error, output in zip(codes, errors, outputs, strict=True)
        ]

    def found(self, folder: Path, processes: int, /, **options: Any) -> dict[str, Any]:
        """Return what all processes found, who must agree."""
        finished = self.run(folder, processes, **options)
        for each in finished:
            assert each.code == 0, each.text
        first = finished[0].found
        for each in finished[1:]:
            assert each.found == first
        return first

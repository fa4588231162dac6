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


def run_processes(folder: Path, processes: int, /, timeout: float = 180.0, **options: Any) -> list[Finished]:
    """Train in a number of processes with these options; return how each of them ended."""
    coordinator = f"127.0.0.1:{free_port()}"
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    outputs = [folder / f"found-{process}.json" for process in range(processes)]
    running = []
    for process, output in enumerate(outputs):
        output.unlink(missing_ok=True)
        given = options | {
            "processes": processes, "process": process, "coordinator": coordinator, "output": str(output),
        }  # fmt: skip
        command = [sys.executable, "-m", "tests.engines.jax.process_worker", json.dumps(given)]
        running.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True))
    try:
        texts = [each.communicate(timeout=timeout)[1] for each in running]
    finally:
        for each in running:
            each.kill()
    return [
        Finished(each.returncode, text, json.loads(output.read_text()) if output.exists() else {})
        for each, text, output in zip(running, texts, outputs, strict=True)
    ]

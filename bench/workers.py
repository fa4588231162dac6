"""Contenders in worker processes that persist between rounds, for peak memory and for libraries that conflict."""

from __future__ import annotations

import atexit
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import Contender, Measurement

LEAST = 0.2  # seconds per round


def peak_bytes() -> int:
    """Return the peak memory of this process. Not getrusage: after a fork its maximum includes the parent's."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found
    return int(found[1]) * 1024


def serve(prepare: Callable[[], Callable[[], object]], units: int = 1) -> None:
    """Run in a worker: prepare, then for each line on stdin do the work, and print its seconds and the peak memory.

    The seconds are those of one of the `units` of the work.
    Short work is repeated, since a process starts slowly after waiting.
    """
    try:
        work = prepare()
        work()
    except ImportError as error:
        print(json.dumps({"absent": error.name}), flush=True)
        return
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        start, count, seconds = time.perf_counter(), 0, 0.0
        while seconds < LEAST:
            work()
            count, seconds = count + 1, time.perf_counter() - start
        print(json.dumps({"seconds": seconds / count / units, "peak_bytes": peak_bytes()}), flush=True)


def serve_measured(prepare: Callable[[], Callable[[], Measurement]]) -> None:
    """Run in a worker: prepare, then for each line on stdin print what is measured, which need not be seconds."""
    try:
        once = prepare()
    except ImportError as error:
        print(json.dumps({"absent": error.name}), flush=True)
        return
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"seconds": once().seconds, "peak_bytes": peak_bytes()}), flush=True)


def _end(worker: subprocess.Popen[str]) -> None:
    """End a worker; the time that it took counts as its parent's only once it is waited for."""
    worker.kill()
    worker.wait()


def in_worker(code: str) -> Contender:
    """Return a contender whose worker process runs `code`, which ends with a call of `serve`."""

    def prepare() -> Callable[[], Measurement]:
        worker = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        asked, answers = worker.stdin, worker.stdout
        assert asked is not None and answers is not None
        atexit.register(_end, worker)

        def answer() -> dict[str, float]:
            for line in answers:
                if line.startswith("{"):
                    found: dict[str, float] = json.loads(line)
                    return found
            raise RuntimeError(f"a worker ended early, with exit status {worker.wait()}: {code}")

        ready = answer()
        if "absent" in ready:
            raise ImportError(f"no module {ready['absent']}", name=str(ready["absent"]))

        def once() -> Measurement:
            print("go", file=asked, flush=True)
            found = answer()
            return Measurement(found["seconds"], int(found["peak_bytes"]))

        return once

    return prepare


def beside_a_busy_core(prepare: Contender) -> Contender:
    """Return the contender, measured while another process keeps one core busy."""

    def busy() -> Callable[[], Measurement]:
        once = prepare()

        def measured() -> Measurement:
            other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            try:
                return once()
            finally:
                other.kill()
                other.wait()

        return measured

    return busy

"""Contenders in processes of their own, which stay between rounds: for peak memory, and libraries that share none."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import Contender, Measurement

LEAST = 0.2  # seconds of a round


def peak_bytes() -> int:
    """The most memory that this process has held. Not getrusage: across a fork its maximum is the parent's too."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found
    return int(found[1]) * 1024


def serve(prepare: Callable[[], Callable[[], object]]) -> None:
    """In a worker: prepare, then for each line that comes do the work, and print its seconds and the peak memory.

    Work that takes little is done again: a process that has waited begins slowly.
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
        print(json.dumps({"seconds": seconds / count, "peak_bytes": peak_bytes()}), flush=True)


def in_worker(code: str) -> Contender:
    """A contender whose process runs `code`, which ends in a call of `serve`."""

    def prepare() -> Callable[[], Measurement]:
        worker = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        asked, answers = worker.stdin, worker.stdout
        assert asked is not None and answers is not None

        def answer() -> dict[str, float]:
            for line in answers:
                if line.startswith("{"):
                    found: dict[str, float] = json.loads(line)
                    return found
            raise RuntimeError(f"a worker ended early: {code}")

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
    """The contender, each round while another process keeps a core busy."""

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

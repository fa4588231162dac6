"""Cases in processes of their own: one that is stuck, fails or lacks a peer leaves a row that says why."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.harness import Case, run
from bench.report.machine import Busy, load_average
from bench.report.results import Measured, Result

ROOT = Path(__file__).parents[1]
# The package whose modules have cases.
PACKAGE = "bench"
LEFT_OUT = "left out by --quick"


@dataclass(frozen=True)
class Limits:
    """How long a case may take: `seconds` of rounds, from `fewest` to `rounds` of them, `limit` seconds in all."""

    seconds: float
    rounds: int | None
    limit: float
    fewest: int = 3


WHOLE, QUICK = Limits(8.0, None, 240.0), Limits(1.5, 5, 60.0, fewest=2)


def cases_of(bench: str, package: str = PACKAGE) -> list[Case]:
    """Return the cases of a benchmark."""
    cases: list[Case] = import_module(f"{package}.{bench}").cases()
    return cases


def measure(case: Case, limits: Limits, quick: bool = False) -> Result:
    """Measure a case in a process of its own; where a contender does not answer in time, measure again without it."""
    _adopt_orphans()
    missing = {name: LEFT_OUT for name in case.slow if quick}
    before, load, start = Busy.now(), load_average(), time.perf_counter()
    while True:
        events, code = _events(case, limits, missing)
        stuck = _stuck(events) if code is not None else None
        found = _measured(case, events, missing)
        if stuck is None or found["wyrm"].rounds > 0 or stuck == "wyrm" or stuck in missing:
            break
        missing[stuck] = _why(code, limits)
    if stuck is not None and not found[stuck].rounds:
        found[stuck] = Measured(missing=_why(code, limits))
    took = time.perf_counter() - start
    return Result(
        case.bench, case.name, case.unit, case.goal, dict(case.floors), case.most, sorted(case.other_work), 0,
        round(load, 2), round(Busy.now().others_since(before, took), 2), round(took, 1), found,
    )  # fmt: skip


@cache
def _adopt_orphans() -> None:
    """Make this process the parent of processes whose own parents end before them, on Linux."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _why(code: int | None, limits: Limits) -> str:
    return f"no answer in {limits.limit:.0f} s" if code == -signal.SIGKILL else f"ended the process (code {code})"


def _events(case: Case, limits: Limits, without: Collection[str]) -> tuple[list[dict[str, Any]], int | None]:
    """Run a case in a new process; return what happened, and None, or how the process ended if not by itself."""
    with tempfile.TemporaryDirectory(prefix="wyrm-bench-") as folder:
        log = Path(folder) / "events"
        options = {
            "rounds": limits.rounds,
            "seconds": limits.seconds,
            "fewest": limits.fewest,
            "without": sorted(without),
        }
        command = [sys.executable, "-m", "bench.runner", PACKAGE, case.bench, case.name, str(log), json.dumps(options)]
        with (Path(folder) / "output").open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            try:
                code = process.wait(limits.limit)
            except subprocess.TimeoutExpired:
                code = -signal.SIGKILL
            finally:
                # Its session has the workers and the processes of rounds, of which a stuck one may be left.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                # Those left are this process's now; their time counts as its own once they are waited for.
                with suppress(ChildProcessError):
                    while True:
                        os.waitpid(-process.pid, 0)
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        if code and code != -signal.SIGKILL:
            sys.stderr.write((Path(folder) / "output").read_text(encoding="utf-8", errors="replace")[-2000:])
    return list(_whole_lines(text)), code or None


def _whole_lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            yield json.loads(line)


def _stuck(events: list[dict[str, Any]]) -> str | None:
    """Return the contender that was at work when the process ended."""
    return str(events[-1]["contender"]) if events else "wyrm"


def _measured(case: Case, events: list[dict[str, Any]], missing: dict[str, str]) -> dict[str, Measured]:
    """Return the spread of each contender's rounds, or why it has none."""
    absent = missing | {each["contender"]: each["why"] for each in events if each["event"] == "absent"}
    found = {}
    for name in case.contenders:
        rounds = [each for each in events if each["event"] == "round" and each["contender"] == name]
        if rounds and name not in absent:
            peaks = [each["peak_bytes"] for each in rounds if each["peak_bytes"] is not None]
            found[name] = Measured.of([each["value"] for each in rounds], peaks)
        else:
            found[name] = Measured(missing=absent.get(name, "not measured"))
    return found


def main() -> None:
    """Measure a case in this process, and write what happens to a file."""
    package, bench, name, log, options = sys.argv[1:]
    (case,) = (case for case in cases_of(bench, package) if case.name == name)
    with Path(log).open("w", encoding="utf-8") as file:

        def tell(event: dict[str, object]) -> None:
            print(json.dumps(event), file=file, flush=True)

        run(case, tell, **json.loads(options))


if __name__ == "__main__":
    main()

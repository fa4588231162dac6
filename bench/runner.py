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
from contextlib import contextmanager, suppress
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
# The contender of an earlier version, the processes of each version, and the least ratio at which nothing got slower.
BEFORE, TURNS, UNCHANGED = "wyrm, before", 2, 0.97


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


@contextmanager
def folder_of(library: Path) -> Iterator[Path]:
    """Return a folder whose processes import the `wyrm` of another working tree, and everything else from here."""
    from bench.models import DATA

    with tempfile.TemporaryDirectory(prefix="wyrm-before-") as name:
        folder = Path(name)
        for package in ("bench", "tests"):
            (folder / package).symlink_to(ROOT / package)
        (folder / "wyrm").symlink_to(library.resolve() / "wyrm")
        os.environ["WYRM_DATA"] = str(DATA.resolve())
        yield folder


def measure(case: Case, limits: Limits, quick: bool = False, before: Path | None = None) -> Result:
    """Measure a case in a process of its own; where a contender does not answer in time, measure again without it.

    With `before`, a folder of `folder_of`, an earlier version of wyrm is a contender, whose processes and further ones
    of this version take turns.
    """
    _adopt_orphans()
    missing = {name: LEFT_OUT for name in case.slow if quick}
    busy, load, start = Busy.now(), load_average(), time.perf_counter()
    while True:
        events, code = _events(case, limits, missing)
        stuck = _stuck(events) if code is not None else None
        found = _measured(case, events, missing)
        if stuck is None or found["wyrm"].rounds > 0 or stuck == "wyrm" or stuck in missing:
            break
        missing[stuck] = _why(code, limits)
    if stuck is not None and not found[stuck].rounds:
        found[stuck] = Measured(missing=_why(code, limits))
    floors = dict(case.floors)
    if before is not None and found["wyrm"].rounds:
        theirs, peers = list[dict[str, Any]](), set(case.contenders) - {"wyrm"}
        for _ in range(TURNS):
            theirs += _events(case, limits, peers, before)[0]
            events += _events(case, limits, peers)[0]
        found["wyrm"] = _spread(events, "wyrm")
        found[BEFORE], floors[BEFORE] = _spread(theirs, "wyrm"), UNCHANGED
    took = time.perf_counter() - start
    return Result(
        case.bench, case.name, case.unit, case.goal, floors, case.most, sorted(case.other_work), 0,
        round(load, 2), round(Busy.now().others_since(busy, took), 2), round(took, 1), found,
    )  # fmt: skip


@cache
def _adopt_orphans() -> None:
    """Make this process the parent of processes whose own parents end before them, on Linux."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _why(code: int | None, limits: Limits) -> str:
    return f"no answer in {limits.limit:.0f} s" if code == -signal.SIGKILL else f"ended the process (code {code})"


def _events(
    case: Case, limits: Limits, without: Collection[str], folder_of_library: Path = ROOT
) -> tuple[list[dict[str, Any]], int | None]:
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
                command,
                cwd=folder_of_library,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
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
    return {
        name: Measured(missing=missing[name]) if name in missing else _spread(events, name) for name in case.contenders
    }


def _spread(events: list[dict[str, Any]], contender: str) -> Measured:
    own = [each for each in events if each["contender"] == contender]
    absent = [each["why"] for each in own if each["event"] == "absent"]
    rounds = [each for each in own if each["event"] == "round"]
    if absent or not rounds:
        return Measured(missing=absent[0] if absent else "not measured")
    peaks = [each["peak_bytes"] for each in rounds if each["peak_bytes"] is not None]
    return Measured.of([each["value"] for each in rounds], peaks)


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

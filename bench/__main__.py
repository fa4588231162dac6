"""The command line: `python -m bench [NAME ...]`; `all` writes this machine's file, the page and the pictures."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.harness import Case
from bench.report.draw import draw
from bench.report.machine import processor, settings, slug, software
from bench.report.results import RESULTS, Machine, Result
from bench.report.table import table
from bench.runner import QUICK, WHOLE, cases_of, folder_of, measure

# Each module has `cases()`, and its docstring starts with what it measures.
MODULES = (
    "engine", "importing", "typing_speed", "chain", "bpr", "recommending", "recommenders", "cython", "scale",
    "fizzbuzz", "regression", "lstm", "sequences", "first_step", "gpt2", "language_models", "narrow", "functions",
    "loops", "kernels", "sampling", "convolutions", "norms", "products", "exports", "exported_text", "profiling",
    "programs_beside", "growth", "view", "searching",
)  # fmt: skip
ROOFLINE = "roofline"


def main() -> int:
    """List the benchmarks, or run the named ones and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="benchmarks to run, or 'all'; without names, list them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the file of results; what else it has stays")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and without what takes long to prepare")
    only = "with 'all': measure these again, each a benchmark or the beginning of 'benchmark: case'"
    parser.add_argument("--only", nargs="+", metavar="CASE", default=[], help=only)
    missing = "with 'all': measure what the file does not have, or has of few rounds, or of a busy machine"
    parser.add_argument("--missing", action="store_true", help=missing)
    before = "a working tree of an earlier version of wyrm, a contender in each case"
    parser.add_argument("--before", type=Path, metavar="FOLDER", help=before)
    arguments = parser.parse_args()
    names = list(arguments.names)
    if not names:
        for name in (*MODULES, ROOFLINE):
            print(f"{name:<16}{(import_module(f'bench.{name}').__doc__ or '').splitlines()[0]}")
        return 0
    everything = names == ["all"]
    names = [*MODULES, ROOFLINE] if everything else names
    if unknown := [name for name in names if name not in (*MODULES, ROOFLINE)]:
        parser.error(f"no benchmark {', '.join(unknown)}; available: {', '.join((*MODULES, ROOFLINE))}")
    described = processor()
    path = arguments.json
    if path is None and everything:
        # Results of few rounds do not replace those in the repository.
        path = Path("bench-quick.json") if arguments.quick else RESULTS / f"{slug(described)}.json"
    machine = Machine.read(path) if path is not None and path.exists() else Machine(described)
    warn_of_settings()
    chosen = [case for name in names if name != ROOFLINE for case in cases_of(name)]
    if everything:  # results of cases that there are no more
        present = {case.key for case in chosen}
        machine.results = {key: result for key, result in machine.results.items() if key in present}
    if arguments.only:
        chosen = [case for case in chosen if case.key.startswith(tuple(arguments.only))]
    if arguments.quick:
        chosen = [case for case in chosen if case.quick]
    if arguments.missing:
        chosen = [case for case in chosen if not complete(case, machine, arguments.quick)]
    about = {
        "started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "quick": arguments.quick,
        "settings": settings(), "versions": software(),
    }  # fmt: skip
    # After each case the file is whole: what was cut short goes on by `--missing`.
    results = []
    with nullcontext() if arguments.before is None else folder_of(arguments.before) as folder:
        for position, case in enumerate(chosen):
            print(f"[{position + 1} of {len(chosen)}] {case.key}", file=sys.stderr, flush=True)
            results.append(measure(case, QUICK if arguments.quick else WHOLE, arguments.quick, folder))
            if path is not None:
                store(path, machine, about, results)
    rooflines = roofline(arguments, names, machine)
    if rooflines is not None and path is not None:
        store(path, machine, about, results, rooflines)
    print(table(results))
    if path is not None and path.parent.resolve() == RESULTS.resolve():
        for each in draw():
            print(f"drawn: {each}", file=sys.stderr)
    return 0


def store(path: Path, machine: Machine, about: dict[str, Any], results: list[Result], rooflines: Any = None) -> None:
    """Write the file with what it had and what was measured so far."""
    whole = Machine(machine.processor, list(machine.runs), dict(machine.results), list(machine.roofline))
    whole.merge(about, results, rooflines)
    whole.write(path)


def complete(case: Case, machine: Machine, quick: bool) -> bool:
    """Return whether the file has the case, with all contenders, undisturbed, and with all rounds or `quick`."""
    result = machine.results.get(case.key)
    if result is None or set(result.contenders) != set(case.contenders) or result.disturbed:
        return False
    return quick or not machine.runs[result.run]["quick"]


def roofline(arguments: argparse.Namespace, names: list[str], machine: Machine) -> list[dict[str, Any]] | None:
    """Measure and print the rooflines, if they are wanted."""
    wanted = ROOFLINE in names and (not arguments.only or ROOFLINE in arguments.only)
    if not wanted or (arguments.missing and machine.roofline):
        return None
    from bench.report.roofline import text
    from bench.roofline import measured

    found = measured()
    print(text(found))
    return found


def warn_of_settings() -> None:
    """Say which settings make products slower than users have them."""
    slow = [f"{name}={os.environ[name]}" for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if name in os.environ]
    if slow:
        print(f"{', '.join(slow)}: this setting can make NumPy's matrix products twice as slow", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())

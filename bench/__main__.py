"""The command line: `python -m bench [NAME ...] [--json FILE]`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

from bench.harness import Case, Row, run, table, write_json

# Each module has `cases()`; its first line says what it measures.
MODULES = (
    "engine", "importing", "typing_speed", "chain", "bpr", "scale", "fizzbuzz", "regression", "lstm", "sequences",
    "first_step", "gpt2", "functions",
)  # fmt: skip


def main() -> int:
    """List the benchmarks, or run those named and print their table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="the benchmarks to run, 'all' for every one; none lists them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one row per case and contender")
    arguments = parser.parse_args()
    if not arguments.names:
        for name in MODULES:
            print(f"{name:<14}{(importlib.import_module(f'bench.{name}').__doc__ or '').splitlines()[0]}")
        return 0
    names = list(MODULES) if arguments.names == ["all"] else arguments.names
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(MODULES)}")
    held = [f"{name}={os.environ[name]}" for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if name in os.environ]
    if held:
        print(f"{', '.join(held)}: NumPy's products may take twice as long as on this processor", file=sys.stderr)
    rows: list[Row] = []
    for name in names:
        cases: list[Case] = importlib.import_module(f"bench.{name}").cases()
        for case in cases:
            found, absent = run(case)
            rows += found
            for contender in absent:
                print(f"left out of {case.bench}: {case.name}: {contender}", file=sys.stderr)
    print(table(rows))
    if arguments.json is not None:
        write_json(rows, arguments.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

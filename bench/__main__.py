"""The command line: `python -m bench [NAME ...] [--json FILE]`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

from bench.harness import Case, Row, run, table, write_json

# Each module has `cases()`, and its docstring starts with what it measures.
MODULES = (
    "engine", "importing", "typing_speed", "chain", "bpr", "recommending", "scale", "fizzbuzz", "regression", "lstm",
    "sequences", "first_step", "gpt2", "functions", "convolutions", "norms", "profiling", "programs_beside", "view",
)  # fmt: skip


def main() -> int:
    """List the benchmarks, or run the named ones and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help="benchmarks to run, or 'all'; without names, list them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    arguments = parser.parse_args()
    if not arguments.names:
        for name in MODULES:
            print(f"{name:<16}{(importlib.import_module(f'bench.{name}').__doc__ or '').splitlines()[0]}")
        return 0
    names = list(MODULES) if arguments.names == ["all"] else arguments.names
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; available: {', '.join(MODULES)}")
    overrides = [
        f"{name}={os.environ[name]}" for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if name in os.environ
    ]
    if overrides:
        print(f"{', '.join(overrides)}: this setting can make NumPy's matrix products twice as slow", file=sys.stderr)
    rows: list[Row] = []
    for name in names:
        cases: list[Case] = importlib.import_module(f"bench.{name}").cases()
        for case in cases:
            found, skipped = run(case)
            rows += found
            for contender in skipped:
                print(f"skipped in {case.bench}: {case.name}: {contender}", file=sys.stderr)
    print(table(rows))
    if arguments.json is not None:
        write_json(rows, arguments.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

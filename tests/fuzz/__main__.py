"""Run random programs: `python -m tests.fuzz --programs 5000 --seed 7 --engine native`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter

from tests.fuzz.generate import Generator
from tests.fuzz.run import PRODUCTIONS, described, fuzz
from wyrm.engines.native.llvm import cache
from wyrm.ops.kernels.native import Spoiling


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--engine", choices=["native", "jax"], action="append", help="may be given twice")
    parser.add_argument("--rows", type=int, default=99, help="the most row counts to run a program with")
    parser.add_argument("--level", type=int, default=0, help="the optimization level of native code, 0 to 3")
    parser.add_argument("--steps", type=int, default=7, help="the most steps of a program")
    parser.add_argument("--only", help="productions, by words in their names")
    parser.add_argument("--table", action="store_true", help="how often each production was built and refused")
    options = parser.parse_args()
    os.environ["WYRM_CACHE_DIR"] = tempfile.mkdtemp()
    cache.LEVEL = options.level
    Spoiling.on = True
    warnings.simplefilter("error")
    words = options.only.split(",") if options.only else [""]
    generator = Generator([p for p in PRODUCTIONS if any(word in p.name for word in words)], options.steps)
    engines = options.engine or ["native"]
    begin, found = time.perf_counter(), Counter[str]()
    for number in range(options.first, options.first + options.programs):
        print(f"\r{number}", end="", file=sys.stderr, flush=True)
        try:
            problem = fuzz(generator, (options.seed, number), engines, options.rows)
        except Exception as error:
            found[f"{type(error).__name__} while it is generated"] += 1
            print(f"\n# program {number} of seed {options.seed}: {''.join(traceback.format_exception(error)[-8:])}")
            continue
        if problem is not None:
            found[f"{problem.failure.engine} {problem.failure.kind}"] += 1
            print(f"\n# program {number} of seed {options.seed}\n{described(problem)}", flush=True)
    seconds = time.perf_counter() - begin
    print(f"\n{options.programs} programs in {seconds:.0f} s, {found.total()} fail: {dict(found)}")
    if options.table:
        for production in generator.productions:
            reasons = {why: n for (name, why), n in generator.refused.items() if name == production.name}
            print(f"{production.name:32} {generator.built[production.name]:6} {reasons or ''}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

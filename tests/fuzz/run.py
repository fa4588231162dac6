"""Generating, running, shrinking and printing programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.fuzz.check import Failure, failure
from tests.fuzz.generate import Generator
from tests.fuzz.production import P
from tests.fuzz.productions import TABLES
from tests.fuzz.program import Program
from tests.fuzz.shrink import shrunk

PRODUCTIONS: list[P] = [production for table in TABLES for production in table]


class Problem(NamedTuple):
    """A program that fails, and how."""

    program: Program
    failure: Failure


def fuzz(
    generator: Generator, seed: tuple[int, ...], engines: Sequence[str], most_rows: int = 99, shrink: bool = True
) -> Problem | None:
    """Generate and run the program of a seed; return the smallest program that fails like it, None if none does."""
    program = generator.program(seed)
    first = failure(program, engines, most_rows)
    if first is None:
        return None
    needed = [first.engine] if first.engine in engines else []
    if shrink:
        program = shrunk(program, lambda smaller: first.like(failure(smaller, needed, most_rows)))
    return Problem(program, failure(program, needed, most_rows) or first)


def described(problem: Problem) -> str:
    """Return the program as Python that shows the failure, under a comment of how it fails."""
    program, found = problem
    engine = found.engine if found.engine in ("native", "jax") else "native"
    comment = "".join(f"# {line}\n" for line in f"{found.engine}: {found.message}".splitlines())
    return comment + program.source(engine, found.rows, max(found.tolerance, 1e-14))

"""Shrinking a program that fails to a smaller one that fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

import wyrm as wy
from tests.fuzz.production import OTHER, ROWS
from tests.fuzz.program import MOST_ROWS, Leaf, Program, Step, keep_used


def shrunk(program: Program, fails: Callable[[Program], bool], most: int = 150) -> Program:
    """Return a smaller program that fails; try at most so many programs."""
    tried = 0
    while True:
        for smaller in _smaller(program):
            tried += 1
            if tried > most:
                return program
            if _fails(smaller, fails):
                program = smaller
                break
        else:
            return program


def _fails(program: Program, fails: Callable[[Program], bool]) -> bool:
    try:
        return fails(program)
    except Exception:  # the program itself is wrong, such as one whose gradient does not exist
        return False


def _smaller(program: Program) -> Iterator[Program]:
    """Yield programs that are simpler in one way, the much simpler ones first."""
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield keep_used(replace(program, outputs=(output,)))
    if len(program.rows) > 1:
        for rows in program.rows:
            yield replace(program, rows=(rows,))
    for order in range(program.order):
        yield replace(program, order=order)
    for i, part in enumerate(program.parts):
        if isinstance(part, Step):
            yield from _with_leaf(program, i)
            for operand in part.operands:
                if isinstance(program.parts[operand], Step):
                    yield keep_used(replace(program, outputs=(operand,)))
    for i, part in enumerate(program.parts):
        if isinstance(part, Leaf) and part.array.dtype.kind == "f":
            if not part.parameter and ROWS not in part.dims:
                yield _replaced(program, i, replace(part, parameter=True))
            if np.any(part.array != part.array.round(1)):
                yield _replaced(program, i, replace(part, array=part.array.round(1)))


def _with_leaf(program: Program, position: int) -> Iterator[Program]:
    """Yield the program with a step replaced by a leaf that holds the value of the step."""
    rows = MOST_ROWS if program.is_open else program.rows[0]
    graph = program.graph(rows)
    graph.feed(rows)
    wy.random.set_step(0)
    array = wy.run([graph.nodes[position]])[0]
    dims = tuple(
        ROWS if size is None else int(size)
        for size in (getattr(d, "size", d) for d in program.graph().nodes[position].dims)
    )
    if OTHER not in dims and array.shape == tuple(MOST_ROWS if size == ROWS else size for size in dims):
        yield keep_used(_replaced(program, position, Leaf(dims, array)))


def _replaced(program: Program, position: int, part: Leaf) -> Program:
    parts = list(program.parts)
    parts[position] = part
    return replace(program, parts=tuple(parts))

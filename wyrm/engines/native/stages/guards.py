"""Guards of updates: a step that a program's call does is taken back if it leaves a number that is not finite.

A guarded update copies what it changes, and counts the new numbers that are not finite; around others, `keep` and
`check` do so. If there are such numbers, `take_back` writes the copies back. Only calls have memory for copies. In
epochs, which look at all numbers at once, copies have no elements, and guards do nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    ArraySize,
    CountedLoop,
    Element,
    Expression,
    Let,
    Literal,
    Name,
    Statement,
    Store,
)
from wyrm.engines.native.stages.expressions import number

_J, _K, _ROW = Name("j"), Name("k"), Name("row")
# The number of a step that counts, the argument that holds it, and the variable; states have other names.
NOT_FINITE, TOTAL, _COUNT = "not_finite", "not_finite__", "others__"
# What stands before and after a loop that counts.
FIRST_COUNT, LAST_COUNT = Let(_COUNT, Element(TOTAL, ())), Store(TOTAL, (), Name(_COUNT))


def keep(name: str, count: int) -> ArrayFunction:
    """Return the function that copies `count` flat arrays."""
    each = [Store(f"kept{i}", (_J,), Element(f"array{i}", (_J,))) for i in range(count)]
    return ArrayFunction(name, _parameters(count), (_loop(each),))


def check(name: str, count: int, dtype: np.dtype) -> ArrayFunction:
    """Return the function that adds the number of places where an array is not finite to a total."""
    loop = _loop([counted([Element(f"array{i}", (_J,)) for i in range(count)], dtype)])
    return ArrayFunction(name, (*_parameters(count), TOTAL), (FIRST_COUNT, loop, LAST_COUNT))


def counted(values: Sequence[Expression], dtype: np.dtype) -> Statement:
    """Return the statement that counts 1 unless all values are finite."""
    finite = reduce(lambda x, y: Apply("logical_and", (x, y)), (Apply("isfinite", (each,)) for each in values))
    one = Apply("where", (finite, number(0.0, dtype), number(1.0, dtype)))
    return Let(_COUNT, Apply("accumulate", (Name(_COUNT), one)))


def take_back(name: str, count: int, row_axes: int) -> ArrayFunction:
    """Return the function that writes copies back: of whole flat arrays, or with `row_axes` of their touched rows."""
    of_array, of_copy = [((_J,), (_J,)), ((_ROW,), (_K,)), ((_ROW, _J), (_K, _J))][row_axes]
    each = [Store(f"array{i}", of_array, Element(f"kept{i}", of_copy)) for i in range(count)]
    if row_axes == 0:
        return ArrayFunction(name, _parameters(count), (_loop(each),))
    row = Let("row", Apply("natural", (Element("rows", (_K,)),)))
    inner = tuple(each) if row_axes == 1 else (CountedLoop("j", ArraySize("kept0", 1), tuple(each)),)
    loop = CountedLoop("k", Element("count", (Literal(0),)), (row, *inner))
    return ArrayFunction(name, (*_parameters(count), "rows", "count"), (loop,))


def _parameters(count: int) -> tuple[str, ...]:
    return tuple(f"{kind}{i}" for kind in ("array", "kept") for i in range(count))


def _loop(each: Sequence[Statement]) -> CountedLoop:
    """Return the loop over the elements that copies have."""
    return CountedLoop("j", ArraySize("kept0", 0), tuple(each))

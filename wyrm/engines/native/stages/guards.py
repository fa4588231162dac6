"""Guards of updates: a step that a program's call does is taken back if it leaves a number that is not finite.

Before an update, `keep` copies what it changes; after it, `check` counts the new numbers that are not finite, and if
there are any, `take_back` writes the copies back. Only calls have memory for copies. In epochs, which look at all
numbers at once, the copies have no elements, and these functions do nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    When,
)
from wyrm.engines.native.stages.expressions import number

_J, _K, _ROW = Name("j"), Name("k"), Name("row")
# The name of the count.
NOT_FINITE = "not_finite"


def keep(name: str, count: int, row_axes: int) -> ArrayFunction:
    """Return the function that copies `count` arrays: whole flat ones, or with `row_axes` their touched rows."""
    of_array, of_copy = _indices(row_axes)
    each = [Store(f"kept{i}", of_copy, Element(f"array{i}", of_array)) for i in range(count)]
    return ArrayFunction(name, _parameters(count, row_axes), _loop(each, row_axes))


def take_back(name: str, count: int, row_axes: int) -> ArrayFunction:
    """Return the function that writes the copies of `keep` back."""
    of_array, of_copy = _indices(row_axes)
    each = [Store(f"array{i}", of_array, Element(f"kept{i}", of_copy)) for i in range(count)]
    return ArrayFunction(name, _parameters(count, row_axes), _loop(each, row_axes))


def check(name: str, count: int, row_axes: int, dtype: np.dtype) -> ArrayFunction:
    """Return the function that adds the number of elements that are not finite to a total."""
    of_array, _ = _indices(row_axes)
    body: list[Statement] = [Let("sum", Element("total", ()))]
    for i in range(count):
        finite = Apply("isfinite", (Element(f"array{i}", of_array),))
        one = Apply("where", (finite, number(0.0, dtype), number(1.0, dtype)))
        body += _loop([Let("sum", Apply("accumulate", (Name("sum"), one)))], row_axes)
    return ArrayFunction(name, (*_parameters(count, row_axes), "total"), (*body, Store("total", (), Name("sum"))))


def _parameters(count: int, row_axes: int) -> tuple[str, ...]:
    arrays, copies = ([f"{kind}{i}" for i in range(count)] for kind in ("array", "kept"))
    return (*arrays, *copies, *(["rows", "count"] if row_axes else []))


def _indices(row_axes: int) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """Return the index of an element in an array and in its copy."""
    return [((_J,), (_J,)), ((_ROW,), (_K,)), ((_ROW, _J), (_K, _J))][row_axes]


def _loop(each: Sequence[Statement], row_axes: int) -> tuple[Statement, ...]:
    """Return the loop over the elements that copies have."""
    if row_axes == 0:
        return (CountedLoop("j", ArraySize("kept0", 0), tuple(each)),)
    row = Let("row", Apply("natural", (Element("rows", (_K,)),)))
    inner = tuple(each) if row_axes == 1 else (CountedLoop("j", ArraySize("kept0", 1), tuple(each)),)
    loop = CountedLoop("k", Element("count", (Literal(0),)), (row, *inner))
    return (When(Apply("greater", (ArraySize("kept0", 0), Literal(0))), (loop,)),)

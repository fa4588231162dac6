"""Checks of a step before it changes anything: the functions that count numbers beyond a limit.

A call of a program with an optimizer computes all gradients and new values of buffers before it updates. It ends there
if one of these is beyond its limit.
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
)
from wyrm.engines.native.stages.expressions import number

# The numbers of a step: the limits that Python sets, of gradients and of other numbers, and the count of those beyond.
GRADIENT_LIMIT, LARGEST, BEYOND = "gradient_limit", "largest", "beyond"
_J, _K, _ROW = Name("j"), Name("k"), Name("row")
_COUNT = Name("count_beyond")


def count_beyond(name: str, row_axes: int, dtype: np.dtype) -> ArrayFunction:
    """Return the function that adds the number of elements of `array` beyond `limit`, or NaN, to `total`.

    With `row_axes`, the array has one or two axes, and only the first `count[0]` rows belong to it.
    """
    loop = over_rows(row_axes, "array", [_counted(Element("array", (_K, _J) if row_axes == 2 else (_J,)), dtype)])
    body = (_LIMIT, Let(_COUNT.name, Element("total", ())), loop, Store("total", (), _COUNT))
    return ArrayFunction(name, ("array", "limit", "total", *(["count"] if row_axes else [])), body)


def count_in_rows(name: str, dtype: np.dtype) -> ArrayFunction:
    """Return the function that stores in `counts`, for each row of `array`, the number of elements beyond `limit`.

    Threads may share the rows.
    """
    loop = CountedLoop("j", ArraySize("array", 1), (_counted(Element("array", (_ROW, _J)), dtype),))
    body = (Let(_COUNT.name, number(0.0, dtype)), loop, Store("counts", (_ROW,), _COUNT))
    return ArrayFunction(name, ("array", "limit", "counts"), (_LIMIT, CountedLoop("row", ArraySize("array", 0), body)))


def add_counts(name: str) -> ArrayFunction:
    """Return the function that adds the sum of `counts` to `total`."""
    more = Let(_COUNT.name, Apply("accumulate", (_COUNT, Element("counts", (_J,)))))
    loop = CountedLoop("j", ArraySize("counts", 0), (more,))
    body = (Let(_COUNT.name, Element("total", ())), loop, Store("total", (), _COUNT))
    return ArrayFunction(name, ("counts", "total"), body)


def over_rows(row_axes: int, array: str, each: Sequence[Statement]) -> CountedLoop:
    """Return the loop over the elements `j` of a flat array, or over elements `j` of the first `count[0]` rows `k`."""
    size = Element("count", (Literal(0),)) if row_axes == 1 else ArraySize(array, max(0, row_axes - 1))
    loop = CountedLoop("j", size, tuple(each))
    return CountedLoop("k", Element("count", (Literal(0),)), (loop,)) if row_axes == 2 else loop


_LIMIT = Let("limit_", Element("limit", ()))


def _counted(value: Expression, dtype: np.dtype) -> Statement:
    """Return the statement that counts 1 unless a value is within the limit; comparisons with NaN are false."""
    within = Apply("less_equal", (Apply("abs", (value,)), Name("limit_")))
    one = Apply("where", (within, number(0.0, dtype), number(1.0, dtype)))
    return Let(_COUNT.name, Apply("accumulate", (_COUNT, one)))

"""The options that all optimizers share, in native code: averages of parameters, and the norm of all gradients."""

from __future__ import annotations

import numpy as np

from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    ArraySize,
    Convert,
    CountedLoop,
    Element,
    Let,
    Literal,
    Name,
    Store,
    When,
)
from wyrm.engines.native.ir.types import FLOAT64
from wyrm.engines.native.stages.formulas import number, scalar_type

_WIDE = np.dtype(np.float64)


def average(name: str, dtype: np.dtype) -> ArrayFunction:
    """Return the function `average += weight * (parameter - average)` of flat arrays; a weight of 0 costs nothing.

    An average that approaches a parameter of 0 becomes 0 instead of a denormal number, which is slow.
    """
    j, weight, old = Name("j"), Name("weight_"), Name("old")
    difference = Apply("subtract", (Element("parameter", (j,)), old))
    new = Apply("add", (old, Apply("multiply", (weight, difference))))
    normal = Apply("greater_equal", (Apply("abs", (Name("new"),)), number(float(np.finfo(dtype).tiny), dtype)))
    each = (
        Let("old", Element("average", (j,))),
        Let("new", new),
        Store("average", (j,), Apply("where", (normal, Name("new"), number(0.0, dtype)))),
    )
    loop = CountedLoop("j", ArraySize("parameter", 0), each)
    changes = Apply("greater", (weight, number(0.0, dtype)))
    body = (Let("weight_", Element("weight", ())), When(changes, (loop,)))
    return ArrayFunction(name, ("parameter", "average", "weight"), body)


def squares(name: str, row_axes: int, first: bool) -> ArrayFunction:
    """Return the function that adds the squares of a gradient to `total`, a float64; the `first` one replaces it.

    With `row_axes`, the gradient has one or two axes, and only the first `count[0]` rows belong to it.
    """
    j, k = Name("j"), Name("k")
    element = Convert(Element("gradient", (k, j) if row_axes == 2 else (j,)), FLOAT64)
    square = Apply("multiply", (Name("x"), Name("x")))
    each = (Let("x", element), Let("sum", Apply("accumulate", (Name("sum"), square))))
    size = Element("count", (Literal(0),)) if row_axes == 1 else ArraySize("gradient", max(0, row_axes - 1))
    loop = CountedLoop("j", size, each)
    if row_axes == 2:
        loop = CountedLoop("k", Element("count", (Literal(0),)), (loop,))
    body = (Let("sum", number(0.0, _WIDE)), loop, Store("total", (), Name("sum"), adds=not first))
    return ArrayFunction(name, ("gradient", "total", *(["count"] if row_axes else [])), body)


def gradient_scale(name: str, max_norm: float, dtype: np.dtype) -> ArrayFunction:
    """Return the function that computes the factor of the gradients from `total`, the sum of their squares.

    The factor is a NaN if the sum is not finite: the step has then diverged.
    """
    norm, limit = Name("norm"), number(max_norm, _WIDE)
    clipped = Apply("divide", (limit, norm))
    factor = Apply("where", (Apply("greater", (norm, limit)), clipped, number(1.0, _WIDE)))
    checked = Apply("where", (Apply("isfinite", (norm,)), factor, number(np.nan, _WIDE)))
    body = (
        Let("norm", Apply("sqrt", (Element("total", ()),))),
        Store("scale", (), Convert(checked, scalar_type(dtype))),
    )
    return ArrayFunction(name, ("total", "scale"), body)

"""Checks of the axes of a layer's parameters, which need sizes before any data is seen."""

from __future__ import annotations

import operator
from typing import Any

from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import DTypeError, ShapeError
from wyrm.types.dims import Axis, Dim, is_name

# The axes of a layer, covariant, so that `[Linear(a, b), Linear(b, c)]` is a list of layers.
In = TypeVar("In", bound=Dim, covariant=True, default=Any)
Out = TypeVar("Out", bound=Dim, covariant=True, default=Any)
Features = TypeVar("Features", bound=Dim, covariant=True, default=Any)
Width = TypeVar("Width", bound=Dim, covariant=True, default=Any)
Hidden = TypeVar("Hidden", bound=Dim, covariant=True, default=Any)
Rows = TypeVar("Rows", bound=Dim, covariant=True, default=Any)
Columns = TypeVar("Columns", bound=Dim, covariant=True, default=Any)
# The axes of the batch and of time.
B = TypeVar("B", default=Any)
T = TypeVar("T", default=Any)
# Named axes.
M = TypeVar("M", bound=Dim)
N = TypeVar("N", bound=Dim)
# All axes, and all but the last.
Axes = TypeVarTuple("Axes")
Bs = TypeVarTuple("Bs")


def sized_axis(layer: str, argument: str, axis: Any) -> Axis:
    """Return `axis` if it is a `Dim` with a size or an integer of at least 0; else raise an error naming `argument`."""
    if isinstance(axis, Dim):
        if axis.size is None:
            name = type(axis).__name__
            raise ShapeError(
                f"{layer}: {argument} is {axis!r}, which takes its size from the data of each run; a parameter "
                f"needs a size before that, as in {name}(32)"
            )
        return axis
    if is_name(axis):
        raise DTypeError(
            f"{layer}: {argument} is the class {axis.__name__}; give an instance with a size, as in {axis.__name__}(32)"
        )
    try:
        size = operator.index(axis)
    except TypeError:
        raise DTypeError(f"{layer}: {argument} must be a Dim or an integer, not {axis!r}") from None
    if isinstance(axis, bool) or size < 0:
        raise ShapeError(f"{layer}: {argument} must be at least 0, not {axis!r}")
    return size

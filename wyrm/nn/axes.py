"""The axes of a layer's parameters, which need sizes before any data is seen."""

from __future__ import annotations

import operator
from typing import Any

from wyrm.errors import DTypeError, ShapeError
from wyrm.types.dims import Axis, Dim, is_name


def sized_axis(layer: str, role: str, axis: Any) -> Axis:
    """`axis` as it is if it is a `Dim` with a size or a whole number of at least 0, else an error naming its `role`."""
    if isinstance(axis, Dim):
        if axis.size is None:
            name = type(axis).__name__
            raise ShapeError(
                f"{layer}: the {role} axis is {axis!r}, which gets its size from the data of each run, and a parameter "
                f"needs one before that; give it a size, as in {name}(32)"
            )
        return axis
    if is_name(axis):
        raise DTypeError(
            f"{layer}: the {role} axis is the class {axis.__name__}; give an instance with a size, "
            f"as in {axis.__name__}(32)"
        )
    try:
        size = operator.index(axis)
    except TypeError:
        raise DTypeError(
            f"{layer}: the {role} axis is a Dim or a whole number, not {axis!r}, a {type(axis).__name__}"
        ) from None
    if isinstance(axis, bool) or size < 0:
        raise ShapeError(f"{layer}: the {role} axis has a size of at least 0, not {axis!r}")
    return size

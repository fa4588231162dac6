"""Limits on gradients, between `backward()` and `step()`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from wyrm.errors import NotFinite
from wyrm.node.base import describe
from wyrm.node.leaves import Parameter
from wyrm.node.storage import stored
from wyrm.types.rows import RowSparse
from wyrm.types.typing import FloatArray


def _values(parameter: Parameter[Any]) -> FloatArray | None:
    """The numbers of a parameter's gradient, to be changed in place; a row that was named twice is summed first."""
    storage = stored(parameter)
    if isinstance(storage.gradient, RowSparse):
        storage.gradient = storage.gradient.summed()
        return storage.gradient.values
    return storage.gradient


def clip_by_value(parameters: Iterable[Parameter[Any]], limit: float) -> None:
    """Limit every element of the gradients to -limit..limit. `ValueError` for a limit that is not positive.

    >>> x = wy.Parameter([1.0, 10.0])
    >>> (x * x).sum().backward()
    >>> clip_by_value([x], 5.0)
    >>> x.gradient.tolist()
    [2.0, 5.0]
    """
    if not limit > 0.0:
        raise ValueError(f"limit is above 0, not {limit}")
    for parameter in parameters:
        values = _values(parameter)
        if values is not None:
            np.clip(values, -limit, limit, out=values)


def clip_by_global_norm(parameters: Iterable[Parameter[Any]], maximum_norm: float) -> float:
    """Scale all gradients down together so that their norm is at most `maximum_norm`; returns the norm before.

    `NotFinite` names the parameter whose gradient holds a NaN or an infinity, before anything changes; `ValueError` for
    a maximum that is not positive. The norm is computed in float64 (Pascanu et al., 2013).

    >>> x = wy.Parameter([3.0, 4.0])
    >>> x.sum().backward(10.0)
    >>> round(clip_by_global_norm([x], 1.0), 4)
    14.1421
    >>> x.gradient.round(4).tolist()
    [0.7070999741554260, 0.7070999741554260]
    """
    if not maximum_norm > 0.0:
        raise ValueError(f"maximum_norm is above 0, not {maximum_norm}")
    held = [(parameter, values) for parameter in parameters if (values := _values(parameter)) is not None]
    total = 0.0
    for parameter, values in held:
        square = float(np.sum(np.square(values, dtype=np.float64)))
        if not math.isfinite(square):
            raise NotFinite(f"the gradient of {describe(parameter)} is not finite; nothing was clipped")
        total += square
    norm = math.sqrt(total)
    if norm > maximum_norm:
        for _, values in held:
            values *= maximum_norm / norm
    return norm

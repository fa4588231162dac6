"""Limits on gradients, between `backward()` and `step()`."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from wyrm._interrupts import deferred
from wyrm.errors import DTypeError, NotFinite, OptionError
from wyrm.node.base import describe
from wyrm.node.leaves import Parameter
from wyrm.node.storage import stored
from wyrm.optim.optimizer import all_finite, checked_parameters, summed
from wyrm.optim.rule import BLOCK
from wyrm.types.rows import RowSparse
from wyrm.types.typing import FloatArray


def _gradients(who: str, parameters: Iterable[Parameter]) -> list[FloatArray]:
    """The numbers of all gradients, to be changed in place; a row that was named twice is summed first."""
    found = []
    for parameter in checked_parameters(who, parameters):
        storage = stored(parameter)
        if isinstance(storage.gradient, RowSparse):
            storage.gradient = summed(storage.gradient)
        values = storage.gradient.values if isinstance(storage.gradient, RowSparse) else storage.gradient
        if values is None:
            continue
        if not all_finite(values):
            raise NotFinite(
                f"{who}: the gradient of {describe(parameter)} holds {values[~np.isfinite(values)][0]}; nothing was "
                f"clipped. Find the cause with wy.watch_nan()"
            )
        found.append(values)
    return found


def clip_by_value(parameters: Iterable[Parameter], limit: float) -> None:
    """Limit every element of the gradients to -limit..limit.

    Raises, before anything changes, `NotFinite` with the name of a parameter whose gradient holds a NaN or an infinity,
    and `ValueError` for a limit that is not positive.

    >>> x = wy.Parameter([1.0, 10.0])
    >>> (x * x).sum().backward()
    >>> clip_by_value([x], 5.0)
    >>> x.gradient.tolist()
    [2.0, 5.0]
    """
    _positive("limit", limit)
    gradients = _gradients("clip_by_value", parameters)
    with deferred, np.errstate(over="ignore"):  # a limit too large for the dtype limits nothing
        for values in gradients:
            np.clip(values, -limit, limit, out=values)


def clip_by_global_norm(parameters: Iterable[Parameter], maximum_norm: float) -> float:
    """Scale all gradients down together so that their norm is at most `maximum_norm`; returns the norm before.

    The norm is that of all elements of all gradients (Pascanu et al., 2013), in float64.

    Raises, before anything changes, `NotFinite` with the name of a parameter whose gradient holds a NaN or an infinity,
    and `ValueError` for a maximum that is not positive.

    >>> x = wy.Parameter([3.0, 4.0])
    >>> (0.5 * x * x).sum().backward()
    >>> clip_by_global_norm([x], 1.0)
    5.0
    >>> x.gradient.round(3).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    _positive("maximum_norm", maximum_norm)
    gradients = _gradients("clip_by_global_norm", parameters)
    norm = math.hypot(*map(_norm, gradients))  # of norms, not the root of squares: those could overflow
    if norm > maximum_norm:
        with deferred:
            for values in gradients:
                values *= maximum_norm / norm
    return norm


def _positive(name: str, value: float) -> None:
    """`OptionError` for a limit that is not above 0, `DTypeError` for no number; an infinity limits nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{name} is a number, not {value!r}")
    if not value > 0.0:
        raise OptionError(f"{name} is above 0, not {value}")


def _norm(values: FloatArray) -> float:
    """The norm in float64, a block at a time."""
    flat, total = values.reshape(-1), 0.0
    with np.errstate(over="ignore"):
        for start in range(0, flat.size, BLOCK):
            block = flat[start : start + BLOCK].astype(np.float64)
            # Not a product by BLAS: that rounds as its threads happen to share the work, and a run is to be repeatable.
            total += float(np.add.reduce(np.square(block, out=block)))
    if math.isfinite(total):
        return math.sqrt(total)
    largest = float(max(flat.max(), -flat.min()))  # of float64 alone the squares can overflow
    return largest * float(np.linalg.norm(flat / largest))

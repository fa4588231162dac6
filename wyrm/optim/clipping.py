"""Norms of gradients, and clipping before `step()`; the options `max_norm` and `clip_value` do it in `step()`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from wyrm.engines.global_norm import global_norm
from wyrm.engines.numpy.calls import BLOCK
from wyrm.engines.optimizer import Elements
from wyrm.errors import NotFinite
from wyrm.graph.base import describe
from wyrm.graph.op import NUMPY
from wyrm.graph.parameters import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import stored
from wyrm.graph.typing import FloatArray
from wyrm.optim.options import checked_parameters, limit
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.interrupts import deferred

_WIDE = np.dtype(np.float64)


def _gradient_values(who: str, parameters: Iterable[Parameter]) -> list[FloatArray]:
    """Return the values of all gradients, to be changed in place; repeated rows of a row-sparse gradient are summed."""
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


@explains_keywords
def clip_by_value(parameters: Iterable[Parameter], clip_value: float) -> None:
    """Clip every element of the gradients to [-clip_value, clip_value].

    Raise `NotFinite` if a gradient holds a NaN or an infinity, with the name of its parameter, and `ValueError` for a
    `clip_value` that is not positive; no gradient has changed then.

    >>> x = wy.Parameter([1.0, 10.0])
    >>> (x * x).sum().backward()
    >>> clip_by_value([x], 5.0)
    >>> x.gradient.tolist()
    [2.0, 5.0]
    """
    limit("clip_value", clip_value)
    gradients = _gradient_values("clip_by_value", parameters)
    with deferred, np.errstate(over="ignore"):  # a value beyond the dtype's range clips nothing
        for values in gradients:
            np.clip(values, -clip_value, clip_value, out=values)


@explains_keywords
def clip_by_global_norm(parameters: Iterable[Parameter], max_norm: float) -> float:
    """Scale all gradients by one factor so that their global norm is at most `max_norm`; return the norm before.

    The global norm is the Euclidean norm of all elements of all gradients (Pascanu et al., 2013), in float64.

    Raise `NotFinite` if a gradient holds a NaN or an infinity, with the name of its parameter, and `ValueError` for a
    `max_norm` that is not positive; no gradient has changed then.

    >>> x = wy.Parameter([3.0, 4.0])
    >>> (0.5 * x * x).sum().backward()
    >>> clip_by_global_norm([x], 1.0)
    5.0
    >>> x.gradient.round(3).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    limit("max_norm", max_norm)
    gradients = _gradient_values("clip_by_global_norm", parameters)
    norm, factor = limited(gradients, max_norm)
    if factor < 1.0:
        with deferred:
            for values in gradients:
                values *= factor
    return norm


def all_finite(values: FloatArray) -> bool:
    """Whether no element is a NaN or an infinity."""
    if values.size <= BLOCK:
        return bool(np.isfinite(values).all())
    flat = values.reshape(-1)
    return all(np.isfinite(flat[start : start + BLOCK]).all() for start in range(0, flat.size, BLOCK))


def summed(gradient: RowSparse) -> RowSparse:
    """Return the gradient with repeated rows summed."""
    return gradient if len(gradient.rows) == 1 else gradient.summed()


def limited(gradients: Sequence[FloatArray], limit: float) -> tuple[float, float]:
    """Return the Euclidean norm in float64 of all elements of all arrays, and the factor of them that limits it."""
    norm = global_norm(_WIDE)
    with np.errstate(all="ignore"):
        total = sum(map(_squares, gradients))
        if not math.isfinite(total):
            norm = global_norm(_WIDE, in_units=True)
            flat = [gradient.reshape(-1).astype(_WIDE) for gradient in gradients]
            total = sum(float(norm.squares(NUMPY, {Elements: each.size}, each)[0]) for each in flat)
        root, factor = norm.limited(NUMPY, {}, *np.array((total, limit)))
    return float(root), float(factor)


def _squares(values: FloatArray) -> float:
    """Return `GlobalNorm.squares` of an array, by blocks and in place: new arrays take half more time."""
    flat, total = values.reshape(-1), 0.0
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK].astype(_WIDE)
        # Not a BLAS dot product: its rounding depends on its threads, and runs have to be repeatable.
        total += float(np.add.reduce(np.square(block, out=block)))
    return total

"""Checks of the parameters of optimizers, and norms of their gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.typing import FloatArray
from wyrm.optim.rule import BLOCK


def checked_parameters(who: str, parameters: Iterable[Parameter]) -> list[Parameter]:
    """Return the parameters as a list; raise unless there is at least one, each occurs once, and all are parameters."""
    if isinstance(parameters, BaseNode):
        raise TypeError(f"{who} takes a list of parameters, not one node: {describe(parameters)}")
    if not isinstance(parameters, Iterable):
        raise TypeError(f"{who} takes a list of parameters, not {type(parameters).__name__}: pass model.parameters()")
    found = list(parameters)
    if not found:
        raise ValueError(f"{who} was given no parameters; pass loss.parameters()")
    seen: set[Parameter] = set()
    for parameter in found:
        if not isinstance(parameter, Parameter):
            raise TypeError(
                f"{who} takes a list of parameters, as model.parameters() gives; an element is "
                f"{type(parameter).__name__}"
            )
        if parameter in seen:
            raise ValueError(f"{who} was given {describe(parameter)} twice")
        seen.add(parameter)
    return found


def all_finite(values: FloatArray) -> bool:
    """Whether no element is a NaN or an infinity."""
    if values.size <= BLOCK:
        return bool(np.isfinite(values).all())
    flat = values.reshape(-1)
    return all(np.isfinite(flat[start : start + BLOCK]).all() for start in range(0, flat.size, BLOCK))


def summed(gradient: RowSparse) -> RowSparse:
    """Return the gradient with repeated rows summed."""
    return gradient if len(gradient.rows) == 1 else gradient.summed()


def global_norm(gradients: Iterable[FloatArray]) -> float:
    """Return the Euclidean norm in float64 of all elements of all arrays."""
    return math.hypot(*map(_norm, gradients))  # hypot of the norms: their squares could overflow


def _norm(values: FloatArray) -> float:
    """Return the Euclidean norm in float64, computed block by block."""
    flat, total = values.reshape(-1), 0.0
    with np.errstate(over="ignore"):
        for start in range(0, flat.size, BLOCK):
            block = flat[start : start + BLOCK].astype(np.float64)
            # Not a BLAS dot product: its rounding depends on its threads, and runs have to be repeatable.
            total += float(np.add.reduce(np.square(block, out=block)))
    if math.isfinite(total):
        return math.sqrt(total)
    largest = float(max(flat.max(), -flat.min()))  # only for float64 can the squares overflow
    return largest * float(np.linalg.norm(flat / largest))

"""Sums of many numbers: of arrays without losing digits, and in a kernel in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import FloatArray

# So many float32 numbers may be added one after another.
_CHAIN = 128
# A number in a loop, in Python or of an array.
Float = TypeVar("Float", float, np.floating)


def accumulated(total: Float, term: Float) -> Float:
    """`total + term`, of the type of `total`, in a loop that adds up terms.

    Compiled code keeps the order of all arithmetic as it is written, so a loop whose `total += x[j]` waits for one
    addition after another. With `total = accumulated(total, x[j])` a compiler may add up several parts of the sum at
    once; nothing else is reordered.
    """
    return total + term


def natural(index: int) -> int:
    """`index`, which is at least 0: compiled loops over `natural(first + i)` need no check for negative numbers."""
    return index


def summed(xp: ArrayNamespace, x: Any, axis: Sequence[int], keepdims: bool = False) -> FloatArray:
    """The sum over axes, counted from 0, as `numpy.sum` gives it but without long chains of float32 additions.

    NumPy adds pairs, and pairs of pairs, along the axis whose numbers lie side by side in memory; along others it adds
    one number after another. Those are summed in parts here.
    """
    axis = tuple(axis)
    if not isinstance(x, np.ndarray):
        return xp.sum(x, axis=axis, keepdims=keepdims)
    if x.size > _CHAIN and x.dtype == np.float32:
        last = axis == tuple(range(x.ndim - len(axis), x.ndim))
        if not (last and x.flags.c_contiguous):
            side_by_side = min(range(x.ndim), key=lambda a: (x.shape[a] == 1, abs(x.strides[a])))
            for a in axis:
                while a != side_by_side and x.shape[a] > _CHAIN:
                    x = _in_parts(x, a)
    add: Callable[..., FloatArray] = np.add.reduce  # what `numpy.sum` comes to, in half of the time
    return add(x, axis=axis, keepdims=keepdims)


def _in_parts(x: FloatArray, axis: int) -> FloatArray:
    """The sums of as many numbers along an axis as are added one after another."""
    whole = x.shape[axis] // _CHAIN
    before = (slice(None),) * axis
    parts = x[(*before, slice(whole * _CHAIN))]
    parts = parts.reshape(*x.shape[:axis], whole, _CHAIN, *x.shape[axis + 1 :]).sum(axis + 1)
    rest = x[(*before, slice(whole * _CHAIN, None))]
    return np.concatenate([parts, rest.sum(axis, keepdims=True)], axis) if rest.shape[axis] else parts

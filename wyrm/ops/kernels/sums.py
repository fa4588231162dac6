"""Accurate sums over axes of arrays, and helpers of kernels for sums, indices and rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import FloatArray

# Longest chain of sequential float32 additions.
_CHAIN = 128
Float = TypeVar("Float", float, np.floating)
Function = TypeVar("Function", bound=Callable[..., Any])


def accumulated(total: Float, term: Float) -> Float:
    """Return `total + term`, of the type of `total`, and allow the compiler to reorder the sum of a loop.

    Compiled code otherwise keeps the written order of all arithmetic, so `total += x[j]` does not vectorize. With
    `total = accumulated(total, x[j])` the compiler may compute several partial sums at once.
    """
    return total + term


def natural(index: int) -> int:
    """Return `index`, which must be at least 0: compiled code then needs no check for negative indices."""
    return index


def shared_turns(count: int, work: int) -> range:
    """Return `range(count)` for the last loop of a kernel, whose turns threads may do at the same time.

    A turn computes about `work` elements. It writes no memory that another turn reads or writes, so each has scratch
    memory of its own. One thread does all turns if they are little work, or if more than scalars and calls of kernels
    without results stand before the loop.
    """
    return range(count)


def compiled_once(function: Function) -> Function:
    """Mark a function that several kernels call and that takes long to compile: they share its machine code."""
    vars(function)["compiled_once"] = True
    return function


def inlined(function: Function) -> Function:
    """Mark a function of many arguments that is called in an inner loop: its machine code becomes part of its caller's.

    Its arrays may share memory.
    """
    vars(function)["inlined"] = True
    return function


def of_xla(function: Function) -> Function:
    """Mark a function of one number that XLA has an operation for, of the same name and as exact.

    In float32 the form of a kernel in JAX has that operation, which is faster, and which files of ONNX have.
    """
    vars(function)["of_xla"] = True
    return function


def add_scaled(x: FloatArray, factor: np.floating, out: FloatArray) -> None:
    """`out += factor * x`."""
    for j in range(out.size):
        out[j] += factor * x[j]


def summed(xp: ArrayNamespace, x: Any, axis: Sequence[int], keepdims: bool = False) -> FloatArray:
    """Return `numpy.sum` over non-negative axes, without long chains of float32 additions.

    NumPy sums pairwise along the axis that is contiguous in memory and sequentially along the others. This function
    sums the others in parts.
    """
    axis = tuple(axis)
    if not isinstance(x, np.ndarray):
        return xp.sum(x, axis=axis, keepdims=keepdims)
    if x.size > _CHAIN and x.dtype == np.float32:
        last = axis == tuple(range(x.ndim - len(axis), x.ndim))
        if not (last and x.flags.c_contiguous):
            contiguous = min(range(x.ndim), key=lambda a: (x.shape[a] == 1, abs(x.strides[a])))
            for a in axis:
                while a != contiguous and x.shape[a] > _CHAIN:
                    x = _in_parts(x, a)
    add: Callable[..., FloatArray] = np.add.reduce  # `numpy.sum` calls it and takes twice as long
    return add(x, axis=axis, keepdims=keepdims)


def _in_parts(x: FloatArray, axis: int) -> FloatArray:
    """Return the sums of blocks of `_CHAIN` elements along an axis."""
    whole = x.shape[axis] // _CHAIN
    before = (slice(None),) * axis
    parts = x[(*before, slice(whole * _CHAIN))]
    parts = parts.reshape(*x.shape[:axis], whole, _CHAIN, *x.shape[axis + 1 :]).sum(axis + 1)
    rest = x[(*before, slice(whole * _CHAIN, None))]
    return np.concatenate([parts, rest.sum(axis, keepdims=True)], axis) if rest.shape[axis] else parts

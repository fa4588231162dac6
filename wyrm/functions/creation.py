"""Constants of a given shape, with the names of NumPy, PyTorch and JAX."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.functions.operands import Operand, S
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant, as_constant, constant_of
from wyrm.graph.node import Node
from wyrm.graph.typing import NewDims, Number, Size
from wyrm.ops.gradients.reverse import with_sizes
from wyrm.ops.shaping.shape import BroadcastTo
from wyrm.support.options import is_integer

__all__ = ["arange", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]

# The shape of an array: sizes, or axes with names and sizes.
Axes = Size | Dim | Sequence[Size | Dim]


@overload
def full(shape: NewDims, value: Number, dtype: DTypeLike | None = None) -> Constant[NewDims]: ...
@overload
def full(shape: Axes, value: Number, dtype: DTypeLike | None = None) -> Constant: ...
def full(shape: Axes | tuple[Dim, ...], value: Number, dtype: DTypeLike | None = None) -> Constant:
    """Return a constant filled with `value`; `shape` is a size, or a tuple of sizes and axes.

    Without `dtype` its float type is weak; see `wyrm.Constant`. Raise `ShapeError` for an axis without a size.

    >>> wy.full((2, 2), 7.0).value.tolist()
    [[7.0, 7.0], [7.0, 7.0]]
    """
    dims: Any = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if isinstance(dtype, int):
        raise TypeError(f"the shape must be one tuple, as in wy.zeros((2, 3)), and dtype must not be {dtype!r}")
    return constant_of(np.broadcast_to(np.asarray(value), tuple(map(operator.index, dims))), dtype, dims)


@overload
def zeros(shape: NewDims, dtype: DTypeLike | None = None) -> Constant[NewDims]: ...
@overload
def zeros(shape: Axes, dtype: DTypeLike | None = None) -> Constant: ...
def zeros(shape: Axes | tuple[Dim, ...], dtype: DTypeLike | None = None) -> Constant:
    """Return a constant of zeros; `shape` is as for `full`.

    >>> wy.zeros((2, 3)).shape, wy.zeros(2).value.tolist()
    ((2, 3), [0.0, 0.0])
    """
    return full(shape, 0.0, dtype)


@overload
def ones(shape: NewDims, dtype: DTypeLike | None = None) -> Constant[NewDims]: ...
@overload
def ones(shape: Axes, dtype: DTypeLike | None = None) -> Constant: ...
def ones(shape: Axes | tuple[Dim, ...], dtype: DTypeLike | None = None) -> Constant:
    """Return a constant of ones; `shape` is as for `full`.

    >>> wy.ones(3, np.float64).value.tolist()
    [1.0, 1.0, 1.0]
    """
    return full(shape, 1.0, dtype)


@overload
def arange(start: Size, stop: Size | None = None, step: Size = 1) -> IndexConstant: ...
@overload
def arange(start: Number, stop: Number | None = None, step: Number = 1) -> Constant | IndexConstant: ...
def arange(start: Number, stop: Number | None = None, step: Number = 1) -> Constant | IndexConstant:
    """Return the numbers from `start` (0 if there is one argument) up to but excluding `stop`, as `numpy.arange`.

    Integers give an `IndexConstant`, other numbers a `Constant` of a weak type.

    >>> wy.arange(3).value.tolist(), wy.arange(0.0, 1.0, 0.25).value.tolist()
    ([0, 1, 2], [0.0, 0.25, 0.5, 0.75])
    """
    given: list[Any] = [
        value if value is None or not is_integer(value) else int(value) for value in (start, stop, step)
    ]
    array: Any = np.arange(*given) if stop is not None else np.arange(0, given[0], given[2])
    return IndexConstant(array) if array.dtype.kind == "i" else constant_of(array, None)


def full_like(x: Operand[S], value: Number, dtype: DTypeLike | None = None) -> Node[Any, S]:
    """Return a node filled with `value`, with the axes of `x` and by default its dtype.

    >>> wy.full_like(wy.Constant([1.0, 2.0]), 5.0).forward().tolist()
    [5.0, 5.0]
    """
    node: Any = x if isinstance(x, BaseNode) else Constant(x)
    kind = node.dtype if dtype is None else np.dtype(dtype)
    filled = BroadcastTo(as_constant(bool(value) if kind.kind == "b" else value, kind), node.dims)
    return with_sizes([filled], [node])[0]


def zeros_like(x: Operand[S], dtype: DTypeLike | None = None) -> Node[Any, S]:
    """Return zeros with the axes of `x` and by default its dtype.

    >>> wy.zeros_like(wy.Constant([1.0, 2.0])).forward().tolist()
    [0.0, 0.0]
    """
    return full_like(x, 0.0, dtype)


def ones_like(x: Operand[S], dtype: DTypeLike | None = None) -> Node[Any, S]:
    """Return ones with the axes of `x` and by default its dtype.

    >>> wy.ones_like(wy.Constant([1.0, 2.0])).forward().tolist()
    [1.0, 1.0]
    """
    return full_like(x, 1.0, dtype)

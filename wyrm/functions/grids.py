"""Sequences of numbers, grids of coordinates and one-hot vectors, with NumPy's and JAX's names and arguments."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.errors import ShapeError
from wyrm.functions.operands import Operand, as_nodes
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant, as_constant, constant_of
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import Bs, Indices, Number
from wyrm.ops.elementwise.conversion import weak_floats
from wyrm.ops.indexing.index import as_indices
from wyrm.support.foreign_names import answering
from wyrm.support.options import choice

__all__ = ["geomspace", "indices", "linspace", "logspace", "meshgrid", "one_hot"]


def _are_numbers(*bounds: object) -> bool:
    """Return whether the bounds are known while the graph is built."""
    return not any(isinstance(bound, BaseNode) for bound in bounds)


def _fractions(num: int, endpoint: bool) -> np.ndarray:
    return np.linspace(0.0, 1.0, operator.index(num), endpoint)


@overload
def linspace(
    start: Number, stop: Number, num: int = 50, endpoint: bool = True, *, dtype: DTypeLike | None = None
) -> Constant[tuple[Any]]: ...
@overload
def linspace(
    start: Operand, stop: Operand, num: int = 50, endpoint: bool = True, *, dtype: DTypeLike | None = None
) -> Node: ...
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, *, dtype: DTypeLike | None = None) -> Node:
    """Return `num` numbers at equal distances from `start` to `stop`, without `stop` if `endpoint` is false.

    The bounds are numbers, which give a constant of `dtype`, by default of a weak type, or nodes and arrays, which
    broadcast; the numbers are then along a new first axis.

    >>> wy.linspace(0.0, 1.0, 5).value.tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if _are_numbers(start, stop):
        return constant_of(np.linspace(start, stop, num, endpoint), dtype)
    first, last = as_nodes(start, stop)
    at = _column(_fractions(num, endpoint), first, last)
    return first * (1.0 - at) + last * at


def _column(values: np.ndarray, *beside: Node) -> np.ndarray:
    """Return values along a new axis in front of those of the nodes."""
    return values.reshape(-1, *[1] * max(x.ndim for x in beside))


@overload
def logspace(
    start: Number,
    stop: Number,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    *,
    dtype: DTypeLike | None = ...,
) -> Constant[tuple[Any]]: ...
@overload
def logspace(
    start: Operand,
    stop: Operand,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    *,
    dtype: DTypeLike | None = ...,
) -> Node: ...
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0, *, dtype: DTypeLike | None = None
) -> Node:
    """Return `base` to the powers `linspace(start, stop, num, endpoint)`; the arguments are those of `linspace`.

    >>> wy.logspace(0.0, 2.0, 3).value.tolist()
    [1.0, 10.0, 100.0]
    """
    if _are_numbers(start, stop):
        return constant_of(np.logspace(start, stop, num, endpoint, base), dtype)
    exponents = linspace(start, stop, num, endpoint)
    powers: Node = as_constant(base, exponents.dtype) ** exponents
    return powers


@overload
def geomspace(
    start: Number, stop: Number, num: int = 50, endpoint: bool = True, *, dtype: DTypeLike | None = None
) -> Constant[tuple[Any]]: ...
@overload
def geomspace(
    start: Operand, stop: Operand, num: int = 50, endpoint: bool = True, *, dtype: DTypeLike | None = None
) -> Node: ...
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, *, dtype: DTypeLike | None = None) -> Node:
    """Return `num` numbers from `start` to `stop` of which each is the same multiple of the one before.

    The arguments are those of `linspace`. Raise `ValueError` for a number 0 as a bound; nodes must have equal signs.

    >>> wy.geomspace(1.0, 8.0, 4).value.tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    if _are_numbers(start, stop):
        return constant_of(np.geomspace(start, stop, num, endpoint), dtype)
    first, last = as_nodes(start, stop)
    return first * (last / first) ** _column(_fractions(num, endpoint), first, last)


def meshgrid(*xi: Operand, indexing: Literal["xy", "ij"] = "xy", sparse: bool = False) -> tuple[Node, ...]:
    """Return the coordinates of a grid, one array of the grid's shape for each of the given coordinates of one axis.

    With `indexing="xy"` the first two axes are swapped, as in plots. `sparse` leaves the other axes at size 1. Raise
    `ShapeError` for coordinates of several axes, and `ValueError` for another `indexing`.

    >>> rows, columns = wy.meshgrid([1.0, 2.0], [3.0, 4.0, 5.0], indexing="ij")
    >>> columns.forward().tolist()
    [[3.0, 4.0, 5.0], [3.0, 4.0, 5.0]]
    """
    choice("meshgrid: indexing", indexing, ("xy", "ij"))
    nodes = as_nodes(*xi) if xi else ()
    for x in nodes:
        if x.ndim > 1:
            raise ShapeError(f"meshgrid: coordinates must have one axis, not {x.ndim}")
    flat = [x if x.ndim else x.reshape((1,)) for x in nodes]
    order = list(range(len(flat)))
    if indexing == "xy" and len(flat) > 1:
        order[:2] = [1, 0]
    whole: tuple[Any, ...] = tuple(flat[position].dims[0] for position in order)
    found = []
    for position, x in enumerate(flat):
        axis = order.index(position)
        grid: Node = x.reshape((*[1] * axis, x.dims[0], *[1] * (len(flat) - axis - 1)))
        found.append(grid if sparse else grid.broadcast_to(whole))
    return tuple(found)


def indices(dimensions: Sequence[int]) -> IndexConstant:
    """Return the indices of all elements of an array of this shape: one array of that shape for each axis.

    >>> wy.indices((2, 2)).value.tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    return IndexConstant(np.indices(dimensions))


@overload
def one_hot(
    x: IndexNode[tuple[*Bs]], num_classes: int, *, dtype: DTypeLike | None = None
) -> Node[Any, tuple[*Bs, Any]]: ...
@overload
def one_hot(x: IndexNode | Indices, num_classes: int, *, dtype: DTypeLike | None = None) -> Node: ...
@answering
def one_hot(x: Any, num_classes: int, *, dtype: DTypeLike | None = None) -> Node:
    """Return vectors of `num_classes` zeros, with a 1 at the index that `x` gives, along a new last axis.

    An index out of range gives zeros only.

    >>> wy.one_hot([1, 0], 3).forward().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    chosen = as_indices(x)
    classes = IndexConstant(np.arange(operator.index(num_classes)))
    dims: Any = chosen.dims
    hits: Node = chosen.reshape((*dims, 1)) == classes
    return weak_floats(hits) if dtype is None else hits.astype(dtype)

"""Constants, sequences of numbers, grids of coordinates and one-hot vectors, by NumPy's and JAX's names."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.operands import Operand, S, as_nodes
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant, as_constant, constant_of
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import D1, Bs, DTypeLike, Indices, NewDims, Number, Size, Sizes
from wyrm.ops.gradients.reverse import with_sizes
from wyrm.ops.indexing.index import as_indices
from wyrm.ops.shaping.arange import positions
from wyrm.ops.shaping.shape import BroadcastTo
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import choice, is_integer

# The shape of an array: sizes, or axes with names and sizes.
Axes = Size | Dim | Sequence[Size | Dim]


@overload
def full(shape: Sizes | Size, value: Number, dtype: DTypeLike | None = None) -> Constant: ...
@overload
def full(shape: tuple[Size, ...], value: Number, dtype: DTypeLike | None = None) -> Constant: ...
@overload
def full(shape: D1, value: Number, dtype: DTypeLike | None = None) -> Node[Any, tuple[D1]]: ...
@overload
def full(shape: NewDims, value: Number, dtype: DTypeLike | None = None) -> Node[Any, NewDims]: ...
@overload
def full(shape: Axes, value: Number, dtype: DTypeLike | None = None) -> Node: ...
@explains_keywords
def full(shape: Axes | tuple[Dim, ...], value: Number, dtype: DTypeLike | None = None) -> Node:
    """Return a constant filled with `value`; `shape` is a size, or a tuple of sizes and axes.

    An axis without a size takes it from the data of each run. Without `dtype` the float type is weak; see
    `wyrm.Constant`.

    >>> wy.full((2, 2), 7.0).value.tolist()
    [[7.0, 7.0], [7.0, 7.0]]
    """
    dims: Any = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if isinstance(dtype, int):
        raise TypeError(f"the shape must be one tuple, as in wy.zeros((2, 3)), and dtype must not be {dtype!r}")
    if any(isinstance(axis, Dim) and axis.size is None for axis in dims):
        return BroadcastTo(constant_of(np.asarray(value), dtype), dims)
    return constant_of(np.broadcast_to(np.asarray(value), tuple(map(operator.index, dims))), dtype, dims)


@overload
def zeros(shape: Sizes | Size, dtype: DTypeLike | None = None) -> Constant: ...
@overload
def zeros(shape: tuple[Size, ...], dtype: DTypeLike | None = None) -> Constant: ...
@overload
def zeros(shape: D1, dtype: DTypeLike | None = None) -> Node[Any, tuple[D1]]: ...
@overload
def zeros(shape: NewDims, dtype: DTypeLike | None = None) -> Node[Any, NewDims]: ...
@overload
def zeros(shape: Axes, dtype: DTypeLike | None = None) -> Node: ...
def zeros(shape: Axes | tuple[Dim, ...], dtype: DTypeLike | None = None) -> Node:
    """Return a constant of zeros; `shape` is as for `full`.

    >>> wy.zeros((2, 3)).shape, wy.zeros(2).value.tolist()
    ((2, 3), [0.0, 0.0])
    """
    return full(shape, 0.0, dtype)


@overload
def ones(shape: Sizes | Size, dtype: DTypeLike | None = None) -> Constant: ...
@overload
def ones(shape: tuple[Size, ...], dtype: DTypeLike | None = None) -> Constant: ...
@overload
def ones(shape: D1, dtype: DTypeLike | None = None) -> Node[Any, tuple[D1]]: ...
@overload
def ones(shape: NewDims, dtype: DTypeLike | None = None) -> Node[Any, NewDims]: ...
@overload
def ones(shape: Axes, dtype: DTypeLike | None = None) -> Node: ...
def ones(shape: Axes | tuple[Dim, ...], dtype: DTypeLike | None = None) -> Node:
    """Return a constant of ones; `shape` is as for `full`.

    >>> wy.ones(3, np.float64).value.tolist()
    [1.0, 1.0, 1.0]
    """
    return full(shape, 1.0, dtype)


@overload
def arange(start: Size, stop: Size | None = None, step: Size = 1) -> IndexConstant: ...
@overload
def arange(start: D1) -> IndexNode[tuple[D1]]: ...
@overload
def arange(start: Number, stop: Number | None = None, step: Number = 1) -> Constant | IndexConstant: ...
def arange(start: Any, stop: Any = None, step: Any = 1) -> IndexNode | Constant:
    """Return the numbers from `start` (0 if there is one argument) up to but excluding `stop`, as `numpy.arange`.

    Integers give an `IndexConstant`, other numbers a `Constant` of a weak type. One axis gives the positions along it,
    also where the data of each run decides its size. Raise `ShapeError` for such an axis beside other arguments.

    >>> wy.arange(3).value.tolist(), wy.arange(0.0, 1.0, 0.25).value.tolist()
    ([0, 1, 2], [0.0, 0.25, 0.5, 0.75])
    >>> class Batch(wy.Dim): ...
    >>> x = wy.Input(np.zeros((2, 3)), dims=(Batch(), 3))
    >>> (x + wy.arange(x.shape[0]).astype(float).expand_dims(1)).forward().tolist()
    [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    if isinstance(start, Dim) and stop is None and step == 1:
        return positions(start)
    if any(isinstance(each, Dim) and each.size is None for each in (start, stop, step)):
        raise ShapeError(
            f"arange of an axis without a size takes that axis alone, not ({start}, {stop}, {step}); compute with "
            f"the result, as in 2 * wy.arange(axis) + 1"
        )
    given: list[Any] = [
        int(value) if is_integer(value) or isinstance(value, Dim) else value for value in (start, stop, step)
    ]
    array: Any = np.arange(*given) if stop is not None else np.arange(0, given[0], given[2])
    return IndexConstant(array) if array.dtype.kind == "i" else constant_of(array, None)


@overload
def full_like(x: IndexNode[S], value: Size, dtype: None = None) -> IndexNode[S]: ...
@overload
def full_like(x: IndexNode[S], value: Number, dtype: DTypeLike) -> Node[Any, S]: ...
@overload
def full_like(x: Operand[S], value: Number, dtype: DTypeLike | None = None) -> Node[Any, S]: ...
@explains_keywords
def full_like(x: Any, value: Number, dtype: DTypeLike | None = None) -> Any:
    """Return a node filled with `value`, with the axes of `x` and by default its dtype.

    Like integers are integers. Raise `DTypeError` for a `value` beside them that is none.

    >>> wy.full_like(wy.Constant([1.0, 2.0]), 5.0).forward().tolist()
    [5.0, 5.0]
    >>> wy.full_like(wy.IndexConstant([1, 2]), 5).forward().tolist()
    [5, 5]
    """
    node: Any = x if isinstance(x, BaseNode) else Constant(x)
    if node.dtype.kind == "i" and dtype is None:
        if value != int(value):
            raise DTypeError(f"full_like: {describe(node)} holds integers, not {value}; pass dtype=np.float32")
        return node * 0 + int(value)
    kind = node.dtype if dtype is None else np.dtype(dtype)
    filled = BroadcastTo(as_constant(bool(value) if kind.kind == "b" else value, kind), node.dims)
    return with_sizes([filled], [node])[0]


@overload
def zeros_like(x: IndexNode[S], dtype: None = None) -> IndexNode[S]: ...
@overload
def zeros_like(x: IndexNode[S], dtype: DTypeLike) -> Node[Any, S]: ...
@overload
def zeros_like(x: Operand[S], dtype: DTypeLike | None = None) -> Node[Any, S]: ...
def zeros_like(x: Any, dtype: DTypeLike | None = None) -> Any:
    """Return zeros with the axes of `x` and by default its dtype; like integers they are integers.

    >>> wy.zeros_like(wy.Constant([1.0, 2.0])).forward().tolist()
    [0.0, 0.0]
    """
    filled: Any = full_like(x, 0.0, dtype)
    return filled


@overload
def ones_like(x: IndexNode[S], dtype: None = None) -> IndexNode[S]: ...
@overload
def ones_like(x: IndexNode[S], dtype: DTypeLike) -> Node[Any, S]: ...
@overload
def ones_like(x: Operand[S], dtype: DTypeLike | None = None) -> Node[Any, S]: ...
def ones_like(x: Any, dtype: DTypeLike | None = None) -> Any:
    """Return ones with the axes of `x` and by default its dtype; like integers they are integers.

    >>> wy.ones_like(wy.Constant([1.0, 2.0])).forward().tolist()
    [1.0, 1.0]
    """
    filled: Any = full_like(x, 1.0, dtype)
    return filled


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
    at = _along_first_axis(_fractions(num, endpoint), first, last)
    return first * (1.0 - at) + last * at


def _along_first_axis(values: np.ndarray, *beside: Node) -> np.ndarray:
    """Return values along a new first axis, in front of the axes of the nodes."""
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
    return first * (last / first) ** _along_first_axis(_fractions(num, endpoint), first, last)


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
@explains_keywords
def one_hot(x: Any, num_classes: int, *, dtype: DTypeLike | None = None) -> Node:
    """Return vectors of `num_classes` zeros, with a 1 at the index that `x` gives, along a new last axis.

    An index out of range gives zeros only.

    >>> wy.one_hot([1, 0], 3).forward().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    return as_indices(x).one_hot(num_classes, dtype=dtype)

"""Functions that join arrays and split them, with NumPy's names and arguments."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, overload

from wyrm.errors import ShapeError
from wyrm.functions.operands import Operand, as_node, as_nodes
from wyrm.graph.axes import normalize_axis
from wyrm.graph.base import describe
from wyrm.graph.node import Node
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.indexing.rearranging import sized_axis
from wyrm.support.options import is_integer

# The name in the standard of array libraries.
concat = concatenate
# What `block` takes: nested lists of arrays.
Blocks = Any


def _one_or_all(function: Any, arrays: tuple[Operand, ...]) -> Any:
    """Return the result for one array, or a tuple of the results for several or none."""
    results = tuple(function(x) for array in arrays for x in as_nodes(array))
    return results[0] if len(arrays) == 1 else results


def _in_front(x: Node, ndim: int) -> Node:
    """Return `x` with axes of size 1 added in front until it has `ndim`."""
    return x if x.ndim >= ndim else x.expand_dims(tuple(range(ndim - x.ndim)))


@overload
def atleast_1d(array: Operand, /) -> Node: ...
@overload
def atleast_1d(*arrays: Operand) -> tuple[Node, ...]: ...
def atleast_1d(*arrays: Operand) -> Any:
    """Return the array with one axis or more: a number becomes an array of one element; of several arrays, a tuple.

    >>> wy.atleast_1d(3.0).shape
    (1,)
    """
    return _one_or_all(lambda x: _in_front(x, 1), arrays)


@overload
def atleast_2d(array: Operand, /) -> Node: ...
@overload
def atleast_2d(*arrays: Operand) -> tuple[Node, ...]: ...
def atleast_2d(*arrays: Operand) -> Any:
    """Return the array with two axes or more: one axis becomes a row; of several arrays, a tuple.

    >>> wy.atleast_2d([1.0, 2.0]).shape
    (1, 2)
    """
    return _one_or_all(lambda x: _in_front(x, 2), arrays)


@overload
def atleast_3d(array: Operand, /) -> Node: ...
@overload
def atleast_3d(*arrays: Operand) -> tuple[Node, ...]: ...
def atleast_3d(*arrays: Operand) -> Any:
    """Return the array with three axes or more: `(n,)` becomes `(1, n, 1)`, `(m, n)` becomes `(m, n, 1)`.

    >>> wy.atleast_3d([1.0, 2.0]).shape
    (1, 2, 1)
    """
    return _one_or_all(lambda x: x if x.ndim >= 3 else _in_front(x, 2).expand_dims(-1), arrays)


def _joined(name: str, tup: Node | Sequence[Operand], prepare: Any, axis: int | None = None) -> Node:
    """Return the prepared parts joined along `axis`, by default the first for parts of one axis, else the second."""
    given = list(tup)  # one node stands for its rows
    if not given:
        raise ShapeError(f"{name}: takes at least one array")
    parts = [prepare(x) for x in as_nodes(*given)]
    if axis is None:
        axis = 0 if parts[0].ndim == 1 else 1
    return concatenate(parts, axis)


def hstack(tup: Node | Sequence[Operand]) -> Node:
    """Return the arrays joined along the second axis, or along the first if they have one.

    Raise `ShapeError` unless all other axes are equal.

    >>> wy.hstack([wy.Constant([1.0]), wy.Constant([2.0, 3.0])]).forward().tolist()
    [1.0, 2.0, 3.0]
    """
    return _joined("hstack", tup, atleast_1d)


def vstack(tup: Node | Sequence[Operand]) -> Node:
    """Return the arrays joined along the first axis; arrays of one axis are rows.

    Raise `ShapeError` unless all other axes are equal.

    >>> wy.vstack([wy.Constant([1.0, 2.0]), wy.Constant([3.0, 4.0])]).forward().tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _joined("vstack", tup, atleast_2d, 0)


def dstack(tup: Node | Sequence[Operand]) -> Node:
    """Return the arrays joined along the third axis, with axes of size 1 added as in `atleast_3d`.

    Raise `ShapeError` unless all other axes are equal.

    >>> wy.dstack([wy.Constant([1.0, 2.0]), wy.Constant([3.0, 4.0])]).forward().tolist()
    [[[1.0, 3.0], [2.0, 4.0]]]
    """
    return _joined("dstack", tup, atleast_3d, 2)


def column_stack(tup: Node | Sequence[Operand]) -> Node:
    """Return the arrays joined along the second axis; arrays of one axis are columns.

    Raise `ShapeError` unless all other axes are equal.

    >>> wy.column_stack([wy.Constant([1.0, 2.0]), wy.Constant([3.0, 4.0])]).forward().tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    return _joined("column_stack", tup, lambda x: x if x.ndim > 1 else x.reshape((-1, 1)), 1)


def block(arrays: Blocks) -> Node:
    """Return the array that nested lists of blocks form: the innermost lists join along the last axis.

    Raise `ShapeError` for lists of different depths, an empty list, or blocks that do not fit.

    >>> a, b = wy.Constant([[1.0]]), wy.Constant([[2.0, 3.0]])
    >>> wy.block([[a, b], [b, a]]).forward().tolist()
    [[1.0, 2.0, 3.0], [2.0, 3.0, 1.0]]
    """
    leaves: list[Any] = []
    depth = _depth(arrays, leaves)
    nodes = as_nodes(*leaves)
    ndim = max(depth, *(x.ndim for x in nodes))
    parts = iter(_in_front(x, ndim) for x in nodes)

    def joined(blocks: Blocks, level: int) -> Node:
        return concatenate([joined(each, level - 1) for each in blocks], -level) if level else next(parts)

    return joined(arrays, depth)


def _depth(blocks: Blocks, leaves: list[Any]) -> int:
    """Return the depth of nested lists, and collect their leaves."""
    if not isinstance(blocks, list):
        leaves.append(blocks)
        return 0
    depths = {_depth(each, leaves) for each in blocks}
    if len(depths) != 1:
        raise ShapeError("block: the lists must not be empty, and all arrays must be at the same depth of lists")
    return depths.pop() + 1


def append(arr: Operand, values: Operand, axis: int | None = None) -> Node:
    """Return `arr` followed by `values` along `axis`, or all elements of both in row-major order without one.

    Raise `ShapeError` unless all other axes are equal.

    >>> wy.append([1.0, 2.0], 3.0).forward().tolist()
    [1.0, 2.0, 3.0]
    """
    parts = as_nodes(arr, values)
    return concatenate([x.ravel() for x in parts]) if axis is None else concatenate(parts, axis)


def array_split(ary: Operand, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Node]:
    """Return the parts of `ary` along `axis`, as `split`; a number of sections need not divide the axis equally.

    The first parts are then one element longer. Raise `ShapeError` for fewer than one section.

    >>> [part.shape for part in wy.array_split(np.zeros(5), 2)]
    [(3,), (2,)]
    """
    x = as_node(ary)
    axis = normalize_axis(axis, x.ndim)
    if not is_integer(indices_or_sections):
        return list(x.split(indices_or_sections, axis))
    if indices_or_sections < 1:
        raise ShapeError(f"array_split: {describe(x)}: sections must be at least 1, not {indices_or_sections}")
    each, longer = divmod(sized_axis("array_split", x, axis), int(indices_or_sections))
    sizes = [each + 1] * longer + [each] * (int(indices_or_sections) - longer)
    return list(x.split(list(itertools.accumulate(sizes))[:-1], axis))


def _split_along(name: str, ary: Operand, sections: int | Sequence[int], axis: int, ndim: int) -> list[Node]:
    x = as_node(ary)
    if x.ndim < ndim:
        raise ShapeError(f"{name}: {describe(x)} has fewer than {ndim} axes")
    return list(x.split(sections, axis))


def hsplit(ary: Operand, indices_or_sections: int | Sequence[int]) -> list[Node]:
    """Return the parts of `ary` along its second axis, or along its only one, as `split`.

    >>> [part.shape for part in wy.hsplit(np.zeros((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    x = as_node(ary)
    return _split_along("hsplit", x, indices_or_sections, min(x.ndim - 1, 1), 1)


def vsplit(ary: Operand, indices_or_sections: int | Sequence[int]) -> list[Node]:
    """Return the parts of `ary`, of two axes or more, along its first axis, as `split`.

    >>> [part.shape for part in wy.vsplit(np.zeros((2, 4)), 2)]
    [(1, 4), (1, 4)]
    """
    return _split_along("vsplit", ary, indices_or_sections, 0, 2)


def dsplit(ary: Operand, indices_or_sections: int | Sequence[int]) -> list[Node]:
    """Return the parts of `ary`, of three axes or more, along its third axis, as `split`.

    >>> [part.shape for part in wy.dsplit(np.zeros((1, 2, 4)), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    return _split_along("dsplit", ary, indices_or_sections, 2, 3)


def unstack(x: Operand, /, *, axis: int = 0) -> tuple[Node, ...]:
    """Return the elements of `x` along `axis`, each without it: the inverse of `stack`.

    Raise `ShapeError` if the data of each run decides the size of the axis.

    >>> [part.forward().tolist() for part in wy.unstack([[1.0, 2.0], [3.0, 4.0]], axis=1)]
    [[1.0, 3.0], [2.0, 4.0]]
    """
    node = as_node(x)
    axis = normalize_axis(axis, node.ndim)
    before = (slice(None),) * axis
    return tuple(node[(*before, i)] for i in range(sized_axis("unstack", node, axis)))

"""Triangles, diagonals and constant matrices, with NumPy's names and arguments."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from wyrm.errors import ShapeError
from wyrm.functions.operands import Operand, S, as_node
from wyrm.graph.base import describe
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant, as_constant, constant_of
from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.gather import Place
from wyrm.ops.indexing.rearranging import diagonal, sized_axis
from wyrm.ops.indexing.slicing import concatenate
from wyrm.ops.reducing.cumulative import CumProd
from wyrm.support.options import integer

__all__ = ["diag", "diagflat", "eye", "identity", "tri", "tril", "triu", "vander"]


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Constant[tuple[Any, Any]]:
    """Return a constant matrix of `N` rows and `M` columns, by default as many, with ones on the diagonal `k`.

    >>> wy.eye(2).value.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    columns = None if M is None else integer("M", M)
    return constant_of(np.eye(integer("N", N), columns, integer("k", k), dtype=np.float32), dtype)


def identity(n: int, dtype: DTypeLike | None = None) -> Constant[tuple[Any, Any]]:
    """Return the constant identity matrix of `n` rows.

    >>> wy.identity(2).value.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Constant[tuple[Any, Any]]:
    """Return a constant matrix of `N` rows and `M` columns with ones at and below the diagonal `k`.

    >>> wy.tri(2, 3).value.tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    columns = None if M is None else integer("M", M)
    return constant_of(np.tri(integer("N", N), columns, integer("k", k), dtype=np.float32), dtype)


def _triangle(name: str, m: Operand, k: int, lower: bool) -> Node:
    x, k = as_node(m), integer("k", k)
    if not x.ndim:
        raise ShapeError(f"{name}: {describe(x)} has no axes")
    sizes = [sized_axis(name, x, axis) for axis in range(x.ndim)[-2:]]
    below = np.tri(sizes[0], sizes[-1], k if lower else k - 1, dtype=bool)
    return where(below if lower else ~below, x, as_constant(0, x.dtype))


def tril(m: Operand[S], k: int = 0) -> Node[Any, S]:
    """Return the matrices over the last two axes of `m` with zeros above the diagonal `k`.

    Raise `ShapeError` if the data of each run decides the size of one of these axes.

    >>> wy.tril([[1.0, 2.0], [3.0, 4.0]]).forward().tolist()
    [[1.0, 0.0], [3.0, 4.0]]
    """
    return _triangle("tril", m, k, lower=True)


def triu(m: Operand[S], k: int = 0) -> Node[Any, S]:
    """Return the matrices over the last two axes of `m` with zeros below the diagonal `k`.

    Raise `ShapeError` if the data of each run decides the size of one of these axes.

    >>> wy.triu([[1.0, 2.0], [3.0, 4.0]]).forward().tolist()
    [[1.0, 2.0], [0.0, 4.0]]
    """
    return _triangle("triu", m, k, lower=False)


def diag(v: Operand, k: int = 0) -> Node:
    """Return the diagonal `k` of a matrix, or the matrix of zeros that has `v`, of one axis, as its diagonal `k`.

    Raise `ShapeError` for another number of axes, or if the data of each run decides the size of one.

    >>> wy.diag([1.0, 2.0]).forward().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    x = as_node(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag: {describe(x)} must have one axis or two")
    offset = operator.index(k)
    size = sized_axis("diag", x, 0)
    positions = np.arange(size)
    rows, columns = IndexConstant(positions + max(-offset, 0)), IndexConstant(positions + max(offset, 0))
    whole = size + abs(offset)
    return Place(x, (rows, columns), (0, 1), 0, (whole, whole))


def diagflat(v: Operand, k: int = 0) -> Node:
    """Return the matrix of zeros with the elements of `v`, in row-major order, on the diagonal `k`.

    >>> wy.diagflat([[1.0, 2.0]]).forward().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    x = as_node(v)
    return diag(x.ravel(), k)


def vander(x: Operand, N: int | None = None, increasing: bool = False) -> Node:
    """Return the matrix whose columns are the powers of `x`, from `N - 1` to 0, or from 0 on if `increasing`.

    `N` is by default the number of elements. Raise `ShapeError` unless `x` has one axis.

    >>> wy.vander([2.0, 3.0], 3).forward().tolist()
    [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]
    """
    node = as_node(x)
    if node.ndim != 1:
        raise ShapeError(f"vander: {describe(node)} must have one axis")
    size = sized_axis("vander", node, 0)
    count = size if N is None else operator.index(N)
    factors = node.expand_dims(1).broadcast_to((size, max(count - 1, 0)))
    columns = concatenate([as_constant(1.0, node.dtype).broadcast_to((size, min(count, 1))), factors], 1)
    powers = CumProd(columns, axis=1, reverse=False)  # whose gradient is right at zeros too
    return powers if increasing else powers[:, ::-1]

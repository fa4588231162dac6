"""Triangles, diagonals, constant matrices and products of two operands, with NumPy's names and arguments."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.functions.operands import Numbers, Operand, S, as_node, as_nodes, shape_error
from wyrm.graph.axes import Axis, Dim, axis_size, normalize_axis, product
from wyrm.graph.base import describe
from wyrm.graph.leaves import Constant, as_constant, constant_of
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import D1, D2, S2, A, AtLeast1D, Bs, DTypeLike, FittingShape, K, M, N, OfShape, Shaped, Size
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.conversion import weak_floats
from wyrm.ops.elementwise.elementwise import L, R
from wyrm.ops.indexing.gather import Place
from wyrm.ops.indexing.joining import concatenate, stack
from wyrm.ops.indexing.rearranging import diagonal, sized_axis
from wyrm.ops.products.einsum import LETTERS, Einsum
from wyrm.ops.products.product import MatMul
from wyrm.ops.reducing.cumulative import CumProd
from wyrm.ops.shaping.arange import positions
from wyrm.support.options import integer, is_integer

Side = Size | Dim


def _diagonal_positions(rows: Axis, k: int) -> IndexNode:
    """Return the positions of the diagonal `k` in each row, as a column."""
    column: IndexNode = positions(rows).expand_dims(1)
    return column + k if k else column


def _below(rows: Axis, columns: Axis, k: int) -> Node:
    """Return the mask of the elements at and below the diagonal `k` of a matrix."""
    if None in (axis_size(rows), axis_size(columns)):
        return _diagonal_positions(rows, k) >= positions(columns)
    return Constant(np.tri(int(rows), int(columns), k, dtype=bool), (rows, columns))


def _sides(N: Any, M: Any) -> tuple[Axis, Axis]:
    """Return the axes of a matrix; by default it is square."""
    rows, columns = (
        side if isinstance(side, Dim) else integer(name, side)
        for name, side in (("N", N), ("M", N if M is None else M))
    )
    return rows, columns


@overload
def eye(N: Size, M: Size | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Constant[tuple[Any, Any]]: ...
@overload
def eye(N: D1, M: None = None, k: int = 0, dtype: DTypeLike | None = None) -> Node[Any, tuple[D1, D1]]: ...
@overload
def eye(N: D1, M: D2, k: int = 0, dtype: DTypeLike | None = None) -> Node[Any, tuple[D1, D2]]: ...
@overload
def eye(N: Side, M: Side | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Node[Any, tuple[Any, Any]]: ...
def eye(N: Any, M: Any = None, k: int = 0, dtype: DTypeLike | None = None) -> Node:
    """Return a constant matrix of `N` rows and `M` columns, by default as many, with ones on the diagonal `k`.

    `N` and `M` are sizes or axes; an axis without a size takes it from the data of each run.

    >>> wy.eye(2).value.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    rows, columns = _sides(N, M)
    offset = integer("k", k)
    if None in (axis_size(rows), axis_size(columns)):
        return _as_numbers(_diagonal_positions(rows, offset) == positions(columns), dtype)
    return constant_of(np.eye(int(rows), int(columns), offset, dtype=np.float32), dtype, (rows, columns))


def _as_numbers(mask: Node, dtype: DTypeLike | None) -> Node:
    """Return a mask as zeros and ones, of a weak type by default."""
    return weak_floats(mask) if dtype is None else mask.astype(dtype)


@overload
def identity(n: Size, dtype: DTypeLike | None = None) -> Constant[tuple[Any, Any]]: ...
@overload
def identity(n: D1, dtype: DTypeLike | None = None) -> Node[Any, tuple[D1, D1]]: ...
def identity(n: Any, dtype: DTypeLike | None = None) -> Node:
    """Return the constant identity matrix of `n` rows, a size or an axis; see `eye`.

    >>> wy.identity(2).value.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    matrix: Node = eye(n, dtype=dtype)
    return matrix


@overload
def tri(N: Size, M: Size | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Constant[tuple[Any, Any]]: ...
@overload
def tri(N: D1, M: None = None, k: int = 0, dtype: DTypeLike | None = None) -> Node[Any, tuple[D1, D1]]: ...
@overload
def tri(N: D1, M: D2, k: int = 0, dtype: DTypeLike | None = None) -> Node[Any, tuple[D1, D2]]: ...
@overload
def tri(N: Side, M: Side | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Node[Any, tuple[Any, Any]]: ...
def tri(N: Any, M: Any = None, k: int = 0, dtype: DTypeLike | None = None) -> Node:
    """Return a constant matrix of `N` rows and `M` columns with ones at and below the diagonal `k`; see `eye`.

    >>> wy.tri(2, 3).value.tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    rows, columns = _sides(N, M)
    offset = integer("k", k)
    if None in (axis_size(rows), axis_size(columns)):
        return _as_numbers(_below(rows, columns, offset), dtype)
    return constant_of(np.tri(int(rows), int(columns), offset, dtype=np.float32), dtype, (rows, columns))


def _triangle(name: str, m: Operand, k: int, lower: bool) -> Node:
    x, k = as_node(m), integer("k", k)
    if not x.ndim:
        raise ShapeError(f"{name}: {describe(x)} has no axes")
    below = _below(x.dims[-min(x.ndim, 2)], x.dims[-1], k if lower else k - 1)
    return where(below if lower else ~below, x, as_constant(0, x.dtype))


def tril(m: Operand[S], k: int = 0) -> Node[Any, S]:
    """Return the matrices over the last two axes of `m` with zeros above the diagonal `k`.

    The data of each run may decide the sizes of these axes. Raise `ShapeError` for a scalar.

    >>> wy.tril([[1.0, 2.0], [3.0, 4.0]]).forward().tolist()
    [[1.0, 0.0], [3.0, 4.0]]
    """
    return _triangle("tril", m, k, lower=True)


def triu(m: Operand[S], k: int = 0) -> Node[Any, S]:
    """Return the matrices over the last two axes of `m` with zeros below the diagonal `k`.

    The data of each run may decide the sizes of these axes. Raise `ShapeError` for a scalar.

    >>> wy.triu([[1.0, 2.0], [3.0, 4.0]]).forward().tolist()
    [[1.0, 2.0], [0.0, 4.0]]
    """
    return _triangle("triu", m, k, lower=False)


def diag(v: Operand, k: int = 0) -> Node:
    """Return the diagonal `k` of a matrix, or the matrix of zeros that has `v`, of one axis, as its diagonal `k`.

    The data of each run may decide the sizes, except for another diagonal of a matrix than the main one. Raise
    `ShapeError` for another number of axes.

    >>> wy.diag([1.0, 2.0]).forward().tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    x = as_node(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag: {describe(x)} must have one axis or two")
    offset, axis = operator.index(k), x.dims[0]
    whole = axis + abs(offset) if offset else axis
    along = positions(axis)
    rows, columns = (along + start if start else along for start in (max(-offset, 0), max(offset, 0)))
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


@overload
def matmul(x1: Shaped[L, S2], x2: Shaped[Any, FittingShape[S2]]) -> MatMul[L]: ...
@overload
def matmul(x1: Shaped[L, AtLeast1D], x2: Shaped[R, S2]) -> MatMul[L, R]: ...
@overload
def matmul(  # type: ignore[overload-overlap]  # where two of these match, they give the same axes
    x1: OfShape[L, tuple[*Bs, K]], x2: Shaped[R, tuple[K, N]]
) -> MatMul[L, R, tuple[*Bs, N]]: ...
@overload
def matmul(x1: OfShape[L, tuple[*Bs, K]], x2: Shaped[R, tuple[K]]) -> MatMul[L, R, tuple[*Bs]]: ...
@overload
def matmul(  # type: ignore[overload-overlap]  # as above
    x1: OfShape[L, tuple[*Bs, M, K]], x2: Shaped[R, tuple[*Bs, K, N]]
) -> MatMul[L, R, tuple[*Bs, M, N]]: ...
@overload
def matmul(x1: Shaped[L, tuple[K]], x2: OfShape[R, tuple[*Bs, K, N]]) -> MatMul[L, R, tuple[*Bs, N]]: ...
@overload
def matmul(  # type: ignore[overload-overlap]  # as above
    x1: Shaped[L, tuple[M, K]], x2: OfShape[R, tuple[*Bs, K, N]]
) -> MatMul[L, R, tuple[*Bs, M, N]]: ...
@overload
def matmul(
    x1: Shaped[L, tuple[A, *Bs, M, K]], x2: OfShape[R, tuple[*Bs, K, N]]
) -> MatMul[L, R, tuple[A, *Bs, M, N]]: ...
@overload
def matmul(
    x1: OfShape[L, tuple[*Bs, M, K]], x2: Shaped[R, tuple[A, *Bs, K, N]]
) -> MatMul[L, R, tuple[A, *Bs, M, N]]: ...
@overload
def matmul(x1: Numbers, x2: Operand) -> MatMul: ...
@overload
def matmul(x1: Operand, x2: Numbers) -> MatMul: ...
def matmul(x1: Any, x2: Any) -> MatMul:
    """Return the matrix product `x1 @ x2`, as `numpy.matmul`. Raise `ShapeError` if the inner axes differ.

    >>> wy.matmul(wy.Constant([[1.0, 2.0]]), [[3.0], [4.0]]).forward().tolist()
    [[11.0]]
    """
    left, right = as_nodes(x1, x2)
    return MatMul(left, right)


@overload
def dot(a: Shaped[Any, S2], b: Shaped[Any, FittingShape[S2]]) -> Node: ...
@overload
def dot(a: Shaped[L, AtLeast1D], b: Shaped[R, S2]) -> Node: ...
@overload
def dot(a: Node[Any, S], b: Node[Any, tuple[()]]) -> Node[Any, S]: ...
@overload
def dot(a: Node[Any, tuple[()]], b: Node[Any, S]) -> Node[Any, S]: ...
@overload
def dot(a: Node[Any, tuple[*Bs, K]], b: Node[Any, tuple[K, N]]) -> Node[Any, tuple[*Bs, N]]: ...
@overload
def dot(a: Node[Any, tuple[*Bs, K]], b: Node[Any, tuple[K]]) -> Node[Any, tuple[*Bs]]: ...
@overload
def dot(a: Node[Any, tuple[*Bs, K]], b: Node[Any, tuple[A, K, N]]) -> Node[Any, tuple[*Bs, A, N]]: ...
@overload
def dot(a: Numbers, b: Operand) -> Node: ...
@overload
def dot(a: Operand, b: Numbers) -> Node: ...
def dot(a: Any, b: Any) -> Node:
    """Return the dot product, as `numpy.dot`: the sum over the last axis of `a` and the second-to-last axis of `b`.

    A number multiplies. Raise `ShapeError` if the summed axes differ.

    >>> wy.dot(wy.Constant([1.0, 2.0]), [3.0, 4.0]).forward().item()
    11.0
    """
    left, right = as_nodes(a, b)
    if not left.ndim or not right.ndim:
        return left * right
    if left.ndim == 1 or right.ndim <= 2:
        return MatMul(left, right)
    return tensordot(left, right, ((left.ndim - 1,), (right.ndim - 2,)))


def inner(a: Operand, b: Operand) -> Node:
    """Return the sum over the last axes of both operands, as `numpy.inner`; a number multiplies.

    Raise `ShapeError` if the last axes differ.

    >>> wy.inner(wy.Constant([[1.0, 2.0], [3.0, 4.0]]), [1.0, 10.0]).forward().tolist()
    [21.0, 43.0]
    """
    left, right = as_nodes(a, b)
    return left * right if not left.ndim or not right.ndim else tensordot(left, right, ((-1,), (-1,)))


def vdot(a: Operand, b: Operand) -> Node[Any, tuple[()]]:
    """Return the sum of products of all elements in order, as `numpy.vdot`. Raise `ShapeError` if the sizes differ.

    >>> wy.vdot(wy.Constant([[1.0, 2.0], [3.0, 4.0]]), [[1.0, 1.0], [1.0, 1.0]]).forward().item()
    10.0
    """
    left, right = as_nodes(a, b)
    return MatMul(left.ravel(), right.ravel())


def vecdot(x1: Operand, x2: Operand) -> Node:
    """Return the sum of products over the last axis, as `numpy.vecdot`; the other axes broadcast.

    Raise `ShapeError` if the last axes differ.

    >>> wy.vecdot(wy.Constant([[1.0, 2.0], [3.0, 4.0]]), [1.0, 10.0]).forward().tolist()
    [21.0, 43.0]
    """
    left, right = as_nodes(x1, x2)
    return left.vector_dot(right)


@overload
def outer(a: Node[Any, tuple[M]], b: Node[Any, tuple[N]]) -> Node[Any, tuple[M, N]]: ...
@overload
def outer(a: Operand, b: Operand) -> Node[Any, tuple[Any, Any]]: ...
def outer(a: Operand, b: Operand) -> Node:
    """Return the products of all pairs of elements, as `numpy.outer`: a matrix, for operands of any shape.

    >>> wy.outer(wy.Constant([1.0, 2.0]), [3.0, 4.0]).forward().tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    left, right = as_nodes(a, b)
    return left.ravel().expand_dims(1) * right.ravel()


def kron(a: Operand, b: Operand) -> Node:
    """Return the Kronecker product, as `numpy.kron`: blocks of `b`, each scaled by an element of `a`.

    >>> wy.kron(wy.Constant([1.0, 10.0]), [1.0, 2.0]).forward().tolist()
    [1.0, 2.0, 10.0, 20.0]
    """
    left, right = as_nodes(a, b)
    ndim = max(left.ndim, right.ndim)
    left, right = (x.expand_dims(tuple(range(ndim - x.ndim))) if x.ndim < ndim else x for x in (left, right))
    products = left.expand_dims(tuple(range(1, 2 * ndim, 2))) * right.expand_dims(tuple(range(0, 2 * ndim, 2)))
    dims: Any = tuple(product((x, y)) for x, y in zip(left.dims, right.dims, strict=True))
    return products.reshape(dims)


def tensordot(a: Operand, b: Operand, axes: int | Sequence[int | Sequence[int]] = 2) -> Node:
    """Return the sum of products over several axes, as `numpy.tensordot`.

    `axes` is how many: the last axes of `a` and the first of `b`. Or it is a pair: the axes of `a` and those of `b`.
    Raise `ShapeError` if the summed axes differ.

    >>> x = wy.Constant(np.ones((2, 3, 4)))
    >>> wy.tensordot(x, np.ones((4, 3, 5)), axes=([1, 2], [1, 0])).shape
    (2, 5)
    """
    left, right = as_nodes(a, b)
    if is_integer(axes):
        pairs = [list(range(left.ndim - axes, left.ndim)), list(range(axes))]
    else:
        pairs = [[each] if is_integer(each) else list(each) for each in axes]
    if len(pairs) != 2 or len(pairs[0]) != len(pairs[1]) or len(pairs[0]) > min(left.ndim, right.ndim):
        raise shape_error(
            "tensordot", f"axes must be a number or two lists of axes to sum, not {axes!r}", (left, right)
        )
    of_left, of_right = (
        [normalize_axis(axis, node.ndim) for axis in listed] for listed, node in zip(pairs, (left, right), strict=True)
    )
    x, y = list(LETTERS[: left.ndim]), list(LETTERS[left.ndim : left.ndim + right.ndim])
    for i, j in zip(of_left, of_right, strict=True):
        y[j] = x[i]
    kept = [letter for letter in (*x, *y) if (letter in x) != (letter in y)]
    return Einsum(left, right, f"{''.join(x)},{''.join(y)}->{''.join(kept)}")


def cross(a: Operand, b: Operand, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Node:
    """Return the cross product of vectors of 3 elements, as `numpy.cross`; the other axes broadcast.

    The vectors lie along `axisa` of `a` and `axisb` of `b`, and those of the result along `axisc`; `axis` is all three.
    Raise `ShapeError` for vectors that do not have 3 elements.

    >>> wy.cross(wy.Constant([1.0, 0.0, 0.0]), [0.0, 1.0, 0.0]).forward().tolist()
    [0.0, 0.0, 1.0]
    """
    nodes = as_nodes(a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    for node, along in zip(nodes, (axisa, axisb), strict=True):
        if not node.ndim or axis_size(node.dims[normalize_axis(along, node.ndim)]) != 3:
            raise shape_error("cross", f"takes vectors of 3 elements along axis {along}", nodes)
    (x0, x1, x2), (y0, y1, y2) = (
        [node.take(i, axis=along) for i in range(3)] for node, along in zip(nodes, (axisa, axisb), strict=True)
    )
    products = (x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0)
    return stack(products, axis=axisc)

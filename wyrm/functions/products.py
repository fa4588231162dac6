"""Products of two operands with the names of NumPy: matmul, tensordot, inner, outer, kron, cross and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from wyrm.functions.operands import Numbers, Operand, as_nodes, shape_error
from wyrm.graph.axes import axis_size, normalize_axis, product
from wyrm.graph.node import Node
from wyrm.graph.typing import S2, A, AtLeast1D, Bs, FittingShape, K, M, N, Shaped
from wyrm.ops.elementwise.elementwise import L, R, S
from wyrm.ops.indexing.slicing import stack
from wyrm.ops.products.einsum import LETTERS, Einsum
from wyrm.ops.products.product import MatMul
from wyrm.support.options import is_integer

__all__ = ["cross", "dot", "inner", "kron", "matmul", "outer", "tensordot", "vdot", "vecdot"]


@overload
def matmul(x1: Shaped[L, AtLeast1D], x2: Shaped[R, S2]) -> MatMul[L, R]: ...
@overload
def matmul(x1: Shaped[L, S], x2: Shaped[R, FittingShape]) -> MatMul[L, R]: ...
@overload
def matmul(  # type: ignore[overload-overlap]  # where two of these match, they give the same axes
    x1: Shaped[L, tuple[*Bs, K]], x2: Shaped[R, tuple[K, N]]
) -> MatMul[L, R, tuple[*Bs, N]]: ...
@overload
def matmul(x1: Shaped[L, tuple[*Bs, K]], x2: Shaped[R, tuple[K]]) -> MatMul[L, R, tuple[*Bs]]: ...
@overload
def matmul(x1: Shaped[L, tuple[*Bs, M, K]], x2: Shaped[R, tuple[*Bs, K, N]]) -> MatMul[L, R, tuple[*Bs, M, N]]: ...
@overload
def matmul(x1: Shaped[L, tuple[K]], x2: Shaped[R, tuple[*Bs, K, N]]) -> MatMul[L, R, tuple[*Bs, N]]: ...
@overload
def matmul(  # type: ignore[overload-overlap]  # as above
    x1: Shaped[L, tuple[M, K]], x2: Shaped[R, tuple[*Bs, K, N]]
) -> MatMul[L, R, tuple[*Bs, M, N]]: ...
@overload
def matmul(
    x1: Shaped[L, tuple[A, *Bs, M, K]], x2: Shaped[R, tuple[*Bs, K, N]]
) -> MatMul[L, R, tuple[A, *Bs, M, N]]: ...
@overload
def matmul(
    x1: Shaped[L, tuple[*Bs, M, K]], x2: Shaped[R, tuple[A, *Bs, K, N]]
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
def dot(a: Shaped[L, AtLeast1D], b: Shaped[R, S2]) -> Node: ...
@overload
def dot(a: Shaped[L, S], b: Shaped[R, FittingShape]) -> Node: ...
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

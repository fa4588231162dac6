"""Products, traces and norms of vectors and matrices, as in `numpy.linalg`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, overload

import numpy as np

from wyrm.errors import OptionError
from wyrm.functions import matrices as products
from wyrm.functions.operands import Operand, as_node, as_nodes, shape_error
from wyrm.graph.axes import AxisLike, Times, all_axes, axis_size
from wyrm.graph.node import Node
from wyrm.graph.typing import AtLeast2D, Bs, M, N, OfShape, Shaped
from wyrm.linalg.factorizations import as_matrix, as_square, svdvals
from wyrm.linalg.systems import inv
from wyrm.ops.elementwise.elementwise import L, S
from wyrm.ops.linalg.matrices import square
from wyrm.ops.linalg.systems import identity
from wyrm.ops.shaping.shape import BroadcastTo
from wyrm.support.options import is_integer


@overload
def matrix_power(a: Shaped[L, AtLeast2D], n: int) -> Node: ...
@overload
def matrix_power(a: Shaped[L, tuple[*Bs, N, N]], n: int) -> Node[Any, tuple[*Bs, N, N]]: ...
def matrix_power(a: Any, n: int) -> Node:
    """Return square matrices raised to a whole power, of the axes (..., n, n); a negative power inverts them.

    Raise `ShapeError` unless the matrices are square, `TypeError` unless `n` is an integer and, when computed,
    `LinAlgError` for a negative power of a singular matrix.

    >>> wy.linalg.matrix_power(wy.Constant([[1.0, 1.0], [0.0, 1.0]]), 5).forward().tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    base, exponent = as_square("matrix_power", a), operator.index(n)
    batch, size = square(base)
    if exponent == 0:
        return BroadcastTo(identity(size, base.dtype), (*batch, size, size))
    if exponent < 0:
        base, exponent = inv(base), -exponent
    result: Node | None = None
    while True:  # by the binary digits of the exponent
        if exponent % 2:
            result = base if result is None else result @ base
        exponent //= 2
        if not exponent:
            assert result is not None
            return result
        base = base @ base


def cross(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Node:
    """Return the cross product of vectors of 3 elements along `axis`, as `numpy.linalg.cross`; other axes broadcast.

    Raise `ShapeError` for vectors that do not have 3 elements.

    >>> wy.linalg.cross(wy.Constant([1.0, 0.0, 0.0]), [0.0, 1.0, 0.0]).forward().tolist()
    [0.0, 0.0, 1.0]
    """
    return products.cross(x1, x2, axis=axis)


def multi_dot(arrays: Sequence[Operand]) -> Node:
    """Return the product of two matrices or more, in the order of multiplications with the least work.

    The first and the last one may be vectors: a row and a column. Raise `ShapeError` for fewer than two operands, for
    other numbers of axes, and for shapes that do not match.

    >>> x, y = wy.Constant([[1.0, 2.0]]), wy.Constant([[1.0], [1.0]])
    >>> wy.linalg.multi_dot([x, y, x]).forward().tolist()
    [[3.0, 6.0]]
    """
    nodes = as_nodes(*arrays)
    if len(nodes) < 2:
        raise shape_error("multi_dot", f"expected two operands or more, not {len(nodes)}", nodes)
    for position, node in enumerate(nodes):
        if node.ndim != 2 and not (node.ndim == 1 and position in (0, len(nodes) - 1)):
            raise shape_error("multi_dot", f"operand {position} must be a matrix", nodes)
    # The rows of each matrix and the columns of the last one; a size that data decides counts as one large number.
    sizes = [_size_or_guess(node, 0) if node.ndim == 2 else 1 for node in nodes[:1]]
    sizes += [_size_or_guess(node, 0) for node in nodes[1:]]
    sizes.append(_size_or_guess(nodes[-1], 1) if nodes[-1].ndim == 2 else 1)

    @cache
    def least(first: int, last: int) -> tuple[int, int]:
        """Return the number of multiplications of the product of a range, and where to split it."""
        return min(
            (
                (0 if split == first else least(first, split)[0])
                + (0 if split + 1 == last else least(split + 1, last)[0])
                + sizes[first] * sizes[split + 1] * sizes[last + 1],
                split,
            )
            for split in range(first, last)
        )

    def product(first: int, last: int) -> Node:
        if first == last:
            return nodes[first]
        split = least(first, last)[1]
        return product(first, split) @ product(split + 1, last)

    return product(0, len(nodes) - 1)


def _size_or_guess(node: Node, axis: int) -> int:
    dims: Any = node.dims
    return axis_size(dims[axis]) or 2**20


@overload
def matrix_transpose(x: Shaped[L, AtLeast2D]) -> Node: ...
@overload
def matrix_transpose(x: OfShape[L, tuple[*Bs, M, N]]) -> Node[Any, tuple[*Bs, N, M]]: ...
def matrix_transpose(x: Any) -> Node:
    """Return matrices with rows and columns exchanged: the last two axes. Raise `ShapeError` for fewer axes.

    >>> wy.linalg.matrix_transpose(wy.Constant([[1.0, 2.0]])).forward().tolist()
    [[1.0], [2.0]]
    """
    return as_matrix("matrix_transpose", x).mT


def diagonal(x: Operand, *, offset: int = 0) -> Node:
    """Return the diagonals of the matrices in the last two axes, as `numpy.linalg.diagonal`.

    Raise `ShapeError` for fewer than two axes.

    >>> wy.linalg.diagonal(wy.Constant([[1.0, 2.0], [3.0, 4.0]])).forward().tolist()
    [1.0, 4.0]
    """
    return as_matrix("diagonal", x).diagonal(offset, -2, -1)


def trace(x: Operand, *, offset: int = 0) -> Node:
    """Return the sums of the diagonals of the matrices in the last two axes, as `numpy.linalg.trace`.

    Raise `ShapeError` for fewer than two axes.

    >>> wy.linalg.trace(wy.Constant([[1.0, 2.0], [3.0, 4.0]])).forward().item()
    5.0
    """
    return as_matrix("trace", x).trace(offset, -2, -1)


Order = float | Literal["fro", "nuc"] | None


@overload
def norm(
    x: Shaped[L, S], ord: Order = None, axis: None = None, keepdims: Literal[False] = False
) -> Node[Any, tuple[()]]: ...
@overload
def norm(
    x: OfShape[L, tuple[*Bs, N]], ord: Order = None, *, axis: Literal[-1], keepdims: Literal[False] = False
) -> Node[Any, tuple[*Bs]]: ...
@overload
def norm(x: Shaped[L, S], ord: Order = None, axis: AxisLike = None, keepdims: bool = False) -> Node: ...
def norm(x: Any, ord: Order = None, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return a norm of the vectors along one axis, or of the matrices along two, as `numpy.linalg.norm`.

    Without `ord`, it is the root of the sum of squares, over all axes by default. For vectors, `ord` p gives
    `sum(abs(x)**p)**(1/p)`; `inf` and `-inf` give the largest and the smallest absolute value, and 0 the number of
    elements other than 0. For matrices, 1 and `inf` give the largest absolute column sum and row sum, 2 the largest
    singular value, -1, `-inf` and -2 the smallest ones, "fro" the root of the sum of squares, and "nuc" the sum of the
    singular values.

    Equal largest or smallest elements, sums or singular values share the gradient. The gradient of a root is NaN where
    the norm is 0, and for `ord` below 1 at an element of 0.

    Raise `ShapeError` for more than two axes with `ord` and for an axis that `x` lacks, and `OptionError` for another
    `ord`.

    >>> x = wy.Constant([[3.0, 4.0], [0.0, 0.0]])
    >>> wy.linalg.norm(x).forward().item(), wy.linalg.norm(x, 1, axis=-1).forward().tolist()
    (5.0, [7.0, 0.0])
    """
    node = as_node(x)
    axes = all_axes(axis, node.ndim)
    if ord is None and (axis is None or len(axes) in (1, 2)):
        return node.square().sum(axis=axes, keepdims=keepdims).sqrt()
    if len(axes) == 1:
        return _of_vectors(node, ord, axes[0], keepdims)
    if len(axes) == 2:
        # NumPy's order: the axis of the rows comes first.
        given = axes if axis is None or is_integer(axis) else tuple(int(i) % node.ndim for i in axis)
        return _of_matrices(node, ord, (given[0], given[1]), keepdims)
    raise shape_error("norm", f"ord={ord!r} takes one axis or two, not {len(axes)}", [node])


def _of_vectors(x: Node, ord: Order, axis: int, keepdims: bool) -> Node:
    if ord is None or ord == 2:
        return x.square().sum(axis=axis, keepdims=keepdims).sqrt()
    if isinstance(ord, str) or not isinstance(ord, int | float | np.number) or math.isnan(ord):
        raise OptionError(f"norm: ord must be a number for vectors, not {ord!r}")
    sizes = abs(x)
    if math.isinf(ord):
        return sizes.max(axis=axis, keepdims=keepdims) if ord > 0 else sizes.min(axis=axis, keepdims=keepdims)
    if ord == 0:
        return (x != 0.0).astype(x.dtype).sum(axis=axis, keepdims=keepdims)
    if ord == 1:
        return sizes.sum(axis=axis, keepdims=keepdims)
    return (sizes ** float(ord)).sum(axis=axis, keepdims=keepdims) ** (1.0 / float(ord))


def _of_matrices(x: Node, ord: Order, axes: tuple[int, int], keepdims: bool) -> Node:
    result: Node
    if ord is None or ord == "fro":
        return x.square().sum(axis=axes, keepdims=keepdims).sqrt()
    if axes[0] == axes[1]:
        raise shape_error("norm", f"the axes {axes} of a matrix must be different", [x])
    others = [i for i in range(x.ndim) if i not in axes]
    moved: Node = x.transpose(*others, *axes)
    if ord == "nuc":
        result = svdvals(moved).sum(axis=-1)
    elif ord in (2, -2):
        values = svdvals(moved)
        result = values.max(axis=-1) if ord == 2 else values.min(axis=-1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = abs(moved).sum(axis=-2 if ord in (1, -1) else -1)
        result = sums.max(axis=-1) if ord in (1, math.inf) else sums.min(axis=-1)
    else:
        raise OptionError(f"norm: ord must be 1, -1, 2, -2, inf, -inf, 'fro' or 'nuc' for matrices, not {ord!r}")
    return result.expand_dims(tuple(sorted(axes))) if keepdims else result


def vector_norm(x: Any, *, axis: AxisLike = None, keepdims: bool = False, ord: float = 2) -> Node:
    """Return the norm of the vectors along an axis, or of all elements as one vector, as `numpy.linalg.vector_norm`.

    Raise the errors of `norm`.

    >>> wy.linalg.vector_norm(wy.Constant([[3.0, 4.0]])).forward().item()
    5.0
    """
    x = as_node(x)
    axes = all_axes(axis, x.ndim)
    others = tuple(i for i in range(x.ndim) if i not in axes)
    kept = tuple(x.dims[i] for i in others)
    # Not -1: where another axis has no elements, the length does not follow from their number.
    flat: Node = x.transpose(*others, *axes).reshape((*kept, Times(x.dims[i] for i in axes)))
    result = norm(flat, ord, axis=-1)
    return result.expand_dims(axes) if keepdims and x.ndim else result


@overload
def matrix_norm(x: Shaped[L, AtLeast2D], *, keepdims: bool = False, ord: Order = "fro") -> Node: ...
@overload
def matrix_norm(
    x: OfShape[L, tuple[*Bs, M, N]], *, keepdims: Literal[False] = False, ord: Order = "fro"
) -> Node[Any, tuple[*Bs]]: ...
@overload
def matrix_norm(x: OfShape[L, tuple[*Bs, M, N]], *, keepdims: bool, ord: Order = "fro") -> Node: ...
def matrix_norm(x: Any, *, keepdims: bool = False, ord: Order = "fro") -> Node:
    """Return the norm of the matrices in the last two axes, as `numpy.linalg.matrix_norm`; see `norm`.

    >>> wy.linalg.matrix_norm(wy.Constant([[3.0, 0.0], [0.0, 4.0]]), ord="nuc").forward().item()
    7.0
    """
    return norm(as_matrix("matrix_norm", x), ord, axis=(-2, -1), keepdims=keepdims)


@overload
def cond(x: Shaped[L, AtLeast2D], p: Order = None) -> Node: ...
@overload
def cond(x: OfShape[L, tuple[*Bs, M, N]], p: Order = None) -> Node[Any, tuple[*Bs]]: ...
def cond(x: Any, p: Order = None) -> Node:
    """Return the condition number of matrices, as `numpy.linalg.cond`: by default from the singular values.

    Raise the errors of `norm` and, when computed with a `p` other than 2 and -2, `LinAlgError` for a singular matrix.

    >>> wy.linalg.cond(wy.Constant([[3.0, 0.0], [0.0, 1.5]])).forward().item()
    2.0
    """
    if p is None or p in (2, -2):
        values = svdvals(as_matrix("cond", x))
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)

"""Powers and chains of matrix products."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache
from typing import Any, overload

from wyrm.functions import products
from wyrm.functions.operands import Operand, as_nodes, shape_error
from wyrm.graph.axes import axis_size
from wyrm.graph.node import Node
from wyrm.graph.typing import AtLeast2D, Bs, M, N, Shaped
from wyrm.linalg.factorizations import as_matrix, as_square
from wyrm.linalg.systems import inv
from wyrm.ops.elementwise.elementwise import L
from wyrm.ops.linalg.lu import identity
from wyrm.ops.linalg.matrices import square
from wyrm.ops.shaping.shape import BroadcastTo


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
    sizes = [_size(node, 0) if node.ndim == 2 else 1 for node in nodes[:1]]
    sizes += [_size(node, 0) for node in nodes[1:]]
    sizes.append(_size(nodes[-1], 1) if nodes[-1].ndim == 2 else 1)

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


def _size(node: Node, axis: int) -> int:
    dims: Any = node.dims
    return axis_size(dims[axis]) or 2**20


@overload
def matrix_transpose(x: Shaped[L, AtLeast2D]) -> Node: ...
@overload
def matrix_transpose(x: Shaped[L, tuple[*Bs, M, N]]) -> Node[Any, tuple[*Bs, N, M]]: ...
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

"""The native form of products of matrices.

Products of rows that are chosen from a table with fewer, such as the vectors of characters, are products of the table:
`table[i] @ w` is `(table @ w)[i]`, and both gradients are products of the sums of what belongs to each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wyrm.node.leaves import Parameter, as_constant
from wyrm.node.loop_form import LOOPS, KernelArgument, LoopForm
from wyrm.node.node import IndexNode, Node
from wyrm.ops.index import Index, RowGradient
from wyrm.ops.product import MatMul, multiply_into
from wyrm.ops.shape import Reshape, Transpose
from wyrm.types.dims import axis_size
from wyrm.types.typing import Array, FloatArray


def multiplied(x: FloatArray, y: FloatArray, out: FloatArray, beta: int) -> None:
    """`out = beta * out + x @ y` for matrices, or for stacks of them with the same leading axes."""
    if out.ndim == 2:
        multiply_into(x, y, out, beta)
    else:
        for index in np.ndindex(out.shape[:-2]):
            multiply_into(x[index], y[index], out[index], beta)


def products(x: FloatArray, y: FloatArray, out: FloatArray) -> None:
    """`out = x @ y`."""
    multiplied(x, y, out, 0)


def added_products(x: FloatArray, y: FloatArray, out: FloatArray) -> None:
    """`out += x @ y`."""
    multiplied(x, y, out, 1)


@LOOPS.register(MatMul)
class _MatMulLoops(LoopForm):
    takes_views = True
    kernel = staticmethod(products)
    adding_kernel = staticmethod(added_products)

    def kernel_arguments(self, node: MatMul, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        x, y = operands
        x, y = x[None] if x.ndim == 1 else x, y[:, None] if y.ndim == 1 else y
        if y.ndim == 2 and x.flags.c_contiguous:  # one product over all leading axes
            rows = math.prod(x.shape[:-1])
            return x.reshape(rows, x.shape[-1]), y, out.reshape(rows, y.shape[-1])
        batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        stack = [m if m.shape[:-2] == batch else np.broadcast_to(m, (*batch, *m.shape[-2:])) for m in (x, y)]
        return *stack, out.reshape(*batch, x.shape[-2], y.shape[-1])

    def decompose(self, node: MatMul) -> Node | None:
        return _of_table(node)

    def gradient_of_rows(self, node: MatMul, indices: IndexNode, table: Node) -> Node:
        return _gradient_of_rows(node, indices, table)


# So many elements an axis is taken to have whose size is not known while compiling: a batch has a few.
_OPEN = 2


def _of_table(node: MatMul) -> Node | None:
    """What stands for a product of such rows, or for the gradient `rows.T @ y` by what they are multiplied with."""
    x, y = node.parents
    if y.ndim != 2:
        return None
    if isinstance(x, Index) and _is_often(*x.parents):
        table, indices = x.parents
        return Index(MatMul(table, y), indices)
    if isinstance(x, Transpose) and x.axes == (1, 0):
        (rows,) = x.parents
        chosen = rows.parents[0] if isinstance(rows, Reshape) else rows
        if (
            isinstance(chosen, Index)
            and _is_often(*chosen.parents)
            and axis_size(chosen.dims[-1]) == axis_size(rows.dims[-1])
        ):
            table, indices = chosen.parents
            return MatMul(table.matrix_transpose(), _by_rows(y, indices, table))
    return None


def _gradient_of_rows(gradient: MatMul, indices: IndexNode, table: Node) -> Node:
    """What stands for a product that is the gradient by such rows.

    Each time that a row was chosen adds to its gradient, so each has an equal share of it.
    """
    x, matrix = gradient.parents
    if matrix.ndim != 2 or not _is_often(table, indices):
        return gradient
    times = RowGradient(as_constant(1.0, table.dtype).broadcast_to(indices.dims), indices, table.dims[:1])
    shares: Node = MatMul(_by_rows(x, indices, table), matrix) / times.maximum(1.0).expand_dims(1)
    return Index(shares, indices)


def _by_rows(x: Node, indices: IndexNode, table: Node) -> Node:
    """For each row of the table, the sum of what belongs to it of `x`: of the axes (rows, columns)."""
    columns = x.dims[-1]
    wanted = (*indices.dims, columns)
    (inner,) = x.parents if isinstance(x, Reshape) else (x,)
    return RowGradient(inner if inner.dims == wanted else x.reshape(wanted), indices, (table.dims[0], columns))


def _is_often(table: Node, indices: IndexNode) -> bool:
    """Whether more rows are chosen than there are, of a parameter: its numbers are finite, so 0 times them is 0."""
    if not isinstance(table, Parameter) or table.ndim != 2:
        return False
    rows, sizes = axis_size(table.dims[0]), [size for size in map(axis_size, indices.dims) if size is not None]
    return rows is not None and rows < math.prod(sizes) * _OPEN ** (indices.ndim - len(sizes))

"""Matrix products in native code.

If more rows are gathered than their table has, such as embeddings of characters, the product is computed on the table:
`table[i] @ w` becomes `(table @ w)[i]`. Both gradients become products of sums over the uses of each row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wyrm.graph.axes import axis_size
from wyrm.graph.leaves import as_constant
from wyrm.graph.loop_form import LOOPS, ByKernel, Decomposed, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.indexing.index import Index, RowGradient
from wyrm.ops.products.narrow_product import product_with_narrow
from wyrm.ops.products.product import MatMul, multiply_into
from wyrm.ops.shaping.shape import Reshape
from wyrm.ops.shaping.transpose import Transpose


def multiplied(x: FloatArray, y: FloatArray, out: FloatArray, beta: int) -> None:
    """Write `beta * out + x @ y` into `out`, for matrices or for stacks of matrices with equal leading axes."""
    if out.ndim == 2:
        multiply_into(x, y, out, beta)
    else:
        for index in np.ndindex(out.shape[:-2]):
            multiply_into(x[index], y[index], out[index], beta)


def products(x: FloatArray, y: FloatArray, out: FloatArray) -> None:
    """Write `x @ y` into `out`."""
    multiplied(x, y, out, 0)


def added_products(x: FloatArray, y: FloatArray, out: FloatArray) -> None:
    """Add `x @ y` to `out`."""
    multiplied(x, y, out, 1)


@LOOPS.register(MatMul)
class _MatMulLoops(Decomposed, ByKernel):
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
        narrow = product_with_narrow(*node.parents)
        return _of_table(node) if narrow is None else narrow

    def gradient_of_rows(self, node: MatMul, indices: IndexNode, table: Node) -> Node:
        return _gradient_of_rows(node, indices, table)


# The assumed size of an axis whose size is unknown at compile time: a low guess for a batch.
_UNKNOWN_SIZE = 2


def _of_table(node: MatMul) -> Node | None:
    """Return the replacement for a product of gathered rows, or for `rows.T @ y`, the other operand's gradient."""
    x, y = node.parents
    if y.ndim != 2:
        return None
    if isinstance(x, Index) and _repeats_rows(*x.parents):
        table, indices = x.parents
        return Index(MatMul(table, y), indices)
    if isinstance(x, Transpose) and x.axes == (1, 0):
        (rows,) = x.parents
        gathered = rows.parents[0] if isinstance(rows, Reshape) else rows
        if (
            isinstance(gathered, Index)
            and _repeats_rows(*gathered.parents)
            and axis_size(gathered.dims[-1]) == axis_size(rows.dims[-1])
        ):
            table, indices = gathered.parents
            return MatMul(table.matrix_transpose(), _sum_by_row(y, indices, table))
    return None


def _gradient_of_rows(gradient: MatMul, indices: IndexNode, table: Node) -> Node:
    """Return the replacement for `gradient`, a product that is the gradient with respect to such rows.

    The uses of a row add up in the table's gradient, so each use gets an equal share of the row's sum.
    """
    x, matrix = gradient.parents
    if matrix.ndim != 2 or not _repeats_rows(table, indices):
        return gradient
    times = RowGradient(as_constant(1.0, table.dtype).broadcast_to(indices.dims), indices, table.dims[:1])
    shares: Node = MatMul(_sum_by_row(x, indices, table), matrix) / times.maximum(1.0).expand_dims(1)
    return Index(shares, indices)


def _sum_by_row(x: Node, indices: IndexNode, table: Node) -> Node:
    """Return, for each row of the table, the sum of the rows of `x` at its uses: axes (table rows, columns of `x`)."""
    columns = x.dims[-1]
    dims = (*indices.dims, columns)
    (inner,) = x.parents if isinstance(x, Reshape) else (x,)
    return RowGradient(inner if inner.dims == dims else x.reshape(dims), indices, (table.dims[0], columns))


def _repeats_rows(table: Node, indices: IndexNode) -> bool:
    """Return whether more rows are gathered than a parameter has. Parameters are finite, so 0 times a row is 0."""
    if not isinstance(table, Parameter) or table.ndim != 2:
        return False
    rows, sizes = axis_size(table.dims[0]), [size for size in map(axis_size, indices.dims) if size is not None]
    return rows is not None and rows < math.prod(sizes) * _UNKNOWN_SIZE ** (indices.ndim - len(sizes))

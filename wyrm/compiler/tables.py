"""Products of rows that are chosen from a table with fewer, such as the vectors of characters: of the table instead.

`table[i] @ w` is `(table @ w)[i]`, and both gradients are products of the sums of what belongs to each row.
"""

from __future__ import annotations

import math
from typing import Any

from wyrm.node.leaves import Parameter, as_constant
from wyrm.ops.index import Index, RowGradient
from wyrm.ops.product import MatMul
from wyrm.ops.shape import Reshape, Transpose
from wyrm.types.dims import axis_size

# So many elements an axis is taken to have whose size is not known while compiling: a batch has a few.
_OPEN = 2


def of_table(node: Any) -> Any:
    """What stands for a product of such rows, or for the gradient `rows.T @ y` by what they are multiplied with."""
    if not isinstance(node, MatMul) or node.parents[1].ndim != 2:
        return None
    x, y = node.parents
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


def gradient_of_rows(gradient: Any, indices: Any, table: Any) -> Any:
    """What stands for the gradient by such rows where that is a product.

    Each time that a row was chosen adds to its gradient, so each has an equal share of it.
    """
    if not isinstance(gradient, MatMul) or gradient.parents[1].ndim != 2 or not _is_often(table, indices):
        return gradient
    x, matrix = gradient.parents
    times = RowGradient(as_constant(1.0, table.dtype).broadcast_to(indices.dims), indices, table.dims[:1])
    shares: Any = MatMul(_by_rows(x, indices, table), matrix) / times.maximum(1.0).expand_dims(1)
    return Index(shares, indices)


def _by_rows(x: Any, indices: Any, table: Any) -> Any:
    """For each row of the table, the sum of what belongs to it of `x`: of the axes (rows, columns)."""
    columns = x.dims[-1]
    wanted = (*indices.dims, columns)
    (inner,) = x.parents if isinstance(x, Reshape) else (x,)
    return RowGradient(inner if inner.dims == wanted else x.reshape(wanted), indices, (table.dims[0], columns))


def _is_often(table: Any, indices: Any) -> bool:
    """Whether more rows are chosen than there are, of a parameter: its numbers are finite, so 0 times them is 0."""
    if not isinstance(table, Parameter) or table.ndim != 2:
        return False
    rows, sizes = axis_size(table.dims[0]), [size for size in map(axis_size, indices.dims) if size is not None]
    return rows is not None and rows < math.prod(sizes) * _OPEN ** (indices.ndim - len(sizes))

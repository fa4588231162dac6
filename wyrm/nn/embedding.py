"""The embedding: a table of vectors, one row for each thing."""

from __future__ import annotations

from typing import Any, Generic, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.nn.axes import Bs, Columns, M, N, Rows, sized_axis
from wyrm.nn.initializers import Initializer, Normal
from wyrm.nn.module import Module
from wyrm.nn.seeding import generator
from wyrm.node.leaves import Parameter
from wyrm.node.node import IndexNode, Tensor
from wyrm.types.dims import Dim

_TABLE = Normal(0.1)


class _Options(TypedDict, total=False):
    initializer: Initializer
    seed: int | None
    dtype: DTypeLike


class Embedding(Module, Generic[Rows, Columns]):
    """A vector for each of `rows` things: `embedding(indices)` gives the vectors that the indices name.

    `table` has the axes (rows, columns), each a `Dim` with a size or a number. It is drawn by `initializer` from
    `seed`, or without one from the next seed of the script (see `wyrm.nn.seed`); by default it is normal with a
    standard deviation of 0.1. `dtype` is float32 or float64. The gradient of the table holds only the rows used.

    Raises `ShapeError` for an axis without a size or below 0, `DTypeError` for what is no axis or no such dtype.

    >>> words = Embedding(100, 8)
    >>> words(wy.IndexInput(dims=(5, 4))).shape
    (5, 4, 8)
    """

    table: Parameter[tuple[Rows, Columns]]

    @overload
    def __init__(self: Embedding, rows: int, columns: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: Embedding[Any, N], rows: int, columns: N, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: Embedding[M, Any], rows: M, columns: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: Embedding[M, N], rows: M, columns: N, **options: Unpack[_Options]) -> None: ...
    def __init__(
        self,
        rows: Dim | int,
        columns: Dim | int,
        *,
        initializer: Initializer = _TABLE,
        seed: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        axes: Any = sized_axis("Embedding", "row", rows), sized_axis("Embedding", "column", columns)
        values = initializer((int(axes[0]), int(axes[1])), generator(seed), dtype)
        self.table = Parameter(values, axes, name="table", dtype=dtype)

    def __call__(self, indices: IndexNode[tuple[*Bs]]) -> Tensor[*Bs, Columns]:
        """The rows that `indices` name, of the axes of `indices` and the column axis.

        `IndexOutOfRange` when an index beyond the table is set, `DTypeError` for a float node.
        """
        return self.table.index(indices)

    def __repr__(self) -> str:
        rows, columns = self.table.dims
        return f"Embedding({rows!r}, {columns!r})"

"""Embeddings: the rows of a table at indices, and one vector for each bag of indices."""

from __future__ import annotations

import math
from typing import Any, Generic, Literal, get_args

import numpy as np

from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import ragged_axis
from wyrm.graph.base import describe
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import Array, DTypeLike, Unnamed
from wyrm.module import Module
from wyrm.nn.axes import Bs, Columns, M, N, Rows, sized_axes
from wyrm.nn.initializers import Initializer, Normal, first_values
from wyrm.nn.seeding import generator
from wyrm.ops.control.pass_through import DenseGradient
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import operand
from wyrm.support.options import choice, flag, whole

_WEIGHT = Normal(0.1)


class Embedding(Module, Generic[Rows, Columns]):
    """A lookup table: `embedding(indices)` gathers the rows of `weight` at `indices`.

    `weight` has the axes (num_embeddings, embedding_dim), each a `Dim` with a size or an integer. `initializer` draws
    it, by default from a normal distribution with a standard deviation of 0.1, from `seed`, or without one from the
    script's next seed (see `wyrm.nn.seed`). `dtype` is float32 or float64.

    Unlike in PyTorch, the table starts small, as suits recommenders, whose scores are products of two rows. PyTorch
    draws from a standard normal distribution, as the third example does: sequence models read such rows better, and
    learn several times faster from them.

    Unlike in PyTorch, the gradient holds only the rows used, and an optimizer moves only those: Adam is PyTorch's
    SparseAdam, and weight decay and momentum do not reach the other rows. A step costs as many rows as it uses. With
    `dense=True` the gradient is that of the whole table, as by default in PyTorch: Adam then moves each row in each
    step, by its momentum.

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis or a dtype of another kind.

    >>> words = Embedding(100, 8)
    >>> words(wy.IndexInput(dims=(5, 4))).shape
    (5, 4, 8)
    >>> table = Embedding(3, 1, dense=True)
    >>> table(wy.IndexConstant([0, 0])).sum().backward()
    >>> table.weight.row_gradient is None, table.weight.gradient.tolist()
    (True, [[2.0], [0.0], [0.0]])
    >>> characters = Embedding(40, 16, initializer=wy.nn.initializers.Normal())
    """

    weight: Parameter[tuple[Rows, Columns]]

    def __init__(
        self: Embedding[M, N],
        num_embeddings: M | Unnamed[M],
        embedding_dim: N | Unnamed[N],
        *,
        dense: bool = False,
        initializer: Initializer = _WEIGHT,
        seed: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        axes = sized_axes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        values = first_values("Embedding", "initializer", initializer, tuple(map(int, axes)), generator(seed), dtype)
        self.weight = Parameter(values, axes, name="weight", dtype=dtype)
        self.dense: bool = flag("Embedding: dense", dense)

    def __call__(self, indices: IndexNode[tuple[*Bs]]) -> Tensor[*Bs, Columns]:
        """Return the rows at `indices`: the axes of `indices`, then `embedding_dim`.

        Raise `DTypeError` for a float node; setting an index out of range raises `IndexOutOfRange`.
        """
        if self.dense:
            rows: Tensor[*Bs, Columns] = DenseGradient(self.weight).index(indices)
            return rows
        return self.weight.index(indices)

    def __repr__(self) -> str:
        num_embeddings, embedding_dim = self.weight.dims
        return f"Embedding({num_embeddings!r}, {embedding_dim!r}{', dense=True' if self.dense else ''})"


BagMode = Literal["sum", "mean", "max"]


class EmbeddingBag(Module, Generic[Rows, Columns]):
    """The sum, mean or maximum over bags of rows of a table: (..., bag) indices to (..., embedding_dim).

    `padding_idx` fills bags that have fewer indices than others: it is left out of sum, mean and maximum, and its row
    gets no gradient. Bags of different lengths need none: their indices have a `wyrm.Ragged` axis. A bag without
    indices gives zeros. For bags in one long row, use `wyrm.segment_sum` with an `Embedding`. The table and the other
    options are those of `Embedding`; the gradient holds only the rows used.

    Raise `ValueError` for an unknown mode or a `padding_idx` that is no row, and the errors of `Embedding`.

    >>> bag = EmbeddingBag(100, 8, mode="mean", padding_idx=0)
    >>> bag(wy.IndexInput(dims=(5, 4))).shape
    (5, 8)
    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> bag(wy.IndexInput(dims=(Batch(), Words()))).shape
    (Batch(), 8)
    """

    weight: Parameter[tuple[Rows, Columns]]
    mode: BagMode

    def __init__(
        self: EmbeddingBag[M, N],
        num_embeddings: M | Unnamed[M],
        embedding_dim: N | Unnamed[N],
        *,
        mode: BagMode = "mean",
        padding_idx: int | None = None,
        initializer: Initializer = _WEIGHT,
        seed: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        choice("EmbeddingBag: mode", mode, get_args(BagMode))
        self.weight = Embedding(num_embeddings, embedding_dim, initializer=initializer, seed=seed, dtype=dtype).weight
        if padding_idx is not None:
            padding_idx = whole("EmbeddingBag: padding_idx", padding_idx, 0)
            if padding_idx >= int(self.weight.shape[0]):
                raise OptionError(f"EmbeddingBag: padding_idx {padding_idx} is no row of {describe(self.weight)}")
        self.mode = mode
        self.padding_idx: int | None = padding_idx

    def __call__(
        self, indices: IndexNode[tuple[*Bs, N]], sample_weight: Tensor[*Bs, N] | Array | None = None
    ) -> Tensor[*Bs, Columns]:
        """Return the leading axes of `indices`, whose last axis is the bag, then `embedding_dim`.

        `sample_weight`, of the axes of `indices`, multiplies the rows; as in PyTorch, only a sum takes it. Raise
        `ShapeError` for other axes, `ValueError` for weights with another mode, and the errors of `Embedding`.
        """
        if not indices.dims:
            raise ShapeError(f"EmbeddingBag takes bags of indices, not the scalar {describe(indices)}")
        rows: Any = self.weight.index(indices)
        present: Any = None if self.padding_idx is None else (indices != self.padding_idx).expand_dims(-1)
        if sample_weight is not None:
            if self.mode != "sum":
                raise ValueError(f"EmbeddingBag: sample_weight needs mode='sum', not {self.mode!r}")
            factors = operand(sample_weight, self.weight)
            if factors.ndim != indices.ndim:
                raise ShapeError(f"EmbeddingBag: {describe(factors)} must have the axes of {describe(indices)}")
            rows = rows * factors.expand_dims(-1)
        result: Tensor[*Bs, Columns] = _reduced(rows, present, self.mode)
        return result

    def __repr__(self) -> str:
        num_embeddings, embedding_dim = self.weight.dims
        return f"EmbeddingBag({num_embeddings!r}, {embedding_dim!r}, mode={self.mode!r})"


def _reduced(rows: Any, present: Any, mode: BagMode) -> Any:
    """Return the sum, mean or maximum of the rows (..., bag, width) over each bag.

    The mask `present`, (..., bag, 1), is false for padding; None if there is none.
    """
    if mode == "max" and (present is not None or ragged_axis(rows.dims) is not None):
        largest: Node = (rows if present is None else where(present, rows, -math.inf)).max(axis=-2)
        return where(largest > -math.inf, largest, 0.0)
    if present is None:
        return getattr(rows, mode)(axis=-2)
    total: Node = where(present, rows, 0.0).sum(axis=-2)
    return total if mode == "sum" else total / present.astype(rows.dtype).sum(axis=-2).maximum(1.0)

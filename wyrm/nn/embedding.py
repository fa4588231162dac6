"""The embedding layer: a table of vectors, one row per index."""

from __future__ import annotations

from typing import Generic

import numpy as np
from numpy.typing import DTypeLike

from wyrm.graph.leaves import Parameter
from wyrm.graph.node import IndexNode, Tensor
from wyrm.graph.typing import Unnamed
from wyrm.nn.axes import Bs, Columns, M, N, Rows, sized_axes
from wyrm.nn.initializers import Initializer, Normal, initialized
from wyrm.nn.module import Module
from wyrm.nn.seeding import generator

_WEIGHT = Normal(0.1)


class Embedding(Module, Generic[Rows, Columns]):
    """A lookup table: `embedding(indices)` gathers the rows of `weight` at `indices`.

    `weight` has the axes (num_embeddings, embedding_dim), each a `Dim` with a size or an integer. `initializer` draws
    it, by default from a normal distribution with a standard deviation of 0.1, from `seed`, or without one from the
    script's next seed (see `wyrm.nn.seed`). `dtype` is float32 or float64. The gradient holds only the rows used.

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis or a dtype of another kind.

    >>> words = Embedding(100, 8)
    >>> words(wy.IndexInput(dims=(5, 4))).shape
    (5, 4, 8)
    """

    weight: Parameter[tuple[Rows, Columns]]

    def __init__(
        self: Embedding[M, N],
        num_embeddings: M | Unnamed[M],
        embedding_dim: N | Unnamed[N],
        *,
        initializer: Initializer = _WEIGHT,
        seed: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        axes = sized_axes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        values = initialized("Embedding", "initializer", initializer, tuple(map(int, axes)), generator(seed), dtype)
        self.weight = Parameter(values, axes, name="weight", dtype=dtype)

    def __call__(self, indices: IndexNode[tuple[*Bs]]) -> Tensor[*Bs, Columns]:
        """Return the rows at `indices`: the axes of `indices`, then `embedding_dim`.

        Raise `DTypeError` for a float node; setting an index out of range raises `IndexOutOfRange`.
        """
        return self.weight.index(indices)

    def __repr__(self) -> str:
        num_embeddings, embedding_dim = self.weight.dims
        return f"Embedding({num_embeddings!r}, {embedding_dim!r})"

"""Attention of a sequence to itself as a module."""

from __future__ import annotations

from typing import Any, Generic

import numpy as np
from numpy.typing import DTypeLike
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.nn.axes import sized_axis
from wyrm.nn.dropout import Dropout
from wyrm.nn.initializers import Initializer, Normal
from wyrm.nn.linear import Linear
from wyrm.nn.module import Module
from wyrm.nn.positions import rotated
from wyrm.node.node import Node
from wyrm.node.training_mode import record_training_mode
from wyrm.ops.attention import attention

Width = TypeVar("Width", default=Any)
B = TypeVar("B", default=Any)
T = TypeVar("T", default=Any)

_WEIGHT = Normal(0.02)


class MultiHeadAttention(Module, Generic[Width]):
    """Attention of each place of a sequence to the others, by `heads` heads of `width / heads` features each.

    Maps (batch, time, width) to the same axes: one product gives the queries, keys and values of all heads, `mixed`
    joins what the heads found. `causal` lets a place attend to itself and what comes before it. `dropout` works on the
    shares, while `training`. `alibi` lowers scores by the distance, `rotary` turns queries and keys by their places
    (see `wyrm.nn.rotated`). See `wyrm.attention` for the formulas.

    Raises `ShapeError` where `heads` does not divide the width, `ValueError` for a rate outside [0, 1).

    >>> layer = MultiHeadAttention(8, heads=2)
    >>> layer(wy.Input(dims=(3, 5, 8))).shape
    (3, 5, 8)
    """

    packed: Linear[Width, Any]
    mixed: Linear[Any, Width]

    def __init__(
        self,
        width: Width,
        heads: int,
        *,
        causal: bool = True,
        alibi: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        initializer: Initializer = _WEIGHT,
        output_initializer: Initializer | None = None,
        dropout_seed: int = 0,
        dtype: DTypeLike = np.float32,
    ) -> None:
        size = int(sized_axis("MultiHeadAttention", "width", width))
        if heads < 1 or size % heads:
            raise ShapeError(f"MultiHeadAttention: {heads} heads do not divide the width, {size}")
        self.heads, self.causal, self.alibi, self.rotary = heads, causal, alibi, rotary
        self.dropout = Dropout(dropout, dropout_seed)
        out = output_initializer or initializer
        self.packed = Linear(width, 3 * size, bias=bias, initializer=initializer, dtype=dtype)
        self.mixed = Linear(size, width, bias=bias, initializer=out, dtype=dtype)

    def __call__(self, x: Node[Any, tuple[B, T, Width]], mask: Any = None) -> Node[Any, tuple[B, T, Width]]:
        """What each place gathers from those that it attends to; `mask` has the axes (batch, queries, keys).

        `ShapeError` where `x` has not three axes, the last one being the width.
        """
        if len(x.dims) != 3:
            raise ShapeError(f"MultiHeadAttention takes the axes (batch, time, width), not {x.dims}")
        axes: Any = x.dims
        batch, time, _ = axes
        size = int(self.packed.weight.shape[0])
        packed: Any = self.packed(x)
        split = packed.reshape((batch, time, 3, self.heads, size // self.heads))
        if self.rotary:
            split = rotated(split)
        rate = self.dropout.rate if self.training else 0.0
        found = attention(split, mask, causal=self.causal, alibi=self.alibi, rate=rate, seed=self.dropout.seed)
        if rate > 0.0:
            record_training_mode(found, self)
        joined: Any = found.reshape((batch, time, size))
        return self.mixed(joined)

"""Multi-head self-attention."""

from __future__ import annotations

from typing import Any, Generic

import numpy as np
from numpy.typing import DTypeLike

from wyrm.errors import ShapeError
from wyrm.nn.axes import B, T, Width, sized_axis
from wyrm.nn.dropout import Dropout
from wyrm.nn.initializers import Initializer, Normal
from wyrm.nn.linear import Linear
from wyrm.nn.module import Module
from wyrm.nn.positional_encoding import rotary_embedding
from wyrm.node.node import Node, Tensor
from wyrm.node.training_mode import record_training_mode
from wyrm.ops.attention import attention
from wyrm.types.typing import BoolArray

_WEIGHT = Normal(0.02)


class MultiHeadAttention(Module, Generic[Width]):
    """Self-attention with `num_heads` heads of `embed_dim / num_heads` features each.

    Maps (batch, time, embed_dim) to the same axes. `qkv` projects `x` to the queries, keys and values of all heads,
    `out_proj` projects the concatenated results of the heads. With `causal`, a position attends to itself and earlier
    positions. `alibi` subtracts a penalty from the scores that grows with the distance, `rotary` rotates queries and
    keys (see `wyrm.nn.rotary_embedding`). While `training`, `dropout` is the rate for the attention weights. See
    `wyrm.attention` for the formulas.

    Raises `ShapeError` where `embed_dim` is not divisible by `num_heads`, `ValueError` for a rate outside [0, 1).

    >>> layer = MultiHeadAttention(8, num_heads=2)
    >>> layer(wy.Input(dims=(3, 5, 8))).shape
    (3, 5, 8)
    """

    qkv: Linear[Width]
    out_proj: Linear[Any, Width]

    def __init__(
        self,
        embed_dim: Width | int,
        num_heads: int,
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
        size = int(sized_axis("MultiHeadAttention", "embed_dim", embed_dim))
        if num_heads < 1 or size % num_heads:
            raise ShapeError(f"MultiHeadAttention: embed_dim {size} is not divisible by num_heads {num_heads}")
        self.num_heads, self.causal, self.alibi, self.rotary = num_heads, causal, alibi, rotary
        self.dropout = Dropout(dropout, dropout_seed)
        out = output_initializer or initializer
        self.qkv = Linear(embed_dim, 3 * size, bias=bias, initializer=initializer, dtype=dtype)
        self.out_proj = Linear(size, embed_dim, bias=bias, initializer=out, dtype=dtype)

    def __call__(self, x: Tensor[B, T, Width], mask: Tensor[B, T, T] | BoolArray | None = None) -> Tensor[B, T, Width]:
        """Return the attention of `x` to itself, of the same axes.

        `mask` has the axes (batch, queries, keys); it is true where a query may attend to a key. Raises `ShapeError`
        unless the axes of `x` are (batch, time, embed_dim).
        """
        if len(x.dims) != 3:
            raise ShapeError(f"MultiHeadAttention takes the axes (batch, time, embed_dim), not {x.dims}")
        axes: Any = x.dims
        batch, time, _ = axes
        size = int(self.qkv.weight.shape[0])
        projected: Any = self.qkv(x)
        qkv = projected.reshape((batch, time, 3, self.num_heads, size // self.num_heads))
        if self.rotary:
            qkv = rotary_embedding(qkv)
        rate = self.dropout.rate if self.training else 0.0
        heads = attention(qkv, mask, causal=self.causal, alibi=self.alibi, dropout_rate=rate, seed=self.dropout.seed)
        if rate > 0.0:
            record_training_mode(heads, self)
        concatenated: Node = heads.reshape((batch, time, size))
        return self.out_proj(concatenated)

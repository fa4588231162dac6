"""The blocks of a transformer."""

from __future__ import annotations

from typing import Generic

import numpy as np
from numpy.typing import DTypeLike

from wyrm.nn.activation import Activation
from wyrm.nn.attention import MultiHeadAttention
from wyrm.nn.axes import B, Bs, Hidden, T, Width
from wyrm.nn.dropout import Dropout
from wyrm.nn.initializers import Initializer, Normal
from wyrm.nn.layer import Layer, Pointwise
from wyrm.nn.linear import Linear
from wyrm.nn.module import Module
from wyrm.nn.normalization import LayerNorm
from wyrm.node.node import Node, Tensor
from wyrm.types.typing import BoolArray

_WEIGHT = Normal(0.02)
_GELU = Activation("gelu", approximate=True)


class FeedForward(Layer[Width, Width], Generic[Width, Hidden]):
    """Two linear layers with an activation between them, by default the approximate GELU, as in GPT-2.

    Maps the last axis, `width`, to itself through `hidden`.

    >>> FeedForward(8, 32)(wy.Input(dims=(3, 5, 8))).shape
    (3, 5, 8)
    """

    inner: Linear[Width, Hidden]
    outer: Linear[Hidden, Width]

    def __init__(
        self,
        width: Width | int,
        hidden: Hidden | int,
        *,
        activation: Pointwise = _GELU,
        bias: bool = True,
        initializer: Initializer = _WEIGHT,
        output_initializer: Initializer | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.activation = activation
        out = output_initializer or initializer
        self.inner = Linear(width, hidden, bias=bias, initializer=initializer, dtype=dtype)
        self.outer = Linear(hidden, width, bias=bias, initializer=out, dtype=dtype)

    def __call__(self, x: Tensor[*Bs, Width]) -> Tensor[*Bs, Width]:
        """`outer(activation(inner(x)))`, of the axes of `x`."""
        activation, inner = self.activation, self.inner
        if (
            isinstance(activation, Activation)
            and activation.method == "gelu"
            and type(inner).__call__ is Linear.__call__
        ):
            hidden: Tensor[*Bs, Hidden] = x.linear_gelu(inner.weight, inner.bias, **activation.options)
            return self.outer(hidden)
        return self.outer(activation(inner(x)))


class TransformerBlock(Module, Generic[Width, Hidden]):
    """`x + attention(norm(x))`, then `x + feed_forward(norm(x))`: a block with the norms before, as in GPT-2.

    Maps (batch, time, width) to the same axes; `dropout` works on the shares and on what both halves add.

    >>> TransformerBlock(8, 32, heads=2)(wy.Input(dims=(3, 5, 8))).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        width: Width | int,
        hidden: Hidden | int,
        heads: int,
        *,
        causal: bool = True,
        alibi: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        epsilon: float = 1e-5,
        initializer: Initializer = _WEIGHT,
        output_initializer: Initializer | None = None,
        dropout_seed: int = 0,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.attention_norm = LayerNorm(width, epsilon, bias, dtype=dtype)
        self.attention = MultiHeadAttention(
            width, heads, causal=causal, alibi=alibi, rotary=rotary, dropout=dropout, bias=bias,
            dropout_seed=dropout_seed, initializer=initializer, output_initializer=output_initializer, dtype=dtype,
        )  # fmt: skip
        self.feed_forward_norm = LayerNorm(width, epsilon, bias, dtype=dtype)
        self.feed_forward = FeedForward(
            width, hidden, bias=bias, initializer=initializer, output_initializer=output_initializer, dtype=dtype
        )
        self.dropout = Dropout(dropout, dropout_seed)

    def __call__(self, x: Tensor[B, T, Width], mask: Tensor[B, T, T] | BoolArray | None = None) -> Tensor[B, T, Width]:
        """The block's result, of the axes of `x`; for `mask` see `MultiHeadAttention`."""
        attended: Node = self.attention(self.attention_norm(x), mask)
        middle: Node = self.dropout.add(x, attended)
        return self.dropout.add(middle, self.feed_forward(self.feed_forward_norm(middle)))

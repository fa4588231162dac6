"""The feed-forward networks, plain and gated, and the block of a transformer."""

from __future__ import annotations

from typing import Generic

import numpy as np

from wyrm.graph.axes import Dim
from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import BoolArray, DTypeLike, Unnamed
from wyrm.module import Module
from wyrm.nn.activation import Activation, checked_activation, silu
from wyrm.nn.attention import MultiHeadAttention
from wyrm.nn.axes import B, Bs, Hidden, M, N, T, Width
from wyrm.nn.dropout import Dropout
from wyrm.nn.initializers import Initializer, Normal, XavierUniform
from wyrm.nn.layer import Layer, Pointwise
from wyrm.nn.linear import Linear
from wyrm.nn.normalization import LayerNorm
from wyrm.nn.past import Past

_WEIGHT, _GATED_WEIGHT = Normal(0.02), XavierUniform()
_GELU = Activation("gelu", approximate=True)


class FeedForward(Layer[Width, Width], Generic[Width, Hidden]):
    """`fc2(activation(fc1(x)))`, with two linear layers; the default activation is GPT-2's, the approximate GELU.

    Maps the last axis from `embed_dim` to `hidden_dim` and back.

    >>> FeedForward(8, 32)(wy.Input(dims=(3, 5, 8))).shape
    (3, 5, 8)
    """

    fc1: Linear[Width, Hidden]
    fc2: Linear[Hidden, Width]

    def __init__(
        self: FeedForward[M, N],
        embed_dim: M | Unnamed[M],
        hidden_dim: N | Unnamed[N],
        *,
        activation: Pointwise = _GELU,
        bias: bool = True,
        initializer: Initializer = _WEIGHT,
        output_initializer: Initializer | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.activation: Pointwise = checked_activation("FeedForward", activation)
        out = output_initializer or initializer
        self.fc1 = Linear(embed_dim, hidden_dim, bias=bias, initializer=initializer, dtype=dtype)
        self.fc2 = Linear(hidden_dim, embed_dim, bias=bias, initializer=out, dtype=dtype)

    def __call__(self, x: Tensor[*Bs, Width]) -> Tensor[*Bs, Width]:
        """Return `fc2(activation(fc1(x)))`, of the axes of `x`."""
        activation, fc1 = self.activation, self.fc1
        if isinstance(activation, Activation) and activation.method == "gelu" and type(fc1).__call__ is Linear.__call__:
            hidden: Tensor[*Bs, Hidden] = x.linear_gelu(fc1.weight, fc1.bias, **activation.options)
            return self.fc2(hidden)
        return self.fc2(activation(fc1(x)))


class GatedFeedForward(Layer[Width, Width], Generic[Width, Hidden]):
    """`output(value(x) * activation(gate(x)))`, the feed-forward layer of recent transformers.

    Maps the last axis from `embed_dim` to `hidden_dim` and back. With `silu`, the default, it is SwiGLU; with `gelu`,
    `relu` and `sigmoid` it is GeGLU, ReGLU and GLU (Shazeer, "GLU variants improve transformer", 2020).

    >>> GatedFeedForward(8, 16)(wy.Input(dims=(3, 5, 8))).shape
    (3, 5, 8)
    """

    gate: Linear[Width, Hidden]
    value: Linear[Width, Hidden]
    output: Linear[Hidden, Width]

    def __init__(
        self: GatedFeedForward[M, N],
        embed_dim: M | Unnamed[M],
        hidden_dim: N | Unnamed[N],
        *,
        activation: Pointwise = silu,
        bias: bool = False,
        initializer: Initializer = _GATED_WEIGHT,
        output_initializer: Initializer | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.activation: Pointwise = checked_activation("GatedFeedForward", activation)
        self.gate = Linear(embed_dim, hidden_dim, bias=bias, initializer=initializer, dtype=dtype)
        self.value = Linear(embed_dim, hidden_dim, bias=bias, initializer=initializer, dtype=dtype)
        out = output_initializer or initializer
        self.output = Linear(hidden_dim, embed_dim, bias=bias, initializer=out, dtype=dtype)

    def __call__(self, x: Tensor[*Bs, Width]) -> Tensor[*Bs, Width]:
        """Return the result of the layer, of the axes of `x`."""
        gate: Tensor[*Bs, Hidden] = self.activation(self.gate(x))
        hidden: Tensor[*Bs, Hidden] = self.value(x) * gate
        return self.output(hidden)


class TransformerBlock(Module, Generic[Width, Hidden]):
    """A pre-norm transformer block: `x = x + attention(norm(x))`, then `x = x + feed_forward(norm(x))`.

    Maps (batch, time, embed_dim) to the same axes. `dropout` is the rate for the results of attention and feed-forward.
    `attention_dropout`, the rate for the attention weights, is the same by default. See `MultiHeadAttention`,
    `FeedForward` and `LayerNorm` for the other options and the errors.

    >>> TransformerBlock(8, 32, num_heads=2)(wy.Input(dims=(3, 5, 8))).shape
    (3, 5, 8)
    """

    attention_norm: LayerNorm[Width]
    attention: MultiHeadAttention[Width]
    feed_forward_norm: LayerNorm[Width]
    feed_forward: FeedForward[Width, Hidden]

    def __init__(
        self: TransformerBlock[M, N],
        embed_dim: M | Unnamed[M],
        hidden_dim: N | Unnamed[N],
        num_heads: Dim | int,
        *,
        causal: bool = True,
        alibi: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        bias: bool = True,
        epsilon: float = 1e-5,
        initializer: Initializer = _WEIGHT,
        output_initializer: Initializer | None = None,
        dropout_seed: int = 0,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self.attention_norm = LayerNorm(embed_dim, epsilon, bias, dtype=dtype)
        self.attention = MultiHeadAttention(
            embed_dim, num_heads, causal=causal, alibi=alibi, rotary=rotary, bias=bias, dropout_seed=dropout_seed,
            dropout=dropout if attention_dropout is None else attention_dropout, initializer=initializer,
            output_initializer=output_initializer, dtype=dtype,
        )  # fmt: skip
        self.feed_forward_norm = LayerNorm(embed_dim, epsilon, bias, dtype=dtype)
        self.feed_forward = FeedForward(
            embed_dim, hidden_dim, bias=bias, initializer=initializer, output_initializer=output_initializer,
            dtype=dtype,
        )  # fmt: skip
        self.dropout: Dropout = Dropout(dropout, dropout_seed)

    def __call__(
        self, x: Tensor[B, T, Width], mask: Tensor[B, T, T] | BoolArray | None = None, *, past: Past | None = None
    ) -> Tensor[B, T, Width]:
        """Return the result of the block, of the axes of `x`; `mask` and `past` are those of `MultiHeadAttention`."""
        attended: Node = self.attention(self.attention_norm(x), mask, past=past)
        middle: Tensor[B, T, Width] = self.dropout.add(x, attended)
        return self.dropout.add(middle, self.feed_forward(self.feed_forward_norm(middle)))

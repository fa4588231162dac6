"""GPT-2, a language model of transformer blocks.

Radford et al., "Language models are unsupervised multitask learners" (2019).
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from wyrm.errors import ShapeError
from wyrm.nn.dropout import Dropout
from wyrm.nn.embedding import Embedding
from wyrm.nn.initializers import Normal
from wyrm.nn.module import Module
from wyrm.nn.normalization import LayerNorm
from wyrm.nn.transformer import TransformerBlock
from wyrm.node.leaves import Parameter
from wyrm.node.node import IndexNode, Node
from wyrm.ops.checkpoint import checkpoint as recomputed
from wyrm.ops.linear_cross_entropy import linear_cross_entropy
from wyrm.types.dims import axis_size


@dataclass(frozen=True)
class GPT2Config:
    """Sizes and options of a GPT-2; by default those of the model with 124 million parameters.

    `vocabulary` is the number of tokens, `context` the longest sequence, `hidden` the width inside the feed-forward
    layers, by default 4 times `width`. `dropout` is at least 0 and below 1. `tied` has the weight of the head be the
    table of tokens. `epsilon` is that of the norms. `ValueError` for what is of another kind or outside its range.

    >>> GPT2Config(width=64, heads=16).inner
    256
    """

    vocabulary: int = 50257
    context: int = 1024
    layers: int = 12
    heads: int = 12
    width: int = 768
    hidden: int | None = None
    dropout: float = 0.1
    tied: bool = True
    bias: bool = True
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("vocabulary", "context", "layers", "heads", "width", "hidden"):
            value = getattr(self, name)
            if name == "hidden" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"GPT2Config: {name} is a whole number of at least 1, not {value!r}")
        if self.width % self.heads:
            raise ValueError(f"GPT2Config: {self.heads} heads do not divide the width, {self.width}")
        for name, most in (("dropout", math.nextafter(1.0, 0.0)), ("epsilon", sys.float_info.max)):
            value = getattr(self, name)
            numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
            if not numeric or not 0.0 <= value <= most:
                bounds = "at least 0 and below 1" if name == "dropout" else "a number of at least 0"
                raise ValueError(f"GPT2Config: {name} is {bounds}, not {value!r}")
        for name in ("tied", "bias"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"GPT2Config: {name} is True or False, not {getattr(self, name)!r}")

    @property
    def inner(self) -> int:
        """The width inside the feed-forward layers."""
        return 4 * self.width if self.hidden is None else self.hidden


class GPT2(Module):
    """A language model: from tokens, (batch, time), to a state for each, (batch, time, width), that tells the next.

    `model(tokens)` is the state after the last norm, `model.logits(tokens)` has the axes (batch, time, vocabulary),
    `model.loss(tokens, following)` is the mean cross-entropy without ever holding all logits. Weights are normal with
    a standard deviation of 0.02, those that add to the residual stream smaller by the root of twice the layers.
    `checkpoint` has the gradient compute each block again, which takes less memory and more time: see `wy.checkpoint`.

    >>> model = GPT2(GPT2Config(vocabulary=100, context=16, layers=2, heads=2, width=8))
    >>> model.logits(wy.IndexInput(dims=(3, 5))).shape
    (3, 5, 100)
    """

    def __init__(
        self, config: GPT2Config, *, seed: int = 0, checkpoint: bool = False, dtype: DTypeLike = np.float32
    ) -> None:
        self.config, self.checkpoint = config, checkpoint
        weight, residual = Normal(0.02), Normal(0.02 / (2 * config.layers) ** 0.5)
        width, vocabulary = config.width, config.vocabulary
        self.tokens = Embedding(vocabulary, width, initializer=weight, dtype=dtype)
        self.positions = Embedding(config.context, width, initializer=weight, dtype=dtype)
        self.dropout = Dropout(config.dropout, seed)
        self.blocks = [
            TransformerBlock(
                width, config.inner, config.heads, dropout=config.dropout, bias=config.bias, epsilon=config.epsilon,
                initializer=weight, output_initializer=residual, dropout_seed=seed, dtype=dtype,
            )
            for _ in range(config.layers)
        ]  # fmt: skip
        self.norm = LayerNorm(width, config.epsilon, config.bias, dtype=dtype)
        # With a tied head the same parameter has two places in the model.
        self.head: Parameter[Any] | None = None
        if not config.tied:
            self.head = Embedding(vocabulary, width, initializer=weight, dtype=dtype).table

    @property
    def head_weight(self) -> Parameter[Any]:
        """What states are multiplied with for logits, (vocabulary, width)."""
        return self.tokens.table if self.head is None else self.head

    def __call__(self, tokens: IndexNode[Any]) -> Node[Any, Any]:
        """The states, (batch, time, width); `ShapeError` for a sequence longer than the context."""
        if len(tokens.dims) != 2:
            raise ShapeError(f"GPT2 takes tokens of the axes (batch, time), not {tokens.dims}")
        time = axis_size(tokens.dims[1])
        if time is None:
            raise ShapeError(f"GPT2: the time axis, {tokens.dims[1]!r}, needs a size; give it one, as in Time(128)")
        if time > self.config.context:
            raise ShapeError(f"GPT2: a sequence of {time} tokens is longer than the context, {self.config.context}")
        x: Any = self.dropout(self.tokens.table.embed(tokens, self.positions.table))
        for block in self.blocks:
            x = recomputed(block, x) if self.checkpoint and self.training else block(x)
        return self.norm(x)

    def logits(self, tokens: IndexNode[Any]) -> Node[Any, Any]:
        """How much each token is expected to come next, (batch, time, vocabulary), before a softmax."""
        return self(tokens) @ self.head_weight.matrix_transpose()

    def loss(
        self,
        tokens: IndexNode[Any],
        following: IndexNode[Any],
        *,
        label_smoothing: float = 0.0,
        ignore_index: int | None = None,
    ) -> Node[Any, tuple[()]]:
        """The mean cross-entropy of the tokens that follow, (batch, time); see `wyrm.linear_cross_entropy`."""
        return linear_cross_entropy(
            self(tokens), self.head_weight, following, label_smoothing=label_smoothing, ignore_index=ignore_index
        )

    def save_pretrained(self, directory: str | os.PathLike[str]) -> None:
        """Write `config.json` and `model.safetensors` as the Hugging Face library reads them."""
        from wyrm.io.hugging_face import save_pretrained

        save_pretrained(self, directory)

    @staticmethod
    def from_pretrained(directory: str | os.PathLike[str], *, dtype: DTypeLike = np.float32) -> GPT2:
        """The model in a folder of the Hugging Face library, or else a `CheckpointError`."""
        from wyrm.io.hugging_face import from_pretrained

        return from_pretrained(directory, dtype=dtype)

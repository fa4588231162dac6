"""GPT-2, a language model of pre-norm transformer blocks.

Radford et al., "Language models are unsupervised multitask learners" (2019).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.errors import DTypeError
from wyrm.graph.node import IndexNode
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import DTypeLike
from wyrm.nn.base_decoder import BaseDecoder
from wyrm.nn.dropout import Dropout
from wyrm.nn.embedding import Embedding
from wyrm.nn.gpt2_axes import Embed, Heads, Inner, Positions, Vocabulary
from wyrm.nn.initializers import Normal
from wyrm.nn.normalization import LayerNorm
from wyrm.nn.past import Past
from wyrm.nn.transformer import TransformerBlock
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import whole


@dataclass(frozen=True)
class GPT2Config:
    """Sizes and options of a GPT-2, with the field names and defaults of the Hugging Face library.

    The defaults are those of the model with 124 million parameters.

    - `vocab_size`: number of tokens. `n_positions`: longest sequence.
    - `n_embd`: features of a token, a multiple of `n_head`. `n_layer`: blocks. `n_head`: attention heads of a block.
    - `n_inner`: features inside the feed-forward layers, `4 * n_embd` if None.
    - `resid_pdrop`, `embd_pdrop`, `attn_pdrop`: dropout rates in [0, 1), for the results of attention and feed-forward,
      the embeddings, and the attention weights.
    - `layer_norm_epsilon`: in [1e-30, 1]. `tie_word_embeddings`: whether the output layer shares its weight with the
      token embedding. `bias`: whether linear layers and norms have biases; the Hugging Face library always has them.

    Raise `ValueError` for a value of another type or outside its range.

    >>> GPT2Config(n_embd=64, n_head=16).inner_dim
    256
    """

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True
    bias: bool = True

    def __post_init__(self) -> None:
        for name in ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner"):
            value = getattr(self, name)
            if name == "n_inner" and value is None:
                continue
            try:
                # The configuration is frozen.
                object.__setattr__(self, name, whole(f"GPT2Config: {name}", value, 1))
            except DTypeError as error:
                raise ValueError(str(error)) from None
        if self.n_embd % self.n_head:
            raise ValueError(f"GPT2Config: n_embd {self.n_embd} is not divisible by n_head {self.n_head}")
        for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop", "layer_norm_epsilon"):
            value, is_rate = getattr(self, name), name.endswith("_pdrop")
            numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
            # With 0, equal numbers are divided by their variance, 0; above 1, the numbers hardly matter.
            if not numeric or not (0.0 <= value < 1.0 if is_rate else 1e-30 <= value <= 1.0):
                bounds = "a number in [0, 1)" if is_rate else "a number in [1e-30, 1]"
                raise ValueError(f"GPT2Config: {name} must be {bounds}, not {value!r}")
        for name in ("tie_word_embeddings", "bias"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"GPT2Config: {name} must be True or False, not {getattr(self, name)!r}")

    @property
    def inner_dim(self) -> int:
        """Number of features inside the feed-forward layers."""
        return 4 * self.n_embd if self.n_inner is None else self.n_inner


# The same but for its errors.
GPT2Config.__init__ = explains_keywords(GPT2Config.__init__)  # type: ignore[method-assign]


class GPT2(BaseDecoder[TransformerBlock[Embed, Inner], LayerNorm[Embed]]):
    """A GPT-2 language model: tokens, (batch, time), to the hidden states that predict the next token of each.

    `model(tokens)` gives the states after the last norm, (batch, time, n_embd), `model.logits(tokens)` the logits,
    (batch, time, vocab_size). `model.loss(tokens, targets)` is the mean cross-entropy and never materializes all
    logits. Weights start normal with a standard deviation of 0.02, divided by `sqrt(2 * n_layer)` in the layers that
    add to the residual stream. `wy.nn.gpt2_axes` has the names of the parameters' axes. `seed` is that of dropout. With
    `checkpoint`, the backward pass recomputes each block, which takes less memory and more time: see `wy.checkpoint`.

    >>> model = GPT2(GPT2Config(vocab_size=100, n_positions=16, n_embd=8, n_layer=2, n_head=2))
    >>> model.logits(wy.IndexInput(dims=(3, 5))).shape
    (3, 5, 100)
    """

    def __init__(
        self, config: GPT2Config, *, seed: int = 0, checkpoint: bool = False, dtype: DTypeLike = np.float32
    ) -> None:
        if not isinstance(config, GPT2Config):
            raise DTypeError(
                f"GPT2 takes a configuration, as in wy.nn.GPT2(wy.nn.GPT2Config(n_layer=2)), not {config!r}"
            )
        self.config = config
        self.checkpoint: bool = checkpoint
        weight, residual = Normal(0.02), Normal(0.02 / (2 * config.n_layer) ** 0.5)
        vocabulary, embed, inner = Vocabulary(config.vocab_size), Embed(config.n_embd), Inner(config.inner_dim)
        self.tokens: Embedding[Vocabulary, Embed] = Embedding(vocabulary, embed, initializer=weight, dtype=dtype)
        self.positions: Embedding[Positions, Embed] = Embedding(
            Positions(config.n_positions), embed, initializer=weight, dtype=dtype
        )
        self.dropout: Dropout = Dropout(config.embd_pdrop, seed)
        self.blocks: list[TransformerBlock[Embed, Inner]] = [
            TransformerBlock(
                embed, inner, Heads(config.n_head), dropout=config.resid_pdrop,
                attention_dropout=config.attn_pdrop, bias=config.bias, epsilon=config.layer_norm_epsilon,
                initializer=weight, output_initializer=residual, dropout_seed=seed, dtype=dtype,
            )
            for _ in range(config.n_layer)
        ]  # fmt: skip
        self.norm: LayerNorm[Embed] = LayerNorm(embed, config.layer_norm_epsilon, config.bias, dtype=dtype)
        self.head: Parameter | None = None
        if not config.tie_word_embeddings:
            self.head = Embedding(vocabulary, embed, initializer=weight, dtype=dtype).weight

    @property
    def _limit(self) -> tuple[str, int]:
        return "n_positions", self.config.n_positions

    def _embedded(self, tokens: IndexNode, past: Past | None) -> Any:
        if past is not None:
            return self.dropout(self.tokens(tokens) + self.positions(past.positions))
        return self.dropout(self.tokens.weight.embed(tokens, self.positions.weight))

    def save_pretrained(self, directory: str | os.PathLike[str]) -> None:
        """Write `config.json` and `model.safetensors` as the Hugging Face library reads them.

        Raise `CheckpointError` for a file that cannot be written.
        """
        from wyrm.io.hugging_face import save_pretrained

        save_pretrained(self, directory)

    @staticmethod
    def from_pretrained(directory: str | os.PathLike[str], *, dtype: DTypeLike = np.float32) -> GPT2:
        """Return the model that the Hugging Face library, or `save_pretrained`, wrote to a folder, in evaluation mode.

        As in that library, graphs of it have no dropout until `model.train()`. Weights in bfloat16 are read as float32,
        and weights that are divided over several files by their index.

        Raise `CheckpointError` for a file that is missing, damaged or of another model.
        """
        from wyrm.io.hugging_face import from_pretrained

        return from_pretrained(GPT2, GPT2Config, directory, dtype=dtype)

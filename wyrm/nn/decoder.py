"""A configurable language model: the decoder of Llama, Mistral, Qwen and Gemma.

Touvron et al., "LLaMA: open and efficient foundation language models" (2023).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError
from wyrm.graph.axes import Axis
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import DTypeLike
from wyrm.module import Module
from wyrm.nn.activation import Activation
from wyrm.nn.attention import MultiHeadAttention
from wyrm.nn.base_decoder import BaseDecoder
from wyrm.nn.decoder_config import DecoderConfig
from wyrm.nn.embedding import Embedding
from wyrm.nn.gpt2_axes import Embed, Heads, Inner, Vocabulary
from wyrm.nn.initializers import Normal
from wyrm.nn.normalization import RMSNorm
from wyrm.nn.past import Past
from wyrm.nn.rotary import RotaryEmbedding
from wyrm.nn.transformer import GatedFeedForward

if TYPE_CHECKING:
    from wyrm.io.gguf_files import GGUFType

B = TypeVar("B", bound=Axis)
T = TypeVar("T", bound=Axis)

_ACTIVATIONS = {
    "silu": Activation("silu"),
    "gelu": Activation("gelu"),
    "gelu_pytorch_tanh": Activation("gelu", approximate=True),
}


class DecoderBlock(Module):
    """A block: `x = x + attention(norm(x))`, then `x = x + feed_forward(norm(x))`, with `RMSNorm`.

    >>> config = wy.nn.DecoderConfig(hidden_size=8, intermediate_size=12, num_attention_heads=2)
    >>> DecoderBlock(config)(wy.Input(dims=(3, 5, 8))).shape
    (3, 5, 8)
    """

    def __init__(self, config: DecoderConfig, *, seed: int = 0, dtype: DTypeLike = np.float32) -> None:
        embed, inner = Embed(config.hidden_size), Inner(config.intermediate_size)
        centered, epsilon = config.zero_centered_norms, config.rms_norm_eps
        weight, residual = Normal(0.02), Normal(0.02 / (2 * config.num_hidden_layers) ** 0.5)
        self.attention_norm: RMSNorm[Embed] = RMSNorm(embed, epsilon, zero_centered=centered, dtype=dtype)
        self.attention: MultiHeadAttention[Embed] = MultiHeadAttention(
            embed, Heads(config.num_attention_heads), num_key_value_heads=config.heads_of_keys,
            head_dim=config.features_of_head, rotary=RotaryEmbedding(config.rope_theta, config.rope_scaling),
            window=config.sliding_window, qk_norm=config.qk_norm, norm_epsilon=epsilon,
            dropout=config.attention_dropout, bias=config.attention_bias, output_bias=config.has_output_bias,
            initializer=weight, output_initializer=residual, dropout_seed=seed, dtype=dtype,
        )  # fmt: skip
        self.feed_forward_norm: RMSNorm[Embed] = RMSNorm(embed, epsilon, zero_centered=centered, dtype=dtype)
        self.feed_forward: GatedFeedForward[Embed, Inner] = GatedFeedForward(
            embed, inner, activation=_ACTIVATIONS[config.hidden_act], bias=config.mlp_bias, initializer=weight,
            output_initializer=residual, dtype=dtype,
        )  # fmt: skip

    def __call__(self, x: Tensor[B, T, Embed], *, past: Past | None = None) -> Tensor[B, T, Embed]:
        """Return the result of the block, of the axes of `x`; `past` is that of `MultiHeadAttention`."""
        middle: Tensor[B, T, Embed] = x + self.attention(self.attention_norm(x), past=past)
        result: Tensor[B, T, Embed] = middle + self.feed_forward(self.feed_forward_norm(middle))
        return result


class Decoder(BaseDecoder[DecoderBlock, RMSNorm[Embed]]):
    """A language model as Llama, Mistral, Qwen and Gemma: tokens, (batch, time), to the states that predict the next.

    `model(tokens)` gives the states after the last norm, (batch, time, hidden_size), `model.logits(tokens)` the logits,
    (batch, time, vocab_size). `model.loss(tokens, targets)` is the mean cross-entropy and never materializes all
    logits. Blocks have rotary positions, grouped heads, gated feed-forward layers and RMS norms. Weights start normal
    with a standard deviation of 0.02, divided by `sqrt(2 * num_hidden_layers)` in the layers that add to the residual
    stream. `wy.nn.gpt2_axes` has the names of the parameters' axes. `seed` is that of dropout. With `checkpoint`, the
    backward pass recomputes each block, which takes less memory and more time: see `wy.checkpoint`.

    Raise `DTypeError` for what is no configuration.

    >>> config = DecoderConfig(
    ...     vocab_size=100, hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4,
    ...     num_key_value_heads=2, max_position_embeddings=16,
    ... )
    >>> model = Decoder(config)
    >>> model.logits(wy.IndexInput(dims=(3, 5))).shape
    (3, 5, 100)
    >>> len(list(wy.nn.generate(model, [1, 2], 6)))
    6
    """

    def __init__(
        self, config: DecoderConfig, *, seed: int = 0, checkpoint: bool = False, dtype: DTypeLike = np.float32
    ) -> None:
        if not isinstance(config, DecoderConfig):
            raise DTypeError(
                f"Decoder takes a configuration, as in wy.nn.Decoder(wy.nn.DecoderConfig(hidden_size=64)), not "
                f"{config!r}"
            )
        self.config = config
        self.checkpoint: bool = checkpoint
        vocabulary, embed, weight = Vocabulary(config.vocab_size), Embed(config.hidden_size), Normal(0.02)
        self.tokens: Embedding[Vocabulary, Embed] = Embedding(vocabulary, embed, initializer=weight, dtype=dtype)
        self.blocks: list[DecoderBlock] = [
            DecoderBlock(config, seed=seed, dtype=dtype) for _ in range(config.num_hidden_layers)
        ]
        self.norm: RMSNorm[Embed] = RMSNorm(
            embed, config.rms_norm_eps, zero_centered=config.zero_centered_norms, dtype=dtype
        )
        self.head: Parameter | None = None
        if not config.tie_word_embeddings:
            self.head = Embedding(vocabulary, embed, initializer=weight, dtype=dtype).weight

    @property
    def _limit(self) -> tuple[str, int]:
        return "max_position_embeddings", self.config.max_position_embeddings

    def _embedded(self, tokens: IndexNode, past: Past | None) -> Any:
        embedded: Node = self.tokens(tokens)
        return embedded if self.config.embedding_scale == 1.0 else embedded * self.config.embedding_scale

    def save_pretrained(self, directory: str | os.PathLike[str]) -> None:
        """Write `config.json` and `model.safetensors` as transformers reads them.

        The family in the file, "llama", "mistral", "qwen2", "qwen3" or "gemma", is one that has these options. Raise
        `CheckpointError` for a file that cannot be written, and where no family has them.
        """
        from wyrm.io.decoder_files import save_pretrained

        save_pretrained(self, directory)

    def save_gguf(self, path: str | os.PathLike[str], storage: GGUFType = "float32") -> None:
        """Write a GGUF file without a tokenizer, which llama.cpp reads; it needs the package `gguf`.

        Matrices have the type `storage`: "float32", "bfloat16", or integers of 8 or 4 bits with a factor for each
        block of 32, "q8_0" or "q4_0". Raise `CheckpointError` for a file that cannot be written, and for options and
        sizes that the format does not have, `OptionError` without the package.
        """
        from wyrm.io.gguf_files import save_gguf

        save_gguf(self, path, storage)

    @staticmethod
    def from_gguf(path: str | os.PathLike[str], *, dtype: DTypeLike = np.float32) -> Decoder:
        """Return the model in a GGUF file, in evaluation mode; it needs the package `gguf`.

        The architecture is "llama", which Mistral has too, "qwen2", "qwen3" or "gemma". Numbers of all types are
        widened; `model.quantize` makes them narrow again. Raise `CheckpointError` for a file that is missing, damaged
        or of another model, `OptionError` without the package.
        """
        from wyrm.io.gguf_files import from_gguf

        return from_gguf(Decoder, DecoderConfig, path, dtype=dtype)

    @staticmethod
    def from_pretrained(directory: str | os.PathLike[str], *, dtype: DTypeLike = np.float32) -> Decoder:
        """Return the model that transformers, or `save_pretrained`, wrote to a folder, in evaluation mode.

        The model type is "llama", "mistral", "qwen2", "qwen3" or "gemma". Weights in bfloat16 are read as `dtype`, and
        weights that are divided over several files by their index.

        Raise `CheckpointError` for a file that is missing, damaged or of another model, and for an option that
        `Decoder` does not have.
        """
        from wyrm.io.decoder_files import from_pretrained

        return from_pretrained(Decoder, DecoderConfig, directory, dtype=dtype)

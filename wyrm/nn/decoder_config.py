"""The sizes and options of a `Decoder`, in the names of transformers' Llama configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wyrm.errors import DTypeError
from wyrm.nn.rotary import checked_scaling
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import whole

# The activations of feed-forward layers; the last is the approximate GELU.
ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh")
_SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings", "sliding_window",
)  # fmt: skip
_FLAGS = (
    "attention_bias", "attention_output_bias", "mlp_bias", "tie_word_embeddings", "qk_norm", "zero_centered_norms",
)  # fmt: skip


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes and options of a `Decoder`, with the field names and defaults of the Llama of transformers.

    The defaults are those of a model with 7 billion parameters: give sizes of your own.

    - `vocab_size`: number of tokens. `max_position_embeddings`: longest sequence.
    - `hidden_size`: features of a token. `intermediate_size`: features inside the feed-forward layers.
      `num_hidden_layers`: blocks. `hidden_act`: "silu", "gelu" or "gelu_pytorch_tanh", the approximate GELU.
    - `num_attention_heads`: heads of the queries. `num_key_value_heads`: those of keys and values, a divisor of it, by
      default as many. `head_dim`: features of a head, `hidden_size / num_attention_heads` by default.
    - `rms_norm_eps`: in [1e-30, 1]. `rope_theta` and `rope_scaling`: those of `wy.nn.RotaryEmbedding`, whose planes are
      halves: features i and i + head_dim / 2.
    - `sliding_window`: the positions that one attends to, up to its own; all by default.
    - `attention_bias`: whether the projections to queries, keys and values have biases. `attention_output_bias`:
      whether the projection of the results has one, by default as `attention_bias`; Qwen 2 has the first alone.
      `mlp_bias`: whether feed-forward layers have biases. `attention_dropout`: the rate in [0, 1) for attention weights
      in training.
    - `tie_word_embeddings`: whether the output layer shares its weight with the token embedding.
    - `qk_norm`: whether queries and keys are normalized over the features of a head, as in Qwen 3.
    - `embedding_scale`: multiplies the embeddings, by `sqrt(hidden_size)` in Gemma. `zero_centered_norms`: whether the
      factor of norms is `1 + weight`, as in Gemma.

    Raise `ValueError` for a value of another type or outside its range.

    >>> DecoderConfig(hidden_size=64, num_attention_heads=4).features_of_head
    16
    """

    vocab_size: int = 32000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    max_position_embeddings: int = 2048
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    rope_scaling: Mapping[str, Any] | None = None
    sliding_window: int | None = None
    attention_bias: bool = False
    attention_output_bias: bool | None = None
    attention_dropout: float = 0.0
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    qk_norm: bool = False
    embedding_scale: float = 1.0
    zero_centered_norms: bool = False

    def __post_init__(self) -> None:
        for name in _SIZES:
            value = getattr(self, name)
            if value is None and name in ("num_key_value_heads", "head_dim", "sliding_window"):
                continue
            try:
                # The configuration is frozen.
                object.__setattr__(self, name, whole(f"DecoderConfig: {name}", value, 1))
            except DTypeError as error:
                raise ValueError(str(error)) from None
        if self.head_dim is None and self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"DecoderConfig: hidden_size {self.hidden_size} is not divisible by num_attention_heads "
                f"{self.num_attention_heads}; give head_dim"
            )
        if self.features_of_head % 2:
            raise ValueError(f"DecoderConfig: rotations need an even head_dim, not {self.features_of_head}")
        if self.num_attention_heads % self.heads_of_keys:
            raise ValueError(
                f"DecoderConfig: num_attention_heads {self.num_attention_heads} is not divisible by "
                f"num_key_value_heads {self.num_key_value_heads}"
            )
        # With an epsilon of 0, zeros are divided by 0; above 1, the numbers hardly matter.
        self._check_number("rms_norm_eps", 1e-30, 1.0, "a number in [1e-30, 1]")
        self._check_number("attention_dropout", 0.0, float(np.nextafter(1.0, 0.0)), "a number in [0, 1)")
        for name in ("rope_theta", "embedding_scale"):
            self._check_number(name, float(np.nextafter(0.0, 1.0)), float(np.finfo(np.float64).max), "a number above 0")
        for name in _FLAGS:
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_) and not (value is None and name == "attention_output_bias"):
                raise ValueError(f"DecoderConfig: {name} must be True or False, not {value!r}")
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(
                f"DecoderConfig: hidden_act must be one of {', '.join(map(repr, ACTIVATIONS))}, not {self.hidden_act!r}"
            )
        try:
            object.__setattr__(self, "rope_scaling", checked_scaling(self.rope_scaling))
        except DTypeError as error:
            raise ValueError(str(error)) from None

    def _check_number(self, name: str, low: float, high: float, bounds: str) -> None:
        value = getattr(self, name)
        numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not numeric or not low <= value <= high:
            raise ValueError(f"DecoderConfig: {name} must be {bounds}, not {value!r}")

    @property
    def features_of_head(self) -> int:
        """Number of features of a head."""
        return self.hidden_size // self.num_attention_heads if self.head_dim is None else self.head_dim

    @property
    def heads_of_keys(self) -> int:
        """Number of heads of keys and values."""
        return self.num_attention_heads if self.num_key_value_heads is None else self.num_key_value_heads

    @property
    def has_output_bias(self) -> bool:
        """Whether the projection of the results of attention has a bias."""
        return self.attention_bias if self.attention_output_bias is None else self.attention_output_bias


# The same but for its errors.
DecoderConfig.__init__ = explains_keywords(DecoderConfig.__init__)  # type: ignore[method-assign]

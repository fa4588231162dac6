"""Every layer of `wy.nn`: values and gradients in float32, the same in all engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.parity import assert_parity

nn = wy.nn
_random = np.random.default_rng(5)


def numbers(*shape: int) -> Any:
    """Return a parameter, so that there is a gradient with respect to the input too."""
    return wy.Parameter(_random.standard_normal(shape).astype(np.float32), name="x")


def tokens(*shape: int) -> Any:
    return wy.IndexConstant(_random.integers(0, 6, shape))


LINE, IMAGE, VOLUME = (2, 4, 9), (2, 4, 6, 7), (2, 2, 4, 5, 4)
# A layer of each class, called with inputs; families share a program.
FAMILIES: dict[str, dict[str, Callable[[], Any]]] = {
    "feed-forward": {
        "Linear": lambda: nn.Linear(4, 3)(numbers(5, 4)),
        "Activation": lambda: nn.Activation("gelu")(numbers(5, 4)),
        "Pointwise": lambda: nn.Sequential(nn.Linear(4, 3), nn.Activation("silu"))(numbers(5, 4)),
        "PReLU": lambda: nn.PReLU(4)(numbers(5, 4)),
        "GLU": lambda: nn.GLU()(numbers(5, 4)),
        "GatedFeedForward": lambda: nn.GatedFeedForward(4, 6)(numbers(5, 4)),
        "FeedForward": lambda: nn.FeedForward(4, 6)(numbers(5, 4)),
        "Flatten": lambda: nn.Flatten()(numbers(2, 3, 4)),
        "EWMA": lambda: nn.EWMA(4)(numbers(2, 7, 4)),
    },
    "normalization": {
        "LayerNorm": lambda: nn.LayerNorm(4)(numbers(5, 4)),
        "RMSNorm": lambda: nn.RMSNorm(4)(numbers(5, 4)),
        "GroupNorm": lambda: nn.GroupNorm(2, 4)(numbers(*IMAGE)),
        "InstanceNorm": lambda: nn.InstanceNorm(4)(numbers(*IMAGE)),
        "BatchNorm": lambda: nn.BatchNorm(4)(numbers(6, 4)),
        "BatchNorm1d": lambda: nn.BatchNorm1d(4)(numbers(6, 4)),
        "BatchNorm2d": lambda: nn.BatchNorm2d(4)(numbers(*IMAGE)),
        "BatchNorm3d": lambda: nn.BatchNorm3d(4)(numbers(3, 4, 2, 3, 2)),
        "InstanceNorm1d": lambda: nn.InstanceNorm1d(4)(numbers(3, 4, 6)),
        "InstanceNorm2d": lambda: nn.InstanceNorm2d(4)(numbers(*IMAGE)),
        "InstanceNorm3d": lambda: nn.InstanceNorm3d(4)(numbers(3, 4, 2, 3, 2)),
        "LayerNorm, several axes": lambda: nn.LayerNorm((3, 4))(numbers(6, 3, 4)),
        "BatchNorm, evaluation": lambda: nn.BatchNorm(4).eval()(numbers(6, 4)),
    },
    "dropout": {
        "Dropout": lambda: nn.Dropout(0.4)(numbers(5, 4)),
        "Dropout1d": lambda: nn.Dropout1d(0.4)(numbers(*LINE)),
        "Dropout2d": lambda: nn.Dropout2d(0.4)(numbers(*IMAGE)),
        "Dropout3d": lambda: nn.Dropout3d(0.4)(numbers(*VOLUME)),
    },
    "embedding": {
        "Embedding": lambda: nn.Embedding(6, 4)(tokens(2, 5)),
        "EmbeddingBag": lambda: nn.EmbeddingBag(6, 4)(tokens(2, 5)),
        "LearnedPositionalEncoding": lambda: nn.LearnedPositionalEncoding(8, 4)(numbers(2, 5, 4)),
        "SinusoidalPositionalEncoding": lambda: nn.SinusoidalPositionalEncoding()(numbers(2, 5, 4)),
    },
    "convolution": {
        "Conv1d": lambda: nn.Conv1d(4, 3, 3, stride=2, padding=1)(numbers(*LINE)),
        "Conv2d": lambda: nn.Conv2d(4, 6, 3, padding="same", groups=2)(numbers(*IMAGE)),
        "Conv3d": lambda: nn.Conv3d(2, 3, 2, dilation=2)(numbers(*VOLUME)),
        "ConvTranspose1d": lambda: nn.ConvTranspose1d(4, 3, 3, stride=2)(numbers(*LINE)),
        "ConvTranspose2d": lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1)(numbers(*IMAGE)),
        "ConvTranspose3d": lambda: nn.ConvTranspose3d(2, 3, 2)(numbers(*VOLUME)),
    },
    "pooling": {
        "MaxPool1d": lambda: nn.MaxPool1d(3, 2, padding=1)(numbers(*LINE)),
        "MaxPool2d": lambda: nn.MaxPool2d(2)(numbers(*IMAGE)),
        "MaxPool3d": lambda: nn.MaxPool3d(2, 1)(numbers(*VOLUME)),
        "AvgPool1d": lambda: nn.AvgPool1d(3, 2, padding=1)(numbers(*LINE)),
        "AvgPool2d": lambda: nn.AvgPool2d(2)(numbers(*IMAGE)),
        "AvgPool3d": lambda: nn.AvgPool3d(2, 1)(numbers(*VOLUME)),
        "AdaptiveMaxPool1d": lambda: nn.AdaptiveMaxPool1d(4)(numbers(*LINE)),
        "AdaptiveMaxPool2d": lambda: nn.AdaptiveMaxPool2d((1, 3))(numbers(*IMAGE)),
        "AdaptiveMaxPool3d": lambda: nn.AdaptiveMaxPool3d(2)(numbers(*VOLUME)),
        "AdaptiveAvgPool1d": lambda: nn.AdaptiveAvgPool1d(1)(numbers(*LINE)),
        "AdaptiveAvgPool2d": lambda: nn.AdaptiveAvgPool2d((1, 3))(numbers(*IMAGE)),
        "AdaptiveAvgPool3d": lambda: nn.AdaptiveAvgPool3d(2)(numbers(*VOLUME)),
        "Upsample": lambda: nn.Upsample(scale_factor=2, mode="bilinear")(numbers(*IMAGE)),
        "Upsample, nearest": lambda: nn.Upsample((9, 8))(numbers(*IMAGE)),
    },
    "recurrent": {
        "Recurrent": lambda: nn.Recurrent(lambda s, x: (s * x, s + x))(numbers(2, 5, 4), numbers(2, 4)).sequence,
        "LSTM": lambda: nn.LSTM(4, 3)(numbers(2, 5, 4)).sequence,
        "LSTMCell": lambda: nn.LSTMCell(4, 3)(numbers(2, 4)).hidden,
        "GRU": lambda: nn.GRU(4, 3)(numbers(2, 5, 4)).sequence,
        "GRUCell": lambda: nn.GRUCell(4, 3)(numbers(2, 4)),
        "StackedLSTM": lambda: nn.StackedLSTM(4, 3, 2, bidirectional=True)(numbers(2, 5, 4)).sequence,
        "StackedGRU": lambda: nn.StackedGRU(4, 3, 2)(numbers(2, 5, 4)).sequence,
    },
    "attention": {
        "MultiHeadAttention": lambda: nn.MultiHeadAttention(8, 2)(numbers(2, 5, 8)),
        "MultiHeadAttention, rotary": lambda: nn.MultiHeadAttention(
            8, 4, num_key_value_heads=2, rotary=True, causal=False
        )(numbers(2, 5, 8)),
        "MultiHeadAttention, dropout": lambda: nn.MultiHeadAttention(8, 2, alibi=True, dropout=0.3)(numbers(2, 5, 8)),
        "MultiHeadAttention, windowed": lambda: nn.MultiHeadAttention(
            8, 4, num_key_value_heads=2, head_dim=6, rotary=nn.RotaryEmbedding(50.0), qk_norm=True, window=3
        )(numbers(2, 5, 8)),
        "RotaryEmbedding": lambda: nn.RotaryEmbedding()(numbers(2, 5, 2, 4)),
        "RotaryEmbedding, pairs": lambda: nn.RotaryEmbedding(layout=nn.Pair)(numbers(2, 5, 2, 4)),
        "TransformerBlock": lambda: nn.TransformerBlock(8, 12, 2)(numbers(2, 5, 8)),
    },
    "Decoder": {
        "Decoder": lambda: nn.Decoder(
            nn.DecoderConfig(
                vocab_size=6,
                hidden_size=8,
                intermediate_size=12,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=8,
                sliding_window=3,
            )
        ).logits(tokens(2, 5)),
    },
    "GPT2": {
        "GPT2": lambda: nn.GPT2(nn.GPT2Config(vocab_size=6, n_positions=8, n_embd=8, n_layer=2, n_head=2)).eval()(
            tokens(2, 5)
        ),
    },
}


@pytest.mark.parametrize("family", FAMILIES)
def test_layers(family: str) -> None:
    nn.seed(0)
    assert_parity({name: build() for name, build in FAMILIES[family].items()}, 2e-5)


def test_every_layer_is_in_a_family() -> None:
    tested = {name.partition(",")[0] for layers in FAMILIES.values() for name in layers}
    classes = {name for name in nn.__all__ if isinstance(public := getattr(nn, name), type) and callable(public)}
    # Bases, parts of layers, records of results, and what generates text.
    others = {
        "AdaptedLinear",  # tested with `LoRA`
        "CachedDecoder",
        "DecoderConfig",
        "GPT2Config",
        "GRUOutput",
        "Half",
        "LSTMOutput",
        "LoRA",
        "LSTMState",
        "Layer",
        "Module",
        "Pair",
        "RotaryWeights",
        "Sequential",
    }
    assert classes - others - {"Past", "RecurrentOutput", "StackedOutput"} <= tested

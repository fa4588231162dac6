"""Modules: classes that hold parameters and build their part of a graph when they are called."""

from typing import TYPE_CHECKING

from wyrm import _later

if TYPE_CHECKING:
    from wyrm.nn import initializers
    from wyrm.nn.activation import Activation, gelu, relu, sigmoid, silu, softplus, tanh
    from wyrm.nn.attention import MultiHeadAttention
    from wyrm.nn.batch_normalization import BatchNorm
    from wyrm.nn.dropout import Dropout
    from wyrm.nn.embedding import Embedding
    from wyrm.nn.gpt2 import GPT2, GPT2Config
    from wyrm.nn.layer import Layer, Pointwise, Sequential
    from wyrm.nn.linear import Linear
    from wyrm.nn.module import Module
    from wyrm.nn.moving_average import EWMA
    from wyrm.nn.normalization import LayerNorm, RMSNorm
    from wyrm.nn.positions import LearnedPositions, SinusoidalPositions, rotated
    from wyrm.nn.recurrent import LSTM, LSTMCell, LSTMOutput, LSTMState
    from wyrm.nn.seeding import seed
    from wyrm.nn.token_sampling import choose
    from wyrm.nn.transformer import FeedForward, TransformerBlock

# What each module gives: they are imported when they are first used, for `import wyrm` needs no more than `Module`.
_NAMES = {
    "initializers": ("initializers",),
    "activation": (
        "Activation",
        "gelu",
        "relu",
        "sigmoid",
        "silu",
        "softplus",
        "tanh",
    ),
    "attention": ("MultiHeadAttention",),
    "batch_normalization": ("BatchNorm",),
    "token_sampling": ("choose",),
    "dropout": ("Dropout",),
    "embedding": ("Embedding",),
    "gpt2": (
        "GPT2",
        "GPT2Config",
    ),
    "layer": (
        "Layer",
        "Pointwise",
        "Sequential",
    ),
    "linear": ("Linear",),
    "module": ("Module",),
    "moving_average": ("EWMA",),
    "normalization": (
        "LayerNorm",
        "RMSNorm",
    ),
    "positions": (
        "LearnedPositions",
        "SinusoidalPositions",
        "rotated",
    ),
    "recurrent": (
        "LSTM",
        "LSTMCell",
        "LSTMOutput",
        "LSTMState",
    ),
    "seeding": ("seed",),
    "transformer": (
        "FeedForward",
        "TransformerBlock",
    ),
}

if not TYPE_CHECKING:  # a module with `__getattr__` has every name, as far as the type checker can tell
    __getattr__, __dir__ = _later.later(
        __name__, {name: module for module, names in _NAMES.items() for name in (module, *names)}
    )

__all__ = [  # noqa: RUF022  # in the order of `sorted`, as a test expects
    "Activation",
    "BatchNorm",
    "Dropout",
    "EWMA",
    "Embedding",
    "FeedForward",
    "GPT2",
    "GPT2Config",
    "LSTM",
    "LSTMCell",
    "LSTMOutput",
    "LSTMState",
    "Layer",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "Module",
    "MultiHeadAttention",
    "Pointwise",
    "RMSNorm",
    "Sequential",
    "SinusoidalPositions",
    "TransformerBlock",
    "choose",
    "gelu",
    "initializers",
    "relu",
    "rotated",
    "seed",
    "sigmoid",
    "silu",
    "softplus",
    "tanh",
]

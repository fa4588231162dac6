"""Modules: classes that hold parameters and build a part of a graph when they are called.

>>> layer = wy.nn.Linear(3, 2) >> wy.nn.relu
>>> layer(wy.Input(dims=(5, 3))).shape
(5, 2)
"""

from typing import TYPE_CHECKING

from wyrm import _lazy_imports

if TYPE_CHECKING:
    from wyrm.nn import initializers
    from wyrm.nn.activation import (
        Activation,
        celu,
        elu,
        gelu,
        hardsigmoid,
        hardswish,
        hardtanh,
        leaky_relu,
        log_sigmoid,
        mish,
        relu,
        relu6,
        selu,
        sigmoid,
        silu,
        softplus,
        softsign,
        tanh,
    )
    from wyrm.nn.activation_layers import GLU, GatedFeedForward, PReLU, geglu, glu, reglu, swiglu
    from wyrm.nn.attention import MultiHeadAttention
    from wyrm.nn.batch_normalization import BatchNorm
    from wyrm.nn.dropout import Dropout
    from wyrm.nn.embedding import Embedding
    from wyrm.nn.embedding_bag import EmbeddingBag
    from wyrm.nn.gated_recurrent import GRU, GRUCell, GRUOutput
    from wyrm.nn.generation import CachedDecoder, generate
    from wyrm.nn.gpt2 import GPT2, GPT2Config
    from wyrm.nn.layer import Layer, Pointwise, Sequential
    from wyrm.nn.linear import Linear
    from wyrm.nn.lstm_state import LSTMOutput, LSTMState
    from wyrm.nn.module import Module
    from wyrm.nn.moving_average import EWMA, ewma
    from wyrm.nn.normalization import LayerNorm, RMSNorm
    from wyrm.nn.positional_encoding import LearnedPositionalEncoding, SinusoidalPositionalEncoding, rotary_embedding
    from wyrm.nn.recurrent import LSTM, LSTMCell
    from wyrm.nn.recurrent_stack import StackedGRU, StackedLSTM, StackedOutput
    from wyrm.nn.seeding import seed
    from wyrm.nn.token_sampling import sample_tokens
    from wyrm.nn.transformer import FeedForward, TransformerBlock

# The public names of each file. A file is imported on first use: `import wyrm` needs only `Module`.
_NAMES = {
    "initializers": ("initializers",),
    "activation": (
        "Activation",
        "celu",
        "elu",
        "gelu",
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "leaky_relu",
        "log_sigmoid",
        "mish",
        "relu",
        "relu6",
        "selu",
        "sigmoid",
        "silu",
        "softplus",
        "softsign",
        "tanh",
    ),
    "activation_layers": ("GLU", "GatedFeedForward", "PReLU", "geglu", "glu", "reglu", "swiglu"),
    "attention": ("MultiHeadAttention",),
    "batch_normalization": ("BatchNorm",),
    "dropout": ("Dropout",),
    "embedding": ("Embedding",),
    "embedding_bag": ("EmbeddingBag",),
    "gated_recurrent": ("GRU", "GRUCell", "GRUOutput"),
    "generation": (
        "CachedDecoder",
        "generate",
    ),
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
    "lstm_state": (
        "LSTMOutput",
        "LSTMState",
    ),
    "module": ("Module",),
    "moving_average": ("EWMA", "ewma"),
    "normalization": (
        "LayerNorm",
        "RMSNorm",
    ),
    "positional_encoding": (
        "LearnedPositionalEncoding",
        "SinusoidalPositionalEncoding",
        "rotary_embedding",
    ),
    "recurrent": (
        "LSTM",
        "LSTMCell",
    ),
    "recurrent_stack": ("StackedGRU", "StackedLSTM", "StackedOutput"),
    "seeding": ("seed",),
    "token_sampling": ("sample_tokens",),
    "transformer": (
        "FeedForward",
        "TransformerBlock",
    ),
}

if not TYPE_CHECKING:  # to a type checker, a module with `__getattr__` has every name
    __getattr__, __dir__ = _lazy_imports.lazy_imports(
        __name__, {name: module for module, names in _NAMES.items() for name in (module, *names)}
    )

__all__ = [  # noqa: RUF022  # in the order of `sorted`, as a test expects
    "Activation",
    "BatchNorm",
    "CachedDecoder",
    "Dropout",
    "EWMA",
    "Embedding",
    "EmbeddingBag",
    "FeedForward",
    "GLU",
    "GPT2",
    "GPT2Config",
    "GRU",
    "GRUCell",
    "GRUOutput",
    "GatedFeedForward",
    "LSTM",
    "LSTMCell",
    "LSTMOutput",
    "LSTMState",
    "Layer",
    "LayerNorm",
    "LearnedPositionalEncoding",
    "Linear",
    "Module",
    "MultiHeadAttention",
    "PReLU",
    "Pointwise",
    "RMSNorm",
    "Sequential",
    "SinusoidalPositionalEncoding",
    "StackedGRU",
    "StackedLSTM",
    "StackedOutput",
    "TransformerBlock",
    "celu",
    "elu",
    "ewma",
    "geglu",
    "gelu",
    "generate",
    "glu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "initializers",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "reglu",
    "relu",
    "relu6",
    "rotary_embedding",
    "sample_tokens",
    "seed",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
    "swiglu",
    "tanh",
]

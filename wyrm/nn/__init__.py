"""Modules: classes that hold parameters and build a part of a graph when they are called.

>>> layer = wy.nn.Linear(3, 2) >> wy.nn.relu
>>> layer(wy.Input(dims=(5, 3))).shape
(5, 2)

- Layers: `Linear`, `Embedding`, `EmbeddingBag`; `Conv1d` to `Conv3d` and their transposed forms, pooling, `Upsample`.
- Normalization and dropout: `BatchNorm`, `LayerNorm`, `RMSNorm`, `GroupNorm`, `InstanceNorm`, `Dropout`, `Dropout2d`.
- Sequences: `LSTM`, `GRU`, `StackedLSTM` and `StackedGRU` (also bidirectional), `EWMA`.
- Transformers: `MultiHeadAttention`, `TransformerBlock`, `GPT2`, `generate`.
- Activations as functions, `GLU` and its variants, and `initializers`.

A class of your own derives from `Module`. `seed` makes what is built after it repeatable: weights and random nodes.
"""

from typing import TYPE_CHECKING

from wyrm.support import late_imports as _lazy_imports

if TYPE_CHECKING:
    from wyrm.nn import gpt2_axes, initializers
    from wyrm.nn.activation import (
        GLU,
        Activation,
        GatedFeedForward,
        PReLU,
        celu,
        elu,
        geglu,
        gelu,
        glu,
        hardsigmoid,
        hardswish,
        hardtanh,
        leaky_relu,
        log_sigmoid,
        mish,
        reglu,
        relu,
        relu6,
        selu,
        sigmoid,
        silu,
        softplus,
        softsign,
        swiglu,
        tanh,
    )
    from wyrm.nn.attention import (
        LearnedPositionalEncoding,
        MultiHeadAttention,
        SinusoidalPositionalEncoding,
        rotary_embedding,
    )
    from wyrm.nn.convolution import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
    from wyrm.nn.convolution_layers import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
    from wyrm.nn.dropout import Dropout, Dropout1d, Dropout2d, Dropout3d
    from wyrm.nn.embedding import Embedding, EmbeddingBag
    from wyrm.nn.generation import CachedDecoder, generate, sample_tokens
    from wyrm.nn.gpt2 import GPT2, GPT2Config
    from wyrm.nn.layer import Flatten, Layer, Pointwise, Sequential
    from wyrm.nn.linear import Linear
    from wyrm.nn.module import Module
    from wyrm.nn.moving_average import EWMA, ewma
    from wyrm.nn.normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm, group_norm, instance_norm
    from wyrm.nn.pooling import (
        adaptive_avg_pool1d,
        adaptive_avg_pool2d,
        adaptive_avg_pool3d,
        adaptive_max_pool1d,
        adaptive_max_pool2d,
        adaptive_max_pool3d,
        avg_pool1d,
        avg_pool2d,
        avg_pool3d,
        max_pool1d,
        max_pool2d,
        max_pool3d,
    )
    from wyrm.nn.pooling_layers import (
        AdaptiveAvgPool1d,
        AdaptiveAvgPool2d,
        AdaptiveAvgPool3d,
        AdaptiveMaxPool1d,
        AdaptiveMaxPool2d,
        AdaptiveMaxPool3d,
        AvgPool1d,
        AvgPool2d,
        AvgPool3d,
        MaxPool1d,
        MaxPool2d,
        MaxPool3d,
    )
    from wyrm.nn.recurrent import GRU, LSTM, GRUCell, LSTMCell
    from wyrm.nn.recurrent_stack import StackedGRU, StackedLSTM
    from wyrm.nn.recurrent_states import GRUOutput, LSTMOutput, LSTMState, StackedOutput
    from wyrm.nn.seeding import seed
    from wyrm.nn.transformer import FeedForward, TransformerBlock
    from wyrm.nn.upsampling import Upsample, interpolate

# The public names of each file. A file is imported on first use: `import wyrm` needs only `Module`.
_NAMES = {
    "gpt2_axes": ("gpt2_axes",),
    "initializers": ("initializers",),
    "activation": (
        "Activation",
        "GLU",
        "GatedFeedForward",
        "PReLU",
        "celu",
        "elu",
        "geglu",
        "gelu",
        "glu",
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "leaky_relu",
        "log_sigmoid",
        "mish",
        "reglu",
        "relu",
        "relu6",
        "selu",
        "sigmoid",
        "silu",
        "softplus",
        "softsign",
        "swiglu",
        "tanh",
    ),
    "attention": (
        "LearnedPositionalEncoding",
        "MultiHeadAttention",
        "SinusoidalPositionalEncoding",
        "rotary_embedding",
    ),
    "convolution": (
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
    ),
    "convolution_layers": (
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "ConvTranspose3d",
    ),
    "dropout": (
        "Dropout",
        "Dropout1d",
        "Dropout2d",
        "Dropout3d",
    ),
    "embedding": (
        "Embedding",
        "EmbeddingBag",
    ),
    "generation": (
        "CachedDecoder",
        "generate",
        "sample_tokens",
    ),
    "gpt2": (
        "GPT2",
        "GPT2Config",
    ),
    "layer": (
        "Flatten",
        "Layer",
        "Pointwise",
        "Sequential",
    ),
    "linear": ("Linear",),
    "module": ("Module",),
    "moving_average": (
        "EWMA",
        "ewma",
    ),
    "normalization": (
        "BatchNorm",
        "GroupNorm",
        "InstanceNorm",
        "LayerNorm",
        "RMSNorm",
        "group_norm",
        "instance_norm",
    ),
    "pooling": (
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
        "adaptive_avg_pool3d",
        "adaptive_max_pool1d",
        "adaptive_max_pool2d",
        "adaptive_max_pool3d",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
    ),
    "pooling_layers": (
        "AdaptiveAvgPool1d",
        "AdaptiveAvgPool2d",
        "AdaptiveAvgPool3d",
        "AdaptiveMaxPool1d",
        "AdaptiveMaxPool2d",
        "AdaptiveMaxPool3d",
        "AvgPool1d",
        "AvgPool2d",
        "AvgPool3d",
        "MaxPool1d",
        "MaxPool2d",
        "MaxPool3d",
    ),
    "recurrent": (
        "GRU",
        "GRUCell",
        "LSTM",
        "LSTMCell",
    ),
    "recurrent_stack": (
        "StackedGRU",
        "StackedLSTM",
    ),
    "recurrent_states": (
        "GRUOutput",
        "LSTMOutput",
        "LSTMState",
        "StackedOutput",
    ),
    "seeding": ("seed",),
    "transformer": (
        "FeedForward",
        "TransformerBlock",
    ),
    "upsampling": (
        "Upsample",
        "interpolate",
    ),
}

if not TYPE_CHECKING:  # to a type checker, a module with `__getattr__` has every name
    __getattr__, __dir__ = _lazy_imports.lazy_imports(
        __name__, {name: module for module, names in _NAMES.items() for name in (module, *names)}
    )

__all__ = [  # noqa: RUF022  # in the order of `sorted`, as a test expects
    "Activation",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm",
    "CachedDecoder",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "EWMA",
    "Embedding",
    "EmbeddingBag",
    "FeedForward",
    "Flatten",
    "GLU",
    "GPT2",
    "GPT2Config",
    "GRU",
    "GRUCell",
    "GRUOutput",
    "GatedFeedForward",
    "GroupNorm",
    "InstanceNorm",
    "LSTM",
    "LSTMCell",
    "LSTMOutput",
    "LSTMState",
    "Layer",
    "LayerNorm",
    "LearnedPositionalEncoding",
    "Linear",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
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
    "Upsample",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "celu",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "elu",
    "ewma",
    "geglu",
    "gelu",
    "generate",
    "glu",
    "gpt2_axes",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "initializers",
    "instance_norm",
    "interpolate",
    "leaky_relu",
    "log_sigmoid",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
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

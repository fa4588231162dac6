"""Modules: classes that hold parameters and build their part of a graph when they are called."""

from wyrm.nn import initializers
from wyrm.nn.activation import Activation, gelu, relu, sigmoid, silu, softplus, tanh
from wyrm.nn.attention import MultiHeadAttention
from wyrm.nn.batch_normalization import BatchNorm
from wyrm.nn.choosing import choose
from wyrm.nn.dropout import Dropout
from wyrm.nn.embedding import Embedding
from wyrm.nn.gpt2 import GPT2, GPT2Config
from wyrm.nn.layer import Layer, Pointwise
from wyrm.nn.linear import Linear
from wyrm.nn.module import Module
from wyrm.nn.normalization import LayerNorm, RMSNorm
from wyrm.nn.positions import LearnedPositions, SinusoidalPositions, rotated
from wyrm.nn.recurrent import LSTM, LSTMCell, LSTMOutput, LSTMState
from wyrm.nn.seeding import seed
from wyrm.nn.transformer import FeedForward, TransformerBlock

__all__ = [  # noqa: RUF022  # in the order of `sorted`, as a test expects
    "Activation",
    "BatchNorm",
    "Dropout",
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

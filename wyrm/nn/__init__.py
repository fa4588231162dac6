"""Modules: classes that hold parameters and build a part of a graph when they are called.

>>> layer = wy.nn.Linear(3, 2) >> wy.nn.relu
>>> layer(wy.Input(dims=(5, 3))).shape
(5, 2)

- Layers: `Linear`, `Embedding`, `EmbeddingBag`; `Conv1d` to `Conv3d` and their transposed forms, pooling, `Upsample`.
- Normalization and dropout: `BatchNorm2d`, `LayerNorm`, `RMSNorm`, `GroupNorm`, `InstanceNorm2d`, `Dropout`.
- Sequences: `LSTM`, `GRU`, `StackedLSTM` and `StackedGRU` (also bidirectional), `Recurrent` of a
  step of your own, `EWMA`.
- Transformers: `MultiHeadAttention`, `TransformerBlock`, `GPT2`, `Decoder` as in Llama, `generate`, `generate_text`,
  `LoRA`.
- Activations as functions, `GLU` and its variants, and `initializers`.

A class of your own derives from `Module`. `seed` makes what is built after it repeatable: weights and random nodes.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "": "gpt2_axes initializers",
        "activation": (
            "GLU Activation PReLU celu elu geglu gelu glu hardsigmoid hardswish hardtanh leaky_relu log_sigmoid mish "
            "reglu relu relu6 selu sigmoid silu softplus softsign swiglu tanh"
        ),
        "attention": "LearnedPositionalEncoding MultiHeadAttention SinusoidalPositionalEncoding",
        "normalization": (
            "BatchNorm BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm InstanceNorm1d InstanceNorm2d "
            "InstanceNorm3d LayerNorm RMSNorm group_norm instance_norm"
        ),
        "convolution": (
            "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d conv1d conv2d conv3d "
            "conv_transpose1d conv_transpose2d conv_transpose3d"
        ),
        "decoder": "Decoder",
        "decoder_config": "DecoderConfig",
        "dropout": "Dropout Dropout1d Dropout2d Dropout3d",
        "embedding": "Embedding EmbeddingBag",
        "cached_decoder": "CachedDecoder",
        "gpt2": "GPT2 GPT2Config",
        "layer": "Flatten Layer Pointwise Sequential",
        "linear": "Linear",
        "lora": "AdaptedLinear LoRA",
        "wyrm.module": "Module",
        "moving_average": "EWMA ewma",
        "past": "Past",
        "pooling": (
            "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
            "AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d MaxPool1d MaxPool2d MaxPool3d adaptive_avg_pool1d "
            "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
            "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d"
        ),
        "recurrent": "GRU GRUCell LSTM LSTMCell StackedGRU StackedLSTM",
        "recurrent_cells": "Recurrent",
        "recurrent_states": "GRUOutput LSTMOutput LSTMState RecurrentOutput StackedOutput",
        "rotary": "RotaryEmbedding rotary_embedding",
        "wyrm.ops.attention.rotary_layouts": "Half Pair RotaryWeights",
        "wyrm.nn.texts.generation": "generate",
        "wyrm.nn.texts.sampling": "sample_tokens sampled_tokens",
        "seeding": "seed seeded",
        "wyrm.nn.texts.text_generation": "generate_text",
        "transformer": "FeedForward GatedFeedForward TransformerBlock",
        "upsampling": "Upsample interpolate",
    },
)

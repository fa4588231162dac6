"""Options of layers that no layer can have: sizes, words and keywords, refused when the layer is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError, ShapeError, WyrmError

NN: Any = wy.nn


class Empty(wy.Dim): ...


# Layers as functions of one of their sizes, by its name.
SIZES: dict[str, Callable[[Any], object]] = {
    "Linear: in_features": lambda n: NN.Linear(n, 4),
    "Linear: out_features": lambda n: NN.Linear(4, n),
    "Embedding: num_embeddings": lambda n: NN.Embedding(n, 4),
    "Embedding: embedding_dim": lambda n: NN.EmbeddingBag(4, n),
    "Conv1d: in_channels": lambda n: NN.Conv1d(n, 4, 3),
    "Conv2d: in_channels": lambda n: NN.Conv2d(n, 4, 3),
    "Conv2d: out_channels": lambda n: NN.Conv2d(4, n, 3),
    "ConvTranspose3d: out_channels": lambda n: NN.ConvTranspose3d(4, n, 3),
    "LSTM: input_size": lambda n: NN.LSTM(n, 4),
    "LSTMCell: hidden_size": lambda n: NN.LSTMCell(4, n),
    "GRU: input_size": lambda n: NN.StackedGRU(n, 4),
    "GRUCell: hidden_size": lambda n: NN.GRUCell(4, n),
    "StackedLSTM: hidden_size": lambda n: NN.StackedLSTM(4, n),
    "BatchNorm: features": NN.BatchNorm,
    "LayerNorm: features": NN.LayerNorm,
    "RMSNorm: features": NN.RMSNorm,
    "GroupNorm: num_channels": lambda n: NN.GroupNorm(1, n),
    "InstanceNorm: num_features": NN.InstanceNorm,
    "PReLU: features": NN.PReLU,
    "EWMA: features": NN.EWMA,
    "MultiHeadAttention: embed_dim": lambda n: NN.MultiHeadAttention(n, 2),
    "MultiHeadAttention: num_heads": lambda n: NN.MultiHeadAttention(4, n),
    "LearnedPositionalEncoding: num_positions": lambda n: NN.LearnedPositionalEncoding(n, 4),
}
# Layers as functions of a number that is no axis.
NUMBERS: dict[str, Callable[[Any], object]] = {
    "Conv2d: kernel_size": lambda n: NN.Conv2d(4, 4, n),
    "Conv2d: stride": lambda n: NN.Conv2d(4, 4, 3, n),
    "Conv2d: dilation": lambda n: NN.Conv2d(4, 4, 3, dilation=(1, n)),
    "Conv2d: groups": lambda n: NN.Conv2d(4, 4, 3, groups=n),
    "MaxPool1d: kernel_size": NN.MaxPool1d,
    "MaxPool2d: stride": lambda n: NN.MaxPool2d(2, stride=n),
    "AvgPool3d: kernel_size": NN.AvgPool3d,
    "AdaptiveAvgPool2d: output_size": NN.AdaptiveAvgPool2d,
    "Upsample: size": lambda n: NN.Upsample(size=n),
    "StackedGRU: num_layers": lambda n: NN.StackedGRU(4, 4, n),
    "GroupNorm: num_groups": lambda n: NN.GroupNorm(n, 4),
    "MultiHeadAttention: num_key_value_heads": lambda n: NN.MultiHeadAttention(4, 4, num_key_value_heads=n),
}


@pytest.mark.parametrize("name", [*SIZES, *NUMBERS])
def test_sizes_of_no_layer_are_refused_when_it_is_made(name: str) -> None:
    make = (SIZES | NUMBERS)[name]
    for size in (0, -3, *([Empty(0)] if name in SIZES else [])):
        with pytest.raises(ValueError, match=f"^{name}.* at least 1, not ") as error:
            make(size)
        assert isinstance(error.value, WyrmError)
    for size in (2.5, True, "4"):
        with pytest.raises(DTypeError, match=f"^{name} must be "):
            make(size)
    make(np.int16(4))


WORDS: dict[str, Callable[[], object]] = {
    "Conv2d: padding must be 'same', 'valid' or integers, not 'smae'; did you mean 'same'": (
        lambda: NN.Conv2d(4, 4, 3, padding="smae")
    ),
    "MaxPool2d: padding must be .* did you mean 'valid'": lambda: NN.MaxPool2d(2, padding="Valid"),
    "Upsample: mode must be .* did you mean 'bilinear'": lambda: NN.Upsample(2, mode="bilinar"),
    "EmbeddingBag: mode must be 'sum', 'mean' or 'max', not 'avg'$": lambda: NN.EmbeddingBag(4, 4, mode="avg"),
    "Activation: nodes have no method 'rleu'.* did you mean 'relu'": lambda: NN.Activation("rleu"),
    "Linear: initializer must be an initializer, .*, not 'zeros'": lambda: NN.Linear(2, 2, initializer="zeros"),
    r"Conv2d: bias_initializer .*wy\.nn\.initializers\.Zeros\(\), not": (
        lambda: NN.Conv2d(2, 2, 3, bias_initializer=NN.initializers.Zeros)
    ),
    r"FeedForward: activation must be .*wy\.nn\.Activation\('tanh'\)": lambda: NN.FeedForward(2, 4, activation="tanh"),
    "GLU: axis must be the number of an axis, not None": lambda: NN.GLU(axis=None),
    "standard_deviation must be a finite number of at least 0, not '1'": lambda: NN.initializers.Normal("1"),
    r"GPT2 takes a configuration, .*, not \{'n_layer': 2\}": lambda: NN.GPT2({"n_layer": 2}),
    "mse: reduction must be 'mean', 'sum' or 'none', not 'meen'; did you mean 'mean'": (
        lambda: wy.losses.mse(wy.Parameter([1.0]), wy.Constant([1.0]), reduction="meen")  # type: ignore[call-overload]
    ),
    # The mistake that mypy finds.
    "average must be .* did you mean 'macro'": (
        lambda: wy.metrics.f1([0, 1], [0, 1], average="marco")  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize("message", WORDS)
def test_a_misspelt_word_is_told_with_the_nearest(message: str) -> None:
    with pytest.raises((OptionError, DTypeError, wy.errors.DataError), match=message):
        WORDS[message]()


KEYWORDS: dict[str, Callable[[], object]] = {
    "StackedLSTM got an unexpected keyword argument 'layers'; did you mean 'num_layers'?": (
        lambda: NN.StackedLSTM(4, 4, layers=2)
    ),
    "Linear got an unexpected keyword argument 'bais'; did you mean 'bias'?": lambda: NN.Linear(4, 4, bais=False),
    "Conv2d got an unexpected keyword argument 'dilatoin'; did you mean 'dilation'?": (
        lambda: NN.Conv2d(4, 4, 3, dilatoin=2)
    ),
    "Adam got an unexpected keyword argument 'max_nrom'; did you mean 'max_norm'?": (
        lambda: wy.optim.Adam([wy.Parameter(1.0)], max_nrom=1.0)  # type: ignore[call-arg]
    ),
    "gelu got an unexpected keyword argument 'aproximate'; did you mean 'approximate'?": (
        lambda: wy.Parameter(1.0).gelu(aproximate=True)  # type: ignore[call-overload]
    ),
    "GPT2Config got an unexpected keyword argument 'n_layers'; did you mean 'n_layer'?": (
        lambda: NN.GPT2Config(n_layers=2)
    ),
    "BatchNorm got an unexpected keyword argument 'zzz'; it takes features, epsilon, momentum, axis, dtype": (
        lambda: NN.BatchNorm(4, zzz=1)
    ),
}


@pytest.mark.parametrize("message", KEYWORDS)
def test_an_unknown_keyword_is_told_with_the_nearest(message: str) -> None:
    with pytest.raises(TypeError) as error:
        KEYWORDS[message]()
    assert str(error.value) == message


class Channels(wy.Dim): ...


def test_a_named_axis_that_stands_elsewhere_is_refused() -> None:
    """The sizes are equal, so without the name the layer would take the wrong axis in silence."""
    channels = Channels(4)
    second, last = wy.Input(dims=(4, channels, 4, 4)), wy.Input(dims=(4, 4, 4, channels))
    for layer in (NN.LayerNorm(channels), NN.RMSNorm(channels), NN.Linear(channels, 3)):
        layer(last)
        with pytest.raises(ShapeError, match=r"^\w+: \w+, Channels\(4\), is axis 1 of input .*, not the last axis"):
            layer(second)
    for layer in (NN.GroupNorm(2, channels), NN.InstanceNorm(channels), NN.Conv2d(channels, 2, 3)):
        layer(second)
        with pytest.raises(
            ShapeError, match=r"^\w+: \w+, Channels\(4\), is axis 3 of input .*, not axis 1; the axes are"
        ):
            layer(last)
    for layer in (NN.InstanceNorm(channels), NN.GroupNorm(2, channels, affine=False)):
        with pytest.raises(ShapeError, match=r"axis 1 of .* is not num_\w+: 8 against Channels\(4\); the axes are"):
            layer(wy.Input(dims=(4, 8, 4, 4)))


STATE = wy.Input(dims=(2, 4), name="h0")
STATES: dict[str, Callable[[Any], object]] = {
    r"LSTM takes a state of two parts, wy.nn.LSTMState\(hidden, cell\), not h0 \(2, 4\)": (
        lambda x: NN.LSTM(3, 4)(x, STATE)
    ),
    r"LSTMCell takes a state of two parts, .*, not tuple of 1": lambda x: NN.LSTMCell(3, 4)(x[:, 0], (STATE,)),
    r"LSTM: the hidden state must have the axes \(batch, hidden_size\), without PyTorch's first axis": (
        lambda x: NN.LSTM(3, 4)(x, (wy.Input(dims=(1, 2, 4)), STATE))
    ),
    r"LSTM: input \(2, 5\) .* as the cell state: 5 against 4, the hidden_size": (
        lambda x: NN.LSTM(3, 4)(x, (STATE, wy.Input(dims=(2, 5))))
    ),
    r"GRU: the state must be a node or an array .*, not LSTMState of 2": (
        lambda x: NN.GRU(3, 4)(x, NN.LSTMState(STATE, STATE))
    ),
    r"StackedLSTM takes a list of states, one for each layer and direction, 2 here, not LSTMState of 2": (
        lambda x: NN.StackedLSTM(3, 4, 2)(x, NN.LSTMState(STATE, STATE))
    ),
    r"StackedGRU takes a list of states, .*, not h0 \(2, 4\)": lambda x: NN.StackedGRU(3, 4, 2)(x, STATE),
    r"StackedGRU takes 2 states, one for each layer and direction, not 1": (
        lambda x: NN.StackedGRU(3, 4, bidirectional=True)(x, [STATE])
    ),
}


@pytest.mark.parametrize("message", STATES)
def test_a_state_that_is_none_is_told_in_the_words_of_the_layer(message: str) -> None:
    with pytest.raises((DTypeError, ShapeError), match=message):
        STATES[message](wy.Input(dims=(2, 5, 3)))


def test_arrays_are_states_and_steps() -> None:
    x = wy.Constant(np.ones((2, 1, 3), np.float32))
    zeros = np.zeros((2, 4))
    for layer, cell, state in (
        (NN.LSTM(3, 4, seed=1), NN.LSTMCell(3, 4, seed=1), (zeros, zeros)),
        (NN.GRU(3, 4, seed=1), NN.GRUCell(3, 4, seed=1), zeros),
    ):
        expected = layer(x).sequence.forward()
        np.testing.assert_array_equal(layer(x, state).sequence.forward(), expected)
        stepped = cell(np.ones((2, 3), np.float32), state)
        stepped = stepped.hidden if isinstance(stepped, wy.nn.LSTMState) else stepped
        np.testing.assert_allclose(stepped.forward(), expected[:, 0], rtol=1e-6)

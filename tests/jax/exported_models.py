"""Common models, each with an open batch: what files of ONNX are written for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wyrm as wy


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Built(NamedTuple):
    """The outputs of a model, and its inputs."""

    outputs: list[Any]
    inputs: list[Any]

    def data(self, count: int) -> dict[Any, np.ndarray]:
        """Return arrays of `count` rows for the inputs; integers are below 20."""
        random = np.random.default_rng(count)
        return {leaf: _drawn(random, leaf.dtype.kind, (count, *map(int, leaf.dims[1:]))) for leaf in self.inputs}


def _drawn(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "b":
        return random.random(shape) < 0.7
    if kind == "i":
        return random.integers(0, 20, shape).astype(np.int32)
    return random.normal(size=shape).astype(np.float32)


TIME = 6
MODELS: dict[str, Callable[[], Built]] = {}


def model(build: Callable[[], Built]) -> Callable[[], Built]:
    """Add a model to the table, built with the same weights each time, in predict mode."""

    def seeded() -> Built:
        wy.nn.seed(0)
        return build()

    MODELS[build.__name__] = seeded
    return build


def rows(*sizes: int, name: str = "x") -> Any:
    return wy.Input(dims=(Batch(), *sizes), name=name)


def numbers(*sizes: int, name: str = "tokens") -> Any:
    return wy.IndexInput(dims=(Batch(), *sizes), name=name)


def trained(layer: Any) -> Any:
    """Return a model in predict mode, with other running statistics than those of the start."""
    random = np.random.default_rng(1)
    for name, buffer in layer.named_buffers():
        if name.endswith(("running_mean", "running_variance")):
            buffer.set(random.uniform(0.5, 1.5, buffer.shape).astype(np.float32))
    return layer.eval()


@model
def perceptron() -> Built:
    x = rows(6)
    network = wy.nn.Linear(6, 16) >> wy.nn.relu >> wy.nn.Linear(16, 3)
    return Built([network(x).softmax()], [x])


@model
def regressor_with_batch_norm() -> Built:
    x = rows(6)
    network = wy.nn.Linear(6, 16) >> wy.nn.BatchNorm1d(16) >> wy.nn.leaky_relu >> wy.nn.Linear(16, 1)
    return Built([trained(network)(x)[:, 0]], [x])


@model
def activations() -> Built:
    x = rows(6)
    names = "relu relu6 leaky_relu elu celu selu gelu silu mish softplus softsign tanh sigmoid hardsigmoid hardswish"
    h = wy.nn.Linear(6, 6)(x) * 4.0
    return Built([getattr(wy.nn, name)(h) for name in names.split()], [x])


@model
def convolutional_classifier() -> Built:
    x = rows(1, 12, 12)
    network = (
        wy.nn.Conv2d(1, 4, 3, padding="same") >> wy.nn.relu >> wy.nn.MaxPool2d(2)
        >> wy.nn.Conv2d(4, 6, 3, stride=2) >> wy.nn.relu >> wy.nn.AvgPool2d(2)
        >> wy.nn.Flatten() >> wy.nn.Linear(6, 5)
    )  # fmt: skip
    return Built([network(x).log_softmax()], [x])


@model
def residual_blocks() -> Built:
    x = rows(3, 8, 8)
    stem = trained(wy.nn.Conv2d(3, 4, 3, padding=1, bias=False) >> wy.nn.BatchNorm2d(4) >> wy.nn.relu)
    inside = trained(
        wy.nn.Conv2d(4, 8, 3, stride=2, padding=1) >> wy.nn.BatchNorm2d(8) >> wy.nn.relu
        >> wy.nn.Conv2d(8, 8, 3, padding=1) >> wy.nn.BatchNorm2d(8)
    )  # fmt: skip
    h = stem(x)
    h = (inside(h) + wy.nn.Conv2d(4, 8, 1, stride=2)(h)).relu()
    return Built([wy.nn.Linear(8, 3)(h.mean(axis=(-2, -1)))], [x])


@model
def depthwise_convolutions() -> Built:
    x = rows(4, 9, 9)
    network = trained(
        wy.nn.Conv2d(4, 8, 3, padding=1, groups=4) >> wy.nn.BatchNorm2d(8) >> wy.nn.relu6
        >> wy.nn.Conv2d(8, 6, 1) >> wy.nn.AdaptiveAvgPool2d(1) >> wy.nn.Flatten()
    )  # fmt: skip
    return Built([network(x)], [x])


@model
def upsampling() -> Built:
    x = rows(3, 4, 4)
    network = (
        wy.nn.Upsample(scale_factor=2) >> wy.nn.Conv2d(3, 4, 3, padding=1) >> wy.nn.relu
        >> wy.nn.Upsample(scale_factor=2, mode="bilinear") >> wy.nn.Conv2d(4, 1, 3, padding=1)
    )  # fmt: skip
    return Built([network(x).sigmoid()], [x])


@model
def encoder_and_decoder_of_images() -> Built:
    x = rows(2, 8, 8)
    down = wy.nn.Conv2d(2, 4, 3, padding=1)(x).relu()
    deep = wy.nn.Conv2d(4, 6, 3, stride=2, padding=1)(wy.nn.MaxPool2d(2)(down)).relu()
    up = wy.nn.ConvTranspose2d(6, 4, 4, stride=4)(deep)
    return Built([wy.nn.Conv2d(8, 2, 1)(wy.concatenate([down, up], axis=1))], [x])


@model
def convolutions_of_a_sequence() -> Built:
    x = rows(3, 10)
    network = (
        wy.nn.Conv1d(3, 4, 3, padding=1) >> wy.nn.gelu >> wy.nn.Conv1d(4, 4, 3, dilation=2)
        >> wy.nn.MaxPool1d(2) >> wy.nn.Flatten() >> wy.nn.Linear(12, 2)
    )  # fmt: skip
    return Built([network(x)], [x])


@model
def lstm() -> Built:
    x = rows(TIME, 4)
    output = wy.nn.LSTM(4, 5)(x)
    return Built([wy.nn.Linear(5, 2)(output.sequence), output.state.cell], [x])


@model
def gru() -> Built:
    x = rows(TIME, 4)
    return Built([wy.nn.Linear(5, 2)(wy.nn.GRU(4, 5)(x).state)], [x])


@model
def bidirectional_lstm() -> Built:
    tokens = numbers(TIME)
    sequence = wy.nn.StackedLSTM(4, 5, num_layers=2, bidirectional=True).eval()(wy.nn.Embedding(20, 4)(tokens)).sequence
    return Built([wy.nn.Linear(10, 3)(sequence).softmax()], [tokens])


@model
def attention_block() -> Built:
    x, mask = rows(TIME, 8), wy.Input(dims=(Batch(), TIME), dtype=np.bool_, name="mask")
    attention = wy.nn.MultiHeadAttention(8, 2, causal=False)
    return Built([x + attention(wy.nn.LayerNorm(8)(x), key_mask=mask)], [x, mask])


@model
def cross_attention() -> Built:
    x, memory = rows(3, 8), rows(TIME, 8, name="memory")
    return Built([wy.nn.MultiHeadAttention(8, 2, causal=False)(x, key=memory)], [x, memory])


@model
def transformer_encoder() -> Built:
    tokens = numbers(TIME)
    h = wy.nn.LearnedPositionalEncoding(TIME, 8)(wy.nn.Embedding(20, 8)(tokens))
    for _ in range(2):
        h = wy.nn.TransformerBlock(8, 16, 2, causal=False, dropout=0.1).eval()(h)
    return Built([wy.nn.Linear(8, 3)(wy.nn.LayerNorm(8)(h).mean(axis=1)).softmax()], [tokens])


@model
def gpt2() -> Built:
    """The layers and heads of the model with 124 million parameters, of fewer features."""
    tokens = numbers(9)
    config = wy.nn.GPT2Config(vocab_size=40, n_positions=12, n_embd=24, n_layer=12, n_head=12)
    return Built([wy.nn.GPT2(config).eval().logits(tokens)], [tokens])


@model
def rotary_language_model() -> Built:
    tokens = numbers(TIME)
    h = wy.nn.Embedding(20, 8)(tokens)
    h = h + wy.nn.MultiHeadAttention(8, 4, num_key_value_heads=2, rotary=True)(wy.nn.RMSNorm(8)(h))
    h = h + wy.nn.Linear(8, 8)(wy.nn.swiglu(wy.nn.Linear(8, 16)(wy.nn.RMSNorm(8)(h))))
    return Built([wy.nn.Linear(8, 20)(h)[:, -1].log_softmax()], [tokens])


@model
def embedding_bag() -> Built:
    tokens = numbers(TIME)
    bags = [wy.nn.EmbeddingBag(20, 4, mode=mode, padding_idx=0)(tokens) for mode in ("mean", "sum", "max")]
    return Built([wy.nn.Linear(12, 3)(wy.concatenate(bags, axis=-1))], [tokens])


@model
def matrix_factorization() -> Built:
    users, items = numbers(name="user"), numbers(name="item")
    user, item, bias = wy.nn.Embedding(20, 8), wy.nn.Embedding(30, 8), wy.nn.Embedding(30, 1)
    return Built([(user(users) * item(items)).sum(-1) + bias(items)[:, 0]], [users, items])


@model
def two_towers() -> Built:
    users, features = numbers(name="user"), rows(5, name="features")
    user = (wy.nn.Linear(8, 8) >> wy.nn.relu >> wy.nn.Linear(8, 4))(wy.nn.Embedding(20, 8)(users))
    item = (wy.nn.Linear(5, 8) >> wy.nn.relu >> wy.nn.Linear(8, 4))(features)
    user, item = (x / (x.square().sum(-1, keepdims=True) + 1e-6).sqrt() for x in (user, item))
    return Built([(user * item).sum(-1), user @ item.T], [users, features])


@model
def factorization_machine() -> Built:
    tokens = numbers(5)
    vectors, weights = wy.nn.Embedding(20, 4)(tokens), wy.nn.Embedding(20, 1)(tokens)
    pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(-1)
    return Built([(weights.sum((1, 2)) + pairs).sigmoid()], [tokens])


@model
def autoencoder() -> Built:
    x = rows(12)
    code = (wy.nn.Linear(12, 6) >> wy.nn.tanh >> wy.nn.Linear(6, 2))(x)
    back = (wy.nn.Linear(2, 6) >> wy.nn.tanh >> wy.nn.Linear(6, 12))(code)
    return Built([back, (back - x).square().mean(axis=1)], [x])


@model
def norms_of_layers_and_groups() -> Built:
    x = rows(4, 6)
    h = wy.nn.GroupNorm(2, 4)(x) + wy.nn.InstanceNorm1d(4, affine=True)(x)
    return Built([wy.nn.RMSNorm(6)(wy.nn.LayerNorm(6)(h))], [x])


@model
def dropout() -> Built:
    x = rows(6)
    network = wy.nn.Linear(6, 16) >> wy.nn.relu >> wy.nn.Dropout(0.5) >> wy.nn.Linear(16, 3)
    return Built([network.eval()(x)], [x])


@model
def heads() -> Built:
    """Scores as classes, ranks, probabilities and masks."""
    x = rows(6)
    scores = wy.nn.Linear(6, 8)(x)
    best, places = wy.top_k(scores, 3)
    highest = scores.argmax(axis=-1)
    odds = wy.where(scores > 0.0, scores, -1e9).softmax() * (scores / 0.7).softmax()
    return Built([best, places, highest, scores.max(axis=-1), odds, scores.logsumexp(axis=-1), scores.clip(-1, 1)], [x])


@model
def mixture_of_experts() -> Built:
    x = rows(6)
    best, chosen = wy.top_k(wy.nn.Linear(6, 4)(x), 2)
    experts = wy.stack([wy.nn.Linear(6, 3)(x).relu() for _ in range(4)], axis=1)
    weights = (chosen.expand_dims(-1) == np.arange(4)).astype(np.float32) * best.softmax().expand_dims(-1)
    return Built([(weights.sum(axis=1).expand_dims(-1) * experts).sum(axis=1)], [x])


@model
def sequences_of_several_lengths() -> Built:
    tokens, lengths = numbers(TIME), numbers(name="lengths")
    sequence = wy.nn.GRU(4, 5)(wy.nn.Embedding(20, 4)(tokens)).sequence
    last = wy.take_along_axis(sequence, (lengths % TIME).reshape(-1, 1, 1) + np.zeros((1, 1, 5), np.int64), axis=1)
    return Built([wy.nn.Linear(5, 2)(last[:, 0])], [tokens, lengths])


@model
def variational_autoencoder() -> Built:
    x = rows(6)
    h = wy.nn.Linear(6, 8)(x).tanh()
    code = h[:, :4] + wy.random.normal((Batch(), 4)) * h[:, 4:].exp()
    return Built([wy.nn.Linear(4, 6)(code).sigmoid()], [x])

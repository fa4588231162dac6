"""Ten small models that train, of the kinds that people export, each with a program that trains and one that predicts.

They differ in what their code has: products, convolutions, recurrent loops, attention, tables of rows, random draws,
batch statistics, schedules, clipping, averages and the states of all kinds of optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wyrm as wy


class Batch(wy.Dim): ...


class Model(NamedTuple):
    """A loss with its optimizer, and what the model predicts."""

    loss: Any
    optimizer: wy.optim.Optimizer
    prediction: Any
    options: dict[str, Any]


def _of(loss: Any, prediction: Any, optimizer: Callable[[Any], wy.optim.Optimizer], **options: Any) -> Model:
    return Model(loss, optimizer(loss.parameters()), prediction, options)


def regression() -> Model:
    batch = Batch()
    x, y = wy.Input(dims=(batch, 4), name="x"), wy.Input(dims=(batch,), name="y")
    found = wy.nn.Linear(4, 1)(x).squeeze(-1)
    return _of(wy.losses.mse(found, y), found, lambda p: wy.optim.SGD(p, 0.1, momentum=0.9))


def classifier() -> Model:
    batch = Batch()
    x, y = wy.Input(dims=(batch, 6), name="x"), wy.IndexInput(dims=(batch,), name="y")
    scores = wy.nn.Sequential(wy.nn.Linear(6, 8), wy.nn.BatchNorm(8), wy.nn.relu, wy.nn.Linear(8, 4))(x)
    right = (scores.argmax(axis=-1) == y).astype(np.float32).mean()
    return _of(
        scores.cross_entropy(y), scores.softmax(),
        lambda p: wy.optim.AdamW(p, wy.optim.WarmupCosine(0.05, warmup=4, steps=40)), metrics={"accuracy": right},
    )  # fmt: skip


def images() -> Model:
    batch = Batch()
    x, y = wy.Input(dims=(batch, 1, 8, 8), name="x"), wy.IndexInput(dims=(batch,), name="y")
    features = wy.nn.max_pool2d(wy.nn.Conv2d(1, 4, 3)(x).relu(), 2).reshape((batch, 36))
    scores = wy.nn.Linear(36, 3)(features)
    return _of(scores.cross_entropy(y), scores, lambda p: wy.optim.Adam(p, 0.01))


def sequences() -> Model:
    batch = Batch()
    text, following = (wy.IndexInput(dims=(batch, 5), name=name) for name in ("text", "following"))
    states, _ = wy.nn.LSTM(3, 6)(wy.nn.Embedding(7, 3)(text))
    scores = wy.nn.Linear(6, 7)(states)
    return _of(scores.cross_entropy(following), scores, lambda p: wy.optim.RMSprop(p, 0.01))


def gated() -> Model:
    batch = Batch()
    x, y = wy.Input(dims=(batch, 4, 3), name="x"), wy.Input(dims=(batch, 5), name="y")
    _, last = wy.nn.GRU(3, 5)(x)
    return _of(wy.losses.mse(last, y), last, lambda p: wy.optim.NAdam(p, 0.01))


def attending() -> Model:
    batch = Batch()
    tokens, labels = wy.IndexInput(dims=(batch, 6), name="tokens"), wy.IndexInput(dims=(batch,), name="labels")
    states: Any = wy.nn.Embedding(11, 8)(tokens)
    states = states + wy.nn.MultiHeadAttention(8, 2, causal=False)(wy.nn.LayerNorm(8)(states))
    states = states + wy.nn.FeedForward(8, 16)(wy.nn.LayerNorm(8)(states))
    scores = wy.nn.Linear(8, 2)(states.mean(axis=1))
    return _of(scores.cross_entropy(labels), scores, lambda p: wy.optim.Lion(p, 1e-3))


def generating() -> Model:
    batch = Batch()
    model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=13, n_positions=6, n_embd=8, n_layer=2, n_head=2))
    text, following = (wy.IndexInput(dims=(batch, 6), name=name) for name in ("text", "following"))
    return _of(model.loss(text, following), model.logits(text), lambda p: wy.optim.AdamW(p, 1e-3))


def recommender() -> Model:
    batch = Batch()
    users, items = wy.nn.Embedding(30, 4), wy.nn.Embedding(50, 4)
    user, liked = wy.IndexInput(dims=(batch,), name="user"), wy.IndexInput(dims=(batch,), name="liked")
    score = users(user).vector_dot(items(liked))
    loss = wy.losses.bpr(score, users(user).vector_dot(items(wy.random.index(50, (batch,)))))
    return _of(loss, score, lambda p: wy.optim.Adagrad(p, 0.1))


def factorization() -> Model:
    batch = Batch()
    rows, columns = wy.nn.Embedding(20, 3), wy.nn.Embedding(20, 3)
    biases = wy.nn.Embedding(20, 1)
    row, column = wy.IndexInput(dims=(batch,), name="row"), wy.IndexInput(dims=(batch,), name="column")
    value = wy.Input(dims=(batch,), name="value")
    found = rows(row).vector_dot(columns(column)) + biases(row).squeeze(-1)
    return _of((found - value).square().mean(), found, lambda p: wy.optim.Adam(p, 0.01))


def autoencoder() -> Model:
    batch = Batch()
    x, noise = wy.Input(dims=(batch, 10), name="x"), wy.random.normal((batch, 2))
    hidden = wy.nn.Linear(10, 6)(x).relu()
    mean, logarithm = wy.nn.Linear(6, 2)(hidden), wy.nn.Linear(6, 2)(hidden)
    decoded = wy.nn.Linear(2, 10)(mean + (0.5 * logarithm).exp() * noise)
    likelihood = (decoded.softplus() - x * decoded).sum(axis=-1)
    divergence = 0.5 * (logarithm.exp() + mean.square() - 1.0 - logarithm).sum(axis=-1)
    return _of((likelihood + divergence).mean(), mean, lambda p: wy.optim.Adam(p, 0.01))


MODELS: dict[str, Callable[[], Model]] = {
    each.__name__: each
    for each in (
        regression, classifier, images, sequences, gated, attending, generating, recommender, factorization,
        autoencoder,
    )
}  # fmt: skip


def programs(make: Callable[[], Model]) -> tuple[Any, Any]:
    """Return a model's program that trains, and the one that predicts."""
    wy.nn.seed(0)
    model = make()
    return wy.compile(model.loss, model.optimizer, **model.options), wy.compile(model.prediction)

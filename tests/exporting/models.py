"""The models that the tests of exports share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import wyrm as wy


class Batch(wy.Dim): ...


class Model(NamedTuple):
    """Programs of a model, and data for it."""

    train: Any
    predict: dict[str, Any]
    data: dict[Any, np.ndarray]


def classifier(**options: Any) -> Model:
    """Return a model with dense gradients, a schedule, weighted classes, a metric and a state of counts."""
    wy.nn.seed(0)
    random = np.random.default_rng(0)
    batch = Batch()
    x, y = wy.Input(dims=(batch, 6), name="x"), wy.IndexInput(dims=(batch,), name="y")
    scores = wy.nn.Linear(5, 4)(wy.nn.Linear(6, 5)(x).tanh())
    loss = wy.losses.cross_entropy(scores, y, weight=np.array([1.0, 2.0, 0.5, 1.5], np.float32))
    right = (scores.argmax(axis=-1) == y).astype(np.float32).mean()
    rate = options.pop("learning_rate", wy.optim.WarmupCosine(0.05, warmup=4, steps=40))
    optimizer = wy.optim.AdamW(loss.parameters(), rate, weight_decay=0.1, **options)
    train = wy.compile(loss, optimizer, metrics={"accuracy": right})
    data: dict[Any, np.ndarray] = {x: random.normal(size=(37, 6)).astype(np.float32), y: random.integers(0, 4, 37)}
    return Model(train, {"scores": wy.compile(scores), "answer": wy.compile(scores.argmax(axis=-1))}, data)


def recommender() -> Model:
    """Return a model with gradients of rows and random negatives, uniform ones and others by weight."""
    wy.nn.seed(0)
    random = np.random.default_rng(0)
    batch = Batch()
    users, items = wy.nn.Embedding(30, 4), wy.nn.Embedding(50, 4, seed=1)
    user, liked = wy.IndexInput(dims=(batch,), name="user"), wy.IndexInput(dims=(batch,), name="liked")
    score = users(user).vector_dot(items(liked))
    seen = [[each % 50, (each + 9) % 50] for each in range(30)]
    other = wy.random.index(50, (batch,))
    popular = wy.random.index(50, (batch,), weights=np.arange(50.0), exclude=seen, rows=user)
    one, two = (wy.losses.bpr(score, users(user).vector_dot(items(each))) for each in (other, popular))
    loss = one + two
    train = wy.compile(loss, wy.optim.Adagrad([users.weight, items.weight], learning_rate=0.1))
    data: dict[Any, np.ndarray] = {user: random.integers(0, 30, 203), liked: random.integers(0, 50, 203)}
    return Model(train, {"score": wy.compile(score)}, data)

"""Five programs as a new user would write them, each trained on its first batch, to measure time to first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wyrm as wy

BATCH = 32


class Batch(wy.Dim): ...


def _train(loss: Any, columns: dict[Any, Any]) -> Callable[[], float]:
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), 1e-3))
    return lambda: program.epoch(columns, batch_size=BATCH)


def vae() -> Callable[[], float]:
    """A variational autoencoder of images (Kingma and Welling, 2014)."""
    pixels, hidden, latent = 784, 256, 16
    batch = Batch()
    images, noise = wy.Input(dims=(batch, pixels), name="images"), wy.Input(dims=(batch, latent), name="noise")
    encoded = wy.nn.Linear(pixels, hidden)(images).relu()
    mean, logarithm = wy.nn.Linear(hidden, latent)(encoded), wy.nn.Linear(hidden, latent)(encoded)
    drawn = mean + (0.5 * logarithm).exp() * noise
    decoded = wy.nn.Linear(hidden, pixels)(wy.nn.Linear(latent, hidden)(drawn).relu())
    likelihood = (decoded.softplus() - images * decoded).sum(axis=-1)
    divergence = 0.5 * (logarithm.exp() + mean.square() - 1.0 - logarithm).sum(axis=-1)
    random = np.random.default_rng(0)
    columns = {images: random.random((BATCH, pixels)), noise: random.standard_normal((BATCH, latent))}
    return _train((likelihood + divergence).mean(), columns)


def char_lstm() -> Callable[[], float]:
    """An LSTM that predicts the next character."""
    characters, width, time = 96, 64, 32
    batch = Batch()
    text, following = (wy.IndexInput(dims=(batch, time), name=name) for name in ("text", "following"))
    sequence, _ = wy.nn.LSTM(width, 128)(wy.nn.Embedding(characters, width)(text))
    loss = wy.nn.Linear(128, characters)(sequence).cross_entropy(following).mean()
    random = np.random.default_rng(0)
    drawn = random.integers(0, characters, (BATCH, time + 1))
    return _train(loss, {text: drawn[:, :-1].copy(), following: drawn[:, 1:].copy()})


def cnn() -> Callable[[], float]:
    """A convolution written with slices: nine shifted images, each times one weight per channel."""
    size, channels, classes = 16, 8, 10
    batch = Batch()
    images, labels = wy.Input(dims=(batch, size, size), name="images"), wy.IndexInput(dims=(batch,), name="labels")
    kernel = wy.Parameter(np.random.default_rng(0).normal(0.0, 0.3, (9, channels)).astype(np.float32), name="kernel")
    inner = size - 2
    shifted = [images[:, i : i + inner, j : j + inner].expand_dims(-1) for i in range(3) for j in range(3)]
    features: Any = shifted[0] * kernel[0]
    for i, part in enumerate(shifted[1:], 1):
        features = features + part * kernel[i]
    pooled = features.relu().mean(axis=(1, 2))
    loss = wy.nn.Linear(channels, classes)(pooled).cross_entropy(labels)
    random = np.random.default_rng(0)
    return _train(loss, {images: random.random((BATCH, size, size)), labels: random.integers(0, classes, BATCH)})


def encoder() -> Callable[[], float]:
    """A sentence encoder with non-causal attention and two classes."""
    tokens, time, width = 1000, 24, 64
    batch = Batch()
    sentences, labels = wy.IndexInput(dims=(batch, time), name="sentences"), wy.IndexInput(dims=(batch,), name="labels")
    add_positions = wy.nn.LearnedPositionalEncoding(time, width)
    states: Any = add_positions(wy.nn.Embedding(tokens, width)(sentences))
    for _ in range(2):
        states = states + wy.nn.MultiHeadAttention(width, 4, causal=False)(wy.nn.LayerNorm(width)(states))
        states = states + wy.nn.FeedForward(width, 4 * width)(wy.nn.LayerNorm(width)(states))
    loss = wy.nn.Linear(width, 2)(states.mean(axis=1)).cross_entropy(labels)
    random = np.random.default_rng(0)
    columns = {sentences: random.integers(0, tokens, (BATCH, time)), labels: random.integers(0, 2, BATCH)}
    return _train(loss, columns)


def gnn() -> Callable[[], float]:
    """A graph network: each node adds the mean of its neighbours' messages, gathered and scattered by edge indices."""
    nodes, edges, width, classes = 500, 2000, 32, 7
    random = np.random.default_rng(0)
    features = wy.Constant(random.standard_normal((nodes, width)).astype(np.float32))
    source, target = (wy.IndexConstant(random.integers(0, nodes, edges)) for _ in range(2))
    degree = np.maximum(np.bincount(target.value, minlength=nodes), 1).astype(np.float32)
    labels = wy.IndexInput(dims=(nodes,), name="labels")
    states: Any = features
    for _ in range(2):
        messages = wy.nn.Linear(width, width)(states).take(source, axis=0)
        gathered = wy.Constant(np.zeros((nodes, width), np.float32)).scatter_add(target, messages)
        states = (wy.nn.Linear(width, width)(states) + gathered / degree[:, None]).relu()
    loss = wy.nn.Linear(width, classes)(states).cross_entropy(labels)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), 1e-3))
    return lambda: float(program({labels: random.integers(0, classes, nodes)}))


PROGRAMS = {"vae": vae, "char_lstm": char_lstm, "cnn": cnn, "encoder": encoder, "gnn": gnn}

"""Cost as work grows: the time of a unit for more interactions, rows of a table, tokens, layers, and rows of a batch.

The last word of each case's name is the size that grows; what stands before is the same for all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import Case, Contender, Measurement, timed
from bench.models import THREADS
from bench.workers import in_worker

FACTORS, TOUCHED, DIMENSIONS = 32, 1_000, 16
FEATURES, HIDDEN, CLASSES = 64, 128, 10
SHARED_BATCH = 512  # rows of a batch from which PyTorch is faster with all threads
TOKENS = 4_096  # in a step, for sequences of any length
RATE = 1e-3


def _recommender(count: int) -> Callable[[], Measurement]:
    from bench.models import Recommender
    from bench.scale import BLOCK, ITEMS, USERS, interactions

    users, items = interactions(count)
    model = Recommender(USERS, ITEMS, FACTORS)
    model.epoch(users[:BLOCK], items[:BLOCK])
    return timed(lambda: model.epoch(users, items), count)


def _implicit(count: int) -> Callable[[], Measurement]:
    from bench.bpr import implicit_epoch
    from bench.scale import ITEMS, USERS, interactions

    epoch, interactions_of_epoch = implicit_epoch(*interactions(count), (USERS, ITEMS), FACTORS)
    return timed(epoch, interactions_of_epoch)


def _touched(rows: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(0, rows, (100, TOUCHED))


def _table(rows: int) -> Callable[[], Measurement]:
    import wyrm as wy

    table = wy.Parameter(np.zeros((rows, DIMENSIONS), np.float32))
    batch = wy.Dim()
    index = wy.IndexInput(dims=(batch,), name="index")
    loss = (table[index] - 1.0).square().sum()
    program = wy.compile(loss, wy.optim.Adagrad([table], RATE))
    columns = {index: _touched(rows).ravel()}
    return timed(lambda: program.epoch(columns, batch_size=TOUCHED), 100 * TOUCHED)


def _torch_table(rows: int) -> Callable[[], Measurement]:
    """Sparse gradients."""
    import torch

    torch.set_num_threads(1)
    table = torch.nn.Embedding(rows, DIMENSIONS, sparse=True, _weight=torch.zeros(rows, DIMENSIONS))
    optimizer = torch.optim.Adagrad(table.parameters(), RATE)
    batches = torch.from_numpy(_touched(rows))

    def epoch() -> None:
        for index in batches:
            optimizer.zero_grad(set_to_none=True)
            (table(index) - 1.0).square().sum().backward()
            optimizer.step()

    return timed(epoch, 100 * TOUCHED)


def _images(batch: int) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    """Return so many batches that an epoch takes a while, and their number."""
    steps, random = max(4, 2_000 // batch), np.random.default_rng(0)
    rows = steps * batch
    return random.random((rows, FEATURES), np.float32), random.integers(0, CLASSES, rows), steps


def _classifier(batch: int) -> Callable[[], Measurement]:
    import wyrm as wy

    axis = wy.Dim()
    x, y = wy.Input(dims=(axis, FEATURES), name="x"), wy.IndexInput(dims=(axis,), name="y")
    hidden: Any = wy.nn.Linear(FEATURES, HIDDEN)(x)
    loss = wy.nn.Linear(HIDDEN, CLASSES)(hidden.relu()).cross_entropy(y)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), RATE))
    images, classes, _ = _images(batch)
    return timed(lambda: program.epoch({x: images, y: classes}, batch_size=batch), len(classes))


def _torch_classifier(batch: int) -> Callable[[], Measurement]:
    import torch
    from torch import nn

    torch.set_num_threads(THREADS if batch >= SHARED_BATCH else 1)
    model = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), RATE, fused=True)
    images, classes, _ = _images(batch)
    batches = [torch.from_numpy(column).split(batch) for column in (images, classes)]

    def epoch() -> None:
        for x, y in zip(*batches, strict=True):
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    return timed(epoch, len(classes))


def _jax_classifier(batch: int) -> Callable[[], Measurement]:
    """One jitted scan over all batches."""
    import jax
    import jax.numpy as jnp

    images, classes, steps = _images(batch)
    columns = jnp.asarray(images.reshape(steps, batch, FEATURES)), jnp.asarray(classes.reshape(steps, batch))
    keys = jax.random.split(jax.random.key(0), 2)
    shapes = (FEATURES, HIDDEN), (HIDDEN, CLASSES)
    parameters: Any = [
        value for key, shape in zip(keys, shapes, strict=True)
        for value in (0.1 * jax.random.normal(key, shape), jnp.zeros(shape[1]))
    ]  # fmt: skip

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        scores = jax.nn.relu(x @ parameters[0] + parameters[1]) @ parameters[2] + parameters[3]
        return -(jax.nn.log_softmax(scores) * jax.nn.one_hot(y, CLASSES)).sum(1).mean()

    def step(state: Any, rows: Any) -> tuple[Any, Any]:
        parameters, means, squares, count = state
        value, changes = jax.value_and_grad(loss)(parameters, *rows)
        count = count + 1.0
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, changes)
        squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, squares, changes)
        rate, root = RATE / (1.0 - 0.9**count), jnp.sqrt(1.0 - 0.999**count)
        parameters = jax.tree.map(
            lambda p, m, s: p - rate * m / (jnp.sqrt(s) / root + 1e-8), parameters, means, squares
        )
        return (parameters, means, squares, count), value

    whole = jax.jit(lambda state, columns: jax.lax.scan(step, state, columns), donate_argnums=0)
    state = (parameters, *(jax.tree.map(jnp.zeros_like, parameters) for _ in range(2)), jnp.zeros(()))

    def epoch() -> object:
        nonlocal state
        state, values = whole(state, columns)
        return values.block_until_ready()

    return timed(epoch, len(classes))


def _gpt2(call: str, units: int) -> Contender:
    code = f"from bench.gpt2 import *; from bench.workers import serve; serve(lambda: {call}, {units})"
    return in_worker(code)


def _grown(
    family: str, sizes: Iterable[int], contenders: Callable[[int], dict[str, Contender]], most: int
) -> list[Case]:
    """Return a case for each size, of which `--quick` takes those up to `most`."""
    return [
        Case("growth", f"{family} {size:,}", contenders(size), rounds=5, quick=size <= most)
        for size in sizes
    ]  # fmt: skip


def cases() -> list[Case]:
    """Each kind of growth beside a peer, the time of an interaction, a row that is touched, a token, a layer, a row."""

    def sequence(tokens: int) -> dict[str, Contender]:
        size = f"Size(1000, {tokens}, 2, 4, 128, {TOKENS // tokens})"
        return {
            "wyrm": _gpt2(f"wyrm_step({size}, 0.0)", TOKENS), "torch eager": _gpt2(f"torch_step({size}, 0.0)", TOKENS)
        }  # fmt: skip

    def depth(layers: int) -> dict[str, Contender]:
        size = f"replace(SIZES['default'], layers={layers}, batch=4)"
        return {
            "wyrm": _gpt2(f"wyrm_step({size}, 0.0)", layers), "torch eager": _gpt2(f"torch_step({size}, 0.0)", layers)
        }  # fmt: skip

    return [
        *_grown(
            "BPR, an interaction of an epoch: interactions", (100_000, 1_000_000, 10_000_000),
            lambda count: {"wyrm": partial(_recommender, count), "implicit": partial(_implicit, count)}, 1_000_000,
        ),
        *_grown(
            "embedding, a row of a step: rows of the table", (10_000, 100_000, 1_000_000, 10_000_000),
            lambda rows: {"wyrm": partial(_table, rows), "torch eager": partial(_torch_table, rows)}, 1_000_000,
        ),
        *_grown(
            "GPT-2 of width 128, a token of a step: tokens of a sequence", (128, 256, 512, 1024, 2048), sequence, 512
        ),
        *_grown("GPT-2 of width 64, a layer of a step: layers", (6, 12, 24, 48, 96), depth, 12),
        *_grown(
            "classifier, a row of a step: rows of a batch", (1, 8, 64, 512, 4096),
            lambda batch: {
                "wyrm": partial(_classifier, batch), "torch eager": partial(_torch_classifier, batch),
                "jax": partial(_jax_classifier, batch),
            },
            4096,
        ),
    ]  # fmt: skip

"""How losses of a batch combine from those of its parts, checked against the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.combination import Combination, combinations_of
from wyrm.engines.graph import expand

RANDOM = np.random.default_rng(0)
X, LABELS = RANDOM.standard_normal((7, 3)), np.array([0, 1, 2, 1, 0, 2, 1])


class Batch(wy.Dim): ...


class Other(wy.Dim): ...


class Rows:
    """Two columns and a model's leaves."""

    def __init__(self, size: int | None = None) -> None:
        batch: Any = Batch(size)
        self.x: Any = wy.Input(dims=(batch, 3), name="x", dtype=np.float64)
        self.labels: Any = wy.IndexInput(dims=(batch,), name="labels")
        self.batch = batch
        self.w: Any = wy.Parameter(np.array([1.0, 2.0, 3.0]), name="w")
        self.matrix: Any = wy.Parameter(RANDOM.standard_normal((3, 3)), name="matrix")
        self.table: Any = wy.Parameter(RANDOM.standard_normal((3, 3)), name="table")


Loss = Callable[[Rows], Any]
MEANS: dict[str, Loss] = {
    "a mean": lambda r: (r.x @ r.w).tanh().mean(),
    "with a penalty": lambda r: (r.x @ r.w).tanh().mean() + 0.1 * r.w.square().sum(),
    "cross-entropy": lambda r: (r.x @ r.matrix).cross_entropy(r.labels),
    "over a vocabulary": lambda r: wy.linear_cross_entropy(r.x @ r.matrix, r.matrix, r.labels),
    "layer norm": lambda r: (wy.nn.LayerNorm(3, dtype=np.float64)(r.x) * r.w).square().mean(),
    "rows of a table": lambda r: (r.table.index(r.labels) * r.x).sum(-1).square().mean(),
    "other axes": lambda r: r.x.reshape((r.batch, 3, 1)).transpose(1, 0, 2)[1].exp().mean(),
    "an LSTM": lambda r: wy.nn.LSTM(1, 2, dtype=np.float64)(r.x.reshape((r.batch, 3, 1)))[0].square().mean(),
    "chosen elements": lambda r: r.x.take_along_axis(r.labels.reshape((r.batch, 1)), axis=1).mean(),
    "by argmax": lambda r: (r.table.index(r.x.argmax(-1)) * r.x).mean(),
    "parts put together": lambda r: wy.concatenate([r.x, r.x * 2.0], axis=1).tanh().mean(),
}
SUMS: dict[str, Loss] = {
    "a sum": lambda r: (r.x @ r.w).tanh().sum(),
    "a share of a sum": lambda r: -(r.x.softmax() * r.x).sum() / r.w.sum(),
    "two sums": lambda r: r.x.sum() - (r.x @ r.w).cos().sum(),
    "cross-entropy": lambda r: (r.x @ r.matrix).cross_entropy(r.labels, reduction="sum"),
}
MIXED: dict[str, Loss] = {
    "a sum and what is there once": lambda r: (r.x @ r.w).sum() + r.w.square().sum(),
    "a sum and a mean": lambda r: r.x.sum() + r.x.mean(),
    "a function of a mean": lambda r: (r.x @ r.w).exp().mean().log(),
    "of a sum": lambda r: r.w.sum() / r.x.sum(),
    "all pairs of rows": lambda r: (r.x @ r.x.T).tanh().mean(),
    "sums over rows": lambda r: (r.x.T @ r.x).square().mean(),
    "columns": lambda r: r.x.sum(0).square().sum(),
    "a variance": lambda r: (r.x @ r.w).var(),
    "the largest": lambda r: r.x.max(),
    "a softmax over rows": lambda r: (r.x.softmax(axis=0) * r.x).sum(),
    "one row": lambda r: r.x.T[:, 0].sum(),
    "other rows": lambda r: r.x.take(r.labels, axis=0).square().mean(),
    "batch normalization": lambda r: (wy.nn.BatchNorm(3, dtype=np.float64)(r.x) * r.w).square().mean(),
    "labels that do not count": lambda r: wy.linear_cross_entropy(r.x, r.matrix, r.labels, ignore_index=1),
    "draws of an axis that counts no rows": lambda r: (
        r.x.mean() + wy.random.normal((Other(),), dtype=np.float64).mean()
    ),
    "more rows": lambda r: r.x.scatter_add(r.labels, r.x).square().mean(),
}


def whole(make: Loss, rows: Rows) -> Combination:
    return combinations_of([make(rows)], {rows.x, rows.labels}, expand)[0]


@pytest.mark.parametrize("name", [*(f"mean {name}" for name in MEANS), *(f"sum {name}" for name in SUMS)])
def test_a_batch_is_the_mean_or_the_sum_of_its_parts(name: str) -> None:
    kind, name = name.split(" ", 1)
    rows, make = Rows(), (MEANS if kind == "mean" else SUMS)[name]
    assert whole(make, rows) is (Combination.MEAN if kind == "mean" else Combination.SUM)
    loss = make(rows)

    def value(part: slice) -> float:
        rows.x.set(X[part])
        rows.labels.set(LABELS[part])
        return float(loss.forward())

    shares = (4 / 7, 3 / 7) if kind == "mean" else (1.0, 1.0)
    parts = shares[0] * value(slice(0, 4)) + shares[1] * value(slice(4, 7))
    assert np.isclose(value(slice(0, 7)), parts, rtol=1e-12)


@pytest.mark.parametrize("name", MIXED)
def test_what_is_not_put_together_from_parts(name: str) -> None:
    assert whole(MIXED[name], Rows()) is Combination.MIXED


def test_a_batch_of_fixed_size_has_no_parts() -> None:
    assert whole(MEANS["a mean"], Rows(7)) is Combination.MIXED


def test_a_language_model_has_parts() -> None:
    tokens: Any = wy.IndexInput(dims=(Batch(), 8), name="tokens")
    targets: Any = wy.IndexInput(dims=(Batch(), 8), name="targets")
    model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2))
    assert combinations_of([model.loss(tokens, targets)], {tokens, targets}, expand)[0] is Combination.MEAN

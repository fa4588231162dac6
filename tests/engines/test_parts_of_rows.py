"""How values for parts of the rows combine, as the formulas, compositions and rules of ops say it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.combination import Combination, combinations_of
from wyrm.engines.graph import simplified
from wyrm.graph.traversal import topological_order
from wyrm.ops.random.sampled_tokens import SampledTokens


class Batch(wy.Dim): ...


class Steps(wy.Dim): ...


class Halves(wy.Composed):
    """An op of a user: each row beside its mean, and with `rows` beside that of all rows."""

    __slots__ = ("rows",)
    rows: bool

    def __init__(self, x: Any, rows: bool) -> None:
        self._construct((x,), rows=rows)

    def compose(self, x: Any) -> Any:
        return x - x.mean(0 if self.rows else 1, keepdims=True)


class Numbered(wy.Composed):
    """Each row times its number, which a part of the rows counts anew."""

    __slots__ = ()

    def compose(self, x: Any) -> Any:
        return x * wy.arange(x.dims[0]).astype(x.dtype).reshape((x.dims[0], 1))


class Data:
    """Inputs with rows, and a matrix that all rows share."""

    def __init__(self) -> None:
        batch = Batch()
        self.x: Any = wy.Input(dims=(batch, 6), name="x")
        self.steps: Any = wy.Input(dims=(batch, Steps(5), 6), name="steps")
        self.labels: Any = wy.IndexInput(dims=(batch,), name="labels")
        self.weight: Any = wy.Parameter(np.linspace(-1.0, 1.0, 36, dtype=np.float32).reshape(6, 6), name="weight")
        self.inputs: Any = {self.x, self.steps, self.labels}


def mean(node: Any) -> Any:
    return node.square().mean() if node.ndim == 1 else node.square().sum(tuple(range(1, node.ndim))).mean()


CASES: list[tuple[Callable[[Data], Any], Combination]] = [
    (lambda d: mean(d.x @ d.weight), Combination.MEAN),
    (lambda d: (d.x @ d.weight).sum(), Combination.SUM),
    (lambda d: mean(wy.nn.LayerNorm(6)(d.x)), Combination.MEAN),
    (lambda d: mean(wy.nn.group_norm(d.steps.swapaxes(1, 2), 2)), Combination.MEAN),
    (lambda d: mean(wy.nn.GRU(6, 4)(d.steps).sequence), Combination.MEAN),
    (lambda d: mean(wy.nn.MultiHeadAttention(6, 2)(d.steps)), Combination.MEAN),
    (lambda d: mean(wy.nn.Conv1d(6, 4, 3)(d.steps.swapaxes(1, 2))), Combination.MEAN),
    (lambda d: mean(wy.nn.max_pool1d(d.steps.swapaxes(1, 2), 2)), Combination.MEAN),
    (lambda d: mean(wy.einsum("bti,ij->btj", d.steps, d.weight)), Combination.MEAN),
    (lambda d: mean(wy.linalg.inv(d.steps[:, :, :5])), Combination.MEAN),
    (lambda d: mean(wy.sort(d.x, 1)), Combination.MEAN),
    (lambda d: mean(wy.cumsum(d.x, axis=1)), Combination.MEAN),
    (lambda d: mean(d.x.logsumexp(1)), Combination.MEAN),
    (lambda d: mean(wy.std(d.steps, axis=1)), Combination.MEAN),
    (lambda d: mean(Halves(d.x, False)), Combination.MEAN),
    (lambda d: mean(d.x.dropout(0.5)), Combination.MEAN),
    (lambda d: mean(wy.nn.MultiHeadAttention(6, 2, dropout=0.5)(d.steps)), Combination.MEAN),
    (lambda d: mean(wy.nn.LSTM(6, 4)(d.steps).sequence), Combination.MEAN),
    (lambda d: mean(wy.random.gamma(d.x.dims, d.x.square() + 1.0, 1)), Combination.MEAN),
    (lambda d: mean(wy.random.index(5, d.x.dims[:1], exclude=d.labels[:, None]).astype(np.float32)), Combination.MEAN),
    (lambda d: mean(SampledTokens(d.x, d.x[:, 0]).astype(np.float32)), Combination.MEAN),
    (lambda d: wy.linear_cross_entropy(d.x, d.weight, d.labels), Combination.MEAN),
    (lambda d: wy.linear_cross_entropy(d.x, d.weight, d.labels, ignore_index=0), Combination.MIXED),
    (lambda d: mean(d.x.T.dropout(0.5)), Combination.MIXED),
    (lambda d: mean(wy.nn.MultiHeadAttention(6, 2)(d.x.reshape((1, d.x.dims[0], 6)))), Combination.MIXED),
    (lambda d: mean(Halves(d.x, True)), Combination.MIXED),
    (lambda d: mean(Numbered(d.x)), Combination.MIXED),
    (lambda d: mean(wy.sort(d.x, 0)), Combination.MIXED),
    (lambda d: mean(wy.cumsum(d.x, axis=0)), Combination.MIXED),
    (lambda d: mean(wy.std(d.x, axis=0)), Combination.MIXED),
    (lambda d: mean(d.x.softmax(0)), Combination.MIXED),
    (lambda d: mean(wy.flip(d.x, 0)), Combination.MIXED),
    (lambda d: mean(d.x.T @ d.x), Combination.MIXED),
    (lambda d: mean(wy.nn.BatchNorm1d(6)(d.x)), Combination.MIXED),
    (lambda d: d.x.max(), Combination.MIXED),
]


@pytest.mark.parametrize(("build", "expected"), CASES)
def test_parts_of_the_rows_combine(build: Callable[[Data], Any], expected: Combination) -> None:
    data = Data()
    loss = build(data)
    columns = frozenset(leaf for leaf in topological_order([loss]) if leaf in data.inputs)
    assert combinations_of([loss], columns, simplified) == [expected]


@pytest.mark.parametrize("build", [build for build, expected in CASES[:15] if expected is not Combination.MIXED])
def test_batches_give_the_value_of_all_rows(build: Callable[[Data], Any]) -> None:
    data = Data()
    random = np.random.default_rng(1)
    program = wy.compile(build(data))
    arrays = {data.x: random.normal(size=(7, 6)), data.steps: random.normal(size=(7, 5, 6))}
    given = {leaf: arrays[leaf] for leaf in program.inputs}
    assert program.evaluate(given, batch_size=3) == pytest.approx(program.evaluate(given, batch_size=7), rel=1e-5)

"""Metrics beside the loss: epochs return their means in every loop and mode, and they change nothing."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Literal

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotDifferentiable, OptionError


class Batch(wy.Dim): ...


ROWS = 103
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
Y = X[:, :3].argmax(axis=1)


class Case:
    """A linear classifier, its accuracy, the sum of its scores, and an element of its weight."""

    def __init__(self) -> None:
        wy.nn.seed(0)
        batch = Batch()
        self.x, self.y = wy.Input(dims=(batch, 4), name="x"), wy.IndexInput(dims=(batch,), name="y")
        self.model = wy.nn.Linear(4, 3)
        scores = self.model(self.x)
        self.loss = scores.cross_entropy(self.y)
        self.metrics: dict[str, Any] = {
            "accuracy": (scores.argmax(axis=-1) == self.y).astype(np.float32).mean(),
            "weight": self.model.weight[0, 0],
            "sum": scores.sum(),
        }
        self.data = {self.x: X, self.y: Y}

    def optimizer(self) -> wy.optim.SGD:
        return wy.optim.SGD(self.loss.parameters(), learning_rate=0.1)


def by_hand(case: Case, batch_size: int) -> dict[str, float]:
    """Train an epoch step by step; return the means weighted by rows, and the total of the sum."""
    optimizer, sums = case.optimizer(), dict.fromkeys(["loss", *case.metrics], 0.0)
    for start in range(0, ROWS, batch_size):
        case.x.set(X[start : start + batch_size])
        case.y.set(Y[start : start + batch_size])
        for name, node in {"loss": case.loss, **case.metrics}.items():
            sums[name] += float(node.forward()) * (ROWS if name == "sum" else len(case.x.value))
        case.loss.backward()
        optimizer.step()
        optimizer.zero_gradient()
    return {name: total / ROWS for name, total in sums.items()}


@pytest.mark.parametrize("loop", ["compiled", "python"])
def test_means_are_those_of_training_step_by_step(loop: Literal["compiled", "python"]) -> None:
    case, twin = Case(), Case()
    expected = by_hand(twin, 10)
    train = wy.compile(case.loss, case.optimizer(), metrics=case.metrics, loop=loop)
    means = train.epoch(case.data, batch_size=10)
    assert means == pytest.approx(expected, rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(case.model.weight.value, twin.model.weight.value, rtol=1e-5)


@pytest.mark.parametrize("mode", ["hogwild", "synchronized"])
def test_means_of_two_threads(mode: Literal["hogwild", "synchronized"]) -> None:
    case = Case()
    train = wy.compile(case.loss, wy.optim.SGD(case.loss.parameters(), 0.0), metrics=case.metrics)
    alone = train.epoch(case.data, batch_size=10)
    assert train.epoch(case.data, batch_size=10, threads=2, mode=mode) == pytest.approx(alone, rel=1e-5, abs=1e-4)


def test_a_metric_that_mixes_rows_is_computed_from_whole_batches() -> None:
    case = Case()
    mixed = case.metrics["accuracy"] * case.metrics["sum"]
    train = wy.compile(case.loss, wy.optim.SGD(case.loss.parameters(), 0.0), metrics={"mixed": mixed})
    alone = train.epoch(case.data, batch_size=10)
    together = train.epoch(case.data, batch_size=10, threads=2, mode="synchronized")
    assert together == pytest.approx(alone, rel=1e-4, abs=1e-4)


def test_metrics_do_not_change_the_training() -> None:
    case, twin = Case(), Case()
    means = wy.compile(case.loss, case.optimizer(), metrics=case.metrics).epoch(case.data, batch_size=7, shuffle=True)
    loss = wy.compile(twin.loss, twin.optimizer()).epoch(twin.data, batch_size=7, shuffle=True)
    assert means["loss"] == loss
    np.testing.assert_array_equal(case.model.weight.value, twin.model.weight.value)


def test_a_call_returns_the_values_before_the_step() -> None:
    case = Case()
    before = float(case.model.weight.value[0, 0])
    values = wy.compile(case.loss, case.optimizer(), metrics=case.metrics)(case.data)
    assert list(values) == ["loss", "accuracy", "weight", "sum"]
    assert float(values["weight"]) == before != float(case.model.weight.value[0, 0])


def test_copies_and_pickles_keep_the_metrics() -> None:
    case = Case()
    train = wy.compile(case.loss, case.optimizer(), metrics=case.metrics)
    twin, stored = copy.deepcopy(train), pickle.loads(pickle.dumps(train))
    means = train.epoch(case.data, batch_size=10)
    assert twin.epoch(case.data, batch_size=10) == means
    assert stored.epoch(dict(zip(stored.inputs, [X, Y], strict=True)), batch_size=10) == means


def test_what_is_no_metric_is_refused() -> None:
    case = Case()
    compiled: Any = wy.compile
    for metric in (case.model(case.x), case.y, "accuracy"):
        with pytest.raises(OptionError, match="the metric 'wrong' must be a scalar float node"):
            compiled(case.loss, case.optimizer(), metrics={"wrong": metric})
    with pytest.raises(OptionError, match="other than 'loss'"):
        compiled(case.loss, case.optimizer(), metrics={"loss": case.metrics["sum"]})
    with pytest.raises(NotDifferentiable, match="trains one loss"):
        compiled([case.loss, case.metrics["sum"]], case.optimizer())
    with pytest.raises(TypeError, match="beside a single loss"):
        compiled([case.loss], metrics=case.metrics)

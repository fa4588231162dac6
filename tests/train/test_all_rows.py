"""What `evaluate` and `epoch` return is what the outputs are for all rows, whatever the size of batches."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import wyrm as wy


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


ROWS, IGNORED = 41, -100
_random = np.random.default_rng(3)
X = _random.normal(size=(ROWS, 4)).astype(np.float32)
# The last rows are all ignored, so that small batches have sums of weights of 0.
Y = np.where((_random.random(ROWS) < 0.3) | (np.arange(ROWS) > 35), IGNORED, _random.integers(0, 3, ROWS))
CLASSES = np.array([1.0, 5.0, 0.2], np.float32)


class Case:
    """A classifier with labels that are ignored, a loss with weights of classes, and metrics."""

    def __init__(self, batch: Any = None) -> None:
        wy.nn.seed(0)
        batch = Batch() if batch is None else batch
        self.x, self.y = wy.Input(dims=(batch, 4), name="x"), wy.IndexInput(dims=(batch,), name="y")
        model = wy.nn.Linear(4, 3)
        self.scores: Any = model(self.x)
        counted: Any = self.y != IGNORED
        right = ((self.scores.argmax(axis=-1) == self.y) & counted).sum().astype(np.float32)
        row: Any = self.scores[:, 0]
        ignoring: dict[str, Any] = {"ignore_index": IGNORED}
        self.loss = wy.losses.cross_entropy(self.scores, self.y, weight=CLASSES, **ignoring)
        self.metrics: dict[str, Any] = {
            "smooth": wy.losses.cross_entropy(self.scores, self.y, label_smoothing=0.1, weight=CLASSES, **ignoring),
            "fused": wy.linear_cross_entropy(self.x, model.weight.T, self.y, **ignoring),
            "accuracy": right / counted.sum().astype(np.float32),
            "sum": wy.losses.cross_entropy(self.scores, self.y, reduction="sum", **ignoring),
            "mean": row.square().mean(),
            "root of the mean": row.square().mean().sqrt(),
            "of two means": 1.0 - row.square().mean() / (row - 2.0).square().mean() + row.mean() * row.mean(),
            "with the parameters": self.loss + 0.1 * model.weight.square().sum(),
            "a sum with the parameters": row.sum() + model.weight.square().sum(),
            "unchanged": wy.stop_gradient(row.square().sum().sqrt()),
        }
        self.program = self.compiled("native")
        self.data = {self.x: X, self.y: Y}

    def compiled(self, engine: str) -> Any:
        optimizer = wy.optim.SGD(self.loss.parameters(), learning_rate=0.0)
        return wy.compile(self.loss, optimizer, metrics=self.metrics, engine=engine)


def close(found: Any, expected: dict[str, Any]) -> None:
    """Compare sums of 41 float32 numbers in another order."""
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(float(value), rel=2e-6, abs=1e-6), name


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_no_size_of_batches_changes_what_an_evaluation_and_an_epoch_return(engine: str) -> None:
    if engine == "jax":
        pytest.importorskip("jax")
    case = Case()
    program = case.compiled(engine)
    expected = program(case.data)
    assert float(expected["fused"]) > 0.0
    for size in (1, 6, ROWS):
        close(program.evaluate(case.data, batch_size=size, metrics={}), expected)
    for options in ({"batch_size": 6, "shuffle": True}, {"batch_size": 10}, {"batch_size": 5, "accumulate": 2}):
        close(program.epoch(case.data, **options), expected)
    close(program.epoch(wy.data.DataLoader(wy.data.Dataset(x=X, y=Y), batch_size=9)), expected)
    assert len(program.outputs) == 11


@pytest.mark.parametrize("mode", ["hogwild", "synchronized"])
def test_no_number_of_threads_changes_it(mode: Any) -> None:
    case = Case()
    close(case.program.epoch(case.data, batch_size=4, threads=2, mode=mode), case.program(case.data))


def test_copies_return_it_too() -> None:
    case = Case()
    expected = case.program(case.data)
    close(copy.deepcopy(case.program).epoch(case.data, batch_size=6), expected)
    close(pickle.loads(pickle.dumps(case.program)).epoch({"x": X, "y": Y}, batch_size=6), expected)


def test_a_batch_axis_of_fixed_size() -> None:
    class Eight(wy.Dim): ...

    whole, fixed = Case(), Case(Eight(8))
    data = {"x": X[:40], "y": Y[:40]}
    expected = whole.program(data)
    close(fixed.program.evaluate(data, metrics={}), expected)
    close(fixed.program.epoch(data, batch_size=8), expected)


def test_totals_of_each_class_are_added_up_in_an_evaluation() -> None:
    case = Case()
    chosen = case.scores.softmax(axis=-1)
    mean_of_classes = ((case.scores * chosen).sum(axis=0) / chosen.sum(axis=0)).mean()
    program = wy.compile(mean_of_classes)
    assert program.evaluate({case.x: X}, batch_size=3) == pytest.approx(float(program({case.x: X})), rel=1e-5)


def test_rows_that_depend_on_each_other_give_the_mean_over_the_batches() -> None:
    x = wy.Input(dims=(Batch(),), name="x")
    program = wy.compile([x.max(), x.var(), x.mean()])
    data = np.array([0.0, 4.0, 1.0, 3.0, 2.0])
    found = program.evaluate({x: data}, batch_size=2)
    assert found == pytest.approx([(2 * 4.0 + 2 * 3.0 + 2.0) / 5, (2 * 4.0 + 2 * 1.0) / 5, 2.0])


def test_inputs_that_take_one_row_have_no_sums_over_rows() -> None:
    x, slope = wy.Input(dims=(Time(), 2), name="x"), wy.Parameter(1.0)
    loss = (slope * x).square().sum().sqrt()
    program = wy.compile(loss, wy.optim.SGD([slope], 0.0), metrics={"sum": (slope * x).sum()})
    data = np.arange(24.0).reshape(4, 3, 2)
    norms = np.sqrt(np.square(data).sum(axis=(1, 2)))
    expected = {"loss": norms.mean(), "sum": data.sum(axis=(1, 2)).mean()}
    close(program.epoch({x: data}), expected)
    close(program.evaluate({x: data}, metrics={}), expected)


def test_an_input_that_holds_its_data_has_no_rows() -> None:
    class Items(wy.Dim): ...

    x, weights = wy.Input(dims=(Batch(),), name="x"), wy.Input(dims=(Items(),), name="weights")
    slope = wy.Parameter(1.0)
    loss = (slope * x).square().sum() / x.sum() + weights.sum()
    program = wy.compile(loss, wy.optim.SGD([slope], 0.0))
    weights.set([1.0, 2.0, 3.0])
    data = {x: np.arange(1.0, 8.0)}
    expected = float(program(data))
    assert program.evaluate(data, batch_size=2) == pytest.approx(expected)
    held = wy.compile(loss, wy.optim.SGD([slope], 0.0))
    assert held.epoch(data, batch_size=2) == pytest.approx(expected)
    # Compiled before the input held data, the program cannot tell: the mean of the batches' values.
    assert program.epoch(data, batch_size=7) == pytest.approx(expected)


def test_a_training_returns_the_quotient_of_the_sums_of_its_steps() -> None:
    """Follow the definition: the numerators and denominators that each step saw."""
    x, weight, slope = wy.Input(dims=(Batch(),), name="x"), wy.Input(dims=(Batch(),), name="w"), wy.Parameter(1.0)
    above = (weight * (slope * x - 1.0).square()).sum()
    program = wy.compile(above / weight.sum(), wy.optim.SGD([slope], 0.1))
    data = {x: np.linspace(-1.0, 1.0, 6), weight: np.array([1.0, 2.0, 9.0, 0.0, 1.0, 4.0])}
    total, at = 0.0, 1.0
    for start in range(0, 6, 2):
        xs, ws = data[x][start : start + 2], data[weight][start : start + 2]
        total += float((ws * (at * xs - 1.0) ** 2).sum())
        at -= 0.1 * float((ws * 2.0 * (at * xs - 1.0) * xs).sum() / ws.sum())
    assert program.epoch(data, batch_size=2) == pytest.approx(total / 17.0, rel=1e-5)

"""`Program.evaluate`: means and running metrics over all rows in batches, in which nothing changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

import wyrm as wy
from wyrm.errors import IndexOutOfRange, OptionError, ShapeError


class Batch(wy.Dim): ...


ROWS = 57
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
Y = X[:, :3].argmax(axis=1)


class Case:
    """A linear classifier and its training."""

    def __init__(self) -> None:
        wy.nn.seed(0)
        batch = Batch()
        self.x, self.y = wy.Input(dims=(batch, 4), name="x"), wy.IndexInput(dims=(batch,), name="y")
        self.model = wy.nn.Linear(4, 3)
        self.scores = self.model(self.x)
        self.predicted = self.scores.argmax(axis=-1)
        self.loss = self.scores.cross_entropy(self.y)
        self.accuracy = (self.predicted == self.y).astype(np.float32).mean()
        self.optimizer = wy.optim.Adam(self.loss.parameters(), learning_rate=0.1)
        self.data = {self.x: X, self.y: Y}


@pytest.fixture
def case() -> Case:
    return Case()


@pytest.mark.parametrize("batch_size", [None, 1, 10, 57, 1000])
def test_the_mean_loss_weights_a_smaller_last_batch_by_its_rows(case: Case, batch_size: int | None) -> None:
    expected = float(wy.compile(case.loss)(case.data))
    train = wy.compile(case.loss, case.optimizer)
    assert train.evaluate(case.data, batch_size=batch_size) == pytest.approx(expected, rel=1e-5)


def test_nothing_changes(case: Case) -> None:
    train = wy.compile(case.loss, case.optimizer)
    train.epoch(case.data, batch_size=10)
    weights, state, counts = case.model.state_dict(), case.optimizer.state_dict(), train.state_dict()
    train.evaluate(case.data, batch_size=10)
    for before, after in ((weights, case.model.state_dict()), (state, case.optimizer.state_dict())):
        assert all((before[name] == after[name]).all() for name in before)
    assert train.state_dict() == counts
    assert case.model.weight.gradient is None or not case.model.weight.gradient.any()


def test_it_uses_the_present_parameters(case: Case) -> None:
    train = wy.compile(case.loss, case.optimizer)
    before = train.evaluate(case.data)
    train.epoch(case.data, batch_size=10)
    assert train.evaluate(case.data) == pytest.approx(float(wy.compile(case.loss)(case.data)), rel=1e-5)
    assert train.evaluate(case.data) < before


def test_outputs_with_a_number_for_each_row(case: Case) -> None:
    losses = case.scores.cross_entropy(case.y, reduction="none")
    program = wy.compile([losses, case.predicted == case.y, case.predicted])
    means = program.evaluate(case.data, batch_size=10)
    values = program(case.data)
    assert means == pytest.approx([float(np.mean(value)) for value in values], rel=1e-5)


def test_metrics_equal_scikit_learn(case: Case) -> None:
    train = wy.compile(case.loss, case.optimizer, metrics={"accuracy": case.accuracy})
    matrix = wy.metrics.ConfusionMatrix(3)
    f1 = wy.metrics.Collected(lambda true, found: wy.metrics.f1(true, found, average="macro"))
    results = train.evaluate(
        case.data,
        batch_size=10,
        metrics={"f1": (f1, case.y, case.predicted), "matrix": (matrix, case.y, case.predicted)},
    )
    predicted = wy.compile(case.predicted)({case.x: X})
    assert list(results) == ["loss", "accuracy", "f1", "matrix"]
    assert results["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(Y, predicted))
    assert results["f1"] == pytest.approx(sklearn_metrics.f1_score(Y, predicted, average="macro", zero_division=0.0))
    np.testing.assert_array_equal(results["matrix"], sklearn_metrics.confusion_matrix(Y, predicted, labels=range(3)))


def test_metrics_are_reset_before_each_evaluation(case: Case) -> None:
    accuracy = wy.metrics.Accuracy()
    program = wy.compile(case.loss)
    for _ in range(2):
        program.evaluate(case.data, metrics={"accuracy": (accuracy, case.y, case.predicted)})
        assert repr(accuracy) == f"Accuracy({ROWS} rows)"


def test_inputs_that_take_one_row() -> None:
    x, y = wy.Input(name="x"), wy.Input(name="y")
    program = wy.compile((x - y).square())
    error = wy.metrics.MeanAbsoluteError()
    data = {"x": [1.0, 2.0, 4.0], "y": [1.0, 0.0, 3.0]}
    results = program.evaluate(data, metrics={"error": (error, x, y)})
    assert results == pytest.approx({"loss": 5.0 / 3.0, "error": 1.0})
    with pytest.raises(ShapeError, match="batch_size must be 1"):
        program.evaluate(data, batch_size=2)


def test_a_batch_axis_of_fixed_size() -> None:
    x = wy.Input(dims=(2, 3), name="x")
    program = wy.compile(x.mean())
    assert program.evaluate({x: np.arange(12.0).reshape(4, 3)}) == pytest.approx(5.5)
    with pytest.raises(ShapeError, match="batch_size must be 2"):
        program.evaluate({x: np.zeros((4, 3))}, batch_size=4)


def test_a_graph_built_in_training_is_refused_and_its_twin_of_evaluation_is_not(case: Case) -> None:
    class Model(wy.nn.Module):
        def __init__(self) -> None:
            self.inner, self.dropout = case.model, wy.nn.Dropout(0.5)

        def __call__(self, x: Any) -> Any:
            return self.dropout(self.inner(x))

    model = Model()
    train = wy.compile(model(case.x).cross_entropy(case.y), case.optimizer)
    with pytest.raises(OptionError, match=r"of Dropout .* was built in training mode.*model.eval\(\)"):
        train.evaluate(case.data)
    evaluate = wy.compile(model.eval()(case.x).cross_entropy(case.y))
    assert evaluate.evaluate(case.data) == pytest.approx(float(wy.compile(case.loss)(case.data)), rel=1e-5)


def test_buffers_do_not_change() -> None:
    x = wy.Input(dims=(Batch(), 3), name="x")
    buffer = wy.Buffer(np.zeros(3, np.float32))
    program = wy.compile(wy.updating(x.sum(), {buffer: x.sum(axis=0)}))
    program.evaluate({x: np.ones((5, 3))})
    assert not buffer.value.any()


def test_random_nodes_draw_the_same_numbers_in_every_evaluation() -> None:
    x = wy.Input(dims=(Batch(), 3), name="x")
    program = wy.compile(x.dropout(0.5).mean())
    data = {x: np.ones((50, 3))}
    first = program.evaluate(data, batch_size=10)
    assert 0.0 < first < 2.0 and program.evaluate(data, batch_size=10) == first


def test_wrong_data_and_wrong_metrics(case: Case) -> None:
    program: Any = wy.compile([case.loss, case.scores])
    with pytest.raises(ShapeError, match="several numbers for a row"):
        program.evaluate(case.data)
    program = wy.compile(case.loss)
    with pytest.raises(IndexOutOfRange, match="column y holds 3 in row 56"):
        program.evaluate({case.x: X, case.y: np.append(Y[:-1], 3)})
    with pytest.raises(TypeError, match="running metric and the nodes"):
        program.evaluate(case.data, metrics={"accuracy": wy.metrics.accuracy})
    with pytest.raises(OptionError, match="several results are called 'loss'"):
        program.evaluate(case.data, metrics={"loss": (wy.metrics.Accuracy(), case.y, case.predicted)})


def test_an_input_of_a_metric_needs_a_column(case: Case) -> None:
    other = wy.Input(dims=(Batch(),), name="other")
    other.set(np.zeros(ROWS))
    metrics = {"error": (wy.metrics.MeanSquaredError(), other, case.scores.sum(axis=-1))}
    with pytest.raises(ShapeError, match=r"other .* is an argument of a metric"):
        wy.compile(case.loss).evaluate(case.data, metrics=metrics)

"""`fit` is a sequence of epochs, with validation, a history, and a clean end after Ctrl-C and errors."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.progress import shown_bar
from wyrm.errors import DataError, Diverged, OptionError
from wyrm.train import Callback, LambdaCallback, Run, fit


class Batch(wy.Dim): ...


ROWS = 60
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
Y = X[:, :3].argmax(axis=1)


class Case:
    """A linear classifier with its accuracy as a metric."""

    def __init__(self, learning_rate: float = 0.1) -> None:
        wy.nn.seed(0)
        batch = Batch()
        self.x, self.y = wy.Input(dims=(batch, 4), name="x"), wy.IndexInput(dims=(batch,), name="y")
        self.model = wy.nn.Linear(4, 3)
        self.scores = self.model(self.x)
        self.loss = self.scores.cross_entropy(self.y)
        self.predicted = self.scores.argmax(axis=-1)
        self.accuracy = (self.predicted == self.y).astype(np.float32).mean()
        self.optimizer = wy.optim.Adam(self.loss.parameters(), learning_rate)
        self.data = {self.x: X, self.y: Y}

    @property
    def train(self) -> wy.Program[Any, float]:
        return wy.compile(self.loss, self.optimizer)


def test_the_losses_are_those_of_epochs() -> None:
    case, twin = Case(), Case()
    history = fit(case.train, case.data, epochs=4, batch_size=7, shuffle=True, seed=5)
    train = twin.train
    assert history["loss"] == [train.epoch(twin.data, batch_size=7, shuffle=True, seed=5) for _ in range(4)]
    np.testing.assert_array_equal(case.model.weight.value, twin.model.weight.value)
    assert history.stopped == "completed" and history.epochs == 4
    assert list(history) == ["loss", "learning_rate", "seconds"] and history["learning_rate"] == [0.1] * 4


@pytest.mark.parametrize("form", [wy.data.Dataset, dict, lambda data: wy.data.DataLoader(wy.data.Dataset(data), 7)])
def test_every_form_of_data(form: Callable[[dict[str, np.ndarray]], Any]) -> None:
    columns, case, twin = {"x": X, "y": Y}, Case(), Case()
    data, again = form(columns), form(columns)
    options: dict[str, Any] = {} if isinstance(data, wy.data.DataLoader) else {"batch_size": 7}
    history = fit(case.train, data, epochs=3, **options)
    train = twin.train
    assert history["loss"] == [train.epoch(again, **options) for _ in range(3)]


def test_validation_and_metrics() -> None:
    case = Case()
    train = wy.compile(case.loss, case.optimizer, metrics={"accuracy": case.accuracy})
    part = {case.x: X[:9], case.y: Y[:9]}
    seen: list[dict[str, float]] = []
    history = fit(
        train, case.data, epochs=3, batch_size=10, validation=part,
        metrics={"f1": (wy.metrics.Accuracy(), case.y, case.predicted)},
        callbacks=[LambdaCallback(on_epoch_end=lambda run, values: seen.append(run.program.evaluate(part)))],
    )  # fmt: skip
    assert history["validation_loss"] == [values["loss"] for values in seen]
    assert history["validation_accuracy"] == [values["accuracy"] for values in seen]
    np.testing.assert_allclose(history["validation_f1"], history["validation_accuracy"], rtol=1e-6)
    assert len(history["accuracy"]) == 3
    assert history.best.epoch == 1 + int(np.argmin(history["validation_loss"]))
    assert history.best_by("accuracy", higher_is_better=True).values["accuracy"] == max(history["accuracy"])


def test_a_model_with_dropout_is_validated_by_a_graph_of_evaluation() -> None:
    case, dropout = Case(), wy.nn.Dropout(0.5)
    train = wy.compile(dropout(case.scores).cross_entropy(case.y), case.optimizer)
    before = case.model.weight.value
    with pytest.raises(OptionError, match="built in training mode"):
        fit(train, case.data, epochs=2, batch_size=10, validation=case.data)
    assert (case.model.weight.value == before).all()
    evaluation = wy.compile(case.loss, metrics={"accuracy": case.accuracy})
    history = fit(train, case.data, epochs=2, batch_size=10, validation=case.data, evaluation=evaluation)
    assert history["validation_loss"][-1] == evaluation.evaluate(case.data)["loss"]
    assert "validation_accuracy" in history


def test_wrong_validation_data_is_found_before_the_first_epoch() -> None:
    case = Case()
    before = case.model.weight.value
    with pytest.raises(DataError, match="no column 'y'"):
        fit(case.train, case.data, epochs=2, batch_size=10, validation={"x": X})
    assert (case.model.weight.value == before).all()


def interrupting(at: int) -> LambdaCallback:
    def interrupt(run: Run) -> None:
        if run.epoch == at:
            os.kill(os.getpid(), signal.SIGINT)

    return LambdaCallback(on_epoch_start=interrupt)


def test_an_interrupt_between_epochs_ends_cleanly() -> None:
    case, twin = Case(), Case()
    train = case.train
    ended: list[str] = []
    closing = LambdaCallback(on_end=lambda run: ended.append(run.history.stopped))
    history = fit(train, case.data, epochs=9, batch_size=10, callbacks=[interrupting(2), closing])
    assert history.stopped == "interrupted" and history.epochs == 2 and ended == ["interrupted"]
    fit(twin.train, twin.data, epochs=2, batch_size=10)
    np.testing.assert_array_equal(case.model.weight.value, twin.model.weight.value)
    assert fit(train, case.data, epochs=1, batch_size=10).stopped == "completed"


def test_an_interrupt_within_an_epoch_keeps_the_steps_so_far() -> None:
    case = Case()
    batches = 0

    class Loader:
        batch_size = 10
        epoch = 0

        def __iter__(self) -> Any:
            nonlocal batches
            for start in range(0, ROWS, 10):
                batches += 1
                if batches == 9:
                    os.kill(os.getpid(), signal.SIGINT)
                yield {"x": X[start : start + 10], "y": Y[start : start + 10]}

    history = fit(case.train, Loader(), epochs=5)
    assert history.stopped == "interrupted" and history.epochs == 1
    assert np.isfinite(case.model.weight.value).all() and case.optimizer.steps == 6


def test_an_error_in_a_callback_ends_all_callbacks_and_leaves_the_parameters_usable() -> None:
    case = Case()
    ended: list[int] = []

    class Failing(Callback):
        def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
            if run.epoch == 2:
                raise RuntimeError("full disk")

        def on_end(self, run: Run) -> None:
            ended.append(run.epoch)

    train = case.train
    with pytest.raises(RuntimeError, match="full disk"):
        fit(train, case.data, epochs=9, batch_size=10, callbacks=[Failing(), wy.train.EarlyStopping(), Failing()])
    assert ended == [2, 2]
    assert np.isfinite(train.epoch(case.data, batch_size=10))


def test_a_divergence_is_raised() -> None:
    x, slope = wy.Input(name="x"), wy.Parameter(1.0)
    train = wy.compile((slope * x).square(), wy.optim.SGD([slope], learning_rate=1e30))
    ended: list[int] = []
    with pytest.raises(Diverged):
        fit(train, {x: np.ones(9)}, epochs=3, callbacks=[LambdaCallback(on_end=lambda run: ended.append(1))])
    assert ended == [1] and np.isfinite(float(slope))


def test_a_callback_stops_the_training() -> None:
    case = Case()
    stopping = LambdaCallback(on_epoch_end=lambda run, values: run.stop() if run.epoch == 2 else None)
    history = fit(case.train, case.data, epochs=9, batch_size=10, callbacks=[stopping])
    assert history.stopped == "early" and history.epochs == 2


def test_the_progress_bar_shows_the_epoch_the_loss_and_the_rate(capsys: pytest.CaptureFixture[str]) -> None:
    case = Case()
    fit(case.train, case.data, epochs=2, batch_size=10, progress=True)
    shown = capsys.readouterr().err
    assert "epoch 2/2" in shown and "loss=" in shown and "row/s" in shown and "120/120" in shown


@pytest.mark.parametrize("engine", ["native", "jax"])
@pytest.mark.parametrize("form", [dict, lambda data: wy.data.DataLoader(wy.data.Dataset(data), 7)])
def test_a_loss_that_is_a_sum_has_its_mean_beside_it(
    form: Callable[[Any], Any], engine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a rate of 0, so that all epochs have the same loss."""
    case = Case()
    each = case.scores.cross_entropy(case.y, reduction="none")
    wanted = float(wy.compile(each.mean()).evaluate(case.data))
    optimizer = wy.optim.SGD(case.loss.parameters(), 0.0)
    train = wy.compile(each.sum(), optimizer, metrics={"accuracy": case.accuracy}, engine=engine)
    options: dict[str, Any] = {} if form is not dict else {"batch_size": 7}
    history = fit(train, form({"x": X, "y": Y}), epochs=2, progress=True, **options)
    assert list(history)[:3] == ["loss", "mean_loss", "accuracy"]
    np.testing.assert_allclose(history["mean_loss"], [wanted] * 2, rtol=1e-5)
    np.testing.assert_allclose(history["loss"], [ROWS * wanted] * 2, rtol=1e-5)
    shown = capsys.readouterr().err
    assert f"loss={wanted:.4g}" in shown and f"loss={ROWS * wanted:.4g}" not in shown and "mean_loss" not in shown
    train.epoch(form({"x": X, "y": Y}), progress=True, **options)
    assert f"loss={wanted:.4g}" in capsys.readouterr().err


def test_a_metric_may_have_the_name_of_the_mean_loss() -> None:
    case = Case()
    each = case.scores.cross_entropy(case.y, reduction="none")
    half = {"mean_loss": 0.5 * each.mean()}
    train = wy.compile(each.sum(), wy.optim.SGD(case.loss.parameters(), 0.0), metrics=half)
    history = fit(train, case.data, epochs=1, batch_size=7)
    assert history["mean_loss"][0] == pytest.approx(history["loss"][0] / ROWS / 2)


@pytest.mark.parametrize("name", ["wyrm", None])
def test_the_level_of_the_logger_turns_off_bars_and_lines(
    name: str | None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    case, twin = Case(), Case()
    options: dict[str, Any] = {"epochs": 2, "batch_size": 10, "progress": True}
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        history = fit(case.train, case.data, watch=tmp_path, **options)
        case.train.epoch(case.data, batch_size=10, progress=True)
    finally:
        logger.setLevel(before)
    assert capsys.readouterr().err == ""
    assert history["loss"] == fit(twin.train, twin.data, **options)["loss"]
    assert "epoch 2/2" in capsys.readouterr().err


@pytest.mark.parametrize("options", [{}, {"threads": 2, "mode": "synchronized"}, {"accumulate": 4}])
def test_the_progress_bar_shows_the_mean_loss_within_an_epoch(
    options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case()
    mean = case.train.epoch(case.data, batch_size=7, progress=True, **options)
    assert f"loss={mean:.4g}" in capsys.readouterr().err


def test_the_rate_leaves_out_the_first_steps_which_wait_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    now, shown = [1000.0], StringIO()
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    bar = shown_bar()(total=1010, file=shown, ncols=100)
    now[0] += 60.0  # compiling
    bar.add(10, 5.0)
    assert "?row/s" in shown.getvalue().split("\r")[-1]
    for seconds in (1.0, 2.0):  # 100 rows/s, then half as fast
        now[0] += seconds
        bar.add(100, 50.0)
    _, first, second = shown.getvalue().split("\r")[-3:]
    assert "[00:01<00:09, 100.00row/s" in first
    assert "[00:03<00:12, 66.67row/s" in second
    bar.close()


def test_the_rate_of_a_bar_that_is_filled_at_once_is_that_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    now, shown = [1000.0], StringIO()
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    bar = shown_bar()(total=100, file=shown, ncols=100)
    now[0] += 2.0
    bar.add(100, 50.0)
    assert "50.00row/s" in shown.getvalue().split("\r")[-1]
    bar.close()


def test_a_bar_of_another_library_counts_rows() -> None:
    class Rows:
        count = 0

        def update(self, rows: int) -> None:
            self.count += rows

    case, bar = Case(), Rows()
    case.train.epoch(case.data, batch_size=7, progress=bar)
    assert bar.count == 60


def test_wrong_arguments() -> None:
    case = Case()
    untyped: Any = fit
    with pytest.raises(OptionError, match="epochs must be an integer of at least 1"):
        fit(case.train, case.data, epochs=0)
    with pytest.raises(OptionError, match="with an optimizer"):
        fit(wy.compile(case.loss), case.data, epochs=1)
    with pytest.raises(OptionError, match="with an optimizer"):
        untyped(case.model, case.data, epochs=1)
    with pytest.raises(OptionError, match="give validation"):
        fit(case.train, case.data, epochs=1, evaluation=wy.compile(case.loss))
    with pytest.raises(OptionError, match="a generator yields its batches once"):
        fit(case.train, iter([case.data]), epochs=2)
    with pytest.raises(OptionError, match="no best epoch"):
        _ = wy.train.History().best
    with pytest.raises(OptionError, match=r"no value 'f1' to monitor; .* loss"):
        wy.train.History({"loss": [1.0]}).best_by("f1")

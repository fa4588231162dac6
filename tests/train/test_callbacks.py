"""The callbacks of `fit`: when they stop, what they restore, write and change."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError, DataError, OptionError
from wyrm.train import (
    Callback,
    Checkpoint,
    CSVLogger,
    EarlyStopping,
    History,
    ReduceOnPlateau,
    Run,
    TensorBoardLogger,
    fit,
)

DATA = {"x": np.linspace(-1.0, 1.0, 20)}


class Case:
    """A slope that should become 3; a scheduled rate makes it leave the optimum again."""

    def __init__(self, learning_rate: Any = 0.1) -> None:
        self.x = wy.Input(name="x")
        self.slope = wy.Parameter(0.0, name="slope")
        self.loss = (self.slope * self.x - 3.0 * self.x).square()
        self.optimizer = wy.optim.Adam([self.slope], learning_rate)
        self.train = wy.compile(self.loss, self.optimizer)


class Losses(Callback):
    """Replaces the loss that later callbacks see, to test them on given values."""

    def __init__(self, losses: list[float]) -> None:
        self.losses = losses

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        assert isinstance(values, dict)
        values["loss"] = run.history["loss"][-1] = self.losses[run.epoch - 1]


def test_early_stopping_restores_the_best_parameters() -> None:
    case, slopes = Case(), []

    class Recorder(Callback):
        def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
            slopes.append(float(case.slope))

    losses = [5.0, 4.0, 4.5, 4.2, 3.9, 4.0, 4.0, 4.0, 1.0]
    callbacks = [Losses(losses), EarlyStopping(patience=3), Recorder()]
    history = fit(case.train, DATA, epochs=9, callbacks=callbacks)
    assert history.stopped == "early" and history.epochs == 8 and history.best.epoch == 5
    assert float(case.slope) == slopes[4] != slopes[7]


def test_early_stopping_restores_the_best_after_the_last_epoch_too() -> None:
    case = Case()
    history = fit(case.train, DATA, epochs=3, callbacks=[Losses([1.0, 2.0, 3.0]), EarlyStopping(patience=9)])
    twin = Case()
    fit(twin.train, DATA, epochs=1)
    assert history.stopped == "completed" and float(case.slope) == float(twin.slope)


def test_early_stopping_can_keep_the_last_parameters() -> None:
    case, twin = Case(), Case()
    stopping = EarlyStopping(patience=2, restore_best=False)
    history = fit(case.train, DATA, epochs=9, callbacks=[Losses([1.0, 2.0, 3.0]), stopping])
    fit(twin.train, DATA, epochs=3)
    assert history.epochs == 3 and float(case.slope) == float(twin.slope)


def test_what_counts_as_an_improvement() -> None:
    stopping = EarlyStopping(1, "accuracy", higher_is_better=True, minimum_change=0.1)
    improved = [stopping.improved({"accuracy": value}) for value in (0.5, 0.55, 0.65, 0.7, 0.8)]
    assert improved == [True, False, True, False, True]
    with pytest.raises(OptionError, match="no value 'accuracy' to monitor; the values of an epoch are: loss"):
        stopping.improved({"loss": 1.0})
    assert EarlyStopping().value({"loss": 1.0, "validation_loss": 2.0}) == 2.0


class Recalls(Callback):
    """Sets a recall in each epoch, or, with `every`, in some."""

    def __init__(self, recalls: list[float], every: int = 1) -> None:
        self.recalls, self.every = recalls, every

    def on_epoch_end(self, run: Run, values: Any) -> None:
        if run.epoch % self.every == 0:
            values["recall"] = self.recalls[run.epoch - 1]


def test_a_value_of_a_callback_is_followed_and_recorded() -> None:
    recalls = [0.1, 0.3, 0.2, 0.1, 0.0]
    callbacks = [Recalls(recalls), EarlyStopping(2, "recall")]
    history = fit(Case().train, DATA, epochs=5, callbacks=callbacks)
    assert history["recall"] == recalls[:4] and history.stopped == "early" and len(history["loss"]) == 4
    assert history.best_by("recall").epoch == 2 and history.record(-1).values["recall"] == 0.1


def test_a_value_of_a_callback_is_recorded_after_a_break_too(tmp_path: Path) -> None:
    recalls = [0.1, 0.3, 0.2, 0.4]
    for epochs in (2, 4):
        case = Case()
        checkpoint = Checkpoint(tmp_path, resume=True)
        history = fit(case.train, DATA, epochs=epochs, callbacks=[Recalls(recalls), checkpoint])
        assert history["recall"] == recalls[:epochs]


def test_a_value_that_comes_too_late_or_not_always() -> None:
    message = (
        r"no value 'recal' to monitor; .* loss, .*; a callback before EarlyStopping may set values\['recal'\] in its"
    )
    with pytest.raises(OptionError, match=message):
        fit(Case().train, DATA, epochs=1, callbacks=[EarlyStopping(2, "recal"), Recalls([0.1])])
    with pytest.raises(OptionError, match=r"did you mean 'recall'\?; a callback before .* gives 'validation_recal'"):
        fit(Case().train, DATA, epochs=1, callbacks=[Recalls([0.1]), EarlyStopping(2, "recal")])
    with pytest.raises(OptionError, match="a callback that sets a value sets it in every epoch"):
        fit(Case().train, DATA, epochs=2, callbacks=[Recalls([0.1, 0.2], every=2)])


@pytest.mark.parametrize(
    ("name", "higher"),
    [
        ("validation_recall", True), ("accuracy", True), ("recall@50", True), ("top5_accuracy", True),
        ("roc_auc", True),
        ("ndcg", True), ("r2", True), ("loss", False), ("validation_loss", False), ("mse", False), ("error", False),
        ("recall_error", False), ("accuracy_loss", False), ("perplexity", False), ("mapped", False), (None, False),
    ],
)  # fmt: skip
def test_the_name_of_a_value_says_what_is_better(name: str | None, higher: bool) -> None:
    assert EarlyStopping(1, name).higher_is_better is higher
    assert EarlyStopping(1, name, higher_is_better=not higher).higher_is_better is not higher
    assert Checkpoint(".", monitor=name).checkpoints.higher_is_better is higher
    if name is not None:
        assert wy.train.History({name: [1.0, 2.0]}).best_by(name).epoch == (2 if higher else 1)


def test_a_callback_can_serve_several_trainings() -> None:
    stopping = EarlyStopping(patience=2)
    for _ in range(2):
        history = fit(Case().train, DATA, epochs=9, callbacks=[Losses([2.0, 1.0, 1.0, 1.0]), stopping])
        assert history.epochs == 4


def test_a_rate_is_reduced_on_plateaus() -> None:
    case = Case(1.0)
    reduce = ReduceOnPlateau(0.5, patience=2, minimum=0.3)
    history = fit(case.train, DATA, epochs=8, callbacks=[Losses([2.0, 1.0, *[1.0] * 6]), reduce])
    assert history["learning_rate"] == [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.3, 0.3]


def two_rates(first: wy.Parameter, second: wy.Parameter) -> wy.optim.Optimizer:
    return wy.optim.SGD([{"parameters": [first]}, {"parameters": [second], "learning_rate": 0.25}], 1.0)


def combined(first: wy.Parameter, second: wy.Parameter) -> wy.optim.Optimizer:
    return wy.optim.Combined([wy.optim.SGD([first], 1.0), wy.optim.Adam([second], 0.25)])


@pytest.mark.parametrize("make", [two_rates, combined])
def test_the_rates_of_all_groups_are_reduced_on_plateaus(make: Any, tmp_path: Path) -> None:
    def training(epochs: int) -> tuple[list[float], list[float]]:
        first, second, x = wy.Parameter(0.0), wy.Parameter(0.0), wy.Input(name="x")
        optimizer = make(first, second)
        program = wy.compile((0.0 * first * second * x).square(), optimizer)
        callbacks = [ReduceOnPlateau(0.5, patience=2, minimum=0.1), Checkpoint(tmp_path, resume=True)]
        history = fit(program, {x: np.ones(3)}, epochs=epochs, callbacks=callbacks)
        return history["learning_rate"], [group.learning_rate for group in optimizer.groups]

    assert training(6) == ([1.0, 1.0, 1.0, 0.5, 0.5, 0.25], [0.25, 0.1])
    assert training(7) == ([1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25], [0.125, 0.1])


def test_a_training_that_goes_back_to_a_checkpoint_goes_back_to_its_rate(tmp_path: Path) -> None:
    case = Case(1.0)
    losses = Losses([2.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    for epochs in (4, 6):
        callbacks = [losses, ReduceOnPlateau(0.5, patience=1), Checkpoint(tmp_path, best_only=True, resume=True)]
        history = fit(case.train, DATA, epochs=epochs, callbacks=callbacks)
    assert history["learning_rate"] == [1.0, 1.0, 0.5, 0.5, 0.25, 0.125]


def test_the_best_value_is_that_of_the_epoch() -> None:
    case = Case()
    stopping = EarlyStopping(monitor="loss", higher_is_better=True)
    fit(case.train, DATA, epochs=3, callbacks=[Losses([0.5, 0.75, 0.25]), stopping])
    assert stopping.best == 0.75 and stopping.epochs_without_improvement == 1


def test_a_schedule_and_a_plateau_exclude_each_other() -> None:
    case = Case(wy.optim.Cosine(0.1, steps=10))
    with pytest.raises(OptionError, match="has a schedule"):
        fit(case.train, DATA, epochs=1, callbacks=[ReduceOnPlateau()])


def test_options_of_callbacks() -> None:
    with pytest.raises(OptionError, match="patience"):
        EarlyStopping(patience=0)
    with pytest.raises(OptionError, match="factor"):
        ReduceOnPlateau(factor=1.0)
    with pytest.raises(OptionError, match="factor"):
        ReduceOnPlateau(factor=0.0)
    with pytest.raises(OptionError, match="every"):
        Checkpoint("somewhere", every=0)


def test_a_csv_file_has_a_row_for_each_epoch(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    history = fit(Case().train, DATA, epochs=3, validation=DATA, callbacks=[CSVLogger(path)])
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert [float(row["validation_loss"]) for row in rows] == history["validation_loss"]
    fit(Case().train, DATA, epochs=1, validation=DATA, callbacks=[CSVLogger(path, append=True)])
    assert len(path.read_text().splitlines()) == 5
    with pytest.raises(DataError, match="has the columns epoch, loss, validation_loss"):
        fit(Case().train, DATA, epochs=1, callbacks=[CSVLogger(path, append=True)])
    with pytest.raises(DataError, match="cannot write"):
        fit(Case().train, DATA, epochs=1, callbacks=[CSVLogger(tmp_path / "missing" / "log.csv")])


def test_a_resumed_training_logs_each_epoch_once(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    fit(Case().train, DATA, epochs=2, callbacks=[CSVLogger(log)])
    for epochs in (3, 5):
        callbacks = [Checkpoint(tmp_path, best_only=True, resume=True), CSVLogger(log, append=True)]
        fit(Case().train, DATA, epochs=epochs, callbacks=[Losses([2.0, 1.0, 3.0, 3.0, 3.0]), *callbacks])
    assert [line.split(",")[0] for line in log.read_text().splitlines()] == ["epoch", *"12", *"12345"]


def test_tensorboard_reads_its_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = fit(Case().train, DATA, epochs=3, validation=DATA, callbacks=[TensorBoardLogger(tmp_path)])
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    read = events.Tags()
    assert {"loss/training", "loss/validation", "learning_rate"} <= {*read["scalars"], *read["tensors"]}
    from tensorboard.util import tensor_util

    tensors = [tensor_util.make_ndarray(event.tensor_proto).item() for event in events.Tensors("loss/validation")]
    np.testing.assert_allclose(tensors, history["validation_loss"], rtol=1e-6)


def test_tensorboard_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for module in ("tensorboard", "tensorboard.summary.writer.record_writer"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "wyrm-autodiff\[tensorboard\]"'):
        TensorBoardLogger("somewhere")


def test_a_resumed_training_is_that_without_a_break(tmp_path: Path) -> None:
    whole, first, second = Case(), Case(), Case()
    options: dict[str, Any] = {"batch_size": 1, "shuffle": True}
    expected = fit(whole.train, DATA, epochs=5, callbacks=[ReduceOnPlateau(patience=1)], **options)
    for case, epochs in ((first, 2), (second, 5)):
        callbacks = [ReduceOnPlateau(patience=1), Checkpoint(tmp_path, {"slope": case.slope}, resume=True)]
        history = fit(case.train, DATA, epochs=epochs, callbacks=callbacks, **options)
    assert history["loss"] == expected["loss"] and history["learning_rate"] == expected["learning_rate"]
    assert float(second.slope) == float(whole.slope)
    assert fit(second.train, DATA, epochs=5, callbacks=callbacks, **options)["loss"] == expected["loss"]


def test_a_loader_goes_on_with_its_epoch(tmp_path: Path) -> None:
    def loader() -> wy.data.DataLoader:
        return wy.data.DataLoader(wy.data.Dataset(DATA), batch_size=1, seed=3)

    whole, first, second = Case(), Case(), Case()
    expected = fit(whole.train, loader(), epochs=3)
    fit(first.train, loader(), epochs=1, callbacks=[Checkpoint(tmp_path)])
    history = fit(second.train, loader(), epochs=3, callbacks=[Checkpoint(tmp_path, resume=True)])
    assert history["loss"] == expected["loss"]


def test_a_table_with_a_column_named_epoch_is_no_loader(tmp_path: Path) -> None:
    class Table:
        column_names = tuple(DATA)
        epoch = np.arange(4)

        def __getitem__(self, name: str) -> object:
            return DATA[name]

    for epochs in (1, 2):
        table, case = Table(), Case()
        history = fit(case.train, table, epochs=epochs, callbacks=[Checkpoint(tmp_path, resume=True)])
        assert history.epochs == epochs and table.epoch.tolist() == [0, 1, 2, 3]


def test_which_epochs_are_saved(tmp_path: Path) -> None:
    every = Checkpoint(tmp_path / "every", every=2, keep_last=9)
    best = Checkpoint(tmp_path / "best", best_only=True, keep_last=1)
    fit(Case().train, DATA, epochs=5, callbacks=[Losses([3.0, 1.0, 2.0, 4.0, 5.0]), every, best])
    names = [f"step-{20 * epoch:08d}.safetensors" for epoch in range(6)]
    assert sorted(path.name for path in (tmp_path / "every").glob("*.safetensors")) == [names[2], names[4], names[5]]
    assert [path.name for path in (tmp_path / "best").glob("*.safetensors")] == [names[2]]
    found = best.checkpoints.best()
    assert found is not None and found.name == names[2]


def test_a_checkpoint_of_a_model_loads_into_it(tmp_path: Path) -> None:
    class Batch(wy.Dim): ...

    x = wy.Input(dims=(Batch(), 3), name="x")
    model = wy.nn.Linear(3, 1)
    loss = model(x).square().mean()
    train = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
    checkpoint = Checkpoint(tmp_path, model)
    fit(train, {"x": np.ones((9, 3))}, epochs=1, batch_size=3, callbacks=[checkpoint])
    path = checkpoint.checkpoints.latest()
    assert path is not None
    assert set(wy.io.load_arrays(path).arrays) >= {"weights/weight", "weights/bias"}


def test_a_checkpoint_of_another_origin_has_no_history(tmp_path: Path) -> None:
    case = Case()
    wy.io.Checkpoints(tmp_path).save(1, {"slope": case.slope}, case.optimizer, {})
    with pytest.raises(CheckpointError, match="has no history"):
        fit(case.train, DATA, epochs=1, callbacks=[Checkpoint(tmp_path, {"slope": case.slope}, resume=True)])


def test_a_history_is_a_dict_of_lists_of_one_length() -> None:
    history = History()
    history.append({"loss": 1.0})
    with pytest.raises(OptionError, match="an epoch has the values loss, accuracy, the epochs before loss"):
        history.append({"loss": 1.0, "accuracy": 0.5})
    assert repr(history) == "<History of 1 epochs, completed; the last: loss=1>"
    assert history.record(-1).epoch == 1
    assert History({"loss": [float("nan"), 3.0, 2.0, 2.0]}).best.epoch == 3

"""A training that is killed after any epoch and resumed ends like one without a break, callbacks included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError
from wyrm.train import Callback, Checkpoint, EarlyStopping, ReduceOnPlateau, Run, fit

DATA = {"x": np.linspace(-1.0, 1.0, 8)}
EPOCHS = 6


class Case:
    """A slope whose validation loss falls and rises again, because its rate is too large."""

    def __init__(self, engine: str = "native") -> None:
        self.slope, x = wy.Parameter(0.0, name="slope"), wy.Input(name="x")
        loss = (self.slope * x - 3.0 * x).square()
        self.optimizer = wy.optim.Adam([self.slope], 0.9, average=wy.optim.EMA(0.5))
        self.train = wy.compile(loss, self.optimizer, engine=engine)

    def fit(self, callbacks: list[Callback], epochs: int = EPOCHS) -> wy.train.History:
        return fit(self.train, DATA, epochs=epochs, validation={"x": [1.0]}, callbacks=callbacks)

    def result(self, history: wy.train.History) -> tuple[Any, ...]:
        state = {name: array.tolist() for name, array in self.optimizer.state_dict().items()}
        return float(self.slope), history["validation_loss"], history["learning_rate"], history.stopped, state


class Killed(BaseException):
    """What ends a training at once."""


class Killing(Callback):
    """Ends the training when an epoch begins."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_epoch_start(self, run: Run) -> None:
        if run.epoch == self.epochs:
            raise Killed


class Extremes(Callback):
    """Remembers the largest slopes, of one sign, which the history does not tell."""

    def __init__(self, sign: int) -> None:
        self.sign = sign

    def on_start(self, run: Run) -> None:
        self.extremes = np.full(2, -np.inf)
        self.seen: dict[str, Any] = {"epochs": [], "last": None}

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        slope = self.sign * float(run.program.trained[0].value)
        self.extremes = np.maximum(self.extremes, [slope, slope / 2])
        self.seen["epochs"].append({"epoch": run.epoch, "slope": np.float32(slope) * np.ones((1, 2))})

    def state_dict(self) -> dict[str, Any]:
        return {"extremes": self.extremes, "seen": self.seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.extremes, self.seen = state["extremes"], state["seen"]

    def result(self) -> list[Any]:
        return [self.extremes.tolist(), [(each["epoch"], each["slope"].tolist()) for each in self.seen["epochs"]]]


Make = Callable[[Path], list[Callback]]


def stopping_first(folder: Path) -> list[Callback]:
    return [Extremes(1), EarlyStopping(1), Extremes(-1), Checkpoint(folder, resume=True)]


def checkpoint_first(folder: Path) -> list[Callback]:
    return [Checkpoint(folder, resume=True), Extremes(1), EarlyStopping(9), Extremes(-1), ReduceOnPlateau(0.5, 1)]


@pytest.mark.parametrize("engine", ["native", "jax"])
@pytest.mark.parametrize("make", [stopping_first, checkpoint_first])
def test_a_training_killed_after_any_epoch_ends_like_one_without_a_break(
    tmp_path: Path, make: Make, engine: str
) -> None:
    if engine == "jax":
        pytest.importorskip("jax")

    def outcome(case: Case, callbacks: list[Callback]) -> list[Any]:
        history = case.fit(callbacks)
        return [case.result(history), *(each.result() for each in callbacks if isinstance(each, Extremes))]

    whole = Case(engine)
    expected = outcome(whole, make(tmp_path / "whole"))
    losses = expected[0][1]
    best = int(np.argmin(losses))
    assert 0 < best < len(losses) - 1, "the best epoch is neither the first nor the last"
    for killed in range(1, len(losses) + 1):
        first, second, folder = Case(engine), Case(engine), tmp_path / str(killed)
        with suppress(Killed):
            first.fit([*make(folder), Killing(killed)])
        assert outcome(second, make(folder)) == expected, f"killed after epoch {killed}"


def test_a_training_that_is_over_restores_the_best_epoch_again(tmp_path: Path) -> None:
    whole, first, second = Case(), Case(), Case()
    expected = whole.result(whole.fit([EarlyStopping(1)]))
    for case in (first, second):
        history = case.fit([EarlyStopping(1), Checkpoint(tmp_path, resume=True)])
        assert history.stopped == "early" and case.result(history) == expected


def test_a_longer_training_restores_the_best_epoch_of_the_first_one(tmp_path: Path) -> None:
    whole, first, second = Case(), Case(), Case()
    expected = whole.result(whole.fit([EarlyStopping(9)]))
    first.fit([EarlyStopping(9), Checkpoint(tmp_path)], epochs=5)
    assert second.result(second.fit([EarlyStopping(9), Checkpoint(tmp_path, resume=True)])) == expected


def test_rates_at_their_minimum_come_back_in_the_same_process(tmp_path: Path) -> None:
    def groups() -> tuple[wy.optim.Optimizer, Any]:
        first, second, x = wy.Parameter(0.0), wy.Parameter(0.0), wy.Input(name="x")
        optimizer = wy.optim.SGD([{"parameters": [first]}, {"parameters": [second], "learning_rate": 0.3}], 0.7)
        return optimizer, wy.compile((0.0 * first * second * x).square(), optimizer)

    def rates(optimizer: wy.optim.Optimizer) -> list[float]:
        return [group.learning_rate for group in optimizer.groups]

    def callbacks(folder: str) -> list[Callback]:
        return [ReduceOnPlateau(0.3, 1, minimum=0.2), Checkpoint(tmp_path / folder, resume=True)]

    whole, program = groups()
    fit(program, DATA, epochs=2, callbacks=callbacks("whole"))
    assert rates(whole) == [0.7 * 0.3, 0.2]
    broken, again = groups()
    for _ in range(2):  # the second time in the process whose rates are reduced already
        fit(again, DATA, epochs=2, callbacks=callbacks("broken"))
        assert rates(broken) == rates(whole)


def test_missing_callbacks_and_states_are_named(tmp_path: Path) -> None:
    Case().fit([EarlyStopping(9), Checkpoint(tmp_path)], epochs=1)
    with pytest.warns(RuntimeWarning, match="holds the state of a callback EarlyStopping, which this training does"):
        Case().fit([Checkpoint(tmp_path, resume=True)], epochs=2)
    with pytest.warns(RuntimeWarning, match="holds no state of EarlyStopping, which was not among the callbacks"):
        Case().fit([Checkpoint(tmp_path, resume=True), EarlyStopping(9)], epochs=3)


def test_another_best_epoch_than_that_of_the_checkpoint_is_an_error(tmp_path: Path) -> None:
    Case().fit([EarlyStopping(9), Checkpoint(tmp_path)], epochs=5)
    case = Case()
    with pytest.raises(CheckpointError, match=r"parameters of epoch 5, .*; this one finds epoch 1 the best: resume"):
        case.fit([EarlyStopping(9, higher_is_better=True), Checkpoint(tmp_path, resume=True)])
    history = case.fit(
        [EarlyStopping(9, higher_is_better=True, restore_best=False), Checkpoint(tmp_path, resume=True)], epochs=5
    )
    assert history.epochs == 5


@pytest.mark.parametrize(
    ("callback", "state", "message"),
    [
        (EarlyStopping(), {"epoch": 0, "values": [np.zeros(3)]}, "not that of these parameters"),
        (EarlyStopping(), {"epoch": 0}, "not that of these parameters"),
        (ReduceOnPlateau(), {"learning_rates": [0.1, 0.2]}, r"learning rates \[0.1, 0.2\], and this optimizer has 1"),
        (ReduceOnPlateau(), {}, "learning rates None"),
    ],
)
def test_a_state_of_another_training_is_an_error(callback: Callback, state: dict[str, Any], message: str) -> None:
    callback.on_start(Run(Case().train, DATA, 1))
    with pytest.raises(CheckpointError, match=message):
        callback.load_state_dict(state)

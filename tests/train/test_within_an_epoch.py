"""What callbacks, bars and batches do with the program whose epoch is in progress: all but train it."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import OptionError

ROWS = {"x": np.ones(64, np.float32)}
BATCH = {"x": np.ones(4, np.float32)}


class Case:
    """A slope that should become 1, and a program of its predictions."""

    def __init__(self, engine: Any = "native") -> None:
        class Batch(wy.Dim): ...

        x = wy.Input(dims=(Batch(),), name="x")
        self.slope = wy.Parameter(0.0)
        predicted = self.slope * x
        self.train = wy.compile((predicted - 1.0).square().mean(), wy.optim.SGD([self.slope], 0.01), engine=engine)
        self.predict = wy.compile(predicted, engine=engine)


class Acting(wy.train.Callback):
    """Calls a function between steps, and notes the threads that it is called in."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act, self.threads = act, list[threading.Thread]()

    def on_steps(self, run: wy.train.Run) -> None:
        self.threads.append(threading.current_thread())
        self.act()


TRAINING: dict[str, Callable[[Case], object]] = {
    "an epoch": lambda case: case.train.epoch(ROWS, batch_size=4),
    "fit": lambda case: wy.train.fit(case.train, ROWS, epochs=1),
    "a step": lambda case: case.train(BATCH),
    "a backward pass": lambda case: case.train.backward(BATCH),
}


@pytest.mark.parametrize("engine", ["native", "jax"])
@pytest.mark.parametrize("what", TRAINING)
def test_a_program_does_not_train_within_its_epoch(engine: str, what: str) -> None:
    case = Case(engine)
    acting = Acting(lambda: TRAINING[what](case))
    began = "an epoch" if what == "fit" else what
    with pytest.raises(OptionError, match=f"this program is in an epoch, .* cannot begin {began}: train after"):
        wy.train.fit(case.train, ROWS, epochs=1, batch_size=4, callbacks=[acting])
    assert len(acting.threads) == 1
    assert case.train.epoch(ROWS, batch_size=4) < 1.0  # afterwards it trains as before


@pytest.mark.parametrize("what", TRAINING)
def test_batches_and_bars_do_not_train_the_program_of_their_epoch(what: str) -> None:
    case = Case()

    def batches() -> Iterator[dict[str, np.ndarray]]:
        yield BATCH
        TRAINING[what](case)

    class Bar:
        def update(self, rows: int) -> None:
            TRAINING[what](case)

    for data, options in ((batches(), {}), (ROWS, {"progress": Bar()})):
        with pytest.raises(OptionError, match="this program is in an epoch"):
            case.train.epoch(data, **options)  # type: ignore[arg-type]  # of two kinds of data


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", ["hogwild", "synchronized"])
def test_all_but_training_is_done_between_steps_in_the_thread_of_the_epoch(threads: int, mode: Any) -> None:
    case, other, found = Case(), Case(), list[float]()

    def act() -> None:
        assert case.predict(BATCH).shape == (4,)
        found.append(case.train.evaluate(ROWS))
        assert case.train.state_dict()["steps"] > 0
        assert copy.deepcopy(case.train).evaluate(ROWS) < 1.0
        other.train.epoch(ROWS, batch_size=4)

    acting = Acting(act)
    history = wy.train.fit(
        case.train, ROWS, epochs=3, batch_size=4, threads=threads, mode=mode, callbacks=[acting]
    )  # fmt: skip
    assert len(history["loss"]) == 3 and found[-1] < 1.0
    assert set(acting.threads) == {threading.current_thread()}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bar_counts_all_rows_of_all_threads(threads: int) -> None:
    case, shown = Case(), list[int]()

    class Bar:
        def update(self, rows: int) -> None:
            shown.append(rows)

    for _ in range(3):
        case.train.epoch({"x": np.ones(67, np.float32)}, batch_size=4, threads=threads, progress=Bar())
    assert sum(shown) == 3 * 67


def test_another_thread_waits_until_the_epoch_is_done() -> None:
    case, done = Case(), list[int]()

    def step() -> None:
        case.train(BATCH)
        done.append(case.train.state_dict()["epochs"])

    thread = threading.Thread(target=step)
    acting = Acting(lambda: None if thread.ident else thread.start())
    wy.train.fit(case.train, ROWS, epochs=1, batch_size=4, callbacks=[acting])
    thread.join(60)
    assert done == [1]


def test_callbacks_train_between_epochs() -> None:
    case, losses = Case(), list[float]()

    class Between(wy.train.Callback):
        def on_epoch_end(self, run: wy.train.Run, values: Any) -> None:
            losses.append(case.train.epoch(ROWS, batch_size=4))

    history = wy.train.fit(case.train, ROWS, epochs=2, batch_size=4, callbacks=[Between()])
    assert history["loss"][0] > losses[0] > history["loss"][1] > losses[1]

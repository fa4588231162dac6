"""Options are checked before anything moves: a bad one leaves parameters, steps, gradients and files as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError, DataError, DTypeError, WyrmError

DATA = {"x": np.linspace(-1.0, 1.0, 7)}
NO_INTEGERS: tuple[Any, ...] = (None, "1", 1.5, True, 0, -1, [1], np.ones(2, int), float("nan"))
# For each option of an epoch, what it cannot be.
BAD: dict[str, tuple[Any, ...]] = {
    "batch_size": NO_INTEGERS,
    "threads": NO_INTEGERS,
    "accumulate": NO_INTEGERS,
    "seed": (None, "1", 1.5, True, -1),
    "shuffle": (None, "yes", 1, 0, []),
    "mode": (None, "Hogwild", 1, True),
    "progress": (None, 1, "x", {}, set(), [], tuple),
}


class Case:
    def __init__(self, engine: str = "native") -> None:
        class Batch(wy.Dim): ...

        self.x, self.slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(0.5)
        self.optimizer = wy.optim.SGD([self.slope], 0.1)
        self.program = wy.compile((self.slope * self.x - 1.0).square().mean(), self.optimizer, engine=engine)

    def state(self) -> tuple[Any, ...]:
        gradient = self.slope.gradient
        return (
            float(self.slope), self.optimizer.steps, self.program.state_dict(),
            None if gradient is None else gradient.tolist(),
        )  # fmt: skip


@pytest.fixture(params=["native", "jax"])
def case(request: pytest.FixtureRequest) -> Case:
    if request.param == "jax":
        pytest.importorskip("jax")
    case = Case(request.param)
    case.program.backward(DATA)
    return case


def test_bad_options_of_an_epoch_move_nothing(case: Case, tmp_path: Path) -> None:
    before = case.state()
    batches = wy.data.DataLoader(wy.data.Dataset(DATA), batch_size=2)
    log = tmp_path / "log.csv"
    for name, values in BAD.items():
        for value in values:
            options: dict[str, Any] = {name: value}
            for data in (DATA, batches):
                with pytest.raises(WyrmError, match=name):
                    case.program.epoch(data, **options)
                with pytest.raises(WyrmError, match=name):
                    wy.train.fit(case.program, data, epochs=1, callbacks=[wy.train.CSVLogger(log)], **options)
    several: list[dict[str, Any]] = [{"accumulate": 2, "threads": 2}, {"nothing": 1}]
    for options in several:
        with pytest.raises((WyrmError, TypeError)):
            case.program.epoch(DATA, **options)
    of_batches: list[dict[str, Any]] = [{"batch_size": 2}, {"shuffle": True}]
    for options in of_batches:
        with pytest.raises(WyrmError, match="batches have their size and order already"):
            wy.train.fit(case.program, batches, epochs=1, callbacks=[wy.train.CSVLogger(log)], **options)
    assert case.state() == before and batches.epoch == 0 and not log.exists()


def test_bad_options_of_fit_move_nothing(case: Case, tmp_path: Path) -> None:
    before, log = case.state(), tmp_path / "log.csv"
    bad: list[dict[str, Any]] = [
        *({"epochs": value} for value in NO_INTEGERS), {"progress": case}, {"callbacks": 3}, {"callbacks": None},
        {"validation": 3}, {"validation": DATA, "evaluation": 3}, {"validation": DATA, "metrics": 3},
        {"validation": DATA, "metrics": 0}, {"validation": DATA, "validation_batch_size": 0}, {"watch": 3},
        {"evaluation": case.program}, {"n_epochs": 3}, {"validation": DATA, "metrics": {"a": (object(), case.x)}},
    ]  # fmt: skip
    for changed in bad:
        options: dict[str, Any] = {"epochs": 1, "callbacks": [wy.train.CSVLogger(log)]} | changed
        with pytest.raises((WyrmError, TypeError)):
            wy.train.fit(case.program, DATA, **options)
    assert case.state() == before and not log.exists()


def test_bad_options_of_backward_evaluate_and_profile_move_nothing(case: Case) -> None:
    before = case.state()
    for value in NO_INTEGERS:
        for name in ("threads", "blas_threads"):
            with pytest.raises(WyrmError, match=name):
                case.program.backward(DATA, **{name: value})
        if value is not None:
            with pytest.raises(WyrmError, match="batch_size"):
                case.program.evaluate(DATA, batch_size=value)
    for weight in (None, "1", True, np.inf):
        with pytest.raises(WyrmError, match="weight"):
            case.program.backward(DATA, weight=weight)  # type: ignore[arg-type]  # what it refuses
    metrics: Any
    for metrics in (3, 0, [], {"a": 3}, {"a": (wy.metrics.Accuracy(),)}, {"a": (object(), case.x)}):
        with pytest.raises(TypeError, match="metric"):
            case.program.evaluate(DATA, metrics=metrics)
    if case.program.engine == "native":
        for name in ("batch_size", "threads", "accumulate", "mode", "memory", "peaks", "method"):
            options: dict[str, Any] = {name: "x"}
            with pytest.raises(WyrmError, match=name):
                case.program.profile(DATA, **options)
    assert case.state() == before


def test_no_batch_size_spoils_the_next_one() -> None:
    case, twin = Case(), Case()
    with pytest.raises(DTypeError):
        case.program.epoch(DATA, batch_size=np.array([3]))  # type: ignore[arg-type]  # what it refuses
    for size in (np.int16(3), np.uint64(3), 3, np.int8(3), np.array(3)):
        found = case.program.epoch(DATA, batch_size=size)  # type: ignore[arg-type]  # beyond its annotation
        assert found == twin.program.epoch(DATA, batch_size=3)


def test_the_nearest_keyword_is_suggested() -> None:
    case = Case()
    calls: list[tuple[Any, dict[str, Any], str]] = [
        (lambda **given: wy.train.fit(case.program, DATA, **given), {"n_epochs": 3}, "epochs"),
        (lambda **given: case.program.epoch(DATA, **given), {"batchsize": 3}, "batch_size"),
        (lambda **given: case.program.backward(DATA, **given), {"thread": 3}, "threads"),
        (lambda **given: case.program.profile(DATA, **given), {"thread": 3}, "threads"),
        (lambda **given: wy.optim.SGD([case.slope], **given), {"learnin_rate": 3.0}, "learning_rate"),
        (lambda **given: wy.optim.SGD([case.slope], 0.1, **given), {"max_nrm": 3.0}, "max_norm"),
        (lambda **given: wy.compile(case.x * 2.0, **given), {"optimiser": None}, "optimizer"),
        (lambda **given: wy.nn.Linear(2, 3, **given), {"biass": True}, "bias"),
        (lambda **given: wy.train.CSVLogger("x", **given), {"apend": True}, "append"),
    ]
    for call, keywords, nearest in calls:
        with pytest.raises(
            TypeError, match=rf"unexpected keyword argument '{next(iter(keywords))}'; did you mean '{nearest}'\?"
        ):
            call(**keywords)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'zzz'; it takes directory, parameters, every"):
        wy.train.Checkpoint("x", zzz=3)  # type: ignore[call-arg]  # what it refuses


def test_arguments_of_callbacks_are_named(tmp_path: Path) -> None:
    anything: Any = wy.train
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: anything.Checkpoint(tmp_path, 3), "parameters must be the model, or a dict .*, not 3; .* keep_last="),
        (lambda: anything.Checkpoint(3), "directory must be a path"),
        (lambda: anything.Checkpoint(tmp_path, best_only="yes"), "best_only must be True or False"),
        (lambda: anything.CSVLogger(None), "file must be a path"),
        (lambda: anything.LambdaCallback(on_end=3), "on_end must be a function, not 3"),
        (lambda: anything.EarlyStopping(monitor=3), "monitor must be the name of a value"),
        (lambda: anything.EarlyStopping(higher_is_better="max"), "higher_is_better must be True or False"),
    ]
    for make, message in calls:
        with pytest.raises(DTypeError, match=message):
            make()


def test_a_module_is_no_optimizer() -> None:
    anything: Any = wy.nn.Linear(2, 3)
    with pytest.raises(TypeError, match=r"wyrm.compile takes an optimizer, .*, not Linear\(2, 3\)"):
        wy.compile(wy.Parameter(1.0) * 2.0, anything)


def test_keys_that_are_no_inputs_are_named() -> None:
    case = Case()
    other, name = wy.Input(name="other"), "x"
    keys: dict[Any, str] = {
        other: "other .* is not an input of this program, whose inputs are: x",
        3: "3 is neither; inputs: x",
    }
    for key, message in keys.items():
        with pytest.raises((WyrmError, TypeError), match=message):
            wy.train.fit(case.program, {key: DATA["x"]}, epochs=1)
    with pytest.raises(TypeError, match=r"'x' is a name among nodes; inputs: x"):
        wy.train.fit(case.program, {case.x: DATA["x"], name: DATA["x"]}, epochs=1)
    with pytest.raises(DataError, match="there is no column 'x' for the input x; the columns are: 'y'"):
        wy.train.fit(case.program, {"y": DATA["x"]}, epochs=1)


@pytest.mark.parametrize("count", [2**62, 2**70, -1, 1.5, True])
def test_counts_that_no_training_has_are_refused(count: Any, tmp_path: Path) -> None:
    case, other = Case(), Case()
    with pytest.raises(CheckpointError, match="steps of a program must be an integer of at least 0 and below 2"):
        case.program.load_state_dict({"steps": count, "epochs": 0})
    named = {"slope": case.slope}
    state = {"history": {"loss": [1.0]}, "program": {"steps": count, "epochs": 1}}
    other.slope.set(9.0)
    wy.io.Checkpoints(tmp_path).save(5, {"slope": other.slope}, other.optimizer, state)
    with pytest.raises(CheckpointError, match="steps of a program must be"):
        wy.train.fit(case.program, DATA, epochs=2, callbacks=[wy.train.Checkpoint(tmp_path, named, resume=True)])
    assert float(case.slope) == 0.5 and case.optimizer.steps == 0
    with pytest.raises((WyrmError, ValueError)):
        wy.io.Checkpoints(tmp_path).save(count, named, case.optimizer, {})


def test_a_state_of_an_optimizer_has_counts_below_the_limit() -> None:
    optimizer = Case().optimizer
    state = {name: np.full_like(array, 2**62) for name, array in optimizer.state_dict().items()}
    with pytest.raises(CheckpointError, match="holds a count that is not below 2"):
        optimizer.load_state_dict(state)
    with pytest.raises(DTypeError, match=r"load_state_dict takes arrays by name, .*, not None"):
        optimizer.load_state_dict(None)  # type: ignore[arg-type]  # what it refuses

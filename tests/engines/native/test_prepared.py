"""Short epochs in one call a thread: what may change between two of them, and what ends one early."""

from __future__ import annotations

import copy
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wyrm as wy
from wyrm.engines.native.run.epoch import NativeEpoch
from wyrm.engines.native.run.prepared import PreparedEpoch
from wyrm.errors import Diverged, IndexOutOfRange, LinAlgError

ROWS, ITEMS = 230, 40


class Batch(wy.Dim): ...


class Words(wy.Ragged): ...


class Line:
    """A line with noise from the graph, trained in batches of 32: seven full ones and a smaller one."""

    def __init__(self, optimizer: Callable[..., Any] = wy.optim.Adam, rate: Any = 0.05, **options: Any) -> None:
        wy.nn.seed(0)
        random = np.random.default_rng(0)
        self.x, self.factor = wy.Input(dims=(Batch(),), name="x"), wy.Input(name="factor")
        self.slope, self.offset = wy.Parameter(0.1), wy.Parameter(0.2)
        noise = wy.random.normal((Batch(),), seed=1)
        error = self.slope * self.x + self.offset - self.factor + 0.01 * noise
        loss = error.square().mean()
        self.optimizer = optimizer([self.slope, self.offset], rate, **options)
        self.program = wy.compile(loss, self.optimizer, metrics={"mean": error.mean(), "sum": error.sum()})
        self.factor.set(2.0)
        self.data: NDArray[np.float32] = random.normal(size=ROWS).astype(np.float32)

    def epoch(self, **options: Any) -> dict[str, float]:
        chosen: dict[str, Any] = {"batch_size": 32, "shuffle": True, **options}
        found: dict[str, float] = self.program.epoch({self.x: self.data}, **chosen)
        return found

    def values(self) -> tuple[float, float]:
        return float(self.slope), float(self.offset)


@pytest.fixture(autouse=True)
def _still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock: no epoch takes too long to be one call, however slow the steps are."""
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)


@pytest.fixture
def in_chunks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after which no epoch is one call."""
    return lambda: monkeypatch.setattr(NativeEpoch, "_prepared", lambda self, partition, again: None)


def _is_prepared(program: Any) -> bool:
    engine: Any = program._engine
    return bool(engine.prepared)


def _changed(line: Line, number: int) -> None:
    """Change something between two epochs, another thing each time."""
    match number % 9:
        case 3:
            line.data[::2] += 1.0
        case 4:
            line.optimizer.learning_rate = 0.01
        case 5:
            line.data = line.data[::-1].copy()
        case 6:
            line.factor.set(1.0)
        case 7:
            line.slope.set(0.5)
        case 8:
            line.program.load_state_dict({"steps": 1000, "epochs": 40})


@pytest.mark.parametrize("optimizer", [wy.optim.SGD, wy.optim.Adam, wy.optim.AdamW, wy.optim.Lion])
def test_epochs_in_one_call_equal_those_in_chunks(optimizer: Any, in_chunks: Callable[[], None]) -> None:
    found, expected = Line(optimizer), Line(optimizer)
    results = []
    for number in range(18):
        _changed(found, number)
        results.append((found.epoch(), found.values()))
    assert _is_prepared(found.program)
    in_chunks()
    for number in range(18):
        _changed(expected, number)
        outputs, values = expected.epoch(), expected.values()
        assert results[number][0] == pytest.approx(outputs, rel=1e-12)
        assert results[number][1] == values
    assert not _is_prepared(expected.program)
    assert found.program.state_dict() == expected.program.state_dict()
    assert found.optimizer.steps == expected.optimizer.steps


def test_epochs_of_rows_of_any_length_in_one_call_equal_those_in_chunks(in_chunks: Callable[[], None]) -> None:
    random = np.random.default_rng(1)
    columns = [wy.RaggedArray.of_rows([random.normal(size=random.integers(0, 9)) for _ in range(ROWS)]) for _ in "ab"]

    def epochs() -> tuple[Any, list[Any]]:
        x, factor = wy.Input(dims=(Batch(), Words()), name="x"), wy.Input(name="factor")
        slope = wy.Parameter(np.zeros(ITEMS, np.float32), name="slope")
        loss = ((x * slope.index(wy.entry_positions(x)) - factor).tanh().sum(axis=1) - 1.0).square().mean()
        program = wy.compile(loss, wy.optim.Adam([slope], 0.05))
        factor.set(0.5)
        found = []
        for number in range(8):
            if number == 5:
                factor.set(1.0)
            data = {x: columns[number // 4]}
            loss_of_all = program.epoch(data, batch_size=32, shuffle=True, seed=number)
            found.append((loss_of_all, slope.value.tolist()))
        return program, found

    program, found = epochs()
    assert _is_prepared(program)
    in_chunks()
    for (mine, values), (outputs, same) in zip(found, epochs()[1], strict=True):
        assert mine == pytest.approx(outputs, rel=1e-12)
        assert values == same


def test_other_sizes_and_options_are_other_epochs(in_chunks: Callable[[], None]) -> None:
    def epochs(line: Line) -> list[Any]:
        every: list[Any] = []
        kinds: list[tuple[int, dict[str, Any]]] = [
            (230, {}), (230, {"batch_size": 23}), (100, {}), (20, {}), (230, {"shuffle": False}), (230, {"seed": 5}),
            (230, {"batch_size": 230}), (230, {"accumulate": 2}), (230, {}),
        ]  # fmt: skip
        for rows, options in kinds:
            whole = line.data
            line.data = whole[:rows]
            every += [(line.epoch(**options), line.values()) for _ in range(3)]
            line.data = whole
        return every

    found = epochs(Line())
    in_chunks()
    for (mine, values), (outputs, same) in zip(found, epochs(Line()), strict=True):
        assert mine == pytest.approx(outputs, rel=1e-12)
        assert values == same


def test_schedules_are_followed(in_chunks: Callable[[], None]) -> None:
    schedule = lambda step: 0.1 / (1.0 + 0.1 * step)  # noqa: E731
    found, expected = Line(rate=schedule), Line(rate=schedule)
    mine = [found.epoch() for _ in range(6)]
    assert _is_prepared(found.program)
    in_chunks()
    assert mine == [pytest.approx(expected.epoch(), rel=1e-12) for _ in range(6)]
    assert found.values() == expected.values()


def test_a_schedule_that_raises_changes_nothing() -> None:
    line = Line(rate=lambda step: 0.1 if step < 30 else 1 / 0)
    for _ in range(3):
        line.epoch()
    before = line.values(), line.program.state_dict()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            line.epoch()
        assert (line.values(), line.program.state_dict()) == before


def test_a_loss_that_is_not_finite_leaves_the_last_good_state() -> None:
    line = Line(wy.optim.SGD)
    for _ in range(4):
        line.epoch()
    before, state = line.values(), {name: array.copy() for name, array in line.optimizer.state_dict().items()}
    counts = line.program.state_dict()
    line.data[200] = 3e38
    for _ in range(2):
        with pytest.raises(Diverged, match=r"became NaN or infinite in epoch 5, batch . at learning rate 0.05; the"):
            line.epoch()
        assert line.values() == before
        assert all((array == state[name]).all() for name, array in line.optimizer.state_dict().items())
        assert line.program.state_dict() == counts
    line.data[200] = 0.0
    line.epoch()
    assert line.program.state_dict() == {"steps": 40, "epochs": 5}


def test_parameters_that_are_not_finite_at_the_end_are_undone() -> None:
    x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
    optimizer = wy.optim.SGD([slope], 1.0)
    program = wy.compile((slope * x).mean(), optimizer)
    data = np.ones(4, np.float32)
    for _ in range(3):
        program.epoch({x: data}, batch_size=4)
    before = float(slope)
    data[:] = 3e38  # the loss is finite, the step is not
    slope.set(-1.0)
    optimizer.learning_rate = 1e3
    with pytest.raises(Diverged, match="epoch 4, batch 1"):
        program.epoch({x: data}, batch_size=4)
    assert (before, float(slope)) == (-2.0, -1.0)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [ROWS, 4001])
def test_tables_are_trained_as_in_chunks(threads: int, rows: int, in_chunks: Callable[[], None]) -> None:
    random = np.random.default_rng(1)
    users, items = random.integers(0, ITEMS, rows), random.integers(0, 2 * ITEMS, rows)

    def training() -> list[Any]:
        wy.nn.seed(0)
        batch = Batch()
        user, item = wy.IndexInput(dims=(batch,), name="user"), wy.IndexInput(dims=(batch,), name="item")
        first, second = wy.nn.Embedding(ITEMS, 4), wy.nn.Embedding(2 * ITEMS, 4)
        drawn = wy.random.index(2 * ITEMS, (batch,), seed=0)
        score = first(user).vector_dot(second(item)) - first(user).vector_dot(second(drawn))
        program = wy.compile(-score.sigmoid().mean(), wy.optim.Adagrad([first.weight, second.weight], 0.1))
        found: list[Any] = []
        given = {user: users.copy(), item: items.copy()}
        for number in range(8):
            if number == 5:
                given[item][:20] = given[user][:20]
            found.append(program.epoch(given, batch_size=7, shuffle=True, threads=threads, mode="synchronized"))
            found.append((first.weight.value.copy(), second.weight.value.copy()))
        with pytest.raises(IndexOutOfRange, match=r"column item holds 80 in row 7.*no parameter has moved"):
            given[item][7] = 2 * ITEMS
            program.epoch(given, batch_size=7, shuffle=True, threads=threads, mode="synchronized")
        assert (found[-1][0] == first.weight.value).all()
        return found

    mine = training()
    in_chunks()
    for found, expected in zip(mine, training(), strict=True):
        if isinstance(found, float):
            assert found == pytest.approx(expected, rel=1e-10)
        else:
            assert all((a == b).all() for a, b in zip(found, expected, strict=True))


def test_an_error_of_native_code_ends_the_epoch_after_the_steps_before(in_chunks: Callable[[], None]) -> None:
    def training() -> list[Any]:
        x, slope = wy.Input(dims=(Batch(), 2, 2), name="x", dtype=np.float64), wy.Parameter(1.0, dtype=np.float64)
        optimizer = wy.optim.SGD([slope], 0.01)
        program = wy.compile(wy.linalg.cholesky(slope * x).mean(), optimizer)
        data, found = np.tile(np.eye(2), (50, 1, 1)), list[Any]()
        for number in range(5):
            data[20] = -np.eye(2) if number == 3 else np.eye(2)
            if number == 3:
                with pytest.raises(LinAlgError, match="no parameter has moved in this step"):
                    program.epoch({x: data}, batch_size=8)
            else:
                found.append(program.epoch({x: data}, batch_size=8))
            found.append((float(slope), program.state_dict(), optimizer.steps))
        return found

    mine = training()
    in_chunks()
    assert mine == training()


def test_a_copy_begins_anew() -> None:
    line = Line()
    for _ in range(3):
        line.epoch()
    other = copy.deepcopy(line.program)
    expected = [line.epoch() for _ in range(3)]
    assert [other.epoch({line.x: line.data}, batch_size=32, shuffle=True) for _ in range(3)] == expected


# --- several epochs in one call ---------------------------------------------------------------------------------------


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of the numbers of epochs of each call of native code."""
    found: list[int] = []
    run = PreparedEpoch.run

    def counted(self: PreparedEpoch, seeds: Any, stop: Any) -> None:
        found.append(len(seeds))
        run(self, seeds, stop)

    monkeypatch.setattr(PreparedEpoch, "run", counted)
    return found


def _fitted(line: Line, epochs: int, *callbacks: wy.train.Callback) -> Any:
    data: Any = {line.x: line.data}
    return wy.train.fit(line.program, data, epochs=epochs, batch_size=32, shuffle=True, callbacks=callbacks)


@pytest.mark.parametrize("optimizer", [wy.optim.SGD, wy.optim.Adam, wy.optim.Lion])
def test_epochs_of_fit_equal_those_one_by_one(optimizer: Any, runs: list[int]) -> None:
    found, expected = Line(optimizer), Line(optimizer)
    history = _fitted(found, 20)
    again = _fitted(found, 3)
    assert runs == [19, 3]
    one_by_one = [expected.epoch() for _ in range(23)]
    for name in ("loss", "mean", "sum"):
        assert [*history[name], *again[name]] == [outputs[name] for outputs in one_by_one]
    assert found.values() == expected.values()
    assert found.program.state_dict() == expected.program.state_dict()
    mine, theirs = found.optimizer.state_dict(), expected.optimizer.state_dict()
    assert all((array == theirs[name]).all() for name, array in mine.items())
    assert found.epoch() == expected.epoch()


def test_the_history_has_the_mean_loss_of_each_epoch_of_a_sum(runs: list[int]) -> None:
    def trained() -> tuple[Any, wy.Input, wy.Parameter]:
        x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
        return wy.compile((slope * x).square().sum(), wy.optim.SGD([slope], 1e-4)), x, slope

    data = np.linspace(0.0, 1.0, 50, dtype=np.float32)
    (program, x, slope), (other, y, same) = trained(), trained()
    history = wy.train.fit(program, {x: data}, epochs=6, batch_size=8)
    assert runs == [5]
    sums = [other.epoch({y: data}, batch_size=8) for _ in range(6)]
    assert history["loss"] == sums and float(slope) == float(same)
    assert history["mean_loss"] == [total / 50 for total in sums]


class Slopes(wy.train.Callback):
    """Notes a parameter after each epoch."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.found: list[float] = []

    def on_epoch_end(self, run: Any, values: Any) -> None:
        self.found.append(float(self.line.slope))


def test_epochs_in_which_something_acts_are_done_one_by_one(runs: list[int]) -> None:
    line, twin = Line(), Line()
    slopes = Slopes(line)
    _fitted(line, 6, slopes)
    assert set(runs) == {1}
    expected = []
    for _ in range(6):
        twin.epoch()
        expected.append(float(twin.slope))
    assert slopes.found == expected
    runs.clear()
    for rate in (lambda step: 0.1 / (1 + step), 0.1):
        scheduled = Line(rate=rate)
        data: Any = {scheduled.x: scheduled.data}
        validation = None if callable(rate) else data
        wy.train.fit(scheduled.program, data, epochs=4, batch_size=32, validation=validation)
    assert set(runs) == {1}


def test_early_stopping_ends_between_epochs_of_one_call(runs: list[int]) -> None:
    class Watched(wy.train.EarlyStopping):
        """Stops as its base class does, after each epoch."""

    histories, values = [], []
    for kind in (wy.train.EarlyStopping, Watched):
        line = Line(rate=0.02)
        histories.append(_fitted(line, 300, kind(5, "loss", minimum_change=1e-3, restore_best=False)))
        values.append((line.values(), line.program.state_dict(), line.optimizer.steps))
    assert histories[0]["loss"] == histories[1]["loss"] and values[0] == values[1]
    assert histories[0].stopped == histories[1].stopped == "early"
    several = [count for count in runs if count > 1]
    assert max(several) == 5 and sum(several) > histories[0].epochs // 2


def test_an_interrupt_after_several_epochs_finds_all_of_them_in_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    run = PreparedEpoch.run

    def interrupted(self: PreparedEpoch, seeds: Any, stop: Any) -> None:
        run(self, seeds, stop)
        if len(seeds) > 1:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(PreparedEpoch, "run", interrupted)
    line, twin = Line(), Line()
    history = _fitted(line, 20)
    assert history.stopped == "interrupted" and history.epochs == 20
    assert line.program.state_dict()["epochs"] == history.epochs
    assert history["loss"] == [twin.epoch()["loss"] for _ in range(history.epochs)]
    assert line.values() == twin.values()


def test_an_epoch_that_diverges_is_the_one_it_would_be_alone(runs: list[int]) -> None:
    def until_it_diverges(*callbacks: wy.train.Callback) -> Any:
        line = Line(wy.optim.SGD, rate=1.1)  # each step doubles the error

        class Losses(wy.train.Callback):
            def on_epoch_end(self, run: Any, values: Any) -> None:
                found.append(values["loss"])

            def epochs_ahead(self, run: Any) -> int:
                return 1 if callbacks else 1000

        found: list[float] = []
        with pytest.raises(Diverged) as error:
            _fitted(line, 100, Losses())
        return str(error.value), found, line.values(), line.program.state_dict(), line.optimizer.steps

    several, alone = until_it_diverges(), until_it_diverges(wy.train.Callback())
    assert max(runs) > 50 and "in epoch" in several[0]
    assert several == alone


def test_an_error_of_native_code_in_a_later_epoch_is_the_one_it_would_be_alone(runs: list[int]) -> None:
    def training(ahead: int) -> Any:
        class Ahead(wy.train.Callback):
            def epochs_ahead(self, run: Any) -> int:
                return ahead

        x, slope = wy.Input(dims=(Batch(), 2, 2), name="x", dtype=np.float64), wy.Parameter(1.0, dtype=np.float64)
        program = wy.compile(wy.linalg.cholesky(slope * x).mean(), wy.optim.SGD([slope], 0.01))
        data = np.tile(np.eye(2), (50, 1, 1))
        with pytest.raises(LinAlgError, match="no parameter has moved in this step") as error:
            wy.train.fit(program, {x: data}, epochs=200, batch_size=8, callbacks=[Ahead()])
        return str(error.value), float(slope), program.state_dict()

    assert training(1000) == training(1)
    assert max(runs) > 50

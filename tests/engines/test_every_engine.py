"""What every engine owes: each test runs a program on one engine, beside the same on another one.

It tries wyrm's engines, those of installed packages, and those that the environment variable `WYRM_TEST_ENGINES` names.
"""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.native.test_ops import check
from tests.samples.grouped import grouped
from tests.samples.sample import Sample
from wyrm.engines import Engine
from wyrm.engines import registry as engines
from wyrm.errors import Diverged, IndexOutOfRange, NotFinite, OptionError, ShapeError, Unavailable


class Batch(wy.Dim): ...


engines.register("written", "tests.engines.written:WrittenEngine")
# More engines to try, as in WYRM_TEST_ENGINES="mine=my_package.engine:MyEngine"; those of installed packages are tried.
for _entry in os.environ.get("WYRM_TEST_ENGINES", "").split():
    engines.register(*_entry.split("=", 1))
NAMES = [name for name in engines.names() if engines.engine_class(name).is_installed()]


@pytest.fixture(params=NAMES, name="engine")
def _engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def beside(engine: str) -> list[str]:
    """Return an engine to compare with, and the engine."""
    return ["written" if engine == "native" else "native", engine]


class Classifier:
    """A small classifier with its data and program."""

    def __init__(self, engine: Any, optimizer: Callable[[Any], Any] | None = None, dtype: Any = np.float32) -> None:
        wy.nn.seed(0)
        self.x, self.y = wy.Input(dims=(Batch(), 8), name="x", dtype=dtype), wy.IndexInput(dims=(Batch(),), name="y")
        self.model = wy.nn.Sequential(
            wy.nn.Linear(8, 16, dtype=dtype), wy.nn.Activation("tanh"), wy.nn.Linear(16, 3, dtype=dtype)
        )
        logits = self.model(self.x)
        loss = logits.cross_entropy(self.y).mean()
        right = (logits.argmax(axis=-1) == self.y).astype(dtype).mean()
        self.loss: Any = loss
        self.optimizer: Any = (optimizer or (lambda parameters: wy.optim.Adam(parameters, 1e-2)))(loss.parameters())
        self.program: Any = wy.compile(loss, self.optimizer, metrics={"accuracy": right}, engine=engine)
        self.forward = wy.compile(logits, engine=engine)
        random = np.random.default_rng(0)
        self.data = {self.x: random.normal(size=(103, 8)).astype(dtype), self.y: random.integers(0, 3, 103)}

    def values(self) -> list[np.ndarray]:
        return [parameter.value for parameter in self.model.parameters()]


def both(engine: str, optimizer: Callable[[Any], Any] | None = None, dtype: Any = np.float32) -> list[Classifier]:
    return [Classifier(name, optimizer, dtype) for name in beside(engine)]


def assert_equal_models(models: list[Classifier], tolerance: float = 1e-5) -> None:
    for a, b in zip(*(model.values() for model in models), strict=True):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


# --- calls ------------------------------------------------------------------------------------------------------------


def test_calls_step_and_return_arrays(engine: str) -> None:
    models = both(engine)
    for _ in range(3):
        found = [model.program(model.data) for model in models]
        assert {name: type(value) for name, value in found[1].items()} == {"loss": np.ndarray, "accuracy": np.ndarray}
        assert float(found[1]["loss"]) == pytest.approx(float(found[0]["loss"]), rel=1e-5)
    assert_equal_models(models)
    logits = [model.forward({model.x: model.data[model.x][:4]}) for model in models]
    assert logits[1].dtype == np.float32
    np.testing.assert_allclose(logits[1], logits[0], rtol=1e-4, atol=1e-5)


def test_each_call_returns_arrays_of_its_own(engine: str) -> None:
    x = wy.Input(dims=(3,), name="x")
    program = wy.compile([x * 2.0, x.sum()], engine=engine)
    first = program({x: np.ones(3)})
    second = program({x: np.zeros(3)})
    assert [array.tolist() for array in first] == [[2.0, 2.0, 2.0], 3.0]
    assert [array.tolist() for array in second] == [[0.0, 0.0, 0.0], 0.0]
    x.set(np.full(3, 5.0))
    assert program()[1] == 15.0


def test_random_nodes_draw_by_the_step(engine: str) -> None:
    found = []
    for name in beside(engine):
        x = wy.Input(dims=(Batch(), 4), name="x")
        program = wy.compile((x.dropout(0.5, seed=3, stream=1)).sum(axis=1), engine=name)
        values = [program({x: np.ones((6, 4))}) for _ in range(3)]
        assert program.state_dict() == {"steps": 3, "epochs": 0}
        with wy.random.at_step(1):
            np.testing.assert_array_equal(program({x: np.ones((6, 4))}), values[1])
        assert program.state_dict() == {"steps": 3, "epochs": 0}
        found.append(np.stack(values))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[1][0] != found[1][1]).any()


def test_functions_of_fixed_shapes(engine: Any) -> None:
    @wy.function(engine=engine)
    def loss(w: Any, x: Any) -> Any:
        return ((x @ w).tanh() * w.sum()).sum()

    w, x = np.arange(3.0), np.arange(6.0).reshape(2, 3) / 7
    assert float(loss(w, x)) == pytest.approx(float((np.tanh(x @ w) * w.sum()).sum()))
    np.testing.assert_allclose(loss.grad()(w, x), wy.function(loss.function).grad()(w, x), rtol=1e-6)


@pytest.mark.parametrize("engine", [name for name in NAMES if name not in ("native", "jax")])
@grouped(24)
def test_every_op_equals_the_reference(samples: list[Sample], engine: str) -> None:
    """The engines of wyrm have such tests of their own, which try each way that they compute an op."""
    check(samples, np.float64, engine=engine)


# --- epochs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_epochs_with_metrics_in_a_random_order(engine: str, dtype: Any) -> None:
    models = both(engine, dtype=dtype)
    found = [
        [model.program.epoch(model.data, batch_size=10, shuffle=True, seed=3) for _ in range(3)] for model in models
    ]
    for a, b in zip(*found, strict=True):
        assert b == pytest.approx(a, rel=1e-5)
    assert_equal_models(models)
    assert models[1].program.state_dict() == {"steps": 33, "epochs": 3}


def test_fizzbuzz(engine: str) -> None:
    """The model of examples/fizzbuzz.py, with fewer epochs."""
    wy.nn.seed(0)
    bits, words = wy.Input(dims=(Batch(), 10), name="bits"), wy.IndexInput(dims=(Batch(),), name="words")
    model = wy.nn.Sequential(wy.nn.Linear(10, 100), wy.nn.Activation("relu"), wy.nn.Linear(100, 4))
    scores = model(bits)
    right = (scores.argmax(axis=-1) == words).astype(np.float32).mean()
    optimizer: Any = wy.optim.Adam(model.parameters(), 3e-3)
    program: Any = wy.compile(scores.cross_entropy(words).mean(), optimizer, metrics={"accuracy": right}, engine=engine)
    numbers = np.arange(101, 1024)
    data = {
        bits: 2.0 * ((numbers[:, None] >> np.arange(10)) & 1) - 1.0,
        words: np.where(numbers % 3 == 0, 1, 0) + np.where(numbers % 5 == 0, 2, 0),
    }
    history = wy.train.fit(program, data, epochs=60, batch_size=16, shuffle=True)
    assert history["accuracy"][-1] > 0.8 > history["accuracy"][0]


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD with momentum": lambda p: wy.optim.SGD(p, 0.1, momentum=0.9),
    "Adam with a schedule": lambda p: wy.optim.Adam(p, wy.optim.Step(0.05, 4, 0.5), max_norm=0.5),
    "Adagrad with an average": lambda p: wy.optim.Adagrad(p, 0.1, average=wy.optim.EMA(0.9)),
    "groups": lambda p: wy.optim.RMSprop([{"parameters": p[:2]}, {"parameters": p[2:], "learning_rate": 0.003}], 0.01),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_optimizers(engine: str, optimizer: Any) -> None:
    models = both(engine, optimizer)
    for model in models:
        model.program.epoch(model.data, batch_size=16)
        model.program(model.data)
    assert_equal_models(models, 1e-4)
    for name, array in models[0].optimizer.state_dict().items():
        np.testing.assert_allclose(models[1].optimizer.state_dict()[name], array, rtol=1e-3, atol=1e-6)


def test_accumulated_batches(engine: str) -> None:
    models = both(engine)
    means = [model.program.epoch(model.data, batch_size=10, accumulate=4, shuffle=True) for model in models]
    assert means[1] == pytest.approx(means[0], rel=1e-5)
    assert_equal_models(models)
    assert models[0].program.state_dict() == models[1].program.state_dict()


def test_batches_of_a_loader(engine: str) -> None:
    models = both(engine)
    found = []
    for model in models:
        names = dict(zip(("x", "y"), model.data.values(), strict=True))
        loader = wy.data.DataLoader(wy.data.Dataset(names), batch_size=10, shuffle=True, seed=1)
        found.append([model.program.epoch(loader)["loss"] for _ in range(2)])
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert_equal_models(models)
    assert models[1].program.state_dict() == {"steps": 22, "epochs": 2}


def test_inputs_that_take_one_row(engine: str) -> None:
    found = []
    for name in beside(engine):
        x, held, slope = wy.Input(name="x"), wy.Input(2.0, name="held"), wy.Parameter(0.5)
        program = wy.compile((slope * x - held).square(), wy.optim.SGD([slope], 0.1), engine=name)
        found.append((program.epoch({x: np.linspace(0.0, 1.0, 9)}), float(slope), program.evaluate({x: [1.0, 2.0]})))
    assert found[1] == pytest.approx(found[0], rel=1e-5)


def test_progress_counts_rows(engine: str) -> None:
    class Bar:
        rows = 0

        def update(self, rows: int) -> None:
            self.rows += rows

    model, bar = Classifier(engine), Bar()
    model.program.epoch(model.data, batch_size=10, progress=bar)
    assert bar.rows == 103


def _recommender(engine: Any, optimizer: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    wy.nn.seed(0)
    user, item = wy.IndexInput(dims=(Batch(),), name="user"), wy.IndexInput(dims=(Batch(),), name="item")
    users = wy.Parameter(np.random.default_rng(1).normal(size=(20, 4)), name="users", dtype=np.float32)
    items = wy.Parameter(np.random.default_rng(2).normal(size=(30, 4)), name="items", dtype=np.float32)
    loss = (users.index(user) * items.index(item)).sum(axis=-1).softplus().mean()
    random = np.random.default_rng(3)
    data = {user: random.integers(0, 20, 90), item: random.integers(0, 30, 90)}
    return wy.compile(loss, optimizer([users, items]), engine=engine), data, [users, items]


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: wy.optim.SGD(p, 0.5),
        lambda p: wy.optim.Adam(p, 0.05, max_norm=0.1),
        lambda p: wy.optim.Adagrad(p, 0.1, average=wy.optim.EMA(0.9)),
    ],
    ids=["SGD", "Adam", "Adagrad"],
)
def test_only_touched_rows_of_tables_move(engine: str, optimizer: Any) -> None:
    found = []
    for name in beside(engine):
        program, data, tables = _recommender(name, optimizer)
        before = tables[0].value
        program({leaf: column[:8] for leaf, column in data.items()})
        untouched = np.setdiff1d(np.arange(20), next(iter(data.values()))[:8])
        np.testing.assert_array_equal(tables[0].value[untouched], before[untouched])
        means = [program.epoch(data, batch_size=16, shuffle=True) for _ in range(3)]
        found.append((means, [table.value for table in tables]))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-5)
    for a, b in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_buffers_follow_the_batches(engine: str) -> None:
    found = []
    for name in beside(engine):
        wy.nn.seed(0)
        x = wy.Input(dims=(Batch(), 3), name="x")
        model = wy.nn.Sequential(wy.nn.Linear(3, 4), wy.nn.BatchNorm(4), wy.nn.Linear(4, 1))
        program = wy.compile(model(x).square().mean(), wy.optim.SGD(model.parameters(), 0.1), engine=name)
        data = {x: np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)}
        program.epoch(data, batch_size=8)
        program.backward(data)
        found.append([buffer.value for _, buffer in model.named_buffers()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


# --- gradients and evaluations ----------------------------------------------------------------------------------------


def test_backward_adds_gradients(engine: str) -> None:
    models = both(engine)
    losses = [[model.program.backward(model.data, weight=0.5) for _ in range(2)] for model in models]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    for p, q in zip(*(model.model.parameters() for model in models), strict=True):
        np.testing.assert_allclose(q.gradient, p.gradient, rtol=1e-4, atol=1e-6)
    for model in models:
        model.optimizer.step()
    assert_equal_models(models)


def test_row_sparse_gradients_of_backward(engine: str) -> None:
    gradients = []
    for name in beside(engine):
        program, data, tables = _recommender(name, lambda p: wy.optim.SGD(p, 0.5))
        program.backward(data)
        gradients.append([np.asarray(table.gradient) for table in tables])
    for a, b in zip(*gradients, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("steps", ["calls", "backward", "accumulate"])
def test_rows_whose_lookups_cancel_stay(engine: str, steps: str) -> None:
    """Optimizers that divide by the size of a gradient would make a whole step of the rounding of its terms."""
    random = np.random.default_rng(0)
    rows, weights = random.integers(0, 5, 40), random.standard_normal(40).astype(np.float32)
    kinds: list[Any] = [wy.optim.SGD, wy.optim.Adagrad, wy.optim.Adam, wy.optim.RMSprop, wy.optim.Lion, wy.optim.Adamax]
    for kind in kinds:
        table = wy.Parameter(random.standard_normal((50, 3)).astype(np.float32), name="table")
        i, j = wy.IndexInput(dims=(40,), name="i"), wy.IndexInput(dims=(40,), name="j")
        pairs = table.index(i) + table.index(i) - 2.0 * table.index(j)
        loss = (pairs * wy.Constant(weights[:, None])).sum()
        optimizer, before = kind([table], learning_rate=0.1), table.value.copy()
        program = wy.compile(loss, optimizer, engine=engine)
        data = {i: rows, j: rows}
        if steps == "calls":
            program(data)
        elif steps == "accumulate":
            program.epoch({leaf: np.stack([rows, rows]) for leaf in data}, batch_size=1, accumulate=2)
        else:
            program.backward(data)
            optimizer.step()
        np.testing.assert_array_equal(table.value, before)


def test_evaluation(engine: str) -> None:
    models = both(engine)
    for model in models:
        model.program.epoch(model.data, batch_size=10)
    found = [model.program.evaluate(model.data, batch_size=25) for model in models]
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    worst = {"worst": (wy.metrics.MaxError(), models[1].y, models[1].model(models[1].x).sum(axis=-1))}
    assert set(models[1].program.evaluate(models[1].data, metrics=worst)) == {"loss", "accuracy", "worst"}
    assert models[1].program.state_dict() == {"steps": 11, "epochs": 1}


# --- state, copies, pickles, forks ------------------------------------------------------------------------------------


def test_an_engine_and_the_host_see_each_others_changes(engine: str) -> None:
    models = both(engine)
    for model in models:
        model.program.epoch(model.data, batch_size=10)
        weight = model.model.parameters()[0]
        weight.set(weight.value * 0.5)
        model.program.epoch(model.data, batch_size=10)
        saved = model.optimizer.state_dict()
        model.program.epoch(model.data, batch_size=10)
        model.optimizer.load_state_dict(saved)
        model.program.epoch(model.data, batch_size=10)
        model.program.backward(model.data)
        model.optimizer.step()
        model.optimizer.zero_gradient()
        model.program.epoch(model.data, batch_size=10)
    assert_equal_models(models)
    for name, array in models[0].optimizer.state_dict().items():
        np.testing.assert_allclose(models[1].optimizer.state_dict()[name], array, rtol=1e-3, atol=1e-6)


def test_two_engines_take_turns_on_the_same_parameters(engine: str) -> None:
    alone, mixed = both(engine)
    other = wy.compile(mixed.loss, mixed.optimizer, engine=beside(engine)[0])
    for _ in range(2):
        mixed.program.epoch(mixed.data, batch_size=10)
        other.epoch(mixed.data, batch_size=10)
    for _ in range(4):
        alone.program.epoch(alone.data, batch_size=10)
    assert_equal_models([alone, mixed])


def test_copies_and_pickles(engine: str) -> None:
    model = Classifier(engine)
    model.program.epoch(model.data, batch_size=10)
    twin = copy.deepcopy(model.program)
    assert twin.engine == engine
    restored = pickle.loads(pickle.dumps(model.program))
    data = dict(zip(("x", "y"), model.data.values(), strict=True))
    shallow = copy.copy(model.program)
    assert shallow.optimizer is model.program.optimizer and shallow.state_dict() == model.program.state_dict()
    wanted = model.program.epoch(model.data, batch_size=10, shuffle=True)
    assert twin.epoch(model.data, batch_size=10, shuffle=True) == wanted
    assert restored.epoch(data, batch_size=10, shuffle=True) == wanted
    assert shallow.state_dict() == {"steps": 11, "epochs": 1}


def test_another_program_goes_on_with_the_same_bits(engine: str) -> None:
    model, other = Classifier(engine), Classifier(engine)
    model.program.epoch(model.data, batch_size=10, shuffle=True)
    for mine, theirs in zip(model.model.parameters(), other.model.parameters(), strict=True):
        theirs.set(mine.value)
    other.optimizer.load_state_dict(model.optimizer.state_dict())
    other.program.load_state_dict(model.program.state_dict())
    for each in (model, other):
        each.program.epoch(each.data, batch_size=10, shuffle=True)
        each.program(each.data)
    assert [a.tobytes() for a in model.values()] == [b.tobytes() for b in other.values()]


class Saving:
    """A bar that saves everything after some rows, and interrupts the epoch."""

    def __init__(self, model: Classifier, rows: int) -> None:
        self.model, self.left, self.saved = model, rows, tuple[Any, ...]()

    def update(self, rows: int) -> None:
        self.left -= rows
        if self.left <= 0:
            program = self.model.program
            counts, position = program.state_dict(), program._engine.position.state()
            self.saved = self.model.values(), self.model.optimizer.state_dict(), counts, position
            raise KeyboardInterrupt


@pytest.mark.parametrize("options", [{"batch_size": 10}, {"batch_size": 10, "shuffle": True, "accumulate": 2}], ids=str)
def test_an_epoch_goes_on_where_it_was_interrupted(engine: str, options: Any) -> None:
    whole, broken, resumed = Classifier(engine), Classifier(engine), Classifier(engine)
    wanted = whole.program.epoch(whole.data, **options)
    saving = Saving(broken, 1)
    with pytest.raises(KeyboardInterrupt):
        broken.program.epoch(broken.data, **options, progress=saving)
    values, state, counts, position = saving.saved
    assert 0 < position["rows"] < 103 and counts["epochs"] == 0
    for parameter, value in zip(resumed.model.parameters(), values, strict=True):
        parameter.set(value)
    resumed.optimizer.load_state_dict(state)
    resumed.program.load_state_dict(counts)
    resumed.program._engine.position.load(position)
    with pytest.raises(OptionError, match="the checkpoint was written after batch"):
        resumed.program.epoch(resumed.data, batch_size=7)
    resumed.program._engine.position.load(position)
    assert resumed.program.epoch(resumed.data, **options) == wanted
    assert resumed.program.state_dict() == whole.program.state_dict()
    assert [a.tobytes() for a in resumed.values()] == [b.tobytes() for b in whole.values()]


def test_an_interrupted_epoch_has_counted_its_steps(engine: str) -> None:
    model = Classifier(engine)
    with pytest.raises(KeyboardInterrupt):
        model.program.epoch(model.data, batch_size=10, progress=Saving(model, 1))
    assert 0 < model.program.state_dict()["steps"] == model.optimizer.steps < 11
    assert model.program.epoch(model.data, batch_size=10)["loss"] > 0.0


@pytest.mark.parametrize("loader", [False, True])
def test_an_index_that_a_step_computes_wrongly_leaves_the_steps_before_it(engine: str, loader: bool) -> None:
    """In the second batch of the fourth step; the error does not say that no parameter has moved at all."""
    scores, table = wy.Input(dims=(Batch(), 4), name="scores"), wy.Parameter(np.zeros((3, 2), np.float32), name="table")
    optimizer = wy.optim.SGD([table], 1.0)
    program: Any = wy.compile(table.index(scores.argmax(axis=1)).sum(), optimizer, engine=engine)
    chosen = np.arange(60) % 3
    chosen[50] = 3
    rows = np.eye(4, dtype=np.float32)[chosen]
    batches = [{scores: rows[start : start + 7]} for start in range(0, 60, 7)]
    options: Any = {} if loader else {"batch_size": 7}
    with pytest.raises(IndexError) as caught:
        program.epoch(batches if loader else {scores: rows}, accumulate=2, **options)
    assert optimizer.steps == 3 and program.state_dict() == {"steps": 6, "epochs": 0} and (table.value < 0).all()
    assert not str(caught.value).endswith("no parameter has moved") and "rows are counted" not in str(caught.value)


def test_a_program_works_after_a_fork(engine: str) -> None:
    model = Classifier(engine)
    data = {model.x: model.data[model.x]}
    before = model.forward(data)
    held = threading.Event()
    done = threading.Event()

    def hold() -> None:
        with model.forward._lock:
            held.set()
            assert done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    model.forward._after_fork()  # as in a process that was forked while another thread called the program
    np.testing.assert_array_equal(model.forward(data), before)
    done.set()
    thread.join()


def test_fit_with_callbacks_and_checkpoints(engine: str, tmp_path: Path) -> None:
    found = []
    for name in beside(engine):
        model = Classifier(name)
        history = wy.train.fit(
            model.program, model.data, epochs=3, batch_size=10, validation=model.data, shuffle=True,
            callbacks=[wy.train.Checkpoint(tmp_path / name), wy.train.ReduceOnPlateau(patience=1)],
        )  # fmt: skip
        found.append(history)
    assert list(found[1]["loss"]) == pytest.approx(list(found[0]["loss"]), rel=1e-5)
    assert list(found[1]["validation_loss"]) == pytest.approx(list(found[0]["validation_loss"]), rel=1e-5)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_bad_data_is_refused_before_anything_moves(engine: str) -> None:
    model = Classifier(engine)
    before = model.values()
    x, y = model.data[model.x], model.data[model.y]
    with pytest.raises(IndexOutOfRange, match=r"column y holds 3 in row 7"):
        model.program.epoch({model.x: x, model.y: np.where(np.arange(103) == 7, 3, y)}, batch_size=10)
    with pytest.raises(NotFinite, match=r"column x holds nan in row 2"):
        model.program.epoch({model.x: np.where(np.arange(103)[:, None] == 2, np.nan, x), model.y: y}, batch_size=10)
    with pytest.raises(ShapeError, match="different lengths"):
        model.program.epoch({model.x: x[:5], model.y: y}, batch_size=10)
    with pytest.raises(ShapeError, match="axis Batch is 4"):
        model.program({model.x: x[:5], model.y: y[:4]})
    with pytest.raises(IndexOutOfRange, match=r"column y holds 3 in row 0"):
        model.program.backward({model.x: x[:1], model.y: [3]})
    if engine != "native":
        with pytest.raises(OptionError, match="takes no threads"):
            model.program.epoch(model.data, batch_size=10, threads=2)
        with pytest.raises(OptionError, match="takes no threads"):
            model.program.backward(model.data, threads=2)
    for a, b in zip(before, model.values(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert model.program.state_dict() == {"steps": 0, "epochs": 0}


def test_indices_beyond_an_axis_that_the_data_sizes(engine: str) -> None:
    class Classes(wy.Dim): ...

    x, y, slope = wy.Input(dims=(Batch(), Classes()), name="x"), wy.IndexInput(dims=(Batch(),)), wy.Parameter(1.0)
    program = wy.compile((slope * x).cross_entropy(y).mean(), wy.optim.SGD([slope], 0.5), engine=engine)
    with pytest.raises(IndexOutOfRange, match="holds 3 in row 1"):
        program.epoch({x: np.ones((4, 3)), y: [0, 3, 0, 0]}, batch_size=2)
    assert float(slope) == 1.0 and program.state_dict() == {"steps": 0, "epochs": 0}


def test_a_loss_that_is_not_finite_leaves_finite_parameters(engine: str) -> None:
    x = wy.Input(dims=(Batch(),), name="x", finite=False)
    weight = wy.Parameter(1.0)
    program = wy.compile((weight * x).mean(), wy.optim.SGD([weight], 0.5), engine=engine)
    data = np.ones(12, np.float32)
    data[7] = np.inf
    with pytest.raises(Diverged, match=r"in epoch 1, batch 4 at learning rate 0.5"):
        program.epoch({x: data}, batch_size=2)
    steps = program.state_dict()["steps"]
    assert float(weight) == 1.0 - steps * 0.5 and program.optimizer is not None and program.optimizer.steps == steps
    assert program.state_dict()["epochs"] == 0
    with pytest.raises(Diverged, match="no parameter has moved"):
        program({x: data})
    with pytest.raises(Diverged, match="no gradient was added"):
        program.backward({x: data})
    assert float(weight) == 1.0 - steps * 0.5 and weight.gradient == 0.0
    assert program.epoch({x: data[:6]}, batch_size=2) == pytest.approx(float(np.mean([1.0, 0.5, 0.0])) - steps * 0.5)


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"shuffle": True, "accumulate": 2}], ids=str)
def test_a_divergence_names_the_rows_of_its_batch(engine: str, options: dict[str, Any]) -> None:
    x, weight = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
    program = wy.compile((weight * x).sqrt().mean(), wy.optim.SGD([weight], 1e-3), engine=engine)
    data = np.ones(40, np.float32)
    for seed in range(5):  # later epochs of native code are one call
        program.epoch({x: data}, batch_size=3, seed=seed, **options)
    for bad in (1, 17, 39):
        data[bad] = -1.0
        with pytest.raises(Diverged, match=rf"\. The batch has the rows? (\d+, )*{bad}\b") as caught:
            program.epoch({x: data}, batch_size=3, **options)
        rows = caught.value.rows
        assert rows is not None and bad in rows
        assert len(set(rows.tolist())) == len(rows) <= 3 * options.get("accumulate", 1)
        data[bad] = 1.0
    loader = wy.data.DataLoader(wy.data.Dataset(x=-data), batch_size=3)
    with pytest.raises(Diverged) as caught:  # whose rows have no numbers
        program.epoch(loader)
    assert caught.value.rows is None


def test_many_rows_of_a_divergence_are_an_attribute(engine: str) -> None:
    x, weight = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
    program = wy.compile((weight * x).sqrt().mean(), wy.optim.SGD([weight], 1e-3), engine=engine)
    with pytest.raises(Diverged, match=r"rows 0, 1, 2, 3, 4, 5, 6, 7 and 12 more, error\.rows$") as caught:
        program.epoch({x: np.full(40, -1.0)}, batch_size=20)
    assert caught.value.rows is not None and caught.value.rows.tolist() == list(range(20))


ALL_KINDS: list[Any] = [
    wy.optim.SGD, wy.optim.Adadelta, wy.optim.Adafactor, wy.optim.Adagrad, wy.optim.Adam, wy.optim.AdamW,
    wy.optim.Adamax, wy.optim.LAMB, wy.optim.LARS, wy.optim.Lion, wy.optim.NAdam, wy.optim.RAdam, wy.optim.RMSprop,
]  # fmt: skip


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_call_whose_gradient_is_not_finite_changes_nothing(engine: str, kind: Any) -> None:
    weight, x = wy.Parameter(1.0, name="weight"), wy.Input(name="x")
    optimizer = kind([weight], learning_rate=0.1)
    program = wy.compile((weight * x).sqrt(), optimizer, engine=engine)
    program({x: 1.0})
    before, state = float(weight), {name: np.array(each) for name, each in optimizer.state_dict().items()}
    with pytest.raises(Diverged, match=r"in step 2 at learning rate 0\.1"):
        program({x: 0.0})
    assert float(weight) == before and program.state_dict() == {"steps": 1, "epochs": 0}
    after = optimizer.state_dict()
    assert all(np.array_equal(after[name], each) for name, each in state.items())
    program({x: 1.0})
    assert np.isfinite(float(weight)) and optimizer.steps == 2


@pytest.mark.parametrize("engine", ["native", "jax"])
@pytest.mark.parametrize("options", [{}, {"average": wy.optim.EMA(0.9)}, {"max_norm": 1.0}], ids=str)
def test_a_call_with_too_large_a_rate_changes_nothing(engine: str, options: dict[str, Any]) -> None:
    """Dense parameters, touched rows of a table, a number, and the buffers of batch normalization."""
    random = np.random.default_rng(0)
    table = wy.Parameter(random.standard_normal((50, 3)).astype(np.float32), name="table")
    scale, norm = wy.Parameter(2.0, name="scale"), wy.nn.BatchNorm1d(3)
    i = wy.IndexInput(dims=(Batch(),), name="i")
    loss = (norm(table.index(i)) * scale + table.index(i)).square().mean() * 1e3
    parameters = [table, scale, *norm.parameters()]
    optimizer = wy.optim.Adam(parameters, learning_rate=0.01, **options)
    program = wy.compile(loss, optimizer, engine=engine)
    rows = np.array([3, 1, 3, 40])
    program({i: rows})
    kept = [each.copy() for each in (*(p.value for p in parameters), *(b.value for _, b in norm.named_buffers()))]
    state = {name: np.array(each) for name, each in optimizer.state_dict().items()}
    optimizer.learning_rate = 3e38
    with pytest.raises(Diverged, match=r"in step 2 at learning rate 3e\+38; no parameter has moved"):
        program({i: rows})
    now = [*(p.value for p in parameters), *(b.value for _, b in norm.named_buffers())]
    assert all(np.array_equal(a, b) for a, b in zip(now, kept, strict=True))
    after = optimizer.state_dict()
    assert all(np.array_equal(after[name], each) for name, each in state.items() if "rate" not in name)
    optimizer.learning_rate = 0.01
    program({i: rows[::-1]})
    assert optimizer.steps == 2 and all(np.isfinite(p.value).all() for p in parameters)


def test_unknown_options_and_what_an_engine_lacks(engine: Any) -> None:
    x, weight = wy.Input(name="x"), wy.Parameter(1.0)
    loss, optimizer = weight * x, wy.optim.SGD([weight], 0.5)
    with pytest.raises(OptionError, match=r"engine must be 'native', .*, not 'natve'; did you mean 'native'\?"):
        wy.compile(loss, optimizer, engine="natve")
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'loops'; did you mean 'loop'\?"):
        wy.compile(loss, optimizer, engine=engine, loops="python")  # type: ignore[call-overload]  # no option
    taking: dict[str, list[str]] = {}
    for other in NAMES:
        for option in engines.engine_class(other).Options.__annotations__:
            taking.setdefault(option, []).append(other)
    for option, others in taking.items():
        if engine not in others:
            given: dict[str, Any] = {option: "python" if option == "loop" else 3}
            with pytest.raises(OptionError, match=rf"{option}\b.* is an option of engine='({'|'.join(others)})'"):
                wy.compile(loss, optimizer, engine=engine, **given)
    program = wy.compile(loss, optimizer, engine=engine)
    program({x: 1.0})
    assert program.source and list(program.stages())[:2] == ["graph", "differentiate"] and str(program.plan)
    kind = engines.engine_class(engine)
    for name in ("llvm", "assembly"):
        if getattr(kind, name) is getattr(Engine, name) or name in kind.refusals:
            with pytest.raises(Unavailable):
                getattr(program, name)
    if "profile" in kind.refusals:
        with pytest.raises(OptionError, match=r"profile|clocks"):
            program.profile({x: np.ones(3)})


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def known() -> Iterator[None]:
    before = dict(engines._known)
    yield
    engines._known.clear()
    engines._known.update(before)


def test_names_that_no_engine_can_have(known: None) -> None:
    kind = engines.engine_class("written")
    for name in ("native", "jax"):
        with pytest.raises(OptionError, match=f"engine '{name}' is wyrm's own"):
            engines.register(name, kind)
    wrong: Any
    for wrong in ("", "a b", 3, None):
        with pytest.raises(OptionError, match="must be a Python identifier"):
            engines.register(wrong, kind)
    for wrong in (3, None, int, kind.__new__):
        with pytest.raises(TypeError, match=r"an engine is a subclass of wy\.engines\.Engine"):
            engines.register("mine", wrong)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("nowhere.engine:E", "No module named 'nowhere'"),
        ("tests.engines.written:Nothing", "has no attribute 'Nothing'"),
        ("tests.engines.written", "has no attribute ''"),
        ("tests.engines.written:np", "is no subclass of wy.engines.Engine"),
    ],
)
def test_entries_without_an_engine(known: None, entry: str, reason: str) -> None:
    engines.register("mine", entry)
    engine: Any = "mine"
    with pytest.raises(OptionError, match=rf"engine 'mine' is registered as '{entry}', which .*{reason}"):
        wy.compile(wy.Input(name="x") * 2.0, engine=engine)


def test_an_engine_of_an_installed_package(known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[wyrm.engines]\nmine = tests.engines.written:WrittenEngine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    x, options = wy.Input(name="x"), dict[str, Any](comments=True)
    program = wy.compile(x * 2.0, engine="mine", **options)
    assert float(program({x: 3.0})) == 6.0 and program.engine == "mine" and "# multiply" in program.source
    assert "mine" in engines.names()


def test_the_packages_are_read_once_and_again_for_an_unknown_name(known: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    read = metadata.entry_points

    def entry_points(group: str) -> Any:
        found.append(group)
        return read(group=group)

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    before = engines.names()
    found.clear()
    assert engines.names() == before and not found
    with pytest.raises(OptionError, match="engine must be"):
        engines.engine_class("of a package that is not installed")
    assert found == ["wyrm.engines"]

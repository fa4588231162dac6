"""Programs of engine `jax` beside native ones: calls, epochs, gradients, evaluation, state, and errors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import Diverged, IndexOutOfRange, NotFinite, OptionError, ShapeError


class Batch(wy.Dim): ...


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


def both(optimizer: Callable[[Any], Any] | None = None, dtype: Any = np.float32) -> list[Classifier]:
    return [Classifier(engine, optimizer, dtype) for engine in ("native", "jax")]


def assert_equal_models(models: list[Classifier], tolerance: float = 1e-5) -> None:
    native, jax = (model.values() for model in models)
    for a, b in zip(native, jax, strict=True):
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_epochs_with_metrics(dtype: Any) -> None:
    models = both(dtype=dtype)
    found = [
        [model.program.epoch(model.data, batch_size=10, shuffle=True, seed=3) for _ in range(3)] for model in models
    ]
    for a, b in zip(*found, strict=True):
        assert b == pytest.approx(a, rel=1e-5)
    assert_equal_models(models)
    assert models[0].program.state_dict() == models[1].program.state_dict() == {"steps": 33, "epochs": 3}


def test_accumulated_batches() -> None:
    models = both()
    means = [model.program.epoch(model.data, batch_size=10, accumulate=4) for model in models]
    assert means[1] == pytest.approx(means[0], rel=1e-5)
    assert_equal_models(models)
    assert models[0].program.state_dict() == models[1].program.state_dict()


def test_calls_step_and_return_arrays() -> None:
    models = both()
    for _ in range(3):
        found = [model.program(model.data) for model in models]
        assert {name: type(value) for name, value in found[1].items()} == {"loss": np.ndarray, "accuracy": np.ndarray}
        assert float(found[1]["loss"]) == pytest.approx(float(found[0]["loss"]), rel=1e-5)
    assert_equal_models(models)
    logits = [model.forward({model.x: model.data[model.x][:4]}) for model in models]
    assert logits[1].dtype == np.float32
    np.testing.assert_allclose(logits[1], logits[0], rtol=1e-4, atol=1e-5)


def test_backward_adds_gradients() -> None:
    models = both()
    losses = [[model.program.backward(model.data, weight=0.5) for _ in range(2)] for model in models]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    for p, q in zip(*(model.model.parameters() for model in models), strict=True):
        np.testing.assert_allclose(q.gradient, p.gradient, rtol=1e-4, atol=1e-6)
    for model in models:
        model.optimizer.step()
    assert_equal_models(models)


def test_evaluation() -> None:
    models = both()
    for model in models:
        model.program.epoch(model.data, batch_size=10)
    found = [model.program.evaluate(model.data, batch_size=25) for model in models]
    assert found[1] == pytest.approx(found[0], rel=1e-5)


def test_host_and_device_see_each_others_changes() -> None:
    native, jax = both()
    for model in (native, jax):
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
    assert_equal_models([native, jax])
    for name, array in native.optimizer.state_dict().items():
        np.testing.assert_allclose(jax.optimizer.state_dict()[name], array, rtol=1e-3, atol=1e-6)


def test_native_and_jax_programs_take_turns_on_the_same_parameters() -> None:
    native, mixed = both()
    other = wy.compile(mixed.loss, mixed.optimizer, engine="native")
    for _ in range(2):
        mixed.program.epoch(mixed.data, batch_size=10)
        other.epoch(mixed.data, batch_size=10)
    for _ in range(4):
        native.program.epoch(native.data, batch_size=10)
    assert_equal_models([native, mixed])


def test_copies_and_pickles() -> None:
    model = Classifier("jax")
    model.program.epoch(model.data, batch_size=10)
    twin = copy.deepcopy(model.program)
    assert twin.engine == "jax"
    assert twin.epoch(model.data, batch_size=10) == model.program.epoch(model.data, batch_size=10)
    restored = pickle.loads(pickle.dumps(model.program))
    data = dict(zip(("x", "y"), model.data.values(), strict=True))
    assert restored.epoch(data, batch_size=10) == model.program.epoch(model.data, batch_size=10)


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
def test_only_touched_rows_of_tables_move(optimizer: Any) -> None:
    found = []
    for engine in ("native", "jax"):
        program, data, tables = _recommender(engine, optimizer)
        before = tables[0].value
        program({leaf: column[:8] for leaf, column in data.items()})
        untouched = np.setdiff1d(np.arange(20), next(iter(data.values()))[:8])
        np.testing.assert_array_equal(tables[0].value[untouched], before[untouched])
        means = [program.epoch(data, batch_size=16, shuffle=True) for _ in range(3)]
        found.append((means, [table.value for table in tables]))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-5)
    for a, b in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_row_sparse_gradients_of_backward() -> None:
    gradients = []
    for engine in ("native", "jax"):
        program, data, tables = _recommender(engine, lambda p: wy.optim.SGD(p, 0.5))
        program.backward(data)
        gradients.append([np.asarray(table.gradient) for table in tables])
    for a, b in zip(*gradients, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


def test_buffers_follow_the_batches() -> None:
    found = []
    for engine in ("native", "jax"):
        wy.nn.seed(0)
        x = wy.Input(dims=(Batch(), 3), name="x")
        model = wy.nn.Sequential(wy.nn.Linear(3, 4), wy.nn.BatchNorm(4), wy.nn.Linear(4, 1))
        program = wy.compile(
            model(x).square().mean(),
            wy.optim.SGD(model.parameters(), 0.1),
            engine=engine,
        )
        data = {x: np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)}
        program.epoch(data, batch_size=8)
        program.backward(data)
        found.append([buffer.value for _, buffer in model.named_buffers()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


# --- errors --------------------------------------------------------------------------------------------------------


def test_bad_data_is_refused_before_anything_moves() -> None:
    model = Classifier("jax")
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
    with pytest.raises(OptionError, match="takes no threads"):
        model.program.epoch(model.data, batch_size=10, threads=2)
    for a, b in zip(before, model.values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_loss_that_is_not_finite_leaves_the_parameters_of_the_batch_before() -> None:
    x = wy.Input(dims=(Batch(),), name="x", finite=False)
    weight = wy.Parameter(1.0)
    program = wy.compile((weight * x).mean(), wy.optim.SGD([weight], 0.5), engine="jax")
    data = np.ones(12, np.float32)
    data[7] = np.inf
    with pytest.raises(Diverged, match=r"in epoch 1, batch 4 at learning rate 0.5; .* after batch 3"):
        program.epoch({x: data}, batch_size=2)
    assert float(weight) == 1.0 - 3 * 0.5
    assert program.state_dict() == {"steps": 3, "epochs": 0}
    with pytest.raises(Diverged, match="no parameter has moved"):
        program({x: data})
    assert float(weight) == 1.0 - 3 * 0.5
    assert program.epoch({x: data[:6]}, batch_size=2) == pytest.approx(-0.5 - 0.5)


def test_options_of_the_engine() -> None:
    x, weight = wy.Input(name="x"), wy.Parameter(1.0)
    loss, optimizer = weight * x, wy.optim.SGD([weight], 0.5)
    with pytest.raises(OptionError, match=r"engine must be 'native'.* 'jax'.*, not 'xla'"):
        wy.compile(loss, optimizer, engine="xla")
    with pytest.raises(OptionError, match="compute_dtype is an option of engine='jax'"):
        wy.compile(loss, optimizer, compute_dtype="bfloat16")
    with pytest.raises(OptionError, match="compute_dtype must be 'float32' or 'bfloat16'"):
        wy.compile(loss, optimizer, engine="jax", compute_dtype="float16")  # type: ignore[call-overload]  # no such dtype
    with pytest.raises(OptionError, match="loop='python' is an option of engine='native'"):
        wy.compile(loss, optimizer, engine="jax", loop="python")
    with pytest.raises(TypeError, match=r"takes no keyword 'device'.*engine='jax'"):
        wy.compile(loss, optimizer, device="gpu")  # type: ignore[call-overload]  # no option


def test_the_code_of_a_program() -> None:
    model = Classifier("jax")
    with pytest.raises(OptionError, match="has not run"):
        model.program.stages()
    model.program(model.data)
    assert "stablehlo.dot_general" in model.program.source
    assert list(model.program.stages()) == ["graph", "differentiate", "deduplicate", "stablehlo", "optimized"]
    assert model.program.plan.peak_bytes > 0
    with pytest.raises(OptionError, match="XLA"):
        _ = model.program.llvm


def test_bfloat16_activations_keep_float32_parameters() -> None:
    exact, narrow = Classifier("jax"), Classifier("jax")
    narrow.program = wy.compile(narrow.loss, narrow.optimizer, engine="jax", compute_dtype="bfloat16")
    losses = [exact.program.epoch(exact.data, batch_size=10)["loss"], narrow.program.epoch(narrow.data, batch_size=10)]
    assert "bf16" in narrow.program.source
    assert losses[1] != losses[0]
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)
    assert all(value.dtype == np.float32 for value in narrow.values())


def test_fit_with_callbacks_and_checkpoints(tmp_path: Path) -> None:
    found = []
    for engine in ("native", "jax"):
        model = Classifier(engine)
        folder = tmp_path / engine
        saving = wy.train.Checkpoint(folder)
        history = wy.train.fit(
            model.program, model.data, epochs=3, batch_size=10, validation=model.data, shuffle=True,
            callbacks=[saving, wy.train.ReduceOnPlateau(patience=1), wy.train.EarlyStopping(patience=5)],
        )  # fmt: skip
        found.append(history)
    assert list(found[1]["loss"]) == pytest.approx(list(found[0]["loss"]), rel=1e-5)
    assert list(found[1]["validation_loss"]) == pytest.approx(list(found[0]["validation_loss"]), rel=1e-5)


def test_batches_of_a_loader() -> None:
    models = both()
    found = []
    for model in models:
        names = dict(zip(("x", "y"), model.data.values(), strict=True))
        loader = wy.data.DataLoader(wy.data.Dataset(names), batch_size=10, shuffle=True, seed=1)
        found.append([model.program.epoch(loader)["loss"] for _ in range(2)])
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert_equal_models(models)

"""Exported code trains as Python does: the same losses, parameters, state and counts; bad input changes nothing.

With all optimizations the bits are the same too; most tests lower these, and then products and sums fuse differently.

All memory that it is given lies between pages that must not be touched.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.loaded import Loaded, loaded
from tests.exporting.models import Batch, Model, classifier, recommender
from wyrm.exporting.errors import ERRORS
from wyrm.exporting.exported import tensors_of

CODES = {name: code for name, (code, _) in ERRORS.items()}
BATCH = 8
MODELS = {"classifier": classifier, "recommender": recommender}


@pytest.fixture(scope="module", params=MODELS)
def made(request: pytest.FixtureRequest) -> tuple[Model, Loaded]:
    """Return a model, and its export with the block at the start and at the end of its pages in turn."""
    model = MODELS[request.param]()
    return model, loaded(model.train, model.predict, batch_sizes=BATCH, at_end=request.param == "classifier")


def columns(model: Model, rows: int | None = None) -> dict[str, np.ndarray]:
    return {leaf.name: array[:rows] for leaf, array in model.data.items()}


def epoch(export: Loaded, given: dict[str, Any], **options: Any) -> tuple[int, np.ndarray]:
    rows = next(len(array) for array in given.values() if array is not None)
    code, found = export.call("epoch", rows, **{"batch": BATCH, "shuffle": 1, "seed": 7, **given, **options})
    return code, found["results"]


def state(export: Loaded) -> dict[str, np.ndarray]:
    return {each.name: export.tensor(each.name).copy() for each in export.interface.tensors}


def close(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], rtol=1e-4, atol=1e-6, err_msg=name)
        assert array.dtype.kind == "f" or (array == other[name]).all()


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


def test_epochs_are_those_of_python(made: tuple[Model, Loaded]) -> None:
    model, export = made
    assert export.start() == 0
    for number in range(3):
        code, results = epoch(export, columns(model))
        assert code == 0
        wanted = model.train.epoch(model.data, batch_size=BATCH, shuffle=True, seed=7)
        wanted = list(wanted.values()) if isinstance(wanted, dict) else [wanted]
        np.testing.assert_allclose(results, wanted, rtol=1e-5, err_msg=f"epoch {number}")
        close(state(export), tensors_of(export.built, model.train))


def test_steps_on_batches_of_any_size_are_those_of_python(made: tuple[Model, Loaded]) -> None:
    model, export = made
    assert export.start() == 0
    for rows in (1, 5, BATCH):
        code, found = export.call("step", rows, batch=rows, **columns(model, rows))
        assert code == 0
        wanted = model.train({leaf: array[:rows] for leaf, array in model.data.items()})
        wanted = list(wanted.values()) if isinstance(wanted, dict) else [wanted]
        np.testing.assert_allclose(found["results"], [float(each) for each in wanted], rtol=1e-5)
        close(state(export), tensors_of(export.built, model.train))


def test_predictions_are_those_of_python(made: tuple[Model, Loaded]) -> None:
    model, export = made
    assert export.start() == 0
    for name, program in model.predict.items():
        names = [each.name for each in export.built.predictions[name].given]
        for rows in range(1, BATCH + 1):
            given = {key: array for key, array in columns(model, rows).items() if key in names}
            code, found = export.call(name, rows, **given)
            feed = {leaf: array[:rows] for leaf, array in model.data.items() if leaf.name in names}
            assert code == 0
            np.testing.assert_allclose(next(iter(found.values())), program(feed), rtol=1e-5, atol=1e-6)


def test_bad_input_is_refused_and_changes_nothing(made: tuple[Model, Loaded]) -> None:
    model, export = made
    assert export.start() == 0
    before = state(export)
    given: dict[str, Any] = columns(model)
    name = "x" if "x" in given else "liked"
    rows = len(given[name])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"batch": 0}, "BATCH"), ({"batch": BATCH + 1}, "BATCH"), ({"batch": -1}, "BATCH"), ({"rows": 0}, "ARGUMENT"),
        ({"rows": -5}, "ARGUMENT"), ({"rows": 2**62}, "ARGUMENT"), ({"seed": -1}, "ARGUMENT"),
        ({name: None}, "ARGUMENT"),
    ]  # fmt: skip
    for options, error in cases:
        code, _ = epoch(export, given | options)
        assert code == CODES[error], (options, code)
    for key, array in given.items():
        for place in (0, rows - 1):
            for value in [4000, -1, 2**62, -(2**63)] if array.dtype.kind == "i" else [np.nan, np.inf]:
                wrong = array.copy()
                wrong.reshape(rows, -1)[place, -1] = value
                expected = CODES["INDEX" if array.dtype.kind == "i" else "NOT_FINITE"]
                assert epoch(export, given | {key: wrong})[0] == expected, (key, place, value)
                last = {other: part[-2:] for other, part in (given | {key: wrong}).items()}
                if place:
                    assert export.call("step", 2, batch=2, **last)[0] == expected
    assert same(state(export), before)
    assert epoch(export, given)[0] == 0


def test_a_block_that_is_not_ready_is_refused(made: tuple[Model, Loaded]) -> None:
    model, export = made
    block, given = export.block, columns(model)
    assert block.bytes is not None
    block.bytes[...] = 255
    assert epoch(export, given)[0] == CODES["STATE"]
    initialize, size = export.function("model_init"), export.interface.memory_bytes
    assert initialize(block.address, size - 1) == CODES["MEMORY"]
    assert initialize(None, size) == CODES["MEMORY"]
    assert initialize(block.address + 8, size) == CODES["MEMORY"]
    assert initialize(block.address, size) == 0
    assert epoch(export, given)[0] == CODES["NOT_READY"]
    values = tensors_of(export.built, model.train)
    name = next(iter(values))
    wrong = {name: values[name] * np.nan, "program/epochs": np.array(-1)}
    for key, value in wrong.items():
        assert export.write(values | {key: value}) == CODES["TENSORS"]
        assert epoch(export, given)[0] == CODES["NOT_READY"]
    assert export.write(values) == 0
    assert epoch(export, given)[0] == 0
    assert export.write(values | {name: wrong[name]}) == CODES["TENSORS"]
    assert epoch(export, given)[0] == CODES["NOT_READY"]
    assert export.write(values) == 0
    block.bytes[0] ^= 1  # another version
    assert epoch(export, given)[0] == CODES["STATE"]


def test_threads_train_with_a_block_each(made: tuple[Model, Loaded]) -> None:
    model, export = made
    given = columns(model)
    assert export.start() == 0
    assert epoch(export, given)[0] == 0
    wanted = state(export)
    others = [export.twin() for _ in range(4)]
    assert [other.start() for other in others] == [0] * 4
    with ThreadPoolExecutor(4) as pool:
        codes = [code for code, _ in pool.map(lambda other: epoch(other, given), others)]
    assert codes == [0] * 4
    assert all(same(state(other), wanted) for other in others)


def test_a_training_that_diverges_goes_back_to_its_start() -> None:
    x, y = wy.Input(dims=(Batch(), 3), name="x"), wy.Input(dims=(Batch(),), name="y")
    weight = wy.Parameter(np.ones(3), name="weight", dtype=np.float32)
    train = wy.compile((x @ weight - y).square().mean(), wy.optim.SGD([weight], 0.01, momentum=0.9))
    export = loaded(train, batch_sizes=4)
    assert export.start() == 0
    random = np.random.default_rng(0)
    given = {"x": random.normal(size=(30, 3)).astype(np.float32), "y": np.ones(30, np.float32)}
    assert epoch(export, given, batch=4)[0] == 0
    before = state(export)
    assert export.function("model_set_learning_rate")(export.block.address, float("nan")) == CODES["ARGUMENT"]
    assert export.function("model_set_learning_rate")(export.block.address, 1e30) == 0
    assert epoch(export, given, batch=4)[0] == CODES["DIVERGED"]
    assert same(state(export), before)
    assert export.function("model_set_learning_rate")(export.block.address, 0.01) == 0
    assert epoch(export, given, batch=4)[0] == 0


def test_a_training_goes_on_in_python(made: tuple[Model, Loaded], tmp_path: Any) -> None:
    model, export = made
    assert export.start() == 0
    code, _ = epoch(export, columns(model))
    assert code == 0
    wy.io.save_arrays(tmp_path / "field.safetensors", state(export))
    twin = MODELS["classifier" if "answer" in model.predict else "recommender"]()
    from wyrm.exporting.exported import load_tensors

    load_tensors(loaded_built(twin), twin.train, tmp_path / "field.safetensors")
    wanted = twin.train.epoch(twin.data, batch_size=BATCH, shuffle=True, seed=7)
    code, results = epoch(export, columns(model))
    first = next(iter(wanted.values())) if isinstance(wanted, dict) else wanted
    assert results[0] == pytest.approx(first, rel=1e-5)


def loaded_built(model: Model) -> Any:
    return loaded(model.train, model.predict, batch_sizes=BATCH).built


def test_batches_that_a_model_refuses_are_left_out() -> None:
    wy.nn.seed(0)
    x, y = wy.Input(dims=(Batch(), 5), name="x"), wy.IndexInput(dims=(Batch(),), name="y")
    model = wy.nn.Sequential(wy.nn.Linear(5, 4), wy.nn.BatchNorm(4), wy.nn.Dropout(0.3))
    loss = model(x).cross_entropy(y)
    train = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.05, max_norm=1.0))
    model.eval()
    predict = wy.compile(model(x))
    export = loaded(train, {"scores": predict}, batch_sizes=4)
    assert export.start() == 0
    random = np.random.default_rng(0)
    data: dict[Any, np.ndarray] = {x: random.normal(size=(10, 5)).astype(np.float32), y: random.integers(0, 4, 10)}
    given = {leaf.name: array for leaf, array in data.items()}
    code, results = epoch(export, given, batch=4)
    assert code == 0
    assert results[0] == pytest.approx(train.epoch(data, batch_size=4, shuffle=True, seed=7), rel=1e-5)
    close(state(export), tensors_of(export.built, train))
    before = state(export)
    assert epoch(export, {name: array[:9] for name, array in given.items()}, batch=4)[0] == CODES["BATCH"]
    assert same(state(export), before)
    # What the training cannot take, the prediction can.
    for rows in (1, 3):
        code, outputs = export.call("scores", rows, x=data[x][:rows])
        assert code == 0
        np.testing.assert_allclose(outputs["scores"], predict({x: data[x][:rows]}), rtol=1e-5, atol=1e-6)
    assert export.call("scores", 5, x=data[x][:5])[0] == CODES["BATCH"]
    message = export.interface.errors["BATCH"][1]
    assert message.endswith("it takes 2 to 4 rows in training and 1 to 4 rows in scores")

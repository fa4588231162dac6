"""`RunWriter` and `RunLogger`: what they record, what it costs, and that training does not notice."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.watch.test_watch_files import points, records, run_in
from wyrm.errors import DataError, DTypeError, NotSet, OptionError, WyrmError
from wyrm.graph.storage import bound_array
from wyrm.train import Checkpoint, Run, fit
from wyrm.watch import RunLogger, RunWriter
from wyrm.watch.measures import Budget, Probe
from wyrm.watch.points import Points
from wyrm.watch.runs import Histograms


class Batch(wy.Dim): ...


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every measurement be affordable and due."""
    monkeypatch.setattr(Budget, "affords", lambda *_: True)
    for pace in ("VALUES", "MODULES", "HISTOGRAMS_PACE"):
        monkeypatch.setattr(f"wyrm.watch.writer.{pace}", (0.0, 0.0))


class Case:
    """A network of two layers, whose first has a dead unit."""

    def __init__(self, **options: Any) -> None:
        batch, random = Batch(), np.random.default_rng(0)
        self.x, self.y = wy.Input(dims=(batch, 3), name="x"), wy.IndexInput(dims=(batch,), name="y")
        wy.nn.seed(0)
        self.first, self.second = wy.nn.Linear(3, 4), wy.nn.Linear(4, 2)
        assert self.first.bias is not None
        self.first.bias.set(np.array([0.0, -100.0, 0.0, 0.0]))
        self.model = self.first >> wy.nn.relu >> self.second
        self.loss = self.model(self.x).cross_entropy(self.y)
        self.optimizer = wy.optim.Adam(self.loss.parameters(), 0.01)
        self.program = wy.compile(self.loss, self.optimizer, **options)
        self.data: dict[Any, Any] = {
            self.x: random.normal(size=(40, 3)).astype(np.float32),
            self.y: random.integers(0, 2, 40),
        }


def of_kind(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [record for record in records(folder) if record["kind"] == kind]


def test_fit_writes_a_run_and_trains_as_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    case, twin = Case(), Case()
    options: dict[str, Any] = {"epochs": 3, "batch_size": 8, "shuffle": True}
    history = fit(case.program, case.data, watch=True, validation=case.data, **options)
    assert history["loss"] == fit(twin.program, twin.data, **options)["loss"]
    np.testing.assert_array_equal(case.first.weight.value, twin.first.weight.value)
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"python -m wyrm watch runs/{folder.name}" in capsys.readouterr().err
    start, last = records(folder)[0], points(folder)[-1]
    assert (start["kind"], start["format"], start["epochs"], start["rows"]) == ("start", 2, 3, 40)
    assert last["epoch"] == 3 and last["step"] == 15
    assert last["values"]["loss"] == pytest.approx(history["loss"][-1], rel=1e-6)
    assert {"validation_loss", "learning_rate", "rows_per_second"} <= last["values"].keys()
    assert records(folder)[-1]["stopped"] == "completed"


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("engine", ["native", "jax"])
def test_measuring_everything_changes_no_bit_of_a_training(tmp_path: Path, engine: str) -> None:
    if engine == "jax":
        pytest.importorskip("jax")
    case, twin = Case(engine=engine), Case(engine=engine)
    options: dict[str, Any] = {"epochs": 4, "batch_size": 8, "shuffle": True}
    logger = RunLogger(tmp_path, case.model, sample=lambda: "story", silent=True, tensorboard=False)
    fit(case.program, case.data, callbacks=[logger], **options)
    fit(twin.program, twin.data, **options)
    np.testing.assert_array_equal(case.second.weight.value, twin.second.weight.value)
    assert case.program.state_dict() == twin.program.state_dict()
    modules = of_kind(tmp_path, "modules")
    assert len(modules) >= 2
    last = modules[-1]
    assert records(tmp_path)[0]["modules"] == ["layers.0", "layers.2"]
    assert last["weights"][1] == pytest.approx(
        np.sqrt(sum(np.square(np.float64(p.value)).sum() for p in case.second.parameters())), rel=1e-5
    )
    assert all(0.0 < ratio < 1.0 for ratio in last["updates"]) and last["over"] > 0
    (dead,) = last["dead"].values()
    assert dead[0] >= 1 and dead[1] == 4 and last["rows"] == 8
    histogram = Histograms()(run_in(tmp_path), "layers.0.weight")[-1]
    assert sum(histogram["weights"][2]) == sum(histogram["gradients"][2]) == 12
    assert {text["text"] for text in of_kind(tmp_path, "text")} == {"story"}


def test_a_probe_has_the_gradients_of_its_batch() -> None:
    case = Case()
    probe = Probe(case.loss, case.loss.parameters(), case.program.inputs, 40)
    probed = probe(case.data)
    assert probed.rows == 40
    for leaf, column in case.data.items():
        leaf.set(column)
    for parameter, expected in zip(case.loss.parameters(), wy.run(wy.grad(case.loss)), strict=True):
        np.testing.assert_allclose(probed.gradients[parameter], expected, rtol=1e-5, atol=1e-6)
    hidden = np.maximum(case.first(case.x).forward(), 0.0)
    assert list(probed.dead.values()) == [(int((hidden == 0.0).all(axis=0).sum()), 4)]
    # The probe reads the parameters as they are now.
    case.second.weight.set(np.zeros((4, 2)))
    assert np.all(np.asarray(probe(case.data).gradients[case.first.weight]) == 0.0)


def test_units_after_a_convolution_are_its_channels() -> None:
    x = wy.Input(dims=(Batch(), 1, 5, 5), name="x")
    layer = wy.nn.Conv2d(1, 3, kernel_size=3)
    assert layer.bias is not None
    layer.bias.set(np.array([0.0, -100.0, 100.0]))
    loss = layer(x).relu().mean()
    probed = Probe(loss, loss.parameters(), [x], 4)({x: np.random.default_rng(0).normal(size=(9, 1, 5, 5))})
    assert list(probed.dead.values()) == [(1, 3)] and probed.rows == 4


@pytest.mark.usefixtures("eager")
def test_batches_of_loaders_are_probed_and_those_of_generators_are_not(tmp_path: Path) -> None:
    case = Case()
    columns: dict[str, Any] = {leaf.name: column for leaf, column in case.data.items()}
    loader = wy.data.DataLoader(wy.data.Dataset(columns), batch_size=8)
    quiet: dict[str, Any] = {"silent": True, "tensorboard": False}
    fit(case.program, loader, epochs=2, callbacks=[RunLogger(tmp_path / "loader", **quiet)])
    assert of_kind(tmp_path / "loader", "modules")[-1]["rows"] == 8 and loader.epoch == 2
    batches: Any = [{name: column[:8] for name, column in columns.items()}] * 2
    fit(case.program, batches, epochs=2, callbacks=[RunLogger(tmp_path / "list", **quiet)])
    (note,) = of_kind(tmp_path / "list", "note")
    assert "give RunLogger a batch=" in note["text"]
    assert of_kind(tmp_path / "list", "modules")[-1]["gradients"] is None
    fit(case.program, batches, epochs=2, callbacks=[RunLogger(tmp_path / "given", batch=columns, **quiet)])
    assert of_kind(tmp_path / "given", "modules")[-1]["gradients"] is not None


def test_a_resumed_training_goes_on_in_its_folder(tmp_path: Path) -> None:
    for epochs in (2, 4):
        case = Case()
        callbacks = [Checkpoint(tmp_path / "checkpoints", resume=True), RunLogger(tmp_path / "run", silent=True)]
        fit(case.program, case.data, epochs=epochs, batch_size=8, callbacks=callbacks)
    starts = of_kind(tmp_path / "run", "start")
    assert [start["step"] for start in starts] == [0, 10] and starts[0]["id"] == starts[1]["id"]
    assert [point["epoch"] for point in points(tmp_path / "run")] == [1, 2, 3, 4]
    assert starts[1]["elapsed"] >= points(tmp_path / "run")[0]["elapsed"]


def test_a_training_that_fails_says_why(tmp_path: Path) -> None:
    case = Case()

    class Stop(wy.train.Callback):
        def on_epoch_end(self, run: Run, values: object) -> None:
            raise KeyError("unknown")

    with pytest.raises(KeyError):
        fit(case.program, case.data, epochs=3, batch_size=8, callbacks=[Stop()], watch=tmp_path)
    assert records(tmp_path)[-1]["stopped"] == "KeyError: 'unknown'"


def test_a_folder_that_cannot_be_written_is_known_before_training(tmp_path: Path) -> None:
    case = Case()
    (tmp_path / "file").write_text("")
    before = np.array(case.first.weight.value)
    with pytest.raises(DataError, match="cannot create the folder"):
        fit(case.program, case.data, epochs=1, batch_size=8, watch=tmp_path / "file" / "run")
    np.testing.assert_array_equal(case.first.weight.value, before)


def test_a_disk_that_fills_ends_the_recording_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, twin = Case(), Case()

    class Full(wy.train.Callback):
        def on_start(self, run: Run) -> None:
            monkeypatch.setattr(os, "write", self.refuse)

        def refuse(self, *_: object) -> int:
            raise OSError(28, "No space left on device")

    with pytest.warns(RuntimeWarning, match="the training goes on: .*No space left on device") as caught:
        fit(
            case.program, case.data, epochs=3, batch_size=8,
            callbacks=[RunLogger(tmp_path, silent=True, tensorboard=False), Full()],
        )  # fmt: skip
    assert len(caught) == 1
    monkeypatch.undo()
    fit(twin.program, twin.data, epochs=3, batch_size=8)
    np.testing.assert_array_equal(case.first.weight.value, twin.first.weight.value)


def test_a_loop_by_hand_measures_each_step(tmp_path: Path, eager: None) -> None:
    weight = wy.Parameter(np.array([3.0, 4.0]), name="weight")
    loss, optimizer = weight.square().sum() * 0.5, wy.optim.SGD([weight], 0.1)
    with RunWriter(tmp_path, {"layer.weight": weight}, steps=2, tensorboard=False) as run:
        for step in (1, 2):
            run.values(step, {"loss": float(loss.forward())}, rows=1)
            loss.backward()
            with run.update():
                optimizer.step()
            loss.zero_gradient()
        run.text("<b>once</b>", prompt="<b>")
    first, second = of_kind(tmp_path, "modules")
    assert (first["weights"], first["gradients"], first["updates"], first["over"]) == ([4.5], [5.0], [0.1], 1)
    assert (second["gradients"], second["updates"]) == ([4.5], [0.1])
    assert of_kind(tmp_path, "text")[0]["text"] == "<b>once</b>"


def test_numbers_that_are_not_finite_are_recorded(tmp_path: Path, eager: None) -> None:
    weight = wy.Parameter(np.array([1.0, 2.0]))
    with RunWriter(tmp_path, {"weight": weight}, tensorboard=False) as run, run.update():
        bound_array(weight)[:] = np.nan, np.inf
    (record,) = of_kind(tmp_path, "modules")
    assert record["weights"] == record["updates"] == ["NaN"]


def test_a_measurement_that_fails_ends_the_recording_alone(
    tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped = []
    with (
        pytest.warns(RuntimeWarning, match="the training goes on: no memory") as caught,
        RunWriter(tmp_path, {"weight": wy.Parameter(np.zeros(2))}, tensorboard=False) as run,
    ):
        monkeypatch.setattr(run.parameters, "hold", lambda: (_ for _ in ()).throw(MemoryError("no memory")))
        for step in (1, 2):
            run.values(step, {"loss": 1.0})
            with run.update():
                stepped.append(step)
    assert stepped == [1, 2] and len(caught) == 1


def test_every_value_of_a_quick_training_is_a_point(tmp_path: Path) -> None:
    with RunWriter(tmp_path, tensorboard=False) as run:
        for step in range(1, 501):
            run.values(step, {"loss": float(step % 7)})
    assert [(point["step"], point["values"]["loss"]) for point in points(tmp_path)] == [
        (step, float(step % 7)) for step in range(1, 501)
    ]


def test_values_beyond_the_budget_are_joined_and_their_spikes_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)  # no record is written because it is late
    with RunWriter(tmp_path, budget=0.0, tensorboard=False) as run:
        for step in range(1, 20_001):
            run.values(step, {"loss": 100.0 if step == 15_000 else 1.0})
    found = points(tmp_path)
    assert 500 < len(found) < 1_000 and found[-1]["step"] == 20_000
    (spike,) = (point for point in found if point["high"] is not None and point["high"] > 1.0)
    assert spike["high"] == 100.0 and spike["low"] == 1.0 < spike["values"]["loss"] < 100.0


def test_values_within_the_budget_are_joined_by_two_then_by_four() -> None:
    collected = Points(affords=lambda _: True)
    for step in range(1, 8_001):
        collected.add((step, 0.0, 0.0), {"loss": 1.0})
    (record,) = collected.take()
    assert len(record["steps"]) == 4 * 500 + 500 // 16 + 1
    assert np.diff(record["steps"])[[498, 499, 999, 1499, 1999]].tolist() == [1, 2, 4, 8, 16]


def test_points_of_a_loop_beyond_its_budget_lie_evenly(tmp_path: Path) -> None:
    collected, steps = Points(affords=lambda _: False), list[int]()
    for step in range(1, 5_001):
        collected.add((step, 0.0, 0.0), {"loss": 1.0})
        if step % 1_000 == 0:
            (record,) = collected.take()
            steps += record["steps"]
    assert steps[:500] == [*range(1, 501)]
    np.testing.assert_array_equal(np.diff(steps[501:]), 20)  # fifty points in each record


def test_points_that_wait_to_be_written_count_for_the_budget() -> None:
    collected = Points(affords=lambda seconds: seconds <= 100 * collected.seconds)
    for step in range(1, 10_001):
        collected.add((step, 0.0, 0.0), {"loss": 1.0})
    (record,) = collected.take()
    assert len(record["steps"]) == 500 + 100 + 1


def test_every_epoch_of_a_quick_training_is_a_point(tmp_path: Path) -> None:
    case = Case()
    history = fit(case.program, case.data, epochs=60, batch_size=8, validation=case.data, watch=tmp_path)
    found = points(tmp_path)
    assert [point["epoch"] for point in found] == [*range(1, 61)]
    np.testing.assert_allclose([point["values"]["loss"] for point in found], history["loss"], rtol=1e-6)
    np.testing.assert_allclose(
        [point["values"]["validation_loss"] for point in found], history["validation_loss"], rtol=1e-6
    )


def test_measurements_wait_until_they_are_affordable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, measured = wy.Parameter(np.zeros(10)), []
    monkeypatch.setattr("time.perf_counter", lambda: 10.0)
    with RunWriter(tmp_path, {"weight": weight}, budget=0.1, tensorboard=False) as run:
        run.budget.start = 0.0
        run.budget.spent = 1.1
        with run.update():
            measured.append(run.parameters.holds)
        run.budget.spent = 0.5
        with run.update():
            measured.append(run.parameters.holds)
    assert measured == [False, True]
    assert len(of_kind(tmp_path, "modules")) == 1


def test_parameters_without_names_are_refused(tmp_path: Path) -> None:
    weight: Any = wy.Parameter(np.zeros(2))
    with pytest.raises(TypeError, match="RunWriter takes a module, or a dict from names to parameters, not list"):
        RunWriter(tmp_path / "run", [weight])  # type: ignore[arg-type]  # the mistake
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((1, None), {}, DTypeError, 'values must be a dict from names to numbers, such as {"loss": 0.5}, not None'),
        ((1, [("loss", 1.0)]), {}, DTypeError, "values must be a dict"),
        ((1, {"a": 1.0, "loss": "a"}), {}, DTypeError, "the value of 'loss' must be a number, not 'a'"),
        ((1, {"loss": "1.5"}), {}, DTypeError, "the value of 'loss' must be a number, not '1.5'"),
        ((1, {"loss": None}), {}, DTypeError, "the value of 'loss' must be a number, not None"),
        ((1, {"loss": np.ones(1)}), {}, DTypeError, "the value of 'loss' must be a number"),
        ((1, {"loss": 1j}), {}, DTypeError, "the value of 'loss' must be a number"),
        ((1, {"loss": 10**400}), {}, OptionError, "the value of 'loss' is too large for a float"),
        ((1, {"loss": wy.Input(name="x")}), {}, NotSet, "x"),
        ((1, {1: 2.0}), {}, DTypeError, "the name of a value must be text, not 1"),
        (("a", {"loss": 1.0}), {}, DTypeError, "step must be an integer of at least 0, not 'a'"),
        ((1.5, {"loss": 1.0}), {}, DTypeError, "step must be an integer of at least 0, not 1.5"),
        ((-1, {"loss": 1.0}), {}, OptionError, "step must be an integer of at least 0, not -1"),
        ((2**62, {"loss": 1.0}), {}, OptionError, "step must be an integer below 100,000,000,000,000"),
        ((1, {"loss": 1.0}), {"rows": "a"}, DTypeError, "rows must be an integer"),
        ((1, {"loss": 1.0}), {"rows": -1}, OptionError, "rows must be an integer of at least 0"),
        ((1, {"loss": 1.0}), {"epoch": "a"}, DTypeError, "epoch must be a number, not 'a'"),
        ((1, {"loss": 1.0}), {"epoch": np.nan}, OptionError, "epoch must be finite"),
    ],
)
def test_values_that_are_no_numbers_are_refused_before_anything_is_recorded(
    tmp_path: Path, arguments: tuple[Any, Any], options: dict[str, Any], error: type[WyrmError], message: str
) -> None:
    with RunWriter(tmp_path, tensorboard=False) as run:
        with pytest.raises(error, match=re.escape(message)):
            run.values(*arguments, **options)
        assert (run.step, run.epoch) == (0, 0.0)
    assert [record["kind"] for record in records(tmp_path)] == ["start", "end"]


def test_numbers_of_numpy_and_of_nodes_are_values(tmp_path: Path) -> None:
    found: Any = {"a": np.float32(2.0), "b": np.array(3), "c": wy.Parameter(4.0), "d": 5}
    step: Any = np.int16(1)
    with RunWriter(tmp_path, tensorboard=False) as run:
        run.values(step, found, rows=step)
    (record,) = points(tmp_path, "a")
    assert record["step"] == 1
    assert [record["values"][name] for name in "abcd"] == [2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folder": 3}, "folder must be the path of a folder"), ({"folder": b"run"}, "folder must be the path"),
        ({"name": 3}, "name must be text, not 3"), ({"tensorboard": "yes"}, "tensorboard must be True, False, or None"),
        ({"budget": "a"}, "budget must be a number"),
        ({"model": {1: wy.Parameter(1.0)}}, "name of a parameter must be text"),
        ({"model": {"a": 1.0}}, "'a' is 1.0; only parameters have updates"),
        ({"step": "a"}, "step must be an integer"), ({"step": -1}, "step must be an integer"),
        ({"epoch": None}, "epoch must be a number"), ({"epochs": 1.5}, "epochs must be an integer"),
        ({"steps": "a"}, "steps must be an integer"), ({"rows": -1}, "rows must be an integer"),
        ({"engine": None}, "engine must be text"), ({"sample": 3}, "sample must be a function without arguments"),
    ],
)  # fmt: skip
def test_options_of_recordings_are_checked_before_a_folder_is_created(
    tmp_path: Path, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if not options.keys() & {"step", "epoch", "epochs", "steps", "rows", "engine"}:
        with pytest.raises((DTypeError, OptionError), match=message):
            RunLogger(**options)
    if "sample" not in options:
        options = {{"model": "parameters"}.get(name, name): value for name, value in options.items()}
        with pytest.raises((DTypeError, OptionError), match=message):
            RunWriter(**options)
    assert not list(tmp_path.iterdir())


def test_texts_of_recordings_are_texts(tmp_path: Path) -> None:
    nothing: Any = None
    with RunWriter(tmp_path, tensorboard=False) as run:
        for call in (run.text, run.note, run.close):
            with pytest.raises(DTypeError, match="must be text, not None"):
                call(nothing)
        run.text("a", prompt="b" * 30_000)
    assert len(of_kind(tmp_path, "text")[0]["prompt"]) == 20_000
    with pytest.raises(DataError, match="cannot create the folder"):
        RunWriter("a\0b")


def test_without_tensorboard_the_option_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    with pytest.raises(ImportError, match=r'needs the package tensorboard: pip install "wyrm-autodiff\[tensorboard\]"'):
        RunWriter(tmp_path, tensorboard=True)
    RunWriter(tmp_path).close()


def test_texts_and_names_that_utf8_cannot_hold_go_to_tensorboard(tmp_path: Path, eager: None) -> None:
    pytest.importorskip("tensorboard")
    name, weight = "broken \udc80", wy.Parameter(np.ones(2))
    with RunWriter(tmp_path, {f"{name}.weight": weight}, name=name, tensorboard=True) as run:
        run.values(1, {name: 1.0})
        run.text(name)
        run.modules()
    assert [record["text"] for record in of_kind(tmp_path, "text")] == [name]
    assert len(points(tmp_path, name)) == 1 and records(tmp_path)[0]["modules"] == [name]
    assert records(tmp_path)[-1]["kind"] == "end"
    events = next((tmp_path / "tensorboard").iterdir()).read_bytes()
    assert rb"broken \udc80" in events and rb"weight_values/broken \udc80.weight" in events


def test_the_same_data_go_to_tensorboard(tmp_path: Path, eager: None) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    case = Case()
    logger = RunLogger(tmp_path, case.model, sample=lambda: "Once\n  upon", silent=True)
    fit(case.program, case.data, epochs=3, batch_size=8, callbacks=[logger])
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {"loss", "weights/layers.0", "gradients/layers.2", "updates/layers.0"} <= {*events.Tags()["tensors"]}
    last = tensor_util.make_ndarray(events.Tensors("loss")[-1].tensor_proto).item()
    assert last == pytest.approx(points(tmp_path)[-1]["values"]["loss"])
    bins = tensor_util.make_ndarray(events.Tensors("weight_values/layers.0.weight")[-1].tensor_proto)
    low, high, counts, _ = Histograms()(run_in(tmp_path), "layers.0.weight")[-1]["weights"]
    assert [bins[0, 0], bins[-1, 1]] == pytest.approx([low, high])
    assert bins[:, 2].tolist() == counts
    (text,) = tensor_util.make_ndarray(events.Tensors("text")[-1].tensor_proto)
    assert text == b"    Once\n      upon"
    with RunWriter(tmp_path / "without", tensorboard=False):
        pass
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "tensorboard").write_text("no folder")
    RunWriter(tmp_path / "taken").close()
    assert "TensorBoard gets no data" in of_kind(tmp_path / "taken", "note")[0]["text"]
    with pytest.raises(DataError, match="cannot write for TensorBoard"):
        RunWriter(tmp_path / "taken", tensorboard=True)
    assert not (tmp_path / "without" / "tensorboard").exists()


def test_tensorboard_reads_the_values_of_a_run_that_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_tensor_proto

    with wy.watch.RunWriter(tmp_path) as run:
        run.values(1, {"loss": 0.1})
        run.flush()
        events = EventAccumulator(str(tmp_path / "tensorboard"))
        events.Reload()
        [tag] = [tag for tag in events.Tags()["tensors"] if "loss" in tag]
        [read] = events.Tensors(tag)
    assert (read.step, read.tensor_proto) == (1, make_tensor_proto(np.float32(0.1)))

"""Who has the newest values of parameters and optimizers: the host, or one of several programs on the devices."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any, cast

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.jax.state import DeviceState
from wyrm.errors import OptionError, ShapeError


class Batch(wy.Dim): ...


ROWS = {"x": np.ones((4, 3), np.float32)}


def _two_losses(engine: Any) -> tuple[list[wy.Parameter], list[Any]]:
    """Return the parameters of a shared layer and of two others, and programs that each train the layer and another."""
    x = wy.Input(dims=(Batch(), 3), name="x")
    shared = wy.Parameter(np.full((3, 3), 0.5, np.float32), name="shared")
    heads = [wy.Parameter(np.full(3, value, np.float32), name=f"head{value}") for value in (0.1, 0.2)]
    losses = [((x @ shared) @ head).square().mean() for head in heads]
    programs = [
        wy.compile(losses[0], wy.optim.Adam([heads[0], shared], 0.01), engine=engine),
        wy.compile(losses[1], wy.optim.Adam([shared, heads[1]], 0.01), engine=engine),
    ]
    return [shared, *heads], programs


def test_programs_that_share_some_of_their_parameters() -> None:
    found = []
    for engine in ("native", "jax"):
        parameters, programs = _two_losses(engine)
        for turn in (0, 1, 0, 0, 1):
            programs[turn](ROWS)
        # The first program does not have the newest values of the layer, but those of its own head.
        values = [parameters[1].value, parameters[0].value, parameters[2].value]
        programs[0](ROWS)
        found.append([*values, *(parameter.value for parameter in parameters)])
    for native, jax in zip(*found, strict=True):
        np.testing.assert_allclose(jax, native, rtol=1e-5)


def test_two_programs_of_one_optimizer_take_turns() -> None:
    found = []
    for engine in ("native", "jax"):
        x, weight = wy.Input(dims=(Batch(), 3), name="x"), wy.Parameter(np.arange(3, dtype=np.float32))
        optimizer = wy.optim.Adam([weight], 0.1)
        programs = [wy.compile((x @ weight).square().mean() * scale, optimizer, engine=engine) for scale in (1.0, 2.0)]
        for turn in (0, 0, 1, 1, 0, 1):
            programs[turn](ROWS)
        found.append([weight.value, *optimizer.state_dict().values()])
    for native, jax in zip(*found, strict=True):
        np.testing.assert_allclose(jax, native, rtol=1e-5)


def test_state_that_is_loaded_after_the_sharding_was_shown() -> None:
    jax = pytest.importorskip("jax")
    x, weight = wy.Input(dims=(Batch(), 3), name="x"), wy.Parameter(np.zeros(3, np.float32))
    optimizer = wy.optim.SGD([weight], 0.5, momentum=0.5)
    mesh = jax.make_mesh((1,), ("data",))
    program = wy.compile((x @ weight).mean(), optimizer, engine="jax", mesh=mesh, sharding={Batch: "data"})
    assert "velocity" not in str(program.sharding)
    optimizer.load_state_dict(optimizer.state_dict() | {"0.velocity": np.full(3, 2.0, np.float32)})
    program(ROWS)
    np.testing.assert_allclose(weight.value, np.full(3, -0.5 * (0.5 * 2.0 + 1.0)))


def test_state_that_cannot_be_read_is_not_lost() -> None:
    optimizer = wy.optim.Adam([wy.Parameter(1.0)], 0.1)

    def newer() -> None:
        raise OptionError("sharded over several processes")

    optimizer.hold_on_device(newer)
    for _ in range(2):
        with pytest.raises(OptionError, match="several processes"):
            optimizer.state_dict()


def test_steps_copy_nothing_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    _, programs = _two_losses("jax")
    programs[0](ROWS)
    copied: list[int] = []
    monkeypatch.setattr(DeviceState, "copy_value", lambda _, position: copied.append(position))
    programs[0](ROWS)
    programs[1](ROWS)
    assert not copied


def test_a_step_that_fails_leaves_the_values_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters, (program, other) = _two_losses("jax")
    before = [parameter.value for parameter in parameters]
    program(ROWS)
    train = program._engine.compiled.step

    def fail(*arguments: Any) -> Any:
        train(*arguments)
        raise RuntimeError("the device is out of memory")

    monkeypatch.setitem(program._engine.compiled.__dict__, "step", fail)
    with pytest.raises(RuntimeError, match="out of memory") as raised:
        program(ROWS)
    assert "load a checkpoint" in raised.value.__notes__[0]
    for parameter, value in zip(parameters, before, strict=True):
        np.testing.assert_array_equal(parameter.value, value)
    other(ROWS)  # reads the shared layer from the host


def test_another_thread_reads_parameters_while_a_program_trains() -> None:
    parameters, (program, _) = _two_losses("jax")
    forward = wy.compile(wy.Input(dims=(Batch(), 3), name="x") @ parameters[0], engine="jax")
    errors: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                _ = [parameter.value for parameter in parameters]
                forward(ROWS)
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(100):
        program(ROWS)
    stop.set()
    reader.join()
    assert not errors


# --- numbers -------------------------------------------------------------------------------------------------------


def test_accumulated_weights_are_as_wide_as_the_graph() -> None:
    x = wy.Input(dims=(Batch(),), name="x", dtype=np.float64)
    found = []
    for engine in ("native", "jax"):
        weight = wy.Parameter(np.float64(1.0))
        program = wy.compile((weight * x).mean(), wy.optim.SGD([weight], 1.0), engine=engine)
        program.epoch({x: np.arange(7.0)}, batch_size=2, accumulate=4)
        found.append(float(weight.value))
    assert found[1] == pytest.approx(found[0], rel=1e-15)


def test_row_sparse_gradients_of_a_bfloat16_program_are_summed_in_float32() -> None:
    rows, table = wy.IndexInput(dims=(Batch(),), name="rows"), wy.Parameter(np.zeros((4, 3), np.float32))
    loss = (table.index(rows) * 1.0).sum()
    program = wy.compile(loss, wy.optim.SGD([table], 1.0), engine="jax", compute_dtype="bfloat16")
    program.backward({rows: np.zeros(1000, np.int64)})
    assert table.gradient.dtype == np.float32
    np.testing.assert_array_equal(table.gradient[0], 1000.0)
    program({rows: np.zeros(1000, np.int64)})
    np.testing.assert_array_equal(table.value[0], -1000.0)


def test_a_norm_whose_squares_overflow_is_bounded() -> None:
    x = wy.Input(dims=(Batch(),), name="x")
    found = []
    for engine in ("native", "jax"):
        weight = wy.Parameter([1.0, 2.0])
        program = wy.compile((weight.sum() * x).mean(), wy.optim.SGD([weight], 1.0, max_norm=1.0), engine=engine)
        program({x: np.full(4, 1e25, np.float32)})
        found.append(weight.value)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_backward_takes_a_single_row_where_the_inputs_do() -> None:
    x, weight = wy.Input(name="x"), wy.Parameter(1.0)
    program = wy.compile((weight * x).square(), wy.optim.SGD([weight], 0.1), engine="jax")
    with pytest.raises(ShapeError, match="one row at a time"):
        program.backward({x: np.array([1.0, 2.0, 3.0])})
    assert program.backward({x: np.array([3.0])}) == 9.0


def test_data_that_an_input_holds_is_not_repeated_for_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wyrm.engines.jax.epoch._STEPS_BEFORE_LOOPS", 0)
    x, held = wy.Input(dims=(Batch(), 3), name="x"), wy.Input([0.0, 1.0, 2.0], dims=(3,), name="held")
    found = []
    for engine in ("native", "jax"):
        weight = wy.Parameter(1.0)
        program = wy.compile((weight * (x @ held)).mean(), wy.optim.SGD([weight], 0.01), engine=engine)
        program.epoch({x: np.arange(60.0).reshape(20, 3)}, batch_size=2)
        found.append(float(weight.value))
    assert found[1] == pytest.approx(found[0], rel=1e-6)
    assert "tensor<1x3xf32>" in program.source


def test_accumulation_moves_only_the_touched_rows_of_tables() -> None:
    found = []
    for engine in ("native", "jax"):
        rows, table = wy.IndexInput(dims=(Batch(),), name="rows"), wy.Parameter(np.ones((6, 2), np.float32))
        optimizer = wy.optim.Adam([table], 0.1, max_norm=0.5)
        program = wy.compile(table.index(rows).square().mean(), optimizer, engine=engine)
        losses = [program.epoch({rows: data}, batch_size=2, accumulate=2) for data in ([0, 1, 2, 1, 2, 2], [3, 1, 1])]
        found.append([losses, table.value, *optimizer.state_dict().values()])
    for native, jax in zip(*found, strict=True):
        np.testing.assert_allclose(jax, native, rtol=1e-5, atol=1e-7)


def test_differences_to_data_are_exact_in_bfloat16_programs() -> None:
    x, target = (wy.Input(dims=(Batch(), 2), name=name) for name in ("x", "target"))
    program = wy.compile((x - target).square().mean(), engine="jax", compute_dtype="bfloat16")
    assert float(program({x: np.full((4, 2), 1000.0), target: np.full((4, 2), 1001.0)})) == 1.0


def test_a_program_is_freed_with_its_last_reference() -> None:
    x = wy.Input(dims=(Batch(), 3), name="x")
    program = wy.compile(x.square().mean(), engine="jax")
    program.evaluate(ROWS)
    arrays = weakref.ref(cast(Any, program._engine).state)
    gc.disable()
    try:
        del program
        assert arrays() is None
    finally:
        gc.enable()

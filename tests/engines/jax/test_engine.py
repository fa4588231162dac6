"""What programs of engine `jax` have of their own: options, code as text, bfloat16, and exact states after errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.engines.test_every_engine import Batch, Classifier
from wyrm.errors import Diverged, OptionError


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
    with pytest.raises(OptionError, match="precision is an option of engine='jax'"):
        wy.compile(loss, optimizer, precision="tf32")
    with pytest.raises(OptionError, match="compute_dtype='float16' is not supported: its numbers end at 65504"):
        # There is no such dtype, as mypy finds.
        wy.compile(loss, optimizer, engine="jax", compute_dtype="float16")  # type: ignore[call-overload]
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


def test_a_profile_names_the_profiler_of_jax_before_anything_is_copied_or_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Classifier("jax")
    monkeypatch.setattr("wyrm.train.program.copy", None)
    for options in ({}, {"batch_size": 4, "memory": True}, {"steps": 0}):
        with pytest.raises(OptionError, match=r"engine='native', or .* jax\.profiler\.trace\(folder\) .* xprof"):
            model.program.profile(model.data, **options)
    assert model.program._engine.compiled.last is None and model.program.state_dict() == {"steps": 0, "epochs": 0}


def functions_compiled(run: Callable[[], object]) -> int:
    """Return how many functions XLA compiles during a call."""
    events: list[str] = []

    def listen(event: str, *_: object, **__: object) -> None:
        events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return events.count("/jax/core/compile/backend_compile_duration")


@pytest.mark.parametrize("devices", [None, 1])
def test_what_a_program_shows_of_its_code_is_what_xla_compiled_to_run_it(devices: int | None) -> None:
    model = Classifier("jax")
    if devices is not None:
        on_mesh: dict[str, Any] = {"mesh": jax.make_mesh((devices,), ("data",)), "sharding": {Batch: "data"}}
        model.program = wy.compile(model.loss, model.optimizer, engine="jax", **on_mesh)
    assert functions_compiled(lambda: model.program(model.data)) > 0
    assert functions_compiled(lambda: (model.program.source, model.program.stages(), model.program.plan)) == 0


def test_programs_with_the_same_shapes_share_the_check_of_their_parameters() -> None:
    def epoch() -> None:
        weight, x = wy.Parameter(np.ones(17, np.float32)), wy.Input(dims=(Batch(), 17), name="x")
        program = wy.compile((x @ weight).square().mean(), wy.optim.SGD([weight], 0.1), engine="jax")
        program.epoch({x: np.zeros((8, 17), np.float32)}, batch_size=4)

    epoch()
    assert functions_compiled(epoch) == 1  # the loop over batches


def test_bfloat16_activations_keep_float32_parameters() -> None:
    exact, narrow = Classifier("jax"), Classifier("jax")
    narrow.program = wy.compile(narrow.loss, narrow.optimizer, engine="jax", compute_dtype="bfloat16")
    losses = [exact.program.epoch(exact.data, batch_size=10)["loss"], narrow.program.epoch(narrow.data, batch_size=10)]
    assert "bf16" in narrow.program.source
    assert losses[1] != losses[0]
    assert losses[1] == pytest.approx(losses[0], rel=2e-2)
    assert all(value.dtype == np.float32 for value in narrow.values())

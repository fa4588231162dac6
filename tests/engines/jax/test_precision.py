"""The precision of products in the code that comes out, and batches that are copied while the devices compute."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.jax import epoch as epochs
from wyrm.engines.jax.compiled import CompiledFunctions
from wyrm.errors import OptionError


class Batch(wy.Dim): ...


def training(**options: Any) -> tuple[Any, dict[Any, Any]]:
    x, target = wy.Input(dims=(Batch(), 4), name="x"), wy.Input(dims=(Batch(), 3), name="target")
    weight = wy.Parameter(np.ones((4, 3), np.float32), name="weight")
    loss = (x @ weight - target).square().mean()
    random = np.random.default_rng(0)
    data = {x: random.normal(size=(64, 4)), target: random.normal(size=(64, 3))}
    return wy.compile(loss, wy.optim.SGD([weight], 0.1), engine="jax", **options), data


@pytest.mark.parametrize(
    ("options", "written"),
    [({}, "HIGHEST"), ({"precision": "highest"}, "HIGHEST"), ({"precision": "tf32"}, "HIGH"),
     ({"compute_dtype": "bfloat16"}, "DEFAULT")],
)  # fmt: skip
def test_products_have_the_precision_that_is_chosen(options: dict[str, Any], written: str) -> None:
    program, data = training(**options)
    program({leaf: rows[:8] for leaf, rows in data.items()})
    lines = [line for line in program.source.splitlines() if "stablehlo.dot_general" in line]
    assert len(lines) == 2
    for line in lines:
        found = re.search(r"precision = \[(\w+), (\w+)\]", line)
        assert (found.groups() if found else ("DEFAULT", "DEFAULT")) == (written, written)


def test_a_precision_and_a_dtype_that_do_not_exist() -> None:
    with pytest.raises(OptionError, match="precision must be 'highest' or 'tf32', not 'low'"):
        training(precision="low")
    with pytest.raises(OptionError, match=r"'float16' is not supported: .* compute_dtype='bfloat16' is as fast"):
        training(compute_dtype="float16")
    with pytest.raises(OptionError, match="precision"):
        wy.compile(wy.Parameter(1.0).square(), engine="native", precision="tf32")


def test_the_next_batches_are_copied_before_the_devices_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    program, data = training()
    other, same = training()
    expected = other.epoch(same, batch_size=4)
    monkeypatch.setattr(epochs, "_CHUNK_STEPS", 4)
    monkeypatch.setattr(epochs, "_STEPS_BEFORE_LOOPS", 0)
    events: list[str] = []
    feeds, advance = epochs.JaxEpoch._feeds, CompiledFunctions.advance

    def copied(self: Any, *arguments: Any) -> Any:
        events.append("copy")
        return feeds(self, *arguments)

    def advanced(self: Any, *arguments: Any, **options: Any) -> Any:
        events.append("begin")
        results = advance(self, *arguments, **options)
        events.append("end")
        return results

    monkeypatch.setattr(epochs.JaxEpoch, "_feeds", copied)
    monkeypatch.setattr(CompiledFunctions, "advance", advanced)
    assert program.epoch(data, batch_size=4) == pytest.approx(expected, rel=1e-6)
    copies = [i for i, event in enumerate(events) if event == "copy"]
    assert len(copies) == 4
    for place in copies[1:]:
        assert (events[place - 1], events[place + 1]) == ("begin", "end")


def test_an_error_of_the_copy_leaves_the_steps_that_were_done(monkeypatch: pytest.MonkeyPatch) -> None:
    program, data = training()
    monkeypatch.setattr(epochs, "_CHUNK_STEPS", 4)
    monkeypatch.setattr(epochs, "_STEPS_BEFORE_LOOPS", 0)
    feeds = epochs.JaxEpoch._feeds

    def fails(self: Any, start: int, *arguments: Any) -> Any:
        if start:
            raise MemoryError("no memory for a batch")
        return feeds(self, start, *arguments)

    monkeypatch.setattr(epochs.JaxEpoch, "_feeds", fails)
    with pytest.raises(MemoryError, match="no memory"):
        program.epoch(data, batch_size=4)
    assert program.optimizer.steps == 4
    alone, same = training()
    for start in range(0, 16, 4):
        alone({leaf: rows[start : start + 4] for leaf, rows in same.items()})
    np.testing.assert_allclose(program.trained[0].value, alone.trained[0].value, rtol=1e-6)

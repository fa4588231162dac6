"""Programs with many calls: the calls are data, which a loop of native code reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.stages import write
from wyrm.engines.native.stages.write import LARGEST_FUNCTION
from wyrm.errors import IndexOutOfRange


class Batch(wy.Dim): ...


class Row(wy.Dim): ...


def _layers(count: int) -> tuple[Any, dict[Any, Any]]:
    """Return the loss of a model of equal layers, whose steps are products and loops, and its data."""
    x, rows = wy.Input(dims=(Batch(), 5), name="x", dtype=np.float64), wy.IndexInput(dims=(Batch(),), name="rows")
    random = np.random.default_rng(0)
    hidden: Any = x
    for i in range(count):
        weight = wy.Parameter(random.standard_normal((5, 5)) / 3.0, name=f"weight_{i}")
        table = wy.Parameter(random.standard_normal((7, 5)) / 3.0, name=f"table_{i}")
        hidden = (hidden @ weight + table.index(rows)).tanh()
    return hidden.square().mean(), {x: random.standard_normal((6, 5)), rows: random.integers(0, 7, 6)}


def _llvm(count: int) -> str:
    loss, data = _layers(count)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), 0.1))
    program(data)
    text: str = program.llvm
    return text


def test_calls_of_equal_layers_are_data() -> None:
    fewer, more = _llvm(LARGEST_FUNCTION), _llvm(2 * LARGEST_FUNCTION)
    assert "call i32 @each" in fewer and "call i32 @each" in more
    assert more.count("define ") == fewer.count("define ")
    assert more.count("call ") == fewer.count("call ")


def test_they_compute_what_one_function_and_the_reference_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for largest in (write.LARGEST_FUNCTION, 10_000):
        monkeypatch.setattr(write, "LARGEST_FUNCTION", largest)
        loss, data = _layers(40)
        for leaf, values in data.items():
            leaf.set(values)
        first = loss.forward()
        program = wy.compile(loss, wy.optim.Adam(loss.parameters(), 0.1))
        found.append([float(program(data)) for _ in range(3)])
        np.testing.assert_allclose(found[-1][0], first, rtol=1e-12)
        assert ("call i32 @each" in program.llvm) == (largest < 10_000)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_a_call_that_fails_ends_the_step() -> None:
    x, rows = wy.Input(dims=(Batch(), 5), name="x", dtype=np.float64), wy.Input(dims=(Batch(),), name="rows")
    hidden: Any = x
    for i in range(LARGEST_FUNCTION):
        weight = wy.Parameter(np.full((5, 5), 0.1), name=f"weight_{i}")
        hidden = (hidden @ weight).tanh()
        if i == LARGEST_FUNCTION // 2:
            hidden = hidden + wy.Parameter(np.ones((7, 5))).index(rows.argmax(0) + 3)
    program = wy.compile(hidden.mean())
    data = {x: np.ones((6, 5)), rows: np.arange(6.0)}
    assert np.isfinite(program(data | {rows: -np.arange(6.0)}))
    assert "call i32 @each" in program.llvm
    with pytest.raises(IndexOutOfRange, match="8"):
        program(data)

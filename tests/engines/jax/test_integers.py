"""Integers of engine `jax`: none wraps around in silence, and no index that a graph computes leaves its axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import IndexOutOfRange


class Batch(wy.Dim): ...


def test_integers_beyond_int32_are_refused_before_anything_moves() -> None:
    x, weight = wy.IndexInput(dims=(Batch(),), name="x"), wy.Parameter(1.0)
    loss = (x.astype("float32") * weight).mean()
    program = wy.compile(loss, wy.optim.SGD([weight], 0.1), engine="jax")
    data = np.array([1, 2, 2**31 - 1, 2**31])
    for run in (program, program.backward, lambda columns: program.epoch(columns, batch_size=2)):
        with pytest.raises(IndexOutOfRange, match=r"x .* was given 2147483648 at position \d, .*jax_enable_x64"):
            run({x: data})
    assert float(weight) == 1.0


def test_integer_arithmetic_that_leaves_int32_is_done_in_int64() -> None:
    x = wy.IndexInput(dims=(Batch(),), name="x")
    data = {x: np.array([2**30, 2**31 - 1, -(2**31), 3])}
    for node in (x * 100003 % 97, (x + x) // 3, wy.IndexConstant(-7) - x, x * 0 + wy.IndexConstant(2**40)):
        np.testing.assert_array_equal(wy.compile(node, engine="jax")(data), wy.compile(node)(data))


def test_arithmetic_of_small_integers_stays_in_int32() -> None:
    tokens, table = wy.IndexInput(dims=(Batch(),), name="tokens"), wy.Parameter(np.zeros((50, 2), np.float32))
    found = table.index(tokens) + table.index((tokens * 3 + 1) % 50) + table.index(tokens // 2)
    program = wy.compile(found.sum(), engine="jax")
    program({tokens: np.arange(50)})
    assert "xi64>" not in program.source


def _program(optimizer: Any = None) -> tuple[wy.Parameter, Any]:
    x = wy.IndexInput(dims=(Batch(),), name="x")
    table = wy.Parameter(np.arange(4, dtype=np.float32), name="table")
    loss = table.index(x * 2).square().mean()
    return table, wy.compile(loss, wy.optim.SGD([table], 0.1) if optimizer else None, engine="jax")


COMPUTED = r"index_multiply .* \(at test_integers.py:\d+\) holds 4 at position \(1,\)"
TAKES = r", but index of table at test_integers.py:\d+ takes 0 to 3"


def test_a_computed_index_out_of_range() -> None:
    _, forward = _program()
    with pytest.raises(IndexOutOfRange, match=f"{COMPUTED}{TAKES}$"):
        forward({"x": [1, 2, 3]})
    with pytest.raises(IndexOutOfRange, match=r"holds -2 at position \(0,\)"):
        forward({"x": [-1]})
    assert float(forward({"x": [0, 1]})) == 2.0
    table, program = _program(optimizer=True)
    with pytest.raises(IndexOutOfRange, match=f"{COMPUTED}{TAKES}; no parameter has moved"):
        program({"x": [1, 2, 3]})
    with pytest.raises(IndexOutOfRange, match=f"{COMPUTED}{TAKES}; no gradient was added"):
        program.backward({"x": [1, 2, 3]})
    np.testing.assert_array_equal(table.value, np.arange(4))
    assert not table.gradient.any()


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}])
def test_an_epoch_ends_before_a_computed_index_out_of_range(options: dict[str, Any]) -> None:
    (table, program), (expected, same) = _program(optimizer=True), _program(optimizer=True)
    good = [0, 1, 1, 0, 1, 1, 0, 0]
    text = rf"{COMPUTED} in epoch 1, batch 5{TAKES}; the parameters are as they were after batch 4"
    with pytest.raises(IndexOutOfRange, match=text):
        program.epoch({"x": [*good, 1, 2, 0, 1]}, batch_size=2, **options)
    same.epoch({"x": good}, batch_size=2, **options)
    np.testing.assert_array_equal(table.value, expected.value)
    assert program.state_dict() == {"steps": 4, "epochs": 0}


def test_an_index_into_the_batch_is_checked_in_the_smaller_last_batch() -> None:
    x, rows = wy.Input(dims=(Batch(),), name="x"), wy.IndexInput(dims=(Batch(),), name="rows")
    weight = wy.Parameter(1.0)
    program = wy.compile((x[rows] * weight).mean(), wy.optim.SGD([weight], 0.1), engine="jax")
    with pytest.raises(IndexOutOfRange, match=r"rows .* holds 3 at position \(1,\) in epoch 1, batch 2, .* -2 to 1"):
        program.epoch({x: np.ones(6), rows: [3, 2, 1, 0, 0, 3]}, batch_size=4)


def test_indices_that_equal_layers_compute() -> None:
    x = wy.IndexInput(dims=(Batch(),), name="x")
    tables = [wy.Parameter(np.full(4, float(i), np.float32)) for i in range(16)]
    value: Any = x.astype("float32") * 0.0
    for table in tables:
        value = (value + table.index(x * 2)).tanh()
    program = wy.compile(value.sum(), engine="jax")
    assert np.isfinite(program({x: [0, 1]}))
    with pytest.raises(IndexOutOfRange, match="holds 4"):
        program({x: [0, 2]})


def test_data_and_indices_of_known_ranges_need_no_check() -> None:
    x, labels = wy.Input(dims=(Batch(), 5), name="x"), wy.IndexInput(dims=(Batch(),), name="labels")
    table = wy.Parameter(np.ones((5, 5), np.float32))
    loss = ((x @ table).cross_entropy(labels) + table.index(x.argmax(axis=-1)).sum(axis=-1)).mean()
    program: Any = wy.compile(loss, wy.optim.SGD([table], 0.1), engine="jax")
    assert not program.graph.checks

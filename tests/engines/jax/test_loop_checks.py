"""Indices that loops and branches compute are checked as in native code: an error follows the step, never a NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import IndexOutOfRange

ENGINES = ["native", "jax"]


class Batch(wy.Dim): ...


def table() -> wy.Parameter:
    return wy.Parameter(np.arange(12, dtype=np.float32).reshape(4, 3) / 10.0, name="table")


def added_rows(rows: wy.Parameter, indices: Any) -> Any:
    """Return the sum of the rows two after those of `indices`."""
    total, _ = wy.scan(lambda h, i: (h + rows.index(i + 2), None), wy.Constant(np.zeros(3, np.float32)), indices)
    return total


@pytest.mark.parametrize("engine", ENGINES)
def test_a_value_with_an_index_out_of_range_is_an_error(engine: Any) -> None:
    indices = wy.IndexInput(dims=(3,), name="indices")
    program = wy.compile(added_rows(table(), indices), engine=engine)
    expected = np.arange(12).reshape(4, 3)[[2, 3, 2]].sum(axis=0) / 10.0
    np.testing.assert_allclose(program({indices: [0, 1, 0]}), expected, rtol=1e-6)
    with pytest.raises(IndexOutOfRange, match=r"holds 5.* index of table .* takes 0 to 3"):
        program({indices: [0, 1, 3]})
    np.testing.assert_allclose(program({indices: [0, 1, 0]}), expected, rtol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_step_with_an_index_out_of_range_moves_nothing(engine: Any) -> None:
    indices, rows = wy.IndexInput(dims=(3,), name="indices"), table()
    loss = added_rows(rows, indices).square().sum()
    program: Any = wy.compile(loss, wy.optim.SGD([rows], 0.01), engine=engine)
    program({indices: [0, 1, 0]})
    before = rows.value.copy()
    with pytest.raises(IndexOutOfRange, match=r"holds 5.*no parameter has moved"):
        program({indices: [0, 1, 3]})
    np.testing.assert_array_equal(rows.value, before)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_branch_that_is_not_taken_may_hold_anything(engine: Any) -> None:
    indices, rows = wy.IndexInput(dims=(2,), name="indices"), table()
    chosen = wy.cond(indices[0] > 1, lambda: rows.index(indices[1] + 2), lambda: rows.index(0))
    program = wy.compile(chosen, engine=engine)
    np.testing.assert_allclose(program({indices: [0, 3]}), [0.0, 0.1, 0.2], rtol=1e-6)
    with pytest.raises(IndexOutOfRange, match="holds 5"):
        program({indices: [2, 3]})


def test_an_epoch_names_the_batch() -> None:
    indices, rows = wy.IndexInput(dims=(Batch(), 3), name="indices"), table()
    first: Any = rows.index(indices[:, 0])
    last, _ = wy.scan(lambda h, i: (h + rows.index(i + 2), None), first, indices.T)
    program: Any = wy.compile(last.square().mean(), wy.optim.SGD([rows], 0.01), engine="jax")
    data = np.zeros((16, 3), int)
    program.epoch({indices: data}, batch_size=2)
    data[9, 1] = 3
    with pytest.raises(IndexOutOfRange, match=r"holds 5 .*in epoch 2, batch 5; the parameters are as they were after"):
        program.epoch({indices: data}, batch_size=2)
    assert np.isfinite(rows.value).all()

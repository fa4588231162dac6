"""`Program.backward` accumulates the reference engine's gradients, for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import Diverged


class Batch(wy.Dim): ...


def model() -> tuple[Any, Any, list[Any], dict[Any, Any]]:
    random, batch = np.random.default_rng(0), Batch()
    rows = wy.IndexInput(dims=(batch,), name="rows")
    x = wy.Input(dims=(batch, 3), name="x", dtype=np.float64)
    table = wy.Parameter(random.normal(size=(9, 3)), name="table")
    weight = wy.Parameter(random.normal(size=(3, 3)), name="weight")
    found: Any = (table.index(rows) @ weight - x).square().sum(axis=-1)
    loss = found.mean()
    columns = {rows: random.integers(0, 9, 7), x: random.normal(size=(7, 3))}
    return loss, wy.compile(loss, wy.optim.SGD([table, weight], 0.1)), [table, weight], columns


def test_products_may_be_divided_instead_of_batches() -> None:
    _, program, parameters, columns = model()
    losses = [program.backward(columns, blas_threads=count) for count in (1, 2)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    assert all(np.asarray(parameter.gradient).any() for parameter in parameters)
    with pytest.raises(ValueError, match="blas_threads must be an integer of at least 1, not 0"):
        program.backward(columns, blas_threads=0)


@pytest.mark.parametrize("threads", [1, 2, 3, 20])
def test_gradients_are_added_to_those_that_are_held(threads: int) -> None:
    loss, program, parameters, columns = model()
    for _ in range(2):
        for leaf, column in columns.items():
            leaf.set(column)
        expected = float(loss.forward())
        loss.backward()
    want = [np.asarray(parameter.gradient) for parameter in parameters]
    loss.zero_gradient()
    values = [parameter.value.copy() for parameter in parameters]
    for weight in (0.5, 1.5):
        assert program.backward(columns, threads=threads, weight=weight) == pytest.approx(expected, rel=1e-12)
    for parameter, gradient, value in zip(parameters, want, values, strict=True):
        np.testing.assert_allclose(np.asarray(parameter.gradient), gradient, rtol=1e-10)
        np.testing.assert_array_equal(parameter.value, value)


def test_clipping_and_a_step_are_those_of_the_reference() -> None:
    results = []
    for native in (True, False):
        loss, program, parameters, columns = model()
        optimizer = wy.optim.Adam(parameters, 0.1)
        for _ in range(3):
            if native:
                program.backward(columns)
            else:
                for leaf, column in columns.items():
                    leaf.set(column)
                loss.forward()
                loss.backward()
            wy.optim.clip_by_global_norm(parameters, 0.5)
            optimizer.step()
            optimizer.zero_gradient()
        results.append([parameter.value for parameter in parameters])
    for have, want in zip(*results, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-9)


def test_a_loss_that_is_not_finite_adds_nothing() -> None:
    _, program, parameters, columns = model()
    parameters[1].set(np.full((3, 3), 1e300))
    with np.errstate(over="ignore"), pytest.raises(Diverged, match="no gradient was added"):
        program.backward(columns)
    assert all(not np.any(np.asarray(parameter.gradient)) for parameter in parameters)

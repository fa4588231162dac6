"""Gradients of rows are summed for each touched row, in ascending order, for small tables and large ones."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from wyrm.engines.jax.divided_tables import by_sorting
from wyrm.engines.jax.step import rows_as_pytree
from wyrm.engines.jax.updates import TouchedRows, summed_rows


@pytest.mark.parametrize(
    ("size", "sorts"),
    [(3, False), (40, False), (80, False), (81, False), (160, False), (161, True), (5000, True)],
)
def test_each_touched_row_has_the_sum_of_its_gradients(size: int, sorts: bool) -> None:
    rows_as_pytree()
    draw = np.random.default_rng(0)
    rows = draw.integers(0, size, 40).astype(np.int32)
    values = draw.normal(size=(40, 3)).astype(np.float32)
    expected = np.zeros((size, 3), np.float64)
    np.add.at(expected, rows, values)
    function = jax.jit(
        lambda values, rows: summed_rows([(values[:15], rows[:15]), (values[15:], rows[15:])], (size, 3))
    )
    found = function(values, rows)
    touched = np.unique(rows)
    if size <= 80:  # the devices update a small table as a whole
        assert isinstance(found, TouchedRows)
        np.testing.assert_array_equal(np.flatnonzero(found.touched), touched)
        np.testing.assert_allclose(found.values, expected, rtol=1e-5, atol=1e-6)
    else:
        assert found.rows.shape == (40,) and found.rows.dtype == np.int32
        np.testing.assert_array_equal(found.rows, [*touched, *[size] * (40 - len(touched))])
        np.testing.assert_allclose(found.values[: len(touched)], expected[touched], rtol=1e-5, atol=1e-6)
        assert not np.any(found.values[len(touched) :])
    assert (" sort(" in function.lower(values, rows).compile().as_text()) == sorts


@pytest.mark.parametrize("rows", [[], [9], [4], [9, 9, 0], [8, 9, 0, 8, 3, 3]])
def test_touched_rows_are_those_of_numpy(rows: list[int]) -> None:
    given = np.array(rows, np.int32)
    found, places = jax.jit(lambda rows: by_sorting(rows, 9, len(rows)))(given)  # 9 is padding
    expected, expected_places = np.unique(given, return_inverse=True)
    np.testing.assert_array_equal(found, np.pad(expected, (0, len(rows) - len(expected)), constant_values=9))
    np.testing.assert_array_equal(places, expected_places)

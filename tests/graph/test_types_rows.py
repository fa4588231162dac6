"""Row-sparse values against dense arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wyrm.graph.rows import RowSparse

rows_lists = st.lists(st.integers(0, 4), max_size=8)


def make(rows: list[int], seed: int = 0) -> RowSparse:
    values = np.random.default_rng(seed).normal(size=(len(rows), 3))
    return RowSparse(np.array(rows, dtype=np.int64), values, (5, 3))


def dense(sparse: RowSparse) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    result = np.zeros(sparse.shape)
    for row, value in zip(sparse.rows, sparse.values, strict=True):
        result[row] += value
    return result


@settings(deadline=None)
@given(rows_lists)
def test_duplicate_rows_count_as_their_sum(rows: list[int]) -> None:
    sparse = make(rows)
    np.testing.assert_allclose(sparse.dense(), dense(sparse))
    np.testing.assert_allclose(np.asarray(sparse), dense(sparse))


@settings(deadline=None)
@given(rows_lists)
def test_summed_names_each_row_once_in_order(rows: list[int]) -> None:
    summed = make(rows).summed()
    assert summed.rows.tolist() == sorted(set(rows))
    np.testing.assert_allclose(summed.dense(), dense(make(rows)), atol=1e-15)


@settings(deadline=None)
@given(rows_lists, rows_lists)
def test_joined_is_the_sum(left: list[int], right: list[int]) -> None:
    joined = make(left, 1).joined(make(right, 2))
    np.testing.assert_allclose(joined.dense(), dense(make(left, 1)) + dense(make(right, 2)), atol=1e-15)


def test_add_to_adds_in_place() -> None:
    array = np.ones((5, 3))
    make([1, 1]).add_to(array)
    np.testing.assert_allclose(array, 1 + dense(make([1, 1])))


def test_asarray_takes_a_dtype_and_repr_is_short() -> None:
    sparse = make([1, 4])
    assert np.asarray(sparse, dtype=np.float32).dtype == np.float32
    assert sparse.dtype == np.float64
    assert repr(sparse) == "RowSparse(2 rows of (5, 3), float64)"

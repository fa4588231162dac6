from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import wyrm as wy
from wyrm.data import ItemRows
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, ShapeError

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PAIRS)
def test_rows_of_pairs_are_those_of_scipy(pairs: list[tuple[int, int]]) -> None:
    users, items = np.array(pairs, np.int64).reshape(-1, 2).T
    rows = ItemRows.of_pairs(users, items, user_count=4, item_count=6)
    matrix = sparse.csr_matrix((np.ones(len(users)), (users, items)), shape=(4, 6))
    matrix.sum_duplicates()
    np.testing.assert_array_equal(rows.indptr, matrix.indptr)
    np.testing.assert_array_equal(rows.indices, matrix.indices)
    np.testing.assert_array_equal(rows.mask(), matrix.toarray() > 0)
    np.testing.assert_array_equal(rows.counts, rows.mask().sum(axis=1))
    assert (len(rows), rows.shape) == (4, (4, 6))
    some = np.array([3, 0, 3])
    np.testing.assert_array_equal(rows.take(some).mask(), rows.mask()[some])
    assert [rows.row(user).tolist() for user in range(4)] == [np.flatnonzero(each).tolist() for each in rows.mask()]
    padded = rows.padded()
    assert [[item for item in row if item >= 0] for row in padded.tolist()] == [rows.row(u).tolist() for u in range(4)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PAIRS, PAIRS)
def test_the_union_has_the_items_of_both(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    both = [
        ItemRows.of_pairs(*np.array(p, np.int64).reshape(-1, 2).T, user_count=4, item_count=6) for p in (first, second)
    ]
    union = both[0] | both[1]
    np.testing.assert_array_equal(union.mask(), both[0].mask() | both[1].mask())
    assert union.shape == (4, 6)


def test_a_union_is_of_equal_shapes() -> None:
    rows = ItemRows.of_pairs([0], [0], user_count=2, item_count=3)
    with pytest.raises(ShapeError, match="rows of 2 users and 3 items, and others of 3 and 3"):
        _ = rows | ItemRows.of_pairs([0], [0], user_count=3, item_count=3)
    wrong: Any = rows
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = wrong | {1, 2}


def test_unsorted_and_repeated_items_become_distinct_and_ascending() -> None:
    rows = ItemRows(np.array([0, 3, 3, 4]), np.array([5, 1, 5, 0]), 6)
    assert (rows.indptr.tolist(), rows.indices.tolist()) == ([0, 2, 2, 3], [1, 5, 0])


def test_random_nodes_take_rows() -> None:
    class Batch(wy.Dim): ...

    rows = ItemRows.of_pairs([0, 0, 1], [0, 1, 2], user_count=2, item_count=3)
    users = wy.IndexInput([0, 1, 1], dims=(Batch(),))
    known = wy.random.index(3, (Batch(),), exclude=rows, rows=users, stream=0)
    pair = wy.random.index(3, (Batch(),), exclude=(rows.indptr, rows.indices), rows=users, stream=0)
    drawn = []
    for node in (known, pair):
        wy.random.set_step(0)
        drawn.append(node.forward().tolist())
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0, 1], [6], 6), IndexOutOfRange, "user 0 has item 6; expected 0 to 5"),
        (([0, 0, 1], [-1], 6), IndexOutOfRange, "user 1 has item -1"),
        (([1, 1], [0], 6), DataError, "indptr must ascend from 0"),
        (([0, 2, 1], [0], 6), DataError, "indptr must ascend from 0"),
        (([], [], 6), DataError, "indptr must ascend from 0"),
        (([[0, 1]], [0], 6), ShapeError, r"indptr has shape \(1, 2\)"),
        (([0, 1], [0.5], 6), DTypeError, "indices has dtype float64"),
    ],
)
def test_contradictions_are_refused(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ItemRows(np.array(arguments[0]), np.array(arguments[1]), arguments[2])


def test_pairs_beyond_the_counts_are_refused() -> None:
    with pytest.raises(IndexOutOfRange, match="users holds 2; expected 0 to 1"):
        ItemRows.of_pairs([2], [0], user_count=2, item_count=3)
    with pytest.raises(ShapeError, match="users has 1 elements and items 2"):
        ItemRows.of_pairs([1], [0, 1], user_count=2, item_count=3)

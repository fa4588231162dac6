"""Datasets that compute their rows: transforms, selections and joins give what they give for arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wyrm.data import DataLoader, Dataset, concatenate, train_test_split
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, ShapeError


def numbered(rows: int, start: int = 0) -> Dataset:
    row = np.arange(start, start + rows)
    return Dataset(row=row, pair=np.stack([row, -row], axis=1).astype(np.float32))


def squared(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"row": columns["row"], "square": columns["row"] ** 2, "sum": columns["pair"].sum(axis=1)}


def noisy(columns: dict[str, np.ndarray], generator: np.random.Generator) -> dict[str, np.ndarray]:
    return {"row": columns["row"], "noise": generator.normal(size=len(columns["row"]))}


LAZY: list[Callable[[int], Dataset]] = [
    lambda rows: numbered(rows).map(squared),
    lambda rows: numbered(rows).map(lambda columns: columns).map(squared),
    lambda rows: concatenate([numbered(rows // 3), numbered(rows - rows // 3, rows // 3)]).map(squared),
    lambda rows: concatenate([numbered(rows // 3).map(squared), numbered(rows - rows // 3, rows // 3).map(squared)]),
    lambda rows: concatenate([numbered(rows), numbered(rows)])[:rows].map(squared),
]


@pytest.mark.parametrize("make", LAZY)
@pytest.mark.parametrize("rows", [3, 2500])
def test_a_computed_dataset_is_that_of_its_arrays(make: Callable[[int], Dataset], rows: int) -> None:
    lazy, eager = make(rows), Dataset(squared(dict(numbered(rows).columns)))
    assert repr(lazy) == repr(eager) and len(lazy) == rows and lazy.column_names == eager.column_names
    for name, column in eager.columns.items():
        np.testing.assert_array_equal(lazy[name], column)
        assert lazy[name].dtype == column.dtype
    for chosen in (slice(1, None, 2), np.array([2, 0, -1]), np.arange(rows) % 2 == 0):
        for name in eager.column_names:
            np.testing.assert_array_equal(lazy[chosen][name], eager[chosen][name])
            np.testing.assert_array_equal(lazy[chosen][::-1][name], eager[chosen][::-1][name])
    assert list(lazy.select_columns("sum", "row").columns) == ["sum", "row"]


@pytest.mark.parametrize("make", LAZY)
def test_a_loader_gives_the_same_batches(make: Callable[[int], Dataset]) -> None:
    lazy, eager = make(23), Dataset(squared(dict(numbered(23).columns)))
    for _ in range(2):
        for ours, theirs in zip(DataLoader(lazy, 5, seed=3), DataLoader(eager, 5, seed=3), strict=True):
            assert all((ours[name] == theirs[name]).all() for name in theirs)


def test_a_transform_sees_the_rows_of_a_batch_alone() -> None:
    sizes: list[int] = []

    def counted(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        sizes.append(len(columns["row"]))
        return columns

    dataset = numbered(10).map(counted)
    assert sizes == [1]
    for _ in DataLoader(dataset, 4):
        pass
    assert sizes == [1, 4, 4, 2]
    part = dataset[:3]
    assert part["row"].tolist() == [0, 1, 2] and max(sizes[4:]) == 3


def test_a_random_transform_depends_on_the_seed_the_epoch_and_the_batch_alone() -> None:
    def epochs(seed: int, count: int = 2) -> list[np.ndarray]:
        loader = DataLoader(numbered(20).map(noisy, seed=seed), 6, seed=1)
        return [np.concatenate([batch["noise"] for batch in loader]) for _ in range(count)]

    first, second = epochs(0)
    assert (first != second).all()
    np.testing.assert_array_equal(epochs(0)[1], second)
    assert (epochs(1)[0] != first).all()
    resumed = DataLoader(numbered(20).map(noisy, seed=0), 6, seed=1)
    resumed.epoch = 1
    np.testing.assert_array_equal(np.concatenate([batch["noise"] for batch in resumed]), second)


@settings(deadline=None)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5), seed=st.integers(0, 100))
def test_joined_rows_are_those_of_the_parts(sizes: list[int], seed: int) -> None:
    starts = np.cumsum([0, *sizes])
    parts = [numbered(size, start) for size, start in zip(sizes, starts, strict=False)]
    joined, whole = concatenate(parts), numbered(int(starts[-1]))
    rows = np.random.default_rng(seed).integers(0, len(whole), 7)
    for name, column in joined.take(rows).items():
        np.testing.assert_array_equal(column, whole[name][rows])


def test_a_join_takes_the_common_dtype() -> None:
    joined = concatenate([Dataset(x=np.arange(2)), Dataset(x=np.array([0.5, 1.5]))])
    assert joined["x"].tolist() == [0.0, 1.0, 0.5, 1.5]
    names = concatenate([Dataset(name=["a"]), Dataset(name=["longer"])])
    assert names["name"].tolist() == ["a", "longer"]


def test_a_filter_keeps_rows() -> None:
    for dataset in (numbered(2500), numbered(2500).map(lambda columns: columns)):
        assert dataset.filter(lambda columns: columns["row"] % 1000 == 7)["row"].tolist() == [7, 1007, 2007]
        with pytest.raises(DataError, match="none of the 2500 rows"):
            dataset.filter(lambda columns: columns["row"] < 0)
        with pytest.raises(DTypeError, match="the predicate returned int64"):
            dataset.filter(lambda columns: columns["row"])


def test_a_computed_dataset_can_be_split_and_checked() -> None:
    dataset = numbered(10).map(squared)
    training, test = train_test_split(dataset, 0.3, seed=0)
    assert sorted([*training["row"], *test["row"]]) == list(range(10))
    dataset.check_finite()
    with pytest.raises(IndexOutOfRange, match="column 'square' holds 16 in row 4"):
        dataset.check_index("square", 10)
    with pytest.raises(DataError, match="no column 'pair'"):
        _ = dataset["pair"]
    with pytest.raises(IndexOutOfRange):
        _ = dataset[[10]]


def test_what_a_transform_must_return() -> None:
    broken: list[tuple[type[Exception], str, Any]] = [
        (DTypeError, "must return columns by name", lambda columns: columns["row"]),
        (DTypeError, "must return columns by name", lambda columns: {}),
        (ShapeError, "returned 2 rows of column 'row' for a batch of 1 rows", lambda columns: {"row": [1, 2]}),
        (ShapeError, "column 'row' is a single value", lambda columns: {"row": 1}),
    ]
    for error, match, function in broken:
        with pytest.raises(error, match=match):
            numbered(5).map(function)


def test_what_cannot_be_joined() -> None:
    untyped: Any = concatenate
    with pytest.raises(DataError, match="at least one"):
        concatenate([])
    with pytest.raises(TypeError, match="not of dict"):
        untyped([numbered(2), {"row": [1]}])
    with pytest.raises(DataError, match="dataset 0 has the columns row, pair, dataset 1 has x"):
        concatenate([numbered(2), Dataset(x=[1])])
    with pytest.raises(ShapeError, match="column 'x' holds int64"):
        concatenate([Dataset(x=[1]), Dataset(x=[[1, 2]])])
    with pytest.raises(ShapeError, match="column 'x' holds int64"):
        concatenate([Dataset(x=[1]), Dataset(x=["a"])])

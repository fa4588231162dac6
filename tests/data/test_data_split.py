from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wyrm as wy
from wyrm.data import Dataset, concatenate, split_by_group, train_test_split
from wyrm.errors import DataError, DTypeError, ShapeError


@settings(deadline=None)
@given(rows=st.integers(2, 60), fraction=st.floats(0.01, 0.99), seed=st.integers(0, 1000))
def test_each_row_is_in_exactly_one_part(rows: int, fraction: float, seed: int) -> None:
    dataset = Dataset(row=np.arange(rows))
    if not 0 < round(rows * fraction) < rows:
        with pytest.raises(DataError, match="leaves none for the"):
            train_test_split(dataset, fraction, seed)
        return
    train, test = train_test_split(dataset, fraction, seed)
    assert len(test) == round(rows * fraction)
    assert sorted([*train["row"], *test["row"]]) == list(range(rows))
    assert (np.diff(train["row"]) > 0).all() and (np.diff(test["row"]) > 0).all()


def test_a_split_depends_on_the_seed_alone() -> None:
    dataset = Dataset(row=np.arange(100))
    assert np.array_equal(train_test_split(dataset)[1]["row"], train_test_split(dataset, 0.2, seed=0)[1]["row"])
    assert not np.array_equal(train_test_split(dataset)[1]["row"], train_test_split(dataset, seed=1)[1]["row"])


@settings(deadline=None)
@given(groups=st.lists(st.integers(-3, 8), min_size=1, max_size=60), seed=st.integers(0, 1000))
def test_no_group_is_in_both_parts(groups: list[int], seed: int) -> None:
    dataset = Dataset(users=groups, row=np.arange(len(groups)))
    count = len(set(groups))
    if round(count * 0.3) == 0:
        with pytest.raises(DataError, match=f"of {count} groups of column 'users' leaves none for the test part"):
            split_by_group(dataset, test_fraction=0.3, seed=seed)
        return
    train, test = split_by_group(dataset, test_fraction=0.3, seed=seed)
    assert not set(train["users"]) & set(test["users"])
    assert len(set(test["users"])) == round(count * 0.3)
    assert sorted([*train["row"], *test["row"]]) == list(range(len(groups)))


def test_groups_may_be_any_column() -> None:
    train, test = split_by_group(Dataset(author=["a", "b", "a", "c"]), group="author", test_fraction=0.34)
    assert {*train["author"], *test["author"]} == {"a", "b", "c"}


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 1.5, np.nan])
@pytest.mark.parametrize("split", [train_test_split, split_by_group])
def test_a_fraction_outside_its_range_is_refused(split: Any, fraction: float) -> None:
    with pytest.raises(DataError, match=rf"test_fraction must be in \(0, 1\), .*, not {fraction}"):
        split(Dataset(users=np.arange(10)), test_fraction=fraction)


def test_bad_options_are_refused() -> None:
    dataset = Dataset(users=np.arange(10), pair=np.zeros((10, 2)))
    with pytest.raises(DTypeError, match=r"test_fraction must be a number in \(0, 1\), not '0\.2'"):
        train_test_split(dataset, "0.2")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="seed must be an integer of at least 0, not -1"):
        train_test_split(dataset, seed=-1)
    with pytest.raises(DataError, match="no column 'items'"):
        split_by_group(dataset, group="items")
    with pytest.raises(ShapeError, match=r"column 'pair' has shape \(10, 2\)"):
        split_by_group(dataset, group="pair")
    with pytest.raises(DataError, match="leaves none for the training part"):
        train_test_split(dataset, test_fraction=0.99)


def test_datasets_with_rows_of_different_lengths_are_joined() -> None:
    of_rows = wy.RaggedArray.of_rows
    first = Dataset(ids=of_rows([[1, 2], [], [3]]), y=[1, 2, 3])
    both = concatenate([first, Dataset(ids=of_rows([[4], [5, 6]]), y=[4, 5])])
    assert both["ids"].tolist() == [[1, 2], [], [3], [4], [5, 6]]
    chosen = both[[4, 0, 3]]
    assert chosen["ids"].tolist() == [[5, 6], [1, 2], [4]] and chosen["y"].tolist() == [5, 1, 4]
    with pytest.raises(ShapeError, match="'ids' has rows of different lengths in one of the datasets 0 and 1"):
        concatenate([first, Dataset(ids=[[4, 5]], y=[4])])
    with pytest.raises(ShapeError, match="'ids' has rows of different lengths; expected one group per row"):
        split_by_group(first, "ids")

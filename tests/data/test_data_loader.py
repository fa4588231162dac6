from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wyrm.data import DataLoader, Dataset
from wyrm.errors import DataError, DTypeError, NotFinite, ShapeError


def numbered(rows: int) -> Dataset:
    return Dataset(row=np.arange(rows), pair=np.stack([np.arange(rows), -np.arange(rows)], axis=1))


def one_pass(loader: DataLoader) -> list[int]:
    return [row for batch in loader for row in batch["row"].tolist()]


@settings(deadline=None)
@given(rows=st.integers(1, 40), batch_size=st.integers(1, 45), shuffle=st.booleans(), seed=st.integers(0, 2**70))
def test_an_epoch_visits_every_row_once(rows: int, batch_size: int, shuffle: bool, seed: int) -> None:
    loader = DataLoader(numbered(rows), batch_size, shuffle=shuffle, seed=seed)
    batches = list(loader)
    assert len(batches) == len(loader)
    assert all(len(batch["row"]) == batch_size for batch in batches[:-1])
    assert 1 <= len(batches[-1]["row"]) <= batch_size
    visited = np.concatenate([batch["row"] for batch in batches])
    assert sorted(visited.tolist()) == list(range(rows))
    assert np.array_equal(np.concatenate([batch["pair"] for batch in batches])[:, 1], -visited)


@settings(deadline=None)
@given(rows=st.integers(1, 40), batch_size=st.integers(1, 40))
def test_drop_last_keeps_full_batches_alone(rows: int, batch_size: int) -> None:
    if batch_size > rows:
        with pytest.raises(DataError, match="leaves no batch"):
            DataLoader(numbered(rows), batch_size, drop_last=True)
        return
    loader = DataLoader(numbered(rows), batch_size, drop_last=True)
    assert [len(batch["row"]) for batch in loader] == [batch_size] * (rows // batch_size)
    assert len(loader) == rows // batch_size


def test_without_shuffle_rows_keep_their_order() -> None:
    assert one_pass(DataLoader(numbered(7), 3, shuffle=False)) == list(range(7))


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    first, second = DataLoader(numbered(50), 8, seed=3), DataLoader(numbered(50), 16, seed=3)
    epochs = [one_pass(first) for _ in range(3)]
    assert epochs == [one_pass(second) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert one_pass(DataLoader(numbered(50), 8, seed=4)) != epochs[0]
    # Neither the global seed nor an abandoned epoch changes the next one.
    np.random.seed(0)  # noqa: NPY002
    third = DataLoader(numbered(50), 8, seed=3)
    next(iter(third))
    assert one_pass(third) == epochs[1]


def test_the_epoch_can_be_read_and_set() -> None:
    loader = DataLoader(numbered(50), 8)
    epochs = [one_pass(loader) for _ in range(3)]
    assert loader.epoch == 3
    loader.epoch = 1
    assert one_pass(loader) == epochs[1]
    with pytest.raises(DataError, match="epoch must be an integer of at least 0, not -1"):
        loader.epoch = -1


def test_passes_at_the_same_time_do_not_disturb_each_other() -> None:
    loader = DataLoader(numbered(20), 5)
    expected = [one_pass(loader), one_pass(loader)]
    loader.epoch = 0
    pairs = list(zip(loader, loader, strict=True))
    assert [[row for pair in pairs for row in pair[side]["row"].tolist()] for side in (0, 1)] == expected


def test_changing_a_batch_leaves_the_data_set_alone() -> None:
    dataset = numbered(4)
    for batch in DataLoader(dataset, 2, shuffle=False):
        batch["row"][:] = 99
    assert dataset["row"].tolist() == [0, 1, 2, 3]


def test_weights_draw_in_proportion_and_never_a_row_of_weight_zero() -> None:
    weights = np.array([0.0, 1.0, 3.0, 0.0, 6.0, 0.0])
    loader = DataLoader(numbered(6), 4, weights=weights, seed=1)
    drawn = [row for _ in range(5000) for row in one_pass(loader)]
    assert len(drawn) == 30000
    share = np.bincount(drawn, minlength=6) / len(drawn)
    assert share[[0, 3, 5]].tolist() == [0, 0, 0]
    # Five standard deviations of a frequency over 30,000 draws are below 0.015.
    assert np.allclose(share, weights / weights.sum(), atol=0.015)
    again = DataLoader(numbered(6), 4, weights=weights.tolist(), seed=1)
    assert [row for _ in range(3) for row in one_pass(again)] == drawn[:18]


@pytest.mark.parametrize("weights", [[5e-324, 0.0], [1.7e308, 1.7e308], [True, False], [2, 1]])
def test_extreme_weights_work(weights: Any) -> None:
    assert set(one_pass(DataLoader(numbered(2), 1, weights=weights))) <= set(np.flatnonzero(weights).tolist())


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1.0, 2.0], ShapeError, r"shape \(2,\) for 3 rows; expected \(3,\)"),
        ([[1.0, 2.0, 3.0]], ShapeError, r"shape \(1, 3\) for 3 rows"),
        ([1.0, -2.0, 1.0], DataError, r"weights hold -2\.0 for row 1"),
        ([1.0, 2.0, np.nan], NotFinite, "weights hold nan for row 2"),
        ([np.inf, 2.0, 1.0], NotFinite, "weights hold inf for row 0"),
        ([0.0, 0.0, 0.0], DataError, "all 3 weights are zero"),
        (["a", "b", "c"], DTypeError, "weights have dtype"),
    ],
)
def test_bad_weights_are_refused(weights: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DataLoader(numbered(3), 1, weights=weights)


def test_weights_without_shuffle_are_refused() -> None:
    with pytest.raises(DataError, match="shuffle=False forbids"):
        DataLoader(numbered(2), 1, shuffle=False, weights=[1.0, 2.0])


@pytest.mark.parametrize("batch_size", [0, -3])
def test_a_batch_size_below_one_is_refused(batch_size: int) -> None:
    with pytest.raises(DataError, match=f"batch_size must be an integer of at least 1, not {batch_size}"):
        DataLoader(numbered(3), batch_size)


@pytest.mark.parametrize("batch_size", [2.0, True, "2", None])
def test_a_batch_size_that_is_no_integer_is_refused(batch_size: Any) -> None:
    with pytest.raises(DTypeError, match=r"batch_size must be an integer"):
        DataLoader(numbered(3), batch_size)


def test_a_bad_seed_is_refused() -> None:
    with pytest.raises(DataError, match="seed must be an integer of at least 0, not -1"):
        DataLoader(numbered(3), 1, seed=-1)


def test_numpy_integers_are_taken() -> None:
    assert len(DataLoader(numbered(3), np.int64(2), seed=np.uint8(3))) == 2  # type: ignore[arg-type]

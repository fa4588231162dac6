from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wyrm as wy
from wyrm.data import Interactions, histories, leave_one_out, sequences, split_by_group, split_by_time, train_test_split
from wyrm.errors import DataError, DTypeError, OptionError

W: Any = wy.data
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=25)


def interactions(rows: list[tuple[int, int, int]]) -> Interactions:
    users, items, times = np.array(rows).T
    return Interactions.of(users, items, timestamps=times)


def triples(data: Interactions) -> list[tuple[Any, ...]]:
    ids = data.user_ids[data.users], data.item_ids[data.items], data.timestamps
    return list(zip(*(each.tolist() for each in ids), strict=True))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ROWS, st.integers(0, 5))
def test_a_time_divides_all_users(rows: list[tuple[int, int, int]], at: int) -> None:
    data = interactions(rows)
    before, after = [row for row in rows if row[2] < at], [row for row in rows if row[2] >= at]
    if not before or not after:
        with pytest.raises(DataError, match="leaves no rows for the"):
            split_by_time(data, at=at)
        return
    train, test = split_by_time(data, at=at)
    assert (triples(train), triples(test)) == (before, after)
    assert train.user_ids is data.user_ids


def test_the_latest_fraction_is_for_testing() -> None:
    times = np.random.default_rng(0).permutation(50)
    data = Interactions.of(np.arange(50) % 7, np.arange(50), timestamps=times)
    train, test = split_by_time(data, 0.3)
    assert len(test) == 15 and test.timestamps.min() > train.timestamps.max()
    same = Interactions.of([0, 1, 2, 3], [0, 1, 2, 3], timestamps=[1, 2, 2, 2])
    assert split_by_time(same, 0.25)[1].users.tolist() == [1, 2, 3]  # rows of one time stay together


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ROWS, st.integers(1, 3))
def test_the_latest_rows_of_each_user_are_left_out(rows: list[tuple[int, int, int]], count: int) -> None:
    data = interactions(rows)
    latest = set()
    for user in {row[0] for row in rows}:
        own = sorted((time, at) for at, (owner, _, time) in enumerate(rows) if owner == user)
        latest |= {at for _, at in own[-count:]} if len(own) > count else set()
    if not latest:
        with pytest.raises(DataError, match=f"no user has more than {count} rows"):
            leave_one_out(data, count)
        return
    train, test = leave_one_out(data, count)
    assert triples(test) == [row for at, row in enumerate(rows) if at in latest]
    assert triples(train) == [row for at, row in enumerate(rows) if at not in latest]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ROWS, st.integers(1, 5), st.integers(0, 4), st.sampled_from(["left", "right"]))
def test_sequences_are_cut_from_the_end(rows: list[tuple[int, int, int]], length: int, overlap: int, side: Any) -> None:
    data = interactions(rows)
    if overlap >= length:
        with pytest.raises(DataError, match=f"overlap is {overlap} of rows of {length}"):
            sequences(data, length, overlap=overlap)
        return
    own = [
        data.items[sorted(np.flatnonzero(data.users == user), key=lambda row: (data.timestamps[row], row))].tolist()
        for user in range(data.user_count)
    ]
    assert [items.tolist() for items in histories(data)] == own
    cut = sequences(data, length, overlap=overlap, side=side, padding=77)
    for user, items in enumerate(own):
        mine = cut["users"] == user
        kept = [row[mask].tolist() for row, mask in zip(cut["items"][mine], cut["mask"][mine], strict=True)]
        assert kept[0] == items[-length:]
        joined = list(kept[-1])
        for row in kept[-2::-1]:
            joined += row[min(overlap, len(joined)) :]
        assert joined == items
        assert [len(row) for row in kept] == cut["lengths"][mine].tolist()
    assert set(cut["items"][~cut["mask"]].tolist()) <= {77}
    ends = cut["mask"][:, -1] if side == "left" else cut["mask"][:, 0]
    assert ends.all()
    last = sequences(data, length, cuts="last")
    assert [row[mask].tolist() for row, mask in zip(last["items"], last["mask"], strict=True)] == [
        items[-length:] for items in own
    ]


def test_next_items_stand_beside_the_items_before_them() -> None:
    data = Interactions.of([0] * 6, [5, 6, 7, 8, 9, 10])
    rows = sequences(data, 4, overlap=1, shortest=2)
    assert rows["items"].tolist() == [[2, 3, 4, 5], [0, 1, 2, 0]]
    before, after, mask = rows["items"][:, :-1], rows["items"][:, 1:], rows["mask"][:, 1:]
    assert sorted(zip(before[mask].tolist(), after[mask].tolist(), strict=True)) == [(n, n + 1) for n in range(5)]
    with pytest.raises(DataError, match="no history has 7 items"):
        sequences(data, 8, shortest=7)


def test_interactions_are_split_at_random_and_by_user() -> None:
    data = Interactions.of(np.arange(40) % 10, np.arange(40))
    train, test = train_test_split(data, 0.25)
    assert (len(train), len(test)) == (30, 10) and isinstance(train, Interactions)
    dataset = train_test_split(data.dataset(), 0.25)[1]
    np.testing.assert_array_equal(test.items, dataset["items"])
    known, new = split_by_group(data, "users", 0.2)
    assert set(known.users.tolist()) & set(new.users.tolist()) == set() and len(new) == 8


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda data: split_by_time(data, 1.5), DataError, "test_fraction must be in"),
        (lambda data: split_by_time(data, at="2024-05-01"), DTypeError, "the timestamps have dtype int64"),
        (lambda data: leave_one_out(data, 0), DataError, "count must be"),
        (lambda data: sequences(data, 0), DataError, "length must be"),
        (lambda data: W.sequences(data, 2, side="both"), OptionError, "side must be 'right' or 'left'"),
        (lambda data: W.sequences(data, 2, cuts="some"), OptionError, "cuts must be 'all' or 'last'"),
        (lambda data: sequences(data, 2, padding=-1), DataError, "padding must be"),
    ],
)  # fmt: skip
def test_mistakes_are_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(wy.data.low_rank_preferences(3, 5, 2, 3))

"""Interactions in the order of time: splits into the past and the future, and the histories of users as sequences."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wyrm.data.checks import part_size, whole_number
from wyrm.data.dataset import Dataset
from wyrm.data.ids import times_of
from wyrm.data.interactions import Interactions
from wyrm.errors import DataError, DTypeError, OptionError


def split_by_time(
    data: Interactions, test_fraction: float = 0.2, *, at: Any = None
) -> tuple[Interactions, Interactions]:
    """Split into a training and a test part at a point in time, which is the same for all users.

    The test part has the rows from the time `at` on, a number or a date as `timestamps` are; without it, the latest
    `test_fraction` of the rows, above 0 and below 1. Rows of the same time are not divided, so that the part may be
    larger. Both parts have the ids of all data and keep its order.

    Users whose first row is in the test part have no past to learn from, and metrics over all users count them too. To
    keep the others: `test[np.isin(test.users, train.users)]`. `leave_one_out(data, count)` has a past for every user.

    Raises:
        DataError: a part is empty, or `test_fraction` is out of range.
        DTypeError: `at` is no time.

    >>> data = Interactions.of([0, 1, 0, 1, 0], [5, 6, 7, 8, 9], timestamps=[10, 30, 20, 50, 40])
    >>> train, test = split_by_time(data, test_fraction=0.4)
    >>> train.timestamps, test.timestamps
    (array([10, 30, 20]), array([50, 40]))
    >>> len(split_by_time(data, at=20)[1])
    4
    """
    times = data.timestamps
    if at is None:
        size = part_size(
            "test_fraction", test_fraction, len(data), "rows", "use a fraction nearer to 0.5, or more rows"
        )
        at = np.partition(times, len(data) - size)[len(data) - size]
    else:
        (at,) = times_of("at", [at])
        if (at.dtype.kind == "M") != (times.dtype.kind == "M"):
            raise DTypeError(f"at is {at!r}, but the timestamps have dtype {times.dtype}, such as {times[0]}")
        if times.dtype.kind == "i" and at.dtype.kind == "f" and np.isfinite(at):
            at = math.ceil(at)  # compared as floats, large times would be rounded
    test = times >= at
    if test.all() or not test.any():
        part = "training" if test.all() else "test"
        raise DataError(
            f"the time {at} leaves no rows for the {part} part; they are from {times.min()} to {times.max()}"
        )
    return data[~test], data[test]


def leave_one_out(data: Interactions, count: int = 1) -> tuple[Interactions, Interactions]:
    """Split into a training and a test part, where the test part has the latest `count` rows of each user.

    Of rows of the same time, the later one in the data counts as later. A user with no more than `count` rows has them
    all in the training part. Both parts have the ids of all data and keep its order. Split the training part once more
    for a validation part.

    Raises:
        DataError: `count` is below 1, or no user has more rows than that.

    >>> data = Interactions.of(["a", "a", "b", "a"], [5, 6, 7, 8], timestamps=[3, 1, 2, 2])
    >>> train, test = leave_one_out(data)
    >>> train.items, test.items
    (array([1, 2, 3]), array([0]))
    """
    count = whole_number("count", count, minimum=1)
    order = np.lexsort((data.timestamps, data.users))
    counts = data.user_counts
    from_end = np.repeat(np.cumsum(counts), counts) - np.arange(len(data))
    test = np.zeros(len(data), np.bool_)
    test[order] = (from_end <= count) & (np.repeat(counts, counts) > count)
    if not test.any():
        raise DataError(f"no user has more than {count} rows, so none is left for the test part")
    return data[~test], data[test]


def histories(data: Interactions) -> list[NDArray[np.int64]]:
    """Return the items of each user in the order of time, and of the data where times are the same.

    >>> [items.tolist() for items in histories(Interactions.of([0, 1, 0], [5, 6, 7], timestamps=[2, 1, 1]))]
    [[2, 0], [1]]
    """
    order = np.lexsort((data.timestamps, data.users))
    return np.split(data.items[order], np.cumsum(data.user_counts)[:-1])


def sequences(
    data: Interactions,
    length: int,
    *,
    overlap: int = 0,
    shortest: int = 1,
    side: Literal["right", "left"] = "right",
    padding: int = 0,
    cuts: Literal["all", "last"] = "all",
) -> Dataset:
    """Return the histories of users, in the order of time, as rows of one length.

    The columns are `users`, of shape (rows,), `items`, (rows, length), `mask`, (rows, length), True where there is an
    item, and `lengths`, (rows,). A long history is cut from its end into rows that share `overlap` items with the next,
    or with `cuts="last"` gives only the last row. Shorter rows are filled up on one `side` by `padding`, a number from
    0 on that an embedding can look up: multiply by the mask. Rows with fewer than `shortest` items are left out.

    For the next item at each place, take one place more and overlap by one: `items[:, :-1]` come before
    `items[:, 1:]`, with the mask `mask[:, 1:]`.

    Raises:
        DataError: a number is out of range, or no row is left.
        OptionError: another `side` or `cuts`.

    >>> data = Interactions.of([0, 0, 0, 1], [5, 6, 7, 8])
    >>> rows = sequences(data, length=2)
    >>> rows["users"], rows["items"].tolist(), rows["lengths"]
    (array([0, 0, 1]), [[1, 2], [0, 0], [3, 0]], array([2, 1, 1]))
    >>> sequences(data, length=4, side="left", cuts="last")["items"].tolist()
    [[0, 0, 1, 2], [0, 0, 0, 3]]
    """
    length, shortest = whole_number("length", length, minimum=1), whole_number("shortest", shortest, minimum=1)
    overlap, padding = whole_number("overlap", overlap, minimum=0), whole_number("padding", padding, minimum=0)
    if overlap >= length:
        raise DataError(f"overlap is {overlap} of rows of {length}; it must be below that")
    for name, value, allowed in (("side", side, ("right", "left")), ("cuts", cuts, ("all", "last"))):
        if value not in allowed:
            raise OptionError(f"{name} must be {allowed[0]!r} or {allowed[1]!r}, not {value!r}")
    found = [
        (user, items[max(0, end - length) : end])
        for user, items in enumerate(histories(data))
        for end in range(len(items), 0, overlap - length)
        if end == len(items) or (cuts == "all" and end > overlap)  # else the row only repeats items of the next one
    ]
    found = [(user, row) for user, row in found if len(row) >= shortest]
    if not found:
        raise DataError(f"no history has {shortest} items")
    lengths = np.array([len(row) for _, row in found])
    mask = np.arange(length) < lengths[:, np.newaxis]
    mask = mask[:, ::-1] if side == "left" else mask
    items = np.full((len(found), length), padding, np.int64)
    items[mask] = np.concatenate([row for _, row in found])
    return Dataset(
        users=np.array([user for user, _ in found]), items=items, mask=np.ascontiguousarray(mask), lengths=lengths
    )

"""Interactions of users with items, the data of recommenders: read from MovieLens files, or generated."""

from __future__ import annotations

import codecs
import math
import os
import re
from array import array
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from wyrm.data.checks import FilePath, open_data_file, whole_number
from wyrm.data.dataset import Dataset
from wyrm.errors import DataError, ShapeError


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Interactions of users with items: per row a user, an item, a rating and a timestamp.

    `users` and `items`, both int64 of shape (rows,), are indices into `user_ids` and `item_ids`, the original ids in
    ascending order. `ratings` is float32 and `timestamps` int64, both of shape (rows,).

    Raises:
        ShapeError: the columns differ in length, or the ids are not one-dimensional.
        IndexOutOfRange: a user or an item index is beyond its ids.
        DataError: there are no rows.

    >>> Interactions(
    ...     users=np.array([0, 1]), items=np.array([0, 0]), ratings=np.array([4, 5], np.float32),
    ...     timestamps=np.array([10, 20]), user_ids=np.array([196, 204]), item_ids=np.array([242]),
    ... )
    Interactions(2 rows, 2 users, 1 items)
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.float32]
    timestamps: NDArray[np.int64]
    user_ids: np.ndarray
    item_ids: np.ndarray

    def __post_init__(self) -> None:
        for name, ids in (("user_ids", self.user_ids), ("item_ids", self.item_ids)):
            if ids.ndim != 1:
                raise ShapeError(f"{name} has shape {ids.shape}; expected one dimension, with each id once.")
        dataset = self.dataset()
        dataset.check_index("users", self.user_count)
        dataset.check_index("items", self.item_count)

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        return f"Interactions({len(self)} rows, {self.user_count} users, {self.item_count} items)"

    @property
    def user_count(self) -> int:
        """Number of users."""
        return len(self.user_ids)

    @property
    def item_count(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    def dataset(self) -> Dataset:
        """Return a `Dataset` of the columns users, items, ratings and timestamps, which shares these arrays."""
        return Dataset(users=self.users, items=self.items, ratings=self.ratings, timestamps=self.timestamps)


# The header in this project's documentation, and that of the files GroupLens has published since 2014.
HEADERS = (b"user_id,item_id,rating,timestamp", b"userId,movieId,rating,timestamp")

# Strict number patterns: `int` and `float` also accept 1_0 and spaces.
_WHOLE, _DECIMAL = rb"([+-]?[0-9]+)", rb"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_LINES = {mark: re.compile(mark.join([_WHOLE, _WHOLE, _DECIMAL, _WHOLE])) for mark in (b"\t", b",")}


def _refuse(path: FilePath, number: int, line: bytes, separator: bytes) -> NoReturn:
    text = line.decode("utf-8", errors="replace").rstrip("\r\n")
    shown = text if len(text) <= 80 else text[:80] + "..."
    expected = (
        "user_id,item_id,rating,timestamp separated by commas"
        if separator == b","
        else "user_id, item_id, rating and timestamp separated by tabs, or a first line that reads "
        "user_id,item_id,rating,timestamp"
    )
    raise DataError(
        f"{os.fspath(path)}, line {number}: got {shown!r}; expected {expected}, "
        f"with whole numbers and a finite rating. Repair or remove the line."
    )


def read_movielens(path: FilePath) -> Interactions:
    """Read a file of MovieLens ratings: tab-separated `u.data`, or CSV with a header.

    A line holds user id, item id, rating, and timestamp in seconds since 1970. The header of a CSV file is
    `user_id,item_id,rating,timestamp` (or `userId,movieId,rating,timestamp`, as in the larger MovieLens sets). Rows
    keep the order of the file. Ids become indices from 0 in ascending order; `user_ids` and `item_ids` map indices back
    to ids. Blank lines are skipped.

    Raises:
        DataError: the file is missing or has no ratings, or a line is malformed; with the file and the line.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "u.data"
    ...     _ = path.write_text("196\\t242\\t3\\t881250949\\n186\\t302\\t3\\t891717742\\n")
    ...     ratings = read_movielens(path)
    >>> ratings
    Interactions(2 rows, 2 users, 2 items)
    >>> ratings.users, ratings.user_ids
    (array([1, 0]), array([186, 196]))
    """
    user_ids, item_ids, timestamps = array("q"), array("q"), array("q")
    ratings = array("f")
    separator = b"\t"
    with open_data_file(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
                if line.strip() in HEADERS:
                    separator = b","
                    continue
            # Strip only the line end: a line of tabs is malformed, not blank.
            content = line.rstrip(b"\r\n")
            if not content:
                continue
            fields = _LINES[separator].fullmatch(content)
            if fields is None:
                _refuse(path, number, line, separator)
            user, item, rating, timestamp = fields.groups()
            try:
                user_ids.append(int(user))
                item_ids.append(int(item))
                ratings.append(float(rating))
                timestamps.append(int(timestamp))
            except (ValueError, OverflowError):
                _refuse(path, number, line, separator)
            if not math.isfinite(ratings[-1]):
                _refuse(path, number, line, separator)
    if not ratings:
        raise DataError(
            f"{os.fspath(path)} holds no ratings; expected lines of user_id, item_id, rating and timestamp. "
            f"Pass a file of ratings (examples take it as --data)."
        )
    users, user_indices = np.unique(np.array(user_ids, dtype=np.int64), return_inverse=True)
    items, item_indices = np.unique(np.array(item_ids, dtype=np.int64), return_inverse=True)
    return Interactions(
        users=user_indices.astype(np.int64),
        items=item_indices.astype(np.int64),
        ratings=np.array(ratings, dtype=np.float32),
        timestamps=np.array(timestamps, dtype=np.int64),
        user_ids=users,
        item_ids=items,
    )


# Standard deviation of the taste part of a score; that of popularity is 1.
TASTE = 3.0

# Scores per chunk: many enough for vectorization, few enough for tens of megabytes.
SCORES_AT_ONCE = 1 << 20


def low_rank_preferences(
    user_count: int, item_count: int, rank: int, interactions_per_user: int, seed: int = 0
) -> Interactions:
    """Generate implicit feedback: each user's choices among items, driven by hidden preferences of low rank.

    Users and items have hidden standard normal vectors of length `rank`, and each item has a popularity. Each user
    draws `interactions_per_user` distinct items, one after the other, with probabilities proportional to exp(score),
    where the score is the scaled dot product of both vectors plus the popularity. Rows are ordered by user;
    timestamps number each user's choices from 0 in the order drawn; every rating is 1.

    Raises:
        DTypeError: a count or the seed is not an integer.
        DataError: a count is below 1, the seed is below 0, or `interactions_per_user` exceeds `item_count`.

    >>> preferences = low_rank_preferences(3, 10, rank=2, interactions_per_user=4)
    >>> preferences
    Interactions(12 rows, 3 users, 10 items)
    >>> preferences.users
    array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    """
    user_count = whole_number("user_count", user_count, minimum=1)
    item_count = whole_number("item_count", item_count, minimum=1)
    rank = whole_number("rank", rank, minimum=1)
    chosen_count = whole_number("interactions_per_user", interactions_per_user, minimum=1)
    if chosen_count > item_count:
        raise DataError(
            f"interactions_per_user must be at most item_count, {item_count}, because a user chooses each item at most "
            f"once, not {chosen_count}"
        )
    generator = np.random.default_rng(whole_number("seed", seed, minimum=0))
    user_vectors = generator.standard_normal((user_count, rank))
    item_vectors = generator.standard_normal((item_count, rank)) * (TASTE / np.sqrt(rank))
    popularity = generator.standard_normal(item_count)

    items = np.empty((user_count, chosen_count), dtype=np.int64)
    users_at_once = max(1, SCORES_AT_ONCE // item_count)
    for start in range(0, user_count, users_at_once):
        scores = user_vectors[start : start + users_at_once] @ item_vectors.T + popularity
        # Exponential races: item i arrives after an exponential time of rate exp(score i). The first k arrivals are k
        # softmax draws without replacement, in order. (The negative log times are the keys of the Gumbel top-k trick.)
        arrivals = generator.standard_exponential(scores.shape) * np.exp(-scores)
        first = np.argpartition(arrivals, chosen_count - 1, axis=1)[:, :chosen_count]
        order = np.argsort(np.take_along_axis(arrivals, first, axis=1), axis=1)
        items[start : start + users_at_once] = np.take_along_axis(first, order, axis=1)
    return Interactions(
        users=np.repeat(np.arange(user_count, dtype=np.int64), chosen_count),
        items=items.reshape(-1),
        ratings=np.ones(user_count * chosen_count, dtype=np.float32),
        timestamps=np.tile(np.arange(chosen_count, dtype=np.int64), user_count),
        user_ids=np.arange(user_count, dtype=np.int64),
        item_ids=np.arange(item_count, dtype=np.int64),
    )

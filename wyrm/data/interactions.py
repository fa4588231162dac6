"""Interactions of users with items, the data of recommenders: of ids of any type, with features, or generated."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Unpack

from wyrm.data.checks import Rows, check_lengths, whole_number
from wyrm.data.dataset import Dataset
from wyrm.data.ids import Ids, column_of, numbered, numbers_of, times_of
from wyrm.engines.tables import Table, column_names
from wyrm.errors import DataError, DTypeError, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.support.item_rows import ItemRows


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Interactions of users with items: per row a user, an item, a rating and a timestamp.

    `users` and `items`, both int64 of shape (rows,), are indices into `user_ids` and `item_ids`, the original ids, each
    once; in ascending order if they have one. `ratings` is float32, `timestamps` int64, float64 or datetime64, both of
    shape (rows,). `user_features` and `item_features` are datasets with one row for each user and item. `of` and
    `of_table` build them from ids of any type. `interactions[rows]` has some rows, with the same ids and features.

    Raises:
        ShapeError: the columns differ in length, the ids are not one-dimensional, or features have other rows.
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
    timestamps: np.ndarray
    user_ids: np.ndarray
    item_ids: np.ndarray
    user_features: Dataset | None = None
    item_features: Dataset | None = None

    def __post_init__(self) -> None:
        for name, ids, features in (
            ("user", self.user_ids, self.user_features), ("item", self.item_ids, self.item_features)
        ):  # fmt: skip
            if ids.ndim != 1:
                raise ShapeError(f"{name}_ids has shape {ids.shape}; expected one dimension, with each id once.")
            if features is not None and len(features) != len(ids):
                raise ShapeError(f"{name}_features has {len(features)} rows for {len(ids)} {name}s; expected one each.")
        dataset = self.dataset()
        dataset.check_index("users", self.user_count)
        dataset.check_index("items", self.item_count)

    @classmethod
    def of(
        cls,
        users: ArrayLike | Iterable[Hashable],
        items: ArrayLike | Iterable[Hashable],
        ratings: ArrayLike | Iterable[float] | None = None,
        timestamps: ArrayLike | Iterable[object] | None = None,
        *,
        user_ids: np.ndarray | None = None,
        item_ids: np.ndarray | None = None,
        unknown: Literal["raise", "drop"] = "raise",
    ) -> Interactions:
        """Return the interactions of columns of ids, with a row for each user and item.

        A column is an array, a list, any iterable, or a column of pandas, polars or Arrow. Ids are strings, numbers, or
        any hashable values. `ratings` are by default 1. `timestamps` are numbers, dates, or texts of dates; by default
        the numbers of the rows. `user_ids` and `item_ids` are those of other interactions, such as the training data,
        so that both have the same indices; a row with an id that is not among them is an error, or left out with
        `unknown="drop"`.

        Raises:
            ShapeError: the columns differ in length.
            DataError: there are no rows, an id is missing or unknown, or a rating is not finite.
            DTypeError: ids cannot be hashed, ratings are no numbers, or timestamps no times.

        >>> data = Interactions.of(["eve", "ann", "eve"], [(1, "a"), (2, "b"), (2, "b")], timestamps=[3, 5, 4])
        >>> data, data.users, data.user_ids.tolist(), data.item_ids.tolist()
        (Interactions(3 rows, 2 users, 2 items), array([1, 0, 1]), ['ann', 'eve'], [(1, 'a'), (2, 'b')])
        >>> Interactions.of(["ann", "new"], [(2, "b"), (2, "b")], user_ids=data.user_ids, unknown="drop")
        Interactions(1 rows, 2 users, 1 items)
        """
        if unknown not in ("raise", "drop"):
            raise OptionError(f"unknown must be 'raise' or 'drop', not {unknown!r}")
        user_ids, user = _indices("users", users, user_ids, unknown)
        item_ids, item = _indices("items", items, item_ids, unknown)
        count = len(user)
        columns: dict[str, np.ndarray] = {
            "users": user,
            "items": item,
            "ratings": np.ones(count, np.float32) if ratings is None else _ratings(ratings),
            "timestamps": np.arange(count) if timestamps is None else times_of("timestamps", timestamps),
        }
        check_lengths(columns)
        kept = (user >= 0) & (item >= 0)
        if not kept.any():
            raise DataError(f"none of the {count} rows has a known user and a known item")
        some: dict[str, Any] = {name: column[kept] for name, column in columns.items()}
        return cls(**some, user_ids=user_ids, item_ids=item_ids)

    @classmethod
    def of_table(
        cls,
        table: Table,
        users: str = "user_id",
        items: str = "item_id",
        ratings: str | None = None,
        timestamps: str | None = None,
        **options: Unpack[Known],
    ) -> Interactions:
        """Return the interactions of a table, of which the names of four columns are given; see `of`.

        The table is a DataFrame of pandas or polars, an Arrow table, a dict of columns, or a `Dataset`.

        Raises:
            DataError: there is no such column; and as in `of`.

        >>> table = {"user_id": ["eve", "ann"], "film": [10, 10], "stars": [4.5, 3.0]}
        >>> Interactions.of_table(table, items="film", ratings="stars").ratings
        array([4.5, 3. ], dtype=float32)
        """
        given, times = (None if name is None else _column(table, name) for name in (ratings, timestamps))
        return cls.of(_column(table, users), _column(table, items), given, times, **options)

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        return f"Interactions({len(self)} rows, {self.user_count} users, {self.item_count} items)"

    def __getitem__(self, rows: Rows) -> Interactions:
        """Return some rows, a slice, indices or a mask, with the same ids and features."""
        some = self.dataset()[rows]
        columns: dict[str, Any] = dict(some.columns)
        return replace(self, **columns)

    @property
    def user_count(self) -> int:
        """Number of users."""
        return len(self.user_ids)

    @property
    def item_count(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def user_counts(self) -> NDArray[np.int64]:
        """Number of rows of each user, of shape (users,)."""
        return np.bincount(self.users, minlength=self.user_count)

    @property
    def item_counts(self) -> NDArray[np.int64]:
        """Number of rows of each item, of shape (items,): its popularity."""
        return np.bincount(self.items, minlength=self.item_count)

    @cached_property
    def user_index(self) -> Ids:
        """The numbers of users' ids: `user_index.index("ann")`."""
        return Ids.of_distinct(self.user_ids)

    @cached_property
    def item_index(self) -> Ids:
        """The numbers of items' ids: `item_index.index([242, 302])`."""
        return Ids.of_distinct(self.item_ids)

    def seen(self) -> ItemRows:
        """Return the items of each user, for `wy.recommend`, `wy.random.index` and metrics to leave out or to find.

        >>> data = Interactions.of(["eve", "ann", "eve"], [7, 5, 6])
        >>> data.seen().mask()
        array([[ True, False, False],
               [False,  True,  True]])
        """
        return ItemRows.of_pairs(self.users, self.items, user_count=self.user_count, item_count=self.item_count)

    def dataset(self, *, features: bool = False) -> Dataset:
        """Return a `Dataset` of the columns users, items, ratings and timestamps, which shares these arrays.

        With `features`, it also has the features of each row's user and item, as columns `user_...` and `item_...`;
        raise `DataError` if there are none, see `with_features`.
        """
        if features and self.user_features is None and self.item_features is None:
            raise DataError("there are no features of users or items: add them by with_features(users=..., items=...)")
        columns: dict[str, np.ndarray] = {
            "users": self.users, "items": self.items, "ratings": self.ratings, "timestamps": self.timestamps
        }  # fmt: skip
        if features:
            for kind, rows, table in (
                ("user", self.users, self.user_features), ("item", self.items, self.item_features)
            ):  # fmt: skip
                if table is not None:
                    columns |= {f"{kind}_{name}": column for name, column in table.take(rows).items()}
        return Dataset(columns)

    def with_features(
        self,
        *,
        users: Table | None = None,
        items: Table | None = None,
        user_id: str = "user_id",
        item_id: str = "item_id",
        missing: Mapping[str, object] | None = None,
    ) -> Interactions:
        """Return these interactions with features of users or items, from tables with a column of ids.

        The other columns become those of `user_features` and `item_features`, in the order of `user_ids` and
        `item_ids`. Rows of other ids are not read. `missing` has the values of ids without a row, by column. Texts stay
        texts; `Ids` numbers them. A column may have more axes, as the tags of each item: lists are filled up to one
        length, with a number of its own for no tag.

        Raises:
            DataError: a table has no column of ids, an id twice, or no row for an id.

        >>> data = Interactions.of(["eve", "ann"], [10, 20])
        >>> films = {"item_id": [20, 30, 10], "year": [1994, 2001, 1984]}
        >>> data.with_features(items=films).dataset(features=True)["item_year"]
        array([1984, 1994])
        """
        changes: dict[str, Any] = {}
        for kind, table, name, ids in (
            ("user", users, user_id, self.user_index), ("item", items, item_id, self.item_index)
        ):  # fmt: skip
            if table is not None:
                changes[f"{kind}_features"] = _aligned(table, name, ids, missing)
        return replace(self, **changes)


class Known(TypedDict, total=False):
    """The keyword arguments of `Interactions.of` about ids that are known."""

    user_ids: np.ndarray | None
    item_ids: np.ndarray | None
    unknown: Literal["raise", "drop"]


def _indices(name: str, values: Any, ids: np.ndarray | None, unknown: str) -> tuple[np.ndarray, NDArray[np.int64]]:
    """Return ids and the index of each value, -1 for one that is left out."""
    if ids is None:
        return numbered(name, values)
    return ids, Ids.of_distinct(ids).index(column_of(name, values), unknown=-1 if unknown == "drop" else None)


def _ratings(values: Any) -> NDArray[np.float32]:
    column = numbers_of("ratings", values)
    if column.dtype.kind == "O":
        for row, each in enumerate(column.tolist()):
            if not isinstance(each, int | float | np.number):
                raise DTypeError(f"ratings hold {each!r} in row {row}; expected numbers, such as float({each!r})")
    elif column.dtype.kind not in "iufb":
        raise DTypeError(f"ratings have dtype {column.dtype}; expected numbers")
    try:
        with np.errstate(over="ignore"):
            ratings = column.astype(np.float32)
    except OverflowError:
        raise DataError("ratings hold an integer beyond the range of floats; expected numbers up to 3e38") from None
    infinite = ~np.isfinite(ratings)
    if infinite.any():
        row = int(infinite.argmax())
        raise DataError(f"ratings hold {column[row]} in row {row}; expected finite numbers, up to 3e38")
    return ratings


def _column(table: Any, name: str) -> Any:
    names = column_names(table)
    if names is None or name not in names:
        listed = f"it has the columns {names}" if names else f"a {type(table).__name__} has no columns"
        raise DataError(f"the table has no column {name!r}: {listed}")
    return table[name]


def _aligned(table: Any, name: str, ids: Ids, missing: Mapping[str, object] | None) -> Dataset:
    """Return the columns of a table but that of ids, with a row for each id."""
    numbers = ids.index(column_of(name, _column(table, name)), unknown=-1)
    read = np.flatnonzero(numbers >= 0)
    row_of = np.full(len(ids), -1)
    row_of[numbers[read]] = read
    if np.count_nonzero(row_of >= 0) < len(read):
        raise DataError(f"column {name!r} has the id {ids.values.tolist()[_repeated(numbers[read])]!r} twice")
    absent = row_of < 0
    columns = {}
    for other in column_names(table) or []:
        if other == name:
            continue
        column = _feature(other, table[other])
        found = column[row_of]
        if absent.any():
            if missing is None or other not in missing:
                known = ids.values.tolist()[absent.argmax()]
                raise DataError(f"the table has no row for the id {known!r}; give missing={{{other!r}: ...}}")
            value: Any = missing[other]
            some = absent.reshape(-1, *[1] * (column.ndim - 1))
            found = np.where(some, np.asarray(value, None if column.dtype.kind in "US" else column.dtype), found)
        columns[other] = found
    return Dataset(columns)


def _feature(name: str, values: Any) -> np.ndarray:
    """Return a column of features: one for each row, or a list of one length, which becomes an axis."""
    if isinstance(values, np.ndarray) and values.ndim > 1:
        return np.asarray(values)
    column = column_of(name, values)
    return as_array(column.tolist(), f"column {name}") if column.dtype.kind == "O" else column


def _repeated(numbers: NDArray[np.int64]) -> int:
    """Return a number that is there more than once."""
    return int(np.bincount(numbers).argmax())


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

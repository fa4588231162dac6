"""Rows of items of different lengths, such as those that each user has seen, in the compressed format of SciPy.

Annotations are evaluated, because the reference shows those of named tuples.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DataError, DTypeError, IndexOutOfRange, ShapeError

Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

# Stands for no item where rows are filled up to one length.
NONE = -1


class CompressedRows(Protocol):
    """A sparse matrix of SciPy in CSR format; stored entries count whatever their values."""

    @property
    def shape(self) -> Any: ...
    @property
    def indptr(self) -> Any: ...
    @property
    def indices(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class Recommendations:
    """The best items of each user, best first, and their scores: arrays of shape (users, k), or (k,) for one user.

    Where fewer than k items are left, items are -1 and scores -inf at the end. `wy.recommend` returns it, and the
    metrics of recommendations take it. It can be unpacked: `items, scores = wy.recommend(...)`.

    >>> Recommendations(np.array([[2, 0]]), np.array([[1.5, 0.5]])).items
    array([[2, 0]])
    """

    items: Indices
    scores: NDArray[np.floating[Any]]

    def __iter__(self) -> Iterator[np.ndarray]:
        yield self.items
        yield self.scores


@dataclass(frozen=True, eq=False, repr=False)
class ItemRows:
    """The items of each user: user u has `indices[indptr[u]:indptr[u + 1]]`, distinct and ascending.

    `indptr` has the shape (users + 1,), `indices` (entries,), both int64; items are numbers below `item_count`. These
    are the names of SciPy's CSR matrices, and `wy.random.index`, `wy.recommend` and `wy.metrics` take both.

    Raises:
        ShapeError: an array does not have one axis.
        DTypeError: an array does not hold integers.
        DataError: `indptr` does not ascend from 0 to the number of entries.
        IndexOutOfRange: an item is not from 0 to `item_count - 1`.

    >>> rows = ItemRows.of_pairs(users=[0, 1, 0], items=[4, 2, 3], user_count=2, item_count=5)
    >>> rows
    ItemRows(2 users, 5 items, 3 entries)
    >>> rows.row(0), rows.counts
    (array([3, 4]), array([2, 1]))
    """

    indptr: Indices
    indices: Indices
    item_count: int

    def __post_init__(self) -> None:
        offsets, items = _whole_numbers("indptr", self.indptr), _whole_numbers("indices", self.indices)
        if not offsets.size or offsets[0] != 0 or offsets[-1] != items.size or (offsets[1:] < offsets[:-1]).any():
            raise DataError(
                f"indptr must ascend from 0 to the number of entries, {items.size}, with one element more than there "
                f"are users; it is {np.array2string(offsets, threshold=8)}. Of users and items of pairs "
                f"make wy.data.ItemRows.of_pairs(users, items, user_count=..., item_count=...)"
            )
        outside = (items < 0) | (items >= self.item_count)
        if outside.any():
            at = int(outside.argmax())
            user = int(np.searchsorted(offsets, at, side="right")) - 1
            raise IndexOutOfRange(f"user {user} has item {items[at]}; expected 0 to {self.item_count - 1}")
        rises = items[1:] > items[:-1]
        rises[offsets[(offsets > 0) & (offsets < items.size)] - 1] = True  # where the next row starts
        if not rises.all():
            users = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
            offsets, items = _distinct(users, items, offsets.size - 1, self.item_count)
        object.__setattr__(self, "indptr", offsets)
        object.__setattr__(self, "indices", items)

    @classmethod
    def of_pairs(cls, users: Any, items: Any, *, user_count: int, item_count: int) -> "ItemRows":
        """Return the rows of pairs of users and items, both of shape (pairs,), in any order; repeated pairs count once.

        Raises:
            ShapeError: the arrays differ in length, or have another number of axes.
            IndexOutOfRange: a user or an item is beyond its count.
            DTypeError: they do not hold integers.
        """
        rows, columns = _whole_numbers("users", users), _whole_numbers("items", items)
        if len(rows) != len(columns):
            raise ShapeError(f"users has {len(rows)} elements and items {len(columns)}; expected one of each per pair")
        for name, given, count in (("users", rows, user_count), ("items", columns, item_count)):
            outside = (given < 0) | (given >= count)
            if outside.any():
                raise IndexOutOfRange(f"{name} holds {given[outside][0]}; expected 0 to {count - 1}")
        return cls(*_distinct(rows, columns, user_count, item_count), item_count)

    @property
    def format(self) -> str:
        """The name of the format, as SciPy's matrices have it: "csr"."""
        return "csr"

    @property
    def shape(self) -> tuple[int, int]:
        """The number of users, and of items."""
        return len(self), self.item_count

    @property
    def counts(self) -> Indices:
        """The number of items of each user, of shape (users,)."""
        return np.diff(self.indptr)

    @property
    def _users(self) -> Indices:
        """The user of each of `indices`."""
        return np.repeat(np.arange(len(self)), self.counts)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __repr__(self) -> str:
        return f"ItemRows({len(self)} users, {self.item_count} items, {len(self.indices)} entries)"

    def row(self, user: int) -> Indices:
        """Return the items of one user, a view of `indices`.

        >>> ItemRows(np.array([0, 1, 3]), np.array([5, 0, 2]), 6).row(1)
        array([0, 2])
        """
        return self.indices[self.indptr[user] : self.indptr[user + 1]]

    def take(self, users: Indices) -> "ItemRows":
        """Return the rows of some users, in their order.

        >>> ItemRows(np.array([0, 1, 3]), np.array([5, 0, 2]), 6).take(np.array([1, 1])).indices
        array([0, 2, 0, 2])
        """
        counts = self.counts[users]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        places = np.arange(offsets[-1]) + np.repeat(self.indptr[users] - offsets[:-1], counts)
        return ItemRows(offsets, self.indices[places], self.item_count)

    def __or__(self, other: "ItemRows") -> "ItemRows":
        """Return the items that each user has in either of two, such as those of the training and the validation.

        Raise `ShapeError` unless both are of as many users and items.

        >>> rows = ItemRows.of_pairs([0, 1], [2, 0], user_count=2, item_count=3)
        >>> (rows | ItemRows.of_pairs([0, 1], [2, 1], user_count=2, item_count=3)).mask()
        array([[False, False,  True],
               [ True,  True, False]])
        """
        if not isinstance(other, ItemRows):
            return NotImplemented
        if self.shape != other.shape:
            raise ShapeError(
                f"rows of {self.shape[0]} users and {self.shape[1]} items, and others of {other.shape[0]} and "
                f"{other.shape[1]}; expected as many of both"
            )
        pairs = np.concatenate([self._users, other._users]), np.concatenate([self.indices, other.indices])
        return ItemRows(*_distinct(*pairs, *self.shape), self.item_count)

    def mask(self) -> Mask:
        """Return who has what, booleans of shape (users, items).

        >>> ItemRows(np.array([0, 1, 1]), np.array([1]), 2).mask()
        array([[False,  True],
               [False, False]])
        """
        result = np.zeros(self.shape, np.bool_)
        result[self._users, self.indices] = True
        return result

    def has(self, items: Indices) -> Mask:
        """Return which of some items each user has; items and result have the shape (users, some).

        >>> ItemRows(np.array([0, 1, 3]), np.array([5, 0, 2]), 6).has(np.array([[5, 0], [5, 2]]))
        array([[ True, False],
               [False,  True]])
        """
        users = np.broadcast_to(np.arange(len(items))[:, np.newaxis], items.shape)
        return self.has_pairs(users, items)

    def has_pairs(self, users: Indices, items: Indices) -> Mask:
        """Return whether users have items, for pairs of both.

        >>> ItemRows(np.array([0, 1, 3]), np.array([5, 0, 2]), 6).has_pairs(np.array([0, 1]), np.array([5, 5]))
        array([ True, False])
        """
        if not len(self.indices):
            return np.zeros(items.shape, np.bool_)
        width = max(self.item_count, int(items.max(initial=0)) + 1)
        own = self._users * width + self.indices
        asked = users * width + items
        found: Mask = (own[np.minimum(np.searchsorted(own, asked), len(own) - 1)] == asked) & (items >= 0)
        return found

    def padded(self, padding: int = NONE) -> Indices:
        """Return the items of all users as one array of the longest row's length, filled up with `padding`.

        >>> ItemRows(np.array([0, 1, 3]), np.array([5, 0, 2]), 6).padded()
        array([[ 5, -1],
               [ 0,  2]])
        """
        counts = self.counts
        result = np.full((len(self), int(counts.max(initial=0))), padding, np.int64)
        result[np.arange(result.shape[1]) < counts[:, np.newaxis]] = self.indices
        return result


def _whole_numbers(name: str, given: Any) -> Indices:
    array = np.asarray(given)
    if array.ndim != 1:
        raise ShapeError(f"{name} has shape {array.shape}; expected one axis")
    if array.dtype.kind not in "iu" and array.size:
        raise DTypeError(f"{name} has dtype {array.dtype}; expected integers")
    return np.ascontiguousarray(array, np.int64)


def _distinct(users: Indices, items: Indices, user_count: int, item_count: int) -> tuple[Indices, Indices]:
    """Return the distinct items of each user in one sorted array, and where each user's items begin in it."""
    pairs = np.unique(users * item_count + items)
    offsets = np.zeros(user_count + 1, np.int64)
    np.cumsum(np.bincount(pairs // max(item_count, 1), minlength=user_count), out=offsets[1:])
    return offsets, pairs % max(item_count, 1)


def item_rows(name: str, given: Any, user_count: int, item_count: int | None) -> "ItemRows":
    """Return the items of each of some users, given in any of the forms that `wy.recommend` describes.

    Without `item_count` it is that of a mask or matrix, else as many as the largest item needs. Raise `ShapeError`,
    `DTypeError` or `IndexOutOfRange`, with the name, for anything else.
    """
    try:
        rows = _of_any(given, user_count, item_count)
    except (ShapeError, DTypeError, DataError, IndexOutOfRange) as error:
        raise type(error)(f"{name}: {error}") from None
    items = rows.item_count if item_count is None else item_count
    if rows.shape != (user_count, items):
        raise ShapeError(
            f"{name} has the items of {len(rows)} users out of {rows.item_count}; expected {user_count} "
            f"{'user' if user_count == 1 else 'users'} and {items} items"
        )
    return rows


def _of_any(given: Any, user_count: int, item_count: int | None) -> "ItemRows":
    if isinstance(given, ItemRows):
        return given
    if hasattr(given, "tocsr"):
        given = given.tocsr()
    if hasattr(given, "indptr") and hasattr(given, "indices"):
        return ItemRows(given.indptr, given.indices, int(given.shape[1]))
    if hasattr(given, "values") and hasattr(given, "offsets"):  # a `wy.RaggedArray`
        return _of_pair(given.offsets, given.values, item_count)
    if isinstance(given, tuple) and len(given) == 2 and all(np.ndim(each) == 1 for each in given):
        return _of_pair(given[0], np.asarray(given[1]), item_count)
    if isinstance(given, list | tuple) and given and all(isinstance(each, Iterable) for each in given):
        given = _of_lists(given)
        if isinstance(given, tuple):
            return _of_pair(given[0], given[1], item_count)
    array = np.asarray(given)
    if array.dtype.kind == "b":
        columns: int = array.shape[1] if item_count is None and array.ndim == 2 else item_count or 0
        if array.shape != (user_count, columns):
            raise ShapeError(f"a mask of shape {array.shape}; expected ({user_count}, {columns or 'items'})")
        offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(array, axis=1))])
        return ItemRows(offsets, np.nonzero(array)[1], columns)
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2):
        raise DTypeError(
            f"an array of {array.dtype} and shape {array.shape}; expected a mask of booleans, one item for each user, "
            f"lists of items, a CSR matrix, or the pair of its indptr and indices"
        )
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if len(array) != user_count:
        raise ShapeError(f"items of {len(array)} users; expected {user_count}")
    there = array != NONE
    return _of_pair(np.concatenate([[0], np.cumsum(np.count_nonzero(there, axis=1))]), array[there], item_count)


def _of_pair(offsets: Any, items: np.ndarray, item_count: int | None) -> "ItemRows":
    if item_count is None:
        item_count = int(items.max()) + 1 if items.size and items.dtype.kind in "iu" else 0
    return ItemRows(offsets, items, item_count)


def _of_lists(given: Any) -> Any:
    """Return lists of items as offsets and items; a list of masks as an array."""
    rows = [np.asarray(row if isinstance(row, np.ndarray) else list(row)) for row in given]
    if all(row.dtype.kind == "b" for row in rows):
        if len({row.shape for row in rows}) > 1:
            raise ShapeError("the masks of different users differ in length")
        return np.stack(rows)
    rows = [row[row != NONE] if row.size else np.zeros(0, np.int64) for row in rows]
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])]), np.concatenate(rows)

"""`wy.recommend`: the items with the highest scores for each user, found by kernels that are compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.parameters import NarrowWeight
from wyrm.graph.ragged import RaggedArray
from wyrm.graph.storage import Leaf, bound_array, stored
from wyrm.ops.kernels.sums import natural
from wyrm.ops.products.narrow_product import multiply_widened
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.item_rows import CompressedRows, ItemRows, Recommendations, item_rows
from wyrm.support.options import flag, integer, is_integer, whole

# A kernel returns 0, or one of these: a score is NaN; the rows of excluded items are damaged.
NAN_SCORE, BAD_ROWS = 1, 2


def sift_down(found: np.ndarray, values: np.ndarray, row: int, size: int, item: int, score: float) -> None:
    """Put an item at the top of a heap of `size` items, in place of the one there, and restore the order."""
    place, child = 0, 1
    while child < size:
        below = child + 1
        if below < size:
            left, right = values[row, natural(child)], values[row, natural(below)]
            if right < left or (right == left and found[row, natural(below)] > found[row, natural(child)]):
                child = below
        other, at = values[row, natural(child)], found[row, natural(child)]
        if other > score or (other == score and at < item):
            break
        values[row, natural(place)] = other
        found[row, natural(place)] = at
        place, child = child, 2 * child + 1
    values[row, natural(place)] = score
    found[row, natural(place)] = item


def offer(scores: np.ndarray, row: int, first: int, found: np.ndarray, values: np.ndarray, to: int) -> int:
    """Offer the items of a row of scores, numbered from `first`, to the heap `to`; return whether a score is NaN."""
    size, worst = found.shape[1], values[to, 0]
    for j in range(scores.shape[1]):
        score = scores[row, j]
        if not score <= worst:
            if score != score:
                return 1
            sift_down(found, values, to, size, first + j, score)
            worst = values[to, 0]
    return 0


def leave_out(
    scores: np.ndarray, row: int, first: int, offsets: np.ndarray, items: np.ndarray, user: int, count: int
) -> int:
    """Set the scores of a user's excluded items to -inf; return 1 if an item is not from 0 to `count - 1`."""
    if user + 1 >= offsets.shape[0]:
        return 1
    start, end = offsets[user], offsets[user + 1]
    if start < 0 or end > items.shape[0]:
        return 1
    for position in range(start, end):
        item = items[natural(position)]
        if item < 0 or item >= count:
            return 1
        place = item - first
        if 0 <= place < scores.shape[1]:
            scores[row, natural(place)] = -np.inf
    return 0


def descending(found: np.ndarray, values: np.ndarray, row: int) -> None:
    """Sort a heap: the best item comes first, and of equal scores the lower index."""
    for end in range(found.shape[1] - 1, 0, -1):
        score, item = values[row, natural(end)], found[row, natural(end)]
        values[row, natural(end)], found[row, natural(end)] = values[row, 0], found[row, 0]
        sift_down(found, values, row, end, item, score)


def answer(
    scores: np.ndarray,
    row: int,
    first: int,
    offsets: np.ndarray,
    excluded: np.ndarray,
    user: int,
    count: int,
    found: np.ndarray,
    values: np.ndarray,
    begins: int,
    ends: int,
) -> int:
    """Offer a row of scores to the heap of a user: a new one where the items begin, sorted where they end."""
    if offsets.shape[0] and leave_out(scores, row, first, offsets, excluded, user, count):
        return BAD_ROWS
    if begins:
        for j in range(found.shape[1]):
            values[user, j] = -np.inf
            found[user, j] = -1
    if offer(scores, row, first, found, values, user):
        return NAN_SCORE
    if ends:
        descending(found, values, user)
    return 0


def best_by_scores(
    scores: np.ndarray, offsets: np.ndarray, excluded: np.ndarray, found: np.ndarray, values: np.ndarray
) -> int:
    """Find the best items of each row of scores, and overwrite the scores of excluded ones with -inf."""
    for row in range(scores.shape[0]):
        status = answer(scores, row, 0, offsets, excluded, row, scores.shape[1], found, values, 1, 1)
        if status:
            return status
    return 0


def best_by_factors(
    users: np.ndarray,
    items: np.ndarray,
    biases: np.ndarray,
    offsets: np.ndarray,
    excluded: np.ndarray,
    first_item: int,
    count: int,
    scratch: np.ndarray,
    found: np.ndarray,
    values: np.ndarray,
    scales: np.ndarray,
) -> int:
    """Find the best of `items`, the part from `first_item` on of `count`, for each user.

    The score is the dot product, times a scale and plus a bias if there are any. Items may be narrow numbers. `scratch`
    takes the scores of some users and items at a time. `found` and `values`, of shape (users, k), keep heaps from one
    part to the next.
    """
    for top in range(0, users.shape[0], scratch.shape[0]):
        rows = min(scratch.shape[0], users.shape[0] - top)
        for left in range(0, items.shape[0], scratch.shape[1]):
            columns = min(scratch.shape[1], items.shape[0] - left)
            scores = scratch[:rows, :columns]
            multiply_widened(users[top : top + rows], items[left : left + columns].T, scores)
            first = first_item + left
            begins, ends = first == 0, first + columns == count
            for row in range(rows):
                if scales.shape[0]:
                    for j in range(columns):
                        scores[row, j] *= scales[natural(left + j)]
                if biases.shape[0]:
                    for j in range(columns):
                        scores[row, j] += biases[natural(left + j)]
                status = answer(
                    scores, row, first, offsets, excluded, top + row, count, found, values, int(begins), int(ends)
                )
                if status:
                    return status
    return 0


NOTHING = np.zeros(0, np.int64)
# The offsets and the items of those that are excluded; empty arrays if none are.
ExcludedRows: TypeAlias = tuple[np.ndarray, np.ndarray]


@cache
def compiled(kernel: Any, dtype: np.dtype, narrow: np.dtype | None = None) -> Any:
    """Return a kernel as native code for floats of this type, and perhaps for items in narrow numbers."""
    from wyrm.engines.native.kernels.functions import KernelFunction
    from wyrm.engines.native.llvm.calling import PlainFunction
    from wyrm.engines.native.llvm.library import CompiledFunction

    table, numbers = np.zeros((1, 1), dtype), np.zeros((1, 1), np.int64)
    given: list[np.ndarray | int] = [table, NOTHING, NOTHING, numbers, table]
    if kernel is best_by_factors:
        items, none = np.zeros((1, 1), narrow or dtype), np.zeros(0, dtype)
        given = [table, items, none, NOTHING, NOTHING, 0, 0, table, numbers, table, none]
    return PlainFunction(CompiledFunction(KernelFunction(kernel, distinct=True, fused=True)), given)


class _Request:
    """A request of one user to a table of this shape: memory for scores and results, and the arguments of the kernel.

    It is made once for many requests: new arrays, and the search for their addresses, would take a third of a request.
    """

    def __init__(self, dtype: np.dtype, shape: tuple[int, ...], k: int) -> None:
        from wyrm.engines.native.llvm.calling import address_of

        self._scores = np.empty((1, shape[0]), dtype)
        self._found, self._values = np.empty(k, np.int64), np.empty(k, dtype)
        self._function, self._address_of = compiled(best_by_factors, dtype), address_of
        user, items = np.empty((1, shape[1]), dtype), np.empty(shape, dtype)
        memory = self._scores, self._found[np.newaxis], self._values[np.newaxis], np.zeros(0, dtype)
        self._table = self._function.table(user, items, NOTHING, NOTHING, NOTHING, 0, shape[0], *memory)

    def answer(
        self, user: np.ndarray, items: np.ndarray, biases: np.ndarray, excluded: ExcludedRows
    ) -> Recommendations:
        """Return the best items of a user, a vector of shape (1, dims)."""
        table, address_of = self._table, self._address_of
        # An array of one axis has two words in the table, its address and its size; one of two axes has three.
        table[0], table[3] = address_of(user), address_of(items)
        if biases.size or table[7]:
            table[6], table[7] = address_of(biases), biases.size
        if excluded[0].size or table[9]:
            table[8], table[9] = address_of(excluded[0]), excluded[0].size
            table[10], table[11] = address_of(excluded[1]), excluded[1].size
        status = self._function.run(table)
        if status:
            refuse(status, users=user, items=items, biases=biases)
        return Recommendations(self._found.copy(), self._values.copy())


# Requests that have been answered, by the dtype and shape of the items and the number of answers. Threads may take from
# one list at the same time.
_answered: dict[tuple[np.dtype, tuple[int, ...], int], list[_Request]] = {}
_MOST_KINDS = 8


def answer_one(
    user: np.ndarray, items: np.ndarray, biases: np.ndarray, excluded: ExcludedRows, k: int
) -> Recommendations:
    """Return the best items of one user, a vector of shape (1, dims)."""
    key = items.dtype, items.shape, k
    answered = _answered.get(key)
    if answered is None:
        if len(_answered) >= _MOST_KINDS:
            _answered.clear()
        answered = _answered[key] = []
    try:
        request = answered.pop()
    except IndexError:
        request = _Request(*key)
    result = request.answer(user, items, biases, excluded)
    answered.append(request)
    return result


def refuse(status: int, **arrays: np.ndarray) -> NoReturn:
    """Raise the error of a kernel."""
    if status == BAD_ROWS:
        raise IndexOutOfRange("exclude holds an item or an offset out of range; it has changed since it was made")
    for name, array in arrays.items():
        finite = np.isfinite(array)
        if not finite.all():
            at = tuple(map(int, np.unravel_index(int(finite.argmin()), array.shape)))
            raise NotFinite(f"a score is NaN, because {name} holds {array[at]} at {at}; expected finite numbers")
    raise NotFinite("a score is NaN: the dot products overflow; scale the vectors")


class Scoring(Protocol):
    """A program whose only input takes the numbers of users, and whose output are their scores."""

    @property
    def inputs(self) -> tuple[BaseNode, ...]: ...


Table: TypeAlias = ArrayLike | BaseNode
Scorer: TypeAlias = Callable[[NDArray[np.int64]], ArrayLike] | Scoring
Excluded: TypeAlias = ArrayLike | CompressedRows | ItemRows | RaggedArray | Sequence[Iterable[int]] | None


# The scores of some users and items at a time stay in a core's cache.
_USERS_AT_ONCE, _SCORES_AT_ONCE = 64, 2**17
# The bytes of an item table that are read at once: all users meet a part before the next one is read.
_PART = 2**26
# The scores that a function of users computes at once.
_COMPUTED_AT_ONCE = 2**22
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_NONE = (NOTHING, NOTHING)


@explains_keywords
def recommend(
    users: Table | Scorer,
    items: Table | None = None,
    k: int = 10,
    *,
    rows: int | ArrayLike | None = None,
    biases: Table | None = None,
    exclude: Excluded = None,
    batch_size: int | None = None,
    normalize: bool = False,
) -> Recommendations:
    """Return the k items with the highest scores for each user, best first, without excluded ones.

    The score of an item is the dot product of its vector with the user's, plus the item's bias. `users`, of shape
    (users, dims), `items`, (items, dims), and `biases`, (items,), are arrays, parameters or memory maps of floats. A
    parameter is read in place, and so are items in narrow numbers, a `wyrm.NarrowWeight`. A single user, a vector of
    shape (dims,), gives results of shape (k,). With `normalize` scores are cosines, plus the biases: use it after
    `wy.losses.info_nce(..., normalize=True)`. Each call divides all vectors by their lengths; for many requests of one
    user, divide the table once.

    Without `items`, `users` are scores of shape (users, items), such as a program returns. They may be a function of
    `rows`, called with the numbers of `batch_size` users at a time, as in `lambda rows: program({user: rows})`, or a
    program whose only input takes them. An item of score -inf is never recommended.

    `rows` are the users to answer, an integer or an array of shape (answers,); by default all. `exclude` are the items
    that each user is not to get, usually those seen: `Interactions.seen()`, a SciPy matrix in CSR format whose entries
    count whatever their values, the pair of its `indptr` and `indices`, a list of lists, a `wy.RaggedArray`, a mask
    (users, items), or integers (users, items per user) filled up with -1. For a single vector it is a mask (items,) or
    a list of items.

    All items are compared: the result is exact up to the rounding of dot products. Of equal scores, the item with the
    lower index comes first. `items` are read in parts of at most `batch_size`, by default 64 MB, so a table may be
    larger than memory. Native code does the work without the GIL; a request of one user out of 1,682 items takes some
    10 microseconds.

    Raises:
        ShapeError: shapes do not fit together, or `rows` is missing.
        DTypeError: an array holds something else than numbers.
        OptionError: `k` is below 1 or above the number of items, or scores are to be normalized.
        IndexOutOfRange: a row or an excluded item does not exist.
        NotFinite: a score is NaN.

    >>> users, items = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 5.0], [3.0, 1.0], [2.0, 0.0]])
    >>> recommend(users, items, 2).items
    array([[1, 2],
           [0, 1]])
    >>> recommend(users, items, 2, rows=0, exclude=[[1], []])
    Recommendations(items=array([2, 0]), scores=array([2., 1.]))
    >>> recommend(np.array([[0.5, 0.5, 0.9]]), k=2).items
    array([[2, 0]])
    """
    k = whole("k", k, 1)
    if items is None:
        if biases is not None:
            raise ShapeError("biases belong to items, which are not given; add them to the scores")
        if flag("normalize", normalize):
            raise OptionError("normalize is for the vectors of users and items; users are scores if there are no items")
        return _by_scores(users, k, rows, exclude, batch_size)
    if callable(users):
        if hasattr(users, "weight"):
            raise DTypeError(
                f"users is a layer, {type(users).__name__}: give its vectors, users.weight and items.weight"
            )
        raise DTypeError("users is a function, so it returns scores; then there are no items")
    cosines = flag("normalize", normalize)
    vectors, table = _floats_of("users", users), _table_in_parts("items", items, narrow=not cosines)
    if table.ndim != 2 or vectors.ndim not in (1, 2) or vectors.shape[-1] != table.shape[1]:
        raise ShapeError(
            f"users has shape {vectors.shape} and items {table.shape}; expected (users, dims) and (items, dims), or "
            f"the vector of one user, (dims,)"
        )
    count = table.shape[0]
    _check_k(k, count)
    offsets = NOTHING if biases is None else _floats_of("biases", biases)
    if biases is not None and offsets.shape != (count,):
        raise ShapeError(f"biases has shape {offsets.shape} for items of shape {table.shape}; expected ({count},)")
    single, chosen, excluded = _chosen(vectors, rows, exclude, count)
    is_small = batch_size is None and table.size and count <= _SCORES_AT_ONCE and type(table) is np.ndarray
    if single and is_small and not cosines and _have_one_dtype(chosen, table, offsets):
        return answer_one(chosen, table, offsets, excluded, k)
    best = _by_factors(chosen, table, offsets, excluded, k, batch_size, cosines)
    return Recommendations(best[0][0], best[1][0]) if single else Recommendations(*best)


# --- arguments --------------------------------------------------------------------------------------------------------


def _floats_of(name: str, given: Any) -> np.ndarray:
    """Return the floats of an array or a leaf, without a copy where they are in row-major order."""
    if isinstance(given, BaseNode):
        if not isinstance(given, Leaf):
            raise DTypeError(f"{name} is {describe(given)}; give its value, for example of forward()")
        given = stored(given).array
    array = given if type(given) is np.ndarray else as_array(given, name)
    if array.dtype not in _FLOATS:
        if array.dtype.kind not in "fiu":
            raise DTypeError(f"{name} has dtype {array.dtype} and shape {array.shape}; expected numbers")
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.ascontiguousarray(array)


def _table_in_parts(name: str, given: Any, *, narrow: bool) -> Any:
    """Return a memory map or a table on disk, which is read in parts, as it is; any other as `_floats_of` does.

    A narrow weight is read as it is, if it may be `narrow`.
    """
    if narrow and isinstance(given, NarrowWeight) and (given.storage != "int4" or given.along == 1):
        return given
    in_parts = type(given) is not np.ndarray and isinstance(getattr(given, "dtype", None), np.dtype)
    return given if in_parts and not isinstance(given, BaseNode) else _floats_of(name, given)


def _check_k(k: int, items: int) -> None:
    if k > items:
        raise OptionError(f"k is {k}, but there are {items} items; it must be at most that")


def _chosen(users: np.ndarray, rows: Any, exclude: Any, items: int) -> tuple[bool, np.ndarray, ExcludedRows]:
    """Return whether there is one user, the rows of the users to answer, and what is excluded for each."""
    if users.ndim == 1:
        if rows is not None:
            raise ShapeError(f"rows are users of a table, but users is the vector of one, of shape {users.shape}")
        given = exclude if exclude is None or hasattr(exclude, "indptr") else [exclude]
        if isinstance(given, ItemRows) and len(given) > 1:
            raise ShapeError(
                f"exclude has the items of {len(given)} users, but users is the vector of one, of shape {users.shape}: "
                f"give the vectors of all users and rows=user, or exclude.take([user])"
            )
        return True, users[np.newaxis], _excluded_for(0, given, 1, items)
    count = users.shape[0]
    if rows is None:
        return False, users, _excluded(exclude, count, items)
    if is_integer(rows):
        row = integer("rows", rows)
        if not 0 <= row < count:
            raise IndexOutOfRange(f"rows is {row}; expected 0 to {count - 1}, the rows of users")
        return True, users[row : row + 1], _excluded_for(row, exclude, count, items)
    numbers = _row_numbers(rows, count)
    return False, users[numbers], _excluded_of(numbers, exclude, count, items)


def _row_numbers(rows: Any, users: int | None) -> NDArray[np.int64]:
    numbers = as_array(rows, "rows")
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and numbers.size):
        raise DTypeError(
            f"rows has dtype {numbers.dtype} and shape {numbers.shape}; expected integers, the numbers of users"
        )
    outside = (numbers < 0) | (numbers >= (2**62 if users is None else users))
    if outside.any():
        most = "" if users is None else f" to {users - 1}, the rows of users"
        raise IndexOutOfRange(f"rows holds {numbers[outside][0]}; expected numbers from 0{most}")
    return np.ascontiguousarray(numbers, np.int64)


def _excluded(exclude: Any, users: int, items: int) -> ExcludedRows:
    if exclude is None:
        return _NONE
    found = item_rows("exclude", exclude, users, items)
    return found.indptr, found.indices


def _excluded_of(rows: NDArray[np.int64], exclude: Any, users: int, items: int) -> ExcludedRows:
    if exclude is None:
        return _NONE
    found = item_rows("exclude", exclude, users, items).take(rows)
    return found.indptr, found.indices


def _excluded_for(row: int, exclude: Any, users: int, items: int) -> ExcludedRows:
    """Return what is excluded for one user, without a look at the items of others."""
    if exclude is None:
        return _NONE
    if isinstance(exclude, ItemRows):
        if exclude.item_count != items or len(exclude) != users:
            return _excluded(exclude, users, items)  # which raises
        return exclude.indptr[row : row + 2], exclude.indices
    if isinstance(exclude, list | np.ndarray) and len(exclude) == users:
        given = exclude[row]
        if isinstance(given, np.ndarray) and given.dtype == np.bool_ and given.shape == (items,):
            found = np.flatnonzero(given)
            return np.array([0, len(found)]), found
        return _excluded([given], 1, items)
    return _excluded_of(np.array([row]), exclude, users, items)


# --- calls of native code ---------------------------------------------------------------------------------------------


def _by_factors(
    users: np.ndarray,
    items: Any,
    biases: np.ndarray,
    excluded: ExcludedRows,
    k: int,
    batch_size: int | None,
    normalize: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best items of each user and their scores, of shape (users, k)."""
    answers, (count, dims), dtype, narrow, scales = len(users), items.shape, users.dtype, None, NOTHING
    if isinstance(items, NarrowWeight):
        users, items, scales = _narrow(users.astype(np.float32, copy=False), items)
        narrow, dtype = items.dtype, users.dtype
    scales = np.zeros(0, dtype) if scales is NOTHING else scales
    biases = np.zeros(0, dtype) if biases is NOTHING else biases
    if narrow is not None:
        biases = biases.astype(dtype, copy=False)
    elif dtype != items.dtype or dtype != biases.dtype:
        dtype = np.dtype(
            np.float32 if _is_float32(users) and _is_float32(items) and _is_float32(biases) else np.float64
        )
        users, biases = users.astype(dtype, copy=False), biases.astype(dtype, copy=False)
    users = _of_length_one(users) if normalize else users
    part = max(1, _PART // (8 * dims + 8)) if batch_size is None else whole("batch_size", batch_size, 1)
    tile = max(1, min(answers, _USERS_AT_ONCE))
    scratch = np.empty((tile, min(count, part, _SCORES_AT_ONCE // tile)), dtype)
    found, values = np.empty((answers, k), np.int64), np.empty((answers, k), dtype)
    run = compiled(best_by_factors, dtype, narrow)
    for first in range(0, count, part):
        block, offsets = items, biases
        if narrow is not None:
            block, offsets = items[first : first + part], biases[first : first + part]
        elif count > part or items.dtype != dtype or type(items) is not np.ndarray:
            block = _floats_of("items", items[first : first + part]).astype(dtype, copy=False)
            offsets = biases[first : first + part]
            if block.shape != (min(part, count - first), dims):
                raise ShapeError(f"items has shape {items.shape}, but its part from {first} on {block.shape}")
        block = _of_length_one(block) if normalize else block
        status = run(
            users, block, offsets, *excluded, first, count, scratch, found, values, scales[first : first + part]
        )
        if status:
            refuse(status, users=users, items=block, biases=offsets)
    return found, values


def _narrow(users: np.ndarray, items: NarrowWeight) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the users, the narrow numbers of the items, and the scales of their scores; NOTHING without scales."""
    numbers, factors = bound_array(items.numbers), items.factors
    if factors is None:
        return users, numbers, NOTHING
    scales = bound_array(factors)
    return (users, numbers, scales[:, 0]) if scales.shape[1] == 1 else (users * scales, numbers, NOTHING)


def _have_one_dtype(users: np.ndarray, items: np.ndarray, biases: np.ndarray) -> bool:
    return users.dtype == items.dtype and (biases is NOTHING or biases.dtype == items.dtype)


def _of_length_one(vectors: np.ndarray) -> np.ndarray:
    """Return vectors divided by their lengths; the small number, as in `info_nce`, is for a vector of zeros."""
    result: np.ndarray = vectors / np.sqrt(np.square(vectors).sum(-1, keepdims=True) + vectors.dtype.type(1e-12))
    return result


def _is_float32(array: Any) -> bool:
    return bool(array.dtype.itemsize <= 4 and array.dtype.kind == "f")


def _by_scores(scores: Any, k: int, rows: Any, exclude: Any, batch_size: int | None) -> Recommendations:
    """Return the best items by scores that are given, or computed for some users at a time."""
    if callable(scores):
        return _by_function(scores, k, rows, exclude, batch_size)
    matrix = _floats_of("scores", scores)
    if matrix.ndim not in (1, 2):
        raise ShapeError(f"scores have shape {matrix.shape}; expected (users, items), or (items,) for one user")
    count = matrix.shape[-1]
    _check_k(k, count)
    single, chosen, (offsets, excluded) = _chosen(matrix, rows, exclude, count)
    step = _COMPUTED_AT_ONCE // max(count, 1) + 1 if batch_size is None else whole("batch_size", batch_size, 1)
    parts = [
        _best_of(chosen[start : start + step], offsets[start : start + step + 1], excluded, k)
        for start in range(0, len(chosen), step)
    ]
    return _joined_chunks(parts, single, k, chosen.dtype)


def _by_function(given: Any, k: int, rows: Any, exclude: Any, batch_size: int | None) -> Recommendations:
    if rows is None:
        raise ShapeError("a function of rows returns the scores, so rows, the numbers of the users, must be given")
    function, users = _function_of_rows(given), None if exclude is None else _user_count(exclude)
    single = is_integer(rows)
    numbers = _row_numbers([integer("rows", rows)] if single else rows, users)
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    step, seen, start = 1 if batch_size is None else whole("batch_size", batch_size, 1), exclude, 0
    while start < len(numbers):
        batch = numbers[start : start + step]
        scores = _floats_of("scores", function(batch))
        if scores.ndim != 2 or len(scores) != len(batch):
            raise ShapeError(f"scores of {len(batch)} users have shape {scores.shape}; expected ({len(batch)}, items)")
        if not parts:
            _check_k(k, scores.shape[1])
            if users is not None:
                seen = item_rows("exclude", exclude, users, scores.shape[1])
        parts.append(_best_of(scores, *_excluded_of(batch, seen, users or 0, scores.shape[1]), k))
        start += len(batch)
        if batch_size is None:
            step = _COMPUTED_AT_ONCE // max(scores.shape[1], 1) + 1
    return _joined_chunks(parts, single, k, np.dtype(np.float32))


def _function_of_rows(given: Any) -> Callable[[NDArray[np.int64]], ArrayLike]:
    """Return a function of row numbers; a program with a single input takes them."""
    inputs = getattr(given, "inputs", None)
    if not isinstance(inputs, tuple):
        function: Callable[[NDArray[np.int64]], ArrayLike] = given
        return function
    if len(inputs) != 1:
        raise ShapeError(
            f"the program has {len(inputs)} inputs, so it is not known which takes the rows; give a function, such as "
            f"lambda rows: program({{user: rows, ...}})"
        )
    return lambda rows: given({inputs[0]: rows})


def _user_count(exclude: Any) -> int:
    if isinstance(exclude, tuple) and len(exclude) == 2:
        return len(exclude[0]) - 1
    shape = getattr(exclude, "shape", None)
    return len(exclude) if shape is None else int(shape[0])


def _best_of(scores: np.ndarray, offsets: np.ndarray, excluded: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    found, values = np.empty((len(scores), k), np.int64), np.empty((len(scores), k), scores.dtype)
    if offsets.size:
        scores = scores.copy()  # the kernel writes to it
    status = compiled(best_by_scores, scores.dtype)(scores, offsets, excluded, found, values)
    if status:
        refuse(status, scores=np.where(np.isinf(scores), 0, scores))
    return found, values


def _joined_chunks(
    parts: list[tuple[np.ndarray, np.ndarray]], single: bool, k: int, dtype: np.dtype
) -> Recommendations:
    if single:
        return Recommendations(parts[0][0][0], parts[0][1][0])
    if not parts:
        return Recommendations(np.empty((0, k), np.int64), np.empty((0, k), dtype))
    return Recommendations(*(np.concatenate(each) for each in zip(*parts, strict=True)))

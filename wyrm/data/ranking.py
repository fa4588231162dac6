"""Kernels that find the items with the highest scores, and their calls: compiled once, with the memory of requests.

The best items of a row are kept as a heap in the arrays of the result: the first is the worst of them, of equal scores
the one with the higher index. Items come in ascending order, so that one of an equal score never replaces another.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn, TypeAlias

import numpy as np

from wyrm.errors import IndexOutOfRange, NotFinite
from wyrm.ops.kernels.sums import natural
from wyrm.ops.products.product import multiply_into
from wyrm.support.item_rows import Recommendations

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
) -> int:
    """Find the best of `items`, the part from `first_item` on of `count`, for each user.

    The score is the dot product, plus a bias if there are any. `scratch` takes the scores of some users and items at a
    time. `found` and `values`, of shape (users, k), keep heaps from one part to the next.
    """
    for top in range(0, users.shape[0], scratch.shape[0]):
        rows = min(scratch.shape[0], users.shape[0] - top)
        for left in range(0, items.shape[0], scratch.shape[1]):
            columns = min(scratch.shape[1], items.shape[0] - left)
            scores = scratch[:rows, :columns]
            multiply_into(users[top : top + rows], items[left : left + columns].T, scores, 0)
            first = first_item + left
            begins, ends = first == 0, first + columns == count
            for row in range(rows):
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
def compiled(kernel: Any, dtype: np.dtype) -> Any:
    """Return a kernel as native code for floats of this type."""
    from wyrm.engines.native.kernels.functions import KernelFunction
    from wyrm.engines.native.llvm.calling import PlainFunction
    from wyrm.engines.native.llvm.library import CompiledFunction

    table, numbers = np.zeros((1, 1), dtype), np.zeros((1, 1), np.int64)
    given: list[np.ndarray | int] = [table, NOTHING, NOTHING, numbers, table]
    if kernel is best_by_factors:
        given = [table, table, np.zeros(0, dtype), NOTHING, NOTHING, 0, 0, table, numbers, table]
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
        memory = self._scores, self._found[np.newaxis], self._values[np.newaxis]
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

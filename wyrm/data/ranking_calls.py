"""Calls of the kernels of rankings: compiled once, with the errors of their results and the memory of requests."""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn, TypeAlias

import numpy as np

from wyrm.data import ranking_kernels as kernels
from wyrm.errors import IndexOutOfRange, NotFinite
from wyrm.support.item_rows import Recommendations

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
    if kernel is kernels.best_by_factors:
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
        self._function, self._address_of = compiled(kernels.best_by_factors, dtype), address_of
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
    if status == kernels.BAD_ROWS:
        raise IndexOutOfRange("exclude holds an item or an offset out of range; it has changed since it was made")
    for name, array in arrays.items():
        finite = np.isfinite(array)
        if not finite.all():
            at = tuple(map(int, np.unravel_index(int(finite.argmin()), array.shape)))
            raise NotFinite(f"a score is NaN, because {name} holds {array[at]} at {at}; expected finite numbers")
    raise NotFinite("a score is NaN: the dot products overflow; scale the vectors")

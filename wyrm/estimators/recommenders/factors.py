"""Recommenders that score by the dot product of the vectors of a user and an item, and perhaps a bias of the item."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.data.recommending import recommend
from wyrm.estimators.recommenders.base import Recommender
from wyrm.estimators.recommenders.history import Numbers, Rows
from wyrm.graph.axes import Dim, Ragged
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.ragged import RaggedArray
from wyrm.linalg import cho_solve, cholesky
from wyrm.support.item_rows import ItemRows, Recommendations
from wyrm.train.compiling import compile

# The systems that are solved at once: their memory does not grow with the data.
_SYSTEMS = 512
# So few are solved one by one: a call of the program takes as long as some of them.
_FEW = 4
# The steps of conjugate gradients, and what divides the squared length of a residual that is zero.
_STEPS, _TINY = 3, 1e-30


class Solver:
    """The vectors of rows whose scores are nearest to `goal` at their items and to 0 at all others.

    With a table V of items, biases b and weights w, the vector u of a row minimizes the sum over all items of
    (1 + confidence * |w|) * (wanted - b - u . v)**2, and regularization * |u|**2, as Hu, Koren and Volinsky have it.
    What is wanted is `goal` where the weight is above 0, and else 0.
    """

    def __init__(
        self,
        table: NDArray[Any],
        confidence: float,
        regularization: float,
        *,
        biases: NDArray[Any] | None = None,
        goal: float = 1.0,
    ) -> None:
        self._table, self._confidence, self._goal = table, np.float32(confidence), np.float32(goal)
        self._biases = np.zeros(len(table), np.float32) if biases is None else biases
        self._gram = table.T @ table + np.float32(regularization) * np.eye(table.shape[1], dtype=np.float32)
        self._rest = -(self._biases @ table)

    @cached_property
    def _inverse(self) -> NDArray[np.float64]:
        return np.asarray(np.linalg.inv(self._gram.astype(np.float64)), np.float64)

    def solve(self, rows: Rows, start: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """Return the vector of each row, of shape (rows, factors): exact, or some steps from `start` nearer to that."""
        count, found = len(rows.offsets) - 1, np.empty((len(rows.offsets) - 1, self._table.shape[1]), np.float32)
        more, goal = self._confidence * np.abs(rows.weights), self._goal * (rows.weights > 0.0)
        wanted = more * (goal - self._biases[rows.items]) + goal
        if count <= _FEW and start is None:
            for row, (first, last) in enumerate(pairwise(rows.offsets.tolist())):
                part = slice(first, last)
                vectors, extra = self._table[rows.items[part]], more[part]
                # The identity of Woodbury: a system of as many equations as there are items, which are mostly few.
                solved = vectors @ self._inverse
                vector = self._inverse @ (wanted[part] @ vectors + self._rest)
                system = np.eye(last - first) + extra[:, np.newaxis] * (solved @ vectors.T)
                found[row] = vector - np.linalg.solve(system, extra * (vectors @ vector)) @ solved
            return found
        program, inputs = _program(start is None)
        table, gram, rest, first, items, extra, targets = inputs
        fixed = {table: self._table, gram: self._gram, rest: self._rest}
        every = (RaggedArray(each, rows.offsets) for each in (rows.items, more, wanted))
        columns: dict[Any, Any] = dict(zip((items, extra, targets), every, strict=True))
        columns |= {} if start is None else {first: start}
        for begin in range(0, count, _SYSTEMS):
            some = slice(begin, begin + _SYSTEMS)
            found[some] = program(fixed | {name: column[some] for name, column in columns.items()})
        return found


class _Batch(Dim): ...


class _Items(Ragged): ...


class _Table(Dim): ...


class _Factors(Dim): ...


@cache
def _program(exact: bool) -> Any:
    """Return the program of the solutions, and its inputs.

    They are exact by Cholesky's factorization, or nearer than `first` by steps of conjugate gradients, which multiply
    by the systems without making them (Takács, Pilászy and Tikk, 2011).
    """
    factors, batch, entries = _Factors(), _Batch(), _Items()
    table: Any = Input(dims=(_Table(), factors), name="table")
    gram: Any = Input(dims=(factors, factors), name="gram")
    rest: Any = Input(dims=(factors,), name="rest")
    first: Any = Input(dims=(batch, factors), name="first")
    items: Any = IndexInput(dims=(batch, entries), name="items")
    more: Any = Input(dims=(batch, entries), name="more")
    wanted: Any = Input(dims=(batch, entries), name="wanted")
    vectors = table[items]
    right = (vectors * wanted[:, :, None]).sum(axis=1) + rest
    found: Any = first
    if exact:
        system = gram + ((vectors * more[:, :, None])[:, :, :, None] * vectors[:, :, None, :]).sum(axis=1)
        found = cho_solve((cholesky(system), True), right[:, :, None])[:, :, 0]
    else:

        def multiplied(x: Any) -> Any:
            scores = (vectors * x[:, None, :]).sum(axis=-1) * more
            return x @ gram + (vectors * scores[:, :, None]).sum(axis=1)

        residual = right - multiplied(found)
        direction, length = residual, residual.vector_dot(residual)
        for _ in range(_STEPS):
            product = multiplied(direction)
            step = (length / direction.vector_dot(product).maximum(_TINY))[:, None]
            found, residual = found + step * direction, residual - step * product
            before, length = length, residual.vector_dot(residual)
            direction = residual + (length / before.maximum(_TINY))[:, None] * direction
    return compile(found), (table, gram, rest, first, items, more, wanted)


@dataclass(eq=False)
class FactorRecommender(Recommender):
    """Base class: `self.state` has the tables "users" and "items", and perhaps the biases of items, "biases".

    Tables have room for more rows than there are users and items.
    """

    @abstractmethod
    def _solver(self, items: NDArray[Any], biases: NDArray[Any] | None) -> Solver:
        """Return what solves for the vectors of users who are folded in."""

    def _tables(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        """Return the vectors of users and of items, and the biases of items."""
        history, biases = self._known(), self.state.get("biases")
        count = len(history.items)
        users, items = self.state["users"][: len(history.users)], self.state["items"][:count]
        return users, items, None if biases is None else biases[:count]

    def _best(self, users: Numbers, k: int, exclude: ItemRows) -> Recommendations:
        vectors, items, biases = self._tables()
        return recommend(vectors[users], items, k, biases=biases, exclude=exclude)

    def _scores(self, users: Numbers) -> NDArray[Any]:
        vectors, items, biases = self._tables()
        found: NDArray[Any] = vectors[users] @ items.T + (0.0 if biases is None else biases)
        return found

    def _likeness(self, items: Numbers) -> NDArray[Any]:
        return cosines(self._tables()[1], items)

    def _fold(self, users: Numbers) -> None:
        history = self._known()
        self.state["users"] = with_room(self.state["users"], len(history.users))
        _, items, biases = self._tables()
        solver = self._cache.get("solver") or self._cache.setdefault("solver", self._solver(items, biases))
        self.state["users"][users] = solver.solve(history.take(users).distinct(len(items)))


def cosines(table: NDArray[Any], some: Numbers) -> NDArray[Any]:
    """Return the cosines of the angles between some rows of a table and all rows, 0 for a row of zeros."""
    lengths = np.maximum(np.linalg.norm(table, axis=1), np.finfo(np.float32).tiny)
    found: NDArray[Any] = (table[some] @ table.T) / lengths[some, np.newaxis] / lengths
    return found


def with_room(table: NDArray[Any], count: int) -> NDArray[Any]:
    """Return a table of at least so many rows: the same, or one of twice the rows, with zeros behind its own."""
    if count <= len(table):
        return table
    found = np.zeros((max(count, 2 * len(table)), *table.shape[1:]), table.dtype)
    found[: len(table)] = table
    return found

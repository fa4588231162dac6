"""The best ten films for one user and for all, without those rated: MovieLens 100K, vs `implicit`, PyTorch and NumPy.

All take float32 vectors of 32 numbers. PyTorch and NumPy exclude by a mask that is made beforehand, `implicit` and wyrm
by the rows of a sparse matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import wyrm as wy
from bench.harness import Case, Contender, Measurement, timed
from bench.models import MOVIELENS, has_movielens

DIMENSIONS, COUNT, USER = 32, 10, 195


def _tables() -> tuple[Any, Any, wy.data.Interactions]:
    data, random = wy.data.read_movielens(MOVIELENS), np.random.default_rng(0)
    users, films = (
        random.standard_normal((count, DIMENSIONS), np.float32) for count in (data.user_count, data.item_count)
    )
    return users, films, data


def _wyrm(rows: int | None) -> Callable[[], Measurement]:
    users, films, data = _tables()
    return timed(partial(wy.recommend, users, films, COUNT, rows=rows, exclude=data.seen()))


def _implicit(rows: int | None) -> Callable[[], Measurement]:
    from implicit.cpu.matrix_factorization_base import MatrixFactorizationBase
    from scipy.sparse import csr_matrix

    class Model(MatrixFactorizationBase):  # type: ignore[misc]  # implicit has no types
        def fit(self, *arguments: object, **options: object) -> None:
            """Nothing is trained here."""

        save = fit

    users, films, data = _tables()
    model: Any = Model()
    model.user_factors, model.item_factors = users, films
    seen = csr_matrix((np.ones(len(data), np.float32), (data.users, data.items)))
    chosen: Any = np.arange(len(users)) if rows is None else rows
    threadpool_limits(1, "blas")  # as implicit recommends
    return timed(lambda: model.recommend(chosen, seen[chosen], N=COUNT))


def _torch(rows: int | None) -> Callable[[], Measurement]:
    import torch

    users, films, data = _tables()
    mask = torch.from_numpy(data.seen().mask())
    vectors, table = torch.from_numpy(users), torch.from_numpy(films)
    chosen = slice(None) if rows is None else slice(rows, rows + 1)

    def best() -> object:
        return (vectors[chosen] @ table.T).masked_fill_(mask[chosen], -torch.inf).topk(COUNT)

    return timed(best)


def _numpy(rows: int | None) -> Callable[[], Measurement]:
    users, films, data = _tables()
    mask = data.seen().mask()
    chosen = slice(None) if rows is None else slice(rows, rows + 1)

    def best() -> object:
        scores = users[chosen] @ films.T
        scores[mask[chosen]] = -np.inf
        first = np.argpartition(-scores, COUNT, axis=1)[:, :COUNT]
        order = np.argsort(-np.take_along_axis(scores, first, axis=1), axis=1)
        return np.take_along_axis(first, order, axis=1)

    return timed(best)


def cases() -> list[Case]:
    """A request of one user, and of all users."""
    if not has_movielens("recommending"):
        return []
    makers: dict[str, Callable[[int | None], Callable[[], Measurement]]] = {
        "wyrm": _wyrm, "implicit": _implicit, "torch": _torch, "numpy": _numpy
    }  # fmt: skip
    found = []
    for name, rows, goal in (("one user", USER, "at most 20 us"), ("all users", None, "")):
        contenders: dict[str, Contender] = {key: partial(maker, rows) for key, maker in makers.items()}
        found.append(Case("recommending", name, contenders, goal=goal))
    return found

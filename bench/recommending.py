"""The best ten films for one user and for all, without those rated: MovieLens 100K, vs `implicit`, PyTorch and NumPy.

All take float32 vectors of 32 numbers. PyTorch and NumPy exclude by a mask that is made beforehand, `implicit` and wyrm
by the rows of a sparse matrix. The time of one user is the median of requests, one after the other, or with 4 MB of
other data read between them, four times what the cache of a core holds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import wyrm as wy
from bench.harness import Case, Contender, Measurement, timed
from bench.models import MOVIELENS, has_movielens

DIMENSIONS, COUNT, USER, REQUESTS = 32, 10, 195, 100


Request = Callable[[], object]


def _users(make: Callable[[], Request]) -> Callable[[], Measurement]:
    return timed(make())


def _one_user(other: int, make: Callable[[], Request]) -> Callable[[], Measurement]:
    """Return a round of requests, with so many bytes of other data read between them; others' time does not count."""
    request, data = make(), np.zeros(other, np.uint8)

    def once() -> Measurement:
        seconds = []
        for _ in range(REQUESTS):
            data.any()
            begin = time.perf_counter()
            request()
            seconds.append(time.perf_counter() - begin)
        return Measurement(statistics.median(seconds))

    return once


def _tables() -> tuple[Any, Any, wy.data.Interactions]:
    data, random = wy.data.read_movielens(MOVIELENS), np.random.default_rng(0)
    users, films = (
        random.standard_normal((count, DIMENSIONS), np.float32) for count in (data.user_count, data.item_count)
    )
    return users, films, data


def _wyrm(rows: int | None) -> Request:
    users, films, data = _tables()
    return partial(wy.recommend, users, films, COUNT, rows=rows, exclude=data.seen())


def _implicit(rows: int | None) -> Request:
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
    return lambda: model.recommend(chosen, seen[chosen], N=COUNT)


def _torch(rows: int | None) -> Request:
    import torch

    users, films, data = _tables()
    mask = torch.from_numpy(data.seen().mask())
    vectors, table = torch.from_numpy(users), torch.from_numpy(films)
    chosen = slice(None) if rows is None else slice(rows, rows + 1)

    def best() -> object:
        return (vectors[chosen] @ table.T).masked_fill_(mask[chosen], -torch.inf).topk(COUNT)

    return best


def _numpy(rows: int | None) -> Request:
    users, films, data = _tables()
    mask = data.seen().mask()
    chosen = slice(None) if rows is None else slice(rows, rows + 1)

    def best() -> object:
        scores = users[chosen] @ films.T
        scores[mask[chosen]] = -np.inf
        first = np.argpartition(-scores, COUNT, axis=1)[:, :COUNT]
        order = np.argsort(-np.take_along_axis(scores, first, axis=1), axis=1)
        return np.take_along_axis(first, order, axis=1)

    return best


def cases() -> list[Case]:
    """A request of one user, alone and after other work, and one of all users."""
    if not has_movielens("recommending"):
        return []
    makers = {"wyrm": _wyrm, "implicit": _implicit, "torch": _torch, "numpy": _numpy}
    found = []
    for name, rows, measured, most in (
        ("one user", USER, partial(_one_user, 0), 20e-6),
        ("one user, after other work", USER, partial(_one_user, 2**22), 20e-6),
        ("all users", None, _users, None),
    ):
        contenders: dict[str, Contender] = {
            key: partial(measured, partial(maker, rows)) for key, maker in makers.items()
        }
        found.append(Case("recommending", name, contenders, most=most))
    return found

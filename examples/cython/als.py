"""Alternating least squares for what users watched: exact vectors of all users, then of all films, in turn.

The model of Hu, Koren and Volinsky (2008): a film that a user watched counts `CONFIDENCE * rating` times as a 1, any
other once as a 0. The vector of a user solves a linear system, in which only the watched films differ from the rest.
"""

from __future__ import annotations

import numpy as np
from beside import Trainer, ranking_auc, read_films, show
from numpy.typing import NDArray

import wyrm as wy

FACTORS, CONFIDENCE, PENALTY, EPOCHS, BATCH = 32, 2.0, 10.0, 10, 512


class Batch(wy.Dim): ...


class Watched(wy.Ragged): ...


class Rows(wy.Dim): ...


class Factors(wy.Dim): ...


def wyrm(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the model as a graph: the systems of some rows, solved by Cholesky's factorization."""
    train, test = read_films(part)
    batch, factors = Batch(), Factors(FACTORS)
    table = wy.Input(dims=(Rows(), factors), name="table")
    gram = wy.Input(dims=(factors, factors), name="gram")
    films = wy.IndexInput(dims=(batch, Watched()), name="films")
    counts = wy.Input(dims=(batch, Watched()), name="counts")
    vectors = table[films]
    weighted = vectors * (counts - 1.0).maximum(0.0)[:, :, None]
    system = gram + (weighted[:, :, :, None] * vectors[:, :, None, :]).sum(axis=1)
    wanted = (vectors * counts[:, :, None]).sum(axis=1)
    solve = wy.compile(wy.linalg.cho_solve((wy.linalg.cholesky(system), True), wanted[:, :, None])[:, :, 0])
    users, items = starts(train, seed)
    turns = [(users, items, train.users, train.items), (items, users, train.items, train.users)]
    sides = [(own, other, *watched(len(own), to, of, train.ratings)) for own, other, to, of in turns]

    def epochs(number: int) -> None:
        for _ in range(number):
            for own, other, near, confidence in sides:
                total = other.T @ other + PENALTY * np.eye(FACTORS, dtype=np.float32)
                for rows in (slice(start, start + BATCH) for start in range(0, len(own), BATCH)):
                    own[rows] = solve({table: other, gram: total, films: near[rows], counts: confidence[rows]})

    return Trainer(epochs, lambda: ranking_auc(users @ items.T, train, test))


def implicit(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the peer, whose Cython calls BLAS and LAPACK for each row."""
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits

    train, test = read_films(part)
    with threadpool_limits(1, "blas"):  # as implicit recommends
        model = AlternatingLeastSquares(FACTORS, PENALTY, CONFIDENCE, use_cg=False, num_threads=threads)
    model.user_factors, model.item_factors = starts(train, seed)
    ratings = csr_matrix((train.ratings, (train.users, train.items)), (train.user_count, train.item_count))

    def epochs(number: int) -> None:
        model.iterations = number
        with threadpool_limits(1, "blas"):
            model.fit(ratings, show_progress=False)

    return Trainer(epochs, lambda: ranking_auc(model.user_factors @ model.item_factors.T, train, test))


def starts(data: wy.data.Interactions, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the first vectors of users and films; films that nobody watched keep theirs, of zeros."""
    random = np.random.default_rng(seed)
    films = random.standard_normal((data.item_count, FACTORS)) * (data.item_counts > 0)[:, None]
    return np.zeros((data.user_count, FACTORS), np.float32), (0.1 * films).astype(np.float32)


def watched(
    count: int, to: NDArray[np.int64], of: NDArray[np.int64], ratings: NDArray[np.float32]
) -> tuple[wy.RaggedArray[NDArray[np.int64]], wy.RaggedArray[NDArray[np.float32]]]:
    """Return what each row watched, and how much that counts."""
    order, offsets = np.argsort(to, kind="stable"), np.append(0, np.cumsum(np.bincount(to, minlength=count)))
    counts = (CONFIDENCE * ratings[order]).astype(np.float32)
    return wy.RaggedArray(of[order], offsets), wy.RaggedArray(counts, offsets)


if __name__ == "__main__":
    show("AUC of held-out films", EPOCHS, wyrm, implicit)

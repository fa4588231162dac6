"""A whole `fit` of recommenders on MovieLens 100K, vs `implicit` and LightFM, with the same model and passes.

All hold out the latest five films of each user. Of five seeds, the mean recall of ten films is beside it: ALS of 64
numbers 0.141 and 0.140 (implicit), WARP of 32 numbers 0.138 and 0.134 (LightFM), BPR 0.119 and 0.111 (LightFM).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

import wyrm as wy
from bench.harness import Case, Contender, Measurement, timed
from bench.models import MOVIELENS, has_movielens

FACTORS, HYBRID_FACTORS, RATE, EPOCHS, ITERATIONS, CONFIDENCE, PENALTY = 64, 32, 0.05, 30, 10, 2.0, 10.0


def _data() -> wy.data.Interactions:
    return wy.data.leave_one_out(wy.data.read_movielens(MOVIELENS), 5)[0]


def _matrix(data: wy.data.Interactions) -> Any:
    from scipy.sparse import csr_matrix

    weights = data.ratings / data.ratings.mean()
    return csr_matrix((weights, (data.users, data.items)), (data.user_count, data.item_count))


def _als() -> Callable[[], Measurement]:
    from wyrm.estimators.recommenders import ALS

    model = ALS(FACTORS, confidence=CONFIDENCE, regularization=PENALTY, iterations=ITERATIONS)
    return timed(partial(model.fit, _data()))


def _implicit() -> Callable[[], Measurement]:
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, "blas")  # as implicit recommends
    matrix, options = _matrix(_data()), {"iterations": ITERATIONS, "num_threads": 1}

    def fit() -> None:
        model = AlternatingLeastSquares(FACTORS, PENALTY, CONFIDENCE, **options)
        model.fit(matrix, show_progress=False)

    return timed(fit)


def _hybrid(loss: Literal["warp", "bpr"]) -> Callable[[], Measurement]:
    from wyrm.estimators.recommenders import Hybrid

    return timed(partial(Hybrid(loss, HYBRID_FACTORS, learning_rate=RATE, epochs=EPOCHS).fit, _data()))


def _lightfm(loss: str) -> Callable[[], Measurement]:
    from lightfm import LightFM

    weights = _matrix(_data()).tocoo().astype(np.float32)
    liked = weights.copy()
    liked.data[:] = 1.0
    return timed(
        lambda: LightFM(HYBRID_FACTORS, loss=loss, learning_rate=RATE).fit(liked, sample_weight=weights, epochs=EPOCHS)
    )


def cases() -> list[Case]:
    """ALS, and factors by WARP and BPR."""
    if not has_movielens("recommenders"):
        return []
    losses: tuple[Literal["warp", "bpr"], ...] = ("warp", "bpr")
    contenders: dict[str, dict[str, Contender]] = {
        f"ALS, {FACTORS} numbers, {ITERATIONS} passes": {"wyrm": _als, "implicit": _implicit}
    }
    contenders |= {
        f"{loss.upper()}, {HYBRID_FACTORS} numbers, {EPOCHS} passes": {
            "wyrm": partial(_hybrid, loss), "lightfm-next": partial(_lightfm, loss)
        }
        for loss in losses
    }  # fmt: skip
    return [Case("recommenders", name, each) for name, each in contenders.items()]

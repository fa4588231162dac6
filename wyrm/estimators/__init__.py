"""Estimators as scikit-learn has them: `fit`, `predict`, and what pipelines and searches expect.

>>> import numpy as np
>>> x = np.random.default_rng(0).normal(size=(200, 2))
>>> inside = np.where((x * x).sum(axis=1) < 1.0, "in", "out")
>>> model = wy.estimators.Classifier((16,), max_iter=100, learning_rate_init=0.01, random_state=0).fit(x, inside)
>>> bool(model.score(x, inside) > 0.9), model.predict([[0.0, 0.1], [3.0, 0.0]]).tolist()
(True, ['in', 'out'])

- `Classifier`, `Regressor`: networks of hidden layers on numbers, categories and sparse rows.
- `ModuleEstimator`: any module and any loss.
- `recommenders`: who had what, and what else each may like, by `ALS`, `EASE`, `Hybrid` and others.

All but recommenders need the package of `pip install "wyrm-autodiff[sklearn]"`. A fitted estimator holds arrays alone,
so that it pickles, and processes and threads share it. Estimators of equal structure share compiled programs: another
learning rate, seed, data set or size of a layer compiles nothing.
"""

from importlib.util import find_spec
from typing import Any

from wyrm.support.imports import lazy_imports, missing_package

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
_find, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "": "recommenders",
        "modules": "ModuleEstimator",
        "networks": "Classifier Regressor",
    },
)


def __getattr__(name: str) -> Any:
    if name in __all__ and name != "recommenders" and find_spec("sklearn") is None:
        raise missing_package(f"wyrm.estimators.{name}", "scikit-learn", "sklearn", name="sklearn")
    return _find(name)

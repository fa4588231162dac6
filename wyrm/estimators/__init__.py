"""Estimators as scikit-learn has them: `fit`, `predict`, and what pipelines and searches expect.

>>> import numpy as np
>>> x = np.random.default_rng(0).normal(size=(200, 2))
>>> inside = np.where((x * x).sum(axis=1) < 1.0, "in", "out")
>>> model = wy.estimators.Classifier((16,), max_iter=100, learning_rate_init=0.01, random_state=0).fit(x, inside)
>>> bool(model.score(x, inside) > 0.9), model.predict([[0.0, 0.1], [3.0, 0.0]]).tolist()
(True, ['in', 'out'])

- `Classifier`, `Regressor`: networks of hidden layers on numbers, categories and sparse rows.
- `ModuleEstimator`: any module and any loss.

They need the package of `pip install "wyrm-autodiff[sklearn]"`. A fitted estimator holds arrays alone, so that it
pickles, and processes and threads share it. Estimators of equal structure share compiled programs: another learning
rate, seed or data set compiles nothing.
"""

from importlib.util import find_spec

from wyrm.support.imports import lazy_imports

if find_spec("sklearn") is None:
    raise ImportError('wyrm.estimators needs scikit-learn: pip install "wyrm-autodiff[sklearn]"')

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "bases": "BaseEstimator ClassifierMixin RegressorMixin",
        "modules": "ModuleEstimator",
        "networks": "Classifier Regressor",
    },
)

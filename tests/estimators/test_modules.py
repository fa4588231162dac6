"""The estimator of any module."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import wyrm as wy

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(150, 4)).astype(np.float32)
CLASSES = (ROWS[:, 0] > 0) + (ROWS[:, 1] > 0).astype(int)


def estimator(**options: object) -> wy.estimators.ModuleEstimator:
    wy.nn.seed(0)
    module = wy.nn.Sequential(wy.nn.Linear(4, 16), wy.nn.relu, wy.nn.Dropout(0.1), wy.nn.Linear(16, 3))
    found: wy.estimators.ModuleEstimator = wy.estimators.ModuleEstimator(
        module, wy.losses.cross_entropy, learning_rate_init=0.02, random_state=0, max_iter=40
    ).set_params(**options)
    return found


def test_a_module_is_trained_and_stays_as_it_was() -> None:
    model = estimator()
    before = [parameter.value.copy() for parameter in model.module.parameters()]
    model.fit(ROWS, CLASSES)
    for parameter, array in zip(model.module.parameters(), before, strict=True):
        np.testing.assert_array_equal(parameter.value, array)
    assert (model.predict(ROWS).argmax(axis=1) == CLASSES).mean() > 0.9
    trained: Any = model.module_.eval()
    np.testing.assert_allclose(trained(wy.Constant(ROWS)).forward(), model.predict(ROWS), rtol=1e-4, atol=1e-5)
    loss = wy.losses.cross_entropy(wy.Constant(model.predict(ROWS)), CLASSES).forward()
    assert model.score(ROWS, CLASSES) == pytest.approx(-float(loss))


def test_clones_pickles_searches_and_weights() -> None:
    model = estimator(learning_rate_init=0.05)
    fitted = clone(model).fit(ROWS, CLASSES)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(ROWS), fitted.predict(ROWS))
    search = GridSearchCV(estimator(), {"learning_rate_init": [1e-6, 0.05]}, cv=2).fit(ROWS, CLASSES)
    assert search.best_params_ == {"learning_rate_init": 0.05}
    only = np.where(CLASSES == 1, 1.0, 0.0)
    weighted = estimator().fit(ROWS, CLASSES, sample_weight=only)
    assert (weighted.predict(ROWS).argmax(axis=1) == 1).all()


def test_what_does_not_fit_is_refused() -> None:
    model = estimator().fit(ROWS, CLASSES)
    with pytest.raises(ValueError, match=r"rows of float32 \(3,\), not those of the first fit, float32 \(4,\)"):
        model.predict(ROWS[:, :3])
    wrong: Any = "mse"
    with pytest.raises(TypeError, match="must be a module"):
        wy.estimators.ModuleEstimator(wrong, wy.losses.mse).fit(ROWS, ROWS)
    with pytest.raises(TypeError, match=r"loss must be a function .* such as wy.losses.mse, not 'mse'"):
        wy.estimators.ModuleEstimator(wy.nn.Linear(4, 3), wrong).fit(ROWS, CLASSES)
    with pytest.raises(ValueError, match="array of numbers"):
        estimator().fit(np.array(["a"]), CLASSES[:1])

"""Estimators of networks: scikit-learn's own checks, what they learn, and that they share programs."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import wyrm as wy
from wyrm.engines.native.llvm import library
from wyrm.estimators.network import Form
from wyrm.estimators.trials import PROGRAMS, Model

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(200, 3))
INSIDE = np.where((ROWS * ROWS).sum(axis=1) < 2.0, "in", "out")
QUICK: dict[str, Any] = {"max_iter": 60, "learning_rate_init": 0.02, "random_state": 0}


@pytest.mark.parametrize("estimator", [wy.estimators.Classifier, wy.estimators.Regressor])
def test_scikit_learn_checks_pass(estimator: Any) -> None:
    found = check_estimator(estimator(), on_skip=None)
    assert {each["status"] for each in found} <= {"passed", "skipped"}
    assert sum(each["status"] == "passed" for each in found) > 50


def test_classes_labels_and_numbers_are_learned() -> None:
    classifier = wy.estimators.Classifier((16,), **QUICK).fit(ROWS, INSIDE)
    assert classifier.score(ROWS, INSIDE) > 0.9
    np.testing.assert_allclose(classifier.predict_proba(ROWS).sum(axis=1), 1.0)
    labels = np.stack([ROWS[:, 0] > 0, ROWS[:, 1] > 0], axis=1).astype(int)
    several = wy.estimators.Classifier((16,), **QUICK).fit(ROWS, labels)
    assert (several.predict(ROWS) == labels).mean() > 0.95
    numbers = 1e5 * np.stack([ROWS[:, 0], ROWS[:, 1] * ROWS[:, 2]], axis=1)
    regressor = wy.estimators.Regressor((32,), **QUICK).fit(ROWS, numbers)
    assert regressor.predict(ROWS).shape == (200, 2)
    assert regressor.score(ROWS, numbers) > 0.8


def test_sparse_rows_give_what_dense_rows_give() -> None:
    sparse = csr_array(RANDOM.normal(size=(80, 12)) * (RANDOM.random((80, 12)) < 0.3))
    target = sparse.toarray() @ np.arange(12.0)
    both = [wy.estimators.Regressor((8,), alpha=0.0, **QUICK).fit(x, target) for x in (sparse, sparse.toarray())]
    predictions = [each.predict(x) for each in both for x in (sparse, sparse.toarray())]
    for each in predictions:
        np.testing.assert_allclose(each, predictions[0], rtol=1e-6)
    assert both[0].score(sparse, target) > 0.9


def test_float32_features_are_computed_in_float32() -> None:
    for dtype in (np.float32, np.float64):
        model = wy.estimators.Classifier((4,), **QUICK).fit(ROWS.astype(dtype), INSIDE)
        assert {array.dtype for array in model._state.arrays} == {np.dtype(dtype)}


def test_weights_count_rows() -> None:
    counts = RANDOM.integers(0, 3, 60)
    few, kept = ROWS[:60], INSIDE[:60]
    weighted = wy.estimators.Classifier((4,), **QUICK).fit(few, kept, sample_weight=counts)
    repeated = wy.estimators.Classifier((4,), **QUICK).fit(np.repeat(few, counts, axis=0), np.repeat(kept, counts))
    np.testing.assert_allclose(weighted.predict_proba(ROWS), repeated.predict_proba(ROWS), rtol=1e-6)
    rare = np.where(np.arange(200) < 20, "rare", "often")
    features = ROWS + (rare == "rare")[:, None]
    recalls = []
    for weight in (None, "balanced", {"rare": 9.0, "often": 1.0}):
        model = wy.estimators.Classifier((), class_weight=weight, **QUICK).fit(features, rare)
        recalls.append((model.predict(features)[:20] == "rare").mean())
    assert recalls[0] < recalls[1] - 0.2
    assert recalls[0] < recalls[2] - 0.2


def test_partial_fit_goes_on_as_one_training_does() -> None:
    options: dict[str, Any] = {"batch_size": 50, "tol": 0.0, "n_iter_no_change": 100} | QUICK
    whole = wy.estimators.Classifier((8,), dropout=0.2, **options | {"max_iter": 3}).fit(ROWS, INSIDE)
    parts = wy.estimators.Classifier((8,), dropout=0.2, **options)
    for _ in range(3):
        parts.partial_fit(ROWS, INSIDE, classes=["in", "out"])
    assert parts.n_iter_ == 3
    np.testing.assert_array_equal(parts.predict_proba(ROWS), whole.predict_proba(ROWS))
    with pytest.raises(ValueError, match="not only those of the first fit"):
        parts.partial_fit(ROWS, np.full(200, "beside"))
    np.testing.assert_array_equal(parts.predict_proba(ROWS), whole.predict_proba(ROWS))


def forms_built(monkeypatch: pytest.MonkeyPatch) -> list[Form]:
    """Return the forms of which graphs are built from here on."""
    built, build = list[Form](), Form.build

    def counted(form: Form) -> Model:
        built.append(form)
        return build(form)

    monkeypatch.setattr(Form, "build", counted)
    return built


def test_trainings_of_one_structure_share_a_program_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    built = forms_built(monkeypatch)
    PROGRAMS.clear()
    first = wy.estimators.Classifier((5,), alpha=0.1, **QUICK).fit(ROWS, INSIDE)
    before = first.predict_proba(ROWS)
    for seed in range(3):
        other = wy.estimators.Classifier((5,), alpha=1.0, max_iter=5, random_state=seed).fit(ROWS[:90], INSIDE[:90])
        assert (other.predict_proba(ROWS) != before).any()
    assert len(built) == 2  # the training, and the predictions
    np.testing.assert_array_equal(first.predict_proba(ROWS), before)
    again = wy.estimators.Classifier((5,), alpha=0.1, **QUICK).fit(ROWS, INSIDE)
    np.testing.assert_array_equal(again.predict_proba(ROWS), before)


def test_networks_of_other_sizes_share_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*hidden: int) -> None:
        wy.estimators.Classifier(hidden, **QUICK | {"max_iter": 3}).fit(ROWS, INSIDE)

    loaded, load = list[object](), library._load

    def counted(function: Any, *others: Any) -> Any:
        loaded.append(function)
        return load(function, *others)

    PROGRAMS.clear()
    fit(5)
    monkeypatch.setattr(library, "_load", counted)
    for size in (6, 17, 200, 300):  # the batch has 200 rows
        fit(size)
    assert loaded == []


COLUMNS = {
    "size": ROWS[:, 0],
    "color": np.array(["red", "green", "blue", "black"])[RANDOM.integers(4, size=200)],
    "town": np.array([f"town {i}" for i in RANDOM.integers(40, size=200)]),
}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "dense": (ROWS, {}),
    "one layer": (ROWS, {}),
    "float32": (ROWS.astype(np.float32), {"activation": "tanh"}),
    "dropout": (ROWS, {"dropout": 0.3}),
    "threads": (ROWS, {"threads": 2}),
    "stopped early": (ROWS, {"early_stopping": True}),
    "sparse": (csr_array(ROWS * (ROWS > 0)), {}),
    "categories": (["size", "color", "town"], {}),
    "categories alone": (["town", "color"], {}),
    "one category": (["town"], {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_networks_of_other_sizes_share_programs_and_find_what_their_own_find(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, options = KINDS[kind]
    if isinstance(features, list):
        features = pytest.importorskip("polars").DataFrame({name: COLUMNS[name] for name in features})
    # Sizes by which products and loops differ; some follow a larger one, some a smaller one, and one comes again.
    sizes = [5, 130, 16, 1, 16]
    parts: list[Any] = [slice(0, 200), slice(0, 60), slice(0, 130), slice(0, 200), slice(0, 130)]

    def found(size: int, part: slice) -> list[Any]:
        hidden = (size,) if kind == "one layer" else (size, max(1, size // 3))
        options_of_all: dict[str, Any] = {"max_iter": 4, "learning_rate_init": 0.02, "random_state": size}
        model = wy.estimators.Classifier(hidden, batch_size=50, **options_of_all | options)
        model.fit(features[part], INSIDE[part])
        return [model.loss_curve_, *model._state.arrays, model.predict_proba(features)]

    alone = []
    for size, part in zip(sizes, parts, strict=True):
        PROGRAMS.clear()
        alone.append(found(size, part))
    PROGRAMS.clear()
    built = forms_built(monkeypatch)
    together = [found(size, part) for size, part in zip(sizes, parts, strict=True)]
    if not hasattr(features, "columns"):  # the vectors of categories have lengths by the number of these
        assert len(built) == 2  # the training, and the predictions
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one[0], other[0], rtol=1e-14)  # of a mean that adds batches in other groups
        for x, y in zip(one[1:], other[1:], strict=True):
            np.testing.assert_array_equal(x, y)


def test_a_training_goes_on_after_one_of_another_size() -> None:
    whole = wy.estimators.Classifier((16,), max_iter=1, random_state=0)
    parts = wy.estimators.Classifier((16,), max_iter=1, random_state=0)
    for _ in range(3):
        whole.partial_fit(ROWS, INSIDE)
    for _ in range(3):
        parts.partial_fit(ROWS, INSIDE)
        wy.estimators.Classifier((9,), max_iter=2).fit(ROWS, INSIDE)
    np.testing.assert_array_equal(parts.predict_proba(ROWS), whole.predict_proba(ROWS))


def test_fits_in_threads_find_what_one_thread_finds() -> None:
    def scores(rate: float) -> Any:
        model = wy.estimators.Classifier((9,), max_iter=30, random_state=0, learning_rate_init=rate)
        return cross_val_score(model, ROWS, INSIDE, cv=3)

    rates = [0.003, 0.01, 0.03, 0.1]
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(scores, rates))
    np.testing.assert_array_equal(found, [scores(rate) for rate in rates])


def test_pipelines_searches_clones_and_pickles() -> None:
    model = make_pipeline(StandardScaler(), wy.estimators.Classifier((8,), **QUICK))
    assert cross_val_score(model, ROWS, INSIDE, cv=3).mean() > 0.8
    search = GridSearchCV(wy.estimators.Classifier(**QUICK), {"hidden_layer_sizes": [(2,), (16,)]}, cv=3)
    assert search.fit(ROWS, INSIDE).best_params_ == {"hidden_layer_sizes": (16,)}
    fitted = search.best_estimator_
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(ROWS), fitted.predict_proba(ROWS))
    assert repr(clone(fitted)) == repr(fitted)


def test_early_stopping_keeps_the_best_epoch() -> None:
    noise = RANDOM.permutation(INSIDE)
    options = QUICK | {"max_iter": 200}
    model = wy.estimators.Classifier((64,), early_stopping=True, n_iter_no_change=3, **options).fit(ROWS, noise)
    assert model.n_iter_ < 200


def test_a_call_that_raises_leaves_the_fit_as_it_was() -> None:
    model = wy.estimators.Classifier((8,), **QUICK).fit(ROWS, INSIDE)
    before = model.predict_proba(ROWS)
    with pytest.raises(ValueError, match="no method 'rellu'"):
        model.set_params(activation="rellu").fit(ROWS[:, :2], INSIDE)
    model.set_params(activation="relu")
    np.testing.assert_array_equal(model.predict_proba(ROWS), before)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_categories_have_vectors(library: str) -> None:
    frames: Any = pytest.importorskip(library)
    color = RANDOM.choice(["red", "green", "blue"], 200)
    size = RANDOM.normal(size=200)
    target = np.where(color == "red", size > 0, size < 0)
    frame = frames.DataFrame({"color": color, "size": size})
    model = wy.estimators.Classifier((16,), **QUICK).fit(frame, target)
    assert model.score(frame, target) > 0.95
    assert model.feature_names_in_.tolist() == ["color", "size"]
    unseen = frames.DataFrame({"color": ["violet", None], "size": [0.5, 0.5]})
    assert np.isfinite(model.predict_proba(unseen)).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frames.DataFrame({"colour": ["red"], "size": [0.5]}))
    with pytest.raises(ValueError, match="'color': give a data frame"):
        model.predict(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="NaN"):
        model.predict(frames.DataFrame({"color": ["red"], "size": [np.nan]}))

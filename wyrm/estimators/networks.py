"""Estimators of networks: a classifier and a regressor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, column_or_1d, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from wyrm.estimators.base import Estimator
from wyrm.estimators.bases import ClassifierMixin, RegressorMixin
from wyrm.estimators.network import FloatName, Form, Structure, Target
from wyrm.estimators.tables import Features, checked_array, read_features
from wyrm.support.options import number


@dataclass(eq=False, repr=False)
class NetworkEstimator(Estimator):
    """Base class of the estimators of networks."""

    hidden_layer_sizes: int | Sequence[int] = (100,)
    activation: str = "relu"
    _: KW_ONLY
    dropout: float = 0.0
    alpha: float = 0.0001

    def _features(self, x: Any, again: bool) -> dict[str, Any]:
        known, columns = read_features(self, x, self._known if again else None)
        self._known: Features = known
        numbers = columns.get("numbers")
        if not again:
            self._dtype: FloatName = "float32" if numbers is None or numbers.dtype == np.float32 else "float64"
        return columns

    @abstractmethod
    def _kind(self) -> tuple[int, Target]:
        """Return how many scores there are, and of what."""

    def _held(self, rows: float) -> dict[str, float]:
        return {"penalty": number("alpha", self.alpha, 0.0) / rows}

    def _structure(self) -> Structure:
        known, (outputs, target) = self._known, self._kind()
        hidden = tuple(np.atleast_1d(np.asarray(self.hidden_layer_sizes, np.int64)).tolist())
        activation = "sigmoid" if self.activation == "logistic" else self.activation
        lengths = tuple((name, min(50, 1 + len(ids) // 2)) for name, ids in known.categories)
        form = Form(
            known.numbers, known.sparse, lengths, len(hidden) + 1, activation,
            float(self.dropout), outputs, target, self._dtype,
        )  # fmt: skip
        return Structure(form, tuple(1 + len(ids) for _, ids in known.categories), hidden)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False)
class Classifier(ClassifierMixin, NetworkEstimator):
    """A network of hidden layers that predicts one class of several, (rows,), or any of several labels, (rows, labels).

    Labels are zeros and ones.

    Options have the names of scikit-learn's `MLPClassifier`: `alpha` is the penalty on squared weights, divided by the
    rows of a batch; training ends after `n_iter_no_change` epochs in which the loss falls by less than `tol`, and with
    `early_stopping` that of the share `validation_fraction` of the rows, which then gives the best epoch. `activation`
    is the name of a method of nodes, such as "relu", "gelu" or "tanh", or "identity". `dropout` is the share of hidden
    numbers that a step sets to zero, `class_weight` is "balanced" or a weight for each class, and `threads` share the
    rows of a batch. The optimizer is Adam.

    Features are arrays, data frames, or sparse rows, whose zeros cost nothing. Columns of a data frame with texts,
    booleans or a categorical type are categories: each has a vector of its own, and one that was not seen in `fit`, or
    is missing, has the vector of none. Numbers are not scaled: put a `StandardScaler` before it. float32 features are
    computed in float32, others in float64.

    `classes_` has the classes, `n_iter_` the epochs, `loss_curve_` their losses, `n_features_in_` and
    `feature_names_in_` are as everywhere in scikit-learn.

    Raise `ValueError` for features, targets, weights and options that do not fit, and `Diverged`, a `ValueError` too,
    where the loss is not finite. A call that raises leaves an earlier fit as it was.

    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> inside = np.where((x * x).sum(axis=1) < 1.0, "in", "out")
    >>> model = Classifier((16,), max_iter=100, learning_rate_init=0.01, random_state=0).fit(x, inside)
    >>> bool(model.score(x, inside) > 0.9), model.predict_proba([[3.0, 0.0]]).argmax()
    (True, np.int64(1))
    """

    class_weight: Mapping[Any, float] | str | None = field(default=None, kw_only=True)

    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train for one epoch more on these rows; the first call takes all `classes` that there will be."""
        if classes is not None and not hasattr(self, "_state"):
            self._expected = np.unique(np.asarray(classes))
        try:
            return self._fit(X, y, sample_weight, epochs=1)
        finally:
            self.__dict__.pop("_expected", None)

    def _target(self, y: Any, weights: NDArray[np.float64], again: bool) -> NDArray[Any]:
        if isinstance(y, np.ndarray) and y.dtype.kind == "f":  # before a look at what they are, which rounds them
            assert_all_finite(y, input_name="y")
        kind = type_of_target(y, input_name="y")
        if kind not in ("binary", "multiclass"):
            check_classification_targets(y)
        labels = kind == "multilabel-indicator"
        if labels:
            y = checked_array(y, accept_sparse="csr", dtype=None, input_name="y")
            y = y.toarray() if hasattr(y, "toarray") else y
            found = np.arange(y.shape[1])
        else:
            y = column_or_1d(y, warn=True)
            assert_all_finite(y, input_name="y")
            found = np.unique(y)
        expected = getattr(self, "_expected", None)
        if again:
            if labels != self._labels or np.setdiff1d(found, self.classes_).size:
                raise ValueError(
                    f"y has classes {found.tolist()}, not only those of the first fit, {self.classes_.tolist()}"
                )
        else:
            if expected is not None and np.setdiff1d(found, expected).size:
                raise ValueError(f"y has classes {found.tolist()}, not only those of `classes`, {expected.tolist()}")
            self.classes_: NDArray[Any] = found if expected is None else expected
            self._labels: bool = labels
        if labels:
            return np.asarray(y, self._dtype)
        numbers: NDArray[np.int64] = np.searchsorted(self.classes_, y).astype(np.int64)
        return numbers

    def _weights(self, y: Any, given: ArrayLike | None, rows: int) -> NDArray[np.float64]:
        weights = super()._weights(y, given, rows)
        return weights if self.class_weight is None else weights * compute_sample_weight(self.class_weight, y)

    def _kind(self) -> tuple[int, Target]:
        return len(self.classes_), "labels" if self._labels else "class"

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, or of each label, (rows, classes)."""
        scores = np.asarray(self._scores(X), np.float64)
        if self._labels:
            return 0.5 + 0.5 * np.tanh(0.5 * scores)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
        return probabilities

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row, or an array of zeros and ones, (rows, labels)."""
        scores = self._scores(X)
        if self._labels:
            return (scores > 0.0).astype(np.int64)
        chosen: NDArray[Any] = self.classes_[scores.argmax(axis=1)]
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


@dataclass(eq=False, repr=False)
class Regressor(RegressorMixin, NetworkEstimator):
    """A network of hidden layers that predicts one number, (rows,), or several, (rows, outputs), for each row.

    Options, features and errors are those of `Classifier`. The mean and the deviation of the targets are taken out
    before training, so that targets of any size train alike; the loss is half of the mean squared error of what is
    left.

    >>> x = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 1))
    >>> model = Regressor((32,), max_iter=300, learning_rate_init=0.01, random_state=0).fit(x, 1e6 * x[:, 0] ** 2)
    >>> bool(model.score(x, 1e6 * x[:, 0] ** 2) > 0.99)
    True
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train for one epoch more on these rows."""
        return self._fit(X, y, sample_weight, epochs=1)

    def _target(self, y: Any, weights: NDArray[np.float64], again: bool) -> NDArray[Any]:
        y = checked_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        rows = np.ascontiguousarray(y.reshape(len(y), -1))
        if not again:
            self._center = np.average(rows, axis=0, weights=weights)
            self._spread = np.sqrt(np.average((rows - self._center) ** 2, axis=0, weights=weights))
            self._spread[self._spread == 0.0] = 1.0
            self._flat = y.ndim == 1
        if rows.shape[1] != len(self._center):
            raise ValueError(f"y has {rows.shape[1]} outputs, not the {len(self._center)} of the first fit")
        return np.asarray((rows - self._center) / self._spread, self._dtype)

    def _kind(self) -> tuple[int, Target]:
        return len(self._center), "numbers"

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the numbers of each row, (rows,) or (rows, outputs)."""
        found = self._scores(X) * self._spread + self._center
        return found[:, 0] if self._flat else found

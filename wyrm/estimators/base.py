"""What all estimators do: they read a table, train programs that they share, and keep arrays."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from wyrm.estimators.bases import BaseEstimator
from wyrm.estimators.tables import checked_array
from wyrm.estimators.trials import PROGRAMS, State, Structured, count
from wyrm.support.options import number, whole
from wyrm.train.monitoring import EarlyStopping

# The rows of a batch where `batch_size` is "auto", as in scikit-learn.
_BATCH = 200
_SEEDS = 2**29


@dataclass(eq=False, repr=False)
class Estimator(BaseEstimator):
    """Base class of estimators: a subclass reads features and targets, and says the structure of its model."""

    _: KW_ONLY
    batch_size: int | str = "auto"
    learning_rate_init: float = 0.001
    max_iter: int = 200
    shuffle: bool = True
    random_state: Any = None
    tol: float = 1e-4
    verbose: bool = False
    warm_start: bool = False
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    threads: int = 1

    # --- what subclasses say ----------------------------------------------------------------------------------------

    @abstractmethod
    def _features(self, x: Any, again: bool) -> dict[str, Any]:
        """Return the columns of features by the names of the model's inputs; `again`: as those of an earlier fit."""

    @abstractmethod
    def _target(self, y: Any, weights: NDArray[np.float64], again: bool) -> NDArray[Any]:
        """Return the column of targets."""

    @abstractmethod
    def _structure(self) -> Structured:
        """Return what the code of the model depends on."""

    def _weights(self, y: Any, given: ArrayLike | None, rows: int) -> NDArray[np.float64]:
        """Return the weight of each row."""
        if given is None:
            return np.ones(rows)
        found: NDArray[np.float64] = checked_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
        if found.ndim != 1:
            raise ValueError("sample_weight must be 1D: one number for each row")
        if (found < 0).any() or not found.any():
            raise ValueError("sample_weight must have no weight below 0, and not all weights may be zero")
        return found

    def _held(self, rows: float) -> dict[str, float]:
        """Return the factors that the model's loss reads, by name, for batches with this sum of weights."""
        return {}

    # --- training ---------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train for at most `max_iter` epochs on rows of features and their targets, one of each for a sample."""
        return self._fit(X, y, sample_weight)

    def _fit(self, x: Any, y: Any, sample_weight: ArrayLike | None, *, epochs: int | None = None) -> Self:
        """Train on a table: for `max_iter` epochs, or for some more that continue an earlier training."""
        before = dict(self.__dict__)
        try:
            self._train(x, y, sample_weight, epochs)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _train(self, x: Any, y: Any, sample_weight: ArrayLike | None, epochs: int | None) -> None:
        more = epochs is not None
        again = hasattr(self, "_state") and (more or self.warm_start)
        self._check_options()
        columns = self._features(x, again)
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None")
        rows = count(columns)
        weights = self._weights(y, sample_weight, rows)
        check_consistent_length(np.empty(rows), y, weights)
        mean, target = float(weights.mean()), self._target(y, weights, again)
        columns |= {"target": target, "weight": weights / mean}
        random = check_random_state(self.random_state)
        seed, structure = int(random.randint(_SEEDS)), self._structure()
        state: State = copy.copy(self._state) if again else State(structure.drawn(np.random.default_rng(seed)))
        validation, callbacks = None, []
        if not more:
            best = self.early_stopping
            monitor = "validation_loss" if best else "loss"
            callbacks = [EarlyStopping(self.n_iter_no_change, monitor, minimum_change=self.tol, restore_best=best)]
            if best:
                columns, validation = self._divided(columns, target, seed)
        batch = min(_BATCH if self.batch_size == "auto" else int(self.batch_size), count(columns))
        history = PROGRAMS.train(
            structure.form, state, columns, rate=self.learning_rate_init, held=self._held(batch * mean),
            seed=seed, validation=validation, epochs=epochs or self.max_iter, batch_size=batch, shuffle=self.shuffle,
            threads=self.threads, mode="synchronized", callbacks=callbacks, progress=bool(self.verbose),
        )  # fmt: skip
        self._state: State = state
        self.n_iter_: int = state.epochs
        self.loss_curve_: list[float] = [*(self.loss_curve_ if again else []), *history["loss"]]
        self.loss_: float = self.loss_curve_[-1]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    def _check_options(self) -> None:
        whole("max_iter", self.max_iter, 1)
        whole("n_iter_no_change", self.n_iter_no_change, 1)
        number("learning_rate_init", self.learning_rate_init, 0.0)
        if self.batch_size != "auto":
            whole("batch_size", self.batch_size, 1)

    def _divided(self, columns: Mapping[str, Any], y: Any, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the columns of the rows to train on, and those of the rows to stop by."""
        rows = np.arange(count(columns))
        stratify = y if y.dtype.kind == "i" and y.ndim == 1 else None
        parts = train_test_split(rows, test_size=self.validation_fraction, random_state=seed, stratify=stratify)
        first, second = ({name: column[np.sort(part)] for name, column in columns.items()} for part in parts)
        return first, second

    # --- predictions ------------------------------------------------------------------------------------------------

    def _scores(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        columns = self._features(x, True)
        return PROGRAMS.scorer(self._structure().form)(self._state.arrays, columns)

"""The base classes of scikit-learn, with the types that it lacks.

Type checkers take a base without types for one that accepts all options: `Classifier(epochs=5)` would pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    class BaseEstimator:
        """An object whose options are the arguments of its constructor.

        `n_features_in_` and `feature_names_in_` are those of the last fit, the latter of a data frame alone.
        """

        n_features_in_: int
        feature_names_in_: NDArray[Any]

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return all options by name."""
            ...

        def set_params(self, **params: Any) -> Self:
            """Change options."""
            ...

        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        """A classifier."""

        def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
            """Return the share of rows whose class is predicted."""
            ...

    class RegressorMixin:
        """A regressor."""

        def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
            """Return the coefficient of determination of the predictions."""
            ...

else:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import RegressorMixin as RegressorMixin

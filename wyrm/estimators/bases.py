"""The base classes of scikit-learn, with the types that it lacks: without these, any option would pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    class BaseEstimator:
        n_features_in_: int
        feature_names_in_: NDArray[Any]

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...

        def set_params(self, **params: Any) -> Self: ...

        def __sklearn_tags__(self) -> Any: ...

    class _Scored:
        def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float: ...

    class ClassifierMixin(_Scored): ...

    class RegressorMixin(_Scored): ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

__all__ = ["BaseEstimator", "ClassifierMixin", "RegressorMixin"]

"""Metrics: functions of arrays that return a Python float, and running metrics that take their data in batches.

>>> wy.metrics.accuracy([0, 1, 1], [0, 1, 0])
0.6666666666666666

- Classes: `accuracy`, `top_k_accuracy`, `precision`, `recall`, `specificity`, `f1`, `confusion_matrix`, `roc_auc`.
- Numbers: `mean_squared_error`, `mean_absolute_error`, `r2`, `explained_variance`, `max_error` and others.
- Recommendations: `reciprocal_rank` and `ranking_auc`, and their means over users.
- Running metrics, for `program.evaluate` and `fit`: `Accuracy`, `Mean`, `ConfusionMatrix`, `MeanSquaredError`, and
  `Collected` for any function of all rows.
"""

from typing import TYPE_CHECKING

from wyrm.metrics.classification import accuracy, confusion_matrix, f1, precision, recall, specificity, top_k_accuracy
from wyrm.metrics.ranking import mean_ranking_auc, mean_reciprocal_rank, ranking_auc, reciprocal_rank, roc_auc
from wyrm.metrics.regression import (
    explained_variance,
    max_error,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    r2,
    root_mean_squared_error,
)
from wyrm.metrics.running import (
    Accuracy,
    Collected,
    ConfusionMatrix,
    MaxError,
    Mean,
    MeanAbsoluteError,
    MeanSquaredError,
    RootMeanSquaredError,
)
from wyrm.support import late_imports as _lazy_imports

if not TYPE_CHECKING:  # to a type checker, a module with `__getattr__` has every name
    __getattr__, __dir__ = _lazy_imports.lazy_imports(__name__, {})

__all__ = [  # in the order of `sorted`, as a test expects
    "Accuracy",
    "Collected",
    "ConfusionMatrix",
    "MaxError",
    "Mean",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "RootMeanSquaredError",
    "accuracy",
    "confusion_matrix",
    "explained_variance",
    "f1",
    "max_error",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_ranking_auc",
    "mean_reciprocal_rank",
    "mean_squared_error",
    "precision",
    "r2",
    "ranking_auc",
    "recall",
    "reciprocal_rank",
    "roc_auc",
    "root_mean_squared_error",
    "specificity",
    "top_k_accuracy",
]

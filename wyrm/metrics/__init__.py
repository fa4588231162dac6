"""Metrics: functions of arrays that return a Python float.

>>> wy.metrics.accuracy([0, 1, 1], [0, 1, 0])
0.6666666666666666
"""

from wyrm.metrics.classification import accuracy, f1, precision, recall, top_k_accuracy
from wyrm.metrics.ranking import mean_ranking_auc, mean_reciprocal_rank, ranking_auc, reciprocal_rank, roc_auc
from wyrm.metrics.regression import mean_absolute_error, mean_squared_error, r2, root_mean_squared_error

__all__ = [
    "accuracy",
    "f1",
    "mean_absolute_error",
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
    "top_k_accuracy",
]

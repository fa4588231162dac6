"""Metrics: functions of arrays that return a Python float, and running metrics that take their data in batches.

>>> wy.metrics.accuracy([0, 1, 1], [0, 1, 0])
0.6666666666666666

- Classes: `accuracy`, `top_k_accuracy`, `precision`, `recall`, `specificity`, `f1`, `confusion_matrix`, `roc_auc`.
- Numbers: `mean_squared_error`, `mean_absolute_error`, `r2`, `explained_variance`, `max_error` and others.
- Recommendations, for scores or lists of items of many users: `recall_at_k`, `precision_at_k`, `hit_rate`, `mrr`,
  `ndcg`, `average_precision`, `auc`, `coverage`, `novelty`; for one user `reciprocal_rank` and `ranking_auc`.
- Running metrics, for `program.evaluate` and `fit`: `Accuracy`, `Mean`, `ConfusionMatrix`, `MeanSquaredError`, and
  `Collected` for any function of all rows.
"""

from wyrm.support.imports import lazy_imports

# Imported on first use; `python -m wyrm.declare` writes the same names for type checkers.
__getattr__, __dir__, __all__ = lazy_imports(
    __name__,
    {
        "classification": "accuracy confusion_matrix f1 precision recall specificity top_k_accuracy",
        "recommendations": "auc average_precision coverage hit_rate mrr ndcg novelty precision_at_k recall_at_k",
        "ranking": "mean_ranking_auc mean_reciprocal_rank ranking_auc reciprocal_rank roc_auc",
        "regression": (
            "explained_variance max_error mean_absolute_error mean_absolute_percentage_error mean_squared_error "
            "r2 root_mean_squared_error"
        ),
        "running": (
            "Accuracy Collected ConfusionMatrix MaxError Mean MeanAbsoluteError MeanSquaredError RootMeanSquaredError"
        ),
    },
)

"""Arguments of metrics that do not belong together: other lengths, ragged rows, and things that are no arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.each import check_each
from wyrm import metrics
from wyrm.errors import DTypeError, ShapeError, WyrmError

# Metrics as functions of their two arguments.
METRICS: dict[str, Callable[[Any, Any], object]] = {
    name: getattr(metrics, name) for name in metrics.__all__ if name[0].islower()
}


def updating(metric: Any) -> Callable[[Any, Any], object]:
    def updated(first: Any, second: Any) -> object:
        metric.update(first, second)
        return metric.compute()

    return updated


RUNNING: dict[str, Callable[[Any, Any], object]] = {
    name: updating(getattr(metrics, name)(*arguments))
    for name in metrics.__all__
    if name[0].isupper() and name != "Mean"
    for arguments in [{"ConfusionMatrix": (3,), "Collected": (metrics.r2,)}.get(name, ())]
}
ALL = METRICS | RUNNING
LABELS, SCORES = [0, 1, 1], [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LABELS, SCORES), (SCORES, LABELS), (LABELS, []), ([LABELS, LABELS], LABELS), ([[1], [1, 2]], LABELS),
        (LABELS, [[1], [1, 2]]), (LABELS, 1), (1, 2), (LABELS, None), (None, LABELS), ("ab", "ab"),
        (LABELS, np.zeros(2, bool)), (LABELS, np.zeros(0, bool)),
    ],
)  # fmt: skip
def test_arguments_that_do_not_belong_together_are_refused(first: Any, second: Any) -> None:
    def check(name: str) -> None:
        with pytest.raises(WyrmError):
            ALL[name](first, second)

    check_each(ALL, check)


def test_ranks_of_other_lengths_say_what_they_got() -> None:
    scores = [0.1, 0.9, 0.5]
    for metric in (metrics.reciprocal_rank, metrics.ranking_auc):
        with pytest.raises(ShapeError, match=r"relevant is a mask of shape \(4,\) over 3 scores"):
            metric(scores, np.zeros(4, bool))
        with pytest.raises(ShapeError, match=r"exclude is a mask of shape \(0,\) over 3 scores"):
            metric(scores, [1], np.zeros(0, bool))
        with pytest.raises(DTypeError, match="relevant is 1; expected a mask of dtype bool, or the indices of items"):
            metric(scores, 1)  # type: ignore[arg-type]  # the mistake
        with pytest.raises(DTypeError, match=r"for 2 scores; .*\(Arguments are scores, then relevant items\.\)"):
            metric([0, 1], scores)  # type: ignore[arg-type]  # the mistake
        with pytest.raises(ShapeError, match=r"relevant was given lists of different lengths"):
            metric(scores, [[0], [1, 2]])  # type: ignore[list-item]  # the mistake
        assert metric(scores, {1}, exclude=[]) == 1.0


def test_batches_of_other_shapes_are_refused_when_they_come() -> None:
    metric = wy.metrics.Collected(metrics.r2)
    metric.update([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(ShapeError, match=r"targets have shape \(2, 1\), those of the last batch \(2,\)"):
        metric.update([[1.0], [2.0]], [1.0, 2.0])
    assert metric.compute() == 1.0

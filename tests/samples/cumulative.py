"""Samples of cumulative ops and recurrences."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.samples.sample import Sample, distinct, normal
from wyrm.ops.reducing.cumulative import CumProd, CumSum, Recurrence, Shift
from wyrm.ops.reducing.running_extremes import RunningArg


def _from_the_end(function: Any) -> Any:
    return lambda x: np.flip(function(np.flip(x, 1), axis=1), 1)


def _recurrence(factor: Any, term: Any, goes_on: Any = 1.0) -> Any:
    result, factor = term.copy(), np.where(goes_on > np.float64(0.5), factor, 0.0)
    for i in range(1, len(result)):
        result[i] += factor[i] * result[i - 1]
    return result


def _recurrence_from_the_end(*operands: Any) -> Any:
    return _recurrence(*(operand[::-1] for operand in operands))[::-1]


def _beginnings() -> Any:
    return 1.0 - np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def _running_arg(x: Any, axis: int, greatest: bool) -> Any:
    x = x if greatest else -x
    rows = np.moveaxis(x, axis, 0)
    found = [
        [max(range(i + 1), key=lambda j: (column[j], j)) for i in range(len(rows))]
        for column in rows.reshape(len(rows), -1).T
    ]
    return np.moveaxis(np.array(found, np.int64).reshape(-1, len(rows)).T.reshape(rows.shape), 0, axis)


def _with_zeros() -> Any:
    x = normal(3, 5)
    x[0, 2] = x[1, 0] = x[1, 3] = x[2, 4] = 0.0
    return x


def samples() -> list[Sample]:
    """Samples of the four ops, in both directions."""
    return [
        Sample(CumSum, lambda x: x.cumsum(), (normal(2, 3),), np.cumsum, name="CumSum-all"),
        Sample(CumSum, lambda x: x.cumsum(1), (normal(2, 3, 4),), lambda x: np.cumsum(x, 1), name="CumSum-1"),
        Sample(
            CumSum,
            lambda x: CumSum(x, axis=1, reverse=True),
            (normal(2, 3),),
            _from_the_end(np.cumsum),
            name="CumSum-reverse",
        ),
        Sample(CumProd, lambda x: x.cumprod(), (normal(2, 3),), np.cumprod, name="CumProd-all"),
        Sample(CumProd, lambda x: x.cumprod(-1), (_with_zeros(),), lambda x: np.cumprod(x, -1), name="CumProd-zeros"),
        Sample(
            CumProd,
            lambda x: CumProd(x, axis=1, reverse=True),
            (normal(2, 3),),
            _from_the_end(np.cumprod),
            name="CumProd-reverse",
        ),
        Sample(
            Shift,
            lambda x: Shift(x, axis=0, fill=2.0),
            (normal(3, 2),),
            lambda x: np.concatenate([np.full_like(x[:1], 2.0), x[:-1]]),
        ),
        Sample(
            Shift,
            lambda x: Shift(x, axis=0, reverse=True, fill=0.0),
            (normal(3, 2),),
            lambda x: np.concatenate([x[1:], np.zeros_like(x[:1])]),
            name="Shift-reverse",
        ),
        Sample(
            Recurrence,
            lambda factor, term: Recurrence(factor, term, axis=0),
            (normal(4, 3), normal(4, 3)),
            _recurrence,
            misfit=(normal(4, 3), normal(4, 2)),
        ),
        Sample(
            Recurrence,
            lambda factor, term: Recurrence(factor, term, axis=0, reverse=True),
            (normal(4, 3), normal(4, 3)),
            _recurrence_from_the_end,
            name="Recurrence-reverse",
        ),
        *(
            Sample(
                Recurrence,
                lambda factor, term, goes_on, reverse=reverse: Recurrence(
                    factor, term, goes_on, axis=0, reverse=reverse
                ),
                (normal(4, 3), normal(4, 3), _beginnings()),
                _recurrence_from_the_end if reverse else _recurrence,
                name=f"Recurrence-anew-{'reverse' if reverse else 'forward'}",
            )
            for reverse in (False, True)
        ),
        *(
            Sample(
                RunningArg,
                lambda x, greatest=greatest, axis=axis: RunningArg(x, axis, greatest),
                (values,),
                lambda x, greatest=greatest, axis=axis: _running_arg(x, axis, greatest),
                name=f"RunningArg-{'max' if greatest else 'min'}-{axis}",
                differentiable=False,
                empty=axis != 0,
            )
            for greatest in (True, False)
            for axis, values in (
                (0, distinct(6, 2)),
                (1, np.array([[2.0, 1.0, 2.0, 3.0, 3.0], [0.0, -1.0, 0.0, -1.0, 5.0]])),
            )
        ),
    ]

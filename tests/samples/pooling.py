"""Samples of pooling and resampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.samples.sample import Sample, distinct, normal
from wyrm.ops.pooling.pooling import MaxPool, MaxPoolGradient, MaxPoolTake
from wyrm.ops.pooling.resample import Resample, Taps, Weighting
from wyrm.ops.pooling.windows import Even, Sliding, Windows
from wyrm.ops.windows import Window


def _max_pool(x: Any, places: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the maxima, and their flat positions among the spatial axes, window by window."""
    shape = (*x.shape[:2], *map(len, places))
    values, positions = np.zeros(shape, x.dtype), np.zeros(shape, np.int64)
    for index in np.ndindex(*shape):
        taps = np.ix_(*(range(*each[i]) for each, i in zip(places, index[2:], strict=True)))
        window = x[index[:2]][taps]
        first = np.unravel_index(np.argmax(window), window.shape)
        values[index] = window[first]
        place = [range(*each[i])[k] for each, i, k in zip(places, index[2:], first, strict=True)]
        positions[index] = np.ravel_multi_index(place, x.shape[2:])
    return values, positions


def _taken(x: Any, values: Any, places: Any) -> NDArray[Any]:
    positions = _max_pool(x, places)[1]
    found: NDArray[Any] = np.zeros(positions.shape)
    for index in np.ndindex(*positions.shape):
        found[index] = values[index[:2]].ravel()[positions[index]]
    return found


def _placed(x: Any, gradient: Any, places: Any) -> NDArray[Any]:
    positions = _max_pool(x, places)[1]
    flat = np.zeros((*x.shape[:2], int(np.prod(x.shape[2:]))))
    for index in np.ndindex(*positions.shape):
        flat[(*index[:2], positions[index])] += gradient[index]
    return flat.reshape(x.shape)


_PAIR = Sliding(Window(2, 2))
# Sizes, and the windows along each axis with the places that they cover.
CASES: dict[str, tuple[tuple[int, ...], tuple[Windows, ...], Any]] = {
    "1d": ((7,), (Sliding(Window(3, 2)),), (((0, 3, 1), (2, 5, 1), (4, 7, 1)),)),
    "pairs": ((5, 6), (_PAIR, _PAIR), (((0, 2, 1), (2, 4, 1)), ((0, 2, 1), (2, 4, 1), (4, 6, 1)))),
    "pairs-rest": ((4, 5), (_PAIR, _PAIR), (((0, 2, 1), (2, 4, 1)), ((0, 2, 1), (2, 4, 1)))),
    "pairs-apart": ((4, 5), (Sliding(Window(2, 4)), _PAIR), (((0, 2, 1),), ((0, 2, 1), (2, 4, 1)))),
    "slices-apart": (
        (3, 2, 3), (Sliding(Window(1, 3)), _PAIR, _PAIR),
        (((0, 1, 1),), ((0, 2, 1),), ((0, 2, 1),)),
    ),
    "ceil": (
        (5, 4), (Sliding(Window(2, 2), True), Sliding(Window(3, 2, 1, 1), True)),
        (((0, 2, 1), (2, 4, 1), (4, 5, 1)), ((0, 2, 1), (1, 4, 1), (3, 4, 1))),
    ),
    "adaptive": (
        (5, 4), (Even(3), Even(3)),
        (((0, 2, 1), (1, 4, 1), (3, 5, 1)), ((0, 2, 1), (1, 3, 1), (2, 4, 1))),
    ),
    "dilated": (
        (5, 6), (Sliding(Window(3, 1, 1, 0, 2)), Sliding(Window(2, 2, dilation=3))),
        (((1, 4, 2), (0, 5, 2)), ((0, 4, 3), (2, 6, 3))),
    ),
    "3d": (
        (2, 4, 2), (Sliding(Window(1)), _PAIR, Even(1)),
        (((0, 1, 1), (1, 2, 1)), ((0, 2, 1), (2, 4, 1)), ((0, 2, 1),)),
    ),
}  # fmt: skip


def _samples(name: str, sizes: tuple[int, ...], windows: tuple[Windows, ...], places: Any) -> list[Sample]:
    shape, outputs = (2, 3, *sizes), (2, 3, *map(len, places))
    wrong = (2, 3, *sizes, 1)
    return [
        Sample(
            MaxPool,
            lambda x: MaxPool(x, windows=windows),
            (distinct(*shape),),
            lambda x: _max_pool(x, places)[0],
            name=f"MaxPool-{name}",
            misfit=(distinct(*wrong),),
        ),
        Sample(
            MaxPoolTake,
            lambda x, values: MaxPoolTake(x, values, windows=windows),
            (distinct(*shape), normal(*shape)),
            lambda x, values: _taken(x, values, places),
            name=f"MaxPoolTake-{name}",
            misfit=(distinct(*shape), normal(*wrong)),
        ),
        Sample(
            MaxPoolGradient,
            lambda x, gradient: MaxPoolGradient(x, gradient, windows=windows),
            (distinct(*shape), normal(*outputs)),
            lambda x, gradient: _placed(x, gradient, places),
            name=f"MaxPoolGradient-{name}",
            misfit=(distinct(*shape), normal(*wrong)),
        ),
    ]


_TAPS: Taps = ((0, (0.5, 0.5)), (1, (0.2, 0.3, 0.5)), (2, (1.5,)), (1, ()), (0, (1.0, 2.0, 3.0, 4.0)))


@dataclass(frozen=True)
class _Fixed(Weighting):
    """The same taps for every size."""

    each: Taps

    def taps(self, old: int, new: int) -> Taps:
        return self.each


def _resampled(x: NDArray[Any], axis: int) -> NDArray[Any]:
    matrix = np.zeros((len(_TAPS), x.shape[axis]))
    for i, (first, weights) in enumerate(_TAPS):
        matrix[i, first : first + len(weights)] = weights
    return np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)


def _resampling(axis: int, shape: tuple[int, ...]) -> Sample:
    build: Callable[..., Any] = lambda x: Resample(x, axis=axis, by=_Fixed(_TAPS), to=len(_TAPS))  # noqa: E731
    misfit = (normal(*shape[:axis], 3, *shape[axis + 1 :]),)
    return Sample(
        Resample, build, (normal(*shape),), lambda x: _resampled(x, axis), name=f"Resample-{axis}",
        empty=axis > 0, misfit=misfit,
    )  # fmt: skip


def samples() -> list[Sample]:
    pools = [sample for name, case in CASES.items() for sample in _samples(name, *case)]
    return [*pools, _resampling(0, (4, 3)), _resampling(1, (2, 4, 3)), _resampling(2, (3, 2, 4))]

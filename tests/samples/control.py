"""Samples of loops inside the graph; the expected values come from Python loops over NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import wyrm as wy
from tests.samples.sample import Sample, normal
from wyrm.ops.adjoints.op import ResultsPart
from wyrm.ops.control.digits import FromDigits, ToDigits
from wyrm.ops.control.loop_body import PackedPlace
from wyrm.ops.control.scan import PlacePart, Scan, ScanPart


def _recurrent(where: str, **options: Any) -> Callable[..., Any]:
    def build(start: Any, xs: Any, weight: Any) -> Any:
        def step(h: Any, x: Any) -> tuple[Any, Any]:
            h = (h @ weight + x).tanh()
            return h, h * x

        last, stacked = wy.scan(step, start, xs, **options)
        return last if where == "last" else stacked

    return build


def _expected(where: str, reverse: bool = False) -> Callable[..., Any]:
    def expected(start: Any, xs: Any, weight: Any) -> NDArray[Any]:
        h, stacked = start, np.zeros_like(xs)
        for t in range(len(xs))[:: -1 if reverse else 1]:
            h = np.tanh(h @ weight + xs[t])
            stacked[t] = h * xs[t]
        result: NDArray[Any] = h if where == "last" else stacked
        return result

    return expected


def _doubled(x: Any) -> Any:
    while (x * x).sum() < 50.0:
        x = x * 1.5
    return x


_LARGE = np.array([[0, 1, -1], [2**62 + 3, -(2**63), 2**44 - 1]])


def _digits(x: Any) -> Any:
    return np.stack([x % 2**22, x // 2**22 % 2**22, x // 2**44], axis=-1).astype(np.float64)


def _digit_samples() -> list[Sample]:
    return [
        Sample(
            ToDigits,
            lambda x, like: ToDigits(x, like.dtype),
            (_LARGE, normal(2)),
            lambda x, like: _digits(x),
            differentiable=False,
        ),
        Sample(
            FromDigits,
            FromDigits,
            (_digits(_LARGE),),
            lambda x: x.astype(np.int64) @ np.array([1, 2**22, 2**44]),
            differentiable=False,
        ),
    ]


def samples() -> list[Sample]:
    """Return samples of loops with a fixed number of steps, of loops that stop, and of parts of residuals."""
    operands = (normal(3), normal(5, 3), 0.5 * normal(3, 3))
    loops = [
        Sample(
            Scan,
            _recurrent(where, reverse=reverse),
            operands,
            _expected(where, reverse),
            name=f"Scan-{where}{'-reverse' if reverse else ''}",
            empty=False,
            misfit=(operands[0], normal(5, 2, 3), operands[2]),  # the first step would return another shape
        )
        for where in ("last", "stacked")
        for reverse in (False, True)
    ]
    return [
        *loops,
        *_digit_samples(),
        Sample(
            Scan,
            lambda x: wy.while_loop(lambda x: (x * x).sum() < 50.0, lambda x: x * 1.5, x, max_steps=9),
            (normal(3),),
            _doubled,
            name="Scan-stops",
            empty=False,
        ),
        Sample(
            ScanPart,
            lambda residuals: ScanPart(residuals, PackedPlace([(2,)]), (3, 2)),
            (normal(10),),
            lambda residuals: residuals[2:8].reshape(3, 2),
            empty=False,
            misfit=(normal(7),),
        ),
        Sample(
            ResultsPart,
            lambda residuals: ResultsPart(residuals, PackedPlace([(2,)]), (3, 2)),
            (normal(10),),
            lambda residuals: residuals[2:8].reshape(3, 2),
            empty=False,
            misfit=(normal(7),),
        ),
        Sample(
            PlacePart,
            lambda part: PlacePart(part, PackedPlace([(2,)]), 10),
            (normal(3, 2),),
            lambda part: np.concatenate([np.zeros(2), part.reshape(-1), np.zeros(2)]),
            empty=False,
            misfit=(normal(3, 3),),
        ),
    ]

"""The work of functions is counted exactly where it depends on sizes alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.translate import Translation
from wyrm.engines.native.llvm.calling import kind_of_argument
from wyrm.profile.work import Work, work_of


def counted(function: Callable[..., Any], *arguments: Any) -> Work:
    translation, kinds = Translation(checked=False), tuple(map(kind_of_argument, arguments))
    name = translation.specialized(KernelFunction(function), kinds).function.name
    return work_of(translation.program(name), (), kinds, arguments)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.ones(shape, dtype)


def scaled_sum(x: Any, y: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        out[i] = 2.0 * x[i] + y[i]


def triangle(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        for j in range(i + 1):
            out[i] += x[j]


def flushed_every_third(x: Any, out: Any) -> None:
    count = 0
    for i in range(x.shape[0]):
        out[0] += x[i]
        count += 1
        if count == 3:
            count = 0
            out[1] = out[0] * 0.5


def first_until(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        if i == 5:
            break
        out[i] = x[i] * x[i]


def rows_of_table(table: Any, indices: Any, out: Any) -> None:
    for i in range(indices.shape[0]):
        for j in range(table.shape[1]):
            out[i, j] = table[indices[i], j]


def depends_on_data(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        if x[i] > 0.0:
            out[i] = x[i] * 2.0 + 1.0
        else:
            out[i] = 0.0


def halving(x: Any, out: Any) -> None:
    n = x.shape[0]
    while n > 1:
        n = n // 2
        for i in range(n):
            out[i] = x[i] + x[n + i]


def square(x: float) -> float:
    return x * x


def calls_another(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        out[i] = square(x[i]) + square(2.0)


@pytest.mark.parametrize(
    ("function", "arguments", "flops", "read", "written"),
    [
        (scaled_sum, (array(100), array(100), array(100)), 200, 800, 400),
        (scaled_sum, (array(0), array(0), array(0)), 0, 0, 0),
        (triangle, (array(7), array(7)), 28, 28 + 28, 28),
        (flushed_every_third, (array(10), array(2)), 10 + 3, 40 + 8, 8),
        (first_until, (array(9, dtype="float64"), array(9, dtype="float64")), 5, 9 * 8, 5 * 8),
        (rows_of_table, (array(1000, 4), np.zeros(10, np.int64), array(10, 4)), 0, 160 + 80, 160),
        (halving, (array(8), array(8)), 4 + 2 + 1, 32, 28),
        (calls_another, (array(5), array(5)), 15, 20, 20),
    ],
)
def test_work_is_exact(
    function: Callable[..., Any], arguments: Sequence[Any], flops: float, read: float, written: float
) -> None:
    found = counted(function, *arguments)
    assert (found.flops, found.bytes_written, found.exact) == (flops, written, True)
    assert found.bytes_read == read


def test_work_that_depends_on_data_is_that_of_the_larger_branch() -> None:
    found = counted(depends_on_data, array(10), array(10))
    assert (found.flops, found.bytes_written, found.exact) == (20, 40, False)


def test_long_loops_are_estimated_from_their_first_iterations() -> None:
    found = counted(triangle, array(3000), array(3000))
    assert found.flops > 0 and found.bytes_read <= 2 * 12000
    periodic = counted(flushed_every_third, array(300_000), array(2))
    assert not periodic.exact and periodic.flops == pytest.approx(400_000, rel=1e-3)


def test_float64_is_told_from_float32() -> None:
    assert counted(scaled_sum, *[array(3, dtype="float64")] * 3).bits == 64
    assert counted(scaled_sum, *[array(3)] * 3).bits == 32

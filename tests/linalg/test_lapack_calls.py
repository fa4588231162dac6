"""Calls of LAPACK in kernels, and the threads of its library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.values import NotCompiled
from wyrm.engines.native.llvm.library import CompiledFunction
from wyrm.ops.kernels.native import NO_SOLUTION, lapack, refuse


def factorize(x: Any, info: Any) -> int:
    lapack("potrf", "L", x.shape[0], x, x.shape[0], info)
    if info[0] > 0:
        refuse()
    return int(info[0])


def of_an_unknown_name(x: Any) -> None:
    lapack("getri", x)


def of_two_types(x: Any, y: Any) -> None:
    lapack("potrf", "L", 1, x, 1, y)


def of_a_view(x: Any, info: Any) -> None:
    lapack("potrf", "L", 1, x[:, 0], 1, info)


def _compiled(function: Any) -> CompiledFunction:
    return CompiledFunction(KernelFunction(function))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_call(dtype: Any) -> None:
    x = np.array([[4.0, 2.0], [2.0, 5.0]], dtype)
    assert _compiled(factorize)(x, np.zeros(1, np.int32)) == 0
    np.testing.assert_array_equal(x, np.array([[2.0, 1.0], [2.0, 2.0]], dtype))


def test_an_error_code() -> None:
    with pytest.raises(IndexError, match=NO_SOLUTION):
        _compiled(factorize)(-np.eye(2), np.zeros(1, np.int32))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (of_an_unknown_name, (np.eye(2),)),
        (of_two_types, (np.eye(2), np.eye(2, dtype=np.float32))),
        (of_a_view, (np.eye(2), np.zeros(1, np.int32))),
    ],
)
def test_wrong_calls_are_refused(function: Any, arguments: Any) -> None:
    with pytest.raises(NotCompiled, match=r"lapack takes|an argument is not"):
        _compiled(function)(*arguments)

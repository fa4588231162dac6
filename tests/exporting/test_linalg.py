"""Exported decompositions equal those of LAPACK, but for the signs of vectors and the order of general eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.loaded import check_predictions, loaded
from wyrm.errors import LinAlgError

RANDOM = np.random.default_rng(0)
SQUARE, WIDE = RANDOM.normal(size=(2, 5, 5)), RANDOM.normal(size=(3, 6))
REAL = np.linalg.solve(SQUARE[0], np.diag([3.0, -2.0, 1.0, 0.5, -4.0]) @ SQUARE[0])
SYMMETRIC = SQUARE + SQUARE.swapaxes(-1, -2)


def _eigh(a: Any) -> list[Any]:
    values, vectors = wy.linalg.eigh(a)
    return [values, vectors.square()]


def _svd(a: Any) -> list[Any]:
    left, values, right = wy.linalg.svd(a, full_matrices=False)
    return [left.square(), values, right.square()]


def _eig(a: Any) -> list[Any]:
    values, vectors = wy.linalg.eig(a)
    return [vectors.square() @ values.cos()]


CASES: dict[str, tuple[Callable[[Any], list[Any]], np.ndarray]] = {
    "symmetric": (_eigh, SYMMETRIC),
    "general": (_eig, REAL),
    "singular_tall": (_svd, WIDE.T.copy()),
    "singular_wide": (_svd, WIDE),
    "singular_square": (_svd, SQUARE),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_and_gradients_equal_native_ones(dtype: Any) -> None:
    """One program for all cases, which share compiled routines."""
    nodes: list[Any] = []
    names: list[str] = []
    for name, (decompose, array) in CASES.items():
        a = wy.Parameter(array.astype(dtype), name=name)
        outputs = decompose(a)
        weights = [np.cos(np.arange(each.forward().size)).reshape(each.shape).astype(dtype) for each in outputs]
        total: Any = sum((each * weight).sum() for each, weight in zip(outputs, weights, strict=True))
        nodes += [*outputs, wy.grad(total, a)]
        names += [*(f"{name}, output {i}" for i in range(len(outputs))), f"{name}, gradient"]
    program: Any = wy.compile(nodes)
    tolerance = 1e-10 if dtype == np.float64 else 2e-4
    check_predictions(loaded(predict=program), program, names, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("decompose", "array"),
    [
        (lambda a: wy.linalg.cholesky(a), -np.eye(3)),
        (lambda a: wy.linalg.solve(a, a), np.ones((3, 3))),
        (lambda a: wy.linalg.eig(a)[0], np.array([[0.0, 1.0], [-1.0, 0.0]])),
    ],
    ids=["not positive definite", "singular", "complex eigenvalues"],
)
def test_a_matrix_without_a_solution_ends_with_a_code(decompose: Callable[[Any], Any], array: np.ndarray) -> None:
    a = wy.Parameter(array, name="a")
    program: Any = wy.compile(decompose(a))
    with pytest.raises(LinAlgError):
        program()
    export = loaded(predict=program)
    assert export.start() == 0
    code, _ = export.call("predict")
    assert code != 0

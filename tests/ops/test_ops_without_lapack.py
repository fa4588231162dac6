"""The factorizations for programs without LAPACK: as Python functions, on matrices that are hard for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wyrm.ops.kernels.eigenvalues import geev, gesdd, getrf, potrf, syevd

HARD = {
    "ones": np.ones((5, 5)),
    "zeros": np.zeros((3, 3)),
    "identity": np.eye(4),
    "of rank 2": np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 0]]),
    "graded": np.diag([1e150, 1.0, 1e-150]),
    "tall, of rank 1": np.outer(np.arange(6.0), np.arange(3.0)),
    "wide, of rank 1": np.outer(np.arange(3.0), np.arange(6.0)),
    "one row": np.arange(4.0)[None],
    "one number": np.array([[-2.0]]),
    "random": np.random.default_rng(0).normal(size=(12, 12)),
}
FLOATS = [np.float32, np.float64]


def _info() -> Any:
    return np.full(1, -1, np.int32)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", HARD)
def test_singular_values(name: str, dtype: Any) -> None:
    if name == "graded" and dtype == np.float32:
        pytest.skip("the matrix is not in the range of float32")
    a = HARD[name].astype(dtype)
    rows, columns = a.shape
    count, info, work = min(a.shape), _info(), np.empty(0, dtype)
    values, left, right = np.empty(count, dtype), np.empty((count, rows), dtype), np.empty((columns, count), dtype)
    gesdd(83, rows, columns, a.T.copy(), rows, values, left, rows, right, count, work, 0, np.empty(0, np.int32), info)
    assert info[0] == 0
    precision = 100 * np.finfo(dtype).eps
    largest = max(1.0, float(abs(a).max()))
    assert (np.diff(values) <= 0.0).all()
    np.testing.assert_allclose(values / largest, np.linalg.svd(a.astype(float))[1] / largest, atol=precision)
    np.testing.assert_allclose((left.T * values) @ right.T / largest, a / largest, atol=precision)
    for vectors in (left, right.T):
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(count), atol=precision)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [name for name, a in HARD.items() if a.shape[0] == a.shape[1]])
def test_eigenvalues_of_symmetric_matrices(name: str, dtype: Any) -> None:
    if name == "graded" and dtype == np.float32:
        pytest.skip("the matrix is not in the range of float32")
    a = (HARD[name] + HARD[name].T).astype(dtype)
    size, info, integers = len(a), _info(), np.empty(0, np.int32)
    vectors, values, work = a.copy(), np.empty(size, dtype), np.empty(1 + 6 * size + 2 * size * size, dtype)
    syevd(86, 76, size, vectors, size, values, work, work.size, integers, 0, info)
    assert info[0] == 0
    precision = 200 * np.finfo(dtype).eps
    largest = max(1.0, float(abs(a).max()))
    assert (np.diff(values) >= 0.0).all()
    np.testing.assert_allclose((vectors.T * values) @ vectors / largest, a / largest, atol=precision)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(size), atol=precision)


GENERAL = {
    "triangular": np.triu(np.random.default_rng(1).normal(size=(8, 8))),
    "of real eigenvalues": HARD["random"] @ np.diag(np.arange(12.0)) @ np.linalg.inv(HARD["random"]),
    "zero shifts": np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]]),
    "zeros": np.zeros((3, 3)),
    "identity": np.eye(3),
    "one number": np.array([[-2.0]]),
}


@pytest.mark.parametrize("name", GENERAL)
def test_eigenvalues_of_general_matrices(name: str) -> None:
    a = GENERAL[name]
    size, info, work = len(a), _info(), np.empty(34 * len(a) + 1)
    values, imaginary, vectors = np.empty(size), np.empty(size), np.empty((size, size))
    geev(78, 86, size, a.T.copy(), size, values, imaginary, vectors, size, vectors, size, work, work.size, info)
    assert info[0] == 0 and not imaginary.any()
    np.testing.assert_allclose(a @ vectors.T, vectors.T * values, atol=1e-11)
    np.testing.assert_allclose(np.sort(values), np.sort(np.linalg.eigvals(a).real), atol=1e-11)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_complex_eigenvalues_are_told(seed: int) -> None:
    size = 6
    a, info, work = np.random.default_rng(seed).normal(size=(size, size)), _info(), np.empty(34 * size + 1)
    values, imaginary, vectors = np.empty(size), np.empty(size), np.empty((size, size))
    geev(78, 86, size, a.T.copy(), size, values, imaginary, vectors, size, vectors, size, work, work.size, info)
    assert info[0] == 0
    assert np.count_nonzero(imaginary) == np.count_nonzero(np.linalg.eigvals(a).imag)


def test_what_has_no_factorization_is_told() -> None:
    info, pivots = _info(), np.empty(3, np.int32)
    potrf(85, 3, np.diag([1.0, -1.0, 1.0]), 3, info)
    assert info[0] == 2
    getrf(3, 3, np.ones((3, 3)), 3, pivots, info)
    assert info[0] == 2
    assert sorted(pivots - 1) != [0, 0, 0]

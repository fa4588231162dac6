"""QR, eigenvalues and singular values from elementary operations of JAX are those of LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest

from tests.each import check_each
from wyrm.ops.linalg import jacobi_jax

SHAPES = [(1, 1), (3, 3), (5, 3), (3, 5), (24, 24), (1, 4), (4, 1)]
# Shapes, and whether all columns of the square factors are wanted.
FACTORIZATIONS = list(product(SHAPES, [False, True]))
SIZES = [1, 2, 3, 24]


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request: Any) -> Any:
    with jax.enable_x64(True):
        yield request.param


def tolerance(dtype: Any) -> float:
    return 1e-4 if dtype == np.float32 else 1e-12


def factored(
    function: Callable[[Any, bool], Any], array: Callable[[tuple[int, int]], Any]
) -> dict[tuple[tuple[int, int], bool], list[Any]]:
    """Return the factors of the arrays of all cases; one function compiles in less time than each case by itself."""

    def all_factors(arrays: list[Any]) -> list[Any]:
        return [function(a, full) for a, (_, full) in zip(arrays, FACTORIZATIONS, strict=True)]

    found = jax.jit(all_factors)([array(shape) for shape, _ in FACTORIZATIONS])
    return {case: [np.asarray(x) for x in each] for case, each in zip(FACTORIZATIONS, found, strict=True)}


def test_qr_has_the_signs_of_lapack(dtype: Any) -> None:
    def array(shape: tuple[int, int]) -> Any:
        a = np.random.default_rng(0).normal(size=(2, *shape)).astype(dtype)
        a[1, :, 0] = 0.0  # a column without a reflection
        return a

    def check(case: tuple[tuple[int, int], bool]) -> None:
        (shape, full), (q, r) = case, found[case]
        a = array(shape)
        wanted = np.linalg.qr(a, "complete" if full else "reduced")
        assert q.dtype == r.dtype == dtype
        np.testing.assert_allclose(q @ r, a, atol=tolerance(dtype))
        np.testing.assert_allclose(r[0], wanted.R[0], atol=tolerance(dtype))
        np.testing.assert_allclose(q[0], wanted.Q[0], atol=tolerance(dtype))

    found = factored(jacobi_jax.qr, array)
    check_each(FACTORIZATIONS, check)


def test_singular_values_and_their_vectors(dtype: Any) -> None:
    def array(shape: tuple[int, int]) -> Any:
        a = 1e3 * np.random.default_rng(1).normal(size=(3, *shape)).astype(dtype)
        a[1] = 0.0
        a[2] = a[2, :1, :1]  # of rank 1
        return a

    def check(case: tuple[tuple[int, int], bool]) -> None:
        (shape, full), (values, left, right) = case, found[case]
        a, size = array(shape), 1e3 * tolerance(dtype)
        wanted = np.linalg.svd(a, full_matrices=full)
        assert left.shape == wanted.U.shape and right.shape == wanted.Vh.shape and values.dtype == dtype
        np.testing.assert_allclose(values, wanted.S, atol=size)
        k = min(shape)
        np.testing.assert_allclose((left[..., :k] * values[:, None]) @ right[:, :k], a, atol=size)
        for vectors in (left.swapaxes(-1, -2) @ left, right @ right.swapaxes(-1, -2)):
            np.testing.assert_allclose(vectors, np.broadcast_to(np.eye(vectors.shape[-1]), vectors.shape), atol=1e-5)

    found = factored(jacobi_jax.svd, array)
    check_each(FACTORIZATIONS, check)


def test_eigenvalues_of_symmetric_matrices(dtype: Any) -> None:
    def array(size: int) -> Any:
        a = np.random.default_rng(2).normal(size=(2, size, size)).astype(dtype)
        a = a + a.swapaxes(-1, -2)
        a[1] = np.eye(size)
        return a

    def check(size: int) -> None:
        a, (vectors, values) = array(size), found[size]
        np.testing.assert_allclose(values, np.linalg.eigvalsh(a), atol=tolerance(dtype))
        np.testing.assert_allclose(a @ vectors, vectors * values[:, None], atol=tolerance(dtype))

    results = jax.jit(lambda arrays: [jacobi_jax.eigh(a) for a in arrays])([array(size) for size in SIZES])
    found = {size: [np.asarray(x) for x in pair] for size, pair in zip(SIZES, results, strict=True)}
    check_each(SIZES, check)

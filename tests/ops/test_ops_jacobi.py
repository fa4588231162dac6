"""QR, eigenvalues and singular values from elementary operations of JAX are those of LAPACK."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from wyrm.ops.linalg import jacobi_jax

SHAPES = [(1, 1), (3, 3), (5, 3), (3, 5), (24, 24), (1, 4), (4, 1)]


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request: Any) -> Any:
    with jax.enable_x64(True):
        yield request.param


def tolerance(dtype: Any) -> float:
    return 1e-4 if dtype == np.float32 else 1e-12


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr_has_the_signs_of_lapack(shape: tuple[int, int], full: bool, dtype: Any) -> None:
    a = np.random.default_rng(0).normal(size=(2, *shape)).astype(dtype)
    a[1, :, 0] = 0.0  # a column without a reflection
    q, r = jacobi_jax.qr(jax.numpy.asarray(a), full)
    wanted = np.linalg.qr(a, "complete" if full else "reduced")
    assert q.dtype == r.dtype == dtype
    np.testing.assert_allclose(q @ r, a, atol=tolerance(dtype))
    np.testing.assert_allclose(r[0], wanted.R[0], atol=tolerance(dtype))
    np.testing.assert_allclose(q[0], wanted.Q[0], atol=tolerance(dtype))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_values_and_their_vectors(shape: tuple[int, int], full: bool, dtype: Any) -> None:
    a = 1e3 * np.random.default_rng(1).normal(size=(3, *shape)).astype(dtype)
    a[1] = 0.0
    a[2] = a[2, :1, :1]  # of rank 1
    values, left, right = jacobi_jax.svd(jax.numpy.asarray(a), full)
    size = 1e3 * tolerance(dtype)
    wanted = np.linalg.svd(a, full_matrices=full)
    assert left.shape == wanted.U.shape and right.shape == wanted.Vh.shape and values.dtype == dtype
    np.testing.assert_allclose(values, wanted.S, atol=size)
    k = min(shape)
    np.testing.assert_allclose((left[..., :k] * values[:, None]) @ right[:, :k], a, atol=size)
    for vectors in (left.mT @ left, right @ right.mT):
        np.testing.assert_allclose(vectors, np.broadcast_to(np.eye(vectors.shape[-1]), vectors.shape), atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 24])
def test_eigenvalues_of_symmetric_matrices(size: int, dtype: Any) -> None:
    a = np.random.default_rng(2).normal(size=(2, size, size)).astype(dtype)
    a = a + a.swapaxes(-1, -2)
    a[1] = np.eye(size)
    vectors, values = jacobi_jax.eigh(jax.numpy.asarray(a))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), atol=tolerance(dtype))
    np.testing.assert_allclose(a @ np.asarray(vectors), vectors * values[:, None], atol=tolerance(dtype))

"""Derivatives of determinants at matrices of every rank, in all engines, against minors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wyrm as wy
from tests.samples.sample import normal
from wyrm.errors import LinAlgError

ENGINES = ("reference", "native", "jax")


def of_rank(size: int, rank: int) -> NDArray[np.float64]:
    """Return a square matrix of this rank; whole numbers, so that the factors of most have exact zeros."""
    random = np.random.default_rng(10 * size + rank)
    product = random.integers(-2, 3, (size, rank)) @ random.integers(-2, 3, (rank, size))
    regular: NDArray[np.float64] = np.asarray(product + 4 * np.eye(size, dtype=int) * (rank == size), np.float64)
    return regular


def minor(a: NDArray[Any], rows: tuple[int, ...], columns: tuple[int, ...]) -> float:
    """Return the determinant without these rows and columns."""
    return float(np.linalg.det(np.delete(np.delete(a, rows, 0), columns, 1)))


def cofactors(a: NDArray[Any]) -> NDArray[np.float64]:
    size = len(a)
    return np.array([[(-1.0) ** (i + j) * minor(a, (i,), (j,)) for j in range(size)] for i in range(size)])


def along(a: NDArray[Any], direction: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sum of a direction times the second derivatives of the determinant: signed minors without two rows."""
    size, result = len(a), np.zeros_like(a)
    for (i, k), (j, m) in itertools.product(itertools.permutations(range(size), 2), repeat=2):
        sign = (-1.0) ** (i + j + k + m) * (1.0 if (k > i) == (m > j) else -1.0)
        result[i, j] += sign * minor(a, (i, k), (j, m)) * direction[k, m]
    return result


def run(engine: Any, nodes: list[Any]) -> Any:
    return wy.run(nodes) if engine == "reference" else wy.compile(nodes, engine=engine)()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_first_and_second_derivatives_at_matrices_of_every_rank(size: int) -> None:
    """A batch of ranks: the derivative is the matrix of cofactors, 0 below rank n - 1, and the second one minors."""
    matrices = np.stack([of_rank(size, rank) for rank in range(size + 1)])
    direction = np.random.default_rng(0).standard_normal(matrices.shape)
    a, d = wy.Constant(matrices), wy.Constant(direction)
    value: Any = wy.linalg.det(a)
    slope: Any = wy.grad(value.sum(), a)
    second: Any = wy.grad((slope * d).sum(), a)
    expected = [
        np.linalg.det(matrices), np.stack([cofactors(each) for each in matrices]),
        np.stack([along(*each) for each in zip(matrices, direction, strict=True)]),
    ]  # fmt: skip
    for engine in ENGINES[: 2 + (size == 3)]:
        for found, want in zip(run(engine, [value, slope, second]), expected, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-10 * 4.0**size, err_msg=engine)


def test_a_matrix_of_one_precision_and_one_that_is_singular_but_for_rounding() -> None:
    a = wy.Constant(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], np.float32))
    slope: Any = wy.grad(wy.linalg.det(a), a)
    second: Any = wy.grad((slope * slope).sum(), a)
    expected = [cofactors(a.value), 2.0 * along(a.value.astype(np.float64), cofactors(a.value))]
    for engine in ENGINES[:2]:
        for found, want in zip(run(engine, [slope, second]), expected, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_determinants_out_of_range_have_cofactors_in_range(scale: float) -> None:
    a = wy.Constant(np.diag([scale, scale]))
    slope = wy.grad(wy.linalg.det(a), a)
    for engine in ENGINES:
        np.testing.assert_allclose(run(engine, [slope])[0], np.eye(2) * scale, rtol=1e-12)


def test_a_third_derivative_of_regular_matrices_and_its_error_for_singular_ones() -> None:
    """The third derivative of the determinant along d is 6 det(d) for matrices of three rows."""
    direction = normal(3, 3)
    for matrix in (np.eye(3), normal(3, 3) + 2.0 * np.eye(3), of_rank(3, 2)):
        a: Any = wy.Constant(matrix)
        d: Any = wy.Constant(direction)
        value: Any = wy.linalg.det(a)
        for _ in range(3):
            value = (wy.grad(value, a) * d).sum()
        for engine in ENGINES[:2]:
            if np.linalg.matrix_rank(matrix) < 3:
                with pytest.raises(LinAlgError, match="singular"):
                    run(engine, [value])
            else:
                np.testing.assert_allclose(run(engine, [value])[0], 6.0 * np.linalg.det(direction), rtol=1e-9)


def test_the_logarithm_of_a_singular_determinant_has_no_gradient_and_says_so() -> None:
    a = wy.Constant(np.stack([np.eye(2), [[1.0, 2.0], [2.0, 4.0]]]), name="a")
    sign, logarithm = wy.linalg.slogdet(a)
    slope = wy.grad(logarithm.sum(), a)
    for engine in ENGINES[:2]:
        assert [each.tolist() for each in run(engine, [sign, logarithm])] == [[1.0, 0.0], [0.0, -np.inf]]
        with pytest.raises(LinAlgError, match=r"slogdet.*matrix 1 of the batch is singular: the logarithm"):
            run(engine, [slope])
    assert np.isnan(run("jax", [slope])[0][1]).all()


def test_a_matrix_with_a_nan_has_a_gradient_of_nan() -> None:
    a = wy.Constant(np.stack([np.eye(2), np.full((2, 2), np.nan)]))
    slope = wy.grad(wy.linalg.det(a).sum(), a)
    for engine in ENGINES:
        found = run(engine, [slope])[0]
        assert (found[0] == np.eye(2)).all() and np.isnan(found[1]).all()


def test_rows_of_vmap_and_steps_of_a_scan() -> None:
    matrices = np.stack([of_rank(3, 2), of_rank(3, 3)])
    found = wy.vmap(wy.function(wy.linalg.det).grad())(matrices)
    np.testing.assert_allclose(found, np.stack([cofactors(each) for each in matrices]), atol=1e-10)
    a: Any = wy.Parameter(of_rank(3, 2))
    total, _ = wy.scan(lambda t, _: (t + wy.linalg.det(a), None), wy.Constant(np.zeros(())), length=2)
    slope: Any = wy.grad(total, a)
    for engine in ENGINES[:2]:
        np.testing.assert_allclose(run(engine, [slope])[0], 2.0 * cofactors(a.value), atol=1e-10)

"""Least squares for matrices of every rank, in all engines: NumPy's solution, and its gradient where the rank stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wyrm as wy
from tests.samples.sample import normal
from wyrm.errors import LinAlgError, OptionError

ENGINES = ("reference", "native", "jax")


def low(rows: int, columns: int, rank: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the factors of a matrix of this rank."""
    random = np.random.default_rng(seed)
    return random.standard_normal((rows, rank)), random.standard_normal((rank, columns))


def run(engine: Any, nodes: list[Any]) -> Any:
    return wy.run(nodes) if engine == "reference" else wy.compile(nodes, engine=engine)()


@pytest.mark.parametrize(("rows", "columns", "rank"), [(3, 3, 1), (5, 3, 2), (3, 5, 2), (4, 4, 4), (2, 3, 0)])
def test_values_and_derivatives_for_every_rank(rows: int, columns: int, rank: int) -> None:
    """The matrix is a product of two factors, so that a change of one keeps the rank; slopes against differences."""
    left, right = low(rows, columns, rank)
    b = normal(rows, 2)
    leaves: list[Any] = [wy.Parameter(left), wy.Parameter(right), wy.Parameter(b)]
    weights = normal(columns, 2)

    def loss(u: Any, v: Any, b: Any) -> Any:
        return (wy.linalg.lstsq(u @ v, b).x * weights).sum()

    a = leaves[0] @ leaves[1]
    found = wy.linalg.lstsq(a, leaves[2])
    slopes: Any = wy.grad(loss(*leaves), leaves)
    directions = [normal(*leaf.shape) for leaf in leaves]
    total: Any = sum(((s * d).sum() for s, d in zip(slopes, directions, strict=True)), wy.Constant(np.zeros(())))
    second: Any = wy.grad(total, leaves, allow_unused=True)
    x, _, expected_rank, values = np.linalg.lstsq(left @ right, b)
    ends = np.array([1.0, -1.0]) * 1e-6
    differences = []
    for position in range(3):
        moved = [[each + step * d * (i == position) for i, (each, d) in enumerate(
            zip((left, right, b), directions, strict=True))] for step in ends]  # fmt: skip
        at = [(np.linalg.pinv(u @ v, 1e-9) @ c * weights).sum() for u, v, c in moved]
        differences.append((at[0] - at[1]) / 2e-6)
    engines = ENGINES[: 2 + (rows == 5)]
    reference = run("reference", second)
    for engine in engines:
        solution, rank_found, singular, *firsts = run(engine, [found.x, found.rank, found.singular_values, *slopes])
        np.testing.assert_allclose(solution, x, rtol=1e-9, atol=1e-11)
        assert rank_found == expected_rank == rank
        np.testing.assert_allclose(singular, values, rtol=1e-9, atol=1e-12)
        along = [(one * d).sum() for one, d in zip(firsts, directions, strict=True)]
        np.testing.assert_allclose(along, differences, rtol=1e-6, atol=1e-7)
        for one, other in zip(run(engine, second), reference, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8)


def test_second_derivatives_are_differences_of_first_ones() -> None:
    left, right = low(4, 3, 2)
    u, direction = wy.Parameter(left), normal(4, 2)

    def slope() -> Any:
        x = wy.linalg.lstsq(u @ wy.Constant(right), wy.Constant(np.arange(4.0))).x
        return wy.grad(x.square().sum(), u)

    found = wy.grad((slope() * direction).sum(), u).forward()
    ends = []
    for step in (1e-6, -1e-6):
        u.set(left + step * direction)
        ends.append(slope().forward())
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-6)


def test_a_vector_a_batch_and_rcond() -> None:
    a = np.stack([np.diag([1.0, 1e-3, 0.0]), np.eye(3)])
    b = np.array([1.0, 1.0, 1.0])
    cases: Any = ((None, [2, 3], [1.0, 1e3, 0.0]), (0.01, [1, 3], [1.0, 0.0, 0.0]))
    for rcond, ranks, first in cases:
        found = wy.linalg.lstsq(wy.Constant(a), b, rcond=rcond)
        for engine in ENGINES[:2]:
            x, rank = run(engine, [found.x, found.rank])
            assert rank.tolist() == ranks
            np.testing.assert_allclose(x, [first, b], rtol=1e-12)
    assert np.linalg.lstsq(wy.Constant(a[0]), b, 0.01).rank.forward() == 1  # type: ignore[call-overload]  # a node
    with pytest.raises(OptionError, match="lstsq: rcond must be at least 0, not -1"):
        wy.linalg.lstsq(wy.Constant(a), b, rcond=-1.0)


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_a_nan_is_an_error(engine: str) -> None:
    a: Any = wy.Input(np.full((2, 2), np.nan), finite=False)
    with pytest.raises(LinAlgError, match="holds a NaN"):
        run(engine, [wy.linalg.lstsq(a, np.ones(2)).x])

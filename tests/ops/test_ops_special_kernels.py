"""The kernels of special functions against SciPy, in units in the last place, and against exact values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from wyrm.ops.elementwise import special_kernels as kernels

RANDOM = np.random.default_rng(0)
LARGE = 10.0 ** RANDOM.uniform(-6, 10, 100)
ULP = 2.0**-52


def _values(kernel: Callable[..., Any], *operands: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.array([float(kernel(*map(np.float64, row))) for row in zip(*operands, strict=True)])


def _errors(found: Any, expected: Any) -> Any:
    return np.abs(found - expected) / (np.abs(expected) * ULP)


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("digamma", np.concatenate([RANDOM.uniform(0.01, 30, 100), LARGE])),
        ("ndtri", np.concatenate([RANDOM.uniform(0, 1, 100), 10.0 ** RANDOM.uniform(-300, -1, 50)])),
        ("erfinv", np.concatenate([RANDOM.uniform(-1, 1, 100), 1.0 - 10.0 ** RANDOM.uniform(-15, -1, 50)])),
        ("i0", RANDOM.uniform(-60, 60, 100)),
        ("i0e", RANDOM.uniform(-300, 300, 100)),
        ("i1", RANDOM.uniform(-60, 60, 100)),
        ("i1e", RANDOM.uniform(-300, 300, 100)),
    ],
)
def test_functions_of_one_number(name: str, x: Any) -> None:
    assert _errors(_values(getattr(kernels, name), x), getattr(special, name)(x)).max() < 25


@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e"])
def test_bessel_functions_of_huge_numbers(name: str) -> None:
    x = np.array([1e308, -1e308])
    np.testing.assert_allclose(_values(getattr(kernels, name), x), getattr(special, name)(x), rtol=1e-14)


@pytest.mark.parametrize("s", [1.5, 2.0, 3.0, 7.0, 20.0])
def test_zeta(s: float) -> None:
    x = np.concatenate([RANDOM.uniform(0.01, 30, 50), LARGE])
    assert _errors(_values(kernels.zeta, np.full_like(x, s), x), special.zeta(s, x)).max() < 25
    if s == int(s):
        below = -RANDOM.uniform(0.01, 40, 50)
        found, expected = _values(kernels.zeta, np.full_like(below, s), below), special.zeta(s, below)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_digamma_below_zero() -> None:
    x = -RANDOM.uniform(0.01, 40, 100)
    np.testing.assert_allclose(_values(kernels.digamma, x), special.digamma(x), rtol=1e-13, atol=1e-13)


def test_the_logarithm_of_beta_of_large_numbers_keeps_its_digits() -> None:
    """`gammaln(x) - gammaln(x + 1)` would lose them."""
    one, two = np.ones_like(LARGE), np.full_like(LARGE, 2.0)
    assert _errors(_values(kernels.betaln, LARGE, one), -np.log(LARGE)).max() < 100
    np.testing.assert_allclose(_values(kernels.betaln, LARGE, two), -np.log(LARGE) - np.log1p(LARGE), rtol=2e-14)
    x, y = RANDOM.uniform(0.3, 60, (2, 200))
    np.testing.assert_allclose(_values(kernels.betaln, x, y), special.betaln(x, y), rtol=2e-13, atol=1e-13)


def test_beta() -> None:
    x, y = RANDOM.uniform(0.05, 60, (2, 200))
    assert _errors(_values(kernels.beta, x, y), special.beta(x, y)).max() < 300
    x, y = RANDOM.uniform(-6, 6, (2, 200))
    np.testing.assert_allclose(_values(kernels.beta, x, y), special.beta(x, y), rtol=1e-10)
    whole = np.array([-3.0, -3.0, -1.0, 2.0, 0.5])
    other = np.array([2.0, 1.0, 1.0, -5.0, -1.5])
    np.testing.assert_allclose(_values(kernels.beta, whole, other), special.beta(whole, other), rtol=1e-13, atol=1e-16)

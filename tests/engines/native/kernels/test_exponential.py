"""The exponential of float64 in kernels: how exact it is, at the ends of its range too, and that it is no call."""

# mypy: allow-untyped-defs, allow-untyped-calls
# Kernels have no types.

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import compiled, translated
from wyrm.engines.jax.kernels.forms import called
from wyrm.engines.native.kernels.functions import kernel_of
from wyrm.engines.native.llvm.emit import emit
from wyrm.engines.native.llvm.optimize import optimized
from wyrm.ops.elementwise.fast_math import float64_exp
from wyrm.ops.random import gamma_draws


def by_math(x, out):
    for i in range(x.size):
        out[i] = math.exp(x[i])


def by_numpy(x, out):
    for i in range(x.size):
        out[i] = np.exp(x[i])


def of_an_integer(x, out):
    for i in range(x.size):
        out[i] = math.exp(i)


def run(function: Any, x: np.ndarray) -> np.ndarray:
    out = np.zeros(x.size)
    compiled(function, x, out)(x, out)
    return out


@pytest.mark.parametrize("function", [by_math, by_numpy])
def test_it_is_within_the_last_place_and_a_tenth(function: Any) -> None:
    random = np.random.default_rng(0)
    middles = (np.arange(-1021, 1023) + 0.5) * math.log(2.0)
    x = np.concatenate([
        random.uniform(-708.3, 709.7, 200_000), random.uniform(-1, 1, 200_000), random.normal(size=50_000) * 1e-8,
        middles, np.nextafter(middles, 0.0), np.arange(-1021, 1024) * math.log(2.0), [709.782712893384, -708.39],
    ])  # fmt: skip
    exact = np.exp(x.astype(np.longdouble))
    errors = np.abs(run(function, x) - exact) / np.spacing(exact.astype(np.float64))
    assert errors.max() < (1.1 if np.finfo(exact.dtype).nmant > 52 else 2.0)


def test_results_below_the_normal_numbers_are_rounded_once_more() -> None:
    x = np.random.default_rng(1).uniform(-745.2, -708.4, 50_000)
    exact = np.exp(x.astype(np.longdouble))
    assert np.abs(run(by_math, x) - exact).max() <= 5e-324


def test_the_ends_of_the_range() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 709.79, 1e308, -745.14, -1e308, 5e-324, 1e-17])
    expected = [np.nan, np.inf, 0.0, 1.0, 1.0, np.inf, np.inf, 0.0, 0.0, 1.0, 1.0]
    np.testing.assert_array_equal(run(by_math, x), expected)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal([float64_exp(float(each)) for each in x], expected)
    assert run(by_math, np.array([-745.13]))[0] == 5e-324


def test_integers_are_converted() -> None:
    np.testing.assert_allclose(run(of_an_integer, np.zeros(30)), np.exp(np.arange(30.0)), rtol=3e-16)


def test_jax_computes_its_own() -> None:
    x = np.linspace(-745.0, 709.0, 300)
    _, arrays = called(kernel_of(by_math), [x, np.zeros(x.size)])
    np.testing.assert_allclose(np.asarray(arrays[1]), np.exp(x), rtol=1e-15, atol=5e-308)


@pytest.mark.optimized
def test_loops_compute_it_in_vectors_and_call_nothing() -> None:
    translation, found = translated(by_math, np.zeros(3), np.zeros(3))
    module, _ = optimized(emit(translation.program(found.function.name).functions, {}, entry=True), 3)
    assert "x double>" in str(module)
    assert "exp" not in str(module)


def test_random_draws_call_the_function_that_python_calls() -> None:
    assert kernel_of(gamma_draws.poisson_kernel).exact
    assert not kernel_of(by_math).exact

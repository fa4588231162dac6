"""Bessel functions of any order in files of StableHLO, where they are elementary operations: the numbers of SciPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from scipy import special

import wyrm as wy
from tests.once import computed_once
from wyrm.errors import OptionError

NAMES = ("jv", "yv", "iv", "ive")
ORDERS = (-7.0001, -0.3, 0.0, 2.5, 50.0)
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
ORDERS_OF_EDGES = (-2.5, -1.0, -0.3, 0.0)
AT_EDGES = np.concatenate([EDGES, [-0.5, -2.5, -40.0]])
# Where SciPy itself is right: to 1e7, and its `iv` does not keep the smallest.
ORDERS_OF_EXTREMES, EXTREMES = (-0.3, 0.0), np.array([1e-37, 1e-20, 1e-4, 1e5, 1e7], np.float32)
X = np.geomspace(2.0**-10, 1e4, 60).astype(np.float32)
# Next to where the methods change, and to a zero of the function of order 0.
X = np.concatenate([X, np.array([1.9999, 2.0, 2.0001, 2.404826, 11.99, 12.01, 24.99, 25.01, 49.9, 50.1], np.float32)])
# Orders, arguments, and the functions in the order of NAMES, from mpmath with 40 digits.
EXACT = [
    (-20.5, 1.9375, 3.462056087293829e+17, 4.505212975149751e-20, 3.1443531456657914e+17, 4.529870196717789e+16),
    (-7.0001, 2.5, -0.020518159103399953, 62.83991794107903, -0.01056519903039376, -0.0008672443478710886),
    (-0.3, 0.0009765625, 7.587621039288513, -5.37289207691253, 7.587626207946922, 7.580220033612876),
    (0.0, 10000.0, -0.0070961603533888015, 0.0036478055589866058, np.inf, 0.003989472674604732),
    (2.5, 24.5, 0.07893140490507027, 0.1410135851124093, 3106566301.4913445, 0.0711321311083296),
    (20.0, 19.5, 0.13766970611956109, -0.3365037772933551, 1574.8668163524562, 5.351819222001207e-06),
    (50.0, 1250.5, -0.02112229979936073, -0.007959147425578348, np.inf, 0.004151213135478746),
    (200.0, 150.0, 8.057702198396854e-14, -29864935180.406555, 355872781384.7308, 2.5534213606724004e-54),
]  # fmt: skip


ALL_ORDERS = (*dict.fromkeys([*ORDERS, *ORDERS_OF_EDGES, *ORDERS_OF_EXTREMES, *(row[0] for row in EXACT)]),)
ARGUMENTS = {"ordinary": X, "edges": AT_EDGES, "extremes": EXTREMES, "exact": np.array([row[1] for row in EXACT])}


class Batch(wy.Dim): ...


def precision(dtype: type[Any]) -> AbstractContextManager[Any]:
    """Return the context in which JAX computes in `dtype`."""
    return jax.enable_x64(True) if dtype is np.float64 else nullcontext()


class Values(NamedTuple):
    """What a file computes: an array for each order and name of arguments, and the file's code."""

    of: dict[tuple[float, str], np.ndarray]
    code: str


def _values(name: str, dtype: type[Any]) -> Values:
    """Return the values of a function of all orders, by one file, which compiles in less time than many."""
    leaf = wy.Input(dims=(Batch(),), name="x", dtype=dtype)
    ends = np.cumsum([len(x) for x in ARGUMENTS.values()])
    with precision(dtype):
        exported = wy.jax.export([getattr(wy.special, name)(order, leaf) for order in ALL_ORDERS])
        found = exported.call(np.concatenate([x.astype(dtype) for x in ARGUMENTS.values()]))
    parts = {
        (order, which): part
        for order, values in zip(ALL_ORDERS, found, strict=True)
        for which, part in zip(ARGUMENTS, np.split(np.asarray(values), ends[:-1]), strict=True)
    }
    return Values(parts, str(exported.mlir_module()))


@pytest.fixture(scope="module")
def values_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, type[Any]], Values]:
    return lambda name, dtype: computed_once(
        tmp_path_factory, f"bessel-{name}-{dtype.__name__}", lambda: _values(name, dtype)
    )


def reference(name: str, order: float, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return SciPy's numbers in float64, and the sizes that errors are relative to.

    These are the amplitude where a function oscillates, and the larger term of a modified function of an order below 0.
    """
    wide = x.astype(np.float64)
    value: np.ndarray = getattr(special, name)(order, wide)
    size = np.abs(value)
    if name in ("jv", "yv"):
        second = np.clip(special.yv(abs(order), wide), -1e150, None)
        size = np.where(wide > abs(order), np.hypot(special.jv(abs(order), wide), second), size)
    else:
        size = np.maximum(size, np.abs(getattr(special, name)(abs(order), wide)))
    return value, size


def assert_near(found: np.ndarray, value: np.ndarray, size: np.ndarray, tolerance: float) -> None:
    """Check numbers, and infinities and zeros where the dtype holds no more."""
    limits = np.finfo(found.dtype)
    with np.errstate(over="ignore"):
        narrow = value.astype(found.dtype)
    ordinary = np.isfinite(narrow) & (size < limits.max) & (size > limits.tiny)
    assert ordinary.any()
    error = np.abs(found[ordinary].astype(np.float64) - value[ordinary]) / size[ordinary]
    assert error.max() < tolerance
    np.testing.assert_allclose(found[~ordinary], narrow[~ordinary], rtol=1e-5, atol=float(limits.tiny))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_files_have_the_numbers_of_scipy(
    name: str, dtype: type[Any], values_of: Callable[[str, type[Any]], Values]
) -> None:
    found = values_of(name, dtype)
    # SciPy's own errors in float64 are this large.
    tolerance = 1e-11 if dtype is np.float64 else 2e-6
    for order in ORDERS:
        values = found.of[order, "ordinary"]
        assert values.dtype == dtype
        assert_near(values, *reference(name, order, X), tolerance)
    calls = re.findall(r"custom_call @(\w+)", found.code)
    assert set(calls) <= {"shape_assertion"}
    assert ("f64" in found.code) == (dtype is np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_have_all_digits(dtype: type[Any], values_of: Callable[[str, type[Any]], Values]) -> None:
    tolerance = 4e-15 if dtype is np.float64 else 2e-6
    x = ARGUMENTS["exact"].astype(dtype)
    for column, name in enumerate(NAMES, 2):
        found = values_of(name, dtype)
        for i, row in enumerate(EXACT):
            _, size = reference(name, row[0], x[i : i + 1])
            assert_one(found.of[row[0], "exact"][i], row[column], size[0], tolerance)


def assert_one(found: Any, value: float, size: float, tolerance: float) -> None:
    """Check a number relative to a size, or that it is infinite or 0 where the dtype holds no more."""
    limits = np.finfo(found.dtype)
    if abs(value) > limits.max:
        assert found == np.copysign(np.inf, value)
    elif size < limits.tiny:
        assert abs(found) < limits.tiny
    else:
        assert abs(float(found) - value) <= tolerance * size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_edges_of_files_are_those_of_scipy(
    name: str, dtype: type[Any], values_of: Callable[[str, type[Any]], Values]
) -> None:
    found, x = values_of(name, dtype), AT_EDGES.astype(dtype)
    for order in ORDERS_OF_EDGES:
        values = found.of[order, "edges"]
        expected = getattr(special, name)(order, x.astype(np.float64))
        np.testing.assert_array_equal(values[: len(EDGES)], expected[: len(EDGES)])
        np.testing.assert_allclose(values, expected, rtol=3e-6)


@pytest.mark.parametrize("name", NAMES)
def test_extreme_arguments_neither_overflow_nor_vanish(
    name: str, values_of: Callable[[str, type[Any]], Values]
) -> None:
    found = values_of(name, np.float32)
    for order in ORDERS_OF_EXTREMES:
        assert_near(found.of[order, "extremes"], *reference(name, order, EXTREMES), 3e-6)


def test_files_have_gradients() -> None:
    x = np.array([0.3, 1.0, 7.5, 30.0])
    given = wy.Input(dims=(4,), name="x", dtype=np.float64)
    slopes = [wy.grad(getattr(wy.special, name)(1.5, given).sum(), given) for name in NAMES]
    with jax.enable_x64(True):
        found = wy.jax.export(slopes, [given]).call(x)
    decay = np.exp(-x)
    scaled = decay * special.ivp(1.5, x) - special.ive(1.5, x)
    expected = [special.jvp(1.5, x), special.yvp(1.5, x), special.ivp(1.5, x), scaled]
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-10)


def test_an_order_beyond_the_range_of_files_is_named() -> None:
    x = wy.Input(dims=(Batch(), 3), name="x")
    message = r"bessel_j .*test_jax_exports_bessel.* has the order 200.5, and a file holds .* from -200 to 200: "
    with pytest.raises(OptionError, match=message + r".*scipy.special.jv"):
        wy.jax.export(wy.special.jv(200.5, x.exp()).sum(axis=1))

"""Running extremes, quantiles without the NaN, and interpolation with a period, beside NumPy, PyTorch and JAX."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import ShapeError
from wyrm.testing import check_grads

RANDOM = np.random.default_rng(0)
ENGINES = ("numpy", "native", "jax")


class Batch(wy.Dim): ...


def values_in(engine: str, node: Any) -> Any:
    return node.forward() if engine == "numpy" else wy.compile(node, engine=engine)()


def with_nan() -> Any:
    x = RANDOM.normal(size=(3, 5, 4))
    x[0, 1, 2] = np.nan
    x[1, :, 0] = np.nan
    x[2, 2:4] = np.nan
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_running_extremes_are_numpy_s(name: str, engine: str, dtype: Any) -> None:
    for x in (with_nan().astype(dtype), np.round(RANDOM.normal(size=(4, 6)), 0).astype(dtype), np.zeros((0, 3), dtype)):
        node = wy.Input(x, finite=False)
        for axis in range(x.ndim):
            found = np.asarray(values_in(engine, getattr(node, f"cum{name[:3]}")(axis)))
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, getattr(np, name).accumulate(x, axis=axis))
    np.testing.assert_array_equal(getattr(np, name).accumulate(node).forward(), getattr(np, name).accumulate(x))


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_gradients_of_running_extremes_are_pytorch_s_with_ties_too(name: str) -> None:
    x, weight = np.round(RANDOM.normal(size=(5, 7)) * 2, 0), RANDOM.normal(size=(5, 7))
    parameter, tensor = wy.Parameter(x), torch.tensor(x, requires_grad=True)
    for axis in (0, 1):
        found = wy.grad((getattr(parameter, name)(axis) * weight).sum(), parameter).forward()
        (expected,) = torch.autograd.grad((getattr(torch, name)(tensor, axis)[0] * torch.tensor(weight)).sum(), tensor)
        np.testing.assert_allclose(found, expected.numpy())
    smooth = wy.Parameter(RANDOM.normal(size=(3, 6)))
    check_grads((getattr(smooth, name)(1).square() * smooth).sum())
    assert getattr(smooth, name)().shape == (18,)
    with pytest.raises(ShapeError, match="axis 2"):
        getattr(smooth, name)(2)


def test_running_extremes_of_integers_of_rows_and_of_open_axes() -> None:
    numbers = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    node = wy.IndexConstant(numbers)
    for engine in ENGINES:
        np.testing.assert_array_equal(values_in(engine, node.cummax()), np.maximum.accumulate(numbers))
        np.testing.assert_array_equal(values_in(engine, node.cummin(0)), np.minimum.accumulate(numbers))
    x = wy.Input(dims=(Batch(), 4))
    rows = RANDOM.normal(size=(6, 4)).astype(np.float32)
    for axis in (0, 1):
        for engine in ENGINES[1:]:
            found = wy.compile(x.cummax(axis), engine=engine)({x: rows})
            np.testing.assert_array_equal(found, np.maximum.accumulate(rows, axis=axis))
    mapped: Any = wy.vmap(lambda row: row.cummin())(wy.Constant(rows))
    np.testing.assert_array_equal(mapped.forward(), np.minimum.accumulate(rows, axis=1))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2)])
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_quantiles_without_nan_are_numpy_s(axis: Any) -> None:
    x = with_nan()
    node: Any = wy.Input(x, finite=False)
    np.testing.assert_allclose(np.nanmedian(node, axis=axis).forward(), np.nanmedian(x, axis=axis), rtol=1e-14)
    np.testing.assert_allclose(wy.nanpercentile(node, 30, axis).forward(), np.nanpercentile(x, 30, axis), rtol=1e-13)
    for method in ("linear", "lower", "nearest", "midpoint", "hazen", "weibull", "inverted_cdf", "median_unbiased"):
        for keepdims in (False, True):
            options: Any = {"axis": axis, "method": method, "keepdims": keepdims}
            found = np.nanquantile(node, [0.0, 0.1, 0.5, 1.0], **options)
            expected = np.nanquantile(x, [0.0, 0.1, 0.5, 1.0], **options)
            np.testing.assert_allclose(found.forward(), expected, rtol=1e-13)
    plain = np.nan_to_num(x)
    grid = [[0.25, 0.5], [0.75, 1.0]]
    np.testing.assert_allclose(wy.nanquantile(plain, grid, axis).forward(), np.quantile(plain, grid, axis), rtol=1e-13)


@pytest.mark.parametrize("engine", ENGINES)
def test_quantiles_without_nan_in_every_engine(engine: str) -> None:
    x = with_nan().astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.nanquantile(x, 0.3, axis=1)
    found = values_in(engine, wy.nanquantile(wy.Input(x, finite=False), 0.3, 1))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def test_gradients_of_quantiles_without_nan() -> None:
    y = wy.Parameter(RANDOM.normal(size=(4, 5)))
    missing = np.zeros((4, 5), np.bool_)
    missing[1, 2] = missing[3, 2] = missing[0, 0] = True
    x: Any = wy.where(missing, np.nan, y)
    check_grads(wy.nanquantile(x, [0.3, 0.5], axis=0).square().sum())
    check_grads(wy.nanmedian(x).square())
    gradient = wy.grad(wy.nanmedian(x, 0).sum(), y).forward()
    assert np.isfinite(gradient).all() and not gradient[missing].any()


def test_interpolation_with_a_period() -> None:
    at, points = RANDOM.uniform(-400.0, 800.0, 20), RANDOM.uniform(-500.0, 700.0, 7)
    values = RANDOM.normal(size=7)
    for period in (360.0, -360.0, 100):
        expected = np.interp(at, points, values, period=period)
        for engine in ENGINES:
            found = values_in(engine, wy.interp(wy.Constant(at), points, values, period=period))
            np.testing.assert_allclose(found, expected, rtol=1e-12 if engine != "jax" else 2e-3, atol=1e-12)
    leaves: Any = [wy.Parameter(each) for each in (at, points, values)]
    node: Any = np.interp(*leaves, period=360.0)  # type: ignore[call-overload]  # of arrays, for checkers
    check_grads(node.sin().sum())
    with pytest.raises(ValueError, match="the period must not be 0"):
        wy.interp(at, points, values, period=0.0)

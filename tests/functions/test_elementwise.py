"""NumPy's elementwise functions and reductions without NaN: values of NumPy, gradients of JAX to second order."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from tests.special.test_special import check
from wyrm.errors import DTypeError

RANDOM = np.random.default_rng(5)
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, -1.5, 2.5, 0.5, -0.5, 3.7, 1e-30, -1e30, 1e5])


def uniform(low: float, high: float, *shape: int) -> Any:
    return RANDOM.uniform(low, high, shape)


OF_ONE = {
    "tan": (-1.4, 1.4), "arcsin": (-0.99, 0.99), "arccos": (-0.99, 0.99), "arctan": (-5.0, 5.0),
    "arcsinh": (-5.0, 5.0), "arccosh": (1.01, 9.0), "arctanh": (-0.99, 0.99), "sinh": (-3.0, 3.0),
    "cosh": (-3.0, 3.0), "exp2": (-3.0, 3.0), "log2": (0.1, 9.0), "log10": (0.1, 9.0), "cbrt": (0.1, 9.0),
    "reciprocal": (0.1, 3.0), "deg2rad": (-9.0, 9.0), "rad2deg": (-9.0, 9.0), "sinc": (-4.0, 4.0),
    "nan_to_num": (-4.0, 4.0), "ptp": (-3.0, 3.0), "nansum": (-3.0, 3.0), "nanmean": (-3.0, 3.0),
    "nanvar": (-3.0, 3.0), "nanstd": (-3.0, 3.0), "nanmax": (-3.0, 3.0), "nanmin": (-3.0, 3.0),
    "nanprod": (-3.0, 3.0),
}  # fmt: skip
OF_TWO = {
    "arctan2": (-3.0, 3.0), "hypot": (-3.0, 3.0), "logaddexp2": (-9.0, 9.0), "remainder": (0.5, 5.0),
    "fmod": (-5.0, 5.0), "fmax": (-3.0, 3.0), "fmin": (-3.0, 3.0), "copysign": (-3.0, 3.0),
    "float_power": (0.3, 3.0),
}  # fmt: skip
MASKS = [
    "isnan", "isinf", "isfinite", "signbit", "logical_not", "isposinf", "isneginf", "floor", "ceil", "trunc", "fix",
    "rint", "positive",
]  # fmt: skip


@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_array_equal_jax(name: str) -> None:
    check(getattr(wy, name), getattr(jnp, name), (uniform(*OF_ONE[name], 3, 5),), 1e-9)


@pytest.mark.parametrize("shapes", [((3, 5), (3, 5)), ((3, 5), (5,)), ((3, 1), (1, 5)), ((), (3,))], ids=str)
@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_arrays_equal_jax(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    operands = tuple(np.asarray(uniform(*OF_TWO[name], *shape)) for shape in shapes)
    check(getattr(wy, name), getattr(jnp, name), operands, 1e-9)


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_at_the_edges_are_those_of_numpy_in_both_engines(dtype: Any) -> None:
    data = EDGES.astype(dtype)
    x, y = (part.ravel() for part in np.meshgrid(data, data))
    one, left, right = (wy.Input(part, finite=False) for part in (data, x, y))
    singles = [*MASKS, *(name for name in OF_ONE if not name.startswith(("nan", "ptp", "tan", "sinc")))]
    pairs = [
        *(name for name in OF_TWO if name != "float_power"), "floor_divide", "heaviside", "logaddexp", "logical_and",
        "logical_or", "logical_xor", "isclose",
    ]  # fmt: skip
    nodes = [getattr(np, name)(one) for name in singles] + [getattr(np, name)(left, right) for name in pairs]
    with np.errstate(all="ignore"):
        wanted = [getattr(np, name)(data) for name in singles] + [getattr(np, name)(x, y) for name in pairs]
    tolerance = 1e-14 if dtype is np.float64 else 1e-6
    for engine in (wy.run(nodes), wy.compile(nodes)()):
        for name, found, expected in zip([*singles, *pairs], engine, wanted, strict=True):
            assert found.dtype == expected.dtype, name
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=0.0, err_msg=name)
            if found.dtype.kind == "f":
                known = expected == 0.0
                np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]), err_msg=name)


def test_operators_of_division() -> None:
    x, y = uniform(-9, 9, 7), uniform(-3, 3, 7)
    node: Any = wy.Constant(x)
    for found, expected in (
        (node % y, x % y), (node // y, x // y), (5.0 % node, 5.0 % x), (5.0 // node, 5.0 // x), (+node, x),
        (divmod(node, 2.0)[0], x // 2.0), (divmod(node, 2.0)[1], x % 2.0), (divmod(5.0, node)[1], 5.0 % x),
        (y % node, y % x), (wy.divmod(node, y)[1], x % y),
    ):  # fmt: skip
        np.testing.assert_allclose(found.forward(), expected, rtol=1e-14)
    with pytest.raises(DTypeError, match="a mask, which has no sign"):
        wy.positive(node > 0)


@pytest.mark.parametrize("decimals", [0, 1, 3, -1, -2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_to_decimals(decimals: int, dtype: Any) -> None:
    data = np.concatenate([uniform(-900, 900, 40), [0.5, 1.5, -2.5, 0.25, 2.675, 1250.0, -0.04]]).astype(dtype)
    x: Any = wy.Input(data)
    for found in (x.round(decimals), wy.round(x, decimals), np.round(x, decimals)):
        np.testing.assert_array_equal(found.forward(), np.round(data, decimals))
    np.testing.assert_allclose(wy.compile(x.round(decimals))(), np.round(data, decimals), rtol=1e-6)


HOLES = uniform(-2, 2, 3, 4, 5)
HOLES[0, 0, 0] = HOLES[1, :, 2] = np.nan


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2)], ids=str)
@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanmax", "nanmin", "nanprod", "nanvar", "nanstd", "ptp"])
def test_reductions_without_nan(name: str, axis: Any, keepdims: bool) -> None:
    x: Any = wy.Input(HOLES, finite=False)
    with warnings.catch_warnings(action="ignore"):
        expected = getattr(np, name)(HOLES, axis=axis, keepdims=keepdims)
    for function in (getattr(wy, name), getattr(np, name)):
        np.testing.assert_allclose(function(x, axis=axis, keepdims=keepdims).forward(), expected, rtol=1e-12)


def test_no_gradient_goes_to_nan() -> None:
    x = wy.Parameter(np.array([1.0, 3.0]))
    data: Any = wy.where(np.array([True, False, True]), wy.concatenate([x, x[:1]]), np.nan)
    for function in (wy.nansum, wy.nanmean, wy.nanvar, wy.nanmax, wy.nanprod):
        gradient = wy.grad(function(data), x).forward()
        assert np.isfinite(gradient).all() and gradient[1] == 0.0


def test_bounds_that_are_arrays_and_nodes() -> None:
    x, low, high = uniform(-3, 3, 3, 5), uniform(-2, 0, 5), uniform(0, 2, 3, 5)
    check(lambda x, lo, hi: x.clip(lo, hi), lambda x, lo, hi: jnp.clip(x, lo, hi), (x, low, high), 1e-12)
    node: Any = wy.Constant(x)
    bounds: list[tuple[Any, Any]] = [(low, None), (None, high), (low, 1.0), (high, low), (-1.0, None), (None, 0.5)]
    for least, most in bounds:
        np.testing.assert_array_equal(np.clip(node, least, most).forward(), np.clip(x, least, most))
    leaf = wy.Parameter(np.array([1.0, 2.0]))
    assert wy.grad(leaf.clip(np.array([1.0, 0.0]), 2.0).sum(), leaf).forward().tolist() == [1.0, 1.0]


def test_choices() -> None:
    x = uniform(-3, 3, 4, 3)
    node: Any = wy.Constant(x)
    found = wy.select([node < -1, node < 1], [node, 0.0], node * 2.0)
    np.testing.assert_array_equal(found.forward(), np.select([x < -1, x < 1], [x, 0.0 * x], x * 2.0))
    with pytest.raises(ValueError, match="1 conditions for 2 choices"):
        wy.select([node > 0], [1.0, 2.0])
    holes: Any = wy.Input(EDGES, finite=False)
    np.testing.assert_array_equal(
        wy.nan_to_num(holes, nan=7.0, posinf=1.0, neginf=-1.0).forward(), np.nan_to_num(EDGES, True, 7.0, 1.0, -1.0)
    )


def test_closeness() -> None:
    x = uniform(-3, 3, 4, 3)
    node: Any = wy.Constant(x)
    holes, same = wy.Input([np.nan, np.inf], finite=False), np.array([np.nan, np.inf], np.float32)
    for found, expected in (
        (wy.isclose(node, x + 1e-9), np.isclose(x, x + 1e-9)),
        (wy.isclose(node, 0.0, atol=1.0), np.isclose(x, 0.0, atol=1.0)),
        (wy.isclose(holes, same), np.isclose(same, same)),
        (wy.isclose(holes, same, equal_nan=True), np.isclose(same, same, equal_nan=True)),
        (wy.allclose(node, x + 1e-9), np.True_),
        (wy.allclose(node, x + 1.0), np.False_),
        (wy.array_equal(node, x), np.True_),
        (wy.array_equal(node, x[:1]), np.False_),
    ):
        np.testing.assert_array_equal(found.forward(), expected)


def test_sinc_is_smooth_at_zero() -> None:
    x = wy.Parameter(np.array([0.0, 1e-9, 1e-4, 0.31, 0.32, -0.3]))
    node: Any = wy.sinc(x)
    for order in range(4):
        with jax.enable_x64(True):
            expected = jnp.sinc
            for _ in range(order):
                expected = jax.grad(expected)
            wanted = [float(jax.jit(expected)(value)) for value in np.array([0.0, 0.31, 0.32, -0.3])]
        found = node.forward()
        np.testing.assert_allclose(found[[0, 3, 4, 5]], wanted, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found[1:3], found[0], atol=4e-3)
        node = wy.grad(node.sum(), x)


def test_half_of_the_gradient_goes_to_equal_operands_and_none_to_nan() -> None:
    x, y = (wy.Input(np.array(row), finite=False) for row in ([1.0, np.nan, 2.0], [1.0, 5.0, np.nan]))
    for function in (wy.fmax, wy.fmin):
        gradients = [each.forward().tolist() for each in wy.grad(function(x, y).sum(), [x, y])]
        assert gradients == [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]
    step = wy.Parameter(np.array([0.5, 0.5, 0.5]))
    (gradient,) = wy.grad(wy.heaviside(wy.Constant([-1.0, 0.0, 1.0]).astype(np.float64), step).sum(), [step])
    assert gradient.forward().tolist() == [0.0, 1.0, 0.0]

"""Bessel functions, incomplete functions and relatives of the gamma function, against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import wyrm as wy
from wyrm.errors import NotDifferentiable
from wyrm.special import composite as of_order

X = np.array([0.05, 0.4, 1.0, 2.5, 9.0])
CASES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "betainc": ((1.5, 0.5), X / 10.0),
    "jv": ((2.5,), X),
    "jn": ((2,), X),
    "j0": ((), X),
    "j1": ((), X),
    "yv": ((2.5,), X),
    "yn": ((2,), X),
    "y0": ((), X),
    "y1": ((), X),
    "iv": ((2.5,), X),
    "ive": ((2.5,), np.array([-2.0, 0.5, 40.0])),
    "gammasgn": ((), np.array([-3.5, -2.5, -1.0, -0.5, 0.0, 1.5, 3.0])),
    "rgamma": ((), np.array([-3.5, -2.0, -0.5, 0.0, 0.3, 1.5, 4.0, np.inf, -np.inf])),
    "erfcinv": ((), np.array([1e-30, 0.1, 1.0, 1.9])),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_scipy(name: str, dtype: type[Any]) -> None:
    parameters, x = CASES[name]
    if name == "ive" and dtype is np.float32:
        x = np.abs(x)
    node = getattr(of_order, name)(*parameters, wy.Constant(x.astype(dtype)))
    expected = getattr(special, name)(*parameters, x.astype(dtype).astype(np.float64))
    assert node.dtype == dtype
    tolerance = 1e-12 if dtype is np.float64 else 3e-6
    np.testing.assert_allclose(node.forward(), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(wy.compile(node)(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"gammasgn", "ive"}))
def test_gradients_are_differences(name: str) -> None:
    parameters, x = CASES[name]
    x = x[(x != np.round(x)) & (x > 1e-3) & (x < np.inf)]
    node: Any = wy.Parameter(x)
    for order in range(2):
        value: Any = getattr(of_order, name)(*parameters, node)
        for _ in range(order):
            value = wy.grad(value.sum(), node)
        found = wy.grad(value.sum(), node).forward()

        def at(point: Any, order: int = order) -> Any:
            inner: Any = wy.Parameter(point)
            result: Any = getattr(of_order, name)(*parameters, inner)
            for _ in range(order):
                result = wy.grad(result.sum(), inner)
            return result.forward()

        step = 1e-5
        np.testing.assert_allclose(found, (at(x + step) - at(x - step)) / (2.0 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_reciprocal_of_the_gamma_function_is_smooth_at_its_zeros(dtype: type[Any]) -> None:
    """The derivatives at -n are `(-1)**n n!` and `-2 (-1)**n n! digamma(n + 1)`; far zeros stay zeros."""
    n = np.arange(4)
    x = wy.Constant(np.array([*-n, -40.0, -300.0], dtype))
    value: Any = of_order.rgamma(x)
    slope: Any = wy.grad(value.sum(), x)
    curvature: Any = wy.grad(slope.sum(), x)
    expected = (-1.0) ** n * special.factorial(n)
    for values, slopes, curvatures in (wy.run([value, slope, curvature]), wy.compile([value, slope, curvature])()):
        assert (values == 0.0).all()
        np.testing.assert_allclose(slopes[:4], expected, rtol=1e-6)
        np.testing.assert_allclose(curvatures[:4], -2.0 * expected * special.digamma(n + 1.0), rtol=1e-6)
        assert np.isfinite(slopes).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_of_modified_bessel_functions_near_0(dtype: type[Any]) -> None:
    """The slopes are the mean of the functions of orders 0 and 2, also at numbers whose inverse overflows."""
    x = np.array([0.0, 1e-310, -1e-40, 1e-12, -1e-5, 0.0079, 0.0081, -0.15], dtype)
    nodes = []
    for name in ("i1", "i1e"):
        leaf = wy.Constant(x)
        slope: Any = wy.grad(getattr(wy.special, name)(leaf).sum(), leaf)
        nodes += [slope, wy.grad(slope.sum(), leaf)]
    wide = x.astype(np.float64)
    wide = np.where(np.abs(wide) < 1e-300, np.sign(wide) * 1e-300, wide)  # SciPy's are NaN below
    of_one, bend, decay = special.ivp(1, wide), special.ivp(1, wide, 2), np.exp(-np.abs(wide))
    expected = [
        of_one, bend, decay * of_one - np.sign(wide) * special.i1e(wide),
        decay * bend - 2.0 * decay * np.sign(wide) * of_one + np.abs(np.sign(wide)) * special.i1e(wide),
    ]  # fmt: skip
    tolerance = 1e-6 if dtype is np.float32 else 1e-7
    for found in (wy.run(nodes), wy.compile(nodes)()):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=1e-8)


def test_a_parameter_of_an_incomplete_function_has_no_gradient() -> None:
    a, x = wy.Parameter(np.array([1.5])), wy.Parameter(np.array([0.5]))
    loss = of_order.betainc(a, 2.0, x).sum()
    wy.grad(loss, x)
    with pytest.raises(NotDifferentiable, match="only the derivative with respect to the last argument has a formula"):
        wy.grad(loss, a)


def test_programs_of_jax_call_scipy_in_float64_from_any_thread() -> None:
    """XLA calls the host from a thread of its own where it computes several things at once."""
    random = np.random.default_rng(0)
    matrix, vector = wy.Parameter(random.normal(size=(3, 3)) + 4.0 * np.eye(3)), wy.Parameter(random.normal(size=3))
    nodes: list[Any] = [wy.linalg.solve(matrix, vector)]
    for last in (5, 10):
        x = wy.Parameter(random.normal(size=(2, 2, 4, last)))
        nodes.append(of_order.j0(x) + of_order.j1(x) + wy.special.i0e(x) - wy.special.i1e(x))
    for found, expected in zip(wy.compile(nodes, engine="jax")(), wy.run(nodes), strict=True):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


# Parameters, arguments, and both incomplete gamma functions there, from mpmath with 40 digits.
INCOMPLETE = [
    (1e-06, 0.0001, 0.9999913668117393, 8.633188260757086e-06),
    (0.001, 0.9, 0.9997395703001782, 0.0002604296998218178),
    (0.3, 0.05, 0.4484368621065928, 0.5515631378934073),
    (0.48, 0.94, 0.8379259984325904, 0.1620740015674096),
    (0.9, 1.05, 0.692141012064783, 0.30785898793521704),
    (1.0, 1.0, 0.6321205588285577, 0.36787944117144233),
    (2.5, 0.1, 0.0008861387888124426, 0.9991138612111875),
    (2.5, 30.0, 0.9999999999878454, 1.215456977718304e-11),
    (9.5, 700.0, 1.0, 1.2760895851616886e-285),
    (20.7, 5e-08, 3.623809465204195e-171, 1.0),
    (150.0, 150.5, 0.5271043634204465, 0.47289563657955347),
    (150.0, 90.0, 4.795302327588349e-09, 0.9999999952046976),
    (3000.0, 3300.0, 0.9999999453824874, 5.4617512588287017e-08),
    (12000.0, 12300.0, 0.9967275512260109, 0.0032724487739891743),
    (12000.0, 11000.0, 2.9349504071973633e-21, 1.0),
    (15496504.149333362, 15477758.066081425, 9.49509282940559e-07, 0.9999990504907171),
]  # fmt: skip
ENDS = [0.0, 0.5, 1.0, 30.0, np.inf, -1.0, np.nan]


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_incomplete_gamma_functions_are_exact(engine: str) -> None:
    a, x, lower, upper = np.array(INCOMPLETE).T
    given = wy.Input(dims=a.shape, name="a", dtype=np.float64), wy.Input(dims=x.shape, name="x", dtype=np.float64)
    nodes, data = [wy.special.gammainc(*given), wy.special.gammaincc(*given)], dict(zip(given, (a, x), strict=True))
    for leaf, array in data.items():
        leaf.set(array)
    found = wy.run(nodes) if engine == "numpy" else wy.compile(nodes)(data)
    for value, expected in zip(found, (lower, upper), strict=True):
        np.testing.assert_allclose(value, expected, rtol=3e-13, atol=0.0)


@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_beta_functions_of_large_arguments_are_exact(engine: str, dtype: type[Any]) -> None:
    x = np.array([2e3, 1e4, 1e5, 9e5, 1e6, 1e8], dtype)
    exact = x.astype(np.float64)
    cases = [
        (wy.special.betaln(wy.Constant(x), wy.Constant(dtype(2))), -np.log(exact) - np.log1p(exact)),
        (wy.special.betaln(wy.Constant(dtype(1)), wy.Constant(x)), -np.log(exact)),
        (wy.special.beta(wy.Constant(x), wy.Constant(dtype(2))), 1.0 / (exact * (exact + 1.0))),
    ]
    nodes = [node for node, _ in cases]
    found = wy.run(nodes) if engine == "numpy" else wy.compile(nodes)()
    for value, (_, expected) in zip(found, cases, strict=True):
        assert value.dtype == dtype
        np.testing.assert_allclose(value, expected, rtol=1e-13 if dtype is np.float64 else 2e-7)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_functions_at_their_ends_are_those_of_scipy(name: str) -> None:
    a, x = (each.ravel() for each in np.meshgrid(ENDS, ENDS))
    found = getattr(wy.special, name)(wy.Constant(a), wy.Constant(x))
    expected = getattr(special, name)(a, x)
    np.testing.assert_allclose(found.forward(), expected, rtol=1e-14)
    np.testing.assert_allclose(wy.compile(found)(), expected, rtol=1e-13)

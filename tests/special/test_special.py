"""Special functions against SciPy and JAX: values, gradients to second order, and the values at the edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.scipy.special as jax_special
import numpy as np
import pytest
from scipy import special

import wyrm as wy

RANDOM = np.random.default_rng(3)
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, -1.5, 2.5, 0.5, -0.5, 1e-30, -1e30, 1e5, -20.0])


def uniform(low: float, high: float, *shape: int) -> Any:
    return RANDOM.uniform(low, high, shape)


def check(build: Callable[..., Any], expected: Callable[..., Any], operands: tuple[Any, ...], tolerance: float) -> None:
    """Compare values, first and second gradients of a random projection with JAX's."""
    leaves = [wy.Parameter(operand) for operand in operands]
    node = build(*leaves)
    weights = RANDOM.normal(size=node.shape)
    first = wy.grad((node * weights).sum(), leaves)
    total: Any = sum((each * each).sum() for each in first)
    found = wy.run([node, *first, *wy.grad(total, leaves, allow_unused=True)])
    places = tuple(range(len(operands)))
    with jax.enable_x64(True):
        slopes = jax.grad(lambda *x: (expected(*x) * weights).sum(), places)

        def derivatives(*x: Any) -> list[Any]:
            inner = slopes(*x)
            # The gradients of the sum of squares of `inner`, forwards: JAX traces and compiles these in less time.
            return [expected(*x), *inner, *jax.jvp(slopes, x, tuple(2.0 * each for each in inner))[1]]

        for one, other in zip(found, jax.jit(derivatives)(*operands), strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


OF_ONE = {
    "gammaln": (0.1, 20.0), "digamma": (0.3, 20.0), "gamma": (0.2, 6.0), "erf": (-3.0, 3.0), "erfc": (-3.0, 3.0),
    "erfinv": (-0.99, 0.99), "ndtr": (-4.0, 4.0), "log_ndtr": (-12.0, 5.0), "ndtri": (0.01, 0.99), "entr": (0.01, 3.0),
    "logit": (0.01, 0.99), "expit": (-5.0, 5.0), "i0": (-4.0, 4.0), "i0e": (-9.0, 9.0), "i1": (-4.0, 4.0),
    "i1e": (-9.0, 9.0),
}  # fmt: skip
# JAX computes these less exactly.
ROUGH = {"digamma", "i0", "i0e", "i1", "i1e", "log_ndtr"}


@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_number_equal_jax(name: str) -> None:
    x = uniform(*OF_ONE[name], 3, 5)
    check(getattr(wy.special, name), getattr(jax_special, name), (x,), 2e-6 if name in ROUGH else 1e-9)
    np.testing.assert_allclose(getattr(wy.special, name)(x).forward(), getattr(special, name)(x), rtol=1e-13)


def test_log_expit_equals_jax() -> None:
    check(wy.special.log_expit, jax.nn.log_sigmoid, (uniform(-9, 9, 3, 5),), 1e-12)


@pytest.mark.parametrize("shapes", [((3, 5), (3, 5)), ((3, 5), (5,)), ((3, 1), (1, 5))], ids=str)
@pytest.mark.parametrize("name", ["beta", "xlogy", "xlog1py", "rel_entr", "kl_div"])
def test_functions_of_two_numbers_equal_jax(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    operands = tuple(uniform(0.3, 4.0, *shape) for shape in shapes)
    check(getattr(wy.special, name), getattr(jax_special, name), operands, 1e-8)


def test_betaln_equals_the_sum_of_logarithms_of_gamma() -> None:
    def expected(x: Any, y: Any) -> Any:
        return jax_special.gammaln(x) + jax_special.gammaln(y) - jax_special.gammaln(x + y)

    check(wy.special.betaln, expected, (uniform(0.3, 9.0, 3, 5), uniform(0.3, 9.0, 5)), 1e-9)


@pytest.mark.parametrize("order", range(4))
def test_polygamma_equals_jax(order: int) -> None:
    x = uniform(0.3, 9.0, 3, 5)
    check(lambda x: wy.special.polygamma(order, x), lambda x: jax_special.polygamma(order, x), (x,), 1e-8)
    np.testing.assert_allclose(wy.special.polygamma(order, -x).forward(), special.polygamma(order, -x), rtol=1e-11)


def test_multigammaln_equals_jax() -> None:
    x = uniform(1.2, 9.0, 4)
    check(lambda x: wy.special.multigammaln(x, 3), lambda x: jax_special.multigammaln(x, 3), (x,), 1e-9)
    assert np.isnan(wy.special.multigammaln(np.array([0.9]), 3).forward())


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)], ids=str)
def test_softmax_over_any_axes(axis: Any) -> None:
    x, both = uniform(-3, 3, 3, 5), (0, 1) if axis is None else axis
    check(lambda x: wy.special.softmax(x, axis), lambda x: jax.nn.softmax(x, both), (x,), 1e-10)
    check(lambda x: wy.special.log_softmax(x, axis), lambda x: jax.nn.log_softmax(x, both), (x,), 1e-10)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)], ids=str)
def test_logsumexp_with_scales_and_signs(axis: Any, keepdims: bool) -> None:
    x, scale = uniform(-3, 3, 3, 5), uniform(0.2, 2.0, 5)
    check(
        lambda x, b: wy.special.logsumexp(x, axis, b, keepdims),
        lambda x, b: jax_special.logsumexp(x, axis, b, keepdims),
        (x, scale),
        1e-9,
    )
    signed = np.where(scale > 1.5, -3.0 * scale, scale)
    signed[0] = 0.0
    size, sign = wy.special.logsumexp(wy.Constant(x), axis, signed, keepdims, return_sign=True)
    expected = special.logsumexp(x, axis, signed, keepdims, return_sign=True)
    np.testing.assert_allclose(size.forward(), expected[0], rtol=1e-11)
    np.testing.assert_array_equal(sign.forward(), expected[1])


def test_logsumexp_of_nothing_and_infinities() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 0.0], [1e4, -1e4]])
    found = wy.special.logsumexp(wy.Input(x, finite=False), 1, np.array([1.0, 2.0])).forward()
    np.testing.assert_array_equal(found, special.logsumexp(x, 1, np.array([1.0, 2.0])))
    left_out = wy.special.logsumexp(wy.Input([np.inf, 1.0], finite=False), b=np.array([0.0, 1.0]))
    assert left_out.forward() == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_at_the_edges_are_those_of_scipy_in_both_engines(dtype: Any) -> None:
    x, y = (part.ravel().astype(dtype) for part in np.meshgrid(EDGES[~np.isposinf(EDGES)], EDGES))
    one, left, right = (wy.Input(part, finite=False) for part in (EDGES.astype(dtype), x, y))
    names, pairs = [*OF_ONE, "log_expit"], ["xlogy", "xlog1py", "rel_entr", "kl_div"]
    nodes = [getattr(wy.special, name)(one) for name in names]
    nodes += [getattr(wy.special, name)(left, right) for name in pairs]
    with np.errstate(all="ignore"):
        wanted = [getattr(special, name)(EDGES.astype(dtype)) for name in names]
        wanted += [getattr(special, name)(x, y) for name in pairs]
    tolerance = 1e-12 if dtype is np.float64 else 3e-6
    for engine in (wy.run(nodes), wy.compile(nodes)()):
        for name, found, expected in zip([*names, *pairs], engine, wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=0.0, err_msg=name)


def test_gradients_at_the_edges() -> None:
    def slopes(function: Any, *at: float) -> list[float]:
        leaves = [wy.Parameter(np.float64(x)) for x in at]
        return [float(each) for each in wy.run(wy.grad(function(*leaves), leaves))]

    assert slopes(wy.special.xlogy, 0.0, 0.0) == [-np.inf, 0.0]
    assert slopes(wy.special.xlogy, 0.0, 2.0) == [np.log(2.0), 0.0]
    assert slopes(wy.special.xlogy, 1.0, 0.0) == [-np.inf, np.inf]
    assert slopes(wy.special.xlog1py, 0.0, -1.0) == [-np.inf, 0.0]
    assert slopes(wy.special.entr, 0.0) == [np.inf]
    assert slopes(wy.special.rel_entr, 0.0, 0.0) == [0.0, 0.0]
    assert slopes(wy.special.erfinv, 1.0) == [np.inf]
    assert slopes(wy.special.logit, 0.0) == [np.inf]
    assert slopes(wy.special.i1, 0.0) == [0.5] == slopes(wy.special.i1e, 0.0)
    assert slopes(wy.special.i0e, 0.0) == [0.0]


@pytest.mark.parametrize("x", [-1e4, -200.0, -50.0, -12.5, -11.5, 0.0, 30.0])
def test_the_tail_of_the_normal_distribution(x: float) -> None:
    """The derivative of `log_ndtr` far below 0 is the quotient of a tiny density and a tiny probability."""
    leaf = wy.Parameter(np.float32(x))
    value, slope = wy.run([node := wy.special.log_ndtr(leaf), wy.grad(node, leaf)])
    np.testing.assert_allclose(value, special.log_ndtr(x), rtol=1e-6, atol=1e-37)
    ratio = np.exp(-0.5 * x * x - special.log_ndtr(x)) / np.sqrt(2 * np.pi) if x > -15 else -x + 1 / -x - 2 / (-x) ** 3
    np.testing.assert_allclose(slope, ratio, rtol=2e-5, atol=1e-37)


def test_errors() -> None:
    with pytest.raises(ValueError, match="n must be at least 0"):
        wy.special.polygamma(-1, 1.0)
    with pytest.raises(ValueError, match="d must be at least 1"):
        wy.special.multigammaln(1.0, 0)


def test_ufuncs_of_scipy_take_nodes() -> None:
    x = uniform(0.1, 0.9, 4)
    for name in ("gammaln", "digamma", "ndtri", "i0e", "entr"):
        np.testing.assert_allclose(wy.function(getattr(special, name))(x), getattr(special, name)(x), rtol=1e-13)
    np.testing.assert_allclose(wy.function(special.xlogy)(x, x), special.xlogy(x, x), rtol=1e-13)


def test_they_are_batched() -> None:
    x = uniform(0.5, 3.0, 4, 3)
    found = wy.vmap(lambda row: wy.special.logsumexp(wy.special.gammaln(row), b=row))(x)
    np.testing.assert_allclose(found, special.logsumexp(special.gammaln(x), axis=1, b=x), rtol=1e-12)

"""Gamma, beta, Dirichlet and Poisson draws: distributions beside SciPy, gradients beside JAX and PyTorch, engines."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from scipy import special, stats

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import DTypeError, NotDifferentiable, ShapeError
from wyrm.graph.traversal import topological_order
from wyrm.ops.elementwise.gamma_slope import LogGammaSlope
from wyrm.ops.random.gamma_draws import RandomPoisson, StandardLogGamma
from wyrm.ops.random.rejection import log_factorial
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


COUNT = 40_000
FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
CONCENTRATIONS = [0.05, 0.5, 1.0, 2.3, 40.0, 1e4]
RATES = [0.3, 4.0, 9.99, 10.0, 33.0, 1e5]


def at_step(node: Any, step: int = 0) -> Any:
    wy.random.set_step(step)
    return np.array(node.forward())


def by_engine(node: Any, engine: str, step: int = 0) -> Any:
    program = wy.compile(node, engine=engine)
    program.load_state_dict({"steps": step, "epochs": 0})
    return np.asarray(program())


@FLOATS
@pytest.mark.parametrize("concentration", CONCENTRATIONS)
def test_gamma_draws_follow_scipy_s_distribution(concentration: float, dtype: Any) -> None:
    values = at_step(wy.random.gamma((COUNT,), concentration, 2.0, dtype=dtype, seed=3, stream=2))
    assert values.dtype == dtype and (values >= 0.0).all()
    assert stats.kstest(values.astype(np.float64), stats.gamma(concentration, scale=2.0).cdf).pvalue > 1e-3


@FLOATS
@pytest.mark.parametrize(("a", "b"), [(0.01, 0.02), (0.5, 0.5), (2.0, 3.0), (200.0, 1.0)])
def test_beta_draws_follow_scipy_s_distribution(a: float, b: float, dtype: Any) -> None:
    values = at_step(wy.random.beta((COUNT,), a, b, dtype=dtype, seed=3, stream=2)).astype(np.float64)
    assert np.isfinite(values).all() and (values >= 0.0).all() and (values <= 1.0).all()
    if min(a, b) > 0.1:
        assert stats.kstest(values, stats.beta(a, b).cdf).pvalue > 1e-3
    assert abs(values.mean() - a / (a + b)) < 4.5 * stats.beta(a, b).std() / COUNT**0.5


def test_dirichlet_draws_follow_scipy_s_distribution() -> None:
    concentration = np.array([0.4, 2.0, 5.0])
    draws = at_step(wy.random.dirichlet((COUNT, 3), wy.Constant(concentration), seed=3, stream=2))
    np.testing.assert_allclose(draws.sum(-1), 1.0, rtol=1e-12)
    for i in range(3):
        marginal = stats.beta(concentration[i], concentration.sum() - concentration[i])
        assert stats.kstest(draws[:, i], marginal.cdf).pvalue > 1e-3
    expected = stats.dirichlet(concentration).cov()
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=0.002)


@pytest.mark.parametrize("rate", RATES)
def test_poisson_draws_follow_scipy_s_distribution(rate: float) -> None:
    values = at_step(wy.random.poisson((COUNT,), rate, seed=3, stream=2))
    assert values.dtype == np.int64
    low, high = stats.poisson(rate).ppf([0.005, 0.995])
    edges = np.unique(np.linspace(low, high, 15).astype(int))
    counts = np.histogram(values, np.r_[-1, edges, 1e12] + 0.5)[0]
    chances = np.diff(np.r_[0.0, stats.poisson(rate).cdf(edges), 1.0])
    assert stats.chisquare(counts, chances * COUNT).pvalue > 1e-3


def test_logarithms_of_factorials() -> None:
    k = np.arange(0.0, 400.0)
    np.testing.assert_allclose(log_factorial(k), special.gammaln(k + 1.0), rtol=4e-15, atol=1e-13)


def draws(dtype: Any, dims: Any = (COUNT // 8, 6)) -> list[Any]:
    spread = wy.Constant(np.array(CONCENTRATIONS, dtype))
    return [
        wy.random.gamma(dims, spread, 0.5, stream=1),
        wy.random.beta(dims, spread, 1.5, stream=2),
        wy.random.dirichlet(dims, spread, stream=3),
        wy.random.poisson(dims, wy.Constant(np.array([*RATES[:-1], 300.0], dtype)), stream=4),
    ]


@FLOATS
def test_every_engine_draws_the_same(dtype: Any) -> None:
    nodes = draws(dtype)
    programs = {engine: wy.compile(nodes, engine=engine) for engine in ("native", "jax")}
    for step in (0, 2**33 + 1):
        wy.random.set_step(step)
        expected = wy.run(nodes)
        for program in programs.values():
            program.load_state_dict({"steps": step, "epochs": 0})
        for want, found in zip(expected, programs["native"](), strict=True):
            np.testing.assert_allclose(found, want, rtol=4e-7 if dtype == np.float32 else 4e-15)
        limit = 1e-4 if dtype == np.float32 else 1e-11
        for position, (want, found) in enumerate(zip(expected, programs["jax"](), strict=True)):
            assert np.isclose(found, want, rtol=limit, atol=1e-30).mean() > 0.9997, position
    first, second = draws(dtype)[:2]
    assert not np.array_equal(at_step(first, 0), at_step(first, 1))
    assert not np.array_equal(
        at_step(wy.random.gamma((9,), 2.0, stream=5)), at_step(wy.random.gamma((9,), 2.0, stream=6))
    )
    assert second.dtype == dtype


def test_threads_and_parts_of_a_batch_draw_the_same() -> None:
    x = wy.Input(dims=(Batch(),), name="x", dtype=np.float64)
    weight = wy.Parameter(np.float64(0.0))
    drawn = wy.random.gamma(x.dims, x, stream=7) + wy.random.poisson(x.dims, x, stream=8).astype(np.float64)
    loss = ((drawn - weight) * x).square().mean()
    rates = np.linspace(0.5, 30.0, 64)
    found = []
    for threads in (1, 2):
        weight.set(0.0)
        program = wy.compile(loss, wy.optim.SGD([weight], 1e-4))
        options: Any = {} if threads == 1 else {"threads": 2, "mode": "synchronized"}
        program.epoch({x: rates}, batch_size=32, **options)
        found.append(float(weight))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_rows_of_vmap_and_steps_of_scan_draw_their_own_numbers() -> None:
    rows: Any = wy.vmap(lambda a: wy.random.gamma((), a))(wy.Constant(np.full(6, 2.0)))
    assert len(set(at_step(rows).tolist())) == 6
    shared: Any = wy.vmap(lambda a: wy.random.poisson((3,), 40.0).astype(np.float64) + a)(wy.Constant(np.zeros(5)))
    assert len(np.unique(at_step(shared))) > 6
    steps = wy.scan(lambda total, _: (total + 1.0, wy.random.beta((), 2.0, 3.0)), wy.Constant(0.0), None, length=5)[1]
    assert len(set(at_step(steps).tolist())) == 5
    for engine in ("native", "jax"):
        np.testing.assert_allclose(by_engine(rows, engine), at_step(rows), rtol=1e-6)
        np.testing.assert_allclose(by_engine(steps, engine), at_step(steps), rtol=1e-5)


@pytest.mark.parametrize("concentration", [0.01, 0.3, 1.0, 3.0, 50.0, 1e4, 3e6])
def test_implicit_gradients_are_those_of_jax_and_of_the_quantile(concentration: float) -> None:
    a = wy.Parameter(np.full(200, concentration))
    drawn = wy.random.gamma((200,), a, stream=1)
    found, value = wy.grad(drawn.sum(), a), at_step(drawn)
    slopes = at_step(found)
    normal = value > 1e-290
    of_jax: Any = jax.lax.random_gamma_grad
    with jax.enable_x64(True):
        expected = np.asarray(of_jax(np.full(normal.sum(), concentration), value[normal]))
    np.testing.assert_allclose(slopes[normal], expected, rtol=1e-8)
    inside = normal & (value > 1e-3)
    if inside.any():
        chance, step = special.gammainc(concentration, value[inside]), concentration * 1e-5
        keep = (chance > 1e-3) & (chance < 0.999)
        above, below = (special.gammaincinv(concentration + s, chance[keep]) for s in (step, -step))
        np.testing.assert_allclose(slopes[inside][keep], (above - below) / (2.0 * step), rtol=1e-5)


def test_expectations_have_the_right_gradients() -> None:
    """The mean of draws follows the mean of the distribution, whose derivative is known."""
    count = 5_000  # with standard errors of a third of the tolerances
    a, b, c = wy.Parameter(np.float64(2.0)), wy.Parameter(np.float64(3.0)), wy.Parameter(np.array([1.0, 2.0, 3.0]))
    first = (wy.random.dirichlet((count, 3), c, stream=1) * np.array([1.0, 0.0, 0.0])).sum(-1).mean()
    wy.random.set_step(0)
    *found, of_dirichlet = wy.run(
        [
            *wy.grad(wy.random.gamma((count,), a, b, stream=1).square().mean(), [a, b]),
            *wy.grad(wy.random.beta((count,), a, b, stream=1).mean(), [a, b]),
            wy.grad(first, c),
        ]
    )
    np.testing.assert_allclose(found[:2], [9 * (2 * 2 + 1), 2 * 3 * 2 * 3], rtol=0.05)
    np.testing.assert_allclose(found[2:], [3 / 25, -2 / 25], rtol=0.03)
    np.testing.assert_allclose(of_dirichlet, [5 / 36, -1 / 36, -1 / 36], rtol=0.05)
    rate = wy.Parameter(np.full(3, 2.0))
    counted = wy.random.poisson((3,), rate, stream=1)
    assert not at_step(wy.grad(counted.astype(np.float64).square().sum(), rate)).any()


def test_gradients_of_gammas_are_pytorch_s() -> None:
    value, concentration = np.array([0.3, 1.0, 5.0, 0.02]), np.array([0.7, 1.0, 4.0, 0.2])
    of_torch: Any = torch._standard_gamma_grad
    expected = of_torch(torch.tensor(concentration), torch.tensor(value)).numpy()
    slope = LogGammaSlope(wy.Constant(concentration), wy.Constant(np.log(value)))
    np.testing.assert_allclose(slope.forward() * value, expected, rtol=1e-4)  # PyTorch approximates
    check_grads(LogGammaSlope(wy.Constant(concentration), wy.Parameter(np.log(value))).sum())


def test_gradients_of_many_gammas_are_as_exact_as_that_of_one() -> None:
    """The continued fraction ends where terms are rounding, which a few of many gammas always exceeded a little."""
    concentration = np.linspace(1.4133801065410303, 5.0, 500)
    logarithm = np.linspace(0.9110523087571413, 4.0, 500)
    slope = LogGammaSlope(wy.Constant(concentration), wy.Constant(logarithm))
    np.testing.assert_allclose(slope.forward()[0], 0.5915698123216847, rtol=2e-14)  # mpmath, 50 digits


def test_a_second_derivative_by_the_concentration_is_refused() -> None:
    a = wy.Parameter(np.full(3, 2.0))
    slope = wy.grad(wy.random.gamma((3,), a).sum(), a)
    with pytest.raises(NotDifferentiable, match="a first derivative with respect to its concentration only"):
        wy.grad(slope.sum(), a)


W: Any = wy
ERRORS: list[tuple[Any, type[Exception], str]] = [
    (lambda: W.random.gamma((3,), 0.0), ValueError, "random.gamma: concentration must be above 0, not 0"),
    (lambda: W.random.gamma((3,), -1.0), ValueError, "random.gamma: concentration must be finite and at least 0"),
    (lambda: W.random.beta((3,), 1.0, float("nan")), ValueError, "random.beta: b must be finite"),
    (lambda: W.random.poisson((3,), -1.0), ValueError, "random.poisson: rate must be finite and at least 0"),
    (lambda: W.random.gamma((3,), "2"), DTypeError, "concentration must be a number or a node, not str"),
    (lambda: W.random.dirichlet((), 1.0), ShapeError, "dims needs an axis"),
    (lambda: W.random.gamma((3,), wy.Constant(np.ones(4))), ShapeError, "3 against 4"),
    (lambda: W.random.gamma(2.0, 3.0), TypeError, "the axes of the draws come first"),
    (lambda: W.random.poisson((3,), lam=2.0), TypeError, "use rate="),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[message for _, _, message in ERRORS])
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message if "\\" in message else re.escape(message)):
        call()


def test_parameters_out_of_range_in_a_node() -> None:
    values = wy.Input(np.array([-1.0, np.nan, 0.0, 2.0]), finite=False)
    drawn, counts = wy.random.gamma((4,), values, stream=1), wy.random.poisson((4,), values, stream=1)
    for engine in ("numpy", "native", "jax"):
        found = at_step(drawn) if engine == "numpy" else by_engine(drawn, engine)
        assert np.isnan(found[:2]).all() and found[2] == 0.0 and found[3] > 0.0
        counted = at_step(counts) if engine == "numpy" else by_engine(counts, engine)
        assert counted[:3].tolist() == [0, 0, 0]


@FLOATS
@pytest.mark.parametrize("count", [1, 255, 256, 257, 5000])
def test_native_draws_by_blocks_are_those_of_the_reference_to_the_last_bit(count: int, dtype: Any) -> None:
    values = np.exp(np.random.default_rng(count).normal(0.0, 3.0, count)).astype(dtype)
    values[::7], values[3::101], values[4::101] = 0.7, np.nan, -1.0
    for node in (
        wy.random.gamma((count,), wy.Constant(values), stream=1),
        wy.random.beta((count,), 2.0, wy.Constant(values), stream=2),
        wy.random.poisson((count,), wy.Constant(values * 9.0), stream=3),
    ):
        draws = [each for each in topological_order([node]) if isinstance(each, StandardLogGamma | RandomPoisson)]
        assert draws
        for draw in draws:
            expected = at_step(draw, 5)
            np.testing.assert_array_equal(by_engine(draw, "native", 5), expected)

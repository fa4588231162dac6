"""Random nodes: distributions, independence, equality of engines, loops, `vmap`, gradients and errors."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import pytest
from scipy import stats

import wyrm as wy
from wyrm.errors import DTypeError, ShapeError
from wyrm.ops.random import standard_draws


class Batch(wy.Dim): ...


class Latent(wy.Dim): ...


def at_step(node: Any, step: int = 0) -> Any:
    wy.random.set_step(step)
    return np.array(node.forward())


def natively(nodes: Any, step: int = 0) -> Any:
    program = wy.compile(nodes)
    program.load_state_dict({"steps": step, "epochs": 0})
    return program()


CONTINUOUS: list[tuple[Any, Any]] = [
    (wy.random.normal, stats.norm),
    (wy.random.uniform, stats.uniform),
    (wy.random.exponential, stats.expon),
    (wy.random.laplace, stats.laplace),
    (wy.random.gumbel, stats.gumbel_r),
]
FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@FLOATS
@pytest.mark.parametrize(("draw", "distribution"), CONTINUOUS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_continuous_distribution(draw: Any, distribution: Any, dtype: Any) -> None:
    values = draw((300, 700), dtype=dtype, seed=1, stream=2).forward().ravel()
    assert values.dtype == dtype
    assert np.isfinite(values).all()
    assert stats.kstest(values, distribution.cdf).pvalue > 1e-3
    mean, variance, skew, kurtosis = map(float, distribution.stats(moments="mvsk"))
    standard = (values.astype(np.float64) - mean) / variance**0.5
    moments = np.mean(standard), np.mean(standard**2), np.mean(standard**3), np.mean(standard**4)
    np.testing.assert_allclose(moments, (0.0, 1.0, skew, kurtosis + 3.0), atol=0.1, rtol=0.1)


@FLOATS
def test_location_and_scale(dtype: Any) -> None:
    for draw in (wy.random.normal, wy.random.laplace, wy.random.gumbel):
        standard = at_step(draw((50,), dtype=dtype, stream=2))
        np.testing.assert_allclose(at_step(draw((50,), 3.0, 2.0, dtype=dtype, stream=2)), 3.0 + 2.0 * standard, 1e-6)
    wide = at_step(wy.random.uniform((500,), -2.0, 5.0, dtype=dtype, stream=2))
    assert wide.min() < -1.9
    assert 4.9 < wide.max() < 5.0
    np.testing.assert_array_equal(wy.random.uniform((3,), 2.0, 2.0).forward(), 2.0)
    np.testing.assert_array_equal(wy.random.normal((3,), 2.0, 0.0).forward(), 2.0)
    assert wy.random.normal((3,), wy.Constant(np.zeros(3))).dtype == np.float64


def test_extreme_words_give_finite_draws() -> None:
    """The smallest and the largest probability beyond a draw, in both halves of the distribution."""
    for dtype, bits in ((np.float32, 32), (np.float64, 64)):
        tails = np.array([2.0 ** -(bits + 1), 0.5], dtype)
        for values in (
            standard_draws._normal_quantile32(tails)
            if dtype == np.float32
            else standard_draws._normal_quantile64(tails),
            -standard_draws.log(-standard_draws.log_of_rest(tails)),
            -standard_draws.log(-standard_draws.log(tails)),
        ):
            assert np.isfinite(values).all()
            assert values.dtype == dtype
        exact = np.longdouble(tails)
        for mine, expected in (
            (standard_draws.log(tails), np.log(exact)),
            (standard_draws.log_of_rest(tails), np.log1p(-exact)),
        ):
            assert (abs(mine - expected) <= np.spacing(abs(mine))).all()


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_bernoulli(probability: float) -> None:
    count = at_step(wy.random.bernoulli((100_000,), probability, stream=1)).sum()
    assert abs(count - 100_000 * probability) < 4 * (100_000 * probability * (1 - probability)) ** 0.5 + 1e-9
    node = wy.Constant(np.full((4, 100), probability))
    assert wy.random.bernoulli(node.dims, node).dtype == np.bool_
    many = wy.random.bernoulli((100, 4, 100), node, stream=1)
    assert abs(at_step(many).mean() - probability) < 0.01


def test_categorical_follows_the_softmax_of_the_logits() -> None:
    logits = np.array([0.5, -1.0, -np.inf, 2.0, 0.0])
    draws = wy.random.categorical(wy.Constant(np.tile(logits, (40_000, 1))), stream=3).forward()
    counts = np.bincount(draws, minlength=5)
    assert counts[2] == 0
    weights = np.exp(logits)
    assert stats.chisquare(counts[weights > 0], 40_000 * (weights / weights.sum())[weights > 0]).pvalue > 1e-3


@pytest.mark.parametrize(("low", "high"), [(0, 7), (-5, 2), (10, 11), (-(2**40), -(2**40) + 6)])
def test_randint_is_uniform(low: int, high: int) -> None:
    draws = wy.random.randint((20_000,), low, high, stream=3).forward()
    assert draws.dtype == np.int64
    counts = np.bincount(draws - low, minlength=high - low)
    assert counts.sum() == 20_000
    assert len(counts) == high - low
    assert high - low == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_all_permutations_are_equally_likely() -> None:
    draws = wy.random.permutation((12_000, 4), stream=3).forward()
    assert (np.sort(draws, axis=1) == np.arange(4)).all()
    assert stats.chisquare(np.unique(draws @ 4 ** np.arange(4), return_counts=True)[1]).pvalue > 1e-3
    assert len(np.unique(draws, axis=0)) == 24
    shuffled = wy.Constant(np.arange(10.0)).take(wy.random.permutation((10,)), axis=0).forward()
    assert sorted(shuffled) == list(range(10))


def _one_of_each(stream: int, dims: Any = (33, 7), dtype: Any = np.float32) -> list[Any]:
    ones = wy.Constant(np.ones((33, 7), dtype))
    return [
        *(draw(dims, dtype=dtype, seed=-2, stream=stream) for draw, _ in CONTINUOUS),
        wy.random.bernoulli(dims, 0.3, stream=stream),
        wy.random.categorical(ones, stream=stream),
        wy.random.randint(dims, -3, 50, stream=stream),
        wy.random.permutation(dims, stream=stream),
        ones.take(wy.random.randint((5,), 0, 33, stream=stream), axis=0),
        wy.random.permutation(dims, stream=stream),
    ]


@FLOATS
@pytest.mark.parametrize("dims", [(33, 7), (), (0, 3), (3, 0), (5,)])
def test_compiled_programs_draw_the_same_bits(dtype: Any, dims: tuple[int, ...]) -> None:
    nodes = _one_of_each(3, dims, dtype) if dims else _one_of_each(3, (1,), dtype)
    program = wy.compile(nodes)
    for step in (0, 1, 2**31, 2**33 + 1):
        program.load_state_dict({"steps": step, "epochs": 0})
        wy.random.set_step(step)
        expected = wy.run(nodes)
        for found, value in zip(program(), expected, strict=True):
            np.testing.assert_array_equal(found, value)


def test_nodes_and_steps_and_seeds_are_independent() -> None:
    draws = [
        at_step(wy.random.normal((20_000,), seed=seed, stream=stream), step)
        for seed in (0, 1)
        for stream in (4, 5)
        for step in (0, 1, 2**40)
    ]
    correlations = np.corrcoef(draws) - np.eye(len(draws))
    assert abs(correlations).max() < 4.5 / 20_000**0.5
    first, second = wy.random.normal((5,)), wy.random.normal((5,))  # each has a stream of its own
    assert not np.equal(*wy.run([first, second])).any()
    assert not np.equal(at_step(first, 0), at_step(first, 1)).any()
    np.testing.assert_array_equal(at_step(first, 3), at_step(first, 3))


def test_each_call_and_each_training_step_draws_anew() -> None:
    noise = wy.random.normal((3,))
    assert not np.equal(noise.forward(), noise.forward()).any()
    program = wy.compile(noise)
    assert not np.equal(program(), program()).any()


def test_an_axis_takes_its_size_from_the_data() -> None:
    x = wy.Input(np.zeros((2, 3), np.float32), dims=(Batch(), Latent(3)))
    node = x + wy.random.normal((Batch(), Latent(3)), stream=1)
    program = wy.compile(node)
    for rows in (2, 5):
        data = np.zeros((rows, 3), np.float32)
        x.set(data)
        program.load_state_dict({"steps": 0, "epochs": 0})
        wy.random.set_step(0)
        np.testing.assert_array_equal(program({x: data}), node.forward())
    with pytest.raises(ShapeError, match="axis Batch has no size: no input of this graph binds it"):
        wy.random.normal((Batch(), 2)).forward()


def test_gradients_reach_location_and_scale() -> None:
    loc, scale = wy.Parameter(np.array([1.0, 2.0])), wy.Parameter(np.array(0.5))
    draws = wy.random.normal((4, 2), loc, scale, stream=1)
    wy.testing.check_grads((draws * draws).sum())
    gradient = wy.grad(draws.sum(), scale)
    wy.random.set_step(0)
    value, gradient_value = wy.run([draws, gradient])
    np.testing.assert_allclose(gradient_value, ((value - loc.value) / 0.5).sum())
    np.testing.assert_allclose(natively(gradient), gradient_value, rtol=1e-12)


ENGINES = pytest.mark.parametrize("engine", ["reference", "native"])


@ENGINES
def test_each_step_of_a_scan_draws_anew(engine: Any) -> None:
    def steps(w: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            noise = wy.random.normal((8,), dtype=np.float64, stream=1)
            dropped = (w * carry + noise).dropout(0.5, stream=2)
            rows = wy.random.index(1000, (8,), stream=3)
            return carry * 0.5 + dropped, (noise, (dropped == 0.0).astype(np.float64), rows, carry)

        return wy.scan(step, wy.Constant(np.ones(8)), length=6)

    wy.random.set_step(0)
    last, (noise, dropped, rows, _) = wy.function(steps, engine=engine)(np.full(8, 0.5))
    for values in (noise, rows):
        assert len(np.unique(values)) > 40
    assert len(np.unique(dropped, axis=0)) > 3
    wy.random.set_step(0)
    other = wy.function(steps)(np.full(8, 0.5))
    np.testing.assert_allclose(last, other[0], rtol=1e-12)
    np.testing.assert_array_equal(noise, other[1][0])
    np.testing.assert_array_equal(rows, other[1][2])


def test_the_gradient_of_a_scan_draws_as_the_scan_did() -> None:
    w = wy.Parameter(np.array([0.5, -0.3, 1.2]))

    def step(carry: Any, _: Any) -> Any:
        carry = (w * carry + wy.random.normal((3,), dtype=np.float64)).dropout(0.3).tanh()
        return carry, carry

    last, made = wy.scan(step, wy.Constant(np.ones(3)), length=5)
    loss = (last * last).sum() + (made * w).sum()
    wy.testing.check_grads(loss)
    gradient = wy.grad(loss, w)
    wy.random.set_step(0)
    expected = wy.run([loss, gradient])
    for found, value in zip(natively([loss, gradient]), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-10)


def test_noise_from_outside_of_a_loop_is_the_same_in_all_steps() -> None:
    noise = wy.random.normal((4,))
    _, made = wy.scan(lambda carry, _: (carry, noise + carry), wy.Constant(np.zeros(4, np.float32)), length=3)
    found = made.forward()
    np.testing.assert_array_equal(found, np.broadcast_to(found[0], found.shape))


@ENGINES
@pytest.mark.parametrize("max_steps", [None, 50])
def test_each_step_of_a_while_loop_draws_anew(engine: Any, max_steps: int | None) -> None:
    def walk(start: Any) -> Any:
        def step(carry: Any) -> Any:
            draw = wy.random.uniform((), stream=1, dtype=np.float64)
            return carry[0] + draw, carry[1] + draw * draw, carry[2] + 1.0

        return wy.while_loop(lambda carry: carry[0] < 10.0, step, (start, start, start), max_steps=max_steps)

    wy.random.set_step(0)
    total, squares, count = wy.function(walk, engine=engine)(np.array(0.0))
    assert squares / count - (total / count) ** 2 > 0.05  # the variance of equal draws is 0
    wy.random.set_step(0)
    np.testing.assert_allclose(wy.function(walk)(np.array(0.0)), (total, squares, count), rtol=1e-14)


def test_nested_loops_draw_anew_in_every_step_of_both() -> None:
    def outer(carry: Any, _: Any) -> Any:
        return wy.scan(lambda inner, _: (inner, wy.random.uniform((), stream=1)), carry, length=5)

    node = wy.scan(outer, wy.Constant(0.0), length=4)[1]
    values = at_step(node)
    assert len(np.unique(values)) == 20
    np.testing.assert_array_equal(natively(node), values)
    assert not np.isin(at_step(node, 1), values).any()


@ENGINES
def test_each_row_of_vmap_draws_its_own(engine: Any) -> None:
    def draw(x: Any) -> Any:
        nodes = _one_of_each(5)
        dropped = (x.dropout(0.5, stream=1), wy.Constant(np.ones(20)).add_dropout(x, 0.5, stream=2))
        loop = wy.scan(lambda carry, _: (carry, wy.random.normal((4,), stream=3)), x.sum(), length=2)[1]
        chosen = wy.cond(x.sum() > 0.0, lambda: wy.random.normal((4,), stream=7), lambda: wy.Constant(np.zeros(4)))
        return (*nodes[:-2], *dropped, loop, chosen, wy.random.index(10_000, (4,), stream=4))

    wy.random.set_step(0)
    found = wy.vmap(wy.function(draw, engine=engine))(np.ones((3, 20)))
    for values in found:
        assert values.shape[0] == 3
        assert not np.array_equal(values[0], values[1])
        assert not np.array_equal(values[1], values[2])
    wy.random.set_step(0)
    for values, other in zip(found, wy.vmap(draw)(np.ones((3, 20))), strict=True):
        np.testing.assert_array_equal(values, other)


def test_vmap_leaves_noise_from_outside_as_it_is() -> None:
    noise = wy.random.normal((4,))
    found = wy.vmap(lambda x: x + noise)(np.zeros((3, 4), np.float32))
    np.testing.assert_array_equal(found, np.broadcast_to(found[0], found.shape))


def test_vmap_of_value_and_jacobian_uses_one_mask_for_each_row() -> None:
    def both(x: Any) -> Any:
        def drop(y: Any) -> Any:
            return y.dropout(0.5, stream=2).add_dropout(y, 0.5, stream=3)

        return drop(x), wy.jacobian(drop)(x), wy.grad(drop(x).sum(), x)

    value, jacobian, gradient = wy.vmap(both)(np.ones((3, 10)))
    np.testing.assert_array_equal(np.diagonal(jacobian, axis1=1, axis2=2), value)
    np.testing.assert_array_equal(gradient, value)
    assert not np.array_equal(value[0], value[1])


def test_dims_are_typed() -> None:
    assert_type(wy.random.normal((Batch, Latent(8))), wy.Node[Any, tuple[Batch, Latent]])
    assert_type(wy.random.uniform((Batch(), 3), 1.0, high=2.0), wy.Node[Any, tuple[Batch, Any]])
    assert_type(wy.random.randint((Batch(),), 0, 5), wy.IndexNode[tuple[Batch]])
    assert_type(wy.random.permutation((Batch(),)), wy.IndexNode[tuple[Batch]])
    x = wy.Input(dims=(Batch(), Latent(8)))
    assert_type(wy.random.normal(x.dims), wy.Node[Any, tuple[Batch, Latent]])
    assert_type(wy.random.normal_like(x), wy.Node[Any, tuple[Batch, Latent]])
    assert_type(wy.random.uniform_like(x, -1.0), wy.Node[Any, tuple[Batch, Latent]])
    assert_type(wy.random.categorical(x), wy.IndexNode[tuple[Batch]])
    assert wy.random.normal_like(wy.Constant(np.zeros(3))).dtype == np.float64


WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: wy.random.bernoulli((3,), 1.5), ValueError, r"random.bernoulli: probability must be in \[0, 1\], not 1.5"),
    (lambda: wy.random.bernoulli((3,), -0.1), ValueError, r"in \[0, 1\], not -0.1"),
    (lambda: wy.random.bernoulli((3,), float("nan")), ValueError, r"in \[0, 1\], not nan"),
    (
        lambda: wy.random.normal((3,), 0.0, -1.0),
        ValueError,
        "random.normal: scale must be finite and at least 0, not -1",
    ),
    (lambda: wy.random.normal((3,), np.inf), ValueError, "random.normal: loc must be finite, not inf"),
    (lambda: wy.random.exponential((3,), -2.0), ValueError, "random.exponential: scale must be finite and at least 0"),
    (lambda: wy.random.uniform((3,), 2.0, 1.0), ValueError, "random.uniform: high must be at least low, 2, not 1"),
    (lambda: wy.random.randint((3,), 5, 5), ValueError, r"random.randint: high - low must be in \[1, 2\*\*32\], not 0"),
    # The mistake that mypy finds.
    (
        lambda: wy.random.normal(None),  # type: ignore[call-overload]
        ShapeError,
        "random.normal: dims must be the axes of the draws",
    ),
    (lambda: wy.random.normal((-3,)), ShapeError, "random.normal: an axis must have at least 0 elements"),
    # As above.
    (
        lambda: wy.random.normal((3,), "1"),  # type: ignore[call-overload]
        DTypeError,
        "random.normal: loc must be a number or a node, not str",
    ),
    (
        lambda: wy.random.normal((3,), wy.Constant(np.zeros((2, 3)))),
        ShapeError,
        "loc is constant .* which has axes that",
    ),
    (lambda: wy.random.normal((1,), wy.Constant(np.zeros(3))), ShapeError, "which has axes that the draws"),
    (lambda: wy.random.normal((3,), dtype=np.int32), DTypeError, "dtype must be float32 or float64, not int32"),
    # As above.
    (
        lambda: wy.random.normal((3,), seed=1.5),  # type: ignore[call-overload]
        DTypeError,
        "random.normal: seed must be an integer, not 1.5",
    ),
    (lambda: wy.random.permutation(()), ShapeError, "a permutation needs an axis"),
    # As above.
    (lambda: wy.random.categorical(wy.Constant(1.0)), ShapeError, "needs? an axis"),  # type: ignore[arg-type]
    (lambda: wy.random.categorical(wy.Constant(np.zeros((3, 0)))), ShapeError, "axis of size 0"),
]


@pytest.mark.parametrize(("build", "error", "words"), WRONG)
def test_a_wrong_argument_is_refused(build: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build()


@pytest.mark.parametrize("rows", [8, 7])
def test_threads_draw_what_one_thread_draws(rows: int) -> None:
    """In synchronized mode each thread computes a part of the batch, with the numbers for its rows of the batch."""
    data = np.random.default_rng(0).normal(size=(rows * 3 - 1, 5))

    def trained(threads: int) -> Any:
        batch = Batch()
        x = wy.Input(dims=(batch, 5), dtype=np.float64)
        w, scale = wy.Parameter(np.ones(5)), wy.Parameter(np.ones((2, 5)))
        noise = wy.random.normal((batch, 2, 5), 0.0, scale, dtype=np.float64, stream=1)
        mask = wy.random.bernoulli((batch, 5), 0.7, stream=2).astype(np.float64)
        order = wy.random.permutation((batch, 5), stream=3).astype(np.float64)
        own = wy.random.normal((5,), dtype=np.float64, stream=5)  # the same for all rows
        hidden = ((x * w * mask + own).dropout(0.4, stream=4) + order).expand_dims(1) + noise
        loss: Any = (hidden * hidden).mean(axis=(1, 2)).mean()
        program = wy.compile(loss, wy.optim.SGD([w, scale], 0.1))
        losses = [
            program.epoch({x: data}, batch_size=rows, threads=threads, mode="synchronized", shuffle=False)
            for _ in range(2)
        ]
        return losses, w.value, scale.value

    for found, expected in zip(trained(2), trained(1), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)

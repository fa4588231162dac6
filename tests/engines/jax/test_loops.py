"""Loops and branches lowered to JAX: values and gradients are those of the reference engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.test_every_op import lowered
from wyrm.engines.jax.lower import Lowerer
from wyrm.graph.schedule import Schedule

random = np.random.default_rng(0)


def check(outputs: Sequence[Any], rtol: float = 1e-10) -> list[np.ndarray]:
    """Assert that outputs lowered to JAX equal those of the reference engine in the next step; return them."""
    expected = wy.run(outputs)
    with jax.enable_x64(True):
        values = lowered(outputs)
    for value, reference in zip(values, expected, strict=True):
        assert value.dtype == reference.dtype
        np.testing.assert_allclose(value, reference, rtol=rtol, atol=1e-12)
    return values


def with_gradients(output: Any, *wrt: Any) -> list[Any]:
    """Return a node, its gradients and gradients of their squares."""
    total = (output * output).sum()
    first = wy.grad(total, list(wrt))
    squares: Any = sum((x * x).sum() for x in first)
    return [output, *first, *wy.grad(squares, list(wrt))]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_scan(length: int, reverse: bool) -> None:
    xs, start, weight = (wy.Parameter(0.5 * random.normal(size=s)) for s in ((length, 3), (3,), (3, 3)))

    def step(h: Any, x: Any) -> Any:
        h = (h @ weight + x).tanh()
        return h, h * x

    last, stacked = wy.scan(step, start, xs, reverse=reverse)
    check([*with_gradients(last, start, weight), stacked])
    if length:
        check(with_gradients(stacked, xs, weight))


def test_a_thousand_steps_compile_to_one_loop() -> None:
    def text(length: int) -> str:
        x = wy.Parameter(np.array(0.1))
        last, _ = wy.scan(
            lambda h, t: ((h * 0.99 + x * t).tanh(), h), wy.Constant(np.array(0.0)), np.linspace(0.0, 1.0, length)
        )
        outputs = [last, *wy.grad(last, [x])]
        schedule = Schedule(outputs)
        if length == 1000:
            check(outputs)
        with jax.enable_x64(True):
            return str(jax.jit(lambda x: Lowerer().run(schedule, {schedule.leaves[0]: x})).lower(0.1).as_text())

    assert text(10).count("\n") == text(1000).count("\n")


@pytest.mark.parametrize("start", [1.0, 60.0])
def test_while_loop_with_gradients(start: float) -> None:
    x = wy.Parameter(np.array([start, 0.5]))
    last = wy.while_loop(lambda x: (x * x).sum() < 50.0, lambda x: x * 1.5, x, max_steps=20)
    check(with_gradients(last, x))


def test_while_loop_without_bound_counts_in_integers() -> None:
    def collatz(state: Any) -> Any:
        n, count = state
        return wy.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n), count + 1

    steps = wy.while_loop(lambda state: state[0] != 1, collatz, (wy.IndexInput(27), wy.IndexInput(0)))[1]
    (found,) = check([steps])
    assert found == 111


@pytest.mark.parametrize("value", [-2.0, 3.0])
def test_cond(value: float) -> None:
    x = wy.Parameter(np.array([value, 0.5]))
    weight = wy.Parameter(np.array(1.5))
    result = wy.cond(x.sum() > 0.0, lambda x: (x * weight).exp(), lambda x: x * x, x)
    check(with_gradients(result, x, weight))


def test_only_the_chosen_branch_is_computed() -> None:
    x = wy.Parameter([1.0, 2.0])
    schedule = Schedule([wy.cond(x.sum() > 0.0, lambda x: x.exp(), lambda x: x.tanh(), x)])
    text = str(jax.make_jaxpr(lambda x: Lowerer().run(schedule, {schedule.leaves[0]: x}))(np.ones(2, np.float32)))
    assert text.count("cond[") == 2


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 5])
def test_switch(index: int) -> None:
    x = wy.Parameter(np.array([0.3, 0.5]))
    result = wy.switch(wy.IndexInput(index), [lambda x: x.exp(), lambda x: x * x, lambda x: x.tanh()], x)
    check(with_gradients(result, x))


def test_loops_inside_loops_and_branches() -> None:
    weight, xs = wy.Parameter(np.array(0.3)), wy.Parameter(random.normal(size=(4, 3)))

    def outer(total: Any, row: Any) -> Any:
        inner, _ = wy.scan(lambda h, x: ((h * weight + x).tanh(), None), total, row)
        return wy.cond(inner > 0.0, lambda x: x * weight, lambda x: x - weight, inner), inner

    last, stacked = wy.scan(outer, wy.Constant(np.array(0.1)), xs)
    check([*with_gradients(last, weight, xs), stacked])


# --- random nodes -----------------------------------------------------------------------------------------------------


def dropping(x: Any, weight: Any) -> Any:
    init = wy.Constant(np.ones(50, x.dtype))
    return wy.scan(lambda h, row: ((h * weight + row).dropout(0.4, 1, 2), h), init, x)[1]


@pytest.mark.parametrize("step", [0, 5, 2**32 + 7])
def test_dropout_in_a_scan_draws_in_each_step(step: int) -> None:
    xs, weight = wy.Parameter(random.normal(size=(6, 50))), wy.Parameter(np.array(0.7))
    wy.random.set_step(step)
    result, *_ = check(with_gradients(dropping(xs, weight), xs, weight))
    assert len({tuple(row == 0.0) for row in result[1:]}) == 5


def test_dropout_in_a_scan_of_float32() -> None:
    xs, weight = wy.Parameter(random.normal(size=(6, 50)).astype(np.float32)), wy.Parameter(0.7)
    wy.random.set_step(2**40)
    output = dropping(xs, weight)
    expected = output.forward()
    (found,) = lowered([output])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found == 0.0, expected == 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_random_nodes_under_vmap_draw_for_each_row() -> None:
    xs, weight = wy.Parameter(random.normal(size=(3, 6, 50))), wy.Parameter(np.array(0.7))
    mapped = wy.vmap(lambda x: (x * weight).dropout(0.4, 1, 3) + wy.random.normal((50,), seed=4, stream=9))
    check(with_gradients(mapped(xs), xs, weight))
    looped = wy.vmap(lambda x: dropping(x, weight))
    check(with_gradients(looped(xs), xs, weight), rtol=1e-9)


@pytest.mark.parametrize("wide", [False, True])
def test_weighted_draws_in_a_scan_are_exact(wide: bool) -> None:
    weights = random.uniform(size=100_000)
    weights[:10] = weights[50_000:50_010] = weights[-10:] = 0.0

    def step(total: Any, _: Any) -> Any:
        rows = wy.random.index(weights.size, (200,), weights=weights, seed=1, stream=2)
        return total + 1.0, rows

    rows = wy.scan(step, wy.Constant(np.float32(0.0)), length=20)[1]
    rows = rows if wide else rows.astype(np.float32)
    if wide:
        check([rows])
    expected = rows.forward()
    np.testing.assert_array_equal(lowered([rows])[0], expected)

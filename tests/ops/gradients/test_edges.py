"""Gradients at zeros: powers, loops with vanishing gradients, tables without columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


def derivatives(order: tuple[int, ...]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a derivative of `x ** y`, ours and JAX's, with respect to the arguments in this order."""

    def power(x: Any, y: Any) -> Any:
        return x**y

    ours: Any = wy.function(power)
    theirs: Any = power
    for position in order:
        ours, theirs = ours.grad(position), jax.grad(theirs, position)
    return ours, theirs


@pytest.mark.parametrize("order", [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1), (0, 0, 1), (0, 1, 0), (1, 0, 1)])
def test_derivatives_of_powers_are_those_of_jax(order: tuple[int, ...]) -> None:
    ours, theirs = derivatives(order)
    for x in (0.3, 1.0, 2.0, -2.0, np.inf):
        for y in (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, 1.5):
            with jax.enable_x64(True), np.errstate(all="ignore"):
                np.testing.assert_allclose(
                    ours(np.float64(x), np.float64(y)), theirs(x, y), rtol=1e-9, err_msg=f"{x} ** {y}"
                )


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_mixed_derivative_at_the_exponent_0_is_one_over_x(order: tuple[int, ...]) -> None:
    second = derivatives(order)[0]
    for x in (0.25, 2.0, 1e-30, 1e30):
        assert float(second(np.float64(x), np.float64(0.0))) == pytest.approx(1.0 / x)


def test_powers_at_zero_have_no_nan_where_there_is_a_limit() -> None:
    x, y = wy.Parameter(np.array([0.0, -0.0, 5e-324, 0.0, 0.0])), wy.Parameter(np.array([0.0, 0.0, 0.0, 1.0, 2.0]))
    by_x, by_y = wy.grad((x**y).sum(), [x, y])
    assert by_x.forward().tolist() == [0.0, 0.0, 0.0, 1.0, 0.0]
    assert by_y.forward()[[0, 1, 3, 4]].tolist() == [0.0, 0.0, 0.0, 0.0]
    below: Any = wy.Parameter(np.array(-1.0))
    assert wy.grad(wy.Constant(np.array(0.0)) ** below, below).forward() == -np.inf
    for gradient in wy.grad(by_x.sum(), [x, y]):
        assert not np.isnan(gradient.forward()).any()


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 0.5, -1.0])
def test_powers_by_numbers_to_the_third_derivative(exponent: float) -> None:
    function: Any = wy.function(lambda x: x**exponent)
    expected, power, values = 1.0, exponent, np.array([0.5, 2.0, 0.0])
    for _ in range(3):
        function = function.grad()
        expected, power = expected * power, power - 1.0
        with np.errstate(all="ignore"):
            wanted = expected * values**power if expected else np.zeros(3)
            np.testing.assert_allclose([float(function(x)) for x in values], wanted)


def test_powers_of_two_nodes_to_second_order() -> None:
    x = wy.Parameter(np.array([0.5, 2.0, 1.5]))
    check_grads((x ** wy.Parameter(np.array([0.0, 1.0, -2.0]))).sum())


LOOPS: dict[str, Callable[[Any], Any]] = {
    "cond": lambda x: wy.cond(x > 0.0, lambda x: 2.0 * x, lambda x: -x, x),
    "cond of numbers": lambda x: wy.cond(x > 0.0, lambda x: x * 0.0 + 2.0, lambda x: x * 0.0, x),
    "while": lambda x: wy.while_loop(lambda c: c < 10.0, lambda c: c + 3.0, x, max_steps=5),
    "scan": lambda x: wy.scan(lambda c, _: (c * 2.0, None), x, None, 3)[0],
}


@pytest.mark.parametrize("name", LOOPS)
def test_first_and_second_gradients_of_mapped_loops(name: str) -> None:
    rows = np.array([1.0, 2.0, -3.0])
    loop = LOOPS[name]
    first = wy.vmap(wy.function(loop).grad())
    mapped: Any = wy.function(lambda x: wy.vmap(loop)(x).sum())
    assert mapped.grad()(rows).tolist() == first(rows).tolist()
    assert wy.function(lambda x: mapped.grad()(x).sum()).grad()(rows).tolist() == [0.0, 0.0, 0.0]


def test_the_gradient_of_a_table_without_columns_has_its_shape() -> None:
    table, rows = wy.Parameter(np.ones((5, 0))), wy.IndexInput([[0, 2], [0, 1]])
    loss = table.index(rows).sum() + table.index(rows).sum() + table.sum()
    loss.backward()
    assert table.gradient.shape == wy.grad(table.index(rows).sum(), table).forward().shape == (5, 0)
    along = wy.Parameter(np.ones((0, 5)))
    assert wy.grad(along.take([0, 1], axis=1).sum(), along).forward().shape == (0, 5)


def test_threads_share_a_gradient_beside_a_table_without_columns() -> None:
    table, weight, rows = wy.Parameter(np.ones((5, 0))), wy.Parameter(np.array(2.0)), wy.IndexInput(dims=(Batch(),))
    loss = table.index(rows).sum() + weight * weight
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.25))
    assert program.backward({rows: [0, 1, 2, 3]}, threads=2) == pytest.approx(4.0)
    assert table.gradient.shape == (5, 0) and weight.gradient == 4.0

"""`switch`, and loops and branches that carry integers and masks, against JAX on both engines."""

from __future__ import annotations

from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import wyrm as wy
from tests.functions.test_control import same, to_second_order
from wyrm.errors import DTypeError, ShapeError

ENGINES = pytest.mark.parametrize("engine", ["reference", "native"])
X, Y = np.random.default_rng(0).normal(size=(2, 5))


class Rows(wy.Dim): ...


def _branches(xp: Any) -> list[Any]:
    return [
        lambda x, y: (xp.sin(x), x * y),
        lambda x, y: (x * x * y, y),
        lambda x, y: (xp.exp(x) - y, x * 2.0),
        lambda x, y: (y, y),
    ]


@ENGINES
@pytest.mark.parametrize("index", [-7, 0, 1, 2, 3, 99])
def test_switch_clamps_the_index(engine: Any, index: int) -> None:
    def mine(x: Any, y: Any) -> Any:
        first, second = wy.switch(wy.IndexConstant(index), _branches(wy), x, y)
        return (first * first * second).sum()

    def theirs(x: Any, y: Any) -> Any:
        first, second = lax.switch(index, _branches(jnp), x, y)
        return (first * first * second).sum()

    to_second_order(mine, theirs, (X, Y), engine)


@ENGINES
def test_the_index_of_a_switch_is_data(engine: Any) -> None:
    function = wy.function(lambda i, x, y: wy.switch(i, _branches(wy), x, y), engine=engine)
    rows = wy.vmap(wy.function(lambda i, x: wy.switch(i, _branches(wy), x, x)[0], engine=engine), in_axes=(0, None))
    with jax.enable_x64(True):
        expected = jax.jit(lambda i, x, y: lax.switch(i, _branches(jnp), x, y))
        for index in range(-1, 5):
            same(function(np.array(index), X, Y), expected(index, X, Y))
        indices = np.arange(-1, 5)
        same(rows(indices, X), np.stack([expected(i, X, X)[0] for i in indices]))


@ENGINES
def test_only_the_chosen_branch_is_computed(engine: Any) -> None:
    table = wy.Constant(np.arange(3.0))

    def function(i: Any, row: Any) -> Any:
        return wy.switch(i, [lambda: wy.Constant(np.array(-1.0)), lambda: table.take(row, axis=0)])

    lookup = wy.function(function, engine=engine)
    assert lookup(np.array(0), np.array(7)) == -1.0  # row 7 would be out of range
    assert lookup(np.array(1), np.array(2)) == 2.0


@ENGINES
def test_branches_return_integers_and_masks(engine: Any) -> None:
    def function(x: Any) -> Any:
        largest = x.argmax(axis=0)
        return wy.cond(x.sum() > 0.0, lambda: (largest, x > 0.0), lambda: (largest + 10, x < 0.0))

    for x in (X, -abs(X)):
        index, mask = wy.function(function, engine=engine)(x)
        assert index == (x.argmax() if x.sum() > 0.0 else x.argmax() + 10)
        assert index.dtype == np.int64
        np.testing.assert_array_equal(mask, x > 0.0 if x.sum() > 0.0 else x < 0.0)


def test_a_switch_is_typed() -> None:
    x = wy.Parameter(np.ones(5), dims=(Rows,))
    chosen = wy.switch(wy.IndexConstant(1), [lambda x: x.sum(), lambda x: x.mean()], x)
    assert chosen.forward() == 1.0

    def double(x: wy.Tensor[Rows]) -> wy.Tensor[Rows]:
        return x * 2.0

    assert_type(wy.switch(wy.IndexConstant(0), [double, double], x), wy.Node[Any, tuple[Rows]])
    assert wy.switch(7, [lambda: 1.0, lambda: 2.0]) == 2.0
    last, _ = wy.scan(lambda i, _: (i + 1, None), wy.IndexConstant(1), length=3)
    assert_type(last, wy.IndexNode[tuple[()]])
    assert last.forward() == 4
    counted = wy.while_loop(lambda i: i < 10, lambda i: i * 2, wy.IndexConstant(1))
    assert_type(counted, wy.IndexNode[tuple[()]])
    assert counted.forward() == 16


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        # The mistake that mypy finds.
        (
            lambda: wy.switch(1.0, [lambda: 1.0]),  # type: ignore[call-overload]
            DTypeError, "needs a scalar index node, not 1.0",
        ),
        (lambda: wy.switch(wy.IndexConstant([1]), [lambda: 1.0]), DTypeError, "needs a scalar index node, not index"),
        (lambda: wy.switch(wy.IndexConstant(1), []), ValueError, "must hold at least one function"),
        (
            lambda: wy.switch(wy.IndexConstant(1), [lambda: np.zeros(2), lambda: np.zeros(3)]),
            ShapeError,
            r"\(2,\) but becomes",
        ),
        (lambda: wy.switch(wy.IndexConstant(1), [lambda: X, lambda: (X, X)]), ShapeError, "changes the structure"),
        # As above.
        (
            lambda: wy.switch(wy.IndexConstant(1), [lambda: X, 1.0]),  # type: ignore[arg-type]
            TypeError, "switch takes functions",
        ),
    ],
)  # fmt: skip
def test_a_wrong_switch_is_refused(build: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build()


TABLE = np.random.default_rng(1).normal(size=(6, 3))


@ENGINES
def test_a_counter_gathers_rows_in_a_scan(engine: Any) -> None:
    def mine(table: Any, start: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            i, total = carry
            total = total * total * 0.1 + table.take(i, axis=0) * x
            return ((i + 2) % 6, total), total * total

        (_, last), made = wy.scan(step, (wy.IndexConstant(1), start), np.arange(1.0, 6.0))
        return last.sum() + made.sum()

    def theirs(table: Any, start: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            i, total = carry
            total = total * total * 0.1 + table[i] * x
            return ((i + 2) % 6, total), total * total

        (_, last), made = lax.scan(step, (1, start), np.arange(1.0, 6.0))
        return last.sum() + made.sum()

    to_second_order(mine, theirs, (TABLE, np.ones(3)), engine)


@ENGINES
@pytest.mark.parametrize("max_steps", [None, 20])
def test_a_while_loop_counts(engine: Any, max_steps: int | None) -> None:
    def mine(table: Any) -> Any:
        def step(carry: Any) -> Any:
            return carry[0] + 1, carry[1] + table.take(carry[0], axis=0), carry[1].sum() > 0.5

        def keeps_on(carry: Any) -> Any:
            return carry[0] < 5

        return wy.while_loop(keeps_on, step, (wy.IndexConstant(2), np.zeros(3), MASK), max_steps=max_steps)

    count, total, mask = wy.function(mine, engine=engine)(TABLE)
    assert (count, count.dtype) == (5, np.int64)
    np.testing.assert_allclose(total, TABLE[2:5].sum(0))
    assert bool(mask) == bool(TABLE[2:4].sum() > 0.5)
    if max_steps is not None:
        gradient = wy.function(lambda table: mine(table)[1].sum(), engine=engine).grad()(TABLE)
        np.testing.assert_array_equal(gradient, np.repeat([0.0, 1.0, 0.0], (2, 3, 1))[:, None] * np.ones(3))


MASK = wy.Constant(0.0) > 1.0


@ENGINES
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_carried_integers_are_exact(engine: Any, dtype: Any) -> None:
    """A congruential generator modulo 2**64, in numbers that no float holds."""

    def mine(start: Any, x: Any) -> Any:
        return wy.scan(lambda carry, _: (carry * 6364136223846793005 + 1442695040888963407, carry), start, x)

    start = np.array([[1, -1, 2**63 - 1], [-(2**63), 0, 2**53 + 1]])
    last, made = wy.function(mine, engine=engine)(start, np.zeros(5, dtype))
    expected = start
    for row in made:
        np.testing.assert_array_equal(row, expected)
        with np.errstate(over="ignore"):
            expected = expected * np.int64(6364136223846793005) + np.int64(1442695040888963407)
    np.testing.assert_array_equal(last, expected)


@ENGINES
def test_a_carried_index_is_checked(engine: Any) -> None:
    def rows(start: Any) -> Any:
        return wy.scan(lambda i, _: (i + 1, wy.Constant(TABLE).take(i, axis=0)), start, length=4)

    function = wy.function(rows, engine=engine)
    np.testing.assert_array_equal(function(np.array(2))[1], TABLE[2:6])
    with pytest.raises(wy.errors.IndexOutOfRange):
        function(np.array(3))

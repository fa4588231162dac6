"""Arithmetic of integer nodes: NumPy's values, in both engines, and errors for what are no integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError

SMALLEST = -(2**63)
LEFT = np.array([3, -7, 0, 2**62, SMALLEST, 5, SMALLEST])
RIGHT = np.array([2, -2, 0, 4, -1, -3, 0])
OPERATORS = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod]


def both_engines(nodes: list[Any]) -> list[Any]:
    """Return the values of integer nodes, after a comparison with those of a compiled program."""
    values = wy.run(nodes)
    for one, other in zip(values, wy.compile(nodes)(), strict=True):
        assert one.dtype == other.dtype == np.int64
        np.testing.assert_array_equal(one, other)
    return list(values)


def _with_three(function: Any, x: Any, y: Any) -> Any:
    return function(x, 3)


def _of_seven(function: Any, x: Any, y: Any) -> Any:
    return function(7, y)


def test_operators_have_the_values_of_numpy() -> None:
    """Also on overflow, and for a divisor of 0."""
    x, y = wy.IndexInput(LEFT), wy.IndexInput(RIGHT)
    calls: list[Callable[[Any, Any], Any]] = []
    for function in OPERATORS:
        calls += [function, partial(_with_three, function), partial(_of_seven, function)]
    calls += [lambda x, y: -x, lambda x, y: np.add(x, y), lambda x, y: LEFT * y, lambda x, y: x + RIGHT[:, None]]
    with np.errstate(all="ignore"):
        expected = [call(LEFT, RIGHT) for call in calls]
    for found, wanted in zip(both_engines([call(x, y) for call in calls]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_comparisons_and_conversions_of_results() -> None:
    x, y = wy.IndexInput([1, 5, 3]), wy.IndexInput([2, 4, 6])
    nodes: list[Any] = [x + y < 2 * y, x * y == 20, (x - y).astype(np.float64)]
    for values in (wy.run(nodes), wy.compile(nodes)()):
        assert [value.tolist() for value in values] == [[True, False, True], [False, True, False], [-1.0, 1.0, -3.0]]


def test_results_index_within_their_checked_range() -> None:
    table, rows = wy.Parameter(np.arange(5.0)), wy.IndexInput([3, 4])
    node = table.take((rows + 1) % 5)
    assert node.forward().tolist() == wy.compile(node)().tolist() == [4.0, 0.0]
    assert wy.grad(node.sum(), table).forward().tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]
    outside = table.take(rows + 1)
    with pytest.raises(IndexOutOfRange, match="holds 5 at position"):
        outside.forward()
    with pytest.raises(IndexOutOfRange, match="out of range"):
        wy.compile(outside)()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2,), (2, 1)])
def test_computed_indices_of_every_rank(shape: tuple[int, ...]) -> None:
    """Indices computed from the largest element, chained through a table of integers, and their gradients."""
    x = wy.Parameter(np.array([0.5, -1.0, 2.0, 4.0, 3.0]), name="x")
    start, table = wy.IndexInput(np.zeros(shape, np.int64)), wy.IndexConstant([1, 2, 0])
    computed: Any = wy.argmax(x) * (start + 1) - 2
    chained: Any = table[(table[computed] + 1) % 3]
    taken: Any = x.take(chained + 1, axis=0) * x.take(computed, axis=0)
    column = x.reshape(1, 5).take(start + 1, axis=1).sum()
    updated: Any = x.at[(chained + computed + 1) % 5].set(column)
    loss: Any = taken.sum() + (updated * x).sum()
    slope: Any = wy.grad(loss, x)
    nodes = [chained, taken, updated, slope, wy.grad((slope * slope * x).sum(), x)]
    for one, other in zip(wy.run(nodes), wy.compile(nodes)(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert (wy.run([chained])[0] == 1).all()


def test_a_computed_index_of_every_step_of_a_loop() -> None:
    """Greedy decoding: each step takes the row after that of its largest element."""
    table = wy.Parameter(np.array([[1.0, 2.0, 0.0], [3.0, 1.0, 0.0], [0.0, 1.0, 5.0], [2.0, 0.5, 1.0]]))

    def following(row: Any, _: Any) -> tuple[Any, Any]:
        row = wy.take(table, wy.argmax(row) + 1, axis=0)
        return row, row

    _, rows = wy.scan(following, table[0], length=3)
    slope: Any = wy.grad(rows.sum(), table)
    for found, wanted in zip(wy.compile([rows, slope])(), wy.run([rows, slope]), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert rows.forward()[:, 0].tolist() == [0.0, 2.0, 3.0]


def test_rows_of_a_batch() -> None:
    rows = np.arange(6).reshape(2, 3)
    shared = wy.IndexConstant([1, 2, 3])
    found = wy.vmap(lambda row: (row * shared + 1).astype(np.float32))(rows)
    np.testing.assert_array_equal(found, rows * [1, 2, 3] + 1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, y: x + 1.5, DTypeError, r"holds integers, and 1\.5 does not"),
        (lambda x, y: True * x, DTypeError, "and True does not"),
        (lambda x, y: x + y, DTypeError, "does not: convert the integers with .astype"),
        (lambda x, y: y + x, DTypeError, "holds integers; convert them with .astype"),
        (lambda x, y: x + wy.IndexInput([1, 2, 3]), ShapeError, "index_add: 2 against 3"),
        (lambda x, y: np.exp(x), DTypeError, "holds integers"),
        (lambda x, y: x.astype(np.int32), DTypeError, "float32 or float64"),
        (lambda x, y: x + "1", TypeError, "unsupported operand"),
    ],
)
def test_errors(call: Callable[[Any, Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(wy.IndexInput([1, 2]), wy.Constant([1.0, 2.0]))

"""`==` and `!=` compare elements and return masks; dict keys, `in` and the library itself compare by identity."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.pytree import flatten
from wyrm.ops.gradients.accumulation import composite_vjps

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
TOKENS = np.array([[0, 3, 1], [2, 0, 0]])


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


def test_a_mask_is_made_of_numbers_arrays_and_nodes() -> None:
    p: Any = wy.Parameter([1.0, 1.5, np.float32(0.1)])
    q: Any = wy.Parameter([1.0, 2.0, -0.0])
    for built, expected in [
        (p == 1.5, [False, True, False]),
        (p != 1.5, [True, False, True]),
        (p == 1.5, [False, True, False]),
        (p == q, [True, False, False]),
        (p == p, [True, True, True]),
        (q == 0.0, [False, False, True]),
        (np.array([1.0, 2.0, 0.1]) == p, [True, False, True]),
        (p != np.float64(1.5), [True, False, True]),
        ((p > 1.2) == np.array([True, True, False]), [False, True, True]),
        ((p > 1.2) != (q > 1.2), [False, False, False]),
    ]:
        assert isinstance(built, wy.Node) and built.dtype == np.bool_
        assert built.forward().tolist() == expected


def test_masks_of_equality_choose_in_where_cond_and_gradients() -> None:
    x: Any = wy.Parameter(np.array([1.0, 2.0, 3.0]))
    chosen = wy.where(x == 2.0, 10.0 * x, x)
    assert chosen.forward().tolist() == [1.0, 20.0, 3.0]
    assert wy.grad(chosen.sum(), x).forward().tolist() == [1.0, 10.0, 1.0]
    s: Any = wy.Parameter(2.0)
    assert wy.cond(s == 2.0, lambda x: x * x, lambda x: -x, s).forward() == 4.0
    program = wy.compile([chosen, x != 2.0, wy.where(wy.IndexConstant([0, 1, 0]) != 0, x, 0.0)])
    assert [found.tolist() for found in program()] == [[1.0, 20.0, 3.0], [True, False, True], [0.0, 2.0, 0.0]]


@pytest.mark.parametrize("op", COMPARISONS)
def test_index_nodes_are_compared_with_integers(op: Callable[[Any, Any], Any]) -> None:
    tokens: Any = wy.IndexInput(TOKENS, dims=(Batch, Time), name="tokens")
    column = wy.IndexInput(np.array([[1], [0]]))
    for other, values in [
        (1, 1),
        (-2, -2),
        (np.int32(2), 2),
        (np.array([3, 0, 1], np.uint8), np.array([3, 0, 1])),
        (column, column.value),
        (tokens, TOKENS),
        (wy.IndexConstant(3), 3),
    ]:
        for built, expected in ((op(tokens, other), op(TOKENS, values)), (op(other, tokens), op(values, TOKENS))):
            assert built.dtype == np.bool_
            assert built.forward().tolist() == expected.tolist()
    sums = wy.vmap(lambda row: op(row, 1).astype(np.float32).sum())(TOKENS)
    assert sums.tolist() == op(TOKENS, 1).sum(-1).tolist()


def test_a_padding_mask_leaves_padding_without_a_gradient() -> None:
    tokens: Any = wy.IndexInput(dims=(Batch(), 3), name="tokens")
    table: Any = wy.Parameter(np.ones((4, 2)))
    there = (tokens != 0).astype(np.float64)
    loss = (table.index(tokens).sum(axis=-1) * there).sum() / there.sum()
    program = wy.compile([loss, wy.grad(loss, table)])
    tokens.set(TOKENS)
    found = program({tokens: TOKENS})
    for value, wanted in zip(found, wy.run([loss, wy.grad(loss, table)]), strict=True):
        np.testing.assert_allclose(value, wanted)
    assert found[1].tolist() == [[0.0, 0.0], *[[1 / 3, 1 / 3]] * 3]


@pytest.mark.parametrize("ufunc", [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal])
def test_numpys_comparisons_take_index_nodes(ufunc: Any) -> None:
    tokens: Any = wy.IndexInput(TOKENS)
    assert ufunc(tokens, 1).forward().tolist() == ufunc(TOKENS, 1).tolist()
    assert ufunc(TOKENS[::-1], tokens).forward().tolist() == ufunc(TOKENS[::-1], TOKENS).tolist()


@pytest.mark.parametrize(
    ("compare", "message"),
    [
        (lambda x, i: x == [1.0, 2.0], r"x \(2,\) float32 .*not with a list: convert it with np\.array"),
        (lambda x, i: x != (1.0, 2.0), "not with a tuple: convert it"),
        (lambda x, i: x == 1j, "not with a complex"),
        (lambda x, i: x == Decimal(1), "not with a Decimal"),
        (lambda x, i: x == jnp.zeros(2), "not with a ArrayImpl"),
        (lambda x, i: x == np.array(["a", "b"]), "not with an array of <U1"),
        (lambda x, i: i == [1, 2], "not with a list: convert it with"),
        (lambda x, i: x == i, r"i \(2,\) int64 .* holds integers"),
        (lambda x, i: i == x, r"i \(2,\) int64 .* holds integers; compare it with integers, not with x"),
        (lambda x, i: i < 1.5, "compare it with integers, not with 1.5"),
        (lambda x, i: i == True, "compare it with integers, not with True"),  # noqa: E712  # a user may type this
        (lambda x, i: i == np.array([0.5, 1.0]), "takes integers, the data is float64"),
        (lambda x, i: i == 2**63, "takes integers"),
    ],
)
def test_what_cannot_be_compared_is_no_silent_false(compare: Callable[[Any, Any], Any], message: str) -> None:
    x, i = wy.Parameter([1.0, 2.0], name="x"), wy.IndexInput([1, 2], name="i")
    with pytest.raises(TypeError, match=message):
        compare(x, i)


def test_shapes_that_do_not_fit_are_an_error() -> None:
    x: Any = wy.Parameter([1.0, 2.0])
    i: Any = wy.IndexInput([1, 2])
    compares: list[Callable[[], Any]] = [lambda: x == np.ones(3), lambda: i != np.arange(3)]
    for compare in compares:
        with pytest.raises(ShapeError, match="equal: 2 against 3"):
            compare()


def test_what_holds_no_numbers_is_unequal() -> None:
    for node in (wy.Parameter(1.0), wy.IndexInput(1)):
        for other in (None, "word", object(), {}, wy.optim.SGD):
            loose: Any = node
            assert (loose == other) is False and (loose != other) is True


@pytest.mark.parametrize("make", [lambda: wy.Parameter([1.0]), lambda: wy.IndexInput([1])])
def test_nodes_are_keys_by_identity(make: Callable[[], Any]) -> None:
    nodes = [make() for _ in range(100)]
    numbers = {node: number for number, node in enumerate(nodes)}
    assert [numbers[node] for node in nodes] == list(range(100))
    assert len({*nodes, *nodes}) == 100 and make() not in numbers
    assert hash(nodes[0]) == object.__hash__(nodes[0])


def test_the_truth_of_a_mask_is_an_error_that_teaches() -> None:
    p: Any = wy.Parameter([1.0])
    q: Any = wy.Parameter([1.0])
    assert p in [p, q]  # Python compares identity first
    uses: list[Callable[[], Any]] = [
        lambda: q in [p, q], lambda: [p, q].index(q), lambda: [p] == [q], lambda: bool(p == q),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(TypeError, match=r"no truth value .*wy\.where.*wy\.cond.*node\.value.*test with `is`"):
            use()


def test_the_library_tells_nodes_apart_by_identity() -> None:
    """Where it once compared values: captured nodes of loops, optimizer state, feeds, pytrees, limits of rows."""
    a, b = wy.Parameter(np.array([1.0, 2.0])), wy.Parameter(np.array([3.0, 4.0]))
    optimizer = wy.optim.Adam([a, b], learning_rate=0.1)
    assert optimizer.state_of(b) is not optimizer.state_of(a)
    assert [part.forward().tolist() for part in composite_vjps([a * b], [wy.Constant(np.ones(2))], [b, a])] == [
        [1.0, 2.0],
        [3.0, 4.0],
    ]
    _, structure = flatten({a: 1.0, b: 2.0}, "a dict of nodes")
    assert structure == flatten({a: 0.0, b: 0.0}, "another")[1] and structure != flatten({b: 1.0, a: 2.0}, "a third")[1]
    rows = wy.IndexInput([0], name="rows")
    looked_up = [a.index(rows), b.index(rows), a.index(rows)]
    assert looked_up[0] is not looked_up[2]
    with pytest.raises(wy.WyrmError, match="takes 0 to 1"):
        rows.set([2])
    x, y = wy.Input(1.0, name="x"), wy.Input(1.0, name="y")
    with pytest.raises(ShapeError, match=r"y .* is not an input of this program"):
        wy.compile(x * 2.0)({y: 3.0})
    assert copy.deepcopy([a, a])[0] is not a


def test_the_gradient_of_a_loop_takes_nodes_of_different_shapes_apart() -> None:
    x, w = wy.Parameter(np.ones((3, 2))), wy.Parameter(np.ones((2, 2)) * 0.5)
    last, _ = wy.scan(lambda carry, row: ((carry + row) @ w, None), wy.Constant(np.zeros(2)), x)
    assert wy.grad(last.sum(), w).forward().shape == (2, 2)


def test_a_float_and_an_index_do_not_meet() -> None:
    with pytest.raises(DTypeError, match="holds integers"):
        wy.Parameter(1.0).equal(wy.IndexInput(1))  # type: ignore[call-overload]  # the test

"""Ops along axes that are made of others, joined entries and pairs, beside loops in plain Python, in every engine."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.each import check_each
from wyrm.errors import DTypeError, ShapeError
from wyrm.testing import check_grads

Rows = list[np.ndarray]


class Batch(wy.Dim): ...


class Others(wy.Dim): ...


class Words(wy.Ragged): ...


class Tags(wy.Ragged): ...


class Width(wy.Dim): ...


def rows_of(lengths: Sequence[int], shape: tuple[int, ...], seed: int) -> Rows:
    random = np.random.default_rng(seed)
    return [random.normal(size=(length, *shape)) for length in lengths]


def integers_of(lengths: Sequence[int], seed: int) -> Rows:
    random = np.random.default_rng(seed)
    return [random.integers(0, 7, length) for length in lengths]


def paired(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of all pairs of a row by a loop."""
    places = np.array(list(itertools.combinations(range(len(values)), 2)), np.int64).reshape(-1, 2)
    return values[places[:, 0]], values[places[:, 1]]


def both(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.concatenate([a, b])


def softmax(values: np.ndarray) -> np.ndarray:
    exponentials = np.exp(values - values.max(axis=0, initial=-np.inf))
    result: np.ndarray = exponentials / exponentials.sum(axis=0)
    return result


class Graph:
    """Inputs along two ragged axes, and nodes of them with what a row gives, computed from its entries alone."""

    def __init__(self, words: Sequence[int], tags: Sequence[int]) -> None:
        batch, width = Batch(), Width(3)
        self.x: Any = wy.Input(dims=(batch, Words(), width), name="x", dtype=np.float64)
        self.y: Any = wy.Input(dims=(batch, Tags(), width), name="y", dtype=np.float64)
        self.i: Any = wy.IndexInput(dims=(batch, Words()), name="i")
        self.k: Any = wy.IndexInput(dims=(batch, Tags()), name="k")
        self.query: Any = wy.Input(dims=(batch, width), name="query", dtype=np.float64)
        self.data: dict[Any, Any] = {
            self.x: rows_of(words, (3,), 0),
            self.y: rows_of(tags, (3,), 1),
            self.i: integers_of(words, 2),
            self.k: integers_of(tags, 3),
            self.query: rows_of([len(words)], (3,), 4)[0],
        }

    def row(self, position: int) -> list[np.ndarray]:
        return [column[position] for column in self.data.values()]


def cases(graph: Graph) -> dict[str, tuple[Any, Callable[..., Any]]]:
    """Return nodes by name, each with a function of x, y, i, k and the query of one row."""
    x, y, i, k, query = graph.x, graph.y, graph.i, graph.k, graph.query
    joined: Any = wy.concatenate((x, y), axis=1)
    numbers: Any = wy.concatenate((i, k), axis=1)
    left, right = wy.row_pairs(x)
    first, second = wy.row_pairs(joined)
    one, other = wy.row_pairs(i)
    by_row = wy.cumsum(left * right, axis=1)
    pooled = (joined * (joined * query.expand_dims(1)).sum(axis=-1).softmax(axis=1).expand_dims(-1)).sum(axis=1)

    def attention(x: np.ndarray, y: np.ndarray, i: np.ndarray, k: np.ndarray, query: np.ndarray) -> np.ndarray:
        entries = both(x, y)
        return softmax(entries @ query) @ entries if len(entries) else np.zeros(3)

    return {
        "joined": (joined, lambda x, y, *_: both(x, y)),
        "joined integers": (numbers, lambda x, y, i, k, q: both(i, k)),
        "joined with itself": (wy.concatenate([x, x * 2.0], axis=-2), lambda x, *_: both(x, 2.0 * x)),
        "three joined": (wy.concat((x, y, x), axis=1), lambda x, y, *_: both(both(x, y), x)),
        "joined numbers": (
            wy.concatenate((x.sum(axis=-1), y.sum(axis=-1)), axis=-1),
            lambda x, y, *_: both(x, y).sum(axis=-1),
        ),
        "sum of joined": (joined.sum(axis=1), lambda x, y, *_: both(x, y).sum(axis=0)),
        "attention": (pooled, attention),
        "lengths of joined": (wy.row_lengths(joined), lambda x, y, *_: len(x) + len(y)),
        "positions of joined": (wy.entry_positions(numbers), lambda x, y, *_: np.arange(len(x) + len(y))),
        "rows of joined": (
            wy.last_entry(joined),
            lambda x, y, *_: both(x, y)[-1] if len(x) + len(y) else np.zeros(3),
        ),
        "left": (left, lambda x, *_: paired(x)[0]),
        "right": (right, lambda x, *_: paired(x)[1]),
        "one integer": (one, lambda x, y, i, k, q: paired(i)[0]),
        "other integer": (other, lambda x, y, i, k, q: paired(i)[1]),
        "products of pairs": ((left * right).sum(axis=1), lambda x, *_: np.multiply(*paired(x)).sum(axis=0)),
        "cumulative": (by_row, lambda x, *_: np.multiply(*paired(x)).cumsum(axis=0)),
        "pairs of joined": (
            (first * second).sum(axis=1),
            lambda x, y, *_: np.multiply(*paired(both(x, y))).sum(axis=0),
        ),
        "lengths of pairs": (wy.row_lengths(one), lambda x, *_: len(x) * (len(x) - 1) // 2),
        "a value of the row beside pairs": (
            (left * query.expand_dims(1) - right).sum(axis=(1, 2)),
            lambda x, y, i, k, q: (paired(x)[0] * q - paired(x)[1]).sum(),
        ),
        "row_scan of joined": (
            wy.row_scan(lambda carry, v: (0.5 * carry + v, carry), query, joined)[0],
            lambda x, y, i, k, q: scanned(both(x, y), q),
        ),
        "joined pairs": (
            wy.concatenate((left, joined), axis=1),
            lambda x, y, *_: both(paired(x)[0], both(x, y)),
        ),
    }


def scanned(values: np.ndarray, carry: np.ndarray) -> np.ndarray:
    for value in values:
        carry = 0.5 * carry + value
    return carry


LENGTHS = {
    "mixed": ([0, 1, 17, 3, 0, 40, 2, 0], [2, 0, 5, 1, 0, 3, 31, 1]),
    "none along the first": ([0, 0, 0, 0], [0, 2, 1, 0]),
    "none along the second": ([0, 4, 1, 0], [0, 0, 0, 0]),
    "none": ([0, 0, 0], [0, 0, 0]),
    "no pair": ([0, 1, 1], [1, 0, 1]),
    "long": ([1, 1000, 0, 2, 17], [3, 0, 1000, 0, 17]),
}


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
def test_joined_entries_and_pairs_are_those_of_each_row_alone(engine: str) -> None:
    def check(name: str) -> None:
        graph = Graph(*LENGTHS[name])
        named = {key: case for key, case in cases(graph).items() if name != "long" or key != "pairs of joined"}
        if engine == "reference":
            for leaf, data in graph.data.items():
                leaf.set(data)
            values = [node.forward() for node, _ in named.values()]
        else:
            values = wy.compile([node for node, _ in named.values()], engine=engine)(graph.data)
        for (key, (node, of_row)), value in zip(named.items(), values, strict=True):
            assert value.dtype == node.dtype
            for position in range(len(LENGTHS[name][0])):
                expected = np.asarray(of_row(*graph.row(position)))
                np.testing.assert_allclose(value[position], expected, rtol=1e-9, atol=1e-9, err_msg=key)

    check_each([name for name in LENGTHS if name != "long" or engine != "jax"], check)


def test_gradients_are_those_of_finite_differences_to_second_order() -> None:
    def check(name: str) -> None:
        graph = Graph([0, 1, 3, 0, 2], [2, 0, 1, 0, 3])
        for leaf, data in graph.data.items():
            leaf.set(data)
        parameter = wy.Parameter(np.array([0.7, -0.3, 1.1]), dims=(Width(3),))
        graph.data = {}
        graph.x, graph.y = (graph.x * parameter).tanh(), graph.y * parameter
        node = cases(graph)[name][0]
        if node.dtype.kind == "f":
            check_grads((node * node * node).sum(), [parameter])

    check_each(cases(Graph([1], [1])), check)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_gradients_that_are_nodes_are_those_of_the_reference(engine: str) -> None:
    graph = Graph(*LENGTHS["mixed"])
    joined: Any = wy.concatenate((graph.x, graph.y), axis=1)
    left, right = wy.row_pairs(joined)
    loss = (left * right.tanh()).square().sum() + (joined.softmax(axis=1) * joined).sum()
    of_x, of_y = wy.grad(loss, [graph.x, graph.y])
    assert (of_x.dims, of_y.dims) == (graph.x.dims, graph.y.dims)
    again = wy.grad((of_x.square()).sum() + of_y.sum(), [graph.x])[0]
    for leaf, data in graph.data.items():
        leaf.set(data)
    given = {leaf: graph.data[leaf] for leaf in (graph.x, graph.y)}
    for node, value in zip((of_x, of_y, again), wy.compile([of_x, of_y, again], engine=engine)(given), strict=True):
        expected: Any = node.forward()
        np.testing.assert_allclose(value.values, expected.values, rtol=1e-8, atol=1e-9)


def test_all_pairs_of_rows_of_up_to_two_hundred_entries_are_those_of_itertools() -> None:
    lengths = range(201)
    entries = wy.entry_positions(wy.IndexInput([np.zeros(n, np.int64) for n in lengths], dims=(Batch(), Words())))
    left, right = (node.forward() for node in wy.row_pairs(entries))
    for n in lengths:
        expected = list(itertools.combinations(range(n), 2))
        assert list(zip(left[n].tolist(), right[n].tolist(), strict=True)) == expected


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
def test_the_row_of_a_triangle_is_right_beside_every_step(engine: str) -> None:
    from wyrm.ops.ragged.made import TriangleRow

    j = np.concatenate([np.arange(300), 2 ** np.arange(9, 16), 2 ** np.arange(9, 17) - 1, 2 ** np.arange(9, 16) + 1])
    first = j * (j + 1) // 2
    x = wy.IndexInput(np.concatenate([first, first + j, first + j // 2]), dims=(Batch(),), name="x")
    node: Any = TriangleRow(x + 1 - 1)  # a sum that may need 64 bits, as places among entries are
    found = node.forward() if engine == "reference" else wy.compile(node, engine=engine)({})
    np.testing.assert_array_equal(found, np.concatenate([j, j, j]))


def test_a_factorization_machine_of_pairs_is_that_of_the_closed_form() -> None:
    random = np.random.default_rng(0)
    features = wy.IndexInput(dims=(Batch(), Words()), name="features")
    table = wy.Parameter(random.normal(size=(7, 4)), dims=(Others(7), Width(4)), name="table")
    vectors: Any = table.index(features)
    left, right = wy.row_pairs(vectors)
    by_pairs = (left * right).sum(axis=(1, 2))
    closed = 0.5 * (vectors.sum(axis=1).square() - vectors.square().sum(axis=1)).sum(axis=-1)
    data = {features: integers_of([0, 1, 17, 3, 40], 1)}
    values, expected = wy.compile([by_pairs, closed])(data)
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
    features.set(data[features])
    gradients = [wy.grad(node.square().sum(), [table])[0].forward() for node in (by_pairs, closed)]
    np.testing.assert_allclose(np.asarray(gradients[0]), np.asarray(gradients[1]), rtol=1e-8, atol=1e-8)


def test_lengths_follow_from_the_data_that_inputs_hold() -> None:
    graph = Graph([1, 2], [0, 3])
    joined, (left, _) = wy.concatenate((graph.i, graph.k), axis=1), wy.row_pairs(graph.i)
    lengths = wy.row_lengths(wy.concatenate((joined, left), axis=1))
    graph.i.set([[1], [2, 3]])
    graph.k.set([[], [4, 5, 6]])
    assert lengths.forward().tolist() == [1, 6]
    assert joined.forward().tolist() == [[1], [2, 3, 4, 5, 6]]
    graph.k.set([[7, 8], []])
    assert lengths.forward().tolist() == [3, 3]
    assert joined.forward().tolist() == [[1, 7, 8], [2, 3]]
    assert wy.run([joined, left])[1].tolist() == [[], [2]]


def test_an_axis_made_of_the_same_ones_is_the_same_also_from_a_pickle() -> None:
    graph = Graph([1], [1])
    joined: Any = wy.concatenate((graph.x, graph.y), axis=1)
    assert joined.dims == (Batch(), wy.Joined[Words, Tags](), Width(3))
    assert wy.row_pairs(joined)[0].dims[1] == wy.Pairs[wy.Joined[Words, Tags]]()
    assert wy.Joined[Words, Tags] is wy.Joined[Words, Tags]
    assert len({wy.Joined[Words, Tags], wy.Joined[Tags, Words]}) == 2
    assert pickle.loads(pickle.dumps(joined.dims)) == joined.dims
    flat = wy.compile(joined).graph.flat
    assert flat is not None
    entries = flat.node[joined].dims[0]
    assert type(pickle.loads(pickle.dumps(entries))) is type(entries)


def refused(graph: Graph) -> dict[str, tuple[Callable[[], object], type[Exception], str]]:
    x, y, i, query = graph.x, graph.y, graph.i, graph.query
    untyped: Any = wy
    other: Any = wy.Input(dims=(Others(), Tags(), Width(3)), name="other", dtype=np.float64)
    narrow: Any = wy.Input(dims=(Batch(), Tags(), 4), name="narrow", dtype=np.float64)
    joined: Any = wy.concatenate((x, y), axis=1)
    concatenate = untyped.concatenate
    return {
        "a value of each row": (
            lambda: concatenate((x, query), axis=1),
            ShapeError,
            r"concatenate .*not query \(Batch",
        ),
        "an array": (lambda: concatenate((x, np.zeros((2, 2, 3))), axis=1), ShapeError, "not an array"),
        "other rows": (
            lambda: concatenate((x, other), axis=1),
            ShapeError,
            r"x .* and other .*Batch\(\) against Others",
        ),
        "other entries": (lambda: concatenate((x, narrow), axis=1), ShapeError, r"narrow .*Width\(3\) against 4"),
        "fewer axes": (lambda: concatenate((x, y.sum(axis=-1)), axis=1), ShapeError, "x has 3 axes, sum.* 2"),
        "integers and floats": (lambda: concatenate((x, i), axis=1), DTypeError, "x .* and i .*astype"),
        "along the entries": (lambda: concatenate((x, y), axis=-1), ShapeError, r"Words\(\) against Tags\(\)"),
        "the last axis": (
            lambda: x.sum(axis=-1).concat(y.sum(axis=-1)),
            ShapeError,
            r"Words\(\) and Tags\(\): .*wy.concatenate\(\(x, y\), axis=1\)",
        ),
        "a sum with its part": (lambda: joined + x, ShapeError, r"Joined\[Words, Tags\]\(\) against Words\(\)"),
        "pairs of rows": (
            lambda: untyped.row_pairs(query),
            ShapeError,
            "row_pairs takes a node with an axis of different",
        ),
        "an input": (
            lambda: wy.Input(dims=(Batch(), wy.Pairs[Words]()), name="targets"),
            ShapeError,
            r"targets has the axis Pairs\[Words\]\(\), whose lengths follow from those along other axes",
        ),
        "no parts": (lambda: untyped.Joined(), TypeError, r"wy.Joined\[Words, Tags\]\(\)"),
        "one part": (lambda: untyped.Joined[Words], TypeError, "made of 2 axes, not of 1"),
        "a size": (lambda: untyped.Pairs[Words](3), TypeError, "takes no size"),
    }


def test_what_is_not_defined_is_refused_when_it_is_constructed_with_what_to_write() -> None:
    graph = Graph([1], [1])

    def check(name: str) -> None:
        make, error, message = refused(graph)[name]
        with pytest.raises(error, match=message):
            make()

    check_each(refused(graph), check)


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
def test_data_that_does_not_fit_is_refused_with_the_axis(engine: str) -> None:
    graph = Graph([1], [1])
    joined, pairs = wy.concatenate((graph.i, graph.k), axis=1), wy.row_pairs(graph.i)[0]

    def run(node: Any, data: dict[Any, Any]) -> None:
        if engine != "reference":
            wy.compile(node, engine=engine)(data)
            return
        for leaf, column in data.items():
            leaf.set(column)
        node.forward()

    with pytest.raises(ShapeError, match=r"axis Joined\[Words, Tags\]\(\) .* 2 along Words and 1 along Tags"):
        run(joined, {graph.i: [[1], [2]], graph.k: [[3]]})
    with pytest.raises(ShapeError, match=r"row 1 has 65,537 entries along Words, .* n \(n - 1\) / 2"):
        run(wy.row_lengths(pairs), {graph.i: [[1], np.zeros(2**16 + 1, np.int64)]})


def test_debug_mode_finds_no_memory_that_is_read_before_it_is_written() -> None:
    program = """
import numpy as np
import wyrm as wy
from tests.ops.test_ops_made_axes import LENGTHS, Graph, cases
graph = Graph(*LENGTHS["mixed"])
named = cases(graph)
values = wy.compile([node for node, _ in named.values()])(graph.data)
for (name, (_, of_row)), value in zip(named.items(), values, strict=True):
    for position in range(len(LENGTHS["mixed"][0])):
        np.testing.assert_allclose(value[position], of_row(*graph.row(position)), rtol=1e-9, atol=1e-9, err_msg=name)
"""
    environment = {**os.environ, "WYRM_DEBUG": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=300)

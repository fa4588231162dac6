"""Ops along axes of different lengths, beside loops over rows in plain Python, in every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.each import check_each
from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.ops.reducing.cumulative import Recurrence, Shift
from wyrm.ops.reducing.running_extremes import RunningArg
from wyrm.testing import check_grads

Rows = list[np.ndarray]


class Batch(wy.Dim): ...


class Words(wy.Ragged): ...


class Letters(wy.Ragged): ...


class Vocabulary(wy.Dim): ...


class Width(wy.Dim): ...


class Pair(wy.Dim): ...


def rows_of(lengths: Sequence[int], shape: tuple[int, ...] = (), seed: int = 0) -> Rows:
    random = np.random.default_rng(seed)
    return [random.normal(size=(length, *shape)) for length in lengths]


def total(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    result: np.ndarray = (values * weights[:, None]).sum(axis=0)
    return result


def softmax(values: np.ndarray) -> np.ndarray:
    exponentials = np.exp(values - values.max(axis=0, initial=-np.inf))
    result: np.ndarray = exponentials / exponentials.sum(axis=0)
    return result


def or_else(number: float, function: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """Return a function of the entries of a row that gives a number for a row without entries."""
    return lambda x, *_: function(x) if len(x) else np.full(x.shape[1:], number)


class Graph:
    """Inputs with a ragged axis, and nodes of them with what a row gives, computed from its entries alone."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = lengths
        batch, words, width = Batch(), Words(), Width(3)
        self.x: Any = wy.Input(dims=(batch, words, width), name="x", dtype=np.float64)
        self.w: Any = wy.Input(dims=(batch, words), name="w", dtype=np.float64)
        self.ids = wy.IndexInput(dims=(batch, words), name="ids")
        self.bias = wy.Input(dims=(batch, width), name="bias", dtype=np.float64)
        self.matrix = wy.Constant(rows_of([3], (2,), 9)[0], dims=(width, Pair(2)))
        random = np.random.default_rng(3)
        self.data: dict[Any, Any] = {
            self.x: rows_of(lengths, (3,)),
            self.w: rows_of(lengths, (), 1),
            self.ids: [random.integers(0, 7, length) for length in lengths],
            self.bias: rows_of([len(lengths)], (3,), 2)[0],
        }

    def row(self, position: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        x, w, ids, bias = (column[position] for column in self.data.values())
        return x, w, ids, bias


def scan(graph: Graph, reverse: bool = False) -> tuple[Any, Any]:
    """Return a loop over entries and their numbers, from the bias of each row, which each step reads too."""

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        x, w, bias = row
        following = (0.5 * carry + x * w + bias).tanh()
        return following, following @ graph.matrix

    return wy.row_scan(step, graph.bias, (graph.x, graph.w, graph.bias), reverse=reverse)


def scanned(x: np.ndarray, w: np.ndarray, bias: np.ndarray, product: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    carry, made = bias, np.zeros((len(x), 2))
    for position in range(len(x)):
        carry = np.tanh(0.5 * carry + x[position] * w[position] + bias)
        made[position] = carry @ product
    return carry, made


def cases(graph: Graph) -> dict[str, tuple[Any, Callable[..., Any]]]:
    """Return nodes by name, each with a function of x, w, ids and the bias of one row."""
    x, w, ids, bias, matrix = graph.x, graph.w, graph.ids, graph.bias, graph.matrix
    table = wy.Constant(rows_of([7], (3,), 5)[0], dims=(Vocabulary(7), Width(3)))
    numbers, product = table.value, matrix.value
    scale = wy.Constant(np.array([1.0, 2.0, 3.0]), dims=(Width(3),))
    return {
        "elementwise": (x.tanh() * 2.0 + w.expand_dims(-1), lambda x, w, *_: np.tanh(x) * 2.0 + w[:, None]),
        "a value of the row": (x * bias.expand_dims(1), lambda x, w, i, b: x * b),
        "a vector": (x * scale, lambda x, *_: x * np.array([1.0, 2.0, 3.0])),
        "where": (wy.where(w.expand_dims(-1) > 0, x, 0.0), lambda x, w, *_: np.where(w[:, None] > 0, x, 0.0)),
        "sum": (x.sum(axis=1), lambda x, *_: x.sum(axis=0)),
        "weighted sum": ((x * w.expand_dims(-1)).sum(axis=1), lambda x, w, *_: total(x, w)),
        "sum, keepdims": (x.sum(axis=1, keepdims=True), lambda x, *_: x.sum(axis=0, keepdims=True)),
        "sum of all of a row": (x.sum(axis=(1, 2)), lambda x, *_: x.sum()),
        "sum of an entry": (x.sum(axis=-1), lambda x, *_: x.sum(axis=-1)),
        "mean": (x.mean(axis=1), or_else(0.0, lambda x: x.mean(axis=0))),
        "max": (x.max(axis=1), or_else(-np.inf, lambda x: x.max(axis=0))),
        "min": (x.min(axis=1), or_else(np.inf, lambda x: x.min(axis=0))),
        "logsumexp": (w.logsumexp(axis=1), lambda x, w, *_: np.logaddexp.reduce(w)),
        "var": (x.var(axis=1), or_else(0.0, lambda x: x.var(axis=0))),
        "prod": (x.prod(axis=1), lambda x, *_: x.prod(axis=0)),
        "prod, keepdims": (x.prod(axis=1, keepdims=True), lambda x, *_: x.prod(axis=0, keepdims=True)),
        "prod of all of a row": (x.prod(axis=(1, 2)), lambda x, *_: x.prod()),
        "argmax": (x.argmax(axis=1), or_else(-1, lambda x: x.argmax(axis=0))),
        "argmin": (w.argmin(axis=1), lambda x, w, *_: w.argmin() if len(w) else -1),
        "argmax, keepdims": (w.argmax(axis=1, keepdims=True), lambda x, w, *_: [w.argmax() if len(w) else -1]),
        "argmax of a mask": ((x > 0.5).argmax(axis=1), or_else(-1, lambda x: (x > 0.5).argmax(axis=0))),
        "sum of integers": ((ids * 2**59).sum(axis=1), lambda x, w, i, b: (i * 2**59).sum()),
        "max of integers": ((ids - 3).max(axis=1), lambda x, w, i, b: (i - 3).max(initial=-(2**63))),
        "min of integers": (ids.min(axis=1), lambda x, w, i, b: i.min(initial=2**63 - 1)),
        "softmax": (w.softmax(axis=1), lambda x, w, *_: softmax(w)),
        "log_softmax": (w.log_softmax(axis=1), lambda x, w, *_: np.log(softmax(w))),
        "softmax of an entry": (x.softmax(axis=-1), lambda x, *_: softmax(x.T).T),
        "any": ((w > 0).any(axis=1), lambda x, w, *_: (w > 0).any()),
        "all": ((w > 0).all(axis=1), lambda x, w, *_: (w > 0).all()),
        "count": ((w > 0).sum(axis=1), lambda x, w, *_: (w > 0).sum()),
        "cumsum": (x.cumsum(axis=1), lambda x, *_: x.cumsum(axis=0)),
        "cumsum of integers": (ids.cumsum(axis=1), lambda x, w, i, b: i.cumsum()),
        "cumprod": (x.cumprod(axis=1), lambda x, *_: x.cumprod(axis=0)),
        "cummax": (x.cummax(axis=1), lambda x, *_: np.maximum.accumulate(x)),
        "cummin": (w.cummin(axis=1), lambda x, w, *_: np.minimum.accumulate(w)),
        "cummax of integers": (ids.cummax(axis=1), lambda x, w, i, b: np.maximum.accumulate(i)),
        "cummin of integers": (ids.cummin(axis=1), lambda x, w, i, b: np.minimum.accumulate(i)),
        "sort": (x.sort(axis=1), lambda x, *_: np.sort(x, axis=0)),
        "argsort": (w.argsort(axis=1), lambda x, w, *_: w.argsort(kind="stable")),
        "sort of integers": (ids.sort(axis=1), lambda x, w, i, b: np.sort(i)),
        "argsort of integers": (ids.argsort(axis=1), lambda x, w, i, b: i.argsort(kind="stable")),
        "take_along_axis of entries": (
            x.take_along_axis((-x.sin()).argsort(axis=1), axis=1),
            lambda x, *_: np.take_along_axis(x, (-np.sin(x)).argsort(axis=0), axis=0),
        ),
        "take_along_axis of equal positions": (
            w.take_along_axis((wy.entry_positions(w) * 0), axis=1),
            lambda x, w, *_: np.repeat(w[:1], len(w)),
        ),
        "take_along_axis of integers": (
            ids.take_along_axis(w.argsort(axis=1), axis=1),
            lambda x, w, i, b: i[w.argsort()],
        ),
        "take_along_axis of a row": (bias.take_along_axis(ids % 3, axis=1), lambda x, w, i, b: b[i % 3]),
        "take_along_axis of a mean": (
            x.mean(axis=1).take_along_axis(ids % 3, axis=1),
            lambda x, w, i, b: x.mean(axis=0)[i % 3] if len(i) else np.zeros(0),
        ),
        "take_along_axis of a row of vectors": (
            wy.stack([bias, bias * 2.0], axis=-1).take_along_axis(x[:, :, :2].argsort(axis=-1), axis=1),
            lambda x, w, i, b: np.take_along_axis(np.stack([b, b * 2.0], axis=-1), x[:, :2].argsort(axis=-1), axis=0),
        ),
        "lookup": (table[ids], lambda x, w, i, b: numbers[i]),
        "bag": (
            wy.take(table, ids, axis=0).mean(axis=1),
            lambda x, w, i, b: numbers[i].mean(axis=0) if len(i) else np.zeros(3),
        ),
        "matmul": (x @ matrix, lambda x, *_: x @ product),
        "vector_dot": (wy.vecdot(x, bias.expand_dims(1)), lambda x, w, i, b: x @ b),
        "einsum with a matrix": (wy.einsum("bwi,ij->bwj", x, matrix), lambda x, *_: x @ product),
        "einsum of weights and entries": (wy.einsum("bw,bwi->bi", w, x), lambda x, w, *_: total(x, w)),
        "einsum of entries and a row": (
            wy.einsum("bwi,bj->bwij", x, bias),
            lambda x, w, i, b: np.multiply.outer(x, b),
        ),
        "einsum of entries and a column": (wy.einsum("ib,bwi->bw", bias.T, x), lambda x, w, i, b: x @ b),
        "einsum of sums": (wy.einsum("bwi,ij->bj", x, matrix), lambda x, *_: x.sum(axis=0) @ product),
        "einsum of pairs of features": (
            wy.einsum("bwj,bwi->bij", x @ matrix, x),
            lambda x, *_: np.einsum("wi,wj->ij", x, x @ product),
        ),
        "attention pooling": (
            (x * (x * bias.expand_dims(1)).sum(axis=-1).softmax(axis=1).expand_dims(-1)).sum(axis=1),
            lambda x, w, i, b: total(x, softmax(x @ b)) if len(x) else np.zeros(3),
        ),
        "transpose of entries": (x.reshape((Batch(), Words(), 3, 1)).transpose(0, 1, 3, 2), lambda x, *_: x[:, None]),
        "slice of entries": (x[:, :, 1:], lambda x, *_: x[:, 1:]),
        "concatenate": (wy.concatenate([x, x * 2.0], axis=-1), lambda x, *_: np.concatenate([x, x * 2.0], axis=-1)),
        "stack": (wy.stack([w, w * 2.0], axis=-1), lambda x, w, *_: np.stack([w, w * 2.0], axis=-1)),
        "row_lengths": (wy.row_lengths(ids), lambda x, *_: len(x)),
        "entry_positions": (wy.entry_positions(x), lambda x, *_: np.arange(len(x))),
        "first_entry": (wy.first_entry(x), or_else(0.0, lambda x: x[0])),
        "last_entry": (wy.last_entry(x), or_else(0.0, lambda x: x[-1])),
        "entry_at": (wy.entry_at(w, 2), lambda x, w, *_: w[2] if len(w) > 2 else 0.0),
        "row_segment_sum": (
            wy.row_segment_sum(x, ids, Vocabulary(7)),
            lambda x, w, i, b: np.stack([x[i == k].sum(axis=0) for k in range(7)]),
        ),
        "row_scan": (scan(graph)[1], lambda x, w, i, b: scanned(x, w, b, product)[1]),
        "last of row_scan": (scan(graph)[0], lambda x, w, i, b: scanned(x, w, b, product)[0]),
        "row_scan backwards": (
            scan(graph, reverse=True)[1],
            lambda x, w, i, b: scanned(x[::-1], w[::-1], b, product)[1][::-1],
        ),
        "last of row_scan backwards": (
            scan(graph, reverse=True)[0],
            lambda x, w, i, b: scanned(x[::-1], w[::-1], b, product)[0],
        ),
        "row_scan of integers": (
            wy.row_scan(lambda carry, i: (carry + i, carry), wy.IndexConstant(3), ids)[1],
            lambda x, w, i, b: 3 + np.cumsum(i) - i,
        ),
        "integers": ((ids * 2 + wy.row_lengths(ids).expand_dims(1)), lambda x, w, i, b: i * 2 + len(i)),
    }


LENGTHS = [0, 1, 17, 3, 0, 10_000, 2, 0]


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
def test_ops_are_those_of_each_row_alone(engine: str) -> None:
    graph = Graph([0, 1, 17, 3, 0, 40, 2, 0] if engine == "jax" else LENGTHS)
    named = cases(graph)
    if engine == "reference":
        for leaf, data in graph.data.items():
            leaf.set(data)
        values = [node.forward() for node, _ in named.values()]
    else:
        values = wy.compile([node for node, _ in named.values()], engine=engine)(graph.data)
    found = dict(zip(named, values, strict=True))

    def check(name: str) -> None:
        node, of_row = named[name]
        value = found[name]
        assert isinstance(value, wy.RaggedArray) == (len(node.dims) > 1 and isinstance(node.dims[1], wy.Ragged))
        assert value.dtype == node.dtype
        assert len(value) == len(graph.lengths)
        for position in range(len(graph.lengths)):
            with np.errstate(divide="ignore"):
                expected = np.asarray(of_row(*graph.row(position)))
            np.testing.assert_allclose(value[position], expected, rtol=1e-9, atol=1e-9)

    check_each(named, check)


# Entries that spoil a sum, in rows of their own, and rows of numbers between them.
SPOILED = [[1.0, np.inf, 2.0], [3.0, 4.0], [], [np.nan], [5.0], [-np.inf, np.inf, 1.0], [6.0, 7.0, 8.0], [1.0, np.nan]]


def alone(function: Callable[[Any, int], Any], row: Sequence[float]) -> np.ndarray:
    """Return what the entries of a row give as a graph of their own."""
    x = wy.Input(np.array(row), dims=(len(row),), dtype=np.float64, finite=False)
    value: np.ndarray = function(x, 0).forward()
    return value


def of_rows(function: Callable[[Any, int], Any]) -> dict[str, Callable[[Any, int], Any]]:
    """Return the value of a function along an axis, and its gradients of both orders."""

    def squares(x: Any, axis: int) -> Any:
        y = function(x, axis)
        return (y * y).sum()

    def second(x: Any, axis: int) -> Any:
        first = wy.grad(squares(x, axis), x)
        return wy.grad((first * first).sum(), x)

    return {"value": function, "gradient": lambda x, axis: wy.grad(squares(x, axis), x), "second order": second}


RUNNING: dict[str, Callable[[Any, int], Any]] = {
    "cumsum": lambda x, axis: x.cumsum(axis=axis),
    "shift": lambda x, axis: Shift(x, axis=axis, fill=0.5),
    "shift backwards": lambda x, axis: Shift(x, axis=axis, reverse=True, fill=0.0),
    "recurrence": lambda x, axis: Recurrence(x * 0.5, x, axis=axis),
    "recurrence backwards": lambda x, axis: Recurrence(x, x * 0.5, axis=axis, reverse=True),
    "cumprod": lambda x, axis: x.cumprod(axis=axis),
    "prod": lambda x, axis: x.prod(axis=axis, keepdims=True),
    "cummax": lambda x, axis: x.cummax(axis=axis),
    "cummin": lambda x, axis: x.cummin(axis=axis),
    "sort": lambda x, axis: x.sort(axis=axis),
}


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
def test_an_infinity_or_a_nan_stays_in_its_row(engine: str) -> None:
    x: Any = wy.Input(SPOILED, dims=(Batch(), Words()), dtype=np.float64, finite=False)
    named = {
        f"{name}, {order}": each for name, function in RUNNING.items() for order, each in of_rows(function).items()
    }
    nodes = [function(x, 1) for function in named.values()]
    values = [node.forward() for node in nodes] if engine == "reference" else wy.compile(nodes, engine=engine)({})
    found = dict(zip(named, values, strict=True))

    def check(name: str) -> None:
        for row, value in zip(SPOILED, found[name], strict=True):
            # How infinities of a row cancel in the products of others depends on their order.
            if row and (name != "prod, second order" or np.isfinite(row).all()):
                np.testing.assert_allclose(value, alone(named[name], row), rtol=1e-12)

    check_each(named, check)


# Functions of entries that order them, with what NumPy gives for a row that has entries.
ORDERED: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "argmax": (lambda x: x.argmax(axis=1), lambda x: x.argmax(axis=0)),
    "argmin": (lambda x: x.argmin(axis=1), lambda x: x.argmin(axis=0)),
    "argsort": (lambda x: x.argsort(axis=1), lambda x: x.argsort(axis=0, kind="stable")),
    "sort": (lambda x: x.sort(axis=1), lambda x: np.sort(x, axis=0)),
    "cummax": (lambda x: x.cummax(axis=1), lambda x: np.maximum.accumulate(x)),
    "cummin": (lambda x: x.cummin(axis=1), lambda x: np.minimum.accumulate(x)),
    "prod": (lambda x: x.prod(axis=1), lambda x: x.prod(axis=0)),
    "last of equal maxima": (lambda x: RunningArg(x, 1, True), lambda x: running_positions(x)),
    "last of equal minima": (lambda x: RunningArg(x, 1, False), lambda x: running_positions(-x)),
}


def running_positions(x: np.ndarray) -> np.ndarray:
    """Return where the greatest element up to each one stands: the last of equal ones, or the first NaN."""
    found = np.zeros(x.shape, np.int64)
    for column in range(x.shape[1]):
        for place, value in enumerate(x[:, column]):
            before = found[place - 1, column] if place else 0
            best = x[before, column]
            found[place, column] = place if not np.isnan(best) and not value < best else before
    return found


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
def test_equal_entries_infinities_and_nan_are_ordered_in_each_row_as_in_numpy(engine: str) -> None:
    random = np.random.default_rng(4)
    rows = [random.integers(-3, 4, (length, 2)) * 0.5 for length in [0, 1, 17, 1000, 0, 3, 17, 5, 0]]
    rows[2][4] = np.inf, -np.inf
    rows[5][1:] = np.nan
    rows[6][[3, 9], [0, 1]] = np.nan
    x: Any = wy.Input(rows, dims=(Batch(), Words(), Width(2)), dtype=np.float64, finite=False)
    nodes = [function(x) for function, _ in ORDERED.values()]
    values = [node.forward() for node in nodes] if engine == "reference" else wy.compile(nodes, engine=engine)({})
    found = dict(zip(ORDERED, values, strict=True))

    def check(name: str) -> None:
        for row, value in zip(rows, found[name], strict=True):
            if len(row):
                with np.errstate(invalid="ignore"):
                    np.testing.assert_allclose(value, ORDERED[name][1](row), rtol=1e-12)
            else:
                assert value.tolist() in ([], [-1, -1], [1.0, 1.0])

    check_each(ORDERED, check)


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
def test_positions_in_a_row_are_those_of_its_entries_alone(engine: str) -> None:
    rows = [[1.0, 2.0, 4.0], [8.0], [16.0, 32.0]]
    x: Any = wy.Input(rows, dims=(Batch(), Words()), name="x", dtype=np.float64)
    places = wy.IndexInput(dims=(Batch(), 2), name="places")
    chosen = x.take_along_axis(places, axis=1)
    nodes: list[Any] = [chosen, wy.grad((chosen * chosen).sum(), x)]
    program: Any = None if engine == "reference" else wy.compile(nodes, engine=engine)

    def computed(given: list[list[int]]) -> Any:
        if program is not None:
            return program({places: given})
        places.set(given)
        return [node.forward() for node in nodes]

    found, gradient = computed([[2, 0], [0, 0], [0, 1]])
    assert found.tolist() == [[4.0, 1.0], [8.0, 8.0], [16.0, 32.0]]
    assert gradient.tolist() == [[2.0, 0.0, 8.0], [32.0], [32.0, 64.0]]
    for wrong in (1, -1):
        with pytest.raises(
            IndexOutOfRange, match=r"-1 for a position beyond its row, .* holds -1 at position \(1, 0\), but"
        ):
            computed([[2, 0], [wrong, 0], [0, 1]])
    positions = wy.IndexInput([[0, 1, 3], [0], [0, 0]], dims=(Batch(), Words()), name="positions")
    with pytest.raises(IndexOutOfRange, match=r"holds -1 at position \(2,\)"):
        node: Any = x.take_along_axis(positions, axis=1)
        node.forward() if engine == "reference" else wy.compile(node, engine=engine)({})


# What is not finite for a row without entries.
INFINITE = ("max", "min", "logsumexp")


def test_gradients_are_those_of_finite_differences_to_second_order() -> None:
    def check(name: str) -> None:
        graph = Graph([1, 1, 3, 2] if name in INFINITE else [0, 1, 3, 0, 2])
        for leaf, data in graph.data.items():
            leaf.set(data)
        graph.data = {}
        parameter = wy.Parameter(np.array([0.7, -0.3, 1.1]), dims=(Width(3),))
        mixed = graph.x * parameter
        graph.x, graph.w = mixed.tanh(), mixed.sum(axis=-1)
        node = cases(graph)[name][0]
        if node.dtype.kind == "f" and parameter in set(node.parameters()):
            check_grads((node * node * node).sum(), [parameter])

    check_each(cases(Graph([1])), check)


def refused(graph: Graph) -> dict[str, tuple[Callable[[], object], str]]:
    x, w = graph.x, graph.w
    matrix: Any = graph.matrix
    other = wy.Input(dims=(Batch(), Letters()), dtype=np.float64)
    return {
        "transpose": (lambda: x.transpose(1, 0, 2), r"transpose.*moves Words\(\)"),
        "product of entries": (lambda: x @ x.mT, r"moves Words|where rows have different lengths"),
        "weights times entries": (lambda: w.expand_dims(1) @ x, "Words|behind the axis of its rows"),
        "sum over rows": (lambda: x.sum(axis=0), "reduces the axis of rows"),
        "prod over rows": (lambda: x.prod(axis=0), "reduces the axis of rows"),
        "argmax over rows": (lambda: x.argmax(axis=0), "is not defined along Words.* nor across rows"),
        "sort of rows": (lambda: wy.sort(w, axis=0), "is not defined along Words.* nor across rows"),
        "one entry": (lambda: x[:, 0], "wy.first_entry"),
        "one row": (lambda: x[0], "wy.first_entry"),
        "einsum of pairs": (lambda: wy.einsum("bwi,bvi->bwv", x, x), r"einsum.*sums or pairs along Words\(\)"),
        "einsum that moves": (lambda: wy.einsum("bwi,ij->bjw", x, matrix), r"einsum.*moves Words\(\)"),
        "an LSTM": (
            lambda: wy.nn.LSTM(3, 2)(x.astype(np.float32)),
            r"made for rows of one length.*wy.row_scan is a loop along each row",
        ),
        "attention": (lambda: wy.nn.MultiHeadAttention(3, 1)(x.astype(np.float32)), "pooling by attention"),
        "vmap": (lambda: wy.vmap(lambda row: row.sum())(x), "vmap of .* has rows of different lengths"),
        "a value of each row": (lambda: x * graph.bias, r"Words\(\) against Batch\(\).*value.expand_dims\(1\)"),
        "a number for each entry": (lambda: x * w, r"Batch\(\).*number.expand_dims\(-1\)"),
        "a number of entries": (lambda: x / x.shape[1], "the number of entries of each row is wy.row_lengths"),
        "twice a number of entries": (lambda: x / (x.shape[1] * 2), r"wy.row_lengths\(x\)"),
        "places": (lambda: wy.arange(x.shape[1]), r"arange.*wy.entry_positions\(x\)"),
        "classes": (
            lambda: w.cross_entropy(wy.IndexInput(dims=(Batch(),))),
            r"-wy.entry_at\(logits.log_softmax\(axis=1\), labels\)",
        ),
        "excluded entries": (lambda: wy.random.index(9, (x.dims[0], 3), exclude=graph.ids), r"fill them up with -1"),
        "a permutation": (lambda: wy.random.permutation(w.dims), r"random_permutation.* is not defined along Words"),
        "two ragged axes": (lambda: w + other, r"Words\(\) against Letters\(\)"),
        "scan": (lambda: wy.scan(lambda c, v: (c, v), 0.0, x), r"rows of different lengths; use wy.row_scan"),
        "row_scan of others": (lambda: wy.row_scan(lambda c, v: (c, v), 0.0, matrix), "along other axes, use wy.scan"),
        "row_scan of other rows": (
            lambda: wy.row_scan(lambda c, v: (c, v), matrix, x),
            r"has the axis Batch\(\) first",
        ),
        "row_scan of one result": (lambda: wy.row_scan(lambda c, v: c, 0.0, x), "a step returns a pair"),
        "row_scan of another carry": (
            lambda: wy.row_scan(lambda c, v: (c.sum(), v), np.zeros((1, 2)), x),
            r"carry has the axes \(2,\) but becomes sum",
        ),
        "flip": (lambda: wy.flip(x, axis=1), "Words"),
        "lengths of others": (lambda: wy.row_lengths(matrix), "takes a node with an axis of different lengths"),
    }


def test_what_is_not_defined_is_refused_when_it_is_constructed_with_the_op_and_the_axis() -> None:
    graph = Graph([1])

    def check(name: str) -> None:
        make, message = refused(graph)[name]
        with pytest.raises(ShapeError, match=message):
            make()

    check_each(refused(graph), check)


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
def test_an_einsum_over_all_entries_has_one_term_for_each(engine: str) -> None:
    rows, others = rows_of([2, 0, 3], (3,)), rows_of([2, 0, 3], (2,), 1)
    x: Any = wy.Input(rows, dims=(Batch(), Words(), Width(3)), dtype=np.float64)
    y: Any = wy.Input(others, dims=(Batch(), Words(), Pair(2)), dtype=np.float64)
    products: Any = wy.einsum("bwi,bwj->ij", x, y)
    found = products.forward() if engine == "reference" else wy.compile(products, engine=engine)({})
    np.testing.assert_allclose(found, np.concatenate(rows).T @ np.concatenate(others), rtol=1e-12)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_the_number_of_rows_is_known_where_no_other_data_tells_it(engine: str) -> None:
    x: Any = wy.Input([[1.0, 2.0], [], [3.0]], dims=(Batch(), Words()), dtype=np.float64)
    shares, mean = x / x.shape[0], x.sum() / x.shape[0]
    found: Any = wy.compile([shares, mean], engine=engine)({})
    assert found[0].tolist() == shares.forward().tolist() == [[1.0 / 3.0, 2.0 / 3.0], [], [1.0]]
    assert found[1] == mean.forward() == 2.0


@pytest.mark.parametrize(
    "run", [lambda node: wy.compile(node), lambda node: node.forward()], ids=["compile", "forward"]
)
def test_an_axis_to_which_no_input_gives_lengths_is_refused_with_the_node_that_has_it(run: Any) -> None:
    noise = wy.random.normal((Batch(), Words()))
    for node in (noise, noise.sum(axis=1)):
        with pytest.raises(ShapeError, match=r"axis Words\(\) of standard_normal .* has no lengths: the rows of data"):
            run(node)


def test_rows_without_entries_have_the_axes_and_the_dtype_of_their_input() -> None:
    forms: dict[str, Any] = {
        "lists": [[], []],
        "arrays": [np.zeros(0), np.zeros(0)],
        "offsets": (np.array([]), np.array([0, 0, 0])),
        "rows": wy.RaggedArray.of_rows([[], []]),
    }

    def check(name: str) -> None:
        ids = wy.IndexInput(dims=(Batch(), Words()))
        x: Any = wy.Input(dims=(Batch(), Words(), Width(3)))
        data: dict[Any, Any] = {ids: forms[name], x: forms[name]}
        program: Any = wy.compile([x.sum(axis=1), ids * 2])
        total, doubled = program(data)
        assert total.tolist() == [[0.0] * 3] * 2 and doubled.dtype == np.int64
        for leaf, rows in data.items():
            leaf.set(rows)
        assert x.mean(axis=1).forward().tolist() == [[0.0] * 3] * 2

    check_each(forms, check)
    assert wy.RaggedArray.of_rows([np.zeros(0, np.int32)]).dtype == np.int32


def test_an_embedding_bag_takes_bags_of_any_length() -> None:
    rows = [[1, 2], [], [3]]
    ids = wy.IndexInput(rows, dims=(Batch(), Words()))

    def check(mode: Any) -> None:
        bag = wy.nn.EmbeddingBag(5, 2, mode=mode, seed=0)
        table = bag.weight.value
        of_row: Any = getattr(np, mode)
        expected = [of_row(table[row], axis=0) if row else np.zeros(2) for row in rows]
        np.testing.assert_allclose(bag(ids).forward(), expected, rtol=1e-6)

    check_each(["sum", "mean", "max"], check)


def test_layers_work_on_each_entry() -> None:
    rows = rows_of([2, 0, 3], (4,))
    x = wy.Input([row.astype(np.float32) for row in rows], dims=(Batch(), Words(), Width(4)))
    layers = wy.nn.Linear(Width(4), Width(4), seed=0), wy.nn.LayerNorm(Width(4))
    value = layers[1](layers[0](x).gelu()).forward()
    for position, row in enumerate(rows):
        alone = wy.Input(row.astype(np.float32), dims=(len(row), Width(4)))
        np.testing.assert_allclose(value[position], layers[1](layers[0](alone).gelu()).forward(), rtol=1e-5, atol=1e-6)


def test_cross_entropy_of_the_entries_is_a_mean_over_all_of_them() -> None:
    rows = rows_of([2, 0, 3], (4,))
    labels = [[1, 2], [], [0, 3, 1]]
    x = wy.Input(rows, dims=(Batch(), Words(), Width(4)), dtype=np.float64)
    y = wy.IndexInput(labels, dims=(Batch(), Words()))
    flat = wy.Constant(np.concatenate(rows)).cross_entropy(np.concatenate(labels).astype(int)).forward()
    np.testing.assert_allclose(x.cross_entropy(y).forward(), flat, rtol=1e-12)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_draws_for_each_entry_are_those_of_the_reference(engine: str) -> None:
    x = wy.Input([[1.0, 2.0], [], [3.0]], dims=(Batch(), Words()), name="x", dtype=np.float64)
    drawn = wy.random.index(10, (Batch(), Words(), 3), seed=1)
    total: Any = (drawn.astype(np.float64).sum(axis=-1) * x).sum(axis=1)
    noise: Any = (wy.random.normal((Batch(), Words()), seed=2).astype(np.float64) * x).sum(axis=1)
    program = wy.compile([total, noise], engine=engine)
    with wy.random.at_step(3):
        expected = [node.forward() for node in (total, noise)]
        for found, value in zip(program({}), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-6)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_draws_for_each_entry_leave_out_what_its_row_excludes(engine: str) -> None:
    batch, words, lengths = Batch(), Words(), [40, 0, 60, 3]
    ids = wy.IndexInput([[0] * length for length in lengths], dims=(batch, words))
    users = wy.IndexInput([2, 0, 0, 1], dims=(batch,))
    seen = wy.RaggedArray.of_rows([[0, 1, 2], [3], [5, 6, 7, 8, 9]])
    history = wy.IndexInput([[7, 8], [-1, -1], [0, -1], [3, 4]], dims=(batch, 2))
    drawn: list[Any] = [
        wy.random.index(10, (batch, words, 4), exclude=seen, rows=users, seed=1),
        wy.random.index(10, (batch, words), exclude=history, seed=2),
    ]
    nodes: Any = [each + (wy.row_lengths(ids) * 0).expand_dims(tuple(range(1, each.ndim))) for each in drawn]
    with wy.random.at_step(0):
        expected = [node.forward() for node in nodes]
    for found, value in zip(wy.compile(nodes, engine=engine)({}), expected, strict=True):
        assert found.tolist() == value.tolist()
    assert set(expected[0][0].reshape(-1).tolist()) == {0, 1, 2, 3, 4}
    assert set(expected[0][2].reshape(-1).tolist()) == {3, 4, 5, 6, 7, 8, 9}
    assert set(expected[1][2].tolist()) == set(range(1, 10))
    assert not {7, 8} & set(expected[1][0].tolist())


def test_a_gradient_with_respect_to_an_input_has_its_rows() -> None:
    rows = [[1.0, 2.0], [], [3.0]]
    x: Any = wy.Input(rows, dims=(Batch(), Words()), name="x", dtype=np.float64)
    gradient: Any = wy.grad((x.softmax(axis=1) * x * x).sum(), x)
    value = gradient.forward()
    for row, found in zip(rows, value, strict=True):
        own = wy.Parameter(np.array(row))
        if row:
            np.testing.assert_allclose(found, wy.grad((own.softmax() * own * own).sum(), own).forward(), rtol=1e-12)
        else:
            assert found.shape == (0,)


def along(function: Callable[[Any, Any], Any], init: Any, x: Any, **options: Any) -> tuple[Any, Any]:
    """Return what `wy.row_scan` does, also for the only row of an array."""
    if isinstance(x.dims[1], wy.Ragged):
        return wy.row_scan(function, init, x, **options)
    last, made = wy.scan(function, init[0], x[0], **options)
    return last.expand_dims(0), made if made is None else made.expand_dims(0)


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
def test_a_loop_has_the_gradient_of_what_its_step_closes_over(engine: str) -> None:
    rows, start = rows_of([2, 0, 3], (3,), 1), rows_of([3], (3,), 2)[0]
    x: Any = wy.Input(rows, dims=(Batch(), Words(), Width(3)), dtype=np.float64)
    mix = wy.Parameter(rows_of([3], (3,), 3)[0], dims=(Width(3), Width(3)))
    first = wy.Parameter(start, dims=(Batch(), Width(3)))

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        following = (carry @ mix + 2.0 * carry + x).tanh()
        return following, following * carry

    last, made = wy.row_scan(step, first, x)
    loss: Any = (last * last).sum() + (made * made).sum()
    gradients = [wy.grad(loss, parameter) for parameter in (mix, first)]
    found = (
        [each.forward() for each in gradients] if engine == "reference" else wy.compile(gradients, engine=engine)({})
    )
    alone: Any = 0.0
    for row, one in zip(rows, range(len(rows)), strict=True):
        carry: Any = first[one]
        for entry in row:
            carry, y = step(carry, wy.Constant(entry))
            alone = alone + (y * y).sum()
        alone = alone + (carry * carry).sum()
    for value, parameter in zip(found, (mix, first), strict=True):
        np.testing.assert_allclose(value, wy.grad(alone, parameter).forward(), rtol=1e-9)


# Functions of entries (rows, entries, width), of a number for each entry (rows, entries), and of a row (rows, width).
STEPS: list[tuple[str, Callable[..., Any]]] = [
    ("x", lambda x, w, b: x * w.expand_dims(-1)),
    ("x", lambda x, w, b: x + b.expand_dims(1)),
    ("x", lambda x, w, b: x.tanh()),
    ("x", lambda x, w, b: x - x.mean(axis=1, keepdims=True)),
    ("x", lambda x, w, b: x * x.softmax(axis=1)),
    ("x", lambda x, w, b: (x * 0.5).cumsum(axis=1)),
    ("x", lambda x, w, b: wy.where(x > b.expand_dims(1), x, 0.5)),
    ("x", lambda x, w, b: x.softmax(axis=-1)),
    ("x", lambda x, w, b: wy.concatenate([x[:, :, 1:], x[:, :, :1]], axis=-1)),
    ("x", lambda x, w, b: x.maximum(x.max(axis=1, keepdims=True) - 0.5)),
    ("x", lambda x, w, b: x @ np.array([[0.5, 0.1, 0.0], [0.2, 0.7, 0.3], [0.0, 0.4, 0.6]])),
    ("x", lambda x, w, b: along(lambda c, v: ((c * 0.5 + v).tanh(), c + v), b, x)[1]),
    ("b", lambda x, w, b: along(lambda c, v: (c * v.sin() + v, None), b, x, reverse=True)[0]),
    ("w", lambda x, w, b: w + x.sum(axis=-1)),
    ("w", lambda x, w, b: w.log_softmax(axis=1)),
    ("w", lambda x, w, b: (w * x[:, :, 0]).sigmoid()),
    ("w", lambda x, w, b: wy.vecdot(x, b.expand_dims(1)).softmax(axis=1)),
    ("w", lambda x, w, b: w.cumsum(axis=1).tanh()),
    ("x", lambda x, w, b: x.sort(axis=1)),
    ("x", lambda x, w, b: x.cummax(axis=1) - x.cummin(axis=1) * 0.5),
    ("w", lambda x, w, b: w.cumprod(axis=1)),
    ("w", lambda x, w, b: w.take_along_axis(x[:, :, 0].argsort(axis=1), axis=1)),
    ("b", lambda x, w, b: x.tanh().prod(axis=1) + b),
    ("b", lambda x, w, b: b + x.argmax(axis=1).astype(np.float64) * 0.1),
    ("b", lambda x, w, b: b + x.mean(axis=1)),
    ("b", lambda x, w, b: (x * w.expand_dims(-1)).sum(axis=1)),
    ("b", lambda x, w, b: x.max(axis=1) - x.min(axis=1)),
    ("b", lambda x, w, b: b * w.logsumexp(axis=1, keepdims=True).tanh()),
    ("b", lambda x, w, b: x.var(axis=1)),
]


def random_programs(count: int) -> list[Callable[[Any, Any, Any], Any]]:
    """Return functions of entries, their numbers and rows, that give a number for each row."""
    random = np.random.default_rng(0)

    def program(chosen: np.ndarray) -> Callable[[Any, Any, Any], Any]:
        def run(x: Any, w: Any, b: Any) -> Any:
            held = {"x": x, "w": w, "b": b}
            for step in chosen:
                name, function = STEPS[step]
                held[name] = function(**held)
            return (held["x"] * held["w"].expand_dims(-1)).sum(axis=(1, 2)) + held["b"].sum(axis=-1)

        return run

    return [program(random.integers(0, len(STEPS), 5)) for _ in range(count)]


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_random_programs_of_rows_are_those_of_each_row_as_an_array(engine: str) -> None:
    lengths = [1, 4, 2, 1, 7, 3]
    rows, weights = rows_of(lengths, (3,), 1), rows_of(lengths, (), 2)
    bias = rows_of([len(lengths)], (3,), 3)[0]
    programs = random_programs(24 if engine == "native" else 8)
    x: Any = wy.Input(rows, dims=(Batch(), Words(), Width(3)), dtype=np.float64)
    w: Any = wy.Input(weights, dims=(Batch(), Words()), dtype=np.float64)
    b: Any = wy.Input(bias, dims=(Batch(), Width(3)))
    scale = wy.Parameter(np.array([1.0, 0.5, 2.0]), dims=(Width(3),))
    outputs = [program(x * scale, w, b) for program in programs]
    gradients = [wy.grad((output * output).sum(), scale) for output in outputs]
    found = wy.compile([*outputs, *gradients], engine=engine)({})
    alone = [
        (wy.Constant(rows[i][None]), wy.Constant(weights[i][None]), wy.Constant(bias[i][None]))
        for i in range(len(lengths))
    ]

    def check(position: int) -> None:
        expected = [programs[position](x * scale.value, w, b) for x, w, b in alone]
        np.testing.assert_allclose(found[position], [value.forward()[0] for value in expected], rtol=1e-8)
        own = wy.Parameter(scale.value)
        each = [programs[position](x * own, w, b) for x, w, b in alone]
        total: Any = sum(value * value for value in each[1:]) + each[0] * each[0]
        gradient = wy.grad(total.sum(), own).forward()
        np.testing.assert_allclose(found[len(programs) + position], gradient, rtol=1e-7, atol=1e-10)

    check_each(range(len(programs)), check)

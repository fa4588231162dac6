"""Training on rows of different lengths: each engine, each kind of thread and data, beside steps of the reference."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.each import check_each
from wyrm.errors import Diverged, DTypeError, IndexOutOfRange, NotFinite, ShapeError


class Batch(wy.Dim): ...


class Words(wy.Ragged): ...


class Vocabulary(wy.Dim): ...


class Width(wy.Dim): ...


class Classes(wy.Dim): ...


COUNT, TOKENS = 61, 40
LENGTHS = np.random.default_rng(0).integers(0, 9, COUNT)


def scanned(mix: wy.Parameter[Any]) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return a step of a recurrent layer."""

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        following = (carry @ mix + x).tanh()
        return following, following * carry

    return step


class Problem:
    """A classifier of bags of words with weights, and its data."""

    def __init__(self, kind: str = "weighted sum") -> None:
        random = np.random.default_rng(1)
        batch, words = Batch(), Words()
        self.ids = wy.IndexInput(dims=(batch, words), name="ids")
        self.weights = wy.Input(dims=(batch, words), name="weights", dtype=np.float64)
        self.labels = wy.IndexInput(dims=(batch,), name="labels")
        table = wy.Parameter(random.normal(size=(TOKENS, 4)), dims=(Vocabulary(TOKENS), Width(4)), name="table")
        mix = wy.Parameter(random.normal(size=(4, 4)), dims=(Width(4), Width(4)), name="mix")
        output = wy.Parameter(random.normal(size=(4, 3)), dims=(Width(4), Classes(3)), name="output")
        x = table.index(self.ids) * self.weights.expand_dims(-1)
        pooling: dict[str, Callable[[], Any]] = {
            "weighted sum": lambda: x.sum(axis=1) @ mix,
            "products of entries": lambda: (x @ mix).tanh().mean(axis=1),
            "attention": lambda: (x * (x @ mix).sum(axis=-1).softmax(axis=1).expand_dims(-1)).sum(axis=1),
            "in order": lambda: (x @ mix).cumsum(axis=1).tanh().mean(axis=1),
            "sorted": lambda: (x @ mix).sort(axis=1).tanh().cumprod(axis=1).mean(axis=1) + (x * 0.1 + 1.0).prod(axis=1),
            "by places": lambda: (
                x.take_along_axis((x @ mix).argsort(axis=1), axis=1).cummax(axis=1).mean(axis=1)
                + (x @ mix).argmax(axis=1).astype(np.float64) * 0.1
                + (self.ids.sum(axis=1) % 5 + self.ids.max(axis=1) % 3).astype(np.float64).expand_dims(-1)
            ),
            "a loop": lambda: wy.row_scan(scanned(mix), wy.Constant(np.zeros((1, 4)), dims=(1, Width(4))), x)[0],
            "a loop backwards": lambda: wy.row_scan(scanned(mix), x.sum(axis=1), x, reverse=True)[1].mean(axis=1),
            "in Python": lambda: OfNumPy((x @ mix).tanh()).mean(axis=1),
        }
        pooled = pooling[kind]()
        self.logits = pooled @ output
        self.loss = self.logits.cross_entropy(self.labels)
        self.parameters = self.loss.parameters()
        self.optimizer = wy.optim.Adam(self.parameters, learning_rate=0.05)
        random = np.random.default_rng(2)
        self.data: dict[Any, Any] = {
            self.ids: [random.integers(0, TOKENS, length) for length in LENGTHS],
            self.weights: [random.normal(size=length) for length in LENGTHS],
            self.labels: random.integers(0, 3, COUNT),
        }

    def reference(self, batch: int) -> list[np.ndarray]:
        """Return the parameters after an epoch of steps by `forward`, `backward` and `step`."""
        for start in range(0, COUNT, batch):
            for leaf, column in self.data.items():
                leaf.set(column[start : start + batch])
            self.loss.forward()
            self.loss.backward()
            self.optimizer.step()
            self.loss.zero_gradient()
        return self.values

    @property
    def values(self) -> list[np.ndarray]:
        return [parameter.value for parameter in self.parameters]


KINDS = [
    "weighted sum", "products of entries", "attention", "in order", "sorted", "by places", "a loop", "a loop backwards",
    "in Python",
]  # fmt: skip


def check_values(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "native"},
        {"engine": "native", "threads": 2, "mode": "synchronized"},
        {"engine": "jax"},
    ],
    ids=str,
)
def test_an_epoch_moves_the_parameters_as_steps_of_the_reference_do(options: dict[str, Any]) -> None:
    engine = options["engine"]
    rest = {name: value for name, value in options.items() if name != "engine"}

    def check(kind: str) -> None:
        problem, other = Problem(kind), Problem(kind)
        program = wy.compile(problem.loss, problem.optimizer, engine=engine)
        program.epoch(problem.data, batch_size=8, **rest)
        check_values(problem.values, other.reference(8))

    check_each(KINDS if engine == "native" else ["weighted sum", "sorted", "by places", "a loop backwards"], check)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_mean_of_all_entries_divides_by_those_of_the_step(engine: str) -> None:
    random = np.random.default_rng(5)

    def problem(kind: str) -> tuple[Any, Any, dict[Any, Any]]:
        batch, words = Batch(), Words()
        x = wy.Input(dims=(batch, words, Classes(3)), name="x", dtype=np.float64)
        y = wy.IndexInput(dims=(batch, words), name="y")
        scale = wy.Parameter(np.linspace(0.5, 1.5, 3), dims=(Classes(3),), name="scale")
        logits = x * scale
        losses: dict[str, Callable[[], Any]] = {
            "mean": lambda: logits.square().mean(),
            "by class": lambda: logits.square().mean(axis=(0, 1)).square().sum(),
            "labels": lambda: logits.cross_entropy(y),
            "deviation": lambda: logits.std(),
            "a gradient": lambda: wy.grad(logits.square().mean(), [x])[0].square().sum() * 100.0,
        }
        rows = [random.normal(size=(length, 3)) for length in LENGTHS + 1]
        data = {x: rows, y: [random.integers(0, 3, len(row)) for row in rows]}
        return losses[kind](), scale, {leaf: column for leaf, column in data.items() if leaf is x or kind == "labels"}

    def check(kind: str) -> None:
        loss, scale, data = problem(kind)
        wy.compile(loss, wy.optim.SGD([scale], 0.01), engine=engine).epoch(data, batch_size=8)
        moved = scale.value.copy()
        scale.set(np.linspace(0.5, 1.5, 3))
        optimizer = wy.optim.SGD([scale], 0.01)
        for start in range(0, COUNT, 8):
            for leaf, column in data.items():
                leaf.set(column[start : start + 8])
            loss.forward()
            loss.backward()
            optimizer.step()
            loss.zero_gradient()
        check_values([moved], [scale.value])

    check_each(["mean", "by class", "labels", "deviation", "a gradient"], check)


class OfNumPy(wy.Unary):
    """The square, which Python computes."""

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return operands[0] * operands[0]

    def vjp(self, gradient: Any) -> Any:
        return (gradient * 2.0 * self.parents[0],)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_program_may_read_the_lengths_of_rows_alone(engine: str) -> None:
    x = wy.Input(dims=(Batch(), Words()), name="x")
    lengths = wy.row_lengths(x).astype(np.float32)
    program = wy.compile([lengths, lengths.mean()], engine=engine)
    data = {x: [[1.0], [], [2.0, 3.0]]}
    assert program(data)[0].tolist() == [1.0, 0.0, 2.0]
    assert float(program.evaluate(data, batch_size=2)[1]) == 1.0


def test_loops_and_kernels_work_on_the_entries_of_a_step_and_python_gets_arrays_of_its_size() -> None:
    def changes(kind: str) -> bool:
        problem = Problem(kind)
        graph: Any = wy.compile(problem.loss, problem.optimizer).graph
        found: bool = graph.source.changes_sizes
        return found

    assert [kind for kind in KINDS if not changes(kind)] == ["in Python"]


def test_a_sum_along_rows_computes_its_terms_in_the_loop_that_adds_them_unless_they_are_vectorized() -> None:
    x = wy.Input(dims=(Batch(), Words(), Width(4)), name="x")
    weights = wy.Input(dims=(Batch(), Words()), name="weights")
    program: Any = wy.compile([(x * weights.expand_dims(-1)).sum(axis=1), weights.logsumexp(axis=1)])
    text = program.graph.source.text
    assert "multiply_" in text and "multiply[" not in text
    assert "exp[i0] = " in text


def test_jax_reads_a_power_of_two_of_entries_of_which_only_those_of_rows_count() -> None:
    problem = Problem("attention")
    program = wy.compile(problem.loss, problem.optimizer, engine="jax")
    engine: Any = program._engine
    assert engine.graph.flat.padded
    for start in range(0, COUNT, 8):
        of_rows = wy.RaggedArray.of_rows
        batch: dict[Any, Any] = {
            leaf: of_rows(problem.data[leaf][start : start + 8]) for leaf in (problem.ids, problem.weights)
        }
        batch[problem.labels] = problem.data[problem.labels][start : start + 8]
        (arrays,) = engine.feeds([batch])
        numbers = {array.shape[0] for array in arrays} - {len(batch[problem.labels])}
        assert all(number & (number - 1) == 0 for number in numbers)
    entries: Any = wy.compile([problem.weights.mean(), problem.weights.max(), problem.weights * 2.0], engine="jax")
    rows = problem.data[problem.weights]
    mean, largest, doubled = entries({problem.weights: rows})
    every = np.concatenate(rows)
    np.testing.assert_allclose([mean, largest], [every.mean(), every.max()], rtol=1e-12)
    assert doubled.values.tolist() == (every * 2.0).tolist()


def test_a_graph_that_reads_all_entries_is_not_padded_in_jax() -> None:
    problem = Problem()
    every = problem.weights.reshape(-1)
    program: Any = wy.compile(every.logsumexp(), engine="jax")
    assert not program.graph.flat.padded
    rows = problem.data[problem.weights]
    expected = np.logaddexp.reduce(np.concatenate(rows))
    np.testing.assert_allclose(program({problem.weights: rows}), expected, rtol=1e-12)
    gradient: Any = wy.compile(wy.grad(problem.loss, problem.parameters[0]), engine="jax")
    assert not gradient.graph.flat.padded
    np.testing.assert_allclose(
        gradient(problem.data), wy.compile(wy.grad(problem.loss, problem.parameters[0]))(problem.data), rtol=1e-9
    )


def test_an_epoch_over_ten_million_entries_does_not_copy_them() -> None:
    problem = Problem()
    rows = 500_000
    lengths = np.full(rows, 20)
    entries = np.random.default_rng(0).integers(0, TOKENS, rows * 20)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = {
        problem.ids: (entries, offsets),
        problem.weights: (np.ones(rows * 20), offsets),
        problem.labels: np.zeros(rows, np.int64),
    }
    program = wy.compile(problem.loss, problem.optimizer)
    few: dict[Any, Any] = {problem.ids: _first(entries, 64), problem.weights: _first(np.ones(len(entries)), 64)}
    program.epoch(few | {problem.labels: np.zeros(64, np.int64)}, batch_size=64)
    tracemalloc.start()
    program.epoch(data, batch_size=64, shuffle=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < entries.nbytes / 3  # offsets, the order of rows and checks take some bytes for each row


def _first(entries: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of some rows of 20 entries each."""
    return entries[: rows * 20], np.arange(rows + 1) * 20


def data_set(rows: Any, weights: Any, labels: Any) -> wy.data.Dataset:
    of_rows = wy.RaggedArray.of_rows
    return wy.data.Dataset(ids=of_rows(rows), weights=of_rows(weights), labels=labels)


def test_data_of_every_form_trains_alike() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    ids = Problem().data
    rows, weights, labels = ids.values()
    columns, values = np.concatenate(rows), np.concatenate(weights)
    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    matrix = sparse.csr_matrix((values, columns, offsets), shape=(COUNT, TOKENS))
    objects = np.empty(COUNT, object)
    objects[:] = rows
    forms: dict[str, Callable[[Problem], Any]] = {
        "lists": lambda p: {p.ids: [row.tolist() for row in rows], p.weights: weights, p.labels: labels},
        "objects": lambda p: {p.ids: objects, p.weights: weights, p.labels: labels},
        "offsets": lambda p: {p.ids: (columns, offsets), p.weights: (values, offsets), p.labels: labels},
        "CSR": lambda p: {p.ids: matrix, p.weights: matrix, p.labels: labels},
        "names": lambda p: {"ids": rows, "weights": weights, "labels": labels},
        "a data set": lambda p: data_set(rows, weights, labels),
    }

    def check(name: str) -> None:
        problem, other = Problem(), Problem()
        wy.compile(problem.loss, problem.optimizer).epoch(forms[name](problem), batch_size=8)
        check_values(problem.values, other.reference(8))

    check_each(forms, check)


def test_items_of_users_are_rows() -> None:
    seen: Any = wy.data.ItemRows.of_pairs(users=[0, 2, 0], items=[4, 2, 3], user_count=3, item_count=5)
    ids = wy.IndexInput(seen, dims=(Batch(), Words()))
    assert (ids * 1).forward().tolist() == [[3, 4], [], [2]]


def test_list_columns_of_arrow_are_rows() -> None:
    arrow = pytest.importorskip("pyarrow")
    problem, other = Problem(), Problem()
    rows, weights, labels = problem.data.values()
    table = arrow.table({"ids": rows, "weights": weights, "labels": labels})
    wy.compile(problem.loss, problem.optimizer).epoch(table, batch_size=8)
    check_values(problem.values, other.reference(8))


def test_a_loader_gives_batches_of_rows() -> None:
    problem, other = Problem(), Problem()
    rows, weights, labels = problem.data.values()
    data = data_set(rows, weights, labels)
    program = wy.compile(problem.loss, problem.optimizer)
    program.epoch(wy.data.DataLoader(data, batch_size=8, shuffle=False))
    check_values(problem.values, other.reference(8))


def test_a_copy_and_a_pickle_of_a_program_train_on() -> None:
    problem = Problem()
    program = wy.compile(problem.loss, problem.optimizer)
    names = {leaf.name: column for leaf, column in problem.data.items()}
    copied, pickled = copy.deepcopy(program), pickle.loads(pickle.dumps(program))
    losses = [each.epoch(names, batch_size=8) for each in (program, copied, pickled)]
    assert losses[0] == losses[1] == losses[2]


def test_calls_and_evaluations_take_rows_and_give_rows() -> None:
    problem = Problem()
    lengths = wy.row_lengths(problem.ids)
    program: Any = wy.compile([problem.logits, problem.weights * 2.0, lengths])
    for start, stop in ((0, 5), (5, 6), (7, 7), (0, COUNT)):
        given = {leaf: column[start:stop] for leaf, column in problem.data.items() if leaf is not problem.labels}
        logits, doubled, found = program(given)
        assert logits.shape == (stop - start, 3)
        assert isinstance(doubled, wy.RaggedArray)
        assert doubled.lengths.tolist() == found.tolist() == LENGTHS[start:stop].tolist()
    loss = wy.compile(problem.loss)
    whole = loss.evaluate(problem.data, batch_size=COUNT)
    assert loss.evaluate(problem.data, batch_size=7) == pytest.approx(whole, rel=1e-9)


def test_a_mean_over_all_entries_weighs_batches_by_their_rows() -> None:
    problem = Problem()
    mean = problem.weights.mean()
    weights = problem.data[problem.weights]
    program = wy.compile(mean)
    assert program({problem.weights: weights}) == pytest.approx(np.concatenate(weights).mean())


def test_wrong_data_is_refused_before_a_parameter_moves() -> None:
    problem = Problem()
    rows, weights, labels = problem.data.values()
    ids, w, y = problem.data
    before = problem.values
    program = wy.compile(problem.loss, problem.optimizer)
    wrong: dict[str, tuple[Any, type[Exception], str]] = {
        "an index": ({ids: [*rows[:-1], [1, TOKENS]], w: [*weights[:-1], [1.0, 1.0]], y: labels}, IndexOutOfRange,
                     rf"ids holds {TOKENS} in row 60, position \(1,\)"),
        "NaN": ({ids: [[1, 2]] * COUNT, w: [[1.0, np.nan]] * COUNT, y: labels}, NotFinite, r"row 0, position \(1,\)"),
        "lengths": ({ids: rows, w: weights[::-1], y: labels}, ShapeError, "row 2 has 8 entries in weights"),
        "rows": ({ids: rows[:-1], w: weights[:-1], y: labels}, ShapeError, "different lengths: ids has 60 rows"),
        "floats": ({ids: weights, w: weights, y: labels}, DTypeError, "ids .*takes integers"),
        "texts": ({ids: ["abc"] * COUNT, w: weights, y: labels}, DTypeError, "row 0 is 'abc'"),
        "one row": ({ids: np.arange(COUNT), w: weights, y: labels}, ShapeError, "has no rows"),
        "offsets": ({ids: (np.arange(3), np.array([0, 2, 1])), w: weights, y: labels}, ShapeError, "decrease from 2"),
        "whose offsets": ({ids: (np.arange(3), np.array([0, 2])), w: weights, y: labels}, ShapeError,
                          "column ids: offsets begin at 0 .* one integer more than there are rows"),
        "texts in a row": ({ids: [["a", "b"]] * COUNT, w: weights, y: labels}, DTypeError, r"row 0 is \['a', 'b'\]"),
        "a set": ({ids: [{1, 2}] * COUNT, w: weights, y: labels}, DTypeError, r"row 0 is \{1, 2\}, and each row is"),
        "lists in a row": ({ids: [[[1, 2], [3]]] * COUNT, w: weights, y: labels}, ShapeError,
                           "column ids: row 0 holds lists of different lengths; only rows differ"),
        "the last offset": ({ids: (np.arange(3), np.array([0, 2])), w: weights, y: labels}, ShapeError, "end at 2"),
        "a tuple": ({ids: ([1], [2], [3]), w: weights, y: labels}, TypeError, r"a tuple is \(values, offsets\)"),
        "rows for labels": ({ids: rows, w: weights, y: wy.RaggedArray.of_rows(rows)}, ShapeError, "rows of one length"),
    }  # fmt: skip

    def check(name: str) -> None:
        data, error, message = wrong[name]
        with pytest.raises(error, match=message):
            program.epoch(data, batch_size=8)
        check_values(problem.values, before)

    check_each(wrong, check)


def test_an_error_of_a_step_is_explained_by_the_entries_of_that_step_alone() -> None:
    """Arrays have room for the longest rows, and hold what earlier steps left behind the entries of this one."""
    batch, words = Batch(), Words()
    x = wy.IndexInput(dims=(batch, words), name="x")
    shift, place = wy.IndexInput(dims=(batch,), name="shift"), wy.IndexInput(dims=(batch,), name="place")
    table, rows = wy.Parameter(np.ones(10), name="table"), wy.Parameter(np.ones(4), name="rows")
    loss = (table.index(x + shift.expand_dims(1)).sum(axis=1) + rows.index(place * 2)).square().mean()
    program: Any = wy.compile(loss, wy.optim.SGD([table, rows], 1e-3))
    assert program.graph.source.changes_sizes
    data: dict[Any, Any] = {x: [[9] * 5, [9] * 4, [0], [1]], shift: [0, 0, 7, 7], place: [0, 1, 1, 3]}
    message = r"index_multiply \(Batch\(\),\) int64 .* holds 6 at position \(1,\), but index of rows .* takes 0 to 3"
    with pytest.raises(IndexOutOfRange, match=message):
        program.epoch(data, batch_size=2)
    with pytest.raises(IndexOutOfRange, match=message):
        program({leaf: column[2:] for leaf, column in data.items()})
    # Many steps in one call, of which one in the middle fails.
    right: dict[Any, Any] = {x: [[9] * 5, [9], [1], [2]] * 20, shift: [0] * 80, place: [0] * 80}
    program.epoch(right, batch_size=2)
    with pytest.raises(IndexOutOfRange, match=message):
        program.epoch({leaf: right[leaf] + data[leaf] + right[leaf] for leaf in data}, batch_size=2)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_an_index_out_of_range_is_named_where_two_inputs_have_the_same_lengths(engine: str) -> None:
    batch, words = Batch(), Words()
    x = wy.IndexInput(dims=(batch, words), name="x")
    weights: Any = wy.Input(dims=(batch, words), name="weights")
    rows = wy.Parameter(np.ones(4, np.float32), name="rows")
    loss: Any = ((weights * 2.0) * rows.index(x * 2)).sum(axis=1).square().mean()
    message = r"index_multiply .* holds 6 at position \(2,\).*, but index of rows .* takes 0 to 3"
    data: dict[Any, Any] = {weights: [[1.0, 2.0], [3.0]], x: [[0, 1], [3]]}
    with pytest.raises(IndexOutOfRange, match=message):
        wy.compile(loss, engine=engine)(data)
    with pytest.raises(IndexOutOfRange, match=message):
        wy.compile(loss, wy.optim.SGD([rows], 0.1), engine=engine).epoch(data, batch_size=2)


MEANS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mean": lambda h, x, y: h.square().mean(),
    "mean over entries": lambda h, x, y: h.square().mean(axis=(0, 1)).sum(),
    "mean of a value for each entry": lambda h, x, y: h.square().sum(axis=-1).mean(),
    "var": lambda h, x, y: h.var(),
    "std": lambda h, x, y: h.std(),
    "cross_entropy": lambda h, x, y: h.cross_entropy(y),
    "cross_entropy of some labels": lambda h, x, y: wy.losses.cross_entropy(h, y, ignore_index=1),
    "mse": lambda h, x, y: wy.losses.mse(h.sum(axis=-1), x),
}


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_step_without_entries_has_the_loss_0_and_moves_nothing(engine: str) -> None:
    rows: list[list[float]] = [[1.0, 2.0], [3.0], [], [], [4.0], [5.0, 6.0]]
    labels: list[list[int]] = [[0, 1], [2], [], [], [1], [0, 2]]

    def check(name: str) -> None:
        x: Any = wy.Input(dims=(Batch(), Words()), name="x", dtype=np.float64)
        y = wy.IndexInput(dims=(Batch(), Words()), name="y")
        weight = wy.Parameter(np.array([1.0, 2.0, 0.5]))
        loss = MEANS[name](x.expand_dims(-1) * weight, x, y)
        data: dict[Any, Any] = {x: rows, y: labels} if "cross_entropy" in name else {x: rows}

        def trained(taken: list[int]) -> tuple[Any, Any]:
            weight.set(np.array([1.0, 2.0, 0.5]))
            program = wy.compile(loss, wy.optim.SGD([weight], 0.1), engine=engine)
            mean = program.epoch({leaf: [column[i] for i in taken] for leaf, column in data.items()}, batch_size=2)
            return mean, weight.value.copy()

        (mean, found), (others, expected) = trained([0, 1, 2, 3, 4, 5]), trained([0, 1, 4, 5])
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert name == "cross_entropy of some labels" or mean == pytest.approx(others * 2.0 / 3.0)
        gradient = wy.grad(loss, weight)
        empty: Any = {leaf: [[], []] for leaf in data}
        program: Any = wy.compile([loss, gradient, wy.grad(gradient.square().sum(), weight)], engine=engine)
        for value in program(empty):
            assert not np.any(value)
        for leaf, column in empty.items():
            leaf.set(column)
        assert loss.forward() == 0.0 and not gradient.forward().any()

    check_each(MEANS, check)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_an_infinity_of_a_row_without_entries_is_named_with_what_to_do(engine: str) -> None:
    x: Any = wy.Input(dims=(Batch(), Words()), name="x", dtype=np.float64)
    scale = wy.Parameter(np.array(2.0))
    largest = (x * scale).max(axis=1)
    rows = [[1.0, 3.0], []]
    program = wy.compile(largest.mean(), wy.optim.SGD([scale], 0.1), engine=engine)
    with pytest.raises(Diverged, match=r"row without entries in max \(Batch\(\),\).*wy.where\(wy.row_lengths\(x\) > 0"):
        program.epoch({x: rows}, batch_size=2)
    known: Any = wy.where(wy.row_lengths(x) > 0, largest, 0.0)
    assert wy.compile(known.mean(), wy.optim.SGD([scale], 0.1), engine=engine).epoch({x: rows}, batch_size=2) == 3.0
    assert scale.value == 2.0 - 0.1 * 1.5


def test_lengths_that_differ_are_named_by_inputs_when_nodes_are_computed() -> None:
    x: Any = wy.Input([[1.0], [2.0, 3.0]], dims=(Batch(), Words()), name="x")
    y: Any = wy.Input([[1.0], [2.0]], dims=(Batch(), Words()), name="y")
    with pytest.raises(ShapeError, match=r"row 1 has 1 entries in y \(Batch\(\), Words\(\)\).* and 2 in x"):
        (x * y).sum().forward()


def test_what_has_no_rows_of_different_lengths_says_so() -> None:
    with pytest.raises(TypeError, match="takes no size"):
        Words(3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="needs a name"):
        wy.Ragged()
    with pytest.raises(ShapeError, match="behind the axis of its rows"):
        wy.Input(dims=(Words(), Batch()))
    with pytest.raises(ShapeError, match=r"one of data, wy.Input or wy.IndexInput"):
        wy.Parameter(np.ones((2, 2)), dims=(Batch(2), Words()))


def test_profiles_count_the_loads_of_rows() -> None:
    problem = Problem()
    program = wy.compile(problem.loss, problem.optimizer)
    profile = program.profile(problem.data, batch_size=8, steps=3)
    loads = [stage.name for stage in profile.stages if stage.kind == "load"]
    assert {"load ids", "load weights", "load labels", "load rows of ids"} <= set(loads)

"""Training along axes that are made of others, joined entries and pairs, beside steps of the reference."""

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
from tests.engines.test_ragged_epochs import check_values
from wyrm.errors import ShapeError


class Batch(wy.Dim): ...


class Words(wy.Ragged): ...


class Tags(wy.Ragged): ...


class Vocabulary(wy.Dim): ...


class Width(wy.Dim): ...


COUNT, TOKENS = 61, 40
WORDS = np.random.default_rng(0).integers(0, 9, COUNT)
TAGS = np.random.default_rng(1).integers(0, 4, COUNT)
WORDS[17], TAGS[40] = 50, 30


class Problem:
    """A model of a row's words and tags, with its data."""

    def __init__(self, kind: str = "factorization machine", optimizer: Any = None) -> None:
        random = np.random.default_rng(1)
        batch = Batch()
        self.words = wy.IndexInput(dims=(batch, Words()), name="words")
        self.tags = wy.IndexInput(dims=(batch, Tags()), name="tags")
        self.weights = wy.Input(dims=(batch, Words()), name="weights", dtype=np.float64)
        self.targets = wy.Input(dims=(batch,), name="targets", dtype=np.float64)
        table = wy.Parameter(random.normal(size=(TOKENS, 4)), dims=(Vocabulary(TOKENS), Width(4)), name="table")
        mix = wy.Parameter(random.normal(size=(4, 4)), dims=(Width(4), Width(4)), name="mix")
        x: Any = table.index(self.words) * self.weights.expand_dims(-1)
        y: Any = table.index(self.tags) @ mix
        joined: Any = wy.concatenate((x, y), axis=1)
        kinds: dict[str, Callable[[], Any]] = {
            "factorization machine": lambda: products(*wy.row_pairs(x)),
            "pairs of numbers": lambda: products(*map(table.index, wy.row_pairs(self.words))),
            "attention": lambda: (joined * (joined @ mix).sum(axis=-1).softmax(axis=1).expand_dims(-1)).sum(
                axis=(1, 2)
            ),
            "pairs of joined": lambda: products(*wy.row_pairs(joined)),
            "joined numbers": lambda: table.index(wy.concatenate((self.words, self.tags), axis=1)).sum(axis=(1, 2)),
            "a loop": lambda: wy.row_scan(lambda c, v: ((c @ mix + v).tanh(), None), x.sum(axis=1), joined)[0].sum(
                axis=1
            ),
            "lengths": lambda: wy.row_lengths(joined).astype(np.float64) * mix.sum(),
        }
        self.scores = kinds[kind]()
        self.loss = (self.scores - self.targets).square().mean()
        self.parameters = self.loss.parameters()
        make = optimizer or (lambda parameters: wy.optim.Adam(parameters, learning_rate=0.05))
        self.optimizer = make(self.parameters)
        random = np.random.default_rng(2)
        data: dict[Any, Any] = {
            self.words: [random.integers(0, TOKENS, length) for length in WORDS],
            self.tags: [random.integers(0, TOKENS, length) for length in TAGS],
            self.weights: [random.normal(size=length) for length in WORDS],
            self.targets: random.normal(size=COUNT),
        }
        read = set(wy.compile(self.loss).inputs)
        self.data: dict[Any, Any] = {leaf: column for leaf, column in data.items() if leaf in read}

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


def rows_of(column: Any) -> Any:
    return wy.RaggedArray.of_rows(column) if isinstance(column, list) else column


def products(left: Any, right: Any) -> Any:
    return (left * right).sum(axis=(1, 2))


KINDS = [
    "factorization machine", "pairs of numbers", "attention", "pairs of joined", "joined numbers", "a loop", "lengths",
]  # fmt: skip


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
    rest = {name: value for name, value in options.items() if name != "engine"}

    def check(kind: str) -> None:
        problem, other = Problem(kind), Problem(kind)
        program = wy.compile(problem.loss, problem.optimizer, engine=options["engine"])
        program.epoch(problem.data, batch_size=8, **rest)
        check_values(problem.values, other.reference(8))

    check_each(
        KINDS if options["engine"] == "native" else ["factorization machine", "attention", "pairs of joined"], check
    )


def test_shuffled_epochs_are_those_of_steps_in_that_order() -> None:
    def trained(engine: str) -> list[np.ndarray]:
        problem = Problem("pairs of joined")
        program = wy.compile(problem.loss, problem.optimizer, engine=engine)
        for epoch in range(3):
            program.epoch(problem.data, batch_size=8, shuffle=True, seed=epoch)
        return problem.values

    check_values(trained("native"), trained("jax"))


def test_threads_without_locks_take_small_steps_in_any_order() -> None:
    def small(parameters: Any) -> Any:
        return wy.optim.SGD(parameters, learning_rate=1e-7)

    def check(kind: str) -> None:
        problem, other = Problem(kind, small), Problem(kind, small)
        before = [value.copy() for value in problem.values]
        wy.compile(problem.loss, problem.optimizer).epoch(problem.data, batch_size=8, threads=2, mode="hogwild")
        for start, value, expected in zip(before, problem.values, other.reference(8), strict=True):
            np.testing.assert_allclose(value - start, expected - start, rtol=1e-2, atol=1e-9)

    check_each(["factorization machine", "attention"], check)


def test_steps_have_arrays_for_the_largest_one_and_work_on_their_own_entries() -> None:
    def changes(kind: str) -> bool:
        problem = Problem(kind)
        graph: Any = wy.compile(problem.loss, problem.optimizer).graph
        found: bool = graph.source.changes_sizes
        return found

    assert [kind for kind in KINDS if not changes(kind)] == []


def test_short_epochs_in_one_call_are_those_of_many_calls() -> None:
    problem, other = Problem("pairs of joined"), Problem("pairs of joined")
    program = wy.compile(problem.loss, problem.optimizer)
    for _ in range(4):
        program.epoch(problem.data, batch_size=8)
        other.reference(8)
    check_values(problem.values, other.values)


def test_batches_accumulate() -> None:
    def trained(engine: str) -> Sequence[np.ndarray]:
        problem = Problem("attention")
        program = wy.compile(problem.loss, problem.optimizer, engine=engine)
        program.epoch(problem.data, batch_size=8, accumulate=3)
        return problem.values

    check_values(trained("native"), trained("jax"))


def test_evaluations_and_loaders_take_rows_and_a_copy_trains_on() -> None:
    problem, other = Problem("pairs of joined"), Problem("pairs of joined")
    program = wy.compile([problem.loss, problem.scores.mean()])
    mean = program.evaluate(problem.data, batch_size=7)
    for leaf, column in problem.data.items():
        leaf.set(column)
    np.testing.assert_allclose(mean, [problem.loss.forward(), problem.scores.mean().forward()], rtol=1e-9)
    training = wy.compile(problem.loss, problem.optimizer)
    copied, pickled = copy.deepcopy(training), pickle.loads(pickle.dumps(training))
    names: dict[Any, Any] = {leaf.name: column for leaf, column in problem.data.items()}
    data = wy.data.Dataset({name: rows_of(column) for name, column in names.items()})
    loader: Any = wy.data.DataLoader(data, batch_size=8, shuffle=False)
    losses = [
        training.epoch(problem.data, batch_size=8), copied.epoch(names, batch_size=8), pickled.epoch(loader)
    ]  # fmt: skip
    assert losses[0] == losses[1] == losses[2]
    check_values(problem.values, other.reference(8))


def test_draws_for_each_entry_are_the_same_in_every_engine_and_for_every_number_of_threads() -> None:
    def trained(**options: Any) -> float:
        random = np.random.default_rng(4)
        batch, engine = Batch(), options.pop("engine")
        x = wy.Input(dims=(batch, Words()), name="x", dtype=np.float64)
        y = wy.Input(dims=(batch, Tags()), name="y", dtype=np.float64)
        scale = wy.Parameter(np.float64(1.0), name="scale")
        joined: Any = wy.concatenate((x * scale, y * scale), axis=1)
        left, right = wy.row_pairs(x * scale)
        kept = joined.dropout(0.5, stream=1).sum(axis=1)
        noisy = (left * right * wy.random.normal(left.dims, stream=2, dtype=np.float64)).sum(axis=1)
        program = wy.compile((kept + noisy).square().sum(), wy.optim.SGD([scale], 1e-7), engine=engine)
        data: dict[Any, Any] = {x: [random.normal(size=n) for n in WORDS], y: [random.normal(size=n) for n in TAGS]}
        for _ in range(2):
            program.epoch(data, batch_size=8, **options)
        return float(scale)

    def check(options: dict[str, Any]) -> None:
        assert trained(**options) == pytest.approx(trained(engine="native"), rel=1e-12)

    cases: list[dict[str, Any]] = [
        {"engine": "jax"}, {"engine": "native", "threads": 2, "mode": "synchronized"},
    ]  # fmt: skip
    check_each(cases, check)
    accumulated = trained(engine="native", accumulate=3)
    assert accumulated == pytest.approx(trained(engine="jax", accumulate=3), rel=1e-12)


def test_data_of_one_part_without_the_other_is_refused_in_an_epoch() -> None:
    problem = Problem("attention")
    problem.tags.set(problem.data[problem.tags][:8])
    del problem.data[problem.tags]
    before = [value.copy() for value in problem.values]
    program = wy.compile(problem.loss, problem.optimizer)
    with pytest.raises(ShapeError, match=r"axis Joined\[Words, Tags\]\(\) is made of .*give tags a column too"):
        program.epoch(problem.data, batch_size=8)
    check_values(problem.values, before)


def test_data_that_inputs_hold_stays_in_an_epoch() -> None:
    batch = Batch()
    words, tags = (
        wy.IndexInput(dims=(batch, axis), name=name) for axis, name in ((Words(), "words"), (Tags(), "tags"))
    )
    scale, x = wy.Parameter(1.0, name="scale"), wy.Input(dims=(batch,), name="x")
    joined: Any = wy.concatenate((words, tags), axis=1)
    loss = (scale * x * joined.astype(np.float32).sum(axis=1)).sum()
    words.set([[1], []])
    tags.set([[2], [3, 4]])
    for engine in ("native", "jax"):
        scale.set(1.0)
        wy.compile(loss, wy.optim.SGD([scale], 1.0), engine=engine).epoch({x: [1.0, 0.0, 0.0, 1.0]}, batch_size=2)
        assert float(scale) == 1.0 - 3.0 - 7.0


def test_an_epoch_stores_nothing_for_each_pair() -> None:
    words = wy.IndexInput(dims=(Batch(), Words()), name="words")
    table = wy.Parameter(np.zeros((8, 1)), name="table")
    left, right = wy.row_pairs(table.index(words))
    loss = (left * right).sum()
    rows = wy.RaggedArray(np.zeros(64 * 400, np.int64), np.arange(401) * 64)  # 806,400 pairs
    program = wy.compile(loss, wy.optim.SGD([table], 0.1))
    program.epoch({words: rows}, batch_size=2)
    tracemalloc.start()
    program.epoch({words: rows}, batch_size=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 806_400


def test_a_value_that_is_not_known_for_all_entries_is_read_by_python_too() -> None:
    """Where a step has arrays of its own sizes, those of made axes have them too."""

    class Squared(wy.Unary):
        """The square, which Python computes."""

        def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
            return operands[0] * operands[0]

        def vjp(self, gradient: Any) -> Any:
            return (gradient * 2.0 * self.parents[0],)

    random = np.random.default_rng(3)
    words = wy.Input(dims=(Batch(), Words()), name="words", dtype=np.float64)
    scale = wy.Parameter(np.float64(0.5), name="scale")
    left, right = wy.row_pairs(words * scale)
    data = [random.normal(size=length) for length in WORDS]
    found = []
    for made in (Squared(left * right), (left * right).square()):
        scale.set(0.5)
        wy.compile(made.sum(), wy.optim.SGD([scale], 1e-6)).epoch({words: data}, batch_size=8)
        found.append(scale.value.copy())
    check_values(found[:1], found[1:])

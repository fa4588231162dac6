"""Threads that divide a batch draw the numbers that one thread draws, for rows and for entries of rows."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

import wyrm as wy
from tests.each import check_each
from wyrm.engines.combination import Combination
from wyrm.graph.axes import axis_of_entries
from wyrm.ops.random.philox import places_before


class Batch(wy.Dim): ...


class Words(wy.Ragged): ...


class Tags(wy.Ragged): ...


ROWS = 13
LENGTHS = np.random.default_rng(0).integers(0, 7, ROWS)
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
ENTRIES = np.random.default_rng(1).normal(size=OFFSETS[-1]), OFFSETS
# The rows that are left make a smaller batch, of which a part has as many rows as one of the others.
BATCH = 8

Drawn = Callable[[Any], Any]
float64: Any = {"dtype": np.float64}

# What is drawn for each entry of `x`, of the axes (rows, entries of each), or for each of its rows.
OF_ENTRIES: dict[str, Drawn] = {
    "dropout": lambda x: x.dropout(0.5, stream=1),
    "dropout of vectors": lambda x: (x.expand_dims(-1) * np.ones(3)).dropout(0.5, stream=1).sum(axis=-1),
    "residual dropout": lambda x: x.add_dropout(x * 2.0, 0.5, stream=1),
    "normal": lambda x: x * wy.random.normal(x.dims, stream=1, **float64),
    "gamma": lambda x: x * wy.random.gamma(x.dims, 2.0, stream=1, **float64),
    "integers": lambda x: x * wy.random.randint(x.dims, 0, 9, stream=1).astype(np.float64),
    "permutations": lambda x: (
        x.expand_dims(-1) * (wy.random.permutation((*x.dims, 5), stream=1).astype(np.float64) * np.arange(5.0))
    ).sum(axis=-1),
    "rows of a table": lambda x: x * wy.random.index(1000, x.dims, stream=1).astype(np.float64),
    "negatives": lambda x: (
        x.expand_dims(-1) * wy.random.index(50, (*x.dims, 3), weights=np.arange(50.0), stream=1).astype(np.float64)
    ).sum(axis=-1),
    "without the row's own": lambda x: (
        x
        * wy.random.index(
            7, x.dims, exclude=(wy.entry_positions(x) % 7).expand_dims(-1), weights=np.arange(1.0, 8.0), stream=1
        ).astype(np.float64)
    ),
    "a loop": lambda x: wy.row_scan(lambda c, each: (c, each.dropout(0.5, stream=1)), 0.0, x)[1],
    "a loop backwards": lambda x: wy.row_scan(
        lambda c, each: (c, each.dropout(0.5, stream=1)), 0.0, x, reverse=True
    )[1],
}  # fmt: skip
OF_ROWS: dict[str, Drawn] = {
    "dropout": lambda x: x.dropout(0.5, stream=1),
    "rows of a table": lambda x: x * wy.random.index(1000, x.dims, stream=1).astype(np.float64),
    "one for a row": lambda x: x * wy.random.index(9, x.dims[:1], stream=1).astype(np.float64).expand_dims(1),
    "without some": lambda x: (
        x
        * wy.random.index(
            9, x.dims, exclude=[[0, 3, 5, 8]] * 9, rows=wy.random.randint(x.dims[:1], 0, 9, stream=2), stream=1
        ).astype(np.float64)
    ),
    "another order of axes": lambda x: x * wy.random.normal(x.dims[::-1], stream=1, **float64).T,
    "rows in another order of axes": lambda x: x * wy.random.index(9, x.dims[::-1], stream=1).astype(np.float64).T,
    "a loop for each row": lambda x: wy.vmap(
        lambda row: wy.scan(lambda c, each: (c, each.dropout(0.5, stream=1)), wy.Constant(0.0, **float64), row)[1]
    )(x),
}  # fmt: skip
DIVIDED = OF_ENTRIES.keys() - {"without the row's own", "a loop", "a loop backwards"}


class Problem:
    """A parameter that is trained on what is drawn, so that its value tells the numbers."""

    def __init__(self, drawn: Drawn, *, ragged: bool) -> None:
        dims: Any = (Batch(), Words()) if ragged else (Batch(), 4)
        self.x = wy.Input(dims=dims, name="x", **float64)
        self.data: Any = ENTRIES if ragged else np.random.default_rng(2).normal(size=(ROWS, 4))
        self.scale = wy.Parameter(np.float64(1.0), name="scale")
        self.loss = drawn(self.x * self.scale).sum(axis=1).square().sum()

    def trained(self, engine: str = "native", **options: Any) -> float:
        program = wy.compile(self.loss, wy.optim.SGD([self.scale], 1e-6), engine=engine)
        for _ in range(2):
            program.epoch({self.x: self.data}, batch_size=BATCH, **options)
        return float(self.scale)

    @property
    def combination(self) -> Combination:
        program: Any = wy.compile(self.loss, wy.optim.SGD([self.scale], 1e-6))
        found: Combination = program._engine.data_parallel.combination([self.x])
        return found


def check_threads(kinds: dict[str, Drawn], ragged: bool) -> None:
    def check(kind: str) -> None:
        expected = Problem(kinds[kind], ragged=ragged).trained()
        for threads in (2, 3):
            found = Problem(kinds[kind], ragged=ragged).trained(threads=threads, mode="synchronized")
            np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=f"{threads} threads")
        found = Problem(kinds[kind], ragged=ragged).trained("jax")
        np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg="JAX")

    check_each(kinds, check)


def test_entries_of_rows_draw_the_same_for_any_number_of_threads() -> None:
    check_threads(OF_ENTRIES, ragged=True)


def test_rows_draw_the_same_for_any_number_of_threads() -> None:
    check_threads(OF_ROWS, ragged=False)


def test_threads_divide_batches_of_rows_whose_entries_draw() -> None:
    combinations = {kind: Problem(OF_ENTRIES[kind], ragged=True).combination for kind in DIVIDED}
    assert set(combinations.values()) == {Combination.SUM}, combinations


def test_what_draws_for_entries_works_on_those_of_a_step_in_arrays_for_more() -> None:
    programs: dict[str, Any] = {
        kind: wy.compile(Problem(drawn, ragged=True).loss) for kind, drawn in OF_ENTRIES.items()
    }
    assert [kind for kind, program in programs.items() if not program.graph.source.changes_sizes] == []


def test_two_ragged_axes_count_their_own_entries() -> None:
    def trained(threads: int) -> float:
        batch = Batch()
        x = wy.Input(dims=(batch, Words()), name="x", **float64)
        y = wy.Input(dims=(batch, Tags()), name="y", **float64)
        scale = wy.Parameter(np.float64(1.0), name="scale")
        drawn = [(each * scale).dropout(0.5, stream=stream).sum(axis=1) for stream, each in enumerate((x, y))]
        program = wy.compile((drawn[0] * drawn[1]).square().sum(), wy.optim.SGD([scale], 1e-6))
        tags = np.random.default_rng(3).normal(size=3 * ROWS), np.arange(ROWS + 1) * 3
        program.epoch({x: ENTRIES, y: tags}, batch_size=BATCH, threads=threads, mode="synchronized")
        return float(scale)

    np.testing.assert_allclose(trained(2), trained(1), rtol=1e-12)


def test_draws_of_a_step_are_complete_for_data_with_more_entries() -> None:
    """The kernel keeps the words of a step: those for the few entries of one batch are not enough for another."""

    def program() -> tuple[Any, Any]:
        x = wy.Input(dims=(Batch(), Words()), name="x", **float64)
        drawn = x * wy.random.index(1000, x.dims, stream=1).astype(np.float64)
        return x, wy.compile(drawn.sum(axis=1).mean())

    few, many = [[1.0], [1.0]] * 2 + [[1.0] * 9] * 4, [[1.0] * 9] * 8
    (x, used), (other, new) = program(), program()
    used.evaluate({x: few}, batch_size=4)
    assert used.evaluate({x: many}, batch_size=4) == new.evaluate({other: many}, batch_size=4)


def test_what_counts_the_entries_is_one_node_in_copies_too() -> None:
    counter = places_before(axis_of_entries(Words))
    assert counter is places_before(axis_of_entries(Words))
    assert copy.deepcopy(counter) is counter
    assert pickle.loads(pickle.dumps(counter)) is counter
    assert len({counter, places_before(axis_of_entries(Tags)), places_before(Batch())}) == 3

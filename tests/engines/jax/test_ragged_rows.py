"""Rows of different lengths in JAX: batches that accumulate, rows that devices divide, and how much is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.each import check_each
from tests.engines.jax.processes import Server
from tests.engines.test_made_axes_epochs import Problem as Made
from tests.engines.test_ragged_epochs import LENGTHS, Batch, Problem, Words, check_values
from tests.once import computed_once
from tests.random.test_random_parts_of_batches import OF_ENTRIES
from tests.random.test_random_parts_of_batches import Problem as Drawn
from tests.subprocesses import on_simulated_devices
from wyrm.engines.jax.capacities import Capacities
from wyrm.errors import OptionError
from wyrm.graph.ragged import Layout

float64: Any = {"dtype": np.float64}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return computed_once(tmp_path_factory, "ragged_rows", lambda: on_simulated_devices("tests.engines.jax.ragged_rows"))


def by_native(kind: str, **options: Any) -> list[np.ndarray]:
    problem = Problem(kind)
    wy.compile(problem.loss, problem.optimizer).epoch(problem.data, batch_size=8, **options)
    return problem.values


def test_batches_of_rows_of_different_lengths_accumulate() -> None:
    def check(kind: str) -> None:
        problem = Problem(kind)
        program = wy.compile(problem.loss, problem.optimizer, engine="jax")
        program.epoch(problem.data, batch_size=8, accumulate=3)  # the last step has one batch of 8 rows and one of 5
        check_values(problem.values, by_native(kind, accumulate=3))

    check_each(["weighted sum", "attention", "sorted", "by places", "a loop backwards"], check)


def test_a_batch_without_entries_accumulates() -> None:
    lengths = np.array([0, 0, 3, 1, 0, 0, 0, 0])
    rows = wy.RaggedArray(np.arange(1.0, 5.0), np.concatenate([[0], np.cumsum(lengths)]))

    def trained(engine: str, data: Any, of_rows: Any) -> float:
        x, weight = wy.Input(dims=(Batch(), Words()), name="x", **float64), wy.Parameter(np.float64(1.0), name="weight")
        loss = of_rows(x * weight).square().mean()
        wy.compile(loss, wy.optim.SGD([weight], 0.01), engine=engine).epoch({x: data}, batch_size=2, accumulate=4)
        return float(weight)

    # The maximum of a row without entries is infinite, and the sum of its weights 0.
    for of_rows in (lambda x: x.sum(axis=1), lambda x: (x.softmax(axis=1) * x).sum(axis=1)):
        for data in (rows, rows[4:]):
            assert trained("jax", data, of_rows) == pytest.approx(trained("native", data, of_rows), rel=1e-12)


def test_a_batch_without_entries_moves_no_row_of_a_table() -> None:
    """It is filled up with an entry of another batch: the first row would go on moving by its momentum."""
    lists = [[0, 1], [0], [], [], [2], [3, 3], [], []]

    def trained(engine: str) -> Any:
        x = wy.IndexInput(dims=(Batch(), Words()), name="x")
        table = wy.Parameter(np.ones((5, 3)), name="table")
        loss = (table.index(x).sum(axis=1) - 2.0).square().mean()
        wy.compile(loss, wy.optim.Adam([table], 0.1), engine=engine).epoch({x: lists}, batch_size=2, accumulate=2)
        return table.value

    np.testing.assert_allclose(trained("jax"), trained("native"), rtol=1e-12)


def test_a_graph_that_reads_all_entries_does_not_accumulate() -> None:
    x, weight = wy.Input(dims=(Batch(), Words()), name="x", **float64), wy.Parameter(np.float64(1.0))
    program = wy.compile((x * weight).reshape(-1).logsumexp(), wy.optim.SGD([weight], 0.1), engine="jax")
    with pytest.raises(OptionError, match=r"accumulate=2: reshape .* reads all entries .*engine='native'"):
        program.epoch({x: [[1.0], [2.0, 3.0]]}, batch_size=1, accumulate=2)


def test_devices_that_divide_rows_train_as_one(found: Any) -> None:
    def check(case: str) -> None:
        kind, division = case.split(", ")
        options: dict[str, Any] = {"accumulate": 3} if division == "accumulated" else {}
        check_values(list(map(np.array, found["trained"][case])), by_native(kind, **options))

    check_each(found["trained"], check)


def test_devices_that_divide_rows_train_along_axes_that_are_made_of_others(found: Any) -> None:
    def check(case: str) -> None:
        kind, division = case.split(", ")
        problem = Made(kind)
        options: dict[str, Any] = {"accumulate": 3} if division == "accumulated" else {}
        wy.compile(problem.loss, problem.optimizer).epoch(problem.data, batch_size=8, **options)
        check_values(list(map(np.array, found["made"][case])), problem.values)

    check_each(found["made"], check)


def test_a_step_of_divided_rows_sends_sums_and_nothing_for_each_entry(found: Any) -> None:
    entries = int(LENGTHS[:32].sum())
    assert {kind for kind, *_ in found["sent"]} <= {"all-reduce", "all-gather"}
    assert all(loops == 0 for _, _, loops, _ in found["sent"])
    gathered = sum(size for kind, size, *_ in found["sent"] if kind == "all-gather")
    assert gathered < entries * 4 * 8  # a vector of four numbers for each entry is more


def test_each_entry_of_divided_rows_has_its_own_result(found: Any) -> None:
    problem = Problem()
    rows = wy.RaggedArray.of_rows(problem.data[problem.weights])
    empty = np.flatnonzero(LENGTHS == 0)
    some = {"divided": range(16), "not divided": range(7), "a device without entries": [*empty[:4], 1, 2, 3, 4]}

    def check(name: str) -> None:
        chosen = rows[np.array(some[name])]
        doubled, shares, sums = map(np.array, found["entries"][name])
        np.testing.assert_allclose(doubled, chosen.values * 2.0)
        np.testing.assert_allclose(sums, [row.sum() for row in chosen])
        expected = [np.exp(row) / np.exp(row).sum() for row in chosen]
        np.testing.assert_allclose(shares, np.concatenate(expected), rtol=1e-12)

    check_each(some, check)


def test_entries_of_divided_rows_draw_what_they_draw_on_one_device(found: Any) -> None:
    def check(kind: str) -> None:
        expected = Drawn(OF_ENTRIES[kind], ragged=True).trained()
        np.testing.assert_allclose(found["drawn"][kind], expected, rtol=1e-9)

    check_each(found["drawn"], check)


def test_what_devices_cannot_divide_is_refused_with_the_reason(found: Any) -> None:
    assert "local_steps=2: a device that steps alone counts rows" in found["refused"]["local steps"]
    assert (
        "sharding maps Words, an axis of rows of different lengths: map the axis" in found["refused"]["the ragged axis"]
    )


def test_processes_divide_rows_of_different_lengths(tmp_path: Path) -> None:
    with Server() as server:
        found = server.found(tmp_path, 2, model="ragged rows", folder=str(tmp_path))
    problem = Problem()
    program = wy.compile(problem.loss, problem.optimizer)
    program.epoch(problem.data, batch_size=8)
    program.epoch(problem.data, batch_size=8, accumulate=3)
    check_values(list(map(np.array, found["values"])), problem.values)
    assert "a loader of each process gives rows of different lengths" in found["a loader"]
    assert "differs from that of process 0" in found["other lengths"]


# --- how much is compiled ---------------------------------------------------------------------------------------------


def test_steps_of_an_epoch_compile_at_most_eight_numbers_of_entries() -> None:
    lengths = np.concatenate([np.full(8, 2**power) for power in range(12)])
    values = np.random.default_rng(0).normal(size=lengths.sum())
    data = wy.RaggedArray(values, np.concatenate([[0], np.cumsum(lengths)]))

    def program(engine: str) -> tuple[Any, Any, Any]:
        x, weight = wy.Input(dims=(Batch(), Words()), name="x", **float64), wy.Parameter(np.float64(1.0), name="weight")
        loss = ((x * weight).tanh().mean(axis=1) - 1.0).square().mean()
        return x, weight, wy.compile(loss, wy.optim.SGD([weight], 0.1), engine=engine)

    (x, weight, jax), (y, expected, native) = program("jax"), program("native")
    for epoch in range(3):
        jax.epoch({x: data}, batch_size=4, shuffle=True, seed=epoch)
        native.epoch({y: data}, batch_size=4, shuffle=True, seed=epoch)
    assert jax._engine.compiled.step._cache_size() <= 8
    np.testing.assert_allclose(float(weight), float(expected), rtol=1e-12)
    for rows in range(1, 40):
        jax({x: data[:4] if rows == 1 else data[8 * (rows % 12) : 8 * (rows % 12) + 4]})
    assert jax._engine.compiled.step._cache_size() <= 8


def test_a_larger_step_than_all_before_replaces_the_smallest_capacity() -> None:
    capacities = Capacities()
    assert [capacities.of([2**power])[0] for power in range(8)] == [2**power for power in range(8)]
    assert capacities.of([1000]) == (1024,)
    assert capacities.of([1]) == (2,)
    assert capacities.of([3]) == (4,)
    assert capacities.of([129]) == (1024,)
    assert capacities.of([0]) == (0,)


def test_capacities_of_two_axes_are_taken_together() -> None:
    capacities = Capacities()
    random = np.random.default_rng(0)
    taken = set()
    for _ in range(200):
        needed = tuple(map(int, random.integers(1, 600, 2)))
        found = capacities.of(needed)
        assert all(count <= capacity for count, capacity in zip(needed, found, strict=True))
        taken.add(found)
    assert len(taken) <= 8 + 2


def test_a_layout_gives_each_part_its_own_entries_and_repeats_others() -> None:
    data = wy.RaggedArray.of_rows([[1, 2], [], [], [], [3], [4, 5, 6]])
    layout = Layout(4, 3)
    assert layout.needed(data) == 4
    assert data.values[layout.taken(data)].tolist() == [1, 2, 1, 1, 1, 1, 1, 1, 3, 4, 5, 6]
    assert layout.starts(data).tolist() == [0, 2, 4, 4, 8, 9]
    assert layout.own(data).tolist() == [0, 1, 8, 9, 10, 11]

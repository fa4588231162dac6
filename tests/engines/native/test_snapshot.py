"""What an epoch that diverges goes back to: whole arrays, or the rows of large tables that it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
import wyrm.engines.native.run.snapshot as snapshot_module
from wyrm.engines.native.run.snapshot import Snapshot, touched_rows
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.errors import Diverged
from wyrm.graph.storage import bound_array

ROWS, WIDTH, STEPS, BATCH = 1_000, 3, 20, 2


class Batch(wy.Dim): ...


class Case:
    """Two tables, of which some rows are chosen, and a loss that is not finite for the last batches of the data."""

    def __init__(self, optimizer: Callable[..., Any] = wy.optim.Adam, *, scores: bool = False, **options: Any) -> None:
        random = np.random.default_rng(0)
        self.tables = [wy.Parameter(random.normal(size=(ROWS, WIDTH)), name=name) for name in ("users", "items")]
        self.weight = wy.Parameter(np.ones(WIDTH), name="weight")
        self.users, self.items = (wy.IndexInput(dims=(Batch(),), name=name) for name in ("user", "item"))
        self.scale = wy.Input(dims=(Batch(),), name="scale", dtype=np.float64)
        users, items = self.tables
        # An index of NumPy's kind, which counts from the end too, and one that does not.
        score: wy.Tensor[Batch] = (users[self.users] * items.index(self.items) * self.weight).sum(axis=1)
        if scores:  # rows that the step computes
            score = score + users.index(wy.where(self.scale > 0.5, self.users, self.items)).sum(axis=1)
        parameters = [*self.tables, self.weight]
        self.optimizer = optimizer(parameters, 0.01, **options)
        self.program = wy.compile((score * self.scale).square().mean(), self.optimizer)

    @property
    def graph(self) -> NativeGraph:
        graph = self.program._engine.graph
        assert isinstance(graph, NativeGraph)
        return graph

    def columns(self, *, diverging: bool) -> dict[Any, np.ndarray]:
        random, scale = np.random.default_rng(1), np.ones(STEPS * BATCH)
        if diverging:
            scale[-2 * BATCH :] = 1e300
        users = random.integers(-ROWS, ROWS, STEPS * BATCH)
        return {self.users: users, self.items: random.integers(0, ROWS, STEPS * BATCH), self.scale: scale}

    def state(self) -> list[np.ndarray]:
        parameters = [*self.tables, self.weight]
        states = [self.optimizer.state_of(parameter).values() for parameter in parameters]
        return [*(each.value.copy() for each in parameters), *(array.copy() for each in states for array in each)]


@pytest.fixture(autouse=True)
def _small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "_LARGE", 0)


def _copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each snapshot that is taken adds its bytes."""
    sizes, take = list[int](), Snapshot.take

    def counting(self: Snapshot) -> None:
        sizes.append(sum(copy.nbytes for _, copy in self.pairs))
        take(self)

    monkeypatch.setattr(Snapshot, "take", counting)
    return sizes


@pytest.mark.parametrize(
    "options",
    [{}, {"threads": 2}, {"threads": 2, "mode": "synchronized"}, {"accumulate": 2}, {"shuffle": True}],
    ids=str,
)
@pytest.mark.parametrize("optimizer", [wy.optim.SGD, wy.optim.Adagrad, wy.optim.Adam])
def test_what_diverged_is_taken_back_from_copies_of_its_rows(
    optimizer: Callable[..., Any], options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(optimizer)
    case.program.epoch(case.columns(diverging=False), batch_size=BATCH, **options)
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)  # no second copy is due, however long the steps take
    before, sizes = case.state(), _copied(monkeypatch)
    with pytest.raises(Diverged, match="the parameters are as they were after batch 0"):
        case.program.epoch(case.columns(diverging=True), batch_size=BATCH, **options)
    for have, want in zip(case.state(), before, strict=True):
        np.testing.assert_array_equal(have, want)
    # Two tables with their states: 40 of 1,000 rows each, and the weight whole.
    arrays = len(before) // 3
    assert sizes == [8 * WIDTH * arrays * (2 * STEPS * BATCH + 1)]


def test_a_later_copy_has_the_steps_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wyrm.engines.epochs._CHUNK", 0.0)
    monkeypatch.setattr("wyrm.engines.native.run.epoch._COPY_SECONDS", 0.0)
    monkeypatch.setattr("wyrm.engines.native.run.epoch._COPY_RARELY", 0.0)
    case, peer = Case(), Case()
    with pytest.raises(Diverged, match=f"the parameters are as they were after batch {STEPS - 2}"):
        case.program.epoch(case.columns(diverging=True), batch_size=BATCH)
    finite = {column: values[: -2 * BATCH] for column, values in peer.columns(diverging=True).items()}
    peer.program.epoch(finite, batch_size=BATCH)
    for have, want in zip(case.state(), peer.state(), strict=True):
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("row", [5, -ROWS + 5])
def test_a_number_that_is_not_finite_is_found_in_the_rows(row: int) -> None:
    case = Case(wy.optim.SGD)
    columns = case.columns(diverging=False)
    columns[case.users][:] = row
    snapshot = Snapshot(case.graph, touched_rows(case.graph, columns))
    snapshot.take()
    table = bound_array(case.tables[0])
    before = table.copy()
    assert snapshot.is_finite()
    table[5, 1] = np.inf
    assert not snapshot.is_finite()
    snapshot.restore()
    np.testing.assert_array_equal(table, before)
    table[6, 1] = np.inf  # no row of the epoch
    assert snapshot.is_finite()


def test_tables_are_copied_whole_where_the_rows_are_unknown_or_many() -> None:
    def touched(case: Case, times: int = 1) -> set[str | None]:
        columns = {leaf: np.tile(column, times) for leaf, column in case.columns(diverging=False).items()}
        return {parameter.name for parameter in touched_rows(case.graph, columns)}

    assert touched(Case()) == {"users", "items"}
    assert touched(Case(scores=True)) == {"items"}
    assert touched(Case(), times=10) == set()
    averaged = Case(average=wy.optim.EMA(0.5))
    assert touched(averaged) == set()

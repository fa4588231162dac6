"""Bad data and bad arguments raise errors that name the column and the row, before any parameter changes."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import (
    DataError,
    Diverged,
    DTypeError,
    IndexOutOfRange,
    NotDifferentiable,
    NotFinite,
    ShapeError,
    UnusedParameter,
)


class Batch(wy.Dim): ...


class Case:
    """A table, and a loss on a column of rows and a column of weights."""

    def __init__(self, learning_rate: float = 0.1) -> None:
        batch = Batch()
        self.table = wy.Parameter(np.ones((10, 2), np.float32), name="table")
        self.rows = wy.IndexInput(dims=(batch,), name="rows")
        self.weights = wy.Input(dims=(batch,), name="weights")
        self.loss = (self.table.index(self.rows).square().sum(axis=-1) * self.weights).sum()
        self.optimizer = wy.optim.SGD([self.table], learning_rate)
        self.train = wy.compile(self.loss, self.optimizer)

    def columns(self, count: int = 100_000) -> dict[Any, Any]:
        return {self.rows: np.arange(count) % 10, self.weights: np.full(count, 1e-3, np.float32)}


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


def refused(case: Case, error: type[Exception], match: str, columns: Any, **options: Any) -> None:
    before = case.table.value
    with pytest.raises(error, match=match):
        case.train.epoch(columns, **{"batch_size": 10, **options})
    assert (case.table.value == before).all() and case.optimizer.steps == 0


def test_an_index_out_of_range(case: Case) -> None:
    columns = case.columns()
    columns[case.rows][70_000] = 10
    refused(case, IndexOutOfRange, "column rows holds 10 in row 70,000.*takes 0 to 9", columns)


def test_columns_of_different_lengths(case: Case) -> None:
    columns = case.columns() | {case.weights: np.ones(7, np.float32)}
    refused(case, ShapeError, "rows has 100,000 rows, weights has 7 rows", columns)


def test_a_missing_and_an_extra_input(case: Case) -> None:
    columns = case.columns()
    refused(case, ShapeError, "weights.* is missing", {case.rows: columns[case.rows]})
    refused(case, ShapeError, "other.* is not an input", columns | {wy.Input(name="other"): np.ones(3)})
    mixed = {"rows": columns[case.rows], case.weights: columns[case.weights]}
    refused(case, TypeError, "the keys of data are the input nodes themselves.*'rows' is a name among nodes", mixed)
    refused(case, DataError, "no column 'weights' for the input weights", {"rows": columns[case.rows]})
    refused(case, TypeError, "takes a dict", columns[case.rows])


def test_a_wrong_dtype(case: Case) -> None:
    refused(case, DTypeError, "rows.* takes integers, the data is float64", case.columns() | {case.rows: np.ones(5)})
    words = np.array(["a", "b"])
    refused(case, DTypeError, "weights.* takes numbers", case.columns(2) | {case.weights: words})


def test_integers_too_large_for_int64_do_not_become_negative(case: Case) -> None:
    large = np.array([2**64 - 1, 0], np.uint64)
    refused(case, DTypeError, r"rows.* takes integers up to 2\*\*63 - 1", case.columns(2) | {case.rows: large})
    labels = wy.IndexInput(dims=(Batch(),), name="labels")
    with pytest.raises(DTypeError, match=r"labels .*takes integers up to 2\*\*63 - 1"):
        wy.compile(wy.where(labels == -1, 1.0, 0.0))({labels: large})


def test_a_nan_in_the_data(case: Case) -> None:
    columns = case.columns(50)
    columns[case.weights][31] = np.nan
    refused(case, NotFinite, "column weights holds nan in row 31", columns)


def test_bad_arguments(case: Case) -> None:
    refused(case, ValueError, "batch_size must be an integer of at least 1", case.columns(50), batch_size=0)
    refused(case, TypeError, "batch_size must be an integer of at least 1", case.columns(50), batch_size="many")
    refused(case, ValueError, "threads must be an integer of at least 1", case.columns(50), threads=0)
    refused(case, ValueError, "mode must be 'hogwild' or 'synchronized'", case.columns(50), mode="fast")
    refused(case, ShapeError, "no rows", case.columns(0))
    refused(case, ShapeError, "rows.* is missing", {})
    refused(case, ShapeError, "has shape \\(50, 1, 1\\)", case.columns(50) | {case.weights: np.ones((50, 1, 1))})


def test_what_cannot_be_trained() -> None:
    x = wy.Parameter([1.0, 2.0])
    with pytest.raises(NotDifferentiable, match="one scalar float loss"):
        wy.compile(x * 2.0, wy.optim.SGD([x], 0.1))
    with pytest.raises(UnusedParameter, match="none of the optimizer's parameters"):
        wy.compile(x.sum(), wy.optim.SGD([wy.Parameter(1.0, name="other")], 0.1))
    with pytest.raises(TypeError, match="takes a node or a list of nodes, not float"):
        wy.compile(1.0)  # type: ignore[call-overload]  # a user may try this
    with pytest.raises(TypeError, match="takes an optimizer, as in"):
        wy.compile(x.sum(), wy.optim.SGD)  # type: ignore[call-overload]  # as above
    with pytest.raises(ShapeError, match="no optimizer"):
        wy.compile(x.sum()).epoch({})


def test_divergence_returns_to_finite_parameters() -> None:
    case = Case(learning_rate=1e4)
    columns = case.columns(1000)
    columns[case.weights][:] = 1.0
    with pytest.raises(Diverged, match=r"epoch 1, batch \d+ at learning rate 10000"):
        case.train.epoch(columns, batch_size=10)
    assert np.isfinite(case.table.value).all()
    case.table.set(np.ones((10, 2)))
    case.optimizer.learning_rate = 1e-3
    assert np.isfinite(case.train.epoch(columns, batch_size=10))


def test_a_computed_index_out_of_range() -> None:
    rows = wy.IndexInput(dims=(Batch(), 2), name="rows")
    table = wy.Parameter(np.ones((5, 2), np.float32), name="table")
    train = wy.compile(table.index(rows[:, 0]).square().sum(), wy.optim.SGD([table], 0.1))
    data = np.array([[1, 99], [2, 99]])  # integers that are not used as indices may be anything
    train.epoch({rows: data}, batch_size=2)
    before = table.value
    with pytest.raises(IndexOutOfRange, match=r"column rows holds 99 in row 0, position \(0,\), but index of table"):
        train.epoch({rows: data[:, ::-1]}, batch_size=2)
    computed = wy.compile(table.index(rows[:, 0] + 1).square().sum(), wy.optim.SGD([table], 0.1))
    with pytest.raises(IndexOutOfRange, match=r"out of range: index_add .* holds 5 at position .* index of table"):
        computed.epoch({rows: data + 2}, batch_size=2)
    assert (table.value == before).all()
    assert np.isfinite(train.epoch({rows: data}, batch_size=2))


def test_a_step_that_diverges_moves_nothing() -> None:
    case = Case()
    case.weights.set([1.0])
    case.table.set(np.full((10, 2), 1e30))
    with pytest.raises(Diverged, match="no parameter has moved"):
        case.train({case.rows: [3, 4], case.weights: [1.0, 1.0]})
    assert (case.table.value == np.float32(1e30)).all() and case.optimizer.steps == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_stops_the_epoch_soon(threads: int) -> None:
    case = Case(learning_rate=1e-6)
    columns = case.columns(20_000_000)
    small = case.columns(1000)
    case.train.epoch(small, batch_size=1, threads=threads)
    sent = 0.0

    def interrupt() -> None:
        nonlocal sent
        time.sleep(0.7)
        sent = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        while not sent:  # the first epochs may end before the signal comes
            case.train.epoch(columns, batch_size=1, threads=threads)
    except KeyboardInterrupt:
        pass
    thread.join()
    assert np.isfinite(case.table.value).all()
    assert np.isfinite(case.train.epoch(small, batch_size=1, threads=threads))

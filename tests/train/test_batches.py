"""Epochs over loaders and other iterables of batches are those of the same steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines import epochs as module
from wyrm.errors import Diverged, IndexOutOfRange, NotFinite, OptionError, ShapeError


class Batch(wy.Dim): ...


ROWS = 50
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
Y = X[:, :3].argmax(axis=1)
DATA = wy.data.Dataset(x=X, y=Y)


class Case:
    """A linear classifier."""

    def __init__(self) -> None:
        wy.nn.seed(0)
        batch = Batch()
        self.x, self.y = wy.Input(dims=(batch, 4), name="x"), wy.IndexInput(dims=(batch,), name="y")
        self.model = wy.nn.Linear(4, 3)
        loss = self.model(self.x).cross_entropy(self.y)
        self.optimizer = wy.optim.Adam(loss.parameters(), 0.1)
        self.train = wy.compile(loss, self.optimizer)


@pytest.fixture(params=[1 << 26, 200])
def chunk_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BYTES", request.param)


@pytest.mark.usefixtures("chunk_bytes")
def test_an_epoch_is_a_step_for_each_batch() -> None:
    case, twin = Case(), Case()
    for epoch in range(2):
        loader = wy.data.DataLoader(DATA, batch_size=8, seed=4)
        loader.epoch = epoch
        mean = case.train.epoch(loader)
        loader.epoch = epoch
        losses = [(float(twin.train({twin.x: b["x"], twin.y: b["y"]})), len(b["x"])) for b in loader]
        assert mean == pytest.approx(sum(loss * rows for loss, rows in losses) / ROWS, rel=1e-6)
    np.testing.assert_array_equal(case.model.weight.value, twin.model.weight.value)
    assert case.train.state_dict() == {"steps": 14, "epochs": 2} and case.optimizer.steps == 14


def test_every_iterable_of_batches() -> None:
    def parts() -> list[dict[str, np.ndarray]]:
        return list(wy.data.DataLoader(DATA, batch_size=8, shuffle=False))

    def generated() -> Iterator[dict[str, np.ndarray]]:
        yield from parts()

    expected = Case().train.epoch(DATA, batch_size=8)
    untyped: Any = parts()
    assert Case().train.epoch(generated()) == expected
    assert Case().train.epoch(untyped) == expected
    case = Case()
    assert case.train.epoch(iter([{case.x: part["x"], case.y: part["y"]} for part in parts()])) == expected


def test_a_loader_of_a_computed_dataset() -> None:
    halves = DATA.map(lambda columns: {"x": columns["x"] / 2, "y": columns["y"]})
    case, twin = Case(), Case()
    case.train.epoch(wy.data.DataLoader(halves, batch_size=8, shuffle=False))
    twin.train.epoch({twin.x: X / 2, twin.y: Y}, batch_size=8)
    np.testing.assert_array_equal(case.model.weight.value, twin.model.weight.value)
    assert case.train.epoch(halves, batch_size=8) == twin.train.epoch({twin.x: X / 2, twin.y: Y}, batch_size=8)


def test_two_threads() -> None:
    case = Case()
    loader = wy.data.DataLoader(DATA, batch_size=8)
    assert np.isfinite(case.train.epoch(loader, threads=2, mode="synchronized"))
    assert case.optimizer.steps == 7


@pytest.mark.usefixtures("chunk_bytes")
def test_wrong_values_name_where_the_rows_are_counted_from() -> None:
    case = Case()
    spoiled = X.copy()
    spoiled[41, 2] = np.nan
    before = case.model.weight.value
    with pytest.raises(NotFinite, match=r"column x holds nan in row .*counted in the order of the batches") as caught:
        case.train.epoch(wy.data.DataLoader(wy.data.Dataset(x=spoiled, y=Y), 8, shuffle=False))
    done = case.optimizer.steps
    assert ("no parameter has moved" in str(caught.value)) == (done == 0) == (case.model.weight.value == before).all()
    if done:
        assert f"from batch {done + 1} on; the parameters are as they were after batch {done}" in str(caught.value)
    with pytest.raises(IndexOutOfRange, match="column y holds 3"):
        case.train.epoch(wy.data.DataLoader(wy.data.Dataset(x=X, y=np.full(ROWS, 3)), 8))
    assert case.train.state_dict()["epochs"] == 0


@pytest.mark.usefixtures("chunk_bytes")
def test_a_divergence_names_the_batch_of_the_epoch() -> None:
    x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
    train = wy.compile((slope * x).mean(), wy.optim.SGD([slope], learning_rate=1.0))
    data = np.ones(60)
    data[45:] = 3e38
    with pytest.raises(Diverged, match="in epoch 1, batch"):
        train.epoch(wy.data.DataLoader(wy.data.Dataset(x=data), 10, shuffle=False))
    assert np.isfinite(float(slope))


def test_what_is_refused() -> None:
    case = Case()
    loader = wy.data.DataLoader(DATA, batch_size=8)
    with pytest.raises(OptionError, match="have their size and order already"):
        case.train.epoch(loader, batch_size=8)
    with pytest.raises(OptionError, match="have their size and order already"):
        case.train.epoch(loader, shuffle=True)
    with pytest.raises(ShapeError, match="there are no batches"):
        case.train.epoch(iter([]))
    with pytest.raises(ShapeError, match="same number of rows"):
        case.train.epoch(iter([{"x": X[:3], "y": Y[:2]}]))
    untyped: Any = case.train.epoch
    for data in (X, 3, "x", [X, Y]):
        with pytest.raises(TypeError, match="takes a dict"):
            untyped(data)

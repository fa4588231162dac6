"""Parameters whose axes are as long as the arrays that they hold."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import IndexOutOfRange, OptionError, ShapeError
from wyrm.graph.parameters import ResizableParameter


class Batch(wy.Dim): ...


class Rows(wy.Dim): ...


class Hidden(wy.Dim): ...


RANDOM = np.random.default_rng(0)


class Model:
    """A table of vectors and a layer, of which the rows and the length of vectors have no sizes."""

    def __init__(self, resizable: bool, rows: int, hidden: int) -> None:
        kind: Any = ResizableParameter if resizable else wy.Parameter
        random = np.random.default_rng(rows)
        axes = (Rows(), Hidden()) if resizable else (Rows(rows), Hidden(hidden))
        self.table: Any = kind(random.normal(size=(rows, hidden)), dims=axes)
        self.weight: Any = kind(random.normal(size=(hidden, 3)), dims=(axes[1], 3))
        self.row = wy.IndexInput(dims=(Batch(),), name="row")
        self.y = wy.Input(dims=(Batch(), 3), dtype=np.float64, name="y")
        self.loss: Any = (self.table.index(self.row).tanh() @ self.weight - self.y).square().mean()
        self.optimizer = wy.optim.Adam([self.table, self.weight], 0.1)

    def resize(self, rows: int, hidden: int) -> None:
        other = Model(False, rows, hidden)
        self.table.set(other.table.value)
        self.weight.set(other.weight.value)
        self.optimizer._restart()

    def data(self, rows: int) -> dict[Any, Any]:
        random = np.random.default_rng(1)
        return {self.row: random.integers(rows, size=40), self.y: random.normal(size=(40, 3))}


SIZES = [(5, 2), (9, 2), (9, 40), (3, 1), (30, 17), (5, 2)]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_program_trains_models_of_other_sizes_as_their_own_programs_do(threads: int) -> None:
    model = Model(True, 4, 7)
    program = wy.compile(model.loss, model.optimizer)
    options: dict[str, Any] = {"batch_size": 8, "threads": threads, "mode": "synchronized"}
    program.epoch(model.data(4), **options)
    for rows, hidden in SIZES:
        own = Model(False, rows, hidden)
        expected = wy.compile(own.loss, own.optimizer).epoch(own.data(rows), **options)
        model.resize(rows, hidden)
        model.optimizer._restart()
        assert program.epoch(model.data(rows), **options) == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(model.table.value, own.table.value, rtol=1e-9)
        state, wanted = model.optimizer.state_dict(), own.optimizer.state_dict()
        assert {name: each.shape for name, each in state.items()} == {name: each.shape for name, each in wanted.items()}
        for name, array in wanted.items():
            np.testing.assert_allclose(state[name], array, rtol=1e-9, atol=1e-18)


@pytest.mark.parametrize("engine", ["backward", "native"])
def test_steps_follow_the_size(engine: str) -> None:
    model = Model(True, 4, 7)
    program = wy.compile(model.loss, model.optimizer)
    for rows, hidden in SIZES:
        own = Model(False, rows, hidden)
        model.resize(rows, hidden)
        for each, run in ((model, program), (own, wy.compile(own.loss, own.optimizer))):
            if engine == "native":
                run(each.data(rows))
            else:
                for leaf, column in each.data(rows).items():
                    leaf.set(column)
                each.loss.backward()
                assert each.table.gradient.shape == each.table.value.shape
                each.optimizer.step()
                each.optimizer.zero_gradient()
        np.testing.assert_allclose(model.table.value, own.table.value, rtol=1e-9)
        np.testing.assert_allclose(model.weight.value, own.weight.value, rtol=1e-9)


def test_a_gradient_and_a_state_of_another_size_are_gone() -> None:
    model = Model(True, 4, 7)
    for leaf, column in model.data(4).items():
        leaf.set(column)
    model.loss.backward()
    model.resize(6, 7)
    assert model.table.gradient.shape == (6, 7)
    assert not model.table.gradient.any()
    model.loss.backward()
    model.optimizer.step()
    model.table.set(RANDOM.normal(size=(8, 7)))
    assert model.optimizer.state_of(model.table)["mean"].shape == (8, 7)
    assert not model.optimizer.state_of(model.table)["mean"].any()
    assert model.optimizer.state_of(model.weight)["mean"].any()
    # Bias corrections count the steps of each parameter, and a program has one count for all.
    with pytest.raises(ValueError, match="completed different numbers of steps"):
        wy.compile(model.loss, model.optimizer)(model.data(8))
    saved = Model(False, 8, 7).optimizer.state_dict()
    model.optimizer.load_state_dict(saved)
    wy.compile(model.loss, model.optimizer)(model.data(8))


def test_axes_that_disagree_are_an_error() -> None:
    model = Model(True, 4, 7)
    program = wy.compile(model.loss, model.optimizer)
    program.epoch(model.data(4), batch_size=8)
    model.table.set(np.ones((4, 6)))
    with pytest.raises(ShapeError, match="axis Hidden is"):
        program.epoch(model.data(4), batch_size=8)
    model.weight.set(np.ones((6, 3)))
    with pytest.raises(IndexOutOfRange):
        program.epoch(model.data(30), batch_size=8)
    with pytest.raises(ShapeError, match="the data has 5 there"):
        model.weight.set(np.ones((6, 5)))


def test_copies_have_no_size_either_and_one_of_an_optimizer_has_its_own() -> None:
    model = Model(True, 4, 7)
    for other in (copy.deepcopy(model.table), pickle.loads(pickle.dumps(model.table))):
        other.set(np.ones((9, 2)))
        assert other.dims == (Rows(), Hidden())
    average: Any = wy.optim.Adam([model.table, model.weight], 0.1, average=wy.optim.EMA(0.9))
    shallow = copy.copy(average)
    model.resize(6, 2)
    for each in (average, shallow):
        np.testing.assert_array_equal(each.state_of(model.table)["averaged_parameter"], model.table.value)


def test_rules_over_whole_parameters_are_refused() -> None:
    model = Model(True, 4, 7)
    with pytest.raises(OptionError, match="rule over whole parameters"):
        wy.optim.Muon([model.weight], 0.1)

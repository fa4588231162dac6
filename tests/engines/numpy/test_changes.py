"""`forward()` sees every change of a leaf, and computes nothing if no leaf changed."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.numpy.plan import EvaluationPlan
from wyrm.module import Module
from wyrm.support.memory import with_collector_paused


class Scale(Module):
    """A parameter and a buffer."""

    def __init__(self) -> None:
        self.weight = wy.Parameter([1.0, 2.0], name="weight")
        self.shift = wy.Buffer([0.0, 0.5], name="shift")


class Case:
    """A small graph, and its expected value computed from the current values of its leaves."""

    def __init__(self) -> None:
        self.module = Scale()
        self.x = wy.Input([3.0, 4.0], name="x")
        self.rate = wy.Input(2.0, name="rate")
        self.rows = wy.IndexInput([1, 0], name="rows")
        self.loss = ((self.module.weight.index(self.rows) * self.x + self.module.shift) * self.rate).sum()

    def expected(self) -> float:
        weight, shift = self.module.weight.value, self.module.shift.value
        return float(((weight[self.rows.value] * self.x.value + shift) * self.rate.value).sum())


def by_optimizer(case: Case, folder: Path) -> None:
    case.loss.backward()
    wy.optim.Adam(case.loss.parameters(), learning_rate=0.1).step()


def by_program(case: Case, folder: Path) -> None:
    wy.compile(case.loss, wy.optim.SGD(case.loss.parameters(), learning_rate=0.1))({})


def by_epoch(case: Case, folder: Path) -> None:
    v = wy.Input(name="v")
    program = wy.compile((case.module.weight.sum() * v).square(), wy.optim.SGD([case.module.weight], 0.01))
    program.epoch({v: np.ones(10, np.float32)})


def by_file(case: Case, folder: Path) -> None:
    other = Scale()
    other.weight.set([7.0, 8.0])
    other.save(folder / "other.safetensors")
    case.module.load(folder / "other.safetensors")


def by_updates(case: Case, folder: Path) -> None:
    wy.updating(case.module.weight.sum(), {case.module.shift: case.module.shift + 1.0}).backward()


def by_program_that_updates(case: Case, folder: Path) -> None:
    loss = wy.updating(case.module.weight.square().sum(), {case.module.shift: case.module.shift + 1.0})
    wy.compile(loss, wy.optim.SGD([case.module.weight], 0.01))({})


CHANGES: dict[str, Callable[[Case, Path], object]] = {
    "a parameter is set": lambda case, _: case.module.weight.set([5.0, 6.0]),
    "an input is set": lambda case, _: case.x.set(np.array([5.0, 6.0])),
    "an input is set to an array of its dtype": lambda case, _: case.x.set(np.array([5.0, 6.0], np.float32)),
    "a scalar is set": lambda case, _: case.rate.set(7.0),
    "a scalar is set to an int": lambda case, _: case.rate.set(7),
    "indices are set": lambda case, _: case.rows.set([0, 0]),
    "a buffer is set": lambda case, _: case.module.shift.set([5.0, 6.0]),
    "an optimizer does a step": by_optimizer,
    "a compiled program does a step": by_program,
    "a compiled program goes through data": by_epoch,
    "a file is read": by_file,
    "a buffer is updated": by_updates,
    "a compiled program updates a buffer": by_program_that_updates,
}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_forward_sees_what_has_changed(name: str, backward: bool, tmp_path: Path) -> None:
    case = Case()
    if backward:
        case.loss.backward()
    for _ in range(2):
        before = float(case.loss.forward())
        np.testing.assert_allclose(before, case.expected(), rtol=1e-6)
    CHANGES[name](case, tmp_path)
    np.testing.assert_allclose(float(case.loss.forward()), case.expected(), rtol=1e-6)
    assert float(case.loss.forward()) != before
    case.loss.zero_gradient()
    case.loss.backward()
    chosen = np.zeros(2)
    np.add.at(chosen, case.rows.value, case.rate.value * case.x.value)
    np.testing.assert_allclose(case.module.weight.gradient, chosen, rtol=1e-6)


def test_a_leaf_that_changes_while_a_graph_runs_is_seen_by_the_next_forward() -> None:
    x = wy.Input(1.0)

    class Meddling(wy.Unary):
        """Changes a leaf that the run has already read."""

        __slots__ = ()

        def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
            result = operands[0] * 10.0
            if float(x.value) == 2.0:
                x.set(3.0)
            return result

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient * 10.0,)

    node = Meddling(x * 1.0)
    assert float(node.forward()) == 10.0
    x.set(2.0)
    assert float(node.forward()) == 20.0
    assert float(node.forward()) == 30.0


def test_writing_to_a_returned_array_does_no_harm() -> None:
    node = wy.Constant([1.0, 2.0]) * wy.Parameter(3.0)
    first = node.forward()
    first.flags.writeable = True
    first[...] = 0.0
    assert node.forward().tolist() == [3.0, 6.0]
    assert not node.forward().flags.writeable


def test_a_cached_scalar_result_is_immutable() -> None:
    parameter = wy.Parameter(3.0)
    node = parameter * 2.0
    node.forward()
    again = node.forward()
    assert node.forward() is again
    with pytest.raises(ValueError, match="WRITEABLE"):
        again.flags.writeable = True
    parameter.set(4.0)
    assert (float(again), float(node.forward()), float(node.forward())) == (6.0, 8.0, 8.0)


def test_values_of_nodes_shared_by_several_plans() -> None:
    class Batch(wy.Dim): ...

    class Other(wy.Dim): ...

    x, y = wy.Input(dims=(Batch(),)), wy.Input(dims=(Other(),))
    x.set([1.0, 2.0])
    y.set([1.0])
    inner = wy.Parameter(2.0) * 3.0
    one, two = (inner * x).sum(), (inner * y).sum()
    assert float(one.forward()) == 18.0 and float(inner.value) == 6.0
    assert float(two.forward()) == 6.0
    for node, value in ((one, 18.0), (two, 6.0), (one, 18.0)):
        assert float(node.forward()) == value and float(inner.value) == 6.0
    inner.parameters()[0].set(4.0)
    assert (float(two.forward()), float(inner.value), float(one.forward())) == (12.0, 12.0, 36.0)


def test_nothing_runs_if_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    node = (wy.Parameter([1.0, 2.0]) * 3.0).sum()
    node.forward()
    monkeypatch.setattr(EvaluationPlan, "run", lambda *_: pytest.fail("a plan was run"))
    wy.Constant(1.0), wy.Parameter(2.0)  # creating a leaf changes no other
    assert float(node.forward()) == 9.0


def test_observers_see_unchanged_nodes_run() -> None:
    node = wy.Input(-1.0, finite=False).log()
    node.forward()
    node.forward()
    with wy.time_ops() as timing:
        node.forward()
    assert timing.calls["log"] == 1
    with wy.watch_nan(), pytest.raises(wy.WyrmError, match="log: the first NaN"):
        node.forward()


def test_random_nodes_are_resampled_each_time() -> None:
    node = wy.Parameter(np.ones(64)).dropout(0.5)
    values = {node.forward().tobytes() for _ in range(4)}
    assert len(values) == 4


def test_a_graph_built_in_training_mode_warns_each_time() -> None:
    dropout = wy.nn.Dropout(0.5)
    node = dropout(wy.Parameter(np.ones(4)) * 1.0)
    node.forward()
    dropout.eval()
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="was built in training"):
            node.forward()


def test_forward_after_a_failed_run_recomputes() -> None:
    class Exploding(wy.Unary):
        """Raises for numbers above ten."""

        __slots__ = ()

        def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
            if (operands[0] > 10.0).any():
                raise OverflowError("too large")
            return operands[0] * 1.0

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient,)

    x = wy.Input(1.0)
    node = Exploding(x * 2.0) + x
    assert float(node.forward()) == 3.0
    x.set(20.0)
    for _ in range(2):
        with pytest.raises(OverflowError):
            node.forward()
    x.set(2.0)
    assert float(node.forward()) == 6.0


@pytest.mark.parametrize("first", ["forward", "backward"])
def test_forward_and_backward_in_any_order_and_under_several_sizes(first: str) -> None:
    class Batch(wy.Dim): ...

    x, weight = wy.Input(dims=(Batch(),)), wy.Parameter(2.0)
    loss = (weight * x).square().sum()
    for round in range(3):
        for data in ([1.0, 2.0], [3.0], [1.0, 2.0, 3.0]):
            x.set(data)
            weight.clear_gradient()
            for call in (loss.forward, loss.backward) if first == "forward" else (loss.backward, loss.forward):
                call()
            assert float(loss.value) == sum(4.0 * each * each for each in data), round
            assert float(weight.gradient) == sum(4.0 * each * each for each in data)


def test_a_failure_to_differentiate_leaves_forward_as_it_was() -> None:
    x = wy.Input([1.0, 2.0])
    loss = x.square().sum()
    assert float(loss.forward()) == 5.0
    for _ in range(2):
        with pytest.raises(wy.WyrmError, match="depends on no parameter"):
            loss.backward()
    x.set([3.0, 4.0])
    assert float(loss.forward()) == 25.0


def test_the_garbage_collector_is_restored_after_building_a_plan() -> None:
    def fail() -> None:
        assert not gc.isenabled()
        raise KeyboardInterrupt

    assert gc.isenabled()
    with pytest.raises(KeyboardInterrupt):
        with_collector_paused(fail)
    assert gc.isenabled()
    try:
        gc.disable()
        assert with_collector_paused(lambda: gc.isenabled()) is False
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_number_that_a_leaf_cannot_hold_changes_nothing() -> None:
    x, anything = wy.Input(1.0), wy.Input(1.0, finite=False)
    doubled = x * 2.0
    for bad in (float("nan"), float("inf"), 1e39):
        with pytest.raises(wy.WyrmError, match="was given"):
            x.set(bad)
        assert float(doubled.forward()) == 2.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            anything.set(bad)
        np.testing.assert_equal(anything.value, np.float32(np.inf) if bad == 1e39 else np.float32(bad))
    mask = wy.Input(dims=(), dtype=np.bool_)
    with pytest.raises(wy.WyrmError):
        mask.set(1.0)
    x.set(float(np.finfo(np.float32).max))
    assert float(x.value) == float(np.finfo(np.float32).max)


def test_values_at_alternating_sizes_without_changes() -> None:
    class Batch(wy.Dim): ...

    x, y = wy.Input(dims=(Batch(),)), wy.Input(dims=(Batch(),))
    x.set([1.0, 2.0])
    y.set([1.0, 2.0, 3.0])
    rows = wy.Constant(1.0).broadcast_to((Batch(),)).sum()
    one, two = x.sum() * rows, y.sum() * rows
    for _ in range(3):
        assert (float(one.forward()), float(rows.value)) == (6.0, 2.0)
        assert (float(two.forward()), float(rows.value)) == (18.0, 3.0)

"""Used programs are copied and pickled, and the copies continue with the same numbers."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import wyrm as wy

X = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)


class Batch(wy.Dim): ...


class Halving:
    """A learning-rate schedule."""

    def __call__(self, step: int) -> float:
        return 0.5 ** (1 + step // 4)


def trained() -> tuple[wy.Program, wy.Input[Any]]:
    """Return a program after an epoch, with dropout masks, moments, a schedule and a buffer that changes."""
    x = wy.Input(dims=(Batch(), 3), name="x")
    weight, seen = wy.Parameter(np.ones((3, 2), np.float32), name="weight"), wy.Buffer(0.0, name="seen")
    loss = wy.updating((x @ weight).dropout(0.5, seed=4, stream=2).square().mean(), {seen: seen + 1.0})
    program = wy.compile(loss, wy.optim.Adam([weight], Halving()))
    program.epoch({x: X}, batch_size=10, shuffle=True)
    return program, x


def goes_on(program: wy.Program, x: Any) -> list[bytes]:
    """Return all state after one more epoch and step."""
    losses = [program.epoch({x: X}, batch_size=10, shuffle=True), float(program({x: X}))]
    graph = program.graph
    optimizer: Any = graph.optimizer
    arrays = [np.array(losses), *(leaf.value for leaf in (*graph.parameters, *graph.buffers))]
    arrays += optimizer.state_dict().values()
    assert program.state_dict() == {"steps": 15, "epochs": 2}
    return [array.tobytes() for array in arrays]


@pytest.mark.parametrize("how", ["deepcopy", "deepcopy beside", "pickle"])
def test_a_copy_goes_on_with_the_same_numbers_and_leaves_the_original_alone(how: str) -> None:
    program, x = trained()
    if how == "deepcopy":
        other, other_x = copy.deepcopy(program), x
    elif how == "deepcopy beside":
        other_x, other = copy.deepcopy((x, program))
        assert other_x is not x
    else:
        other, other_x = pickle.loads(pickle.dumps((program, x)))
    assert other.inputs == (other_x,) and other.inputs[0] is other_x
    assert other.state_dict() == program.state_dict() == {"steps": 7, "epochs": 1}
    want = goes_on(other, other_x)
    assert program.state_dict() == {"steps": 7, "epochs": 1}
    assert goes_on(program, x) == want


def test_a_shallow_copy_trains_the_same_parameters_and_counts_for_itself() -> None:
    program, x = trained()
    other = copy.copy(program)
    assert other.graph.optimizer is program.graph.optimizer
    other({x: X})
    assert other.state_dict() == {"steps": 8, "epochs": 1}
    assert program.state_dict() == {"steps": 7, "epochs": 1}
    assert other.graph.parameters[0] is program.graph.parameters[0]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda program: pickle.loads(pickle.dumps(program))])
def test_outputs_that_share_nodes_share_them_in_the_copy(copied: Any) -> None:
    """For a program without an optimizer, called with its own inputs."""
    x, scale = wy.Input(dims=(2,), name="x"), wy.Parameter(3.0, name="scale")
    shared = (x * scale).tanh()
    program = wy.compile([shared.sum(), shared * 2.0])
    first = program({x: [1.0, 2.0]})
    other = copied(program)
    scale.set(0.0)
    found = other({other.inputs[0]: [1.0, 2.0]})
    assert [array.tobytes() for array in found] == [array.tobytes() for array in first]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda given: pickle.loads(pickle.dumps(given))])
def test_an_optimizer_that_was_used_is_copied_with_its_counts_and_state(copied: Any) -> None:
    weight = wy.Parameter(np.ones(2), name="weight")
    optimizer = wy.optim.Adam([weight], 0.1)
    weight.square().sum().backward()
    optimizer.step()
    other = copied(optimizer)
    (own,) = other.parameters
    assert (own is weight) == (copied is copy.copy)
    before = optimizer.state_dict()
    own.square().sum().backward()
    other.step()
    assert other.steps == 2 and optimizer.steps == 1
    for key, array in optimizer.state_dict().items():
        np.testing.assert_array_equal(array, before[key])

"""Averages of parameters: their values, the exchange for evaluation, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import OptionError
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import stored
from wyrm.optim import EMA, SGD, SWA


def trained(average: Any, steps: int = 9) -> tuple[Any, wy.optim.Optimizer, list[np.ndarray]]:
    """Return a parameter and its optimizer after steps with random gradients, and its values after each of them."""
    parameter = wy.Parameter(np.zeros((4, 2)))
    optimizer, values = SGD([parameter], 0.1, average=average), []
    random = np.random.default_rng(0)
    for _ in range(steps):
        stored(parameter).gradient = random.standard_normal((4, 2))
        optimizer.step()
        values.append(parameter.value)
    return parameter, optimizer, values


def test_an_exponential_average_equals_pytorch() -> None:
    parameter, optimizer, values = trained(EMA(0.8))
    model = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
    model.weight = torch.nn.Parameter(torch.zeros(4, 2, dtype=torch.float64))
    averaged = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.8))
    for value in values:
        with torch.no_grad():
            model.weight.copy_(torch.tensor(value))
        averaged.update_parameters(model)
    mean: Any = averaged.module
    with optimizer.average_parameters():
        np.testing.assert_allclose(parameter.value, mean.weight.detach().numpy(), rtol=1e-12)
    np.testing.assert_array_equal(parameter.value, values[-1])


@pytest.mark.parametrize(("start", "every"), [(1, 1), (3, 1), (3, 2), (9, 4)])
def test_a_uniform_average_is_the_mean(start: int, every: int) -> None:
    parameter, optimizer, values = trained(SWA(start=start, every=every))
    with optimizer.average_parameters():
        np.testing.assert_allclose(parameter.value, np.mean(values[start - 1 :: every], axis=0), rtol=1e-12)


def test_before_its_start_the_parameter_stands_for_its_average() -> None:
    parameter, optimizer, values = trained(EMA(0.9, start=20))
    with optimizer.average_parameters():
        np.testing.assert_array_equal(parameter.value, values[-1])


def test_rows_without_a_gradient_are_averaged_too() -> None:
    parameter = wy.Parameter(np.array([[1.0], [2.0]]))
    optimizer = SGD([parameter], 1.0, average=EMA(0.5))
    for _ in range(2):
        stored(parameter).gradient = RowSparse(np.array([0]), np.array([[1.0]]), (2, 1))
        optimizer.step()
    with optimizer.average_parameters():
        assert parameter.value.tolist() == [[-0.5], [2.0]]


def test_an_error_inside_brings_the_parameters_back() -> None:
    parameter, optimizer, values = trained(SWA())
    with pytest.raises(ZeroDivisionError), optimizer.average_parameters():
        raise ZeroDivisionError
    np.testing.assert_array_equal(parameter.value, values[-1])
    optimizer.step()


def test_nothing_trains_or_saves_while_the_averages_are_in_place() -> None:
    parameter, optimizer, _ = trained(SWA())
    program = wy.compile((parameter * wy.Input(name="x", dtype=np.float64)).sum(), optimizer)
    with optimizer.average_parameters():
        for action in (
            optimizer.step,
            optimizer.state_dict,
            lambda: optimizer.load_state_dict({}),
            lambda: optimizer.average_parameters().__enter__(),
            lambda: program({program.inputs[0]: 1.0}),
            lambda: program.epoch({program.inputs[0]: np.ones(3)}),
        ):
            with pytest.raises(OptionError, match="hold their averages"):
                action()


def test_an_optimizer_without_averages_says_how_to_get_them() -> None:
    with pytest.raises(OptionError, match=r"give it average=wy\.optim\.EMA"):
        SGD([wy.Parameter(1.0)], 0.1).average_parameters().__enter__()


def test_averages_are_saved_and_loaded() -> None:
    parameter, optimizer, _ = trained(EMA(0.8))
    state = optimizer.state_dict()
    assert set(state) == {"0.averaged_parameter", "steps", "counts"}
    other, again, _ = trained(EMA(0.8), 1)
    again.load_state_dict(state)
    with optimizer.average_parameters(), again.average_parameters():
        np.testing.assert_array_equal(parameter.value, other.value)


@pytest.mark.parametrize("make", [lambda: EMA(1.0), lambda: EMA(-0.1), lambda: SWA(start=0), lambda: SWA(every=0)])
def test_averages_without_meaning_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()


def test_an_optimizer_that_begins_anew_steps_as_a_new_one() -> None:
    def made() -> tuple[list[wy.Parameter], wy.optim.Optimizer]:
        parameters = [wy.Parameter(np.full(3, 0.5)), wy.Parameter(np.full(2, -0.5))]
        groups: list[Any] = [{"parameters": parameters[:1]}, {"parameters": parameters[1:], "learning_rate": 0.3}]
        return parameters, wy.optim.Adagrad(groups, 0.1, average=EMA(0.5))

    def steps(parameters: list[wy.Parameter], optimizer: wy.optim.Optimizer) -> list[np.ndarray]:
        for step in range(1, 4):
            for parameter in parameters:
                stored(parameter).gradient = np.full(parameter.shape, float(step))
            optimizer.step()
        return [*(parameter.value for parameter in parameters), *optimizer.state_dict().values()]

    first, optimizer = made()
    expected = steps(first, optimizer)
    for parameter, value in zip(first, (0.5, -0.5), strict=True):
        parameter.set(np.full(parameter.shape, value))
    optimizer._restart()
    assert optimizer.steps == 0
    for found, wanted in zip(steps(first, optimizer), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)

"""Schedules equal PyTorch's and stay at their last value; clipping applies to dense and row-sparse gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import NotFinite
from wyrm.optim import (
    SGD,
    Adam,
    Cosine,
    CosineRestarts,
    Exponential,
    Joined,
    LinearWarmup,
    MultiStep,
    OneCycle,
    Piecewise,
    Polynomial,
    Step,
    WarmupCosine,
    clip_by_global_norm,
    clip_by_value,
)


@pytest.mark.parametrize(
    ("schedule", "other"),
    [
        (Step(0.5, every=3, factor=0.3), lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.3)),
        (Exponential(0.5, factor=0.9), lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9)),
        (Cosine(0.5, steps=12, end=0.1), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 12, 0.1)),
        (LinearWarmup(0.5, steps=12, start=0.05), lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 12)),
        (MultiStep(0.5, (2, 3, 9), 0.3), lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 3, 9], 0.3)),
        (Polynomial(0.5, 9, power=2.5), lambda o: torch.optim.lr_scheduler.PolynomialLR(o, 9, 2.5)),
        (
            CosineRestarts(0.5, 3, end=0.1),
            lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3, eta_min=0.1),
        ),
        (
            CosineRestarts(0.5, 2, growth=2),
            lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, T_mult=2),
        ),
        (OneCycle(0.5, 12), lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.5, 12)),
        (
            OneCycle(0.5, 12, 0.6, 10.0, 100.0),
            lambda o: torch.optim.lr_scheduler.OneCycleLR(
                o, 0.5, 12, pct_start=0.6, div_factor=10.0, final_div_factor=100.0
            ),
        ),
        (
            Joined([LinearWarmup(0.5, 4, 0.05), Exponential(0.5, 0.9)], [4]),
            lambda o: torch.optim.lr_scheduler.SequentialLR(
                o,
                [torch.optim.lr_scheduler.LinearLR(o, 0.1, 1.0, 4), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)],
                [4],
            ),
        ),
    ],
)
def test_schedules_equal_pytorch(schedule: Any, other: Any) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.5)
    scheduler = other(optimizer)
    for step in range(11):
        assert schedule(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        optimizer.step()
        scheduler.step()


def test_warmup_cosine_rises_then_falls() -> None:
    schedule = WarmupCosine(1.0, warmup=5, steps=25, end=0.2)
    rates = [schedule(step) for step in range(26)]
    assert rates[0] == 0.0 and rates[5] == 1.0 and rates[25] == 0.2
    assert rates[:6] == sorted(rates[:6]) and rates[5:] == sorted(rates[5:], reverse=True)


@pytest.mark.parametrize(
    ("schedule", "last"),
    [
        (Cosine(1.0, 10, 0.1), 0.1),
        (LinearWarmup(0.7, 10), 0.7),
        (WarmupCosine(1.0, 3, 10, 0.3), 0.3),
        (Polynomial(1.0, 10, 0.2, 2.0), 0.2),
        (Piecewise([0.5, 0.1], [4]), 0.1),
        (OneCycle(1.0, 10, 0.3, 2.0, 5.0), 0.1),
        (Joined([1.0, 0.25], [10]), 0.25),
        (OneCycle(1.0, 2, 0.0, 2.0, 5.0), 0.1),
    ],
)  # fmt: skip
def test_a_schedule_past_its_end_stays(schedule: Any, last: float) -> None:
    assert [schedule(step) for step in (10, 11, 1000)] == [last] * 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: Step(-1.0, 3), lambda: Step(1.0, 0), lambda: Exponential(1.0, -0.5), lambda: Cosine(1.0, 0),
        lambda: LinearWarmup(1.0, 0), lambda: WarmupCosine(1.0, 10, 10), lambda: Cosine(float("nan"), 3),
        lambda: MultiStep(1.0, [3, 3]), lambda: MultiStep(1.0, [0]), lambda: CosineRestarts(1.0, 0),
        lambda: CosineRestarts(1.0, 3, growth=0), lambda: Polynomial(1.0, 0), lambda: OneCycle(1.0, 1),
        lambda: OneCycle(1.0, 5, rise=1.0), lambda: Piecewise([-1.0], []), lambda: Joined([-1.0], []),
    ],
)  # fmt: skip
def test_a_schedule_without_meaning_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()


def test_pieces_need_one_more_value_than_boundaries() -> None:
    with pytest.raises(ValueError, match="2 boundaries need 3 values, not 2"):
        Piecewise([1.0, 0.1], [1, 2])
    with pytest.raises(ValueError, match="0 boundaries need 1 schedules, not 2"):
        Joined([1.0, 0.1], [])


def test_an_optimizer_follows_its_schedule() -> None:
    x = wy.Parameter(np.array(0.0))
    optimizer = SGD([x], Step(1.0, every=1, factor=0.5))
    loss = x * 1.0
    moved = []
    for _ in range(3):
        before = float(x)
        loss.backward()
        optimizer.step()
        loss.zero_gradient()
        moved.append(before - float(x))
    assert moved == [1.0, 0.5, 0.25]
    assert optimizer.learning_rate == 0.125


class Branching(SGD):
    """Its numbers are those of one step at a time."""

    def hyperparameters(self, step: int) -> dict[str, float]:
        return {"learning_rate": self.learning_rate if step > 2 else 0.0}


@pytest.mark.parametrize("kind", [SGD, Adam, Branching])
def test_the_numbers_of_many_steps_are_those_of_each_step(kind: Any) -> None:
    ahead, one = (kind([wy.Parameter(np.zeros(2))], Polynomial(0.5, 9, end=0.1)) for _ in range(2))
    ahead.steps = one.steps = 1
    numbers = ahead.numbers_of(1, 12)
    for i in range(12):
        one.steps = 1 + i
        assert {name: values[i] for name, values in numbers.items()} == pytest.approx(one.numbers_at(2 + i), rel=1e-15)
    assert ahead.steps == 1 and ahead.learning_rate == Polynomial(0.5, 9, end=0.1)(1)


@pytest.mark.parametrize("kind", [SGD, Branching])
def test_a_schedule_is_called_once_for_each_step(kind: Any) -> None:
    called: list[int] = []

    def schedule(step: int) -> float:
        called.append(step)
        return 0.1

    optimizer = kind([wy.Parameter(np.zeros(2))], schedule)
    optimizer.numbers_of(0, 4)
    assert called == [0, 1, 2, 3]


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, "fast", True])
def test_a_bad_rate_among_many_is_named_with_its_step(bad: Any) -> None:
    optimizer = SGD([wy.Parameter(np.zeros(2))], lambda step: bad if step == 3 else 0.1)
    with pytest.raises((ValueError, TypeError), match=r"the learning rate that .* gives after 3 steps must be"):
        optimizer.numbers_of(0, 5)
    assert optimizer.learning_rate == 0.1


def gradients(sparse: bool) -> list[wy.Parameter[Any]]:
    dense, table = wy.Parameter(np.array([3.0, -4.0])), wy.Parameter(np.ones((4, 2)))
    rows = wy.IndexConstant([1, 1])
    chosen: Any = table.index(rows) if sparse else np.eye(4)[[1, 1]] @ table
    ((dense * dense).sum() * 0.5 + chosen.sum() * 6.0).backward()
    return [dense, table]


@pytest.mark.parametrize("sparse", [True, False])
def test_clip_by_value(sparse: bool) -> None:
    dense, table = gradients(sparse)
    clip_by_value([dense, table], 3.5)
    np.testing.assert_array_equal(dense.gradient, [3.0, -3.5])
    np.testing.assert_array_equal(table.gradient, [[0, 0], [3.5, 3.5], [0, 0], [0, 0]])  # the rows sum to 12


@pytest.mark.parametrize("sparse", [True, False])
def test_clip_by_global_norm_equals_pytorch(sparse: bool) -> None:
    parameters = gradients(sparse)
    theirs = [torch.zeros(p.shape, dtype=torch.float64) for p in parameters]
    for mine, other in zip(parameters, theirs, strict=True):
        other.grad = torch.tensor(mine.gradient.copy())
    norm = clip_by_global_norm(parameters, 2.0)
    assert norm == pytest.approx(float(torch.nn.utils.clip_grad_norm_(theirs, 2.0)), rel=1e-12)
    for mine, other in zip(parameters, theirs, strict=True):
        np.testing.assert_allclose(mine.gradient, other.grad, rtol=1e-6)
    assert (parameters[1].row_gradient is not None) == sparse


def test_a_small_norm_is_left_alone() -> None:
    parameters = gradients(True)
    before = [p.gradient.copy() for p in parameters]
    clip_by_global_norm(parameters, 1e6)
    for parameter, gradient in zip(parameters, before, strict=True):
        np.testing.assert_array_equal(parameter.gradient, gradient)


def test_a_norm_that_is_not_finite_names_the_parameter() -> None:
    good, bad = wy.Parameter(1.0, name="good"), wy.Parameter(0.0, name="bad")
    (good * 2.0 + bad.log()).backward()
    with pytest.raises(NotFinite, match="gradient of bad"):
        clip_by_global_norm([good, bad], 1.0)
    assert float(good.gradient) == 2.0


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_limits_are_positive(limit: float) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        clip_by_value([], limit)
    with pytest.raises(ValueError, match="must be above 0"):
        clip_by_global_norm([], limit)

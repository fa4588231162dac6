"""What Python computes around steps, and what exported code computes: schedules, the numbers of rules, seeds, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.run.shuffle import compiled
from wyrm.errors import OptionError
from wyrm.exporting.batches import BatchSizes, varying
from wyrm.exporting.kernels import epoch_seed
from wyrm.exporting.numbers import _typed as arguments_of
from wyrm.exporting.numbers import step_numbers
from wyrm.optim import schedules

SCHEDULES: list[Any] = [
    schedules.Step(1, every=3, factor=0.5), schedules.MultiStep(1.0, milestones=(2, 5), factor=0.5),
    schedules.Piecewise([0.1, 1, 0.01], boundaries=[2, 6]), schedules.Exponential(1.0, factor=0.9),
    schedules.Cosine(1.0, steps=7, end=0.1), schedules.CosineRestarts(1.0, steps=3, growth=2),
    schedules.CosineRestarts(1.0, steps=3), schedules.Polynomial(1.0, steps=6, power=1.5),
    schedules.OneCycle(1.0, steps=8), schedules.LinearWarmup(1.0, steps=4), schedules.WarmupCosine(1.0, 3, 8),
]  # fmt: skip
OPTIMIZERS = ["SGD", "Momentum", "Adagrad", "Adam", "AdamW", "Adamax", "RAdam", "LAMB", "RMSprop", "Lion", "NAdam"]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: type(each).__name__)
def test_the_formula_of_a_schedule_is_compiled(schedule: Any) -> None:
    function = compiled(type(schedule).formula)
    given = arguments_of(schedule)
    for step in range(12):
        assert function(step, *given) == pytest.approx(schedule(step), rel=1e-14)


class Counting(wy.optim.SGD):
    """A rule whose numbers need the step as an integer."""

    def hyperparameters(self, step: int) -> dict[str, float]:
        return {"learning_rate": 1.0 / len(range(int(step)))}


def test_numbers_that_are_no_formula_are_refused() -> None:
    parameter = wy.Parameter(np.ones(3), name="w")
    optimizer = Counting([parameter], 0.125)
    names = list(optimizer.numbers(1, [parameter]))
    with pytest.raises(OptionError, match=r"Counting cannot leave Python: its hyperparameters\(step\) is no formula"):
        step_numbers(optimizer, [parameter], names)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("options", [{}, {"average": wy.optim.EMA(0.9, start=3, every=2)}], ids=["plain", "average"])
def test_the_numbers_of_a_rule_are_formulas_of_the_step(name: str, options: Any) -> None:
    if not hasattr(wy.optim, name):
        pytest.skip(f"there is no {name}")
    parameter = wy.Parameter(np.ones(3), name="w")
    optimizer = getattr(wy.optim, name)([parameter], 0.125, **options)
    names = list(optimizer.numbers(1, [parameter]))
    found = step_numbers(optimizer, [parameter], names)
    step, rate = found.groups[0][2:]
    assert isinstance(step, wy.Input)
    assert isinstance(rate, wy.Input)
    results: list[Any] = [each if isinstance(each, float) else each + 0.0 for each in found.formulas.results]
    nodes = [each for each in results if not isinstance(each, float)]
    for number in (1, 2, 3, 4, 5, 100):
        optimizer.load_step_counts([number - 1, number - 1])
        wanted = [float(each[0]) for each in optimizer.numbers(1, [parameter]).values()]
        step.set(float(number))
        rate.set(0.125)
        values = iter(wy.run(nodes) if nodes else [])
        have = [each if isinstance(each, float) else float(next(values)) for each in results]
        np.testing.assert_allclose(have, wanted, rtol=1e-13)


def test_the_seed_of_an_epoch_is_that_of_numpy() -> None:
    function, pool = compiled(epoch_seed), np.zeros(8, np.uint64)
    for seed in (0, 1, 7, 2**32 - 1, 2**32, 2**62 + 12345):
        for epoch in (0, 1, 1000, 2**33):
            wanted = int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]) % 2**63
            assert function(seed, epoch, pool) == wanted


def test_integers_of_a_batch_size() -> None:
    sizes = BatchSizes(1000)
    for formula in (
        lambda size: 7,
        lambda size: 3 * size + 2,
        lambda size: size * (size - 1) // 2,
        lambda size: -(-size // 8) * 64,
        lambda size: min(5 * size, 800),
        lambda size: size**3,
    ):
        found = varying({size: formula(size) for size in sizes.samples}, sizes)
        assert [found.at(size) for size in range(1, 1001)] == [formula(size) for size in range(1, 1001)]
    few = BatchSizes(40)
    found = varying({size: size % 7 for size in few.samples}, few)
    assert found.listed == tuple(size % 7 for size in range(1, 41))
    with pytest.raises(OptionError, match="give a list of those that occur"):
        sizes.every()

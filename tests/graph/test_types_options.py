"""Numeric options must be finite and in range; arrays, masks and strings are rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError, WyrmError
from wyrm.optim import SGD, Adagrad, Adam, RMSprop, clip_by_global_norm, clip_by_value, schedules
from wyrm.support.options import number, whole

NO_NUMBERS: list[Any] = [True, "1", None, [1.0], np.ones(2), np.ones(()), 1j]
NO_FINITE_ONES: list[Any] = [float("nan"), float("inf"), np.float32("nan"), 10**400]


def loss() -> Any:
    x = wy.Parameter(np.ones(2, np.float32), name="x")
    return (x * x).sum()


def parameters() -> list[Any]:
    found: list[Any] = loss().parameters()
    return found


# Each takes a number; the text beside it says which.
FINITE: dict[str, Callable[[Any], Any]] = {
    "backward": lambda value: loss().backward(value),
    "learning_rate": lambda value: SGD(parameters(), value),
    "momentum": lambda value: SGD(parameters(), 0.1, momentum=value),
    "weight_decay": lambda value: SGD(parameters(), 0.1, weight_decay=value),
    "betas": lambda value: Adam(parameters(), betas=(0.9, value)),
    "epsilon": lambda value: Adam(parameters(), epsilon=value),
    "decay": lambda value: RMSprop(parameters(), decay=value),
    "initial_accumulator": lambda value: Adagrad(parameters(), initial_accumulator=value),
    "step_start": lambda value: schedules.Step(value, 3),
    "step_factor": lambda value: schedules.Step(1.0, 3, value),
    "exponential": lambda value: schedules.Exponential(1.0, value),
    "cosine_end": lambda value: schedules.Cosine(1.0, 3, value),
    "warmup_peak": lambda value: schedules.LinearWarmup(value, 3),
    "warmup_start": lambda value: schedules.LinearWarmup(1.0, 3, value),
    "warmup_cosine": lambda value: schedules.WarmupCosine(value, 1, 3),
}
LIMITS: dict[str, Callable[[Any], Any]] = {
    "by_value": lambda value: clip_by_value(parameters(), value),
    "by_norm": lambda value: clip_by_global_norm(parameters(), value),
}
WHOLE: dict[str, Callable[[Any], Any]] = {
    "step_every": lambda value: schedules.Step(1.0, value),
    "cosine_steps": lambda value: schedules.Cosine(1.0, value),
    "warmup_steps": lambda value: schedules.LinearWarmup(1.0, value),
}


@pytest.mark.parametrize("take", [*FINITE.values(), *LIMITS.values(), *WHOLE.values()], ids=[*FINITE, *LIMITS, *WHOLE])
def test_what_is_no_number_is_refused(take: Callable[[Any], Any]) -> None:
    for value in NO_NUMBERS:
        with pytest.raises(DTypeError, match=r"must be (a number|an integer)"):
            take(value)


@pytest.mark.parametrize("take", FINITE.values(), ids=FINITE)
def test_what_is_not_finite_is_refused(take: Callable[[Any], Any]) -> None:
    for value in NO_FINITE_ONES:
        with pytest.raises(OptionError, match=r"must be (finite|in \[0, 1\))"):
            take(value)


@pytest.mark.parametrize("take", LIMITS.values(), ids=LIMITS)
def test_a_limit_may_be_infinite(take: Callable[[Any], Any]) -> None:
    take(float("inf"))
    take(1e300)
    with pytest.raises(OptionError, match="must be above 0"):
        take(float("nan"))


def test_a_weight_is_one_that_the_loss_can_be_multiplied_by() -> None:
    found = loss()
    found.backward(-2)
    (x,) = found.parameters()
    assert x.gradient.tolist() == [-4.0, -4.0]
    with pytest.raises(OptionError, match=r"weight must be finite in float32, not 1e\+300"):
        found.backward(1e300)
    assert x.gradient.tolist() == [-4.0, -4.0]


def test_a_program_takes_weights_threads_and_seeds_that_are_numbers() -> None:
    found = loss()
    (x,) = found.parameters()
    rows = wy.IndexInput(dims=(wy.Dim(),), name="rows")
    program = wy.compile(found + x.index(rows).sum(), SGD([x], 0.1))
    columns: Any = {rows: [0, 1]}
    for value in NO_NUMBERS:
        for option in ("weight", "threads", "blas_threads"):
            with pytest.raises(DTypeError, match=f"{option} must be (a number|an integer)"):
                program.backward(columns, **{option: value})
        for option in ("seed", "threads", "batch_size"):
            with pytest.raises(DTypeError, match=f"{option} must be an integer of at least"):
                program.epoch(columns, **{option: value})
    for value in (float("nan"), -np.inf, 1e300):
        with pytest.raises(OptionError, match="weight must be"):
            program.backward(columns, weight=value)
    with pytest.raises(OptionError, match="seed must be an integer of at least 0, not -1"):
        program.epoch(columns, seed=-1)
    assert x.value.tolist() == [1.0, 1.0] and not x.gradient.any()


def test_errors_of_options_are_those_that_a_caller_expects() -> None:
    assert issubclass(OptionError, ValueError) and issubclass(OptionError, WyrmError)
    assert number("rate", np.float32(0.5), 0.0, 1.0) == 0.5 and whole("count", np.int8(3), 1) == 3
    with pytest.raises(OptionError, match=r"rate must be in \[0, 1\), not 1"):
        number("rate", 1, 0.0, 1.0)
    with pytest.raises(OptionError, match="rate must be finite, not -inf"):
        number("rate", -np.inf)
    with pytest.raises(OptionError, match="count must be an integer of at least 1, not 0"):
        whole("count", 0, 1)
    with pytest.raises(DTypeError, match=r"count must be an integer of at least 1, not 1\.0"):
        whole("count", 1.0, 1)

"""Loops that are easy to reverse wrongly: their derivatives of both orders equal complex steps, compiled and not."""

# mypy: allow-untyped-defs
# Kernels of users have no types.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ops.adjoints.checking import Case
from tests.ops.adjoints.random_kernels import native


def variable_assigned_in_its_loop_and_read_after_it(x, n):
    total = 0.0
    for i in range(n):
        total += x[i] * x[i]
        i = i + 1  # it is what is tested
        total += x[i % n] * 0.5
    return total * x[i - 1]


def two_loops_with_one_variable(x, n):
    total = 0.0
    for i in range(n - 1):
        for i in range(n):  # as above
            total += x[i] * x[i] * (total + 1.0)
        total += x[i]
    return total


def early_return_and_a_condition_that_calls(x, n):
    if n > 5:
        return x[0] * 2.0
    v = x[0]
    while math.exp(v) < 9.0 and v * v < 4.0:
        v = v + 0.3 * v * v + 0.1
    return v * x[1]


def steps_that_variables_tell(x, n):
    total = 1.0
    for step in range(1, 3):
        for i in range(0, n, step):
            total = total * (1.0 + 0.1 * x[i] * x[i])
        for i in range(n - 1, -1, -step):
            total = total * (1.0 + 0.1 * x[i])
    return total


def loops_without_turns(x, n):
    total = x[0]
    for i in range(n, n):
        total = total * x[i]
    for i in range(n - 1, n + 5, -1):
        total = total * x[i]
    return total * total


def one_value_returned_twice(x, n):
    total = x[0] * x[1]
    return total, total, x[n - 1]


def numbers_of_a_call_assigned_in_a_loop(x, n):
    s, r = x[0], x[1]
    for _ in range(n):
        s = s * r + 0.1
        r = r * s
    return s


def a_place_that_data_move(x, n):
    m = 0
    for i in range(n):
        for j in range(i, n):
            x[m] = x[m] * x[j] + 0.1
            m = (m + i + 1) % n
    return x[m]


def elements_before_the_first_one(x, n):
    for i in range(n):
        x[i] = x[i - 1] * x[i] * 0.5 + 0.3
    return x[0] * x[-1]


KERNELS = [
    variable_assigned_in_its_loop_and_read_after_it, two_loops_with_one_variable,
    early_return_and_a_condition_that_calls, steps_that_variables_tell, loops_without_turns, one_value_returned_twice,
    numbers_of_a_call_assigned_in_a_loop, a_place_that_data_move, elements_before_the_first_one,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(kernel.__name__))
def test_derivatives_equal_complex_steps(kernel: Callable[..., Any]) -> None:
    case = Case(kernel, [np.array([0.6, 0.9, 1.3]), 3])
    expected = case.expected()
    for mode in (case.reverse, case.in_halves, case.forward):
        assert mode() == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert mode(native) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    second = case.second()
    for mode in (second.reverse, second.forward):
        assert mode() == pytest.approx(second.expected(), rel=1e-11, abs=1e-11)

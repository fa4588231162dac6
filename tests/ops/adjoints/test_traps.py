"""Loops whose gradients the trackers of Warp and Taichi got wrong without a word: what their issues report.

Each derivative equals complex steps: in one call, in two, in blocks of turns, forward, and in second order.
"""

# mypy: allow-untyped-defs
# Kernels of users have no types.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ops.adjoints.checking import Case


def warp_1293_a_loop_in_a_loop_of_unknown_turns(x, n):
    q = x[0]
    for i in range(n):
        for j in range(i, n):
            half = x[j] * 0.5
            q = q * math.cos(half) + math.sin(half) * x[i]
    return q * q


def warp_1294_an_array_that_is_read_and_written(x, n):
    for i in range(n):
        x[i] = x[i] + 1.0
    for i in range(n):
        x[i] = x[i] * x[i]
    return x[0] * x[n - 1]


def warp_1350_an_array_that_is_overwritten_after_it_was_read(x, n):
    total = 0.0
    for i in range(n):
        total += x[i] * x[i]
    for i in range(n):
        x[i] = 100.0
    return total


def warp_1552_continue_in_the_search_for_a_maximum(x, n):
    total = 0.0
    for k in range(n):
        most = -1e20
        for p in range(5):
            if (p + k) % 3 == 0:
                continue
            v = x[k] * (x[p % n] - 0.2 * p) + 0.1 * p
            if v > most:
                most = v
        total += most * most
    return total


def warp_1694_a_variable_from_before_a_loop_that_is_used_after_it(x, n):
    area = x[0] * x[1]
    force = 0.0
    for k in range(n):
        force += x[k] * 0.3
    return force * area


def warp_1697_parts_of_a_vector_that_add_up(x, n):
    v = np.zeros(2)
    for _ in range(4):
        for i in range(n):
            v[i % 2] = v[i % 2] + x[i] * v[1 - i % 2] + 0.1
    return v[0] * v[1]


def warp_1740_a_quotient_of_a_sum_in_a_loop(x, n):
    result = 0.0
    for i in range(n):
        total = 1.0
        for j in range(i + 1):
            total += x[j]
        result += 1.0 / total
    return result


def taichi_2425_a_recursion(x, n):
    average = np.zeros(1)
    for i in range(n):
        average[0] = 0.3 * x[i] * x[i] + 0.7 * average[0] * average[0]
    return average[0]


def taichi_2505_an_element_that_is_read_and_then_changed(x, n):
    state = np.full(1, 1.0)
    for i in range(n):
        factor = 1.0
        if i % 2 == 0:
            factor = state[0]
        state[0] = math.cos(x[i]) * factor
    return state[0]


def taichi_3912_statements_between_loops(x, n):
    total = 0.0
    for i in range(n):
        a = 1.0
        for j in range(n):
            a = a * x[j]
        total += a * x[i]
        b = total
        for _ in range(2):
            b = b * x[i] + a
        total += b
    return total


def taichi_4226_a_loop_with_a_branch_that_reads_an_array(x, n):
    work = np.zeros(n)
    for i in range(n):
        for j in range(n):
            if x[j] > 0.8:
                work[i] += x[j] * x[i]
            else:
                work[i] *= 0.5 * x[j]
    return work[0] * work[n - 1]


def taichi_8356_sums_in_two_loops(x, n):
    work = np.zeros(n)
    for i in range(n):
        for j in range(n):
            work[i] += x[j] * x[j]
    return work[0] + work[n - 1]


def taichi_8802_an_element_that_the_turn_before_wrote(x, n):
    strain, total = np.zeros(13), 0.0
    for i in range(12):
        trial = 5.0 * (x[0] * math.sin(0.5 * i) - strain[i])
        d = 0.0
        if abs(trial) > 1.0:
            d = (abs(trial) - 1.0) / 5.0
            total += d
        strain[i + 1] = strain[i] + (d if trial > 0.0 else -d)
    return total + x[n - 1] * strain[12]


KERNELS = [each for key, each in list(globals().items()) if key.startswith(("warp_", "taichi_"))]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(kernel.__name__))
def test_derivatives_equal_complex_steps(kernel: Callable[..., Any]) -> None:
    case = Case(kernel, [np.array([0.6, 0.9, 1.3, 0.7]), 4])
    expected = case.expected()
    assert abs(expected) > 1e-3
    for mode in (case.reverse, case.in_halves):
        for levels in (0, 1):
            assert mode(levels=levels) == pytest.approx(expected, rel=1e-12)
    assert case.forward() == pytest.approx(expected, rel=1e-12)
    second = case.second()
    assert second.reverse() == pytest.approx(second.expected(), rel=1e-11)

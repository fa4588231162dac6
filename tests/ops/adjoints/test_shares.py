"""Maxima over loops: the tape keeps the share of the first operand, one number, in place of both operands."""

# mypy: allow-untyped-defs, allow-untyped-calls
# Kernels of users have no types.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import compiled
from tests.ops.adjoints.checking import Case, call, memory
from wyrm.ops.adjoints.derived import forward_and_backward, kind_of_value


def native(function: Any, arguments: list[Any]) -> Any:
    return compiled(function, *arguments)(*arguments)


def largest(x, scale):
    most = x[0] * scale
    for i in range(1, x.size):
        most = max(most, x[i])
        x[i] = 0.0
    return most


def smallest(x, scale):
    least = x[x.size - 1]
    for i in range(x.size - 2, 0, -1):
        least = min(scale * x[i], least)
        x[i] = x[i] * least
    return least


def clipped(x, scale):
    total = 0.0
    for i in range(3, x.size):
        x[i] = max(x[i] * x[i - 1], x[i - 3] * scale) + x[i]
        total = max(total * 0.9, x[i]) - total * 0.1
    return total


@pytest.mark.parametrize("function", [largest, smallest, clipped])
@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_all_modes_equal_complex_steps(function: Callable[..., Any], size: int) -> None:
    case = Case(function, [np.random.default_rng(size).uniform(0.5, 1.5, size), 0.8], 4)
    expected = case.expected()
    for mode in (case.reverse, case.in_halves, lambda: case.in_halves(levels=1), lambda: case.in_halves(native)):
        assert mode() == pytest.approx(expected, rel=1e-12)
    again = case.second()
    assert again.reverse() == pytest.approx(again.expected(), rel=1e-10)


@pytest.mark.parametrize(("function", "shared", "kept"), [(largest, True, 1), (smallest, False, 3)])
def test_a_turn_keeps_one_number_where_nothing_else_needs_the_operands(
    function: Callable[..., Any], shared: bool, kept: int
) -> None:
    arguments: list[Any] = [np.linspace(0.5, 1.5, 100), 0.8]
    forward, backward = forward_and_backward(function, list(map(kind_of_value, arguments)))
    assert ("share" in forward.source, "share" in backward.source) == (shared, shared)
    (tape,) = [each for each, type in forward.tapes if type == "f8"]
    assert memory(forward, arguments)[tape].size <= kept * 100 + 4


def test_equal_operands_share_the_cotangent() -> None:
    arguments: list[Any] = [np.array([2.0, 1.0, 2.0, 2.0]), 1.0]
    forward, backward = forward_and_backward(largest, list(map(kind_of_value, arguments)))
    for run in (lambda function, given: function(*given), native):
        given: list[Any] = [arguments[0].copy(), 1.0]
        _, made = call(forward, given, [], [], run=run)
        cotangent = np.zeros(4)
        call(backward, given, [cotangent], [1.0], made, run=run)
        assert cotangent.tolist() == [0.25, 0.0, 0.25, 0.5]

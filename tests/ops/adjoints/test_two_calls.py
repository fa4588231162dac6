"""The two halves of an adjoint: columns of the tape, cotangents of neighbours in variables, and what is checked."""

# mypy: allow-untyped-defs, allow-untyped-calls
# Kernels of users have no types.

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import compiled, written
from tests.ops.adjoints.checking import Case, code_of
from tests.ops.adjoints.programs import PROGRAMS, binomial_tree
from wyrm.ops.adjoints.derived import forward_and_backward, kind_of_value
from wyrm.ops.recurrence import lstm


def native(function: Any, arguments: list[Any]) -> Any:
    return compiled(function, *arguments)(*arguments)


STENCIL = """
def stencil(x, y, s):
    for turn in range(2):
        for i in {range}:
            a = x[{first}]
            b = x[{second}]
            x[{third}] = a * b * s + 0.3 * a
            y[i] = y[i] + x[{fourth}] * b
    return y[0]
"""
RANGES = ["range(1, x.size - 1)", "range(x.size - 2, 0, -1)", "range(x.size - 1)", "range(x.size - 2, -1, -1)"]
# Where the loop begins at 0, an index below it counts from the end.
INDICES = ["i", "i + 1", "i - 1"]


@pytest.mark.parametrize(("turns", "size"), [*product(RANGES, [1, 2, 5])])
def test_loops_over_neighbours_equal_complex_steps(turns: str, size: int) -> None:
    random = np.random.default_rng(4)
    for first, second, third, fourth in product(INDICES, INDICES, INDICES, ["i", "i + 1"]):
        text = STENCIL.format(range=turns, first=first, second=second, third=third, fourth=fourth)
        arguments = [random.uniform(0.5, 1.5, size), random.uniform(0.5, 1.5, size), 0.7]
        case = Case(written(text, "stencil"), arguments, 1)
        expected = case.expected()
        assert case.in_halves() == pytest.approx(expected, rel=1e-11), text
        if (first, fourth) in [("i", "i"), ("i + 1", "i")]:
            assert case.in_halves(native) == pytest.approx(expected, rel=1e-11), text


def periodic(x, y):
    total = 0.0
    for i in range(x.size):
        x[i] = x[i] * x[i - 1] + y[i]
        total += x[i] * x[i]
    return total


@pytest.mark.parametrize("size", [1, 2, 5])
def test_an_index_that_counts_from_the_end_is_no_neighbour(size: int) -> None:
    random = np.random.default_rng(4)
    case = Case(periodic, [random.uniform(0.5, 1.5, size), random.uniform(0.5, 1.5, size)], 1)
    assert case.in_halves() == pytest.approx(case.expected(), rel=1e-11)
    assert case.in_halves(native) == pytest.approx(case.expected(), rel=1e-11)


def halves(function: Any, arguments: Any) -> Any:
    return forward_and_backward(function, [kind_of_value(each) for each in arguments])


def test_an_element_that_the_next_turn_reads_again_is_recorded_once() -> None:
    arguments = PROGRAMS["binomial_tree"][1](6)
    first, second = halves(binomial_tree, arguments)
    # Each step keeps what it overwrites and one element more: 6 + 5 + 4 + 3 + 2.
    assert dict(zip(first.sizes.names, first.sizer(*arguments), strict=True))["tape"] == (20,)
    assert first.source.count("column[i_1 + 1] = value_was\n") == 1
    assert "d_value[i + 1] = late + " in second.source
    case = Case(binomial_tree, arguments)
    assert case.in_halves(native) == pytest.approx(case.expected(), rel=1e-12)


def by_sign(x, out):
    for i in range(x.size):
        if x[i] * x[i] > 0.5:
            out[i] = x[i] * x[i]


def by_place(x, places, out):
    for i in range(x.size):
        if i % 2 == 0:
            out[places[i]] += x[i] * x[i]


def by_number(x, out):
    for i in range(x.size):
        out[int(x[i] * 2.0)] += x[i] * x[i]


@pytest.mark.parametrize("kernel", [by_sign, by_place, by_number, binomial_tree])
def test_the_forward_sweep_alone_checks_indices(kernel: Any) -> None:
    x = np.array([0.2, 0.9, 1.4, 0.1])
    arguments = {by_sign: [x, x], by_place: [x, np.arange(4), x], by_number: [x, x]}.get(
        kernel, PROGRAMS["binomial_tree"][1](6)
    )
    first, second = halves(kernel, arguments)
    assert vars(first.function)["guarded"]
    assert not vars(second.function)["guarded"]


def rows_while(x, limit):
    total = 1.0
    while total < limit:
        for i in range(x.size):
            x[i] = x[i] * x[i] + 0.1
            total += x[i]
    return total


def test_columns_of_a_loop_that_repeats_unknown_times_tell_when_there_is_no_room() -> None:
    case = Case(rows_while, [np.array([0.9, 0.7, 0.8]), 9.0])
    assert case.in_halves() == pytest.approx(case.expected(), rel=1e-11)
    first, _ = halves(rows_while, case.arguments)
    assert "column = tape[" in first.source
    names = dict(first.tapes)
    tapes = [np.zeros(4 if text == "tape" else 99, np.int64 if type == "i" else float) for text, type in names.items()]
    with pytest.raises(IndexError, match="the tape of a kernel is full"):
        first.function(np.array([0.9, 0.7, 0.8]), 9.0, *tapes)


def test_functions_that_take_long_are_not_computed_again_where_what_they_read_is_recorded() -> None:
    arrays = [np.ones(3)] * 8
    first, second = halves(lstm.step_forward, arrays)
    assert code_of(first).count("sigmoid(") == 3
    assert "sigmoid(" not in code_of(second) and "tanh(" not in code_of(second)
    # Read again from an array that stays, a value is computed again: that takes no memory.
    made = halves(of_sines, [np.ones(3), np.ones(3)])[1]
    assert "math.sin(" in made.source and not made.tapes[:-1]


def of_sines(x, out):
    for i in range(x.size):
        s = math.sin(x[i])
        out[i] = s * s

"""What has no adjoint is refused before anything runs, with the line and what to write."""

# mypy: allow-untyped-defs, allow-untyped-calls
# Kernels of users have no types.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import compiled
from tests.ops.adjoints.checking import Case, call, copied, memory
from wyrm.errors import NotDifferentiable
from wyrm.ops.adjoints.derived import adjoint, kind_of_value

VECTOR, MATRIX = np.ones(3), np.ones((3, 3))


def bound_anew(x, out):
    row = x[0]
    for i in range(x.shape[0]):
        out[i] = row[0]
        row = x[i]


def returns_in_a_loop(x):
    for i in range(x.size):
        if x[i] > 0.0:
            return x[i]
    return 0.0


def doubled(a, b):
    for i in range(a.size):
        a[i] = b[i] * 2.0


def shares_memory(x):
    doubled(x, x)
    return x[0]


def without_a_rule(x):
    return math.lgamma(x[0])


def recursive(x):
    return recursive(x) * 2.0


def allocates(x):
    total = 0.0
    for i in range(x.size):
        w = np.zeros(3)
        w[0] = x[i]
        total += w[0]
    return total


def catches(x):
    try:
        return x[0]
    except IndexError:
        return 0.0


def copies_a_whole_array(x, y):
    x[:] = y


def adds_whole_arrays(x, y):
    z = x + y
    return z[0]


def reads_before(x):
    total = x[0] * missing  # type: ignore[has-type, used-before-def]  # noqa: F821  # what is refused
    missing = 1.0  # noqa: F841  # read too early
    return total


def over_an_array(x):
    total = 0.0
    for v in x:
        total += v
    return total


def returns_on_one_path(x):
    if x[0] > 0.0:
        return x[0]


def negative_part(v):
    if v < 0.0:
        return v


def calls_what_returns_on_one_path(x):
    return negative_part(x[0]) * 2.0


def turns_of_floats(x, turns):
    total = 0.0
    for _ in range(turns):
        total += x[0]
    return total


def index_of_floats(x, place):
    return x[place]


def more_axes_than_there_are(x):
    n, m = x.shape
    return x[0] * n * m


def more_indices_than_axes(x):
    return x[0, 0]


def of_a_list(x):
    table = [0.0] * x.size
    return x[0] + table[0]


def of_a_method(x):
    return x.sum()


def with_a_size_of_its_own(x):
    total = 0
    for i in range(x.size):
        if x[i] > 0.0:
            total += 1
    w = np.zeros(total)
    w[0] = x[0]
    return w[0]


@pytest.mark.parametrize(
    ("kernel", "arguments", "line", "word"),
    [
        (bound_anew, [MATRIX, VECTOR], 3, "use two names"),
        (returns_in_a_loop, [VECTOR], 3, "return it after the loop"),
        (shares_memory, [VECTOR], 1, "a and b of doubled are the same memory"),
        (without_a_rule, [VECTOR], 1, "lgamma has no derivative"),
        (recursive, [VECTOR], 1, "calls itself; write a loop"),
        (allocates, [VECTOR], 3, "make it before, at the start of the kernel"),
        (catches, [VECTOR], 1, "write an if statement"),
        (copies_a_whole_array, [VECTOR, VECTOR], 1, "write a loop over the elements"),
        (adds_whole_arrays, [VECTOR, VECTOR], 1, "write a loop over its elements"),
        (reads_before, [VECTOR], 1, "missing is read before it is assigned"),
        (over_an_array, [VECTOR], 2, "write for i in range"),
        (returns_on_one_path, [VECTOR], 2, "write a return there, too"),
        (calls_what_returns_on_one_path, [VECTOR], None, "write a return there, too"),
        (turns_of_floats, [VECTOR, 3.0], 2, "range takes integers: write int(turns)"),
        (index_of_floats, [VECTOR, 1.0], 1, "write int(place) in x[place]"),
        (more_axes_than_there_are, [VECTOR], 1, "x has one axis, and x.shape[1] is read"),
        (more_indices_than_axes, [VECTOR], 1, "x has one axis, and x[0, 0] has 2 indices"),
        (of_a_list, [VECTOR], 1, "np.zeros(n)"),
        (of_a_method, [VECTOR], 1, "write a loop over the elements"),
        (with_a_size_of_its_own, [VECTOR], None, "depends on what the kernel computes"),
    ],
)
def test_refusals_name_the_line_and_what_to_write(
    kernel: Callable[..., Any], arguments: list[Any], line: int | None, word: str
) -> None:
    with pytest.raises(NotDifferentiable) as caught:
        adjoint(kernel, [kind_of_value(each) for each in arguments])
    text = str(caught.value)
    assert word in text
    if line is not None:
        assert f"test_refusals.py:{kernel.__code__.co_firstlineno + line}" in text


def nested_returns(x):
    if x[0] > 1.0:
        if x[1] > 1.0:
            return x[0] * x[1]
    elif x[1] > 0.0:
        return 2.0 * x[1]
    if x[2] > 0.0:
        return x[2] * x[2]
    else:
        return x[0]


@pytest.mark.parametrize("x", [[2.0, 2.0, 1.0], [2.0, 0.5, 3.0], [0.5, 0.5, 1.0], [0.5, -1.0, 2.0], [0.5, -1.0, -2.0]])
def test_returns_in_branches_that_all_return_are_followed(x: list[float]) -> None:
    case = Case(nested_returns, [np.array(x)])
    assert case.reverse() == pytest.approx(case.expected(), rel=1e-13)


def overwritten(x):
    for i in range(x.size):
        x[i] = x[i] * x[i] * 0.5
        x[i] = math.sin(x[i]) + x[0]
    return x[1]


def powers(x, turns):
    v = x[0]
    for _ in range(turns):
        v = v * v * x[1]
    return v


def test_an_element_that_is_overwritten_and_read_again_has_its_gradient() -> None:
    case = Case(overwritten, [np.array([0.3, 0.7, -0.4])])
    assert case.reverse() == pytest.approx(case.expected(), rel=1e-13)


def test_a_variable_that_a_loop_of_any_number_of_turns_changes_has_its_gradient() -> None:
    case = Case(powers, [np.array([0.9, 1.1]), 4])
    assert case.reverse() == pytest.approx(case.expected(), rel=1e-13)


def test_every_access_of_the_tape_is_checked_in_debug_mode() -> None:
    case = Case(powers, [np.array([0.9, 1.1]), 4])
    derived = adjoint(powers, case.kinds)
    assert [text for text, _ in derived.tapes] == ["tape"]
    made = memory(derived, case.arguments)
    assert made["tape"].size == 4
    short = {"tape": np.empty(3)}
    for checked, room in ((True, short), (True, made)):

        def run(function: Callable[..., Any], arguments: list[Any], checked: bool = checked) -> Any:
            return compiled(function, *arguments, checked=checked)(*arguments)

        if room is short:
            with pytest.raises(IndexError):
                call(derived, copied(case.arguments), [np.zeros(2)], [1.0], room, run)
        else:
            found, _ = call(derived, copied(case.arguments), [np.zeros(2)], [1.0], room, run)
            assert found[0] == pytest.approx(case.values[0])


def test_values_of_float32_arrays_are_taped_in_float32() -> None:
    def kinds(dtype: type[np.floating]) -> Any:
        return [kind_of_value(np.ones(3, dtype))]

    assert adjoint(overwritten, kinds(np.float32)).tapes == (("tape32", "f4"),)
    assert adjoint(overwritten, kinds(np.float64)).tapes == (("tape", "f8"),)

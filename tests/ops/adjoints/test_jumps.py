"""Conditions and integers that kernels compute from floats: the backward sweep takes them from the forward sweep.

The forward sweep runs in Python here, and the backward sweep compiled with fused multiply-adds, which are rounded once.
So a product minus its rounded value is 0 in the first one and not in the second one.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# Kernels of users have no types.

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import compiled
from tests.ops.adjoints.checking import call, code_of, copied
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.ops.adjoints.derived import Derived, forward_and_backward, kind_of_value

pytestmark = pytest.mark.optimized  # only optimized code has fused operations

SIZE = 64
# Compilers compare x with y in place of x - y with 0.
TINY = 1e-300


def of_a_branch(a, b, c, f, out):
    for i in range(a.size):
        if a[i] * b[i] - c[i] > TINY:
            out[i] = 2.0 * f[i]
        else:
            out[i] = -3.0 * f[i]


def of_a_variable(a, b, c, f, out):
    for i in range(a.size):
        over = a[i] * b[i] - c[i] > TINY
        if over:
            out[i] = 2.0 * f[i]
        else:
            out[i] = -3.0 * f[i]


def of_two_conditions(a, b, c, f, out):
    for i in range(a.size):
        out[i] = -3.0 * f[i]
        if i >= 0 and a[i] * b[i] - c[i] > TINY:
            out[i] = 2.0 * f[i]


def of_a_choice(a, b, c, f, out):
    for i in range(a.size):
        out[i] = (2.0 if a[i] * b[i] - c[i] > TINY else -3.0) * f[i]


def of_an_integer(a, b, c, f, out):
    for i in range(a.size):
        k = int(np.ceil(a[i] * b[i] - c[i]))
        out[i] = (5.0 * k - 3.0) * f[i]


def of_an_index(a, b, c, f, out):
    factors = np.full(2, -3.0)
    factors[1] = 2.0
    for i in range(a.size):
        out[i] = factors[int(np.ceil(a[i] * b[i] - c[i]))] * f[i]


def of_rounded_floats(a, b, c, f, out):
    for i in range(a.size):
        out[i] = (5.0 * np.ceil(a[i] * b[i] - c[i]) - 3.0) * f[i]


def of_a_remainder(a, b, c, f, out):
    for i in range(a.size):
        phase = (c[i] - a[i] * b[i]) % 5.0  # just below 0 it is 5
        out[i] = (phase - 3.0) * f[i]


def of_the_turns(a, b, c, f, out):
    for i in range(a.size):
        factor = -3.0
        for _ in range(int(np.ceil(a[i] * b[i] - c[i]))):
            factor = 2.0
        out[i] = factor * f[i]


def of_a_loop_that_ends(a, b, c, f, out):
    for i in range(a.size):
        factor = -3.0
        while a[i] * b[i] - c[i] > TINY and factor < 0.0:
            factor = 2.0
        out[i] = factor * f[i]


def of_a_break(a, b, c, f, out):
    for i in range(a.size):
        factor = 2.0
        for _ in range(3):
            if a[i] * b[i] - c[i] <= TINY:
                factor = -3.0
                break
        out[i] = factor * f[i]


def of_a_variable_that_is_carried(a, b, c, f, out):
    v = 0.0
    for i in range(a.size):
        if v > TINY:
            out[i - 1] = 2.0 * f[i - 1]
        v = a[i] * b[i] - c[i]
        out[i] = -3.0 * f[i]


def of_elements_of_scratch(a, b, c, f, out):
    rest = np.zeros(a.size)
    for i in range(a.size):
        rest[i] = a[i] * b[i] - c[i]
        if rest[i] > TINY:
            out[i] = 2.0 * f[i]
        else:
            out[i] = -3.0 * f[i]


def slope_of_step(v):
    return 0.0


def step(v):
    return 2.0 if v > TINY else -3.0


step.slopes = (slope_of_step,)  # type: ignore[attr-defined]  # a mark of kernels


def of_a_slope_of_ones_own(a, b, c, f, out):
    for i in range(a.size):
        out[i] = step(a[i] * b[i] - c[i]) * f[i]


KERNELS = [
    of_a_branch, of_a_variable, of_two_conditions, of_a_choice, of_an_integer, of_an_index, of_rounded_floats,
    of_a_remainder, of_the_turns, of_a_loop_that_ends, of_a_break, of_a_variable_that_is_carried,
    of_elements_of_scratch, of_a_slope_of_ones_own,
]  # fmt: skip


def arguments() -> list[Any]:
    """Return factors with their rounded products, of which half are below the exact ones, and room for results."""
    random = np.random.default_rng(0)
    a, b = random.uniform(0.5, 1.5, SIZE), random.uniform(0.5, 1.5, SIZE)
    below = [Fraction(x) * Fraction(y) > Fraction(z) for x, y, z in zip(a, b, a * b, strict=True)]
    assert 10 < sum(below) < SIZE - 10
    return [a, b, a * b, random.uniform(0.5, 1.5, SIZE), np.zeros(SIZE)]


def fused(function: Callable[..., Any], given: list[Any]) -> Any:
    """Call a kernel compiled with fused multiply-adds, and with its bounds checked."""
    return compiled(KernelFunction(function, fused=True), *given, checked=True)(*given)


def halves(kernel: Callable[..., Any]) -> tuple[Derived, Derived]:
    return forward_and_backward(kernel, [kind_of_value(each) for each in arguments()], ["f"])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(kernel.__name__))
def test_the_backward_sweep_takes_the_branches_of_the_forward_sweep(kernel: Callable[..., Any]) -> None:
    first, second = halves(kernel)
    given = arguments()
    _, memory = call(first, given, [], [])
    np.testing.assert_allclose(given[4] / given[3], -3.0, rtol=1e-13)
    cotangents = {"f": np.zeros(SIZE), "out": np.ones(SIZE)}
    call(second, given, [cotangents[each] for each in second.cotangents], [], dict(memory), run=fused)
    np.testing.assert_allclose(cotangents["f"], -3.0, rtol=1e-13)


def of_remainders(a, b, c, f, out):
    for i in range(a.size):
        out[i] = (c[i] - a[i] * b[i]) % f[i]


def test_the_slope_of_a_remainder_is_that_of_the_quotient_that_was_taken() -> None:
    first, second = halves(of_remainders)
    given = arguments()
    _, memory = call(first, given, [], [])
    assert not given[4].any()
    cotangents = {"f": np.zeros(SIZE), "out": np.ones(SIZE)}
    call(second, given, [cotangents[each] for each in second.cotangents], [], dict(memory), run=fused)
    assert not cotangents["f"].any()


def test_the_compiler_rounds_these_in_another_way() -> None:
    given = copied(arguments())
    fused(of_a_branch, given)
    assert 10 < np.sum(given[4] / given[3] > 0.0) < SIZE - 10


def of_numbers_that_stay(a, b, c, f, out):
    for i in range(a.size):
        if a[i] > b[i] and i % 2 == 0 and min(a[i], 1.0) > c[0]:
            out[i] = 2.0 * f[i]


def test_what_is_read_unchanged_or_is_of_integers_is_not_recorded() -> None:
    first, _ = halves(of_numbers_that_stay)
    assert first.sizer(*arguments()) == ((4,),)  # the places on the tapes


def test_a_branch_takes_one_byte() -> None:
    first, second = halves(of_a_branch)
    types = dict(first.tapes)
    (choices,) = [text for text, type in types.items() if type == "b"]
    assert dict(zip(first.sizes.names, first.sizer(*arguments()), strict=True))[choices] == (SIZE,)
    assert "a[i] * b[i]" not in code_of(second)

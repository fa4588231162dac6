"""Statements in kernels behave as in Python: assignments, loops, conditions, calls and evaluation order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import check, compiled, copies, translated
from wyrm.engines.native.kernels.functions import KernelFunction

# --- kernels that the tests call --------------------------------------------------------------------------------------


@KernelFunction
def bump(x: Any) -> Any:
    """Add 10 to the first element and return it."""
    x[0] += 10
    return x[0]


@KernelFunction
def scaled(x: float, by: float = 2.0, *, plus: float = 0.5) -> float:
    """A kernel with defaults."""
    return x * by + plus


@KernelFunction
def reordered(pair: Any, x: Any) -> Any:
    """Return a view and a tuple."""
    a, (b, c) = pair
    return x.T, (c, b, a)


@KernelFunction
def nothing(x: Any) -> None:
    """A kernel without a result."""
    if x.size > 0:
        x[0] = 7


def distinct(x: Any, y: Any) -> None:
    """Compute `y += x[0]`, reading `x[0]` in each iteration."""
    for i in range(y.size):
        y[i] += x[0]


DISTINCT = KernelFunction(distinct, distinct=True)


@dataclass(frozen=True)
class Part:
    """A compile-time constant with attributes; `kind` is that of a scalar."""

    factor: float
    kind: Any
    inner: tuple[Part, ...] = ()

    @property
    def twice(self) -> float:
        """Twice the factor."""
        return 2.0 * self.factor


PARTS = Part(3.0, np.float32), Part(0.5, np.int64, (Part(7.0, np.float64),))


@KernelFunction
def first_half(x: Any) -> Any:
    """Return a view."""
    return x[: len(x) // 2]


@KernelFunction
def total_of(part: Part, x: float) -> float:
    """Call itself for other constants."""
    total = float(part.kind(x)) * part.twice
    for each in part.inner:
        total += total_of(each, x)
    return total


# --- tests ------------------------------------------------------------------------------------------------------------


def test_several_names_at_once() -> None:
    def swapped(x: Any) -> tuple[float, ...]:
        a, b = 1.0, 2.0
        a, b = b, a
        t = (a, b, 3.0)
        t = (t[2], t[0], t[1])
        x[0], x[1] = x[1], x[0]
        i = 0
        i, x[i] = 2, x[2]
        c = d = x[1] + i
        [e, (f, g)] = c, (d, t[0])
        return a, b, *t, c, d, e, f, g

    check(swapped, np.arange(3.0))


def test_an_array_that_is_transposed_in_a_loop() -> None:
    def fill(x: Any, out: Any) -> int:
        total = 0
        for _ in range(3):
            x = x.T
            total = total * 10 + x.shape[0]
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j]
        return total

    check(fill, np.arange(6.0).reshape(2, 3), np.zeros((3, 2)))


def test_operands_are_evaluated_from_left_to_right() -> None:
    def ordered(x: Any, y: Any) -> tuple[float, ...]:
        a = x[0] + bump(x)
        b = x[0] - bump(x) * x[0]
        c = x[0] < bump(x) < x[0] + bump(x)
        t = (x[0], bump(x), x[0])
        y[int(bump(x)) % 3] = x[0]
        y[0] += bump(y)
        x[1] += bump(x) + x[1]
        d = max(x[0], bump(x), x[0])
        e = x[0] if bump(x) > x[0] else -x[0]
        f = scaled(x[0], bump(x))
        return a, b, c, t[0], t[1], t[2], d, e, f

    check(ordered, np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0]))


def test_short_circuit_evaluation() -> None:
    def lazy(x: Any, n: int) -> tuple[int, ...]:
        a = b = c = d = 0
        for i in range(-1, n + 1):
            if 0 <= i < n and x[i] > 1:
                a += 1
            if i < 0 or i >= n or x[i] > 1:
                b += 1
            if 0 <= i < n and 0 < x[i] < n:
                c += 1
            d += x[i] if 0 <= i < n else -1
            while 0 <= i < n and x[i] > 2:
                x[i] -= 1
        return a, b, c, d

    x = np.array([0, 1, 2, 3, 4])
    assert check(lazy, x, 5, checked=True) == (3, 5, 4, 8)


def test_or_and_and_return_operands() -> None:
    def chosen(n: int, x: float) -> tuple[float, ...]:
        return n or 5, n and 7, x or 0.5, n and x, (n > 0) or n, 0 or n, 3 and n, not (n and x)

    for n, x in ((0, 0.0), (2, 0.0), (0, 1.5), (-3, 2.5)):
        check(chosen, n, x)


def test_variables_after_a_loop() -> None:
    def last(n: int) -> tuple[int, int, int]:
        i, total, j = -1, 0, -5
        for i in range(n):
            total += i
            for j in range(i, 10, 3):  # noqa: B007
                n = 0
            i = i * 2
        return i, total, j

    for n in (0, 1, 4):
        check(last, n)


def test_ranges() -> None:
    def walked(start: int, stop: int, step: int) -> tuple[int, int, int]:
        count = total = 0
        for i in range(start, stop, step):
            count += 1
            total = total * 3 + i
        for i in range(stop, start, -2):
            total += i
        for i in range(start, stop, 3):
            total -= i
        for i in range(0, 2**63 - 1, 2**62):
            count += i > 5
        return count, total, -1

    native = compiled(walked, 1, 2, 3)
    for start in (-7, 0, 3, 8):
        for stop in (-6, 0, 2, 9):
            for step in (-3, -1, 1, 2, 50, -50):
                assert native(start, stop, step) == walked(start, stop, step)
    assert native(0, 5, 0)[0] == 1  # a step of 0 gives no iterations


def test_loops_over_arrays() -> None:
    def fill(x: Any, y: Any, out: Any) -> float:
        total = 0.0
        for row in x:
            for each in row:
                if each == 3:
                    continue
                if each > 7:
                    break
                total += each
        for i, each in enumerate(y):
            total += i * each
        for row, each in zip(x, y):  # noqa: B905
            total += row[0] * each
        for i, (a, b) in enumerate(zip(y, range(5, 9))):  # noqa: B905
            total += i * a + b
        for each in x.flat:
            if each == 1:
                continue
            total += each
        for i, j in np.ndindex(x.shape):
            out[i, j] = total + i - j
        for index in np.ndindex(2, 2):
            out[index] += 1
        for place in np.ndindex(x.shape[0]):
            out[place][0] += out[0, 0]
        for _ in y:
            y = x[0]
        return total

    x = np.arange(12.0).reshape(3, 4)
    check(fill, x, np.arange(3.0), np.zeros((3, 4)))
    check(fill, x[::2, 1::2], np.arange(4.0)[::-2], np.zeros((4, 4))[::2, ::2])


def test_loops_with_break_continue_and_return() -> None:
    def collatz(n: int) -> tuple[int, int]:
        steps = 0
        while True:
            if n == 1:
                break
            if n % 2 == 0:
                n //= 2
                steps += 1
                continue
            n = 3 * n + 1
            steps += 1
        while n < 100:
            n += 1
            if n > 50:
                return n, steps
        return -1, steps

    for n in (1, 7, 27):
        check(collatz, n)


def test_an_endless_loop_with_a_return() -> None:
    def until(x: Any) -> int:
        i = 0
        while True:
            if x[i] > 3:
                return i
            i += 1

    assert check(until, np.arange(6)) == 4


def test_defaults_keywords_and_tuples_in_calls() -> None:
    def calls(x: Any, n: float) -> tuple[float, ...]:
        y, (c, b, a) = reordered((1, (n, 3.5)), x)
        pair = (n, 4.0)
        nothing(x[0])
        return scaled(n), scaled(n, 3.0), scaled(by=n, x=2.0), scaled(*pair, plus=1.0), y[2, 1], a, b, c, x[0, 0]

    check(calls, np.arange(6.0).reshape(2, 3), 2.5)


def test_the_kind_of_a_variable_is_widened() -> None:
    def widened(x: Any, n: Any) -> tuple[Any, Any]:
        total, n = 0, n / 2
        for i in range(x.size):
            if i > 1:
                before = total
                total = before + x[i]
            else:
                total = n
        return total, n

    check(widened, np.arange(5.0), 3)


def test_a_kind_that_a_later_pass_infers() -> None:
    def later(x: Any) -> float:
        total = 0.0
        for i in range(x.size):
            if i > 0:
                total += previous  # type: ignore[has-type] # noqa: F821
            previous = x[i]  # noqa: F841
        return total

    check(later, np.arange(5.0))


def test_an_unassigned_variable_is_zero() -> None:
    def unset(x: Any, n: int) -> tuple[int, float]:
        for i in range(n):
            last = x[i]
            row = x[i:]
        return row.size, last

    native = compiled(unset, np.arange(3.0), 1)
    assert native(np.arange(3.0), 2) == (2, 1.0)
    assert native(np.arange(3.0), 0) == (0, 0.0)


def test_branches_of_constant_conditions_are_not_compiled() -> None:
    def either(x: Any) -> Any:
        if x.ndim == 1:
            return x[0]
        if x.dtype == np.float32 and undefined(x):  # type: ignore[name-defined] # noqa: F821
            return x.no_such_thing
        return x[0, 0]

    assert check(either, np.ones(2)) == 1
    assert check(either, np.ones((2, 2))) == 1


def test_conditional_arrays() -> None:
    def fill(x: Any, y: Any, n: int) -> Any:
        z = x if n > 0 else y
        z[0] = 5
        return (x if n > 1 else y[:2])[1]

    for n in (0, 1, 2):
        check(fill, np.arange(3.0), np.arange(6.0)[::2], n)


def test_errors() -> None:
    def fails(x: Any, n: int) -> int:
        for i in range(x.size):
            if x[i] == n:
                raise IndexError("found it")
        return n

    native = compiled(fails, np.arange(3), 1)
    assert native(np.arange(3), 5) == 5
    with pytest.raises(IndexError, match="found it"):
        native(np.arange(3), 2)


def test_names_that_look_like_those_of_the_compiler() -> None:
    def names(a: int, b: int, i: int, n: int) -> tuple[int, ...]:
        r = (1, 2, 3)
        t = (i + a, n + b, a * b)
        p = (t[1], t[2] if i > n and r[i] > 0 else t[0], r)
        for n in range(i):
            t = (p[0] + n, t[0], t[1])
        return t[0], t[1], t[2], p[0], p[1], p[2][2], n, i

    check(names, 3, 4, 2, 1)


def test_arguments_that_alias() -> None:
    def both(x: Any) -> None:
        DISTINCT(x, x)
        DISTINCT(x[1:], x)

    x, y = copies((np.arange(1.0, 9.0),) * 2)
    compiled(both, x)(x)
    both(y)
    np.testing.assert_array_equal(x, y)


def test_views_of_one_array_are_distinct_but_not_from_the_whole() -> None:
    def parts(x: Any) -> None:
        DISTINCT(x[4:], x[:4])
        DISTINCT(x[:4], x[4:])

    def whole(x: Any) -> None:
        DISTINCT(x[:4], x[:])

    for kernel, is_distinct in ((parts, True), (whole, False)):
        x, y = copies((np.arange(1.0, 9.0),) * 2)
        compiled(kernel, x)(x)
        kernel(y)
        np.testing.assert_array_equal(x, y)
        translation, found = translated(kernel, x)
        *others, _ = translation.program(found.function.name).functions
        assert [each.distinct for each in others] == [is_distinct]


def test_the_store_of_a_literal() -> None:
    def fill(x: Any, flags: Any) -> None:
        x[:] = 3
        flags[0] = 1
        flags[1:] = x[0] > 2

    for dtype in ("int8", "uint64", "float32"):
        check(fill, np.zeros(4, dtype), np.zeros(3, bool))


def test_a_loop_over_a_tuple_takes_items_of_any_kinds() -> None:
    def loops(x: Any, y: Any, n: int) -> float:
        total = 0.0
        for array in (x, y):
            array[0] += 1
            total += array[-1]
        for number in (n, 2.5):
            total += number
        for number in range(3):
            total += number
        number = 0.5
        total += number
        for i, (each, factor) in enumerate(zip((x, y), (2, 3), strict=True)):
            each[i] = factor
            total += i
        return total

    check(loops, np.arange(4.0), np.arange(3), 7)


def test_constants_have_attributes_and_functions_take_them() -> None:
    def totals(x: float) -> float:
        total = 0.0
        for each in PARTS:
            total += total_of(each, x)
        return total

    check(totals, 2.75)


def test_a_tuple_of_what_is_computed_for_items() -> None:
    def built(x: Any, n: int) -> tuple[Any, ...]:
        scale = n * 2
        found = tuple(each * scale + bump(x) for each in (1, 2.5, n))
        return found[0], found[1], found[2], len(found)

    check(built, np.arange(3.0), 4)


def test_a_tuple_keeps_the_items_that_it_had() -> None:
    def kept(n: int) -> int:
        total = 0
        for each in (n, n + 1):
            n = 100
            total += each
        return total

    check(kept, 3)


def test_a_loop_over_the_array_that_a_kernel_returns() -> None:
    def over(x: Any) -> float:
        total = 0.0
        for each in first_half(x):
            total += each
        return total

    check(over, np.arange(7.0))

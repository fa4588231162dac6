"""Kernels of users raise `IndexError` where Python does, and write to no memory around their arrays."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engines.native.kernels.running import compiled, written
from wyrm.engines.native.kernels.functions import KernelFunction

INDICES = [
    "i", "j", "i + j", "i - 1", "j + 1", "m - j", "n - 1 - i", "i + n", "i - j", "0", "-1", "k", "n", "3 * i",
    "j + i - n", "i + i", "-i - 1",
]  # fmt: skip
RANGES = ["n", "1, n", "n, 0, -1", "m", "n, m", "0, n, 2", "x.size", "i", "i, n", "m - 1, -1, -1", "2, 5", "y.shape[1]"]
LEAVES = ["pass", "if x.size > 2: break", "if i == 2: continue", "if i > 1: return", "if j == 1: break", "k += 1"]
LINES = [
    "x[{a}] += 1.0", "y[{a}, {b}] = 2.0", "x[{a}] = y[{b}, {a}]", "v = x[{a}:]\n    v[{b}] = 3.0",
    "y[{a}][{b}] += 1.0", "if x[{a}] > 1.0:\n    y[{a}, {b}] = 1.0\nelse:\n    x[{b}] = 4.0",
]  # fmt: skip
_numbers = itertools.count()


@st.composite
def kernels(draw: st.DrawFn) -> str:
    """The source of a kernel of two loops, with reads and writes at indices that may be out of range."""

    def line(depth: int) -> str:
        text = draw(st.sampled_from(LINES)).format(a=draw(st.sampled_from(INDICES)), b=draw(st.sampled_from(INDICES)))
        return textwrap.indent(text.replace("\n    v", "\nv"), "    " * depth)

    def leave(depth: int) -> str:
        return "    " * depth + draw(st.sampled_from([*LEAVES[:1] * 4, *LEAVES]))

    outer, inner = draw(st.sampled_from(RANGES[:7])), draw(st.sampled_from(RANGES))
    parts = [
        "def kernel(x, y, n, m):", "    i = j = k = 0", *([line(1)] if draw(st.booleans()) else []),
        f"    for i in range({outer}):",
        leave(2), *([line(2)] if draw(st.booleans()) else []), f"        for j in range({inner}):", leave(3), line(3),
        *([line(3)] if draw(st.booleans()) else []), leave(3), *([line(2)] if draw(st.booleans()) else []),
        leave(2).replace("j == 1", "n == 1"), line(1),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def guarded(text: str) -> tuple[Callable[..., Any], Any]:
    """Return the function of a source, and what compiles it as a kernel of users."""
    function = written(text, "kernel")
    return function, KernelFunction(function, name=f"kernel_{next(_numbers)}", distinct=True, guarded=True)


def outcome(function: Callable[..., Any], rows: int, columns: int, n: int, m: int) -> Any:
    """Return the arrays that a kernel leaves, or None where it raises `IndexError`; it writes nothing around them."""
    around = np.full(64 + rows + 64 + rows * columns + 64, 7.5)
    x, y = around[64 : 64 + rows], around[128 + rows : 128 + rows + rows * columns].reshape(rows, columns)
    x[...], y[...] = np.arange(rows), 0.5
    try:
        with np.errstate(all="ignore"):
            function(x, y, n, m)
    except IndexError:
        found = None
    else:
        found = x.copy(), y.copy()
    x[...], y[...] = 7.5, 7.5
    assert (around == 7.5).all()
    return found


def same(first: Any, second: Any) -> bool:
    if first is None or second is None:
        return first is second
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))


@pytest.mark.optimized
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernels())
def test_random_kernels_raise_where_python_does(text: str) -> None:
    function, kernel = guarded(text)
    x, y = np.zeros(3), np.zeros((3, 4))
    native = compiled(kernel, x, y, 1, 1)
    for rows, columns in ((3, 4), (1, 1), (0, 3), (4, 2)):
        for n, m in itertools.product((-1, 0, 1, 2, 3, 5), (-2, 0, 1, 3, 4)):
            expected = outcome(function, rows, columns, n, m)
            assert same(outcome(native, rows, columns, n, m), expected), (text, rows, columns, n, m)


def kernel_of(*lines: str) -> str:
    return "\n    ".join(["def kernel(x, y, n, m):", *lines]) + "\n"


LARGEST = 2**63 - 1


@pytest.mark.parametrize("index", ["i + j", "n - 1 - i - j", "j + n", "i + j + m", "n - i"])
@pytest.mark.parametrize(("n", "m"), [(LARGEST, LARGEST), (LARGEST, 2), (2**62 + 1, 2**62 + 1), (2**62, 2**63 - 9)])
def test_sums_that_wrap_around_are_out_of_range(index: str, n: int, m: int) -> None:
    _, kernel = guarded(kernel_of("for i in range(n):", "    for j in range(m):", f"        x[{index}] = 1.0"))
    native = compiled(kernel, np.zeros(3), np.zeros((3, 4)), 1, 1)
    assert outcome(native, 12, 1, n, m) is None


def test_three_loops_whose_sizes_wrap_around() -> None:
    lines = [
        "for i in range(n):",
        "    for j in range(n):",
        "        for k in range(m):",
        "            x[i + j + k] = 1.0",
    ]
    native = compiled(guarded(kernel_of(*lines))[1], np.zeros(3), np.zeros((3, 4)), 1, 1)
    for n, m in ((2**62, 2**62), (LARGEST, 3), (LARGEST, LARGEST), (2**62, 2**63 - 20)):
        assert outcome(native, 12, 1, n, m) is None
    assert outcome(native, 12, 1, 4, 5) is not None
    assert outcome(native, 12, 1, 4, 7) is None

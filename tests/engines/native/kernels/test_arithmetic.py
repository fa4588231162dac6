"""Arithmetic in kernels gives the values and types of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import check, compiled, translated, written
from wyrm.engines.native.kernels.values import NotCompiled

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
ODD = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1e30, -1e-30, np.inf, -np.inf, np.nan, 3.0, -7.0, 0.1]


def numbers(dtype: str) -> np.ndarray[Any, Any]:
    """Return numbers of a dtype, edge cases included."""
    if dtype in FLOATS:
        return np.array(ODD, dtype)
    info = np.iinfo(dtype)
    few = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 5, 7, 100]
    return np.array([*few, *([-1, -2, -3, -7, -100] if info.min < 0 else [])], dtype)


def pairs(dtype: str, other: str | None = None) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return all pairs of numbers as two arrays."""
    x, y = np.meshgrid(numbers(dtype), numbers(other or dtype))
    return x.ravel().copy(), y.ravel().copy()


def of_two(expression: str) -> Callable[..., Any]:
    """Return a kernel that writes an expression of x and y to each element of an array."""
    text = (
        f"def fill(a, b, out):\n    for i in range(a.size):\n        x, y = a[i], b[i]\n        out[i] = {expression}\n"
    )
    return written(text, "fill")


def check_of_two(expression: str, dtype: str, other: str | None = None, result: Any = None) -> None:
    """Compare a kernel with NumPy for all pairs of numbers."""
    x, y = pairs(dtype, other)
    if result is None:
        with np.errstate(all="ignore"):
            result = eval(expression, {"np": np, "x": x[:1], "y": y[:1]}).dtype
    check(of_two(expression), x, y, np.zeros(x.size, result))


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_integers(dtype: str) -> None:
    for expression in ("(x + y) ^ (x - y)", "x * y", "x // y", "x % y", "(x & y) | ~x", "x << (y & 7)", "x >> y", "-x"):
        check_of_two(expression, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype: str) -> None:
    for expression in (
        "x + y",
        "x * y - x",
        "x / y",
        "x // y",
        "x % y",
        "x ** 2",
        "np.maximum(x, y)",
        "np.minimum(x, y)",
    ):
        check_of_two(expression, dtype)


def test_remainders_of_floats_are_those_of_python() -> None:
    def both(x: float, y: float) -> tuple[float, float]:
        return x // y, x % y

    native = compiled(both, 1.0, 1.0)
    for x in (1.0, 0.7, -0.7, 5.5, -5.5, 1e17, 0.3, -0.0):
        for y in (0.1, -0.1, 2.0, -3.0, math.inf, 0.3):
            assert native(x, y) == both(x, y)
            assert math.copysign(1, native(x, y)[1]) == math.copysign(1, both(x, y)[1])


@pytest.mark.parametrize(
    ("dtype", "other"), [("int8", "uint8"), ("int32", "uint32"), ("int64", "uint64"), ("uint16", "int64")]
)
def test_signed_and_unsigned_integers(dtype: str, other: str) -> None:
    for first, second in ((dtype, other), (other, dtype)):
        for sign in ("<", "<=", ">", ">=", "==", "!="):
            check_of_two(f"x {sign} y", first, second)
        check_of_two("x + y", first, second)
        check_of_two("x * y", first, second)


def test_literals_take_the_type_of_what_they_meet() -> None:
    for dtype in ("int8", "int64", "uint16", "uint64", *FLOATS):
        for expression in ("x + 1", "2 * x", "x - True", "100 - x", "x / 2"):
            check_of_two(expression, dtype)
    for dtype in (*SIGNED, *FLOATS):
        check_of_two("1.5 * x", dtype)
    for dtype in ("int8", "uint8", "int64", "uint64"):  # literals out of the type's range
        for sign in ("<", "<=", ">", ">=", "==", "!="):
            check_of_two(f"x {sign} -1", dtype)
            check_of_two(f"300 {sign} x", dtype)
            check_of_two(f"x {sign} 0x8000000000000000", dtype)


@pytest.mark.parametrize(("dtype", "value"), [("uint8", "-1"), ("int8", "128"), ("uint64", "-1"), ("int64", "2 ** 63")])
def test_literals_out_of_range_are_refused(dtype: str, value: str) -> None:
    x = np.zeros(3, dtype)
    for text in (f"x[0] = {value}", f"x[0] = x[1] + {value}", f"x[:] = {value}", f"x[0] = np.{dtype}({value})"):
        with pytest.raises(NotCompiled, match=rf"does not fit {dtype}"):
            translated(written(f"def fill(x):\n    {text}\n", "fill"), x)


def test_shifts_by_many_bits() -> None:
    def fill(x: Any, by: Any, left: Any, right: Any, constant: Any) -> None:
        for i in range(x.size):
            for j in range(by.size):
                left[i, j] = x[i] << by[j]
                right[i, j] = x[i] >> by[j]
            constant[i] = (x[i] << 200) + (x[i] >> 200)

    for dtype in (*SIGNED, *UNSIGNED):
        x = numbers(dtype)
        by = np.array([0, 1, 7, 8, 31, 32, 63, 64, 100], dtype)
        wide, shape = by.astype(np.int64), (x.size, by.size)
        left, right = x[:, None] << by, x[:, None] >> by
        for count in (by, wide):
            ours = np.zeros(shape, dtype), np.zeros(shape, dtype), np.zeros(x.size, dtype)
            compiled(fill, x, count, *ours)(x, count, *ours)
            np.testing.assert_array_equal(ours[0], left)
            np.testing.assert_array_equal(ours[1], right)
            np.testing.assert_array_equal(ours[2], -(x < 0).astype(np.int8))


def test_floats_to_integers() -> None:
    def fill(x: Any, a: Any, b: Any, c: Any, d: Any) -> None:
        for i in range(x.size):
            a[i], b[i], c[i], d[i] = np.int8(x[i]), np.uint8(x[i]), np.int64(x[i]), np.uint32(x[i])

    x = np.array([1.5, -1.5, 100.9, -128.0, 0.0, 127.0])
    check(fill, x, np.zeros(6, np.int8), np.zeros(6, np.uint8), np.zeros(6, np.int64), np.zeros(6, np.uint32))
    odd = np.array([np.nan, np.inf, -np.inf, 1e300])  # converts to an unspecified integer, the same for every use
    same = np.zeros((2, 4), np.int64)

    def twice(x: Any, out: Any) -> None:
        for i in range(x.size):
            whole = int(x[i])
            out[0, i] = whole
            out[1, i] = whole

    compiled(twice, odd, same)(odd, same)
    np.testing.assert_array_equal(same[0], same[1])


def test_bools() -> None:
    def fill(x: Any, y: Any, out: Any, counts: Any) -> None:
        for i in range(x.size):
            out[0, i] = x[i] and y[i]
            out[1, i] = x[i] ^ y[i]
            out[2, i] = not x[i] or y[i]
            out[3, i] = ~x[i] | (y[i] == x[i])
            counts[0] += x[i]
            counts[1] += (x[i] > 0) * 3

    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    check(fill, x, y, np.zeros((4, 4), bool), np.zeros(2, np.int64))


def test_functions_of_floats() -> None:
    x = np.linspace(-3, 3, 25)
    for name in (
        "exp",
        "sin",
        "cos",
        "tanh",
        "sinh",
        "cosh",
        "arctan",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "sign",
        "abs",
    ):
        for dtype in FLOATS:
            text = f"def fill(x, out):\n    for i in range(x.size):\n        out[i] = np.{name}(x[i])\n"
            check(written(text, "fill"), x.astype(dtype), np.zeros(25, dtype), tolerance=1e-6)
    for name in ("log", "log2", "log10", "log1p", "sqrt", "exp2", "expm1"):
        text = f"def fill(x, out):\n    for i in range(x.size):\n        out[i] = np.{name}(abs(x[i]) + 0.25)\n"
        check(written(text, "fill"), x, np.zeros(25), tolerance=1e-12)
    for name in ("isnan", "isinf", "isfinite", "logical_not"):
        text = f"def fill(x, out):\n    for i in range(x.size):\n        out[i] = np.{name}(x[i])\n"
        check(written(text, "fill"), np.array(ODD), np.zeros(len(ODD), bool))


def test_functions_of_python() -> None:
    def several(a: int, b: int, x: float, y: float) -> tuple[Any, ...]:
        quotient, rest = divmod(a, b)
        return (
            quotient, rest, abs(a), abs(x), round(x), int(x), float(a), bool(a), max(a, b, 3), min((x, y, 0.5)),
            math.floor(x), math.ceil(x), math.sqrt(2.0) * y, math.pi, math.hypot(x, y), float("inf"), pow(x, 2),
            math.pow(2, 3), np.where(x > y, a, b), a ** 3, a ** 0,
        )  # fmt: skip

    for a, b, x, y in ((7, -3, 2.5, 0.1), (-7, 3, -0.5, 3.0), (-8, 4, 1.5, -2.0)):
        check(several, a, b, x, y, tolerance=1e-15)


def test_max_and_min_of_nan_are_those_of_python() -> None:
    def both(x: float, y: float) -> tuple[float, float]:
        return max(x, y), min(x, y)

    for x, y in ((math.nan, 1.0), (1.0, math.nan), (0.0, -0.0), (math.inf, 1.0)):
        check(both, x, y)


def test_constants() -> None:
    def constants(out: Any, small: Any) -> None:
        out[0], out[1], out[2], out[3] = 0.1, np.inf, -math.inf, np.nan
        out[4], out[5] = 2.0 / 3, -0.0
        small[0], small[1], small[2] = 0.1, 1e300, 1 / 3

    with np.errstate(over="ignore"):
        small = np.zeros(3, np.float32)
        out = np.zeros(6)
        compiled(constants, out, small)(out, small)
        np.testing.assert_array_equal(out, [0.1, np.inf, -np.inf, np.nan, 2 / 3, -0.0])
        assert math.copysign(1, out[5]) == -1
        np.testing.assert_array_equal(small, np.array([0.1, 1e300, 1 / 3]).astype(np.float32))


def test_views_of_bits() -> None:
    def fill(x: Any, bits: Any, back: Any) -> None:
        for i in range(x.size):
            bits[i] = x[i].view(np.uint32) ^ np.uint32(1)
            back[i] = (bits[i] ^ np.uint32(1)).view(np.float32).astype(np.float64)

    check(fill, np.array([1.5, -2.0], np.float32), np.zeros(2, np.uint32), np.zeros(2))


def test_dtypes_are_compared_by_what_they_mean() -> None:
    def which(x: Any) -> int:
        if x.dtype == np.float32:
            return 1
        if x[0].dtype == np.dtype("float64"):
            return 2
        if x.dtype != "int8" and x.dtype.kind == "i":
            return 3
        return 4

    for dtype, expected in (("float32", 1), ("float64", 2), ("int32", 3), ("int8", 4), ("uint8", 4)):
        assert check(which, np.zeros(1, dtype)) == expected


def test_no_overflow_makes_an_index_of_a_negative_number() -> None:
    """Indices known to be natural skip the check for negative values; a variable that loops multiply may overflow."""

    def hashed(x: Any, n: int) -> int:
        h = 5381
        total = 0
        for _ in range(n):
            h = h * 33 + 7
            total += x[h % 8]
        return total + h % 8

    x = np.arange(8)
    h, total = np.int64(5381), 0
    with np.errstate(over="ignore"):
        for _ in range(100):
            h = h * np.int64(33) + np.int64(7)
            total += x[h % 8]
    assert compiled(hashed, x, 1, checked=True)(x, 100) == total + h % 8

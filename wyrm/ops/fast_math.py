"""Exponentials of float32 numbers in plain arithmetic, which a compiler turns into vector instructions.

A loop that calls `math.exp` waits for one number after another; a loop that calls these works on eight or sixteen at
once. The largest errors, in units of the last place (ulp) of the exact result, were measured on every 101st float32
number. They are compiled so that sums keep the order that is written here. float64 has no such functions: `np.exp` and
`np.tanh` serve it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wyrm.types.typing import FloatArray

# Powers of e as powers of 2.
LOG2_E = math.log2(math.e)


def float32_exp_scaled(x: np.floating, whole: np.floating) -> np.floating:
    """`exp(x - whole * log(2))` of float32 numbers, for a rest of up to log(2) / 2; the polynomial errs by 3e-9."""
    # log(2) in two parts: the first has so few digits that its multiples are exact (Cody and Waite, 1980).
    rest = x - whole * np.float32(0.693359375)
    rest = rest + whole * np.float32(2.12194440e-4)
    result = np.float32(1.38143159e-3)
    result = result * rest + np.float32(8.36885162e-3)
    result = result * rest + np.float32(4.16684002e-2)
    result = result * rest + np.float32(1.66665196e-1)
    result = result * rest + np.float32(4.99999940e-1)
    return (result * rest) * rest + rest + np.float32(1.0)


def float32_exp_negative(x: np.floating) -> np.floating:
    """`exp(x)` of a float32 number of at most 0, within 1 ulp; below -87, where it is 1e-38, it stays so."""
    bounded = max(x, np.float32(-87.0))
    whole = np.floor(bounded * np.float32(1.44269502) + np.float32(0.5))
    # 2 ** whole is a float32 number with nothing but an exponent.
    return float32_exp_scaled(bounded, whole) * np.int32((np.int32(whole) + 127) << 23).view(np.float32)


def float32_exp(x: np.floating) -> np.floating:
    """`exp(x)` of any float32 number, within 1 ulp where the result is a normal number."""
    bounded = np.float32(-104.0) if x < np.float32(-104.0) else np.float32(89.0) if x > np.float32(89.0) else x
    whole = np.floor(bounded * np.float32(1.44269502) + np.float32(0.5))
    # One half of the exponent goes into the bits, the other is a factor: 2 ** 128 is no number, nor is 2 ** -150.
    half = np.int32(whole) >> 1
    scaled = np.int32(np.float32(float32_exp_scaled(bounded, whole)).view(np.int32) + (half << 23)).view(np.float32)
    scaled *= np.int32((np.int32(whole) - half + 127) << 23).view(np.float32)
    return scaled if x == x else x


def float32_exp2_negative(x: np.floating) -> np.floating:
    """`2 ** x` of a float32 number of at most 0, within 1 ulp; 0 below -125, and NaN of NaN."""
    whole = np.floor(x + np.float32(0.5))
    rest = x - whole
    result = np.float32(1.5353362e-4)
    result = result * rest + np.float32(1.3398874e-3)
    result = result * rest + np.float32(9.6184369e-3)
    result = result * rest + np.float32(5.5503324e-2)
    result = result * rest + np.float32(2.4022648e-1)
    result = result * rest + np.float32(6.9314718e-1)
    result = result * rest + np.float32(1.0)
    # To multiply by 2 ** whole is to add to the exponent.
    scaled = np.int32(np.float32(result).view(np.int32) + (np.int32(whole) << 23)).view(np.float32)
    return scaled if x >= np.float32(-125.0) else np.float32(0.0) if x < np.float32(-125.0) else x


def float32_sigmoid(x: np.floating) -> np.floating:
    """`1 / (1 + exp(-x))` of a float32 number, within 2.6 ulp above -87 and within 1e-38 below."""
    power = float32_exp_negative(-abs(x))
    upper = np.float32(1.0) / (np.float32(1.0) + power)
    return upper if x >= np.float32(0.0) else power * upper


def float32_tanh(x: np.floating) -> np.floating:
    """The hyperbolic tangent of a float32 number, within 1.5 ulp."""
    power = float32_exp_negative(np.float32(-2.0) * abs(x))
    size = (np.float32(1.0) - power) / (np.float32(1.0) + power)
    far = size if x >= np.float32(0.0) else -size
    # Near 0 the difference above cancels; x plus a polynomial in its square does not.
    square = x * x
    near = np.float32(-6.1131998e-3)
    near = near * square + np.float32(2.1010089e-2)
    near = near * square + np.float32(-5.3854072e-2)
    near = near * square + np.float32(1.3332795e-1)
    near = near * square + np.float32(-3.3333329e-1)
    near = near * square * x + x
    return near if square < np.float32(0.390625) else far


# --- for kernels of either precision: an engine that compiles picks by the type of the number -------------------------


def exp(x: np.floating) -> np.floating:
    """`exp(x)` of a number: of float32 within 1 ulp."""
    return float32_exp(x) if x.dtype == np.float32 else np.exp(x)


def exp2_negative(x: np.floating) -> np.floating:
    """`2 ** x` of a number of at most 0: of float32 within 1 ulp, and 0 below -125."""
    return float32_exp2_negative(x) if x.dtype == np.float32 else np.exp(x * math.log(2.0))


def tanh(x: np.floating) -> np.floating:
    """The hyperbolic tangent of a number: of float32 within 1.5 ulp."""
    return float32_tanh(x) if x.dtype == np.float32 else np.tanh(x)


def float64_sigmoid(x: np.floating) -> Any:
    """`1 / (1 + exp(-x))` of a float64 number, without an overflow."""
    power = np.exp(-abs(x))
    return (1.0 if x >= 0.0 else power) / (1.0 + power)


def sigmoid(x: np.floating) -> np.floating:
    """`1 / (1 + exp(-x))` of a number: of float32 within 2.6 ulp above -87 and within 1e-38 below."""
    return float32_sigmoid(x) if x.dtype == np.float32 else float64_sigmoid(x)


# --- the largest of numbers: a loop that compares integers is vectorised, whatever NaNs there are ---------------------


def float32_place(x: np.floating) -> np.signedinteger:
    """The place of a float32 number in the order of all, as an int32; that of a NaN is beyond infinity."""
    bits = np.float32(x if x == x else abs(x)).view(np.int32)
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


def float64_place(x: np.floating) -> np.signedinteger:
    """The place of a float64 number in the order of all, as an int64; that of a NaN is beyond infinity."""
    bits = np.float64(x if x == x else abs(x)).view(np.int64)
    return bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))


def place_of(x: np.floating) -> np.signedinteger:
    """The place of a number in the order of all, as an integer of its size; that of a NaN is beyond infinity."""
    return float32_place(x) if x.dtype == np.float32 else float64_place(x)


def at_place(place: np.signedinteger) -> np.floating:
    """The number at a place."""
    if place.dtype == np.int32:
        return np.int32(place ^ ((place >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
    return np.int64(place ^ ((place >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))).view(np.float64)


def largest(x: FloatArray) -> np.floating:
    """The largest of numbers that lie side by side, or a NaN among them; -inf of none."""
    top = place_of(x.dtype.type(-np.inf))
    for j in range(x.size):
        top = max(top, place_of(x[j]))
    return at_place(top)

"""Exponential functions and logarithms in plain arithmetic, which a compiler can vectorize.

A loop that calls `math.exp` is scalar; a loop that calls these functions computes eight or sixteen elements at once.
The error bounds, in units in the last place (ulp) of the exact result, were measured on every 101st float32 number,
and on a million float64 numbers. Compiled code keeps the order of operations written here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wyrm.graph.typing import FloatArray

# exp(x) = 2 ** (x * LOG2_E)
LOG2_E = math.log2(math.e)
# log(2) in two parts: the first has few digits, so its multiples are exact (Cody and Waite, 1980).
LOG_2_HIGH, LOG_2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10


def float32_exp_scaled(x: np.floating, whole: np.floating) -> np.floating:
    """Return `exp(x - whole * log(2))` for a difference of at most log(2) / 2; the error of the polynomial is 3e-9."""
    # log(2) in two parts: the first has few digits, so its multiples are exact (Cody and Waite, 1980).
    rest = x - whole * np.float32(0.693359375)
    rest = rest + whole * np.float32(2.12194440e-4)
    result = np.float32(1.38143159e-3)
    result = result * rest + np.float32(8.36885162e-3)
    result = result * rest + np.float32(4.16684002e-2)
    result = result * rest + np.float32(1.66665196e-1)
    result = result * rest + np.float32(4.99999940e-1)
    return (result * rest) * rest + rest + np.float32(1.0)


def float32_exp_negative(x: np.floating) -> np.floating:
    """Return `exp(x)` for float32 x <= 0, within 1 ulp; the result is 1e-38 for all x below -87."""
    bounded = max(x, np.float32(-87.0))
    whole = np.floor(bounded * np.float32(1.44269502) + np.float32(0.5))
    # 2 ** whole is built from its exponent bits.
    return float32_exp_scaled(bounded, whole) * np.int32((np.int32(whole) + 127) << 23).view(np.float32)


def float32_exp(x: np.floating) -> np.floating:
    """Return `exp(x)` for any float32 x, within 1 ulp where the result is a normal number."""
    bounded = np.float32(-104.0) if x < np.float32(-104.0) else np.float32(89.0) if x > np.float32(89.0) else x
    whole = np.floor(bounded * np.float32(1.44269502) + np.float32(0.5))
    # Half of the exponent is added to the bits, the other half multiplied: 2 ** 128 and 2 ** -150 are not float32.
    half = np.int32(whole) >> 1
    scaled = np.int32(np.float32(float32_exp_scaled(bounded, whole)).view(np.int32) + (half << 23)).view(np.float32)
    scaled *= np.int32((np.int32(whole) - half + 127) << 23).view(np.float32)
    return scaled if x == x else x


def float64_exp_negative(x: float) -> float:
    """Return `exp(x)` for float64 x in [-708, 0], within 1 ulp; loops over it become vector instructions."""
    whole = np.floor(x * LOG2_E + 0.5)
    rest = x - whole * LOG_2_HIGH
    rest = rest - whole * LOG_2_LOW
    result = 1.0 / 6227020800.0
    result = result * rest + 1.0 / 479001600.0
    result = result * rest + 1.0 / 39916800.0
    result = result * rest + 1.0 / 3628800.0
    result = result * rest + 1.0 / 362880.0
    result = result * rest + 1.0 / 40320.0
    result = result * rest + 1.0 / 5040.0
    result = result * rest + 1.0 / 720.0
    result = result * rest + 1.0 / 120.0
    result = result * rest + 1.0 / 24.0
    result = result * rest + 1.0 / 6.0
    result = result * rest + 0.5
    result = (result * rest) * rest + rest + 1.0
    return float(result * np.int64(np.int64(np.int32(whole) + 1023) << 52).view(np.float64))


def float32_exp2_negative(x: np.floating) -> np.floating:
    """Return `2 ** x` for float32 x <= 0, within 1 ulp above -125, 0 below -126.5, and NaN for NaN."""
    bounded = np.float32(-127.0) if x < np.float32(-127.0) else x
    # A sum of this size has no digits after the point, and its last bits are those of the nearest integer.
    shifted = bounded + np.float32(12582912.0)
    rest = bounded - (shifted - np.float32(12582912.0))
    result = np.float32(1.5353362e-4)
    result = result * rest + np.float32(1.3398874e-3)
    result = result * rest + np.float32(9.6184369e-3)
    result = result * rest + np.float32(5.5503324e-2)
    result = result * rest + np.float32(2.4022648e-1)
    result = result * rest + np.float32(6.9314718e-1)
    result = result * rest + np.float32(1.0)
    # The exponent bits of 2 ** -127 are those of 0.
    return result * np.int32((np.float32(shifted).view(np.int32) << 23) + 0x3F800000).view(np.float32)


def float32_sigmoid(x: np.floating) -> np.floating:
    """Return `1 / (1 + exp(-x))` for float32 x, within 2.6 ulp above -87 and within 1e-38 below."""
    power = float32_exp_negative(-abs(x))
    upper = np.float32(1.0) / (np.float32(1.0) + power)
    return upper if x >= np.float32(0.0) else power * upper


def float32_tanh(x: np.floating) -> np.floating:
    """Return the hyperbolic tangent of float32 x, within 1.5 ulp."""
    power = float32_exp_negative(np.float32(-2.0) * abs(x))
    size = (np.float32(1.0) - power) / (np.float32(1.0) + power)
    far = size if x >= np.float32(0.0) else -size
    # Near 0 the difference above cancels, so x plus a polynomial in its square replaces it.
    square = x * x
    near = np.float32(-6.1131998e-3)
    near = near * square + np.float32(2.1010089e-2)
    near = near * square + np.float32(-5.3854072e-2)
    near = near * square + np.float32(1.3332795e-1)
    near = near * square + np.float32(-3.3333329e-1)
    near = near * square * x + x
    return near if square < np.float32(0.390625) else far


def _float32_log_near_one(f: np.floating) -> np.floating:
    """Return `log(1 + f)` for f from -1/4 to 1/2; the error of the polynomial is 5e-9 of the result."""
    result = np.float32(-4.49096076e-2)
    result = result * f + np.float32(1.04483344e-1)
    result = result * f + np.float32(-1.31622359e-1)
    result = result * f + np.float32(1.44820616e-1)
    result = result * f + np.float32(-1.66477665e-1)
    result = result * f + np.float32(1.99906066e-1)
    result = result * f + np.float32(-2.50000536e-1)
    result = result * f + np.float32(3.33334535e-1)
    result = result * f + np.float32(-0.5)
    return result * (f * f) + f


# The bits of a float32 are a sign, an exponent of 8 bits and a mantissa of 23. With the bits of 3/4 subtracted and the
# mantissa masked out, those of x are k * 2**23, where x / 2**k is at least 3/4 and below 3/2.
_BITS_OF_THREE_QUARTERS, _EXPONENT_MASK, _BITS_OF_FOUR = 0x3F400000, -0x800000, 0x40800000
# log(2) / 2**23: the factor that turns k * 2**23 into k * log(2).
_LOG_2_OF_EXPONENT = np.float32(math.log(2.0) / 2**23)


def float32_log1p(x: np.floating) -> np.floating:
    """Return `log(1 + x)` for float32 x, within 1.1 ulp."""
    # 1 + x = 2**k (1 + f), where f is computed from x: 1 + x has lost digits of a small x.
    power = np.int32((np.float32(np.float32(1.0) + x).view(np.int32) - _BITS_OF_THREE_QUARTERS) & _EXPONENT_MASK)
    scaled = np.int32(np.float32(x).view(np.int32) - power).view(np.float32)
    rest = np.int32(_BITS_OF_FOUR - power).view(np.float32) * np.float32(0.25) - np.float32(1.0)
    result = np.float32(power) * _LOG_2_OF_EXPONENT + _float32_log_near_one(scaled + rest)
    outside = np.float32(-np.inf) if x == np.float32(-1.0) else np.float32(np.nan)
    inside = result if x > np.float32(-1.0) else outside
    return x if x == np.float32(0.0) or x == np.float32(np.inf) else inside


def float32_log(x: np.floating) -> np.floating:
    """Return the natural logarithm of float32 x, within 1.1 ulp."""
    bits = np.float32(x).view(np.int32)
    # The bits of a number below the normal ones are its multiple of 2 ** -149.
    small = x < np.float32(1.17549435e-38)
    bits = np.float32(bits).view(np.int32) if small else bits
    power = np.int32((bits - _BITS_OF_THREE_QUARTERS) & _EXPONENT_MASK)
    near = np.int32(bits - power).view(np.float32) - np.float32(1.0)
    power = np.int32(power - (149 << 23)) if small else power
    result = np.float32(power) * _LOG_2_OF_EXPONENT + _float32_log_near_one(near)
    outside = np.float32(-np.inf) if x == np.float32(0.0) else np.float32(np.nan)
    inside = result if x > np.float32(0.0) else outside
    return x if x == np.float32(np.inf) else inside


# --- float64 ----------------------------------------------------------------------------------------------------------

# A sum with it has no digits after the point, and its last bits are those of the nearest integer.
_SHIFT = 1.5 * 2**52


def _float64_reduced(x: Any) -> Any:
    """Return an integer and a rest of at most log(2) / 2 in size; x is the integer times log(2) plus the rest."""
    shifted = x * LOG2_E + _SHIFT
    whole = shifted - _SHIFT
    rest = x - whole * LOG_2_HIGH
    rest = rest - whole * LOG_2_LOW
    return (np.float64(shifted).view(np.int64) << 12) >> 12, rest


def _float64_expm1_near_zero(x: Any) -> Any:
    """Return `exp(x) - 1` for float64 x of at most log(2) / 2 in size, within 1 ulp."""
    square = x * x
    fourth = square * square
    # The polynomial nearest to (exp(x) - 1 - x) / x**2, in parts that do not wait for each other (Estrin).
    first = (0.5000000000000001 + x * 0.16666666666666669) + square * (0.04166666666662413 + x * 0.008333333333330062)
    second = (0.0013888888917213717 + x * 0.00019841269863053618) + square * (
        2.4801521295954376e-05 + x * 2.7557268459997064e-06
    )
    third = 2.7620088445409746e-07 + x * 2.510038549551032e-08
    return (first + fourth * (second + fourth * third)) * square + x


def float64_exp(x: float) -> float:
    """Return `exp(x)` for any float64 x, within 1.1 ulp where the result is a normal number.

    >>> float64_exp(0.0), float64_exp(-800.0)
    (1.0, 0.0)
    """
    bounded = -746.0 if x < -746.0 else 710.0 if x > 710.0 else x
    power, rest = _float64_reduced(bounded)
    result = _float64_expm1_near_zero(rest) + 1.0
    # 2 ** power as a product of two: 2 ** 1024 and 2 ** -1076 are not float64. They are built from their bits.
    half = power >> 1
    scaled = result * np.int64((half + 1023) << 52).view(np.float64)
    return float(scaled * np.int64((power - half + 1023) << 52).view(np.float64))


def float64_tanh(x: np.floating) -> Any:
    """Return the hyperbolic tangent of float64 x, within 2.7 ulp."""
    size = abs(x)
    bounded = -50.0 if size > 25.0 else -2.0 * size
    power, rest = _float64_reduced(bounded)
    scale = np.int64((power + 1023) << 52).view(np.float64)
    # exp(-2 |x|) - 1, which has all digits of a small x.
    less = scale * _float64_expm1_near_zero(rest) + (scale - 1.0)
    quotient = less / (2.0 + less)
    result = -quotient if x > 0.0 else quotient
    return x if x == 0.0 else result


# The bits of a float64 are a sign, an exponent of 11 bits and a mantissa of 52. With the bits of sqrt(1/2) subtracted
# and the mantissa masked out, those of x are k * 2**52, where x / 2**k is from sqrt(1/2) to sqrt(2).
_BITS_OF_ROOT, _WIDE_EXPONENT_MASK, _WIDE_BITS_OF_FOUR = 0x3FE6A09E667F3BCD, -0x10000000000000, 0x4010000000000000
_BITS_OF_2_TO_52 = 0x4330000000000000
# Coefficients of the logarithm of FreeBSD's C library.
LOGARITHM = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
    1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip


def _float64_log_of(power: np.floating, f: np.floating) -> Any:
    """Return `power * log(2) + log(1 + f)` for 1 + f from sqrt(1/2) to sqrt(2)."""
    c = LOGARITHM
    s = f / (2.0 + f)
    square = s * s
    fourth = square * square
    even = fourth * (c[1] + fourth * (c[3] + fourth * c[5]))
    odd = square * (c[0] + fourth * (c[2] + fourth * (c[4] + fourth * c[6])))
    half = 0.5 * f * f
    return power * LOG_2_HIGH - ((half - (s * (half + (even + odd)) + power * LOG_2_LOW)) - f)


def float64_log(x: np.floating) -> Any:
    """Return the natural logarithm of float64 x, within 1 ulp."""
    bits = np.float64(x).view(np.int64)
    # The bits of a number below the normal ones are its multiple of 2 ** -1074; with those of 2 ** 52 they are a float.
    small = bits < 0x10000000000000
    whole = np.int64(bits | _BITS_OF_2_TO_52).view(np.float64) - 4503599627370496.0
    bits = np.float64(whole).view(np.int64) if small else bits
    power = np.int64((bits - _BITS_OF_ROOT) & _WIDE_EXPONENT_MASK)
    near = np.int64(bits - power).view(np.float64) - 1.0
    exponent = np.float64(np.int32(power >> 52))
    result = _float64_log_of(exponent - 1074.0 if small else exponent, near)
    outside = -np.inf if x == 0.0 else np.nan
    inside = result if x > 0.0 else outside
    return x if x == np.inf else inside


def float64_log1p(x: np.floating) -> Any:
    """Return `log(1 + x)` for float64 x, within 1.4 ulp."""
    # 1 + x = 2**k (1 + f), where f is computed from x: 1 + x has lost digits of a small x.
    power = np.int64((np.float64(1.0 + x).view(np.int64) - _BITS_OF_ROOT) & _WIDE_EXPONENT_MASK)
    scaled = np.int64(np.float64(x).view(np.int64) - power).view(np.float64)
    rest = np.int64(_WIDE_BITS_OF_FOUR - power).view(np.float64) * 0.25 - 1.0
    result = _float64_log_of(np.float64(np.int32(power >> 52)), scaled + rest)
    outside = -np.inf if x == -1.0 else np.nan
    inside = result if x > -1.0 else outside
    return x if x == 0.0 or x == np.inf else inside


# --- for both precisions: the compiler selects the branch by the dtype of the argument --------------------------------


def exp(x: np.floating) -> np.floating:
    """Return `exp(x)`, for float32 within 1 ulp."""
    return float32_exp(x) if x.dtype == np.float32 else np.exp(x)


def exp2_negative(x: np.floating) -> np.floating:
    """Return `2 ** x` for x <= 0, for float32 within 1 ulp above -125."""
    return float32_exp2_negative(x) if x.dtype == np.float32 else np.exp(x * math.log(2.0))


def tanh(x: np.floating) -> np.floating:
    """Return the hyperbolic tangent, for float32 within 1.5 ulp, for float64 within 2.7."""
    return float32_tanh(x) if x.dtype == np.float32 else float64_tanh(x)


def float64_sigmoid(x: np.floating) -> Any:
    """Return `1 / (1 + exp(-x))` for float64 x, without overflow."""
    power = np.exp(-abs(x))
    return (1.0 if x >= 0.0 else power) / (1.0 + power)


def sigmoid(x: np.floating) -> np.floating:
    """Return `1 / (1 + exp(-x))`, for float32 within 2.6 ulp above -87 and within 1e-38 below."""
    return float32_sigmoid(x) if x.dtype == np.float32 else float64_sigmoid(x)


# --- maxima: comparisons of integers vectorize, comparisons of floats that may be NaN do not --------------------------

# The ordered integer of a float is an integer of the same size that compares like the float.


def float32_ordered_integer(x: np.floating) -> np.signedinteger:
    """Return the ordered integer of a float32 number, an int32; NaN is above infinity."""
    bits = np.float32(x if x == x else abs(x)).view(np.int32)
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


def float64_ordered_integer(x: np.floating) -> np.signedinteger:
    """Return the ordered integer of a float64 number, an int64; NaN is above infinity."""
    bits = np.float64(x if x == x else abs(x)).view(np.int64)
    return bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))


def ordered_integer(x: np.floating) -> np.signedinteger:
    """Return an integer of the same size that compares like the number; NaN is above infinity."""
    return float32_ordered_integer(x) if x.dtype == np.float32 else float64_ordered_integer(x)


def from_ordered_integer(integer: np.signedinteger) -> np.floating:
    """Return the number of an ordered integer: the inverse of `ordered_integer`."""
    if integer.dtype == np.int32:
        return np.int32(integer ^ ((integer >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
    return np.int64(integer ^ ((integer >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))).view(np.float64)


def largest(x: FloatArray) -> np.floating:
    """Return the maximum of a contiguous array, NaN if it contains one, -inf if it is empty."""
    maximum = ordered_integer(x.dtype.type(-np.inf))
    for j in range(x.size):
        maximum = max(maximum, ordered_integer(x[j]))
    return from_ordered_integer(maximum)

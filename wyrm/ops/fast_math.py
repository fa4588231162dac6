"""Exponentials of float32 numbers in plain arithmetic, which a compiler turns into vector instructions.

A loop that calls `math.exp` waits for one number after another; a loop that calls these works on eight or sixteen at
once. The largest errors, in units of the last place (ulp) of the exact result, were measured on every 101st float32
number, compiled so that sums may be reordered. float64 has no such functions: `np.exp` and `np.tanh` serve it.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def float32_power_of_two(rest: Any) -> Any:
    """`2 ** rest` for a float32 number from -1/2 to 1/2; the polynomial's own error is 2e-8."""
    result = np.float32(1.53535962e-4)
    result = result * rest + np.float32(1.33988517e-3)
    result = result * rest + np.float32(9.61843599e-3)
    result = result * rest + np.float32(5.55033237e-2)
    result = result * rest + np.float32(2.40226477e-1)
    result = result * rest + np.float32(6.93147182e-1)
    return result * rest + np.float32(1.0)


def float32_exp_negative(x: Any) -> Any:
    """`exp(x)` of a float32 number of at most 0, within 1.1 ulp; below -87, where it is 1e-38, it stays so."""
    # In float64 the multiple of log(2) leaves an exact remainder, in whatever order a compiler adds.
    powers = max(np.float64(x), np.float64(-87.0)) * np.float64(1.4426950408889634)
    whole = np.floor(powers + np.float64(0.5))
    result = float32_power_of_two(np.float32(powers - whole))
    # 2 ** whole is a float32 number with nothing but an exponent.
    return result * np.int32((np.int32(whole) + 127) << 23).view(np.float32)


def float32_exp(x: Any) -> Any:
    """`exp(x)` of any float32 number, within 1.2 ulp where the result is a normal number."""
    bounded = np.float32(-104.0) if x < np.float32(-104.0) else np.float32(89.0) if x > np.float32(89.0) else x
    powers = np.float64(bounded) * np.float64(1.4426950408889634)
    whole = np.floor(powers + np.float64(0.5))
    result = float32_power_of_two(np.float32(powers - whole))
    # One half of the exponent goes into the bits, the other is a factor: 2 ** 128 is no number, nor is 2 ** -150.
    half = np.int32(whole) >> 1
    scaled = np.int32(np.float32(result).view(np.int32) + (half << 23)).view(np.float32)
    scaled *= np.int32((np.int32(whole) - half + 127) << 23).view(np.float32)
    return scaled if x == x else x


def float32_sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))` of a float32 number, within 2.6 ulp above -87 and within 1e-38 below."""
    power = float32_exp_negative(-abs(x))
    upper = np.float32(1.0) / (np.float32(1.0) + power)
    return upper if x >= np.float32(0.0) else power * upper


def float32_tanh(x: Any) -> Any:
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

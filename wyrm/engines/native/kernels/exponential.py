"""The exponential of float64 in plain arithmetic: part of the loop that calls it, and vectors of it where loops have.

A call of the C library's takes longer, and what registers hold goes to memory around it.
"""

from __future__ import annotations

import math

import numpy as np

from wyrm.engines.native.kernels.functions import KernelFunction

_LOG2_E = math.log2(math.e)
# A sum with it has no digits after the point, and its last bits are those of the nearest integer.
_SHIFT = 1.5 * 2**52


def float64_exp(x: float) -> float:
    """Return `exp(x)` for any float64 x, within 1.1 ulp where the result is a normal number.

    >>> float64_exp(0.0), float64_exp(-800.0)
    (1.0, 0.0)
    """
    bounded = -746.0 if x < -746.0 else 710.0 if x > 710.0 else x
    shifted = bounded * _LOG2_E + _SHIFT
    whole = shifted - _SHIFT
    # log(2) in two parts: the first has few digits, so its multiples are exact (Cody and Waite, 1980).
    rest = bounded - whole * 0.693147180369123816490
    rest = rest - whole * 1.90821492927058770002e-10
    square = rest * rest
    fourth = square * square
    # The polynomial nearest to (exp(rest) - 1 - rest) / rest**2, in parts that do not wait for each other (Estrin).
    first = (0.5000000000000001 + rest * 0.16666666666666669) + square * (
        0.04166666666662413 + rest * 0.008333333333330062
    )
    second = (0.0013888888917213717 + rest * 0.00019841269863053618) + square * (
        2.4801521295954376e-05 + rest * 2.7557268459997064e-06
    )
    third = 2.7620088445409746e-07 + rest * 2.510038549551032e-08
    result = ((first + fourth * (second + fourth * third)) * square + rest) + 1.0
    # 2 ** whole as a product of two powers: 2 ** 1024 and 2 ** -1076 are not float64. They are built from their bits.
    power = (np.float64(shifted).view(np.int64) << 12) >> 12
    half = power >> 1
    scaled = result * np.int64((half + 1023) << 52).view(np.float64)
    return float(scaled * np.int64((power - half + 1023) << 52).view(np.float64))


EXP = KernelFunction(float64_exp, inlined=True, fused=True)

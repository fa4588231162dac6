"""Random numbers of standard distributions as functions of a key and a position.

Each function uses only integer arithmetic and `+ - * /` and `sqrt` of floats, which IEEE 754 rounds exactly, and has no
branch. It takes scalars, in compiled loops, or arrays, in the reference engine, and both engines give the same bits.
`like` is any number of the dtype of the result. The float32 results take 32 random bits, the float64 results 64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.ops.elementwise.fast_math import LOG_2_HIGH, LOG_2_LOW, LOGARITHM
from wyrm.ops.kernels.sums import of_xla

# --- random words -----------------------------------------------------------------------------------------------------


def position_words(position: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Return two random 32-bit words for a position below 2**32 and the key (first, second).

    This is Philox2x32-10 (Salmon et al., 2011) with the counter (position, second) and the key `first`.

    >>> [hex(word) for word in position_words(0, 0, 0)]
    ['0xff1dae59', '0x6cd10df2']
    """
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b, key = np.uint64(position), np.uint64(second), np.uint64(first)
    for _ in range(10):
        product = a * np.uint64(0xD256D193)
        a, b = (product >> half) ^ key ^ b, product & low
        key = (key + np.uint64(0x9E3779B9)) & low
    return np.uint32(a), np.uint32(b)


def tail_of(position: Any, first: Any, second: Any, like: Any) -> tuple[Any, Any]:
    """Return whether a point lies in the upper half of a distribution, and the probability beyond it, in (0, 1/2].

    A small probability has as many digits as any other, so both tails of a distribution are as exact as its center.
    """
    a, b = position_words(position, first, second)
    tail: Any
    if like.dtype == np.float32:
        tail = (np.float32(np.int32(a & np.uint32(0x7FFFFFFF))) + 0.5) * 2.0**-32
    else:
        tail = (np.float64((np.int64(a & np.uint32(0x7FFFFFFF)) << 32) | np.int64(b)) + 0.5) * 2.0**-64
    return a >= np.uint32(0x80000000), tail


def uniform_at(position: Any, first: Any, second: Any, like: Any) -> Any:
    """Return a uniform number in [0, 1): a multiple of 2**-24 in float32, of 2**-53 in float64."""
    a, b = position_words(position, first, second)
    number: Any
    if like.dtype == np.float32:
        number = np.float32(np.int32(a >> np.uint32(8))) * 2.0**-24
    else:
        number = np.float64((np.int64(a >> np.uint32(5)) << 26) | np.int64(b >> np.uint32(6))) * 2.0**-53
    return number


def integer_at(position: Any, first: Any, second: Any, low: int, size: Any) -> Any:
    """Return an integer in [low, low + size), for a size up to 2**32; each has probability 1 / size within 2**-64."""
    a, b = position_words(position, first, second)
    wide, half = np.uint64(size), np.uint64(32)
    return np.int64((np.uint64(a) * wide + (np.uint64(b) * wide >> half)) >> half) + np.int64(low)


# --- logarithms -------------------------------------------------------------------------------------------------------

# Coefficients of the logarithm of FreeBSD's C library, of `logf`.
_LOG32 = tuple(map(np.float32, (0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841)))


def _logarithm(excess: Any, exponent: Any) -> Any:
    """Return `log((1 + excess) * 2**exponent)` within 1 ulp; `1 + excess` lies between sqrt(1/2) and sqrt(2)."""
    half = 0.5 * excess * excess
    ratio = excess / (2.0 + excess)
    z = ratio * ratio
    if excess.dtype == np.float32:
        c = _LOG32
        series = z * (c[0] + z * (c[1] + z * (c[2] + z * c[3])))
        return (
            ratio * (half + series) + exponent * np.float32(9.0580006145e-06) - half + excess
        ) + exponent * np.float32(6.9313812256e-01)
    d = LOGARITHM
    series = z * (d[0] + z * (d[1] + z * (d[2] + z * (d[3] + z * (d[4] + z * (d[5] + z * d[6]))))))
    return (ratio * (half + series) + exponent * LOG_2_LOW - half + excess) + exponent * LOG_2_HIGH


@of_xla
def log(x: Any) -> Any:
    """Return the natural logarithm of a positive normal number, within 1 ulp."""
    bits: Any
    exponent: Any
    mantissa: Any
    # The offsets move the range of a mantissa from [1, 2) to [sqrt(1/2), sqrt(2)).
    if x.dtype == np.float32:
        bits = np.int32(x.view(np.int32) + np.int32(0x3F800000 - 0x3F3504F3))
        exponent = np.float32((bits >> np.int32(23)) - np.int32(127))
        mantissa = np.int32((bits & np.int32(0x007FFFFF)) + np.int32(0x3F3504F3)).view(np.float32)
    else:
        bits = np.int64(x.view(np.int64) + np.int64((0x3FF00000 - 0x3FE6A09E) << 32))
        exponent = np.float64((bits >> np.int64(52)) - np.int64(1023))
        mantissa = np.int64((bits & np.int64(2**52 - 1)) + np.int64(0x3FE6A09E << 32)).view(np.float64)
    return _logarithm(mantissa - 1.0, exponent)


def log_of_rest(tail: Any) -> Any:
    """Return `log(1 - tail)` for a tail in (0, 1/2], within 1 ulp."""
    near = tail < 0.29
    zero = tail * 0.0
    return _logarithm(np.where(near, -tail, 1.0 - 2.0 * tail), np.where(near, zero, zero - 1.0))


# --- distributions ----------------------------------------------------------------------------------------------------


def exponential_at(position: Any, first: Any, second: Any, like: Any) -> Any:
    """Return a positive number of the exponential distribution of mean 1."""
    upper, tail = tail_of(position, first, second, like)
    return -np.where(upper, log(tail), log_of_rest(tail))


def gumbel_at(position: Any, first: Any, second: Any, like: Any) -> Any:
    """Return a number of the standard Gumbel distribution; it is finite."""
    return -log(exponential_at(position, first, second, like))


def laplace_at(position: Any, first: Any, second: Any, like: Any) -> Any:
    """Return a number of the Laplace distribution of mean 0 and scale 1."""
    upper, tail = tail_of(position, first, second, like)
    size = -log(2.0 * tail)
    return np.where(upper, size, -size)


def normal_at(position: Any, first: Any, second: Any, like: Any) -> Any:
    """Return a number of the standard normal distribution, by its inverse distribution function."""
    upper, tail = tail_of(position, first, second, like)
    size = _normal_quantile32(tail) if like.dtype == np.float32 else _normal_quantile64(tail)
    return np.where(upper, size, -size)


# Wichura, "Algorithm AS241: The percentage points of the normal distribution" (1988), first PPND7, then PPND16:
# numerator and denominator of the center and of the tail, the highest power first.
_CENTER32 = tuple(map(np.float32, (59.109374720, 159.29113202, 50.434271938, 3.3871327179)))
_UNDER_CENTER32 = tuple(map(np.float32, (67.187563600, 78.757757664, 17.895169469, 1.0)))
_TAIL32 = tuple(map(np.float32, (0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777)))
_UNDER_TAIL32 = tuple(map(np.float32, (0.0, 0.12021132975, 0.73700164250, 1.0)))


def _polynomial4(x: Any, c: Any) -> Any:
    return ((c[0] * x + c[1]) * x + c[2]) * x + c[3]


def _normal_quantile32(tail: Any) -> Any:
    """Return the number that a standard normal variable exceeds with probability `tail`, within 4e-7 of it."""
    center = 0.5 - tail
    near = center <= 0.425
    r, s = 0.180625 - center * center, np.sqrt(-log(tail)) - 1.6
    over = np.where(near, _polynomial4(r, _CENTER32) * center, _polynomial4(s, _TAIL32))
    return over / np.where(near, _polynomial4(r, _UNDER_CENTER32), _polynomial4(s, _UNDER_TAIL32))


_CENTER64 = (
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
    1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080,
)  # fmt: skip
_UNDER_CENTER64 = (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
)  # fmt: skip
_TAIL64 = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
    3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734,
)  # fmt: skip
_UNDER_TAIL64 = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0,
)  # fmt: skip
_FAR64 = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
    2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720,
)  # fmt: skip
_UNDER_FAR64 = (
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
)  # fmt: skip


def _polynomial8(x: Any, c: Any) -> Any:
    return ((((((c[0] * x + c[1]) * x + c[2]) * x + c[3]) * x + c[4]) * x + c[5]) * x + c[6]) * x + c[7]


def _normal_quantile64(tail: Any) -> Any:
    """Return the number that a standard normal variable exceeds with probability `tail`, within 1e-15 of it."""
    center = 0.5 - tail
    r = 0.180625 - center * center
    near = center <= 0.425
    root = np.sqrt(-log(tail))
    s, t, far = root - 1.6, root - 5.0, root > 5.0
    over = np.where(far, _polynomial8(t, _FAR64), _polynomial8(s, _TAIL64))
    under = np.where(far, _polynomial8(t, _UNDER_FAR64), _polynomial8(s, _UNDER_TAIL64))
    over = np.where(near, _polynomial8(r, _CENTER64) * center, over)
    return over / np.where(near, _polynomial8(r, _UNDER_CENTER64), under)


__all__ = [
    "exponential_at",
    "gumbel_at",
    "integer_at",
    "laplace_at",
    "log",
    "log_of_rest",
    "normal_at",
    "position_words",
    "tail_of",
    "uniform_at",
]

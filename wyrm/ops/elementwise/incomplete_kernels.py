"""The incomplete gamma functions of two numbers, for generated code; see `special_kernels`.

Relative errors, measured against mpmath, are below 3e-13 for values from 1e-290 to 1, and below 2e-14 above 1e-20.
SciPy's grow for parameters above a million, to a tenth of the value at ten million.
"""

from __future__ import annotations

import math

import numpy as np

from wyrm.ops.elementwise.special_kernels import Scalar, stirling_error, zeta_above

# From this parameter on, the expansion of Temme replaces sums of as many terms as its root.
_UNIFORM = 1e4


def log1p_less_argument(u: Scalar) -> Scalar:
    """Return `log1p(u) - u`, for u above -1."""
    if abs(u) > 0.4:
        return np.log1p(u) - u
    # With r = u / (2 + u): log1p(u) = 2 (r + r^3 / 3 + r^5 / 5 + ...), and u - 2 r = u r.
    r = u / (2.0 + u)
    square, power, total, k = r * r, r * r * r, r * 0.0, 3.0
    while abs(power) > 1e-18 * abs(total):
        total += power / k
        power *= square
        k += 2.0
    return 2.0 * total - u * r


def gamma_density(a: Scalar, x: Scalar) -> Scalar:
    """Return `x ** a * exp(-x) / gamma(a)`, for a and x above 0."""
    if a < 10.0:
        return x**a * np.exp(-x) * a / math.gamma(a + 1.0) if x < 800.0 else np.float64(0.0)
    u = (x - a) / a
    exponent = a * (log1p_less_argument(u) if abs(u) < 0.4 else np.log(x / a) - u)
    return np.sqrt(a / (2.0 * math.pi)) * np.exp(exponent - stirling_error(a))


def lower_series(a: Scalar, x: Scalar) -> Scalar:
    """Return the lower incomplete gamma function by its power series (DLMF 8.11.4)."""
    term: Scalar = 1.0
    total: Scalar = 1.0
    n = a + 1.0
    while term > 1e-17 * total:
        term *= x / n
        total += term
        n += 1.0
    return gamma_density(a, x) / a * total


def upper_fraction(a: Scalar, x: Scalar) -> Scalar:
    """Return the upper incomplete gamma function by Lentz' method for its continued fraction (DLMF 8.9.2)."""
    b = x + 1.0 - a
    c, d = np.float64(1e300), 1.0 / b
    found, change, n = d, np.float64(0.0), 1.0
    while abs(change - 1.0) > 1e-16 and n < 1e6:
        numerator = n * (a - n)
        b += 2.0
        d = 1.0 / (numerator * d + b)
        c = b + numerator / c
        change = c * d
        found *= change
        n += 1.0
    return gamma_density(a, x) * found


def gammaln_of_one_plus(a: Scalar) -> Scalar:
    """Return `gammaln(1 + a)` for a from 0 to 1.1, also relative to a (DLMF 5.7.3)."""
    if a > 0.5:
        return math.lgamma(1.0 + a)
    total, power, n = a * (1.0 - 0.57721566490153286061), a * a, 2.0
    while abs(power) > 1e-18 * a:
        total += power * zeta_above(n, 2.0) / n
        power *= -a
        n += 1.0
    return total - np.log1p(a)


def upper_series(a: Scalar, x: Scalar) -> Scalar:
    """Return the upper incomplete gamma function for small a and x, without the cancellation of `1 - lower`."""
    term: Scalar = 1.0
    total: Scalar = 0.0
    n = 1.0
    while n < 3.0 or abs(term) > 1e-17 * abs(total):
        term *= -x / n
        total += term / (a + n)
        n += 1.0
    exponent = a * np.log(x) - gammaln_of_one_plus(a)
    return -np.expm1(exponent) - a * np.exp(exponent) * total


def uniform_eta(a: Scalar, x: Scalar) -> Scalar:
    """Return Temme's variable eta (DLMF 8.12.1)."""
    u = (x - a) / a
    return np.copysign(np.sqrt(-2.0 * log1p_less_argument(u)), u)


def uniform_rest(a: Scalar, eta: Scalar) -> Scalar:
    """Return the rest of Temme's expansion for large a (DLMF 8.12.7), for eta below 0.5."""
    first: Scalar = -5.0276692801141756e-12
    first = (first * eta + 2.4361948020667416e-11) * eta - 5.8307721325504251e-11
    first = (first * eta - 2.551419399494625e-11) * eta + 9.1476995822367902e-10
    first = (first * eta - 4.3820360184533532e-9) * eta + 1.0261809784240308e-8
    first = (first * eta + 6.7078535434014986e-9) * eta - 1.7665952736826079e-7
    first = (first * eta + 8.296711340953086e-7) * eta - 1.85406221071516e-6
    first = (first * eta - 2.1854485106799922e-6) * eta + 3.9192631785224378e-5
    first = (first * eta - 0.00017875514403292181) * eta + 0.0003527336860670194
    first = (first * eta + 0.0011574074074074074) * eta - 0.014814814814814815
    first = (first * eta + 0.083333333333333333) * eta - 0.33333333333333333
    second: Scalar = 1.1951628599778147e-8
    second = (second * eta - 5.752545603517705e-8) * eta + 1.378633446915721e-7
    second = (second * eta + 4.6471278028074343e-9) * eta - 1.6120900894563446e-6
    second = (second * eta + 7.6491609160811101e-6) * eta - 1.8098550334489978e-5
    second = (second * eta - 4.0187757201646091e-7) * eta + 0.00020576131687242798
    second = (second * eta - 0.00099022633744855967) * eta + 0.0026455026455026455
    second = (second * eta - 0.0034722222222222222) * eta - 0.0018518518518518519
    third: Scalar = -1.2760635188618728e-5
    third = (third * eta + 5.2923448829120125e-5) * eta - 0.00010736653226365161
    third = (third * eta + 2.0093878600823045e-6) * eta + 0.00077160493827160494
    third = (third * eta - 0.0026813271604938272) * eta + 0.0041335978835978836
    fourth = (0.00026772062206283885 - 7.5618016718839764e-5 * eta) * eta - 0.00046918949439525571
    fourth = (fourth * eta + 0.00022947209362139918) * eta + 0.00064943415637860082
    sum_of_orders = ((fourth / a + third) / a + second) / a + first
    return np.exp(-0.5 * a * eta * eta) / np.sqrt(2.0 * math.pi * a) * sum_of_orders


def incomplete_gamma(a: Scalar, x: Scalar, upper: bool) -> Scalar:
    """Return one of the regularized incomplete gamma functions; NaN for a or x below 0."""
    if not (a >= 0.0 and x >= 0.0) or (a == np.inf and x == np.inf) or (a == 0.0 and x == 0.0):
        return np.float64(np.nan)
    if a == 0.0 or x == np.inf:
        return np.float64(0.0 if upper else 1.0)
    if x == 0.0 or a == np.inf:
        return np.float64(1.0 if upper else 0.0)
    if a > _UNIFORM and abs(x - a) < 0.4 * a:
        eta, sign = uniform_eta(a, x), 1.0 if upper else -1.0
        return 0.5 * math.erfc(sign * eta * np.sqrt(0.5 * a)) + sign * uniform_rest(a, eta)
    if x > 1.1 and x > a:
        above = upper_fraction(a, x)
        return above if upper else 1.0 - above
    below = min(lower_series(a, x), 1.0)
    if not upper:
        return below
    return 1.0 - below if below < 0.5 or a > 1.1 else upper_series(a, x)


def gammainc(a: Scalar, x: Scalar) -> Scalar:
    """Return the regularized lower incomplete gamma function."""
    return x.dtype.type(incomplete_gamma(np.float64(a), np.float64(x), False))


def gammaincc(a: Scalar, x: Scalar) -> Scalar:
    """Return the regularized upper incomplete gamma function, 1 less `gammainc`."""
    return x.dtype.type(incomplete_gamma(np.float64(a), np.float64(x), True))

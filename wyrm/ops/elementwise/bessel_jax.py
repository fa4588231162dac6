"""Bessel functions of a fixed real order as elementary operations of JAX, for files, which cannot call SciPy.

An order is `mu + n` with `mu` from -1/2 to 1/2. What converges at the argument gives the functions of the orders `mu`
and `mu + 1`: series (Temme, 1975 and 1976) below 2, Steed's continued fraction (Thompson and Barnett, 1986) and a
recurrence from a high order downwards above it, expansions of Hankel's kind (DLMF 10.17 and 10.40) for large arguments.
Recurrences lead to the order in the direction in which they are stable (DLMF 10.74). All loops have a fixed length.

Beside mpmath for orders from -20.5 to 50 and arguments from 1e-3 to 1e4, the errors are below 3e-15 in float64 and
1e-6 in float32: relative to the value, or where the function oscillates to its amplitude. SciPy's own are up to 1e-11.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# The highest order whose values have been compared with SciPy's.
HIGHEST_ORDER = 200.0
# Series are for smaller arguments, continued fractions for larger ones.
_SERIES_END = 2.0
_SERIES_TERMS = 20
_FRACTION_TERMS = 60
# Coefficients of even powers of mu in the odd part of -1 / gamma(1 + mu), divided by mu (DLMF 5.7.1).
_GAMMA_ODD_PART = (
    0.5772156649015329, -0.04200263503409524, -0.04219773455554433, 0.0072189432466631, -0.00021524167411495098,
    -2.013485478078824e-05, 1.133027231981696e-06, 6.116095104481416e-09, -1.18127457048702e-09,
)  # fmt: skip


def bessel(name: str, order: float, x: Any) -> Any:
    """Return the function `name` of `scipy.special`, one of `jv`, `yv`, `iv` and `ive`, of an order and an array."""
    import jax.numpy as jnp
    from scipy import special

    size = jnp.abs(x)
    is_inside = (size > 0.0) & (size < math.inf)
    size = jnp.where(is_inside, size, 1.0)
    value = _modified(order, size, name == "ive") if name in ("iv", "ive") else _oscillating(name, order, size)
    if order != round(order) or name == "yv":
        value = jnp.where(x < 0.0, math.nan, value)
    elif order % 2.0:
        value = jnp.where(x < 0.0, -value, value)
    of_edges = getattr(special, name)(order, np.array([0.0, math.inf, -math.inf]))
    for edge, at_edge in zip((0.0, math.inf, -math.inf), of_edges.tolist(), strict=True):
        value = jnp.where(x == edge, at_edge, value)
    return jnp.where(jnp.isnan(x), math.nan, value)


def _oscillating(name: str, order: float, x: Any) -> Any:
    """Return the function of the first kind, or with "yv" of the second kind."""
    # DLMF 10.2.3.
    sine, cosine = (_sin_pi(order), _cos_pi(order)) if order < 0.0 else (0.0, 1.0)
    factors = (-sine, cosine) if name == "yv" else (cosine, sine)
    kinds = _both_kinds(abs(order), x)
    # A kind times 0 may be infinite, and its code would be in the file.
    return sum(factor * kind() for factor, kind in zip(factors, kinds, strict=True) if factor)


def _modified(order: float, x: Any, scaled: bool) -> Any:
    """Return the modified function of the first kind, times `exp(-x)` with `scaled`."""
    value, quotient, small = _modified_first(abs(order), x, scaled)
    if order < 0.0 and order != round(order):
        # DLMF 10.27.2.
        value += _modified_second(abs(order), x, quotient, small, scaled, (2.0 / math.pi) * _sin_pi(-order))
    return value


def _sin_pi(x: float) -> float:
    """Return the sine of `pi * x`, exact at multiples of 1/2."""
    rest = math.remainder(x, 2.0)
    if abs(rest) > 0.5:
        rest = math.copysign(1.0, rest) - rest
    return math.sin(math.pi * rest)


def _cos_pi(x: float) -> float:
    """Return the cosine of `pi * x`, exact at multiples of 1/2."""
    return _sin_pi(0.5 - abs(math.remainder(x, 2.0)))


def _parts(order: float) -> tuple[float, int]:
    """Return the part of an order from -1/2 to 1/2, and the rest, which is whole."""
    n = math.floor(order + 0.5)
    return order - n, n


def _repeat(count: int, step: Callable[[Any, Any], Any], state: Any, like: Any) -> Any:
    """Return the state after `step(k, state)` for k from 0, in the dtype of `like`, to below `count`."""
    import jax

    if not count:
        return state
    return jax.lax.fori_loop(0, count, lambda k, state: step(k.astype(like.dtype), state), state)


def _times_order(k: Any, mu: float, value: Any) -> Any:
    """Return `(k + mu) * value`. The sum would be off by nearly as much for each `k`, which a recurrence adds up."""
    import jax.numpy as jnp

    return jnp.where(jnp.abs(value) < math.inf, k * value + mu * value, value)


def _is_single(x: Any) -> bool:
    return bool(np.dtype(x.dtype).itemsize < 8)


def _both_kinds(order: float, x: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return what computes the functions of the first and second kind of an order from 0 at `x` above 0."""
    import jax.numpy as jnp

    mu, n = _parts(order)
    expansion_start = max(12.0 if _is_single(x) else 25.0, order)
    is_small, is_large = x < _SERIES_END, x > expansion_start
    near, far = jnp.minimum(x, _SERIES_END), jnp.maximum(x, expansion_start)
    first, *seconds = _steed(mu, n, jnp.clip(x, _SERIES_END, expansion_start), expansion_start)
    firsts_at_large, seconds_at_large = _hankel(mu, far, expansion_start)

    def of_first_kind() -> Any:
        at_large = _upward(mu, n, far, *firsts_at_large)
        return jnp.where(is_small, _power_series(order, near), jnp.where(is_large, at_large, first))

    def of_second_kind() -> Any:
        starts = zip(_temme(mu, near), seconds_at_large, seconds, strict=True)
        chosen = [jnp.where(is_small, small, jnp.where(is_large, large, other)) for small, large, other in starts]
        return _upward(mu, n, x, *chosen)

    return of_first_kind, of_second_kind


def _upward(mu: float, n: int, x: Any, value: Any, following: Any) -> Any:
    """Return the function of order `mu + n` from those of `mu` and `mu + 1` (DLMF 10.6.1); infinities stay."""
    import jax.numpy as jnp

    def step(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        value, following = state
        after = _times_order(k + 1.0, mu, 2.0 * following / x) - value
        return following, jnp.where(jnp.abs(following) < math.inf, after, following)

    return _repeat(n, step, (value, following), x)[0]


def _power_series(order: float, x: Any) -> Any:
    """Return the function of the first kind for an order from 0, by its series (DLMF 10.2.2)."""
    import jax.numpy as jnp

    square = -0.25 * x * x

    def step(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        term, total = state
        term = term * square / ((k + 1.0) * (k + (order + 1.0)))
        return term, total + term

    one = jnp.ones_like(x)
    total = _repeat(_SERIES_TERMS, step, (one, one), x)[1]
    return jnp.power(0.5 * x, order) * (_reciprocal_gamma(order + 1.0) * total)


def _reciprocal_gamma(x: float) -> float:
    return 1.0 / math.gamma(x) if x < 171.0 else 0.0


def _temme(mu: float, x: Any, modified: bool = False) -> tuple[Any, Any]:
    """Return the functions of the second kind of orders `mu` and `mu + 1` by Temme's series, for small `x`.

    With `modified` they are the modified functions.
    """
    import jax.numpy as jnp

    log = -jnp.log(0.5 * x)
    odd = -sum(c * mu ** (2 * i) for i, c in enumerate(_GAMMA_ODD_PART))
    even = 0.5 * (1.0 / math.gamma(1.0 - mu) + 1.0 / math.gamma(1.0 + mu))
    # Where the order is next to 0, its sine and the hyperbolic one are the angles.
    near = abs(mu) < 1e-15
    cosecant = 1.0 if near else math.pi * mu / math.sin(math.pi * mu)
    growth = jnp.exp(mu * log)
    factor = 1.0 if modified else 2.0 / math.pi
    f = factor * cosecant * (odd * jnp.cosh(mu * log) + even * (log if near else jnp.sinh(mu * log) / mu))
    p, q = 0.5 * factor * math.gamma(1.0 + mu) * growth, 0.5 * factor * math.gamma(1.0 - mu) / growth
    bend = 0.0 if near or modified else 2.0 / mu * math.sin(0.5 * math.pi * mu) ** 2
    square = (0.25 if modified else -0.25) * x * x

    def step(k: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        c, f, p, q, value, following = state
        k = k + 1.0
        f = (k * f + p + q) / (k * k - mu * mu)
        p, q, c = p / (k - mu), q / (k + mu), c * square / k
        g = f + bend * q
        return c, f, p, q, value + c * g, following + c * (p - k * g)

    state = (jnp.ones_like(x), f, p, q, f + bend * q, p)
    *_, value, following = _repeat(_SERIES_TERMS, step, state, x)
    sign = 1.0 if modified else -1.0
    return sign * value, sign * 2.0 / x * following


def _steed(mu: float, n: int, x: Any, end: float) -> tuple[Any, Any, Any]:
    """Return the function of the first kind of order `mu + n`, and those of the second kind of `mu` and `mu + 1`.

    A recurrence from a high order downwards gives the first kind but for a factor. The continued fraction is the
    quotient of two Hankel functions, whose real parts these are: so it gives the second kind, and the Wronskian
    (DLMF 10.5.2) the factor. `x` is from 2 to `end`, which is at least `mu + n`.
    """
    import jax.numpy as jnp

    # Beyond the order `end` the first kind falls, in a width of its cube root, faster than any power.
    top = math.ceil(end + 8.0 * end ** (1.0 / 3.0)) + 10
    limit = 2.0**30 if _is_single(x) else 2.0**200

    def step(k: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        above, value, kept = state
        k = top - k
        above, value = value, _times_order(k, mu, 2.0 * value / x) - above
        kept = jnp.where(k - 1.0 == n, value, kept)
        scale = jnp.where(jnp.abs(value) > limit, 1.0 / limit, 1.0)
        return above * scale, value * scale, kept * scale

    zero = jnp.zeros_like(x)
    following, value, kept = _repeat(top, step, (zero, zero + 1.0, zero), x)
    real, imaginary = _fraction(mu, zero, -x)
    real, imaginary = (real + (mu + 0.5)) / x, imaginary / x - 1.0
    second = (real * value - following) / imaginary
    factor = jnp.sqrt((2.0 / math.pi) / (-x * imaginary * (value * value + second * second)))
    return factor * kept, factor * second, factor * (imaginary * value + real * second)


def _fraction(mu: float, real: Any, imaginary: Any) -> tuple[Any, Any]:
    """Return `z K(mu + 1, z) / K(mu, z) - z - mu - 1/2` at a complex number, by Steed's continued fraction.

    It is evaluated from a term in which what is left out is rounding.
    """

    def step(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, b = state
        k = _FRACTION_TERMS - k
        quotient = ((k + 0.5) * (k + 0.5) - mu * mu) / (a * a + b * b)
        return 2.0 * (k + real) - quotient * a, 2.0 * imaginary + quotient * b

    start = (2.0 * (real + (_FRACTION_TERMS + 1.0)), 2.0 * imaginary)
    a, b = _repeat(_FRACTION_TERMS, step, start, real)
    factor = (mu * mu - 0.25) / (a * a + b * b)
    return factor * a, -factor * b


def _hankel(mu: float, x: Any, start: float) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the functions of the first kind of the orders `mu` and `mu + 1`, and those of the second kind.

    It is the expansion for large arguments (DLMF 10.17.3), with `x` from `start`.
    """
    import jax.numpy as jnp

    amplitude, cosine, sine = math.sqrt(2.0 / math.pi) / jnp.sqrt(x), jnp.cos(x), jnp.sin(x)
    first, second = [], []
    for order in (mu, mu + 1.0):
        terms = _expansion_terms(order, start, np.finfo(x.dtype).eps)
        near, square = start / x, (start / x) ** 2
        even = _polynomial([(-1.0) ** i * term for i, term in enumerate(terms[::2])], square)
        odd = _polynomial([(-1.0) ** i * term for i, term in enumerate(terms[1::2])], square) * near
        c, s = _cos_pi(0.5 * order + 0.25), _sin_pi(0.5 * order + 0.25)
        cosine_of, sine_of = cosine * c + sine * s, sine * c - cosine * s
        first.append(amplitude * (even * cosine_of - odd * sine_of))
        second.append(amplitude * (even * sine_of + odd * cosine_of))
    return (first[0], first[1]), (second[0], second[1])


def _expansion_terms(order: float, start: float, precision: float) -> list[float]:
    """Return the terms of the expansions for large arguments (DLMF 10.17.1) at `start`, until they are rounding."""
    terms = [1.0]
    while abs(terms[-1]) > 0.1 * precision:
        k = len(terms)
        terms.append(terms[-1] * (4.0 * order * order - (2.0 * k - 1.0) ** 2) / (8.0 * k * start))
    return terms


def _polynomial(coefficients: list[float], x: Any) -> Any:
    """Return a polynomial whose coefficients are in order of the powers."""
    import jax.numpy as jnp

    total = jnp.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _modified_first(order: float, x: Any, scaled: bool) -> tuple[Any, Any, Any]:
    """Return the modified function of the first kind of an order from 0, and two values for `_modified_second`.

    They are the quotient of those of orders `mu + 1` and `mu`, and that of order `mu` times `exp(-x)`. A recurrence of
    quotients, from a high order downwards, is normalized by the expansion of the exponential function in modified
    Bessel functions (Gegenbauer's; DLMF 10.35 has it for the order 0), all terms of which are positive.
    """
    import jax
    import jax.numpy as jnp

    mu, n = _parts(order)
    start = max(12.0 if _is_single(x) else 30.0, 0.5 * order * order)
    top = math.ceil(math.sqrt(order * order + 80.0 * start)) + 10
    weights = [math.gamma(1.0 + mu)]
    weight = 2.0 * math.gamma(1.0 + mu)
    for k in range(1, top + 1):
        weights.append(weight * (mu + k))
        weight *= (2.0 * mu + k) / (k + 1.0)
    middle = jnp.minimum(x, start)
    # The product of quotients starts high, because `exp(x)` may raise again what it loses.
    half_lift = 2.0**-60 if _is_single(x) else 2.0**-500

    def step(state: tuple[Any, Any, Any], row: tuple[Any, Any, Any]) -> tuple[Any, None]:
        quotient, total, product = state
        k, weight, is_below = row
        quotient = middle / (2.0 * (k + 1.0) + (2.0 * mu + middle * quotient))
        return (quotient, weight + quotient * total, jnp.where(is_below, product * quotient, product)), None

    ks = np.arange(top)
    rows = (ks.astype(x.dtype), np.asarray(weights[:-1], x.dtype), ks < n)
    zero = jnp.zeros_like(x)
    state = (zero, zero + weights[-1], zero + half_lift**-2)
    (quotient, total, product), _ = jax.lax.scan(step, state, rows, reverse=True)
    small = jnp.power(0.5 * middle, mu) / total
    growth = half_lift if scaled else half_lift * jnp.exp(0.5 * middle)
    value = product * small * growth * growth
    # DLMF 10.40.1.
    far = jnp.maximum(x, start)
    terms = _expansion_terms(order, start, np.finfo(x.dtype).eps)
    series = _polynomial([(-1.0) ** i * term for i, term in enumerate(terms)], start / far)
    at_large = series * (math.sqrt(0.5 / math.pi) / jnp.sqrt(far))
    if not scaled:
        root = jnp.exp(0.5 * far)
        at_large = at_large * root * root
    return jnp.where(x > start, at_large, value), quotient, small


def _modified_second(order: float, x: Any, quotient: Any, small: Any, scaled: bool, factor: float) -> Any:
    """Return `factor` times the modified function of the second kind of an order from 0, times `exp(-x)` with `scaled`.

    The Wronskian (DLMF 10.28.2) gives it from what `_modified_first` returns and the continued fraction.
    """
    import jax.numpy as jnp

    mu, n = _parts(order)
    # Beyond this it is 0, and squares would overflow.
    x = jnp.minimum(x, 1e6)
    is_small = x < _SERIES_END
    middle = jnp.maximum(x, _SERIES_END)
    ratio = (_fraction(mu, middle, jnp.zeros_like(x))[0] + middle + (mu + 0.5)) / middle
    value = 1.0 / (middle * small * (ratio + quotient))
    growth = jnp.exp(jnp.minimum(x, _SERIES_END))
    starts = [growth * each for each in _temme(mu, jnp.minimum(x, _SERIES_END), modified=True)]
    value, following = jnp.where(is_small, starts[0], value), jnp.where(is_small, starts[1], ratio * value)

    # These are times `exp(x)`, which is taken back in parts as the function grows, so that nothing overflows.
    def step(k: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        value, following, decay = state
        part = jnp.where(jnp.abs(following) > 2.0**40, jnp.minimum(decay, 30.0), 0.0)
        fall = jnp.exp(-part)
        after = _times_order(k + 1.0, mu, 2.0 * following / x) + value
        return following * fall, after * fall, decay - part

    value, _, decay = _repeat(n, step, (factor * value, factor * following, 2.0 * x if scaled else x), x)
    half = jnp.exp(-0.5 * decay)
    return value * half * half


__all__ = ["HIGHEST_ORDER", "bessel"]

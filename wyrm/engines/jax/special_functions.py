"""Special functions that JAX computes with less than the precision of the dtype, or not at a pole."""

from __future__ import annotations

from typing import Any


def digamma(x: Any) -> Any:
    """Return the derivative of the logarithm of the gamma function: an infinity at 0, as SciPy's, where JAX has NaN."""
    import jax.numpy as jnp
    from jax.scipy.special import digamma

    return jnp.where(x == 0.0, jnp.copysign(jnp.inf, -x), digamma(x))


def betaln(a: Any, b: Any) -> Any:
    """Return the logarithm of the absolute value of the beta function.

    `jax.scipy.special.betaln` has a relative error of 1e-7 in float64 where the larger argument is near 10. Where it
    and the sum are 10 or more, this function uses the difference of two Stirling series, and elsewhere three logarithms
    of the gamma function. The result is NaN where an argument is infinite, or an integer below 1.
    """
    import jax.numpy as jnp
    from jax.scipy.special import gammaln

    small, large = jnp.minimum(a, b), jnp.maximum(a, b)
    uses_series = (large >= 10.0) & (small + large >= 10.0)
    # Arguments that are safe where the other branch counts, so that no gradient is NaN.
    p, q = jnp.where(uses_series, small, 1.0), jnp.where(uses_series, large, 10.0)
    total = p + q
    difference = p - (total - 0.5) * jnp.log1p(p / q) - p * jnp.log(q) + _stirling(q) - _stirling(total)
    p, q = jnp.where(uses_series, 1.0, small), jnp.where(uses_series, 1.0, large)
    plain = gammaln(p) + gammaln(q) - gammaln(p + q)
    return jnp.where(uses_series, gammaln(jnp.where(uses_series, small, 1.0)) + difference, plain)


def _stirling(x: Any) -> Any:
    """Return `gammaln(x)` minus the leading terms of Stirling's series, for x of 10 or more: NIST DLMF 5.11.1."""
    square = 1.0 / (x * x)
    total = 0.0 * square
    for coefficient in (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        total = total * square + coefficient
    return total / x


def beta(a: Any, b: Any) -> Any:
    """Return the beta function; NaN where an argument is infinite, or an integer below 1."""
    import jax.numpy as jnp
    from jax.scipy.special import gammasgn

    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * jnp.exp(betaln(a, b))

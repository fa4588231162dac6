"""The array namespace of lowered ops: `jax.numpy` with special functions, in the dtypes that JAX has enabled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np

from wyrm.errors import IndexOutOfRange
from wyrm.graph.base import BaseNode, describe
from wyrm.ops.elementwise.formula import SPECIAL
from wyrm.support.imports import jnp

# Functions that take a dtype.
_WITH_DTYPE = frozenset(["arange", "asarray", "astype", "full", "ones", "zeros"])


class JaxNamespace:
    """The functions of `jax.numpy`; a dtype that JAX has not enabled becomes the narrower one, such as float32.

    Functions are looked up at each use: exporters replace those of `jax.numpy` while they trace.
    """

    def __getattr__(self, name: str) -> Any:
        import jax.scipy.special as special

        if name in SPECIAL:
            return _BETTER.get(name) or getattr(special, name)
        found = getattr(jnp, name)
        return _narrowing(found) if name in _WITH_DTYPE else found


def _narrowing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `jax.numpy` that narrows its dtype without JAX's warning."""
    from jax.dtypes import canonicalize_dtype

    @wraps(function)
    def narrowing(*arguments: Any, **keywords: Any) -> Any:
        if keywords.get("dtype") is not None:
            keywords["dtype"] = canonicalize_dtype(keywords["dtype"])
        elif function.__name__ in ("astype", "zeros", "ones") and len(arguments) > 1:
            arguments = (arguments[0], canonicalize_dtype(arguments[1]), *arguments[2:])
        return function(*arguments, **keywords)

    return narrowing


def narrowed(leaf: BaseNode, array: np.ndarray) -> np.ndarray:
    """Return a leaf's array in a dtype that JAX has enabled; raise `IndexOutOfRange` for an integer beyond int32."""
    from jax.dtypes import canonicalize_dtype

    result = np.asarray(array, canonicalize_dtype(array.dtype))
    if array.dtype.kind == "i" and result.dtype != array.dtype:
        wrong = np.argwhere(result != array)
        if len(wrong):
            where = tuple(int(i) for i in wrong[0])
            position = where[0] if len(where) == 1 else where
            raise IndexOutOfRange(
                f"{describe(leaf)} was given {array[where]} at position {position}, but JAX computes with integers of "
                f"32 bits; jax.config.update('jax_enable_x64', True) gives it 64"
            )
    return result


@cache
def namespace() -> JaxNamespace:
    """Return the namespace."""
    return JaxNamespace()


def digamma(x: Any) -> Any:
    """Return the derivative of the logarithm of the gamma function; at 0 it is infinite as SciPy's, JAX's is NaN."""
    from jax.scipy.special import digamma

    return jnp.where(x == 0.0, jnp.copysign(jnp.inf, -x), digamma(x))


def betaln(a: Any, b: Any) -> Any:
    """Return the logarithm of the absolute value of the beta function.

    `jax.scipy.special.betaln` has a relative error of 1e-7 in float64 where the larger argument is near 10. Where it
    and the sum are 10 or more, this function uses the difference of two Stirling series, and elsewhere three logarithms
    of the gamma function. The result is NaN where an argument is infinite, or an integer below 1.
    """
    from jax.scipy.special import gammaln

    small, large = jnp.minimum(a, b), jnp.maximum(a, b)
    uses_series = (large >= 10.0) & (small + large >= 10.0)
    # Where a branch is not used, safe arguments keep its gradient from being NaN.
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
    from jax.scipy.special import gammasgn

    return gammasgn(a) * gammasgn(b) * gammasgn(a + b) * jnp.exp(betaln(a, b))


def ndtri(x: Any) -> Any:
    """Return the inverse of the normal distribution's cumulative function; `jax.scipy.special` refuses bfloat16."""
    from jax.scipy.special import ndtri

    return ndtri(x.astype(jnp.promote_types(x.dtype, np.float32))).astype(x.dtype)


def gammainc(a: Any, x: Any) -> Any:
    """Return the lower incomplete gamma function, with SciPy's values where the parameter is 0 or infinite."""
    from jax.scipy.special import gammainc

    return _at_ends(a, x, gammainc(a, x), 1.0, 0.0)


def gammaincc(a: Any, x: Any) -> Any:
    """Return the upper incomplete gamma function, with SciPy's values where the parameter is 0 or infinite."""
    from jax.scipy.special import gammaincc

    return _at_ends(a, x, gammaincc(a, x), 0.0, 1.0)


def _at_ends(a: Any, x: Any, value: Any, at_zero: float, at_infinity: float) -> Any:
    value = jnp.where((a == 0.0) & (x > 0.0), at_zero, value)
    return jnp.where(jnp.isinf(a) & (x >= 0.0), jnp.where(jnp.isinf(x), jnp.nan, at_infinity), value)


# Special functions that JAX computes inexactly, wrongly at a pole, or not in every dtype.
_BETTER: dict[str, Callable[..., Any]] = {
    "beta": beta, "betaln": betaln, "digamma": digamma, "gammainc": gammainc, "gammaincc": gammaincc, "ndtri": ndtri,
}  # fmt: skip

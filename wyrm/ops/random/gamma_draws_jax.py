"""The draws of `gamma_draws` as JAX arrays.

JAX decides which attempts are accepted in float64 if `jax_enable_x64` is set, as the other engines do, else in float32:
a few draws in a million are then other ones, more of them where a parameter is large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.random.draws_jax import exponential, normal, position_words, positions, uniform
from wyrm.ops.random.rejection import ATTEMPTS
from wyrm.support.imports import jax, jnp

_FEW, _MOST_OF_FEW = 10.0, 110


def _widest() -> np.dtype:
    from jax.dtypes import canonicalize_dtype

    dtype: np.dtype = canonicalize_dtype(np.float64)
    return dtype


def _first_accepted(attempt_at: Callable[[Any], tuple[Any, Any]], first: int, needed: Any) -> Any:
    """Return for each element the value of its first attempt that is accepted; `needed` masks those that count."""

    def step(state: Any) -> Any:
        number, left, found = state
        accepted, value = attempt_at(number)
        return number + np.uint32(1), left & ~accepted, jax.numpy.where(left, value, found)

    def goes_on(state: Any) -> Any:
        return (state[0] < first + ATTEMPTS - 1) & state[1].any()

    _, value = jax.eval_shape(attempt_at, np.uint32(0))
    start = np.uint32(first), needed, jax.numpy.zeros(value.shape, value.dtype)
    return jax.lax.while_loop(goes_on, step, start)[2]


class StandardLogGammaForm(JaxForm):
    """The lowering of `StandardLogGamma`."""

    def own_gradient(self, node: Any) -> bool:
        return True  # JAX differentiates no loop of an unknown number of steps in reverse

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        key, parameter = operands
        dtype, position = _widest(), positions(lowering, node, key, shape)
        concentration = jnp.broadcast_to(parameter, shape).astype(dtype)
        boosted = jnp.where(concentration < 1.0, concentration + 1.0, concentration)
        d, least = boosted - 1.0 / 3.0, 2.0**-54 if dtype == np.float64 else 2.0**-25

        def attempt_at(number: Any) -> tuple[Any, Any]:
            second = key[1] + np.uint32(2) * number
            x = normal(position_words(position, key[0], second), dtype)
            u = uniform(position_words(position, key[0], second + np.uint32(1)), dtype)
            rest = x / jnp.sqrt(9.0 * d)
            is_positive = rest > -1.0
            rest = jnp.where(is_positive, rest, 0.0)
            logarithm = jnp.log1p(rest)
            # `d - d * v + d * log(v)` without the digits that float32 loses where d is large.
            bound = 0.5 * x * x + d * (3.0 * (logarithm - rest) - rest * rest * (3.0 + rest))
            return is_positive & (jnp.log(u + least) < bound), jnp.log(d) + 3.0 * logarithm

        found = _first_accepted(attempt_at, node.part * ATTEMPTS, concentration >= 0.0)
        last = np.uint32(2 * ATTEMPTS * (node.part + 1) - 1)
        boost = exponential(position_words(position, key[0], key[1] + last), dtype) / concentration
        found = jnp.where(concentration < 1.0, found - boost, found)
        return jnp.where(concentration >= 0.0, found, jnp.nan).astype(node.dtype)


class RandomPoissonForm(JaxForm):
    """The lowering of `RandomPoisson`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax.dtypes import canonicalize_dtype
        from jax.scipy.special import gammaln

        key, parameter = operands
        dtype, position = _widest(), positions(lowering, node, key, shape)
        least = 2.0**-54 if dtype == np.float64 else 2.0**-25
        rate = jnp.broadcast_to(parameter, shape).astype(dtype)
        large = rate >= _FEW
        high = jnp.where(large, rate, _FEW)
        b = 0.931 + 2.53 * jnp.sqrt(high)
        a = -0.059 + 0.02483 * b

        def attempt_at(number: Any) -> tuple[Any, Any]:
            second = key[1] + np.uint32(2) * number
            u = uniform(position_words(position, key[0], second), dtype) - (0.5 - least)
            v = uniform(position_words(position, key[0], second + np.uint32(1)), dtype) + least
            distance = 0.5 - jnp.abs(u)
            k = jnp.floor((2.0 * a / distance + b) * u + high + 0.43)
            inside = (distance >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
            outside = (k < 0.0) | ((distance < 0.013) & (v > distance))
            size = jnp.maximum(k, 0.0)
            bound = size * jnp.log(high) - high - gammaln(size + 1.0)
            below = jnp.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (distance * distance) + b)) <= bound
            return inside | (below & ~outside), size

        def next_count(state: Any) -> Any:
            k, rest, chance, count = state
            above = rest >= chance
            rest, count = jnp.where(above, rest - chance, -1.0), count + above
            return k + 1.0, rest, chance * low / k, count

        low = jnp.where((rate > 0.0) & ~large, rate, 0.0)
        u = uniform(position_words(position, key[0], key[1]), dtype)
        start = jnp.ones((), dtype), u, jnp.exp(-low), jnp.zeros(shape, dtype)
        counts = jax.lax.while_loop(
            lambda state: (state[0] < _MOST_OF_FEW) & (state[1] >= state[2]).any(), next_count, start
        )[3]
        found = jnp.where(large, _first_accepted(attempt_at, 0, large), jnp.where(low > 0.0, counts, 0.0))
        return found.astype(canonicalize_dtype(np.int64))


__all__ = ["RandomPoissonForm", "StandardLogGammaForm"]

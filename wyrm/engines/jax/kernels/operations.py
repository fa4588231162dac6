"""The scalar operations of loop programs as functions of JAX."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.engines.jax.kernels.indices import aligned
from wyrm.engines.native.ir.types import ScalarType
from wyrm.support.imports import jax, jnp

# Those that are computed while the kernel is translated where all operands are known.
_KNOWN: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "accumulate": np.add, "step": np.add,
    "stride": np.multiply, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "left": np.left_shift, "right": np.right_shift, "negative": np.negative,
    "not": np.logical_not, "abs": np.abs, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.rint, "unordered": lambda x, y: np.isnan(x) | np.isnan(y), "copysign": np.copysign,
}  # fmt: skip

_TRACED: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "accumulate": operator.add,
    "step": operator.add, "stride": operator.mul, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "left": operator.lshift, "right": operator.rshift,
    "negative": operator.neg, "not": operator.invert, "abs": operator.abs,
    "unordered": lambda x, y: jnp.isnan(x) | jnp.isnan(y), "atan2": lambda x, y: jnp.arctan2(x, y),
    "round": lambda x: jnp.rint(x), "cbrt": lambda x: jnp.cbrt(x),
    "erf": lambda x: jax.lax.erf(x), "erfc": lambda x: jax.lax.erfc(x), "lgamma": lambda x: jax.lax.lgamma(x),
    "gamma": lambda x: _gamma(x), "quotient": operator.truediv,
}  # fmt: skip


def _gamma(x: Any) -> Any:
    """Return the gamma function: NaN at the integers below 0, and the infinity of its sign at either zero.

    That of `jax.scipy.special` cannot be lowered where JAX has no 64-bit types enabled.
    """
    is_odd = x - 2.0 * jnp.floor(0.5 * x) >= 1.0
    sign = jnp.where((x < 0.0) & is_odd, -1.0, 1.0) * jnp.where(x == 0.0, jnp.copysign(1.0, x), 1.0)
    size = jnp.exp(jax.lax.lgamma(x))
    return jnp.where((x < 0.0) & (x == jnp.floor(x)), jnp.nan, (sign * size).astype(size.dtype))


def apply(name: str, operands: Sequence[Any], type: ScalarType) -> Any:
    """Return an operation of NumPy scalars or arrays of JAX, of this type."""
    if all(isinstance(each, np.generic) for each in operands):
        with np.errstate(all="ignore"):
            if name in ("divide", "quotient", "remainder") and operands[1] != 0:
                return type.dtype.type(_known_quotient(name, type, *operands))
            if name in _KNOWN:
                return type.dtype.type(_KNOWN[name](*operands))
    x = aligned(*operands)
    first = x[0] if not isinstance(x[0], np.generic) else jnp.asarray(x[0])
    rest = x[1:]
    if name in ("divide", "remainder"):
        x = jnp.broadcast_arrays(first, *rest)
        return jax.lax.rem(*x) if name == "remainder" else jax.lax.div(*x)
    function = _TRACED.get(name) or getattr(jnp, name)
    return function(first, *rest).astype(type.dtype)


def _known_quotient(name: str, type: ScalarType, x: Any, y: Any) -> Any:
    if name == "remainder":
        return np.fmod(x, y)
    return x / y if type.kind == "f" else abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1)


def converted(value: Any, to: ScalarType) -> Any:
    """Return a value as another type; integers wrap around."""
    if isinstance(value, np.generic):
        with np.errstate(all="ignore"):
            if value.dtype.kind == "f" and to.kind in "iu" and not math.isfinite(value):
                return to.dtype.type(0)
            return value.astype(to.dtype)
    return value != 0 if to.kind == "b" else value.astype(to.dtype)


def bits(value: Any, to: ScalarType) -> Any:
    """Return the bits of a value as another type of the same width."""
    return value.view(to.dtype) if isinstance(value, np.generic) else jax.lax.bitcast_convert_type(value, to.dtype)


def either(condition: Any, chosen: Any, otherwise: Any) -> Any:
    """Return `chosen if condition else otherwise`, element by element."""
    condition, chosen, otherwise = aligned(condition, chosen, otherwise)
    return jnp.where(condition, chosen, otherwise)

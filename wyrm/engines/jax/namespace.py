"""The array namespace of lowered ops: `jax.numpy`, with special functions, and with the dtypes that JAX has enabled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np

from wyrm.engines.jax import special_functions
from wyrm.errors import IndexOutOfRange
from wyrm.graph.base import BaseNode, describe
from wyrm.ops.elementwise.formula import SPECIAL

# Functions that take a dtype.
_WITH_DTYPE = frozenset(["arange", "asarray", "astype", "full", "ones", "zeros"])


class JaxNamespace:
    """The functions of `jax.numpy`; dtypes that JAX has not enabled become the narrower ones that it has.

    Functions are looked up at each use: exporters replace those of `jax.numpy` while they trace.
    """

    def __getattr__(self, name: str) -> Any:
        import jax.numpy as jnp
        import jax.scipy.special as special

        if name in SPECIAL:
            return getattr(special_functions, name, None) or getattr(special, name)
        found = getattr(jnp, name)
        return _narrowing(found) if name in _WITH_DTYPE else found


def _narrowing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `jax.numpy` that takes a dtype, without the warning that JAX has not enabled it."""
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

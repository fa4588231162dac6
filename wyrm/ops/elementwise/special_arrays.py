"""Special functions of NumPy's arrays: those of SciPy, and the kernels where these are more exact or SciPy is missing.

SciPy's incomplete gamma functions are wrong by 4e-6 of the value for parameters of a million and by several percent for
larger ones, its beta functions by 1e-9 for large arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from inspect import signature
from typing import Any

import numpy as np

from wyrm.graph.typing import Array
from wyrm.ops.elementwise import special_kernels
from wyrm.ops.elementwise.special_kernels import beta, betaln, gammainc, gammaincc
from wyrm.support.imports import scipy_is_installed


def _large_parameter(a: Any, x: Any) -> Any:
    return np.greater(a, 1e5)


def _large_argument(x: Any, y: Any) -> Any:
    return np.greater(x, 1e3) | np.greater(y, 1e3)


# The kernel of a function, and where it replaces SciPy's: a kernel takes Python's time for each element.
_KERNELS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "gammainc": (gammainc, _large_parameter),
    "gammaincc": (gammaincc, _large_parameter),
    "beta": (beta, _large_argument),
    "betaln": (betaln, _large_argument),
}


def _gamma(x: float) -> float:
    """Return the gamma function: NaN at the integers below 0, and an infinity at 0."""
    if x == 0.0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _gammaln(x: float) -> float:
    """Return the logarithm of the absolute value of the gamma function, and -inf at -inf."""
    try:
        return math.lgamma(x) if x > -math.inf else x
    except (OverflowError, ValueError):  # at a pole
        return math.inf


def _betaln(a: float, b: float) -> Any:
    """Return the kernel's value, and -inf where the sum of the arguments is a pole of the gamma function."""
    try:
        return betaln(a, b)
    except ValueError:
        return -math.inf


# The functions that have no kernel of this name, or one that Python's functions end by an error.
_MORE: dict[str, Callable[..., Any]] = {
    "erf": math.erf, "erfc": math.erfc, "gamma": _gamma, "gammaln": _gammaln, "betaln": _betaln,
}  # fmt: skip


def _by_kernel(kernel: Callable[..., Any], count: int, *given: Any, out: Array | None = None) -> Any:
    """Return a function of each element of `count` arrays; an array `out` may follow them, as in ufuncs."""
    arrays = np.broadcast_arrays(*given[:count])
    out = given[count] if len(given) > count else out
    dtype = np.result_type(*arrays, np.float32)
    numbers: Array = np.empty(arrays[0].shape, np.float64)
    with np.errstate(all="ignore"):
        for place, each in enumerate(zip(*(array.astype(np.float64).reshape(-1) for array in arrays), strict=True)):
            numbers.reshape(-1)[place] = kernel(*each)
        found = numbers.astype(dtype)
    if out is None:
        return found[()]
    out[...] = found
    return out


@cache
def special_function(name: str) -> Callable[..., Any]:
    """Return the function of arrays that has a name in `scipy.special`; it takes an array `out` as ufuncs do."""
    if not scipy_is_installed():
        kernel: Callable[..., Any] = _MORE.get(name) or getattr(special_kernels, name)
        return partial(_by_kernel, kernel, len(signature(kernel).parameters))
    from scipy import special

    function: Callable[..., Any] = getattr(special, name)
    if name not in _KERNELS:
        return function
    kernel, beyond = _KERNELS[name]

    def exact(x: Any, y: Any, out: Array | None = None) -> Any:
        found = np.asarray(function(x, y, out=out))
        others = np.broadcast_to(beyond(x, y), found.shape)
        if others.any():
            left, right = (np.broadcast_to(each, found.shape)[others].astype(np.float64) for each in (x, y))
            with np.errstate(all="ignore"):
                found[others] = [kernel(*pair) for pair in zip(left, right, strict=True)]
        return found[()]

    return exact


__all__ = ["special_function"]

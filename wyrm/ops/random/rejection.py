"""Attempts of the draws by rejection, gamma and Poisson, as functions of a key, a position and the attempt's number.

As in `standard_draws`, the functions use only integer arithmetic and `+ - * /` and `sqrt` of float64, have no branch,
and take scalars, in compiled loops, or arrays, in the reference engine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wyrm.ops.random.standard_draws import exponential_at, log, normal_at, uniform_at

# After so many attempts, each accepted with a probability above 0.7, the last one counts.
ATTEMPTS = 64
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def counted(second: Any, number: Any) -> Any:
    """Return the second word of the key that a node's draw of this number has."""
    return (np.uint64(second) + np.uint64(number)) & np.uint64(0xFFFFFFFF)


def gamma_attempt(position: Any, first: Any, second: Any, attempt: Any, concentration: Any) -> tuple[Any, Any]:
    """Return whether an attempt is accepted, and the logarithm of a gamma variable of a concentration of at least 1.

    Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).
    """
    like = np.float64(0.0)
    normal = normal_at(position, first, counted(second, 2 * attempt), like)
    uniform = uniform_at(position, first, counted(second, 2 * attempt + 1), like)
    d = concentration - 1.0 / 3.0
    root = 1.0 + normal / np.sqrt(9.0 * d)
    is_positive = root > 0.0
    logarithm = 3.0 * log(np.where(is_positive, root, root * 0.0 + 1.0))
    bound = 0.5 * normal * normal + d - d * (root * root * root) + d * logarithm
    return is_positive & (log(uniform + 2.0**-54) < bound), log(d) + logarithm


def boost_at(position: Any, first: Any, second: Any, part: Any, concentration: Any) -> Any:
    """Return what the logarithm of a gamma variable of a concentration below 1 lacks from that of one more."""
    return (
        exponential_at(position, first, counted(second, 2 * ATTEMPTS * (part + 1) - 1), np.float64(0.0)) / concentration
    )


def log_factorial(k: Any) -> Any:
    """Return `log(k!)` of a float of at least 0, within 1e-13 or 4e-15 of its size: Stirling's series, from 9 on."""
    rest = (k + 1.0) * (k + 2.0) * (k + 3.0) * (k + 4.0) * (k + 5.0) * (k + 6.0) * (k + 7.0) * (k + 8.0)
    z = k + 9.0
    inverse = 1.0 / (z * z)
    series = ((-1.0 / 1680.0 * inverse + 1.0 / 1260.0) * inverse - 1.0 / 360.0) * inverse + 1.0 / 12.0
    series = series + inverse * inverse * inverse * inverse * (1.0 / 1188.0)
    return (z - 0.5) * log(z) - z + _HALF_LOG_TWO_PI + series / z - log(rest)


def poisson_attempt(position: Any, first: Any, second: Any, attempt: Any, rate: Any) -> tuple[Any, Any]:
    """Return whether an attempt is accepted, and a Poisson variable, as a float, of a rate of at least 10.

    Hörmann, "The transformed rejection method for generating Poisson random variables" (1993), algorithm PTRS.
    """
    like = np.float64(0.0)
    u = uniform_at(position, first, counted(second, 2 * attempt), like) - (0.5 - 2.0**-54)
    v = uniform_at(position, first, counted(second, 2 * attempt + 1), like) + 2.0**-54
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    distance = 0.5 - np.where(u < 0.0, -u, u)
    k = np.floor((2.0 * a / distance + b) * u + rate + 0.43)
    inside = (distance >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
    outside = (k < 0.0) | ((distance < 0.013) & (v > distance))
    size = np.where(k < 0.0, k * 0.0, k)
    left = log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (distance * distance) + b))
    below = left <= size * log(rate) - rate - log_factorial(size)
    return inside | (below & ~outside), size


__all__ = ["ATTEMPTS", "boost_at", "counted", "gamma_attempt", "log_factorial", "poisson_attempt"]

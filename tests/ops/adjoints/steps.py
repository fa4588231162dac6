"""Derivatives of Python functions by complex steps: the truth that derived kernels are compared with.

A kernel is run on numbers `x + i e d` with a tiny e, whose imaginary parts divided by e are the derivatives along d, to
the last digit. Comparisons use the real parts.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

STEP = 1e-100


class Number:
    """A complex number that compares, and rounds, by its real part."""

    __slots__ = ("z",)

    def __init__(self, z: complex) -> None:
        self.z = z

    def __add__(self, other: Any) -> Number:
        return Number(self.z + _z(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Number:
        return Number(self.z - _z(other))

    def __rsub__(self, other: Any) -> Number:
        return Number(_z(other) - self.z)

    def __mul__(self, other: Any) -> Number:
        return Number(self.z * _z(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Number:
        return Number(self.z / _z(other))

    def __rtruediv__(self, other: Any) -> Number:
        return Number(_z(other) / self.z)

    def __pow__(self, other: Any) -> Number:
        if isinstance(other, int):
            whole = Number(1.0)
            for _ in range(abs(other)):
                whole = whole * self
            return whole if other >= 0 else Number(1.0 / whole.z)
        return Number(self.z ** _z(other))

    def __rpow__(self, other: Any) -> Number:
        return Number(_z(other) ** self.z)

    def __mod__(self, other: Any) -> Number:
        return Number(self.z - _z(other) * math.floor(self.z.real / _z(other).real))

    def __neg__(self) -> Number:
        return Number(-self.z)

    def __abs__(self) -> Number:
        return Number(self.z if self.z.real > 0 else -self.z if self.z.real < 0 else 0.0 * self.z)

    def __lt__(self, other: Any) -> bool:
        return self.z.real < _z(other).real

    def __le__(self, other: Any) -> bool:
        return self.z.real <= _z(other).real

    def __gt__(self, other: Any) -> bool:
        return self.z.real > _z(other).real

    def __ge__(self, other: Any) -> bool:
        return self.z.real >= _z(other).real

    def __eq__(self, other: object) -> bool:
        return self.z.real == _z(other).real

    def __ne__(self, other: object) -> bool:
        return self.z.real != _z(other).real

    __hash__ = None  # type: ignore[assignment]  # it equals numbers of another hash

    def __int__(self) -> int:
        return int(self.z.real)

    def __bool__(self) -> bool:
        return self.z.real != 0.0


def _z(value: Any) -> complex:
    return value.z if isinstance(value, Number) else complex(value)


def _function(name: str) -> Callable[..., Any]:
    def of(value: Any) -> Any:
        if not isinstance(value, Number):
            return getattr(math, name)(value)
        z = value.z
        if abs(z.imag) < 1e-50:  # the part that complex functions would lose or mix into the real one
            return Number(complex(getattr(math, name)(z.real), z.imag * _SLOPES[name](z.real)))
        return Number(getattr(cmath, name)(z))

    return of


_SLOPES: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": lambda x: 1.0 / x,
    "sin": math.cos,
    "cos": lambda x: -math.sin(x),
    "tanh": lambda x: 1.0 - math.tanh(x) ** 2,
    "sqrt": lambda x: 0.5 / math.sqrt(x),
    "atan": lambda x: 1.0 / (1.0 + x * x),
}
_MATH = SimpleNamespace(
    **{name: _function(name) for name in _SLOPES}, inf=math.inf, pi=math.pi, floor=lambda x: math.floor(_z(x).real)
)


def _array(shape: Any, fill: float) -> Any:
    found = np.empty(shape, dtype=object)
    found[...] = fill
    return found


_NUMPY = SimpleNamespace(
    **{name: _function(name) for name in _SLOPES if name != "atan"}, arctan=_function("atan"), float64=float,
    int64=np.int64, zeros=lambda shape, *_: _array(shape, 0.0), empty=lambda shape, *_: _array(shape, math.nan),
    full=lambda shape, fill, *_: _array(shape, fill),
    sign=lambda x: float(np.sign(_z(x).real)), floor=lambda x: float(math.floor(_z(x).real)),
)  # fmt: skip


def in_steps(function: Any, known: dict[Any, Any] | None = None) -> Callable[..., Any]:
    """Return a kernel that computes with such numbers, and calls kernels that do."""
    known = {} if known is None else known
    if function not in known:
        scope: dict[str, Any] = {"__builtins__": {**__builtins__, "float": lambda x: x}}  # type: ignore[dict-item]  # a module's is a dict
        made = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
        known[function] = made
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if value is None:
                continue
            if value is math or value is np:
                scope[name] = _MATH if value is math else _NUMPY
            else:
                scope[name] = in_steps(value, known) if isinstance(value, FunctionType) else value
    found: Callable[..., Any] = known[function]
    return found


def moved(value: Any, along: Any) -> Any:
    """Return an argument moved by a step along a direction, None for one that stays."""
    if isinstance(value, np.ndarray):
        found = np.empty(value.shape, dtype=object) if value.dtype.kind == "f" else value.copy()
        for at in np.ndindex(value.shape):
            step = 0.0 if along is None else float(along[at])
            found[at] = Number(complex(value[at], STEP * step)) if value.dtype.kind == "f" else value[at]
        return found
    return Number(complex(value, STEP * float(along))) if isinstance(value, float) and along is not None else value


def outputs_of(result: Any, arguments: Sequence[Any]) -> list[Any]:
    """Return the floats that a kernel computed: what it returns, and then the elements of the arrays."""
    found = [] if result is None else list(result) if isinstance(result, tuple) else [result]
    found = [each for each in found if isinstance(each, float | Number | np.floating)]
    for each in arguments:
        if isinstance(each, np.ndarray) and each.dtype.kind in "fO":
            found += list(each.reshape(-1))
    return found


def along(function: Any, arguments: Sequence[Any], directions: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Return the outputs of a kernel, and their derivatives along the directions of the arguments."""
    given = [moved(*each) for each in zip(arguments, directions, strict=True)]
    result = in_steps(function)(*given)
    found = [_z(each) for each in outputs_of(result, given)]
    return [each.real for each in found], [each.imag / STEP for each in found]

"""Initializers: callables that draw the first values of a parameter.

>>> wy.nn.initializers.XavierUniform()((3, 2), seed=0).shape
(3, 2)

A float32 model starts from the rounded values of a float64 one. The numbers of a seed depend on nothing else but the
shape: neither on the processor nor on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from wyrm.errors import DTypeError, OptionError
from wyrm.graph.storage import LARGEST, Undrawn, hand_over
from wyrm.graph.typing import DTypeLike

if TYPE_CHECKING:  # at run time, naming the generator would import numpy.random together with wyrm
    Seed: TypeAlias = int | np.random.Generator


class Initializer(Protocol):
    """A callable that returns an array of `shape` and `dtype`, drawn from a seed or a generator.

    >>> def halves(shape, seed, dtype=np.float32):
    ...     return np.full(shape, 0.5, dtype)
    >>> wy.nn.Linear(1, 2, initializer=halves).weight.value.tolist()
    [[0.5, 0.5]]
    """

    def __call__(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike = ..., /) -> np.ndarray: ...


# Up to so many numbers NumPy draws, which takes a few milliseconds; native code would have to be loaded.
_FEW = 2**19


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return fan-in and fan-out, the inputs per output and the outputs per input, of weights of shape (..., in, out).

    Axes before the last two are the window of a convolution and multiply both. For a vector, both are its size.

    >>> fans((784, 128)), fans((3, 3, 16, 32)), fans((5,)), fans(())
    ((784, 128), (144, 288), (5, 5), (1, 1))
    """
    if len(shape) < 2:
        size = math.prod(shape)
        return size, size
    window = math.prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def first_values(
    layer: str, argument: str, initializer: object, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike
) -> Undrawn | np.ndarray:
    """Return what `initialized` does, or for a large array what draws it later."""
    if isinstance(initializer, type) or not callable(initializer):
        found = f"{initializer.__name__}()" if isinstance(initializer, type) else "XavierUniform()"
        raise DTypeError(
            f"{layer}: {argument} must be an initializer, as in {argument}=wy.nn.initializers.{found}, "
            f"not {initializer!r}"
        )
    draw: Any = initializer
    # A subclass may draw otherwise.
    if isinstance(initializer, _Drawn) and type(initializer).__call__ is _Drawn.__call__:
        draw = initializer.first_values
    values: Undrawn | np.ndarray = draw(shape, seed, dtype)
    if isinstance(values, Undrawn):
        return values
    if type(initializer).__module__ == __name__:  # nobody else has the array
        hand_over(values)
    return values


def initialized(
    layer: str, argument: str, initializer: object, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike
) -> np.ndarray:
    """Return what the `argument` of a layer draws; raise `DTypeError` unless it is an initializer."""
    return np.asarray(first_values(layer, argument, initializer, shape, seed, dtype))


def _check_option(name: str, value: object, rule: str = "", holds: Callable[[float], bool] = math.isfinite) -> None:
    """Raise `OptionError` unless an option is finite and `holds(value)` is true; `rule` says in words what holds."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{name} must be a finite number{rule}, not {value!r}")
    if not (math.isfinite(value) and holds(float(value))):
        raise OptionError(f"{name} must be a finite number{rule}, not {value}")


def _uniform(low: float, high: float, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike) -> Undrawn | np.ndarray:
    if _are_many(shape, dtype):
        return _many("uniform", low, high, shape, seed, dtype)
    return np.asarray(np.random.default_rng(seed).uniform(low, high, shape), dtype)


def _normal(
    mean: float, deviation: float, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike
) -> Undrawn | np.ndarray:
    if _are_many(shape, dtype):
        return _many("normal", mean, deviation, shape, seed, dtype)
    return np.asarray(np.random.default_rng(seed).normal(mean, deviation, shape), dtype)


def _are_many(shape: tuple[int, ...], dtype: DTypeLike) -> bool:
    """Return whether native code draws an array: a large one, of a dtype that leaves do not refuse."""
    return math.prod(shape) > _FEW and np.dtype(dtype) in LARGEST


def _many(
    distribution: str, a: float, b: float, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike
) -> Undrawn | np.ndarray:
    """Draw by native code, on all processors, when the numbers are read: NumPy takes seconds for a large model."""
    from wyrm.engines.native.run import draws

    keys = np.random.default_rng(seed).integers(0, 2**32, (-(-math.prod(shape) // draws.POSITIONS), 2)).tolist()
    kernel = draws.fill_normal if distribution == "normal" else draws.fill_uniform
    undrawn = Undrawn(shape, np.dtype(dtype), partial(draws.fill, kernel, keys=keys, a=a, b=b))
    # A leaf refuses infinities; a normal number has less than 8 standard deviations.
    return undrawn if abs(a) + 8 * abs(b) < float(LARGEST[undrawn.dtype]) else np.asarray(undrawn)


class _Drawn:
    """An initializer whose `first_values` are perhaps drawn later."""

    def __call__(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike = np.float32) -> np.ndarray:
        return np.asarray(self.first_values(shape, seed, dtype))

    def first_values(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike) -> Undrawn | np.ndarray:
        """Return the numbers of an array, or for a large one what draws them."""
        raise NotImplementedError


@dataclass(frozen=True)
class Constant:
    """Fills the array with `value`, a finite number; raises `ValueError` for another.

    >>> Constant(0.5)((2,), 0).tolist()
    [0.5, 0.5]
    """

    value: float

    def __post_init__(self) -> None:
        _check_option("value", self.value)

    def __call__(self, shape: tuple[int, ...], seed: Seed = 0, dtype: DTypeLike = np.float32) -> np.ndarray:
        return np.full(shape, self.value, dtype)


@dataclass(frozen=True)
class Zeros:
    """Fills the array with zeros.

    >>> Zeros()((2,), 0).tolist()
    [0.0, 0.0]
    """

    def __call__(self, shape: tuple[int, ...], seed: Seed = 0, dtype: DTypeLike = np.float32) -> np.ndarray:
        return np.zeros(shape, dtype)


@dataclass(frozen=True)
class Uniform(_Drawn):
    """Draws from the uniform distribution over [low, high); raises `ValueError` unless both are finite, `low <= high`.

    >>> bool((abs(Uniform(-0.5, 0.5)((100,), seed=0)) <= 0.5).all())
    True
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_option("low", self.low)
        _check_option("high", self.high, f" of at least {self.low}", lambda value: value >= self.low)

    def first_values(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike) -> Undrawn | np.ndarray:
        return _uniform(self.low, self.high, shape, seed, dtype)


@dataclass(frozen=True)
class Normal(_Drawn):
    """Draws from a normal distribution; raises `ValueError` unless both are finite, the standard deviation at least 0.

    >>> Normal(0.1)((2, 3), seed=0).shape
    (2, 3)
    """

    standard_deviation: float = 1.0
    mean: float = 0.0

    def __post_init__(self) -> None:
        _check_option("standard_deviation", self.standard_deviation, " of at least 0", lambda value: value >= 0.0)
        _check_option("mean", self.mean)

    def first_values(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike) -> Undrawn | np.ndarray:
        return _normal(self.mean, self.standard_deviation, shape, seed, dtype)


class _Scaled(_Drawn):
    """Draws with mean 0 and a standard deviation computed from the shape, multiplied by `gain`, above 0."""

    gain: float

    def __post_init__(self) -> None:
        _check_option("gain", self.gain, " above 0", lambda value: value > 0.0)

    def standard_deviation(self, shape: tuple[int, ...]) -> float:
        """Return the standard deviation of the elements of an array of this shape."""
        raise NotImplementedError


# Subclasses inherit the methods that `dataclass` generates.
@dataclass(frozen=True)
class _Xavier(_Scaled):
    gain: float = 1.0

    def standard_deviation(self, shape: tuple[int, ...]) -> float:
        # A shape without inputs or outputs has no elements, so any finite value will do.
        return self.gain * math.sqrt(2.0 / max(sum(fans(shape)), 1))


@dataclass(frozen=True)
class _Kaiming(_Scaled):
    gain: float = math.sqrt(2.0)

    def standard_deviation(self, shape: tuple[int, ...]) -> float:
        return self.gain / math.sqrt(max(fans(shape)[0], 1))


class XavierUniform(_Xavier):
    """Uniform within `gain * sqrt(6 / (fan_in + fan_out))` of 0: preserves the variance of activations and gradients.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010), formula 16.
    `gain` is above 0, else `ValueError`; see `fans` for fan_in and fan_out.

    >>> bool((abs(XavierUniform()((2, 4), seed=0)) <= 1.0).all())
    True
    """

    def first_values(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike) -> Undrawn | np.ndarray:
        bound = math.sqrt(3.0) * self.standard_deviation(shape)
        return _uniform(-bound, bound, shape, seed, dtype)


class XavierNormal(_Xavier):
    """Normal with a standard deviation of `gain * sqrt(2 / (fan_in + fan_out))`; see `XavierUniform`.

    >>> XavierNormal().standard_deviation((2, 6))
    0.5
    """

    def first_values(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike) -> Undrawn | np.ndarray:
        return _normal(0.0, self.standard_deviation(shape), shape, seed, dtype)


class KaimingUniform(_Kaiming):
    """Uniform within `gain * sqrt(3 / fan_in)` of 0, which preserves the variance of activations through ReLU layers.

    He et al., "Delving deep into rectifiers" (2015), formula 10. `gain` is above 0, else `ValueError`: sqrt(2), the
    default, is for ReLU, 1 for layers without an activation. See `fans` for fan_in.

    >>> bool((abs(KaimingUniform()((6, 4), seed=0)) <= 1.0).all())
    True
    """

    def first_values(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike) -> Undrawn | np.ndarray:
        bound = math.sqrt(3.0) * self.standard_deviation(shape)
        return _uniform(-bound, bound, shape, seed, dtype)


class KaimingNormal(_Kaiming):
    """Normal with a standard deviation of `gain / sqrt(fan_in)`; see `KaimingUniform`.

    >>> round(KaimingNormal().standard_deviation((8, 3)), 12)
    0.5
    """

    def first_values(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike) -> Undrawn | np.ndarray:
        return _normal(0.0, self.standard_deviation(shape), shape, seed, dtype)


__all__ = [
    "Constant",
    "Initializer",
    "KaimingNormal",
    "KaimingUniform",
    "Normal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "Zeros",
]

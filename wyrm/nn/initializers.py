"""How parameters start: small callables that draw an array of a given shape.

Numbers are drawn in float64 and then rounded, so that a float32 model starts where its float64 twin does.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

if TYPE_CHECKING:  # naming the generator at run time would import all of numpy.random together with wyrm
    Seed: TypeAlias = int | np.random.Generator


class Initializer(Protocol):
    """Anything that makes an array of `shape` and `dtype` from a seed or a generator.

    >>> def halves(shape, seed, dtype=np.float32):
    ...     return np.full(shape, 0.5, dtype)
    >>> wy.nn.Linear(1, 2, initializer=halves).weight.value.tolist()
    [[0.5, 0.5]]
    """

    def __call__(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike = ..., /) -> np.ndarray: ...


# Numbers that one generator draws.
_PART = 2**18


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """The inputs that make one output and the outputs that one input goes to, for weights of shape (..., in, out).

    Axes before the last two are the window of a convolution and count for both. A vector has as many of each.

    >>> fans((784, 128)), fans((3, 3, 16, 32)), fans((5,)), fans(())
    ((784, 128), (144, 288), (5, 5), (1, 1))
    """
    if len(shape) < 2:
        size = math.prod(shape)
        return size, size
    window = math.prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def _check(name: str, value: float, rule: str = "", holds: bool = True) -> None:
    """`ValueError` unless the option is finite and its own rule holds."""
    if not (math.isfinite(value) and holds):
        raise ValueError(f"{name} is a finite number{rule}, not {value}")


def _uniform(low: float, high: float, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).uniform(low, high, shape), dtype)


def _normal(mean: float, deviation: float, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike) -> np.ndarray:
    random, drawn = np.random.default_rng(seed), np.empty(shape, dtype)
    flat = drawn.reshape(-1)
    parts = [flat[start : start + _PART] for start in range(0, flat.size, _PART)]

    def draw(random: np.random.Generator, part: np.ndarray) -> None:
        part[:] = random.normal(mean, deviation, part.size)

    if len(parts) <= 1:
        draw(random, flat)
        return drawn
    # Large tables take seconds: each part has a generator of its own, whatever the number of threads.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(draw, random.spawn(len(parts)), parts))
    return drawn


@dataclass(frozen=True)
class Constant:
    """Every element is `value`, a finite number.

    >>> Constant(0.5)((2,), 0).tolist()
    [0.5, 0.5]
    """

    value: float

    def __post_init__(self) -> None:
        _check("value", self.value)

    def __call__(self, shape: tuple[int, ...], seed: Seed = 0, dtype: DTypeLike = np.float32) -> np.ndarray:
        return np.full(shape, self.value, dtype)


@dataclass(frozen=True)
class Zeros:
    """Every element is 0.

    >>> Zeros()((2,), 0).tolist()
    [0.0, 0.0]
    """

    def __call__(self, shape: tuple[int, ...], seed: Seed = 0, dtype: DTypeLike = np.float32) -> np.ndarray:
        return np.zeros(shape, dtype)


@dataclass(frozen=True)
class Uniform:
    """Every number from `low` to `high` is as likely; both are finite, `low` at most `high`.

    >>> bool((abs(Uniform(-0.5, 0.5)((100,), seed=0)) <= 0.5).all())
    True
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        _check("low", self.low)
        _check("high", self.high, f" of at least {self.low}", self.high >= self.low)

    def __call__(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike = np.float32) -> np.ndarray:
        return _uniform(self.low, self.high, shape, seed, dtype)


@dataclass(frozen=True)
class Normal:
    """The normal distribution of a standard deviation of at least 0, around `mean`; both are finite.

    >>> Normal(0.1)((2, 3), seed=0).shape
    (2, 3)
    """

    standard_deviation: float = 1.0
    mean: float = 0.0

    def __post_init__(self) -> None:
        _check("standard_deviation", self.standard_deviation, " of at least 0", self.standard_deviation >= 0.0)
        _check("mean", self.mean)

    def __call__(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike = np.float32) -> np.ndarray:
        return _normal(self.mean, self.standard_deviation, shape, seed, dtype)


class _Scaled:
    """Draws around 0 with a standard deviation that the shape gives; `gain`, above 0, multiplies it."""

    gain: float

    def __post_init__(self) -> None:
        _check("gain", self.gain, " above 0", self.gain > 0.0)

    def standard_deviation(self, shape: tuple[int, ...]) -> float:
        """The standard deviation of the elements of an array of this shape."""
        raise NotImplementedError


# The two below make their subclasses dataclasses as well: what `dataclass` writes suits those as it is.
@dataclass(frozen=True)
class _Xavier(_Scaled):
    gain: float = 1.0

    def standard_deviation(self, shape: tuple[int, ...]) -> float:
        # A shape without inputs or outputs has no elements to draw: any finite answer does.
        return self.gain * math.sqrt(2.0 / max(sum(fans(shape)), 1))


@dataclass(frozen=True)
class _Kaiming(_Scaled):
    gain: float = math.sqrt(2.0)

    def standard_deviation(self, shape: tuple[int, ...]) -> float:
        return self.gain / math.sqrt(max(fans(shape)[0], 1))


class XavierUniform(_Xavier):
    """Uniform within `gain * sqrt(6 / (fan_in + fan_out))` of 0, which keeps the size of signals and of gradients.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010), formula 16.
    `gain` is above 0; the fans are those of weights of shape (..., in, out).

    >>> bool((abs(XavierUniform()((2, 4), seed=0)) <= 1.0).all())
    True
    """

    def __call__(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike = np.float32) -> np.ndarray:
        bound = math.sqrt(3.0) * self.standard_deviation(shape)
        return _uniform(-bound, bound, shape, seed, dtype)


class XavierNormal(_Xavier):
    """Normal with standard deviation `gain * sqrt(2 / (fan_in + fan_out))`; see `XavierUniform`.

    >>> XavierNormal().standard_deviation((2, 6))
    0.5
    """

    def __call__(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike = np.float32) -> np.ndarray:
        return _normal(0.0, self.standard_deviation(shape), shape, seed, dtype)


class KaimingUniform(_Kaiming):
    """Uniform within `gain * sqrt(3 / fan_in)` of 0, which keeps the size of signals through layers with ReLU.

    He et al., "Delving deep into rectifiers" (2015), formula 10. `gain` is above 0: sqrt(2), the default, is for ReLU,
    1 for layers without an activation. The fan is that of weights of shape (..., in, out).

    >>> bool((abs(KaimingUniform()((6, 4), seed=0)) <= 1.0).all())
    True
    """

    def __call__(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike = np.float32) -> np.ndarray:
        bound = math.sqrt(3.0) * self.standard_deviation(shape)
        return _uniform(-bound, bound, shape, seed, dtype)


class KaimingNormal(_Kaiming):
    """Normal with standard deviation `gain / sqrt(fan_in)`; see `KaimingUniform`.

    >>> round(KaimingNormal().standard_deviation((8, 3)), 12)
    0.5
    """

    def __call__(self, shape: tuple[int, ...], seed: Seed, dtype: DTypeLike = np.float32) -> np.ndarray:
        return _normal(0.0, self.standard_deviation(shape), shape, seed, dtype)

"""Soft dynamic time warping (Cuturi and Blondel, 2017) as an op with kernels that numba compiles."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

import wyrm as wy


@numba.njit
def softmin(a: float, b: float, c: float) -> float:
    low = min(a, b, c)
    return low - math.log(math.exp(low - a) + math.exp(low - b) + math.exp(low - c))


@numba.njit
def costs(x: Any, y: Any) -> Any:
    """Return the soft costs of all prefixes of two series; it allocates, which kernels of wyrm may not."""
    n, m = len(x), len(y)
    cost = np.full((n + 2, m + 2), np.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            step = softmin(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
            cost[i, j] = (x[i - 1] - y[j - 1]) ** 2 + step
    return cost


class OutOfBounds(ValueError):
    pass


@numba.njit
def distances(x: Any, y: Any, out: Any) -> None:
    for row in range(x.shape[0]):
        if abs(x[row, 0]) > 1e3:
            raise OutOfBounds("a series begins too far away")
        out[row] = costs(x[row], y)[x.shape[1], len(y)]


@numba.njit
def gradients(x: Any, y: Any, gradient: Any, out: Any) -> None:
    n, m = x.shape[1], len(y)
    for row in range(x.shape[0]):
        cost, weight = costs(x[row], y), np.zeros((n + 2, m + 2))
        weight[n, m] = 1.0
        for i in range(n, 0, -1):
            total = 0.0
            for j in range(m, 0, -1):
                for a, b in ((i + 1, j), (i, j + 1), (i + 1, j + 1)):
                    if a <= n and b <= m:
                        delta = (x[row, a - 1] - y[b - 1]) ** 2
                        weight[i, j] += weight[a, b] * np.exp(cost[a, b] - delta - cost[i, j])
                total += weight[i, j] * 2.0 * (x[row, i - 1] - y[j - 1])
            out[row, i - 1] = total * gradient[row]


class SoftDTW(wy.Node):
    """The soft distances of the rows of x to a series y."""

    __slots__ = ()

    def __init__(self, x: Any, y: Any) -> None:
        super().__init__(x, y)

    def shape_rule(self) -> Any:
        return self.parents[0].dims[:1]

    def dtype_rule(self) -> Any:
        return self.parents[0].dtype

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, y = map(np.asarray, operands)
        found = [costs(row, y)[len(row), len(y)] for row in x]
        return np.array(found, x.dtype).reshape(shape)

    def vjp(self, gradient: Any) -> Any:
        x, y = self.parents
        return SoftDTWGradient(x, y, gradient), wy.Undefined("the series y is data")


class SoftDTWGradient(wy.Node):
    """The gradient of `SoftDTW` with respect to x."""

    __slots__ = ()

    def __init__(self, x: Any, y: Any, gradient: Any) -> None:
        super().__init__(x, y, gradient)

    def shape_rule(self) -> Any:
        return self.parents[0].dims

    def dtype_rule(self) -> Any:
        return self.parents[0].dtype

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        out = np.empty(shape, operands[0].dtype)
        gradients(*map(np.ascontiguousarray, operands), out)
        return out

    def vjp(self, gradient: Any) -> Any:
        return (wy.Undefined("SoftDTW has one derivative"),) * 3


@wy.LOOPS.register(SoftDTW)
class SoftDTWLoops(wy.LoopForm):
    kernel = distances


@wy.LOOPS.register(SoftDTWGradient)
class SoftDTWGradientLoops(wy.LoopForm):
    kernel = gradients


@numba.njit
def cubed(x: float, shift: int) -> tuple[float, int]:
    return x * x * x, shift + 1


class Cubed(wy.Node):
    """`x ** 3 + 3`, by a kernel of wyrm that calls a function of numba."""

    __slots__ = ()

    def __init__(self, x: Any) -> None:
        super().__init__(x)

    def shape_rule(self) -> Any:
        return self.parents[0].dims

    def dtype_rule(self) -> Any:
        return self.parents[0].dtype

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return operands[0] ** 3 + 3

    def vjp(self, gradient: Any) -> Any:
        return (gradient * 3.0 * self.parents[0] * self.parents[0],)


@wy.LOOPS.register(Cubed)
class CubedLoops(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.shape[0]):
            power, number = cubed(x[i], 2)
            out[i] = power + number

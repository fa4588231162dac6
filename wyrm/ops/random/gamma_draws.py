"""Draws whose distribution has a parameter: of gamma distributions, as logarithms, and of Poisson distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, unify
from wyrm.graph.base import ZERO, BaseNode, Gradient, format_dims
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.elementwise.gamma_slope import LogGammaSlope
from wyrm.ops.random import gamma_draws_jax
from wyrm.ops.random.draws import KeyedDraws, KeyedLoops
from wyrm.ops.random.dropout import positions_of
from wyrm.ops.random.rejection import ATTEMPTS, boost_at, gamma_attempt, poisson_attempt
from wyrm.ops.random.standard_draws import uniform_at

# Rates below this are drawn by inversion.
FEW = 10.0
# No Poisson variable of a rate below `FEW` is larger: its probability is below 1e-60.
MOST_OF_FEW = 110


class _ParameterDraws(KeyedDraws, abstract=True):
    """Base class of the draws from a key and a parameter that has the axes of the result."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        dims = super().shape_rule()
        parameter = self.parents[1].dims
        if len(parameter) != len(dims):
            raise ShapeError(f"the parameter must have the axes of the draws, {format_dims(dims)}")
        return tuple(map(unify, dims, parameter))

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if rows[1] == 0 else None

    def drawn_by_rows(self, operands: Sequence[Node], mapped: Sequence[bool], axis: Axis) -> BaseNode:
        key, parameter = operands
        whole = parameter if mapped[1] else parameter.broadcast_to((axis, *parameter.dims))
        return self.rebuild((key, whole), self.attribute_values() | {"to": (axis, *self.to)})


class _ParameterLoops(KeyedLoops, ByKernel):
    """The kernel of such draws: its arguments are the key, the parameters, the result and the elements of a row."""

    def kernel_arguments(self, node: Any, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0], operands[1].reshape(-1), out.reshape(-1), math.prod(out.shape[1:])


class StandardLogGamma(_ParameterDraws, Node[tuple[Node, Node], Axes]):
    """Logarithms of draws of the gamma distribution of a concentration and scale 1.

    `part` tells several draws from one key apart. The gradient is that of the draw of equal probability.
    """

    __slots__ = ("part",)
    part: int

    def __init__(self, key: Node, concentration: Node, to: Dims, part: int = 0) -> None:
        self._construct((key, concentration), to=to, part=part)

    def dtype_rule(self) -> np.dtype:
        dtype: np.dtype = self.parents[1].dtype
        return dtype

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> FloatArray:
        key, parameter = operands
        position, first, second = positions_of(key, shape)
        concentration = np.broadcast_to(parameter, shape).reshape(-1).astype(np.float64)
        small = concentration < 1.0
        with np.errstate(all="ignore"):
            boosted = np.where(small, concentration + 1.0, concentration)
            found, left = np.full(boosted.shape, np.nan), np.flatnonzero(concentration >= 0.0)
            for attempt in range(self.part * ATTEMPTS, (self.part + 1) * ATTEMPTS - 1):
                if not left.size:
                    break
                accepted, found[left] = gamma_attempt(position[left], first, second, attempt, boosted[left])
                left = left[~accepted]
            found = np.where(small, found - boost_at(position, first, second, self.part, concentration), found)
        return found.reshape(shape).astype(self.dtype)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return ZERO, gradient * LogGammaSlope(self.parents[1], self)


@LOOPS.register(StandardLogGamma)
class _StandardLogGammaLoops(_ParameterLoops):
    @staticmethod
    def kernel(key: IntegerArray, parameter: FloatArray, out: FloatArray, elements: int, part: int) -> None:
        position = np.int64(key[2]) * elements if key.size == 3 else 0
        for i in range(out.size):
            concentration = np.float64(parameter[i])
            if concentration >= 0.0:
                boosted = concentration + 1.0 if concentration < 1.0 else concentration
                attempt, last = part * ATTEMPTS, (part + 1) * ATTEMPTS - 2
                accepted, found = gamma_attempt(position, key[0], key[1], attempt, boosted)
                while attempt < last and not accepted:
                    attempt += 1
                    accepted, found = gamma_attempt(position, key[0], key[1], attempt, boosted)
                if concentration < 1.0:
                    found -= boost_at(position, key[0], key[1], part, concentration)
                out[i] = found
            else:
                out[i] = np.nan
            position += 1

    def kernel_arguments(self, node: StandardLogGamma, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        return *super().kernel_arguments(node, operands, out), node.part


JAX.register(StandardLogGamma)(gamma_draws_jax.StandardLogGammaForm)


class RandomPoisson(_ParameterDraws, IndexNode[Axes]):
    """Draws of Poisson distributions of given rates; a rate that is not above 0 gives 0."""

    __slots__ = ()

    def __init__(self, key: Node, rate: Node, to: Dims) -> None:
        self._construct((key, rate), to=to)

    def vjp(self, gradient: Any) -> tuple[Gradient, ...]:
        return ZERO, ZERO

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> IntegerArray:
        key, parameter = operands
        position, first, second = positions_of(key, shape)
        rate = np.broadcast_to(parameter, shape).reshape(-1).astype(np.float64)
        found = np.zeros(rate.shape)
        with np.errstate(all="ignore"):
            left = np.flatnonzero((rate > 0.0) & (rate < FEW))
            rest = uniform_at(position[left], first, second, np.float64(0.0))
            chance = np.exp(-rate[left])
            for k in range(1, MOST_OF_FEW):
                above = rest >= chance
                left, rest, chance = left[above], rest[above] - chance[above], chance[above]
                found[left] = k
                chance = chance * rate[left] / k
            left = np.flatnonzero(rate >= FEW)
            for attempt in range(ATTEMPTS):
                if not left.size:
                    break
                accepted, found[left] = poisson_attempt(position[left], first, second, attempt, rate[left])
                left = left[~accepted]
        return found.reshape(shape).astype(np.int64)


@LOOPS.register(RandomPoisson)
class _RandomPoissonLoops(_ParameterLoops):
    @staticmethod
    def kernel(key: IntegerArray, parameter: FloatArray, out: IntegerArray, elements: int) -> None:
        position = np.int64(key[2]) * elements if key.size == 3 else 0
        for i in range(out.size):
            rate = np.float64(parameter[i])
            out[i] = 0
            if rate >= FEW:
                attempt = 0
                accepted, found = poisson_attempt(position, key[0], key[1], attempt, rate)
                while attempt < ATTEMPTS - 1 and not accepted:
                    attempt += 1
                    accepted, found = poisson_attempt(position, key[0], key[1], attempt, rate)
                out[i] = np.int64(found)
            elif rate > 0.0:
                rest, chance, k = uniform_at(position, key[0], key[1], rate), np.exp(-rate), 0
                while k < MOST_OF_FEW - 1 and rest >= chance:
                    k += 1
                    rest -= chance
                    chance *= rate / k
                out[i] = k
            position += 1


JAX.register(RandomPoisson)(gamma_draws_jax.RandomPoissonForm)


__all__ = ["RandomPoisson", "StandardLogGamma"]

"""Draws whose distribution has a parameter: of gamma distributions, as logarithms, and of Poisson distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, unify
from wyrm.graph.base import ZERO, BaseNode, Gradient, format_dims
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.elementwise.gamma_slope import LogGammaSlope
from wyrm.ops.kernels.native import scratch
from wyrm.ops.kernels.sums import inlined, natural
from wyrm.ops.random.draws import KeyedDraws, KeyedLoops
from wyrm.ops.random.draws_jax import positions
from wyrm.ops.random.dropout import positions_of
from wyrm.ops.random.rejection import ATTEMPTS, boost_at, gamma_attempt, poisson_attempt
from wyrm.ops.random.standard_draws import uniform_at
from wyrm.reach.rules import REACH, Reach
from wyrm.reach.ways import How, Way, ways_by

# Rates below this are drawn by inversion.
FEW = 10.0
# No Poisson variable of a rate below `FEW` is larger: its probability is below 1e-60.
MOST_OF_FEW = 110
# The elements that a kernel draws at once.
_BLOCK = 256


class _ParameterDraws(KeyedDraws, abstract=True):
    """Base class of the draws from a key and a parameter that has the axes of the result."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        dims = super().shape_rule()
        parameter = self.parents[1].dims
        if len(parameter) != len(dims):
            raise ShapeError(f"the parameter must have the axes of the draws, {format_dims(dims)}")
        return tuple(map(unify, dims, parameter))

    def drawn_by_rows(self, operands: Sequence[Node], mapped: Sequence[bool], axis: Axis) -> BaseNode:
        key, parameter = operands
        whole = parameter if mapped[1] else parameter.broadcast_to((axis, *parameter.dims))
        return self.rebuild((key, whole), to=(axis, *self.to))


@REACH.register(_ParameterDraws)
class _ParameterReach(Reach):
    """A number is drawn by its place and its parameter."""

    def ways(self, node: _ParameterDraws) -> list[Way]:
        return ways_by(node, [(1, range(node.ndim))], {k: How.ANY if k else How.DRAWN for k in range(node.ndim)})


class _ParameterLoops(KeyedLoops, ByKernel):
    """The kernel of such draws.

    Its arguments are the key, the parameters, the result, the elements of a row, and memory for a block of draws.
    """

    def kernel_arguments(self, node: Any, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        memory = (scratch(_BLOCK, dtype) for dtype in (np.int64, np.int64, np.float64, np.float64))
        return operands[0], operands[1].reshape(-1), out.reshape(-1), math.prod(out.shape[1:]), *memory


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


def keep(left: IntegerArray, tried: int, accepted: IntegerArray, attempts: FloatArray, found: FloatArray) -> int:
    """Store the first `tried` attempts in `found`, and keep in `left` the elements whose attempt is not accepted.

    Attempt j is for element `left[j]`. Return the number of elements that are kept.
    """
    rest = 0
    for j in range(tried):
        i = natural(left[j])
        found[i] = attempts[j]
        left[rest] = i
        rest += 1 - accepted[j]
    return rest


def log_gamma_at(position: Any, first: Any, second: Any, part: int, parameter: np.floating) -> np.floating:
    """Return the draw of `log_gamma_kernel` at a position."""
    concentration = np.float64(parameter)
    if not concentration >= 0.0:
        return parameter.dtype.type(np.nan)
    boosted = concentration + 1.0 if concentration < 1.0 else concentration
    accepted, found, attempt = False, concentration, part * ATTEMPTS
    while not accepted and attempt <= (part + 1) * ATTEMPTS - 2:
        accepted, found = gamma_attempt(position, first, second, attempt, boosted)
        attempt += 1
    if concentration < 1.0:
        found -= boost_at(position, first, second, part, concentration)
    return parameter.dtype.type(found)


def log_gamma_kernel(
    part: int,
    key: IntegerArray,
    parameter: FloatArray,
    out: FloatArray,
    elements: int,
    left: IntegerArray,
    accepted: IntegerArray,
    attempts: FloatArray,
    found: FloatArray,
) -> None:
    """Draw for blocks of elements at once: the loops over a block have no branch, so that they are vectors.

    `left` holds the elements of a block without an accepted attempt.
    """
    first = np.int64(key[2]) * elements if key.size == 3 else 0
    for top in range(0, out.size, found.size):
        count = min(found.size, out.size - top)
        rest, small = 0, 0
        for i in range(count):
            concentration = np.float64(parameter[natural(top + i)])
            left[rest] = i
            rest += 1 if concentration >= 0.0 else 0
            small += 1 if concentration < 1.0 else 0
        attempt, last = part * ATTEMPTS, (part + 1) * ATTEMPTS - 2
        while rest > 0 and attempt <= last:
            for j in range(rest):
                i = natural(left[j])
                concentration = np.float64(parameter[natural(top + i)])
                boosted = concentration + 1.0 if concentration < 1.0 else concentration
                is_accepted, attempts[j] = gamma_attempt(first + top + i, key[0], key[1], attempt, boosted)
                accepted[j] = 1 if is_accepted else 0
            rest = keep(left, rest, accepted, attempts, found)
            attempt += 1
        if small > 0:
            for i in range(count):
                concentration = np.float64(parameter[natural(top + i)])
                boost = boost_at(first + top + i, key[0], key[1], part, concentration)
                found[i] -= boost if concentration < 1.0 else 0.0
        for i in range(count):
            concentration = np.float64(parameter[natural(top + i)])
            out[natural(top + i)] = found[i] if concentration >= 0.0 else np.nan


@LOOPS.register(StandardLogGamma)
class _StandardLogGammaLoops(_ParameterLoops):
    kernel = staticmethod(log_gamma_kernel)

    def kernel_arguments(self, node: StandardLogGamma, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        return node.part, *super().kernel_arguments(node, operands, out)


@JAX.register(StandardLogGamma)
class _StandardLogGammaForm(JaxForm):
    def own_gradient(self, node: Any) -> bool:
        return True  # JAX differentiates no loop of an unknown number of steps in reverse

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        key, concentration = operands
        position = positions(lowering, node, key, shape)
        return lowering.elementwise(log_gamma_at, position, key[0], key[1], node.part, concentration)


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


@inlined
def few_at(position: Any, first: Any, second: Any, rate: np.float64) -> np.float64:
    """Return a Poisson variable of a rate above 0 and below `FEW`, by inversion."""
    k, chance = np.float64(0.0), np.exp(-rate)
    over = uniform_at(position, first, second, rate)
    while k < MOST_OF_FEW - 1 and over >= chance:
        k += 1.0
        over -= chance
        chance *= rate / k
    return k


def poisson_at(position: Any, first: Any, second: Any, parameter: np.floating) -> np.int64:
    """Return the draw of `poisson_kernel` at a position."""
    rate = np.float64(parameter)
    if not rate > 0.0:
        return np.int64(0)
    if rate < FEW:
        return np.int64(few_at(position, first, second, rate))
    accepted, found, attempt = False, rate, 0
    while not accepted and attempt < ATTEMPTS:
        accepted, found = poisson_attempt(position, first, second, attempt, rate)
        attempt += 1
    return np.int64(found)


def poisson_kernel(
    key: IntegerArray,
    parameter: FloatArray,
    out: IntegerArray,
    elements: int,
    left: IntegerArray,
    accepted: IntegerArray,
    attempts: FloatArray,
    found: FloatArray,
) -> None:
    """Draw for blocks of elements at once, as `log_gamma_kernel`; small rates by inversion, one by one."""
    first = np.int64(key[2]) * elements if key.size == 3 else 0
    for top in range(0, out.size, found.size):
        count, rest = min(found.size, out.size - top), 0
        for i in range(count):
            rate = np.float64(parameter[natural(top + i)])
            left[rest] = i
            rest += 1 if rate >= FEW else 0
            found[i] = 0.0
        attempt = 0
        while rest > 0 and attempt < ATTEMPTS:
            for j in range(rest):
                i = natural(left[j])
                rate = np.float64(parameter[natural(top + i)])
                is_accepted, attempts[j] = poisson_attempt(first + top + i, key[0], key[1], attempt, rate)
                accepted[j] = 1 if is_accepted else 0
            rest = keep(left, rest, accepted, attempts, found)
            attempt += 1
        for i in range(count):
            rate = np.float64(parameter[natural(top + i)])
            is_small = rate > 0.0 and rate < FEW
            out[natural(top + i)] = np.int64(few_at(first + top + i, key[0], key[1], rate) if is_small else found[i])


@LOOPS.register(RandomPoisson)
class _RandomPoissonLoops(_ParameterLoops):
    kernel = staticmethod(poisson_kernel)


@JAX.register(RandomPoisson)
class _RandomPoissonForm(JaxForm):
    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        key, rate = operands
        return lowering.elementwise(poisson_at, positions(lowering, node, key, shape), key[0], key[1], rate)


__all__ = ["RandomPoisson", "StandardLogGamma"]

"""How gamma variables change with their concentration: the derivative of the quantile, elementwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.base import BaseNode, Gradient, Undefined
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import FloatArray
from wyrm.ops.elementwise.elementwise import Axes, Binary, Left_co, Right_co
from wyrm.ops.elementwise.special_arrays import special_function
from wyrm.reach.rules import REACH, SamePlace
from wyrm.support.imports import jax, jnp

# From this concentration on, the quantile is that of the cube of a normal variable (Wilson and Hilferty, 1931).
_LARGE = 1e6


class LogGammaSlope(Binary[Left_co, Right_co, Axes]):
    """Elementwise derivative of `log(x)` with respect to the concentration, for `x` of one probability of the gamma
    distribution; the operands are the concentration and `log(x)`.

    Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018). It has a gradient with respect to
    `log(x)` only.
    """

    __slots__ = ()
    _own: LogGammaSlope[Any, Any, Axes]

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        a, y = (np.broadcast_to(operand, shape).reshape(-1).astype(np.float64) for operand in operands)
        with np.errstate(all="ignore"):
            found = _slopes(a, y)
        return found.reshape(shape).astype(self.dtype)

    # A series and a continued fraction are no formula to derive.
    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        from wyrm.ops.elementwise.gamma import Digamma

        a, y = (parent.erase() for parent in self.parents)
        slope: Node = Digamma(a) - y - self * (a - y.exp())
        return Undefined("a gamma draw has a first derivative with respect to its concentration only"), gradient * slope


REACH.register(LogGammaSlope)(SamePlace())


def _slopes(a: FloatArray, y: FloatArray) -> FloatArray:
    """Return the slopes for arrays of one axis."""
    x = np.exp(y)
    found = np.full(a.shape, np.nan)
    known = (a > 0.0) & (x < np.inf)
    large = known & (a >= _LARGE)
    tail = known & ~large & (x > np.maximum(a, 1.0))
    series = known & ~large & ~tail
    found[series] = _by_series(a[series], x[series], y[series])
    found[tail] = _by_fraction(a[tail], x[tail], y[tail])
    cube = np.cbrt(x[large] / a[large])
    normal = 3.0 * np.sqrt(a[large]) * (cube - 1.0 + 1.0 / (9.0 * a[large]))
    found[large] = 1.0 / a[large] + (1.0 / (3.0 * a[large] ** 2) - normal / (2.0 * a[large] ** 1.5)) / cube
    return found


def _by_series(a: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the slopes from the power series of the lower incomplete gamma function (DLMF 8.7.1)."""
    r, term, total = a.copy(), np.ones(a.shape), np.ones(a.shape)
    slope_of_term, slope = np.zeros(a.shape), np.zeros(a.shape)
    for _ in range(20_000):
        r += 1.0
        ratio = x / r
        slope_of_term = (slope_of_term - term / r) * ratio
        slope += slope_of_term
        term = term * ratio
        total += term
        if not (np.abs(slope_of_term) > 1e-17 * np.abs(slope)).any():
            break
    result: FloatArray = -(slope + total * (y - special_function("digamma")(a + 1.0))) / a
    return result


def _by_fraction(a: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the slopes from the continued fraction of the upper incomplete gamma function (DLMF 8.9.2)."""
    b, z = 1.0 - a, x + 2.0 - a
    # Numerators, denominators and their derivatives of the last two convergents.
    before = [np.ones(a.shape), x.copy(), np.zeros(a.shape), np.zeros(a.shape)]
    last = [x + 1.0, z * x, np.zeros(a.shape), -x]
    value = last[0] / last[1]
    slope = (last[2] - value * last[3]) / last[1]
    for count in range(1, 20_000):
        b, z = b + 1.0, z + 2.0
        factor = b * count
        numerator, denominator = (last[i] * z - before[i] * factor for i in (0, 1))
        of_numerator, of_denominator = (
            last[2 + i] * z - last[i] - before[2 + i] * factor + before[i] * count for i in (0, 1)
        )
        value = numerator / denominator
        changed = (of_numerator - value * of_denominator) / denominator
        scale = np.where(np.abs(numerator) > 1e15, 1e-15, 1.0)
        before = [each * scale for each in last]
        last = [each * scale for each in (numerator, denominator, of_numerator, of_denominator)]
        moved, slope = np.abs(changed - slope), changed
        # The slope is a difference, and as uncertain as the rounding of its terms.
        if not (moved > 1e-15 * (np.abs(slope) + np.abs(of_numerator / denominator))).any():
            break
    result: FloatArray = slope + value * (y - special_function("digamma")(a))
    return result


@JAX.register(LogGammaSlope)
class _LogGammaSlopeForm(JaxForm):
    """`jax.lax.random_gamma_grad`; where `x` is so small that it would be lost, the first term of the series."""

    def own_gradient(self, node: Any) -> bool:
        return True  # JAX differentiates no loop of an unknown number of steps in reverse

    def lower(self, node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        a, y = (jnp.broadcast_to(operand, shape) for operand in operands)
        small = y < -30.0
        x = jnp.exp(jnp.where(small, 0.0, y))
        first = (jax.scipy.special.digamma(a + 1.0) - y) / a
        slope: Any = jax.lax.random_gamma_grad
        return jnp.where(small, first, slope(a, x) / x)

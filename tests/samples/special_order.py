"""Samples of incomplete gamma and beta functions and of Bessel functions of any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

import wyrm as wy
from tests.samples.sample import Sample, positive, unary
from wyrm.ops.elementwise import bessel, gamma
from wyrm.ops.elementwise.gamma_slope import LogGammaSlope


def _of_argument(op: type[Any], function: Callable[..., Any], *parameters: float) -> list[Sample]:
    """Return samples of an op that has a gradient with respect to the last operand only."""

    def build(x: Any) -> Any:
        operands = (*(wy.Constant(np.asarray(each, x.dtype)) for each in parameters), x)
        return op(operands) if op is gamma.BetaInc else op(*operands)

    return unary(op, lambda x: function(*parameters, x), lambda *shape: positive(*shape) / 2.5, build)


def _log_gamma_slope(a: float, y: Any) -> Any:
    """Return the slopes as integrals over `log(x) - log(t)` for t below x, by Gauss's rule in pieces."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    starts, width = np.linspace(0.0, 60.0, 61)[:-1, None], 1.0
    w, weights = (starts + width * 0.5 * (nodes + 1.0)).ravel(), np.tile(0.5 * width * weights, len(starts))
    y = np.asarray(y)[..., None]
    return (weights * np.exp(-a * w - np.exp(y) * np.expm1(-w)) * (special.digamma(a) - y + w)).sum(-1)


def samples() -> list[Sample]:
    orders = [
        (bessel.BesselJ, special.jv),
        (bessel.BesselY, special.yv),
        (bessel.BesselI, special.iv),
        (bessel.BesselIe, special.ive),
    ]
    samples = [
        *_of_argument(gamma.GammaInc, special.gammainc, 1.5),
        *_of_argument(gamma.GammaIncC, special.gammaincc, 1.5),
        *_of_argument(LogGammaSlope, _log_gamma_slope, 1.5),
        *_of_argument(gamma.BetaInc, special.betainc, 1.5, 2.5),
    ]
    for op, function in orders:
        samples += unary(op, lambda x, f=function: f(1.5, x), positive, lambda x, op=op: op(x, 1.5))
    return samples

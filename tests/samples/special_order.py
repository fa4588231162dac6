"""Samples of incomplete gamma and beta functions and of Bessel functions of any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

import wyrm as wy
from tests.samples.sample import Sample, positive, unary
from wyrm.ops.elementwise import bessel, gamma


def _of_argument(op: type[Any], function: Callable[..., Any], *parameters: float) -> list[Sample]:
    """Return samples of an op that has a gradient with respect to the last operand only."""

    def build(x: Any) -> Any:
        operands = (*(wy.Constant(np.asarray(each, x.dtype)) for each in parameters), x)
        return op(operands) if op is gamma.BetaInc else op(*operands)

    return unary(op, lambda x: function(*parameters, x), lambda *shape: positive(*shape) / 2.5, build)


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
        *_of_argument(gamma.BetaInc, special.betainc, 1.5, 2.5),
    ]
    for op, function in orders:
        samples += unary(op, lambda x, f=function: f(1.5, x), positive, lambda x, op=op: op(x, 1.5))
    return samples

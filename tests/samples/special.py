"""Samples of rounding, remainders, inverse functions, predicates, special functions, and arithmetic of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from tests.samples.sample import Sample, binary, distinct, integers, mask, normal, positive, unary
from wyrm.ops.elementwise import (
    arithmetic,
    bessel,
    comparison,
    exponential,
    gamma,
    probability,
    rounding,
    trigonometric,
)
from wyrm.ops.elementwise import (
    integers as index,
)
from wyrm.ops.elementwise.comparison import LogicalXor
from wyrm.ops.elementwise.conversion import Cast
from wyrm.ops.reducing import counting, positions


def _unit(*shape: int) -> Any:
    """Return elements from -0.9 to 0.9, away from 0."""
    return normal(*shape) / 1.9


def _probability(*shape: int) -> Any:
    return positive(*shape) / 2.2


def _above_one(*shape: int) -> Any:
    return positive(*shape) + 1.0


def _wide(*shape: int) -> Any:
    """Return elements of different quotients, away from whole ones."""
    return normal(*shape) * 3.0


def _mills(x: Any) -> Any:
    return np.exp(-0.5 * x * x - special.log_ndtr(x)) / np.sqrt(2.0 * np.pi)


def _index_samples() -> list[Sample]:
    pairs = [
        (index.IndexAdd, np.add),
        (index.IndexSubtract, np.subtract),
        (index.IndexMultiply, np.multiply),
        (index.IndexFloorDivide, np.floor_divide),
        (index.IndexRemainder, np.remainder),
        (index.IndexMaximum, np.maximum),
        (index.IndexMinimum, np.minimum),
    ]

    def whole(*shape: int) -> Any:
        return integers(19, *shape) - 9

    def divided(function: Any) -> Any:
        def of(x: Any, y: Any) -> Any:
            with np.errstate(divide="ignore"):
                return function(x, y)

        return of

    return [
        sample for op, function in pairs for sample in binary(op, divided(function), whole, whole, differentiable=False)
    ]


def _counts() -> list[Sample]:
    x = mask(2, 3, 4)
    first = Sample(
        positions.FirstTrue,
        positions.first_true,
        (x,),
        lambda x: np.where(x.any(-1), x.argmax(-1), x.shape[-1]),
        differentiable=False,
        empty=False,
    )
    counts = [
        Sample(
            counting.CountTrue,
            lambda x, a=axis, k=keepdims: counting.CountTrue(x, a, k),
            (x,),
            lambda x, a=axis, k=keepdims: np.sum(x, axis=a, keepdims=k),
            name=f"CountTrue-{axis}-{keepdims}",
            differentiable=False,
        )
        for axis, keepdims in [(None, False), (-1, False), (0, True), ((0, 2), False)]
    ]
    return [first, *counts]


def samples() -> list[Sample]:
    """Samples of the ops that construct functions, most of them."""
    t, p = trigonometric, probability
    return [
        *unary(rounding.Floor, np.floor, differentiable=False),
        *unary(rounding.Ceil, np.ceil, differentiable=False),
        *unary(rounding.Trunc, np.trunc, differentiable=False),
        *unary(rounding.Rint, np.rint, differentiable=False),
        *binary(arithmetic.FloorDivide, np.floor_divide, _wide, normal, differentiable=False),
        *binary(arithmetic.Remainder, np.remainder, _wide, normal),
        *binary(arithmetic.Fmod, np.fmod, _wide, normal),
        *unary(arithmetic.Cbrt, np.cbrt),
        *binary(t.Hypot, np.hypot),
        *binary(exponential.LogAddExp2, np.logaddexp2),
        *unary(t.Tan, np.tan, _unit),
        *unary(t.Arcsin, np.arcsin, _unit),
        *unary(t.Arccos, np.arccos, _unit),
        *unary(t.Arctan, np.arctan),
        *binary(t.Arctan2, np.arctan2),
        *unary(t.Arcsinh, np.arcsinh),
        *unary(t.Arccosh, np.arccosh, _above_one),
        *unary(t.Arctanh, np.arctanh, _unit),
        *unary(comparison.IsNan, np.isnan, differentiable=False),
        *unary(comparison.IsInf, np.isinf, differentiable=False),
        *unary(comparison.IsFinite, np.isfinite, differentiable=False),
        *unary(comparison.Signbit, np.signbit, differentiable=False),
        *binary(rounding.Copysign, np.copysign),
        *binary(rounding.Heaviside, np.heaviside, differentiable=False),
        *binary(rounding.Fmax, np.fmax, distinct, lambda *s: distinct(*s) + 0.1),
        *binary(rounding.Fmin, np.fmin, distinct, lambda *s: distinct(*s) + 0.1),
        *unary(gamma.GammaLn, special.gammaln, _wide),
        *unary(gamma.Gamma, special.gamma, positive),
        *unary(gamma.Digamma, special.digamma, positive),
        *unary(
            gamma.HurwitzZeta, lambda x: special.zeta(3.0, x), positive, lambda x: gamma.HurwitzZeta(x, 3.0)
        ),
        *binary(gamma.BetaLn, special.betaln, positive, positive),
        *binary(gamma.Beta, special.beta, positive, positive),
        *unary(p.Erfc, special.erfc),
        *unary(p.ErfInv, special.erfinv, _unit),
        *unary(p.Ndtr, special.ndtr),
        *unary(p.LogNdtr, special.log_ndtr, lambda *s: normal(*s) * 9.0),
        *unary(p.InverseMillsRatio, _mills),
        *unary(p.Ndtri, special.ndtri, _probability),
        *binary(p.Xlogy, special.xlogy, normal, positive),
        *binary(p.Xlog1py, special.xlog1py, normal, positive),
        *unary(p.Entr, special.entr, positive),
        *binary(p.RelEntr, special.rel_entr, positive, positive),
        *unary(p.Logit, special.logit, _probability),
        *unary(p.LogExpit, special.log_expit),
        *unary(bessel.I0, special.i0),
        *unary(bessel.I0e, special.i0e),
        *unary(bessel.I1, special.i1),
        *unary(bessel.I1e, special.i1e),
        *binary(LogicalXor, np.logical_xor, mask, mask, differentiable=False),
        *_index_samples(),
        *_counts(),
        Sample(
            Cast,
            lambda x: x.astype(np.float64),
            (integers(5, 3, 4),),
            lambda x: x.astype(np.float64),
            name="Cast-integers",
            differentiable=False,
        ),
    ]  # fmt: skip

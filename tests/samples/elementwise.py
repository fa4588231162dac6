"""Samples of arithmetic, exponentials, activations, comparisons and choices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

import wyrm as wy
from tests.samples.sample import Sample, binary, distinct, mask, normal, positive, unary
from wyrm.ops.control.pass_through import StopGradient
from wyrm.ops.elementwise import activation, arithmetic, comparison, exponential, probability, trigonometric
from wyrm.ops.elementwise.conversion import Cast


def _power_of_constant(exponent: float) -> Sample:
    return Sample(
        arithmetic.Power, lambda x: x**exponent, (positive(3, 4),), lambda x: x**exponent, name=f"Power-{exponent}"
    )


def sigmoid(x: Any) -> Any:
    return special.expit(x)


A, E, C = arithmetic, exponential, comparison


def samples() -> list[Sample]:
    return [
        *binary(A.Add, np.add),
        *binary(A.Subtract, np.subtract),
        *binary(A.Multiply, np.multiply),
        *binary(A.Divide, np.divide),
        *binary(A.Power, np.power, positive, normal),
        *map(_power_of_constant, (2.0, 3.0, 0.5, -1.0, 0.0, 1.0)),
        *binary(A.Maximum, np.maximum, distinct, lambda *s: distinct(*s) + 0.1),
        *binary(A.Minimum, np.minimum, distinct, lambda *s: distinct(*s) + 0.1),
        *unary(A.Negative, np.negative),
        *unary(A.Absolute, np.abs),
        *unary(A.Sign, np.sign),
        *unary(A.Square, np.square),
        *unary(A.Sqrt, np.sqrt, positive),
        *unary(A.Clip, lambda x: np.clip(x, -1.0, 1.01), distinct, lambda x: x.clip(-1.0, 1.01)),
        *unary(E.Exp, np.exp),
        *unary(E.Expm1, np.expm1),
        *unary(E.Exp2, np.exp2),
        *unary(E.Log, np.log, positive),
        *unary(E.Log2, np.log2, positive),
        *unary(E.Log10, np.log10, positive),
        *binary(E.LogAddExp, np.logaddexp),
        *unary(trigonometric.Sinh, np.sinh),
        *unary(trigonometric.Cosh, np.cosh),
        *unary(E.Log1p, np.log1p, positive),
        *unary(E.LimitedLog, np.log, positive),
        *unary(trigonometric.Sin, np.sin),
        *unary(trigonometric.Cos, np.cos),
        *unary(trigonometric.Tanh, np.tanh),
        *unary(activation.Sigmoid, sigmoid),
        *unary(activation.Softplus, lambda x: np.logaddexp(x, 0.0)),
        *unary(probability.Erf, special.erf),
        *unary(activation.Relu, lambda x: np.maximum(x, 0.0)),
        *unary(activation.LeakyRelu, lambda x: np.where(x > 0, x, 0.2 * x), normal, lambda x: x.leaky_relu(0.2)),
        *unary(activation.Elu, lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)), normal, lambda x: x.elu(0.7)),
        *unary(activation.Silu, lambda x: x * sigmoid(x)),
        *unary(activation.Gelu, lambda x: x * special.ndtr(x), normal, lambda x: x.gelu()),
        *unary(
            activation.GeluTanh,
            lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
            normal,
            lambda x: x.gelu(approximate=True),
        ),
        *binary(C.Less, np.less, differentiable=False),
        *binary(C.LessEqual, np.less_equal, differentiable=False),
        *binary(C.Greater, np.greater, differentiable=False),
        *binary(C.GreaterEqual, np.greater_equal, differentiable=False),
        *binary(C.Equal, np.equal, differentiable=False),
        *binary(C.NotEqual, np.not_equal, differentiable=False),
        *binary(C.LogicalAnd, np.logical_and, mask, mask, differentiable=False),
        *binary(C.LogicalOr, np.logical_or, mask, mask, differentiable=False),
        *unary(C.LogicalNot, np.logical_not, mask, differentiable=False),
        Sample(
            C.Where,
            wy.where,
            (mask(3, 4), normal(3, 4), normal(3, 4)),
            np.where,
            misfit=(mask(3, 4), normal(3, 4), normal(3, 5)),
        ),
        Sample(C.Where, wy.where, (mask(3, 1), normal(4), normal()), np.where, name="Where-broadcast", empty=False),
        Sample(
            Cast,
            lambda x: x.astype(np.float64),
            (mask(3, 4),),
            lambda x: x.astype(np.float64),
            name="Cast-mask",
            differentiable=False,
        ),
        Sample(Cast, lambda x: x.astype(x.dtype), (normal(3, 4),), lambda x: x),
        Sample(StopGradient, lambda x: x.stop_gradient(), (normal(3, 4),), lambda x: x, differentiable=False),
    ]

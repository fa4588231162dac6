"""Samples of every registered op, for the tests that run over all ops.

A sample has the op, a function that builds it from leaves, the operands as float64, bool or integer arrays, and a NumPy
function of the expected value. Values stay away from kinks and ties, where finite differences are wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

import wyrm as wy
from tests.attention_samples import attention_samples
from tests.convolution_samples import convolution_samples
from tests.ctc_samples import ctc_samples
from tests.cumulative_samples import cumulative_samples
from tests.elementwise_samples import elementwise_samples
from tests.fused_samples import fused_samples
from tests.gated_recurrent_samples import gated_recurrent_samples
from tests.gather_samples import gather_samples
from tests.integer_samples import integer_samples
from tests.label_samples import label_samples
from tests.linalg_samples import linalg_samples
from tests.linear_cross_entropy_samples import linear_cross_entropy_samples
from tests.normalization_samples import normalization_samples
from tests.pass_through_samples import passing_samples
from tests.pooling_samples import pooling_samples
from tests.prod_samples import prod_samples
from tests.random_samples import random_samples
from tests.recurrent_samples import recurrent_samples
from tests.sampling import Sample, binary, distinct, integers, mask, normal, positive, reducing, unary
from tests.scan_samples import scan_samples
from tests.segment_samples import segment_samples
from tests.sorting_samples import sorting_samples
from tests.special_order_samples import special_order_samples
from wyrm.ops.cross_entropy import softmax
from wyrm.ops.elementwise import activation, arithmetic, comparison, exponential
from wyrm.ops.indexing import index, slicing, take_along_axis
from wyrm.ops.products import einsum, product
from wyrm.ops.random.dropout import Dropout
from wyrm.ops.random.philox import STEP
from wyrm.ops.random.sampling import RandomIndex
from wyrm.ops.reducing import argmax, base, reduction
from wyrm.ops.shaping import shape, transpose


def _power_of_constant(exponent: float) -> Sample:
    return Sample(
        arithmetic.Power, lambda x: x**exponent, (positive(3, 4),), lambda x: x**exponent, name=f"Power-{exponent}"
    )


def _matmul(*shapes: tuple[int, ...]) -> Sample:
    left, right = shapes
    wrong = normal(*right[:-2], right[-2] + 1, right[-1]) if len(right) > 1 else normal(right[0] + 1)
    return Sample(
        product.MatMul,
        product.MatMul,
        (normal(*left), normal(*right)),
        np.matmul,
        name=f"MatMul-{left}-{right}",
        empty=False,
        misfit=(normal(*left), wrong),
    )


def _einsum(subscripts: str, left: tuple[int, ...], right: tuple[int, ...]) -> Sample:
    return Sample(
        einsum.Einsum,
        lambda x, y: wy.einsum(subscripts, x, y),
        (normal(*left), normal(*right)),
        lambda x, y: np.einsum(subscripts, x, y),
        name=f"Einsum-{subscripts}",
        empty=False,
        misfit=(normal(*left), normal(*right[:-1], right[-1] + 1, 2)),
    )


def _slice(key: Any, name: str) -> Sample:
    return Sample(
        slicing.Slice, lambda x: x[key], (normal(4, 5, 3),), lambda x: x[key], name=f"Slice-{name}", empty=False
    )


def _log_softmax(x: Any, axis: int = -1) -> Any:
    return special.log_softmax(x, axis=axis)


def _cross_entropy(logits: Any, labels: Any) -> Any:
    return -np.take_along_axis(_log_softmax(logits), labels[..., None], -1)[..., 0]


def _scatter(x: Any, rows: Any, values: Any) -> Any:
    result = x.copy()
    np.add.at(result, rows, values)
    return result


def _place_along(x: Any, indices: Any, axis: int, to: tuple[int, ...]) -> Any:
    result = np.zeros(to, x.dtype)
    for position in np.ndindex(*indices.shape):
        target = list(position)
        target[axis] = indices[position]
        result[tuple(target)] += x[position]
    return result


def _dense_rows(gradient: Any, rows: Any, to: tuple[int, ...]) -> Any:
    return _scatter(np.zeros(to, gradient.dtype), rows.ravel(), gradient.reshape(-1, *to[1:]))


def _placed(x: Any) -> Any:
    result = np.zeros((4, 6), x.dtype)
    result[1:3, ::2] = x
    return result


def _negatives(users: Any, dims: tuple[int, ...] = (3, 4), **options: Any) -> Any:
    known = (np.array([0, 2, 2, 5]), np.array([1, 4, 0, 2, 6]))
    return wy.random.index(7, dims, known=known, rows=users, seed=3, stream=5, **options)


def _drawn(node: Any) -> Any:
    return node.evaluate(np, *(parent.value for parent in node.parents), shape=node.shape)


def sigmoid(x: Any) -> Any:
    return special.expit(x)


A, E, C = arithmetic, exponential, comparison

SAMPLES: list[Sample] = [
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
    *unary(E.Sinh, np.sinh),
    *unary(E.Cosh, np.cosh),
    *unary(E.Log1p, np.log1p, positive),
    *unary(E.LimitedLog, np.log, positive),
    *unary(E.Sin, np.sin),
    *unary(E.Cos, np.cos),
    *unary(E.Tanh, np.tanh),
    *unary(E.Sigmoid, sigmoid),
    *unary(E.Softplus, lambda x: np.logaddexp(x, 0.0)),
    *unary(E.Erf, special.erf),
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
        C.Cast,
        lambda x: x.astype(np.float64),
        (mask(3, 4),),
        lambda x: x.astype(np.float64),
        name="Cast-mask",
        differentiable=False,
    ),
    Sample(C.Cast, lambda x: x.astype(x.dtype), (normal(3, 4),), lambda x: x),
    Sample(C.StopGradient, lambda x: x.stop_gradient(), (normal(3, 4),), lambda x: x, differentiable=False),
    *reducing(reduction.Sum, np.sum, empty=True),
    *reducing(reduction.Mean, np.mean),
    *reducing(reduction.Max, np.max),
    *reducing(reduction.Min, np.min),
    *reducing(reduction.LogSumExp, special.logsumexp),
    *cumulative_samples(),
    *integer_samples(),
    *sorting_samples(),
    *gather_samples(),
    *prod_samples(),
    *random_samples(),
    *reducing(reduction.Variance, np.var),
    *reducing(reduction.Variance, np.var, ddof=1),
    *reducing(reduction.Std, np.std),
    *reducing(reduction.Std, np.std, ddof=1),
    Sample(
        base.Count,
        lambda x: base.Count(x, (0, 2)),
        (normal(2, 3, 4),),
        lambda x: np.asarray(8.0, x.dtype),
        differentiable=False,
        empty=False,
    ),
    Sample(argmax.ArgMax, lambda x: x.argmax(-1), (distinct(3, 4),), lambda x: np.argmax(x, -1), differentiable=False),
    Sample(
        argmax.ArgMax,
        lambda x: x.argmax(0, keepdims=True),
        (distinct(3, 4),),
        lambda x: np.argmax(x, 0, keepdims=True),
        name="ArgMax-0",
        differentiable=False,
        empty=False,
    ),
    *(
        _matmul(a, b)
        for a, b in [
            ((3,), (3,)),
            ((3,), (3, 2)),
            ((2, 3), (3,)),
            ((2, 3), (3, 4)),
            ((5, 2, 3), (3, 4)),
            ((5, 2, 3), (3,)),
            ((3,), (5, 3, 4)),
            ((5, 2, 3), (5, 3, 4)),
            ((1, 2, 3), (5, 3, 4)),
            ((2, 3), (5, 3, 4)),
            ((2, 5, 2, 3), (2, 5, 3, 4)),
            ((2, 1, 2, 3), (5, 3, 4)),
        ]
    ),
    Sample(
        product.VectorDot,
        product.VectorDot,
        (normal(5, 3), normal(5, 3)),
        lambda x, y: (x * y).sum(-1),
        misfit=(normal(5, 3), normal(5, 2)),
    ),
    Sample(
        product.VectorDot,
        product.VectorDot,
        (normal(3), normal(5, 3)),
        lambda x, y: (x * y).sum(-1),
        name="VectorDot-broadcast",
        empty=False,
    ),
    _einsum("ij,jk->ik", (2, 3), (3, 4)),
    _einsum("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
    _einsum("ij,k->j", (2, 3), (4,)),
    _einsum("ij,jk", (2, 3), (3, 4)),
    _einsum("i,j->ij", (2,), (3,)),
    Sample(
        shape.Reshape,
        lambda x: x.reshape(4, -1),
        (normal(2, 6),),
        lambda x: x.reshape(4, -1),
        empty=False,
        misfit=(normal(3, 3),),
    ),
    Sample(
        shape.IndexReshape,
        lambda i: i.reshape(2, 6),
        (integers(5, 3, 4),),
        lambda i: i.reshape(2, 6),
        differentiable=False,
        empty=False,
        misfit=(integers(5, 3, 3),),
    ),
    Sample(
        transpose.Transpose,
        lambda x: x.transpose(2, 0, 1),
        (normal(2, 3, 4),),
        lambda x: x.transpose(2, 0, 1),
        misfit=(normal(2, 3),),
    ),
    Sample(transpose.Transpose, lambda x: x.T, (normal(2, 3),), lambda x: x.T, name="Transpose-T"),
    Sample(
        transpose.IndexTranspose,
        lambda x: x.transpose(2, 0, 1),
        (integers(9, 2, 3, 4),),
        lambda x: x.transpose(2, 0, 1),
        differentiable=False,
    ),
    Sample(
        transpose.Transpose,
        lambda x: x.swapaxes(0, -1),
        (normal(2, 3, 4),),
        lambda x: x.swapaxes(0, -1),
        name="Transpose-swap",
    ),
    Sample(
        shape.BroadcastTo,
        lambda x: x.broadcast_to((5, 3, 4)),
        (normal(3, 1),),
        lambda x: np.broadcast_to(x, (5, 3, 4)),
        empty=False,
        misfit=(normal(3, 2),),
    ),
    Sample(
        shape.WithSizes, lambda x, y: shape.WithSizes(x, [y]), (normal(3, 4), normal(5)), lambda x, y: x, empty=False
    ),
    _slice((slice(1, 3), Ellipsis), "range"),
    _slice((2,), "number"),
    _slice((-1, slice(None), 0), "numbers"),
    _slice((slice(None, None, -2), None, slice(None), slice(0, 2)), "step"),
    _slice((1, 2, 0), "element"),
    Sample(slicing.IndexSlice, lambda i: i[:, 1:], (integers(5, 3, 4),), lambda i: i[:, 1:], differentiable=False),
    Sample(
        slicing.PlaceSlice,
        lambda x: slicing.PlaceSlice(x, ((1, 3, None), (None, None, 2)), (4, 6)),
        (normal(2, 3),),
        _placed,
        empty=False,
    ),
    Sample(
        slicing.Concatenate,
        lambda *p: wy.concatenate(p, axis=1),
        (normal(2, 3), normal(2, 1), normal(2, 2)),
        lambda *p: np.concatenate(p, axis=1),
        misfit=(normal(2, 3), normal(3, 1), normal(2, 2)),
    ),
    Sample(
        slicing.Stack,
        lambda *p: wy.stack(p, axis=1),
        (normal(2, 3), normal(2, 3)),
        lambda *p: np.stack(p, axis=1),
        misfit=(normal(2, 3), normal(2, 4)),
    ),
    Sample(index.Index, index.Index, (normal(5, 3), np.array([4, 0, 4])), lambda t, i: t[i], empty=False),
    Sample(
        index.Index, index.Index, (normal(5, 3), integers(5, 2, 3)), lambda t, i: t[i], name="Index-2d", empty=False
    ),
    Sample(
        index.Index,
        lambda t, i: t.take(i, axis=0),
        (normal(5, 3), integers(10, 2) - 5),
        lambda t, i: t.take(i, axis=0),
        name="Index-take",
        empty=False,
    ),
    Sample(
        index.RowGradient,
        lambda g, i: index.RowGradient(g, i, (5, 3)),
        (normal(4, 3), np.array([4, 0, 4, 1])),
        lambda g, i: _dense_rows(g, i, (5, 3)),
        empty=False,
    ),
    Sample(
        index.JoinRows,
        lambda x, y, i: index.JoinRows(index.RowGradient(x, i, (5, 3)), index.RowGradient(y, i, (5, 3))),
        (normal(4, 3), normal(4, 3), np.array([4, 0, 4, 1])),
        lambda x, y, i: _dense_rows(x + y, i, (5, 3)),
        empty=False,
    ),
    Sample(
        take_along_axis.TakeAlongAxis,
        lambda x, i: x.take_along_axis(i, axis=1),
        (normal(3, 5), integers(5, 3, 2)),
        lambda x, i: np.take_along_axis(x, i, 1),
        misfit=(normal(3, 5), integers(5, 4, 2)),
    ),
    Sample(
        take_along_axis.PlaceAlongAxis,
        lambda x, i: take_along_axis.PlaceAlongAxis(x, i, 1, (3, 5)),
        (normal(3, 2), integers(5, 3, 2)),
        lambda x, i: _place_along(x, i, 1, (3, 5)),
        empty=False,
    ),
    Sample(
        index.ScatterAdd,
        lambda x, i, v: x.scatter_add(i, v),
        (normal(5, 3), np.array([1, 1, 4]), normal(3, 3)),
        _scatter,
        empty=False,
        misfit=(normal(5, 3), np.array([1, 1, 4]), normal(3, 2)),
    ),
    Sample(softmax.Softmax, lambda x: x.softmax(), (normal(3, 4),), lambda x: special.softmax(x, -1)),
    Sample(
        softmax.Softmax,
        lambda x: x.softmax(axis=0),
        (normal(3, 4),),
        lambda x: special.softmax(x, 0),
        name="Softmax-0",
        empty=False,
    ),
    Sample(softmax.LogSoftmax, lambda x: x.log_softmax(), (normal(3, 4),), _log_softmax),
    Sample(
        softmax.CrossEntropy,
        lambda x, i: x.cross_entropy(i),
        (normal(3, 4), integers(4, 3)),
        lambda x, i: _cross_entropy(x, i).mean(),
        empty=False,
        misfit=(normal(3, 4), integers(4, 2)),
    ),
    Sample(
        softmax.CrossEntropy,
        lambda x, i: x.cross_entropy(i, reduction="sum"),
        (normal(2, 3, 4), integers(4, 2, 3)),
        lambda x, i: _cross_entropy(x, i).sum(),
        name="CrossEntropy-sum",
        empty=False,
    ),
    Sample(
        softmax.CrossEntropy,
        lambda x, i: x.cross_entropy(i, reduction="none"),
        (normal(2, 3, 4), integers(4, 2, 3)),
        _cross_entropy,
        name="CrossEntropy-none",
        empty=False,
    ),
    Sample(
        softmax.CrossEntropyCount,
        lambda x, i: softmax.CrossEntropyCount(i, x.dtype),
        (normal(), integers(4, 3)),
        lambda x, i: np.asarray(3.0),
        differentiable=False,
        empty=False,
    ),
    Sample(
        softmax.CrossEntropyGradient,
        softmax.CrossEntropyGradient,
        (positive(3, 4), integers(4, 3), normal(3)),
        lambda p, i, w: (p - np.eye(4)[i]) * w[:, None],
        empty=False,
    ),
    Sample(
        Dropout,
        lambda x: Dropout(x, 0.4, 3, 5),
        (normal(3, 4),),
        lambda x: Dropout(wy.Constant(x), 0.4, 3, 5).evaluate(np, x, int(STEP.value), shape=x.shape),
        tags=frozenset(["random"]),
    ),
    Sample(
        RandomIndex,
        lambda: wy.random.index(7, (3, 5), seed=3, stream=5),
        (),
        lambda: _drawn(wy.random.index(7, (3, 5), seed=3, stream=5)),
        differentiable=False,
        empty=False,
        tags=frozenset(["random"]),
    ),
    Sample(
        RandomIndex,
        _negatives,
        (integers(3, 3, 4),),
        lambda users: _drawn(_negatives(wy.IndexConstant(users))),
        name="RandomIndex-known",
        differentiable=False,
        empty=False,
        misfit=(integers(3, 3, 5),),
        tags=frozenset(["random"]),
    ),
    Sample(
        RandomIndex,
        lambda users: _negatives(users, weights=np.arange(7.0)),
        (integers(3, 3, 4),),
        lambda users: _drawn(_negatives(wy.IndexConstant(users), weights=np.arange(7.0))),
        name="RandomIndex-weights",
        differentiable=False,
        empty=False,
        tags=frozenset(["random"]),
    ),
    *elementwise_samples(),
    *recurrent_samples(),
    *gated_recurrent_samples(),
    *segment_samples(),
    *ctc_samples(),
    *label_samples(),
    *attention_samples(),
    *linalg_samples(),
    *linear_cross_entropy_samples(),
    *normalization_samples(),
    *fused_samples(),
    *convolution_samples(),
    *pooling_samples(),
    *scan_samples(),
    *special_order_samples(),
    *passing_samples(),
]

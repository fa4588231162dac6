# The methods of nodes.
#
# Written by `python -m wyrm.declare` from the ops, which bind the methods themselves; edit those, not this file. A
# class is called like the one that inherits it, for mypy's messages name the class that declares a method.

# ruff: noqa: E501  # the first lines of descriptions stay whole
# mypy: disable-error-code="overload-overlap, misc, override"
# pyright: reportIncompatibleMethodOverride=false
# (the overload for an unknown shape overlaps with those for known ones, and stands first on purpose; that only nodes
# inherit these methods, the types of `self` do not know; `==` makes a mask of a node or a number, where that of
# `object` takes anything and gives a bool)
from collections.abc import Sequence
from typing import Any, Literal, overload

from numpy.typing import DTypeLike

from wyrm.node.leaves import Constant
from wyrm.node.node import IndexNode as _IndexNode
from wyrm.node.node import Node as _Node
from wyrm.ops.activation import Elu, Gelu, GeluTanh, LeakyRelu, Relu, Silu
from wyrm.ops.arithmetic import Absolute, Clip, Maximum, Minimum, Sign, Sqrt, Square
from wyrm.ops.comparison import Cast, Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual, StopGradient
from wyrm.ops.dropout import AddDropout, Dropout
from wyrm.ops.elementwise import L, R, S
from wyrm.ops.exponential import Cos, Erf, Exp, Expm1, Log, Log1p, Sigmoid, Sin, Softplus, Tanh
from wyrm.ops.fused import Embed, LinearGelu
from wyrm.ops.index import Index, ScatterAdd, TakeAlongAxis
from wyrm.ops.normalization import LayerNorm, RMSNorm
from wyrm.ops.product import VectorDot
from wyrm.ops.reduction import ArgMax, AxisLike, LogSumExp, Max, Mean, Min, Sum, Variance
from wyrm.ops.shape import BroadcastTo, IndexReshape, Reshape, Transpose
from wyrm.ops.slicing import All, Concatenate, IndexSlice, Key_, Slice
from wyrm.ops.softmax import CrossEntropy, LogSoftmax, Softmax
from wyrm.types.dims import Axis, One, Plus
from wyrm.types.typing import (
    D1,
    D2,
    D3,
    D4,
    A,
    AnyShape,
    Array,
    AtLeast1D,
    AtLeast2D,
    Bs,
    FittingShape,
    Indices,
    IntegerArray,
    K,
    M,
    N,
    Number,
    Shaped,
    Size,
    Sizes,
)

class Node:
    """What ops give to `Node`, which is the `x` of these descriptions."""

    def relu(self: Shaped[L, S]) -> Relu[L, S]:
        """The larger of `x` and 0; its derivative at 0 is 0."""

    def leaky_relu(self: Shaped[L, S], negative_slope: float = 0.01) -> LeakyRelu[L, S]:
        """`x` where positive, else `negative_slope * x`."""

    def elu(self: Shaped[L, S], alpha: float = 1.0) -> Elu[L, S]:
        """`x` where positive, else `alpha * (e ** x - 1)`."""

    def silu(self: Shaped[L, S]) -> Silu[L, S]:
        """`x * sigmoid(x)`, also known as swish."""

    @overload
    def gelu(self: Shaped[L, S], approximate: Literal[False] = False) -> Gelu[L, S]: ...
    @overload
    def gelu(self: Shaped[L, S], approximate: Literal[True]) -> GeluTanh[L, S]:
        """`x` times the normal distribution function of `x`; `approximate=True` takes the tanh form of GPT-2."""

    @overload
    def maximum(self: Shaped[L, S], other: Number | Array) -> Maximum[L, Constant[Any], S]: ...
    @overload
    def maximum(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Maximum[L, R, Any]: ...
    @overload
    def maximum(self: Shaped[L, FittingShape], other: Shaped[R, S]) -> Maximum[L, R, Any]: ...
    @overload
    def maximum(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Maximum[L, R, S]: ...
    @overload
    def maximum(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Maximum[L, R, S]: ...
    @overload
    def maximum(
        self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
    ) -> Maximum[L, R, tuple[*Bs, N]]: ...
    @overload
    def maximum(
        self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]] | Shaped[R, tuple[*Bs, One]]
    ) -> Maximum[L, R, tuple[*Bs, N]]: ...
    @overload
    def maximum(
        self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, N]]
    ) -> Maximum[L, R, tuple[*Bs, N]]: ...
    @overload
    def maximum(
        self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
    ) -> Maximum[L, R, tuple[*Bs, M, N]]: ...
    @overload
    def maximum(
        self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
    ) -> Maximum[L, R, tuple[*Bs, M, N]]: ...
    @overload
    def maximum(self: Shaped[L, tuple[M, One]], other: Shaped[R, tuple[One, N]]) -> Maximum[L, R, tuple[M, N]]: ...
    @overload
    def maximum(self: Shaped[L, tuple[One, N]], other: Shaped[R, tuple[M, One]]) -> Maximum[L, R, tuple[M, N]]: ...
    @overload
    def maximum(self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[One, N]]) -> Maximum[L, R, tuple[*Bs, N]]: ...
    @overload
    def maximum(self: Shaped[L, tuple[One, N]], other: Shaped[R, tuple[*Bs, N]]) -> Maximum[L, R, tuple[*Bs, N]]: ...
    @overload
    def maximum(
        self: Shaped[L, S], other: Shaped[R, tuple[One, M, N, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
    ) -> Maximum[L, R, Any]: ...
    @overload
    def maximum(self: Shaped[L, tuple[One, M, N, *Bs]], other: Shaped[R, S]) -> Maximum[L, R, Any]: ...
    @overload
    def maximum(self: Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]) -> Maximum[L, R, Any]:
        """The larger of two; equal operands share the gradient half and half."""

    @overload
    def minimum(self: Shaped[L, S], other: Number | Array) -> Minimum[L, Constant[Any], S]: ...
    @overload
    def minimum(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Minimum[L, R, Any]: ...
    @overload
    def minimum(self: Shaped[L, FittingShape], other: Shaped[R, S]) -> Minimum[L, R, Any]: ...
    @overload
    def minimum(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Minimum[L, R, S]: ...
    @overload
    def minimum(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Minimum[L, R, S]: ...
    @overload
    def minimum(
        self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
    ) -> Minimum[L, R, tuple[*Bs, N]]: ...
    @overload
    def minimum(
        self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]] | Shaped[R, tuple[*Bs, One]]
    ) -> Minimum[L, R, tuple[*Bs, N]]: ...
    @overload
    def minimum(
        self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, N]]
    ) -> Minimum[L, R, tuple[*Bs, N]]: ...
    @overload
    def minimum(
        self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
    ) -> Minimum[L, R, tuple[*Bs, M, N]]: ...
    @overload
    def minimum(
        self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
    ) -> Minimum[L, R, tuple[*Bs, M, N]]: ...
    @overload
    def minimum(self: Shaped[L, tuple[M, One]], other: Shaped[R, tuple[One, N]]) -> Minimum[L, R, tuple[M, N]]: ...
    @overload
    def minimum(self: Shaped[L, tuple[One, N]], other: Shaped[R, tuple[M, One]]) -> Minimum[L, R, tuple[M, N]]: ...
    @overload
    def minimum(self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[One, N]]) -> Minimum[L, R, tuple[*Bs, N]]: ...
    @overload
    def minimum(self: Shaped[L, tuple[One, N]], other: Shaped[R, tuple[*Bs, N]]) -> Minimum[L, R, tuple[*Bs, N]]: ...
    @overload
    def minimum(
        self: Shaped[L, S], other: Shaped[R, tuple[One, M, N, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
    ) -> Minimum[L, R, Any]: ...
    @overload
    def minimum(self: Shaped[L, tuple[One, M, N, *Bs]], other: Shaped[R, S]) -> Minimum[L, R, Any]: ...
    @overload
    def minimum(self: Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]) -> Minimum[L, R, Any]:
        """The smaller of two; equal operands share the gradient half and half."""

    def abs(self: Shaped[L, S]) -> Absolute[L, S]:
        """`|x|`; its derivative at 0 is 0."""

    def sign(self: Shaped[L, S]) -> Sign[L, S]:
        """-1, 0 or 1; flat wherever it is smooth."""

    def square(self: Shaped[L, S]) -> Square[L, S]:
        """`x * x`."""

    def sqrt(self: Shaped[L, S]) -> Sqrt[L, S]:
        """The square root; NaN for negative `x`."""

    def clip(self: Shaped[L, S], min: float | None = None, max: float | None = None) -> Clip[L, S]:
        """`x` limited to `min`..`max`, either of which may be left out. `ValueError` where min > max."""

    @overload
    def equal(self: Shaped[L, S], other: Number | Array) -> Equal[L, Constant[Any], S]: ...
    @overload
    def equal(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Equal[L, R, Any]: ...
    @overload
    def equal(self: Shaped[L, FittingShape], other: Shaped[R, S]) -> Equal[L, R, Any]: ...
    @overload
    def equal(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Equal[L, R, S]: ...
    @overload
    def equal(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Equal[L, R, S]: ...
    @overload
    def equal(
        self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
    ) -> Equal[L, R, tuple[*Bs, N]]: ...
    @overload
    def equal(
        self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]] | Shaped[R, tuple[*Bs, One]]
    ) -> Equal[L, R, tuple[*Bs, N]]: ...
    @overload
    def equal(
        self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, N]]
    ) -> Equal[L, R, tuple[*Bs, N]]: ...
    @overload
    def equal(self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]) -> Equal[L, R, tuple[*Bs, M, N]]: ...
    @overload
    def equal(self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]) -> Equal[L, R, tuple[*Bs, M, N]]: ...
    @overload
    def equal(self: Shaped[L, tuple[M, One]], other: Shaped[R, tuple[One, N]]) -> Equal[L, R, tuple[M, N]]: ...
    @overload
    def equal(self: Shaped[L, tuple[One, N]], other: Shaped[R, tuple[M, One]]) -> Equal[L, R, tuple[M, N]]: ...
    @overload
    def equal(self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[One, N]]) -> Equal[L, R, tuple[*Bs, N]]: ...
    @overload
    def equal(self: Shaped[L, tuple[One, N]], other: Shaped[R, tuple[*Bs, N]]) -> Equal[L, R, tuple[*Bs, N]]: ...
    @overload
    def equal(
        self: Shaped[L, S], other: Shaped[R, tuple[One, M, N, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
    ) -> Equal[L, R, Any]: ...
    @overload
    def equal(self: Shaped[L, tuple[One, M, N, *Bs]], other: Shaped[R, S]) -> Equal[L, R, Any]: ...
    @overload
    def equal(self: Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]) -> Equal[L, R, Any]:
        """`x == y`."""

    @overload
    def not_equal(self: Shaped[L, S], other: Number | Array) -> NotEqual[L, Constant[Any], S]: ...
    @overload
    def not_equal(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> NotEqual[L, R, Any]: ...
    @overload
    def not_equal(self: Shaped[L, FittingShape], other: Shaped[R, S]) -> NotEqual[L, R, Any]: ...
    @overload
    def not_equal(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> NotEqual[L, R, S]: ...
    @overload
    def not_equal(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> NotEqual[L, R, S]: ...
    @overload
    def not_equal(
        self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
    ) -> NotEqual[L, R, tuple[*Bs, N]]: ...
    @overload
    def not_equal(
        self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]] | Shaped[R, tuple[*Bs, One]]
    ) -> NotEqual[L, R, tuple[*Bs, N]]: ...
    @overload
    def not_equal(
        self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, N]]
    ) -> NotEqual[L, R, tuple[*Bs, N]]: ...
    @overload
    def not_equal(
        self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
    ) -> NotEqual[L, R, tuple[*Bs, M, N]]: ...
    @overload
    def not_equal(
        self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
    ) -> NotEqual[L, R, tuple[*Bs, M, N]]: ...
    @overload
    def not_equal(self: Shaped[L, tuple[M, One]], other: Shaped[R, tuple[One, N]]) -> NotEqual[L, R, tuple[M, N]]: ...
    @overload
    def not_equal(self: Shaped[L, tuple[One, N]], other: Shaped[R, tuple[M, One]]) -> NotEqual[L, R, tuple[M, N]]: ...
    @overload
    def not_equal(self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[One, N]]) -> NotEqual[L, R, tuple[*Bs, N]]: ...
    @overload
    def not_equal(self: Shaped[L, tuple[One, N]], other: Shaped[R, tuple[*Bs, N]]) -> NotEqual[L, R, tuple[*Bs, N]]: ...
    @overload
    def not_equal(
        self: Shaped[L, S], other: Shaped[R, tuple[One, M, N, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
    ) -> NotEqual[L, R, Any]: ...
    @overload
    def not_equal(self: Shaped[L, tuple[One, M, N, *Bs]], other: Shaped[R, S]) -> NotEqual[L, R, Any]: ...
    @overload
    def not_equal(self: Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]) -> NotEqual[L, R, Any]:
        """`x != y`."""

    def astype(self: Shaped[L, S], dtype: DTypeLike) -> Cast[L, S]:
        """The same numbers as float32 or float64; a mask becomes zeros and ones."""

    def stop_gradient(self: Shaped[L, S]) -> StopGradient[L, S]:
        """`x`, taken as a constant by every gradient."""

    def dropout(self: Shaped[L, S], rate: float, seed: int = 0, stream: int | None = None) -> Dropout[L, S]:
        """Elements set to zero with probability `rate` (0 <= rate < 1), the rest divided by `1 - rate`."""

    def add_dropout(
        self: Shaped[L, S], addition: Shaped[R, S] | Array, rate: float, seed: int = 0, stream: int | None = None
    ) -> AddDropout[L, R, S]:
        """This node plus `addition.dropout(rate, seed, stream)`, as at the end of a residual block, in one pass."""

    def exp(self: Shaped[L, S]) -> Exp[L, S]:
        """`e ** x`."""

    def expm1(self: Shaped[L, S]) -> Expm1[L, S]:
        """`e ** x - 1`, exact near 0."""

    def log(self: Shaped[L, S]) -> Log[L, S]:
        """The natural logarithm; -inf at 0, NaN below."""

    def log1p(self: Shaped[L, S]) -> Log1p[L, S]:
        """`log(1 + x)`, exact near 0."""

    def sin(self: Shaped[L, S]) -> Sin[L, S]:
        """The sine of `x` radians."""

    def cos(self: Shaped[L, S]) -> Cos[L, S]:
        """The cosine of `x` radians."""

    def tanh(self: Shaped[L, S]) -> Tanh[L, S]:
        """The hyperbolic tangent."""

    def sigmoid(self: Shaped[L, S]) -> Sigmoid[L, S]:
        """`1 / (1 + e ** -x)`, finite everywhere."""

    def softplus(self: Shaped[L, S]) -> Softplus[L, S]:
        """`log(1 + e ** x)`, without overflow."""

    def erf(self: Shaped[L, S]) -> Erf[L, S]:
        """The error function (Abramowitz and Stegun 7.1.1)."""

    @overload
    def linear_gelu(
        self: Shaped[L, AtLeast1D], weight: Shaped[Any, Any] | Array, bias: Any = None, approximate: bool = False
    ) -> LinearGelu[L, Any]: ...
    @overload
    def linear_gelu(
        self: Shaped[L, tuple[*Bs, M]],
        weight: Shaped[Any, tuple[M, N]],
        bias: Shaped[Any, tuple[N]] | Array | None = None,
        approximate: bool = False,
    ) -> LinearGelu[L, tuple[*Bs, N]]:
        """`(x @ weight + bias).gelu(approximate)` as one node; see `LinearGelu` for the axes and the errors."""

    @overload
    def embed(
        self: Shaped[L, AtLeast1D], indices: _IndexNode[Any] | Indices, positions: Shaped[Any, Any] | Array
    ) -> Embed[L, Any]: ...
    @overload
    def embed(
        self: Shaped[L, tuple[M, N]], indices: _IndexNode[tuple[*Bs]], positions: Shaped[Any, tuple[K, N]]
    ) -> Embed[L, tuple[*Bs, N]]:
        """The rows that `indices`, (..., time), name, plus the first rows of `positions`, (context, width); see `Embed`."""

    @overload
    def take(self: Shaped[L, AtLeast1D], indices: _IndexNode[Any] | Indices, axis: int = 0) -> _Node[Any, Any]: ...
    @overload
    def take(self: Shaped[L, S], indices: _IndexNode[AnyShape], axis: int = 0) -> _Node[Any, Any]: ...
    @overload
    def take(
        self: Shaped[L, tuple[N, K]], indices: _IndexNode[tuple[*Bs]], axis: Literal[0] = 0
    ) -> Index[L, _IndexNode[tuple[*Bs]], tuple[*Bs, K]]: ...
    @overload
    def take(
        self: Shaped[L, tuple[N]], indices: _IndexNode[tuple[*Bs]], axis: Literal[0] = 0
    ) -> Index[L, _IndexNode[tuple[*Bs]], tuple[*Bs]]: ...
    @overload
    def take(
        self: Shaped[L, tuple[N, K, M]], indices: _IndexNode[tuple[*Bs]], axis: Literal[0] = 0
    ) -> Index[L, _IndexNode[tuple[*Bs]], tuple[*Bs, K, M]]: ...
    @overload
    def take(self: Shaped[L, tuple[N, *Bs]], indices: _IndexNode[Any] | Indices, axis: int = 0) -> _Node[Any, Any]:
        """The elements that `indices` choose along `axis`, the first one unless given. `IndexOutOfRange` where it ends."""

    @overload
    def take_along_axis(
        self: Shaped[L, AtLeast1D], indices: _IndexNode[Any] | Indices, axis: int | None = -1
    ) -> TakeAlongAxis[L, _IndexNode[Any], Any]: ...
    @overload
    def take_along_axis(
        self: Shaped[L, tuple[*Bs, N]], indices: _IndexNode[AnyShape], axis: int = -1
    ) -> TakeAlongAxis[L, _IndexNode[Any], Any]: ...
    @overload
    def take_along_axis(
        self: Shaped[L, tuple[*Bs, N]], indices: _IndexNode[tuple[*Bs, M]], axis: Literal[-1] = -1
    ) -> TakeAlongAxis[L, _IndexNode[tuple[*Bs, M]], tuple[*Bs, M]]: ...
    @overload
    def take_along_axis(
        self: Shaped[L, tuple[N, *Bs]], indices: _IndexNode[tuple[M, *Bs]], axis: Literal[0]
    ) -> TakeAlongAxis[L, _IndexNode[tuple[M, *Bs]], tuple[M, *Bs]]: ...
    @overload
    def take_along_axis(
        self: Shaped[L, tuple[N, *Bs]], indices: Indices, axis: int | None = -1
    ) -> TakeAlongAxis[L, _IndexNode[Any], Any]:
        """One element per index along `axis`, the other axes in step, as `numpy.take_along_axis`."""

    def scatter_add(
        self: Shaped[L, S], indices: _IndexNode[Any] | Indices, values: _Node[Any, Any] | Array
    ) -> ScatterAdd[L, _Node[Any, Any], S]:
        """This node with `values[i]` added to row `indices[i]`; a row named twice gets both."""

    @overload
    def layer_norm(
        self: Shaped[L, AtLeast1D], weight: Shaped[Any, Any] | Array, bias: Any = None, epsilon: float = 1e-05
    ) -> LayerNorm[L, Any]: ...
    @overload
    def layer_norm(
        self: Shaped[L, tuple[*Bs, N]],
        weight: Shaped[Any, tuple[N]] | Array,
        bias: Shaped[Any, tuple[N]] | Array | None = None,
        epsilon: float = 1e-05,
    ) -> LayerNorm[L, tuple[*Bs, N]]:
        """`(x - mean) / sqrt(variance + epsilon) * weight + bias` over the last axis, which `weight` and `bias` have."""

    @overload
    def rms_norm(
        self: Shaped[L, AtLeast1D], weight: Shaped[Any, Any] | Array, epsilon: float = 1e-05
    ) -> RMSNorm[L, Any]: ...
    @overload
    def rms_norm(
        self: Shaped[L, tuple[*Bs, N]], weight: Shaped[Any, tuple[N]] | Array, epsilon: float = 1e-05
    ) -> RMSNorm[L, tuple[*Bs, N]]:
        """`x / sqrt(mean(x ** 2) + epsilon) * weight` over the last axis, which `weight` has."""

    @overload
    def vector_dot(self: Shaped[L, AtLeast1D], other: Shaped[R, S]) -> VectorDot[L, R, Any]: ...
    @overload
    def vector_dot(self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, FittingShape]) -> VectorDot[L, R, Any]: ...
    @overload
    def vector_dot(self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[*Bs, N]]) -> VectorDot[L, R, tuple[*Bs]]: ...
    @overload
    def vector_dot(self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]]) -> VectorDot[L, R, tuple[*Bs]]: ...
    @overload
    def vector_dot(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> VectorDot[L, R, tuple[*Bs]]: ...
    @overload
    def vector_dot(self: Shaped[L, tuple[*Bs, N]], other: Array) -> VectorDot[L, Constant[Any], Any]:
        """The dot products of corresponding rows: `sum(x * other, axis=-1)`."""

    @overload
    def sum(self: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False) -> Sum[L, tuple[()]]: ...
    @overload
    def sum(self: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False) -> Sum[L, Any]: ...
    @overload
    def sum(self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[True]) -> Sum[L, tuple[*Bs, One]]: ...
    @overload
    def sum(
        self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False
    ) -> Sum[L, tuple[*Bs]]: ...
    @overload
    def sum(
        self: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False
    ) -> Sum[L, tuple[*Bs]]: ...
    @overload
    def sum(self: Shaped[L, tuple[N, *Bs]], axis: AxisLike = None, keepdims: bool = False) -> Sum[L, Any]:
        """The sum of the elements."""

    @overload
    def mean(self: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False) -> Mean[L, tuple[()]]: ...
    @overload
    def mean(self: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False) -> Mean[L, Any]: ...
    @overload
    def mean(
        self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[True]
    ) -> Mean[L, tuple[*Bs, One]]: ...
    @overload
    def mean(
        self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False
    ) -> Mean[L, tuple[*Bs]]: ...
    @overload
    def mean(
        self: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False
    ) -> Mean[L, tuple[*Bs]]: ...
    @overload
    def mean(self: Shaped[L, tuple[N, *Bs]], axis: AxisLike = None, keepdims: bool = False) -> Mean[L, Any]:
        """The mean of the elements."""

    @overload
    def max(self: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False) -> Max[L, tuple[()]]: ...
    @overload
    def max(self: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False) -> Max[L, Any]: ...
    @overload
    def max(self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[True]) -> Max[L, tuple[*Bs, One]]: ...
    @overload
    def max(
        self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False
    ) -> Max[L, tuple[*Bs]]: ...
    @overload
    def max(
        self: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False
    ) -> Max[L, tuple[*Bs]]: ...
    @overload
    def max(self: Shaped[L, tuple[N, *Bs]], axis: AxisLike = None, keepdims: bool = False) -> Max[L, Any]:
        """The largest element; equal ones share the gradient."""

    @overload
    def min(self: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False) -> Min[L, tuple[()]]: ...
    @overload
    def min(self: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False) -> Min[L, Any]: ...
    @overload
    def min(self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[True]) -> Min[L, tuple[*Bs, One]]: ...
    @overload
    def min(
        self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False
    ) -> Min[L, tuple[*Bs]]: ...
    @overload
    def min(
        self: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False
    ) -> Min[L, tuple[*Bs]]: ...
    @overload
    def min(self: Shaped[L, tuple[N, *Bs]], axis: AxisLike = None, keepdims: bool = False) -> Min[L, Any]:
        """The smallest element; equal ones share the gradient."""

    @overload
    def logsumexp(
        self: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False
    ) -> LogSumExp[L, tuple[()]]: ...
    @overload
    def logsumexp(self: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False) -> LogSumExp[L, Any]: ...
    @overload
    def logsumexp(
        self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[True]
    ) -> LogSumExp[L, tuple[*Bs, One]]: ...
    @overload
    def logsumexp(
        self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False
    ) -> LogSumExp[L, tuple[*Bs]]: ...
    @overload
    def logsumexp(
        self: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False
    ) -> LogSumExp[L, tuple[*Bs]]: ...
    @overload
    def logsumexp(self: Shaped[L, tuple[N, *Bs]], axis: AxisLike = None, keepdims: bool = False) -> LogSumExp[L, Any]:
        """`log(sum(exp(x)))`, without overflow."""

    @overload
    def var(
        self: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False, ddof: int = 0
    ) -> Variance[L, tuple[()]]: ...
    @overload
    def var(
        self: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False, ddof: int = 0
    ) -> Variance[L, Any]: ...
    @overload
    def var(
        self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[True], ddof: int = 0
    ) -> Variance[L, tuple[*Bs, One]]: ...
    @overload
    def var(
        self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False, ddof: int = 0
    ) -> Variance[L, tuple[*Bs]]: ...
    @overload
    def var(
        self: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False, ddof: int = 0
    ) -> Variance[L, tuple[*Bs]]: ...
    @overload
    def var(
        self: Shaped[L, tuple[N, *Bs]], axis: AxisLike = None, keepdims: bool = False, ddof: int = 0
    ) -> Variance[L, Any]:
        """The mean squared distance from the mean, divided by `n - ddof`."""

    @overload
    def argmax(self: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False) -> ArgMax[tuple[()]]: ...
    @overload
    def argmax(self: Shaped[L, AtLeast1D], axis: int | None = None, keepdims: bool = False) -> _IndexNode[Any]: ...
    @overload
    def argmax(
        self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False
    ) -> ArgMax[tuple[*Bs]]: ...
    @overload
    def argmax(
        self: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False
    ) -> ArgMax[tuple[*Bs]]: ...
    @overload
    def argmax(self: Shaped[L, tuple[N, *Bs]], axis: int, keepdims: bool = False) -> ArgMax[Any]: ...
    @overload
    def argmax(self: Shaped[L, tuple[N, *Bs]], axis: None = None, *, keepdims: bool) -> _IndexNode[Any]:
        """The position of the largest element along `axis`, of all elements without one; the first of equal ones."""

    @overload
    def reshape(self: Shaped[L, S], shape: Sizes, /) -> Reshape[L, Any]: ...
    @overload
    def reshape(self: Shaped[L, S], shape: tuple[D1 | int], /) -> Reshape[L, tuple[D1]]: ...
    @overload
    def reshape(self: Shaped[L, S], shape: tuple[D1 | int, D2 | int], /) -> Reshape[L, tuple[D1, D2]]: ...
    @overload
    def reshape(self: Shaped[L, S], shape: tuple[D1 | int, D2 | int, D3 | int], /) -> Reshape[L, tuple[D1, D2, D3]]: ...
    @overload
    def reshape(
        self: Shaped[L, S], shape: tuple[D1 | int, D2 | int, D3 | int, D4 | int], /
    ) -> Reshape[L, tuple[D1, D2, D3, D4]]: ...
    @overload
    def reshape(
        self: Shaped[L, S], shape: tuple[Axis, Axis, Axis, Axis, Axis, *tuple[Axis, ...]], /
    ) -> Reshape[L, Any]: ...
    @overload
    def reshape(self: Shaped[L, S], a: Size, b: Size, c: Size, /, *more: Size) -> Reshape[L, Any]: ...
    @overload
    def reshape(self: Shaped[L, S], a: D1 | int, /) -> Reshape[L, tuple[D1]]: ...
    @overload
    def reshape(self: Shaped[L, S], a: D1 | int, b: D2 | int, /) -> Reshape[L, tuple[D1, D2]]: ...
    @overload
    def reshape(self: Shaped[L, S], a: D1 | int, b: D2 | int, c: D3 | int, /) -> Reshape[L, tuple[D1, D2, D3]]: ...
    @overload
    def reshape(
        self: Shaped[L, S], a: D1 | int, b: D2 | int, c: D3 | int, d: D4 | int, /
    ) -> Reshape[L, tuple[D1, D2, D3, D4]]: ...
    @overload
    def reshape(self: Shaped[L, S], a: Axis, b: Axis, c: Axis, d: Axis, e: Axis, /, *more: Axis) -> Reshape[L, Any]:
        """The same elements under other axes; one of them may be -1. Named axes keep the type checker informed."""

    @overload
    def transpose(self: Shaped[L, AtLeast1D], *axes: int | Sequence[int]) -> Transpose[L, Any]: ...
    @overload
    def transpose(self: Shaped[L, tuple[M, N]]) -> Transpose[L, tuple[N, M]]: ...
    @overload
    def transpose(self: Shaped[L, tuple[A, M, N]]) -> Transpose[L, tuple[N, M, A]]: ...
    @overload
    def transpose(
        self: Shaped[L, tuple[A, M, N]], a: Literal[0], m: Literal[2], n: Literal[1], /
    ) -> Transpose[L, tuple[A, N, M]]: ...
    @overload
    def transpose(
        self: Shaped[L, tuple[A, M, N]], a: Literal[1], m: Literal[0], n: Literal[2], /
    ) -> Transpose[L, tuple[M, A, N]]: ...
    @overload
    def transpose(
        self: Shaped[L, tuple[A, M, N, K]], a: Literal[0], m: Literal[2], n: Literal[1], k: Literal[3], /
    ) -> Transpose[L, tuple[A, N, M, K]]: ...
    @overload
    def transpose(self: Shaped[L, S], *axes: int | Sequence[int]) -> Transpose[L, Any]:
        """The axes in another order, reversed where none is given."""

    @overload
    def swapaxes(self: Shaped[L, AtLeast2D], axis1: int, axis2: int) -> Transpose[L, Any]: ...
    @overload
    def swapaxes(
        self: Shaped[L, tuple[*Bs, M, N]], axis1: Literal[-1], axis2: Literal[-2]
    ) -> Transpose[L, tuple[*Bs, N, M]]: ...
    @overload
    def swapaxes(
        self: Shaped[L, tuple[*Bs, M, N]], axis1: Literal[-2], axis2: Literal[-1]
    ) -> Transpose[L, tuple[*Bs, N, M]]: ...
    @overload
    def swapaxes(
        self: Shaped[L, tuple[M, N, *Bs]], axis1: Literal[0], axis2: Literal[1]
    ) -> Transpose[L, tuple[N, M, *Bs]]: ...
    @overload
    def swapaxes(
        self: Shaped[L, tuple[A, M, N, *Bs]], axis1: Literal[1], axis2: Literal[2]
    ) -> Transpose[L, tuple[A, N, M, *Bs]]: ...
    @overload
    def swapaxes(self: Shaped[L, tuple[M, *Bs]], axis1: int, axis2: int) -> Transpose[L, Any]:
        """Two axes exchanged."""

    @overload
    def matrix_transpose(self: Shaped[L, AtLeast2D]) -> Transpose[L, Any]: ...
    @overload
    def matrix_transpose(self: Shaped[L, tuple[*Bs, M, N]]) -> Transpose[L, tuple[*Bs, N, M]]:
        """The last two axes exchanged; `.mT` for short."""

    @overload
    def broadcast_to(self: Shaped[L, S], shape: Sizes) -> BroadcastTo[L, Any]: ...
    @overload
    def broadcast_to(self: Shaped[L, S], shape: tuple[D1 | int]) -> BroadcastTo[L, tuple[D1]]: ...
    @overload
    def broadcast_to(self: Shaped[L, S], shape: tuple[D1 | int, D2 | int]) -> BroadcastTo[L, tuple[D1, D2]]: ...
    @overload
    def broadcast_to(
        self: Shaped[L, S], shape: tuple[D1 | int, D2 | int, D3 | int]
    ) -> BroadcastTo[L, tuple[D1, D2, D3]]: ...
    @overload
    def broadcast_to(
        self: Shaped[L, S], shape: tuple[D1 | int, D2 | int, D3 | int, D4 | int]
    ) -> BroadcastTo[L, tuple[D1, D2, D3, D4]]: ...
    @overload
    def broadcast_to(
        self: Shaped[L, S], shape: tuple[Axis, Axis, Axis, Axis, Axis, *tuple[Axis, ...]]
    ) -> BroadcastTo[L, Any]:
        """The operand repeated to `shape`."""

    @overload
    def expand_dims(self: Shaped[L, AnyShape], axis: AxisLike) -> Reshape[L, Any]: ...
    @overload
    def expand_dims(self: Shaped[L, tuple[*Bs]], axis: Literal[-1]) -> Reshape[L, tuple[*Bs, One]]: ...
    @overload
    def expand_dims(self: Shaped[L, S], axis: AxisLike) -> Reshape[L, Any]:
        """Axes of size 1 put in, at these positions of the result."""

    @overload
    def squeeze(self: Shaped[L, AtLeast1D], axis: AxisLike = None) -> Reshape[L, Any]: ...
    @overload
    def squeeze(self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1]) -> Reshape[L, tuple[*Bs]]: ...
    @overload
    def squeeze(self: Shaped[L, tuple[N, *Bs]], axis: Literal[0]) -> Reshape[L, tuple[*Bs]]: ...
    @overload
    def squeeze(self: Shaped[L, S], axis: AxisLike = None) -> Reshape[L, Any]:
        """Axes of size 1 taken out: all of them, or those named. `ShapeError` for one of another size."""

    def ravel(self: Shaped[L, S]) -> Reshape[L, tuple[Any]]:
        """All elements on one axis."""

    @overload
    def concat(self: Shaped[L, AtLeast1D], other: Shaped[R, S]) -> Concatenate[tuple[L, R], Any]: ...
    @overload
    def concat(
        self: Shaped[L, tuple[*Bs, M]], other: Shaped[R, FittingShape]
    ) -> Concatenate[tuple[L, R], tuple[*Bs, Any]]: ...
    @overload
    def concat(
        self: Shaped[L, tuple[*Bs, M]], other: Shaped[R, tuple[*Bs, N]]
    ) -> Concatenate[tuple[L, R], tuple[*Bs, Plus[M, N]]]:
        """This node and another along the last axis, whose name becomes `Plus[M, N]`."""

    @overload
    def split(self: Shaped[L, AtLeast1D], sections: int | Sequence[int], axis: int = 0) -> list[Slice[L, Any]]: ...
    @overload
    def split(
        self: Shaped[L, tuple[N, *Bs]], sections: int | Sequence[int], axis: Literal[0] = 0
    ) -> list[Slice[L, tuple[Any, *Bs]]]: ...
    @overload
    def split(
        self: Shaped[L, tuple[*Bs, N]], sections: int | Sequence[int], axis: Literal[-1]
    ) -> list[Slice[L, tuple[*Bs, Any]]]: ...
    @overload
    def split(self: Shaped[L, S], sections: int | Sequence[int], axis: int = 0) -> list[Slice[L, Any]]:
        """The node in equal `sections`, or cut at these positions, along `axis`; `ShapeError` where it does not divide."""

    def softmax(self: Shaped[L, S], axis: int = -1) -> Softmax[L, S]:
        """`exp(x) / sum(exp(x))` along `axis`, without overflow."""

    def log_softmax(self: Shaped[L, S], axis: int = -1) -> LogSoftmax[L, S]:
        """`x - logsumexp(x)` along `axis`, without overflow."""

    @overload
    def cross_entropy(
        self: Shaped[L, tuple[*Bs, N]],
        labels: _IndexNode[tuple[*Bs]] | IntegerArray,
        *,
        reduction: Literal["mean", "sum"] = "mean",
    ) -> CrossEntropy[L, tuple[()]]: ...
    @overload
    def cross_entropy(
        self: Shaped[L, tuple[*Bs, N]], labels: _IndexNode[tuple[*Bs]] | IntegerArray, *, reduction: Literal["none"]
    ) -> CrossEntropy[L, tuple[*Bs]]:
        """`-log softmax(logits)[label]` over the last axis, `labels` of the other axes; its `predictions()` are free."""

class Parameter:
    """What ops give to `Parameter`, which is the `x` of these descriptions."""

    @overload
    def index(self: Shaped[L, AtLeast1D], indices: _IndexNode[Any] | Indices) -> Index[L, _IndexNode[Any], Any]: ...
    @overload
    def index(self: Shaped[L, tuple[N, *Bs]], indices: _IndexNode[AnyShape]) -> Index[L, _IndexNode[Any], Any]: ...
    @overload
    def index(
        self: Shaped[L, tuple[N, K]], indices: _IndexNode[tuple[*Bs]]
    ) -> Index[L, _IndexNode[tuple[*Bs]], tuple[*Bs, K]]: ...
    @overload
    def index(
        self: Shaped[L, tuple[N]], indices: _IndexNode[tuple[*Bs]]
    ) -> Index[L, _IndexNode[tuple[*Bs]], tuple[*Bs]]: ...
    @overload
    def index(
        self: Shaped[L, tuple[N, K, M]], indices: _IndexNode[tuple[*Bs]]
    ) -> Index[L, _IndexNode[tuple[*Bs]], tuple[*Bs, K, M]]: ...
    @overload
    def index(self: Shaped[L, tuple[N, *Bs]], indices: Indices) -> Index[L, _IndexNode[Any], Any]:
        """The rows that `indices` choose; the gradient holds only those rows. `IndexOutOfRange` at `set`."""

class IndexNode:
    """What ops give to `IndexNode`, which is the `x` of these descriptions."""

    @overload
    def __lt__(self: _IndexNode[S], other: Size | IntegerArray) -> Less[Any, Any, S]: ...
    @overload
    def __lt__(self: _IndexNode[S], other: _IndexNode[FittingShape]) -> Less[Any, Any, Any]: ...
    @overload
    def __lt__(self: _IndexNode[S], other: _IndexNode[S] | _IndexNode[tuple[()]]) -> Less[Any, Any, S]: ...
    @overload
    def __lt__(self: _IndexNode[tuple[()]], other: _IndexNode[S]) -> Less[Any, Any, S]: ...
    @overload
    def __lt__(
        self: _IndexNode[tuple[*Bs, N]], other: _IndexNode[tuple[N]] | _IndexNode[tuple[*Bs, One]]
    ) -> Less[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __lt__(self: _IndexNode[tuple[N]], other: _IndexNode[tuple[*Bs, N]]) -> Less[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __lt__(self: _IndexNode[tuple[*Bs, One]], other: _IndexNode[tuple[*Bs, N]]) -> Less[Any, Any, tuple[*Bs, N]]:
        """`x < y`."""

    @overload
    def __le__(self: _IndexNode[S], other: Size | IntegerArray) -> LessEqual[Any, Any, S]: ...
    @overload
    def __le__(self: _IndexNode[S], other: _IndexNode[FittingShape]) -> LessEqual[Any, Any, Any]: ...
    @overload
    def __le__(self: _IndexNode[S], other: _IndexNode[S] | _IndexNode[tuple[()]]) -> LessEqual[Any, Any, S]: ...
    @overload
    def __le__(self: _IndexNode[tuple[()]], other: _IndexNode[S]) -> LessEqual[Any, Any, S]: ...
    @overload
    def __le__(
        self: _IndexNode[tuple[*Bs, N]], other: _IndexNode[tuple[N]] | _IndexNode[tuple[*Bs, One]]
    ) -> LessEqual[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __le__(self: _IndexNode[tuple[N]], other: _IndexNode[tuple[*Bs, N]]) -> LessEqual[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __le__(
        self: _IndexNode[tuple[*Bs, One]], other: _IndexNode[tuple[*Bs, N]]
    ) -> LessEqual[Any, Any, tuple[*Bs, N]]:
        """`x <= y`."""

    @overload
    def __gt__(self: _IndexNode[S], other: Size | IntegerArray) -> Greater[Any, Any, S]: ...
    @overload
    def __gt__(self: _IndexNode[S], other: _IndexNode[FittingShape]) -> Greater[Any, Any, Any]: ...
    @overload
    def __gt__(self: _IndexNode[S], other: _IndexNode[S] | _IndexNode[tuple[()]]) -> Greater[Any, Any, S]: ...
    @overload
    def __gt__(self: _IndexNode[tuple[()]], other: _IndexNode[S]) -> Greater[Any, Any, S]: ...
    @overload
    def __gt__(
        self: _IndexNode[tuple[*Bs, N]], other: _IndexNode[tuple[N]] | _IndexNode[tuple[*Bs, One]]
    ) -> Greater[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __gt__(self: _IndexNode[tuple[N]], other: _IndexNode[tuple[*Bs, N]]) -> Greater[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __gt__(self: _IndexNode[tuple[*Bs, One]], other: _IndexNode[tuple[*Bs, N]]) -> Greater[Any, Any, tuple[*Bs, N]]:
        """`x > y`."""

    @overload
    def __ge__(self: _IndexNode[S], other: Size | IntegerArray) -> GreaterEqual[Any, Any, S]: ...
    @overload
    def __ge__(self: _IndexNode[S], other: _IndexNode[FittingShape]) -> GreaterEqual[Any, Any, Any]: ...
    @overload
    def __ge__(self: _IndexNode[S], other: _IndexNode[S] | _IndexNode[tuple[()]]) -> GreaterEqual[Any, Any, S]: ...
    @overload
    def __ge__(self: _IndexNode[tuple[()]], other: _IndexNode[S]) -> GreaterEqual[Any, Any, S]: ...
    @overload
    def __ge__(
        self: _IndexNode[tuple[*Bs, N]], other: _IndexNode[tuple[N]] | _IndexNode[tuple[*Bs, One]]
    ) -> GreaterEqual[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __ge__(
        self: _IndexNode[tuple[N]], other: _IndexNode[tuple[*Bs, N]]
    ) -> GreaterEqual[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __ge__(
        self: _IndexNode[tuple[*Bs, One]], other: _IndexNode[tuple[*Bs, N]]
    ) -> GreaterEqual[Any, Any, tuple[*Bs, N]]:
        """`x >= y`."""

    @overload
    def __eq__(self: _IndexNode[S], other: Size | IntegerArray) -> Equal[Any, Any, S]: ...
    @overload
    def __eq__(self: _IndexNode[S], other: _IndexNode[FittingShape]) -> Equal[Any, Any, Any]: ...
    @overload
    def __eq__(self: _IndexNode[S], other: _IndexNode[S] | _IndexNode[tuple[()]]) -> Equal[Any, Any, S]: ...
    @overload
    def __eq__(self: _IndexNode[tuple[()]], other: _IndexNode[S]) -> Equal[Any, Any, S]: ...
    @overload
    def __eq__(
        self: _IndexNode[tuple[*Bs, N]], other: _IndexNode[tuple[N]] | _IndexNode[tuple[*Bs, One]]
    ) -> Equal[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __eq__(self: _IndexNode[tuple[N]], other: _IndexNode[tuple[*Bs, N]]) -> Equal[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __eq__(self: _IndexNode[tuple[*Bs, One]], other: _IndexNode[tuple[*Bs, N]]) -> Equal[Any, Any, tuple[*Bs, N]]:
        """`x == y`."""

    @overload
    def __ne__(self: _IndexNode[S], other: Size | IntegerArray) -> NotEqual[Any, Any, S]: ...
    @overload
    def __ne__(self: _IndexNode[S], other: _IndexNode[FittingShape]) -> NotEqual[Any, Any, Any]: ...
    @overload
    def __ne__(self: _IndexNode[S], other: _IndexNode[S] | _IndexNode[tuple[()]]) -> NotEqual[Any, Any, S]: ...
    @overload
    def __ne__(self: _IndexNode[tuple[()]], other: _IndexNode[S]) -> NotEqual[Any, Any, S]: ...
    @overload
    def __ne__(
        self: _IndexNode[tuple[*Bs, N]], other: _IndexNode[tuple[N]] | _IndexNode[tuple[*Bs, One]]
    ) -> NotEqual[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __ne__(self: _IndexNode[tuple[N]], other: _IndexNode[tuple[*Bs, N]]) -> NotEqual[Any, Any, tuple[*Bs, N]]: ...
    @overload
    def __ne__(
        self: _IndexNode[tuple[*Bs, One]], other: _IndexNode[tuple[*Bs, N]]
    ) -> NotEqual[Any, Any, tuple[*Bs, N]]:
        """`x != y`."""

    @overload
    def reshape(self: _IndexNode[Any], shape: Sizes, /) -> IndexReshape[Any]: ...
    @overload
    def reshape(self: _IndexNode[Any], shape: tuple[D1 | int], /) -> IndexReshape[tuple[D1]]: ...
    @overload
    def reshape(self: _IndexNode[Any], shape: tuple[D1 | int, D2 | int], /) -> IndexReshape[tuple[D1, D2]]: ...
    @overload
    def reshape(
        self: _IndexNode[Any], shape: tuple[D1 | int, D2 | int, D3 | int], /
    ) -> IndexReshape[tuple[D1, D2, D3]]: ...
    @overload
    def reshape(self: _IndexNode[Any], a: Size, b: Size, c: Size, /, *more: Size) -> IndexReshape[Any]: ...
    @overload
    def reshape(self: _IndexNode[Any], a: D1 | int, /) -> IndexReshape[tuple[D1]]: ...
    @overload
    def reshape(self: _IndexNode[Any], a: D1 | int, b: D2 | int, /) -> IndexReshape[tuple[D1, D2]]: ...
    @overload
    def reshape(self: _IndexNode[Any], a: D1 | int, b: D2 | int, c: D3 | int, /) -> IndexReshape[tuple[D1, D2, D3]]:
        """The same integers under other axes; one of them may be -1."""

    @overload
    def __getitem__(self: _IndexNode[AtLeast1D], key: Key_) -> IndexSlice[Any]: ...
    @overload
    def __getitem__(self: _IndexNode[tuple[N, *Bs]], key: int) -> IndexSlice[tuple[*Bs]]: ...
    @overload
    def __getitem__(self: _IndexNode[tuple[N, *Bs]], key: slice) -> IndexSlice[tuple[Any, *Bs]]: ...
    @overload
    def __getitem__(self: _IndexNode[tuple[M, N, *Bs]], key: tuple[All, int]) -> IndexSlice[tuple[M, *Bs]]: ...
    @overload
    def __getitem__(self: _IndexNode[Any], key: Key_) -> IndexSlice[Any]:
        """A part of the integers by numbers, ranges, `None` and `...`, as in NumPy."""
    def __hash__(self) -> int: ...

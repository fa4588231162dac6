"""Fused normalization over the last axis: layer norm (mean and standard deviation) and RMS norm (root mean square).

The forward pass stores no residuals: recomputing the mean and deviation of a row costs less than reading them.
`NormalizationGradient` is the gradient with respect to the operand, `NormalizationWeightGradient` with respect to
weight and bias in one pass. The kernels compute what the compositions say in fewer passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, axis_size, unify
from wyrm.graph.base import explain, format_dims, label
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, AtLeast1D, Bs, N, OfShape, Shaped
from wyrm.ops.batching import spread
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, method, operand, unmasked_dtype
from wyrm.ops.indexing.joining import stack
from wyrm.ops.normalization.kernels import (
    normalization_gradient_kernel,
    normalization_kernel,
    weight_gradient_kernel,
)
from wyrm.ops.reducing.reduction import Sum
from wyrm.reach.rules import REACH, Reach, Reached
from wyrm.reach.ways import How, Way, aligned
from wyrm.support.foreign_names import explains_keywords

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis

# --- the formulas -----------------------------------------------------------------------------------------------------


def _mean(x: Node) -> Node:
    """Return the mean over the last axis."""
    first = x[..., :1].stop_gradient()  # the mean relative to it is exact where all elements are equal
    mean: Node = first + (x - first).mean(-1, keepdims=True)
    return mean


def _normalized(x: Node, centred: bool, epsilon: float) -> tuple[Node, Node]:
    """Return the normalized operand, before weight and bias, and `1 / sqrt(variance + epsilon)`."""
    distance = x - _mean(x) if centred else x
    # The squares may be infinite, and so is their mean then.
    inverse: Node = 1.0 / ((distance * distance).mean(-1, keepdims=True) + epsilon).sqrt()
    return distance * inverse, inverse


# --- the ops ----------------------------------------------------------------------------------------------------------


class _Normalization(Composed[tuple[Node, ...], Axes], abstract=True):
    """Base class of the normalization ops; the first parent is the operand, and all parents have one float dtype."""

    __slots__ = ("epsilon",)
    epsilon: float
    # Whether to subtract the mean.
    centred: bool

    def dtype_rule(self) -> np.dtype:
        return unmasked_dtype(self.parents)

    def shape_rule(self) -> Dims:
        x, *vectors = self.parents
        if not 0.0 <= self.epsilon < math.inf:
            raise ShapeError(f"epsilon must be finite and at least 0, not {self.epsilon}")
        if not x.dims:
            raise ShapeError(f"normalizes over the last axis, but {label(x)} is a scalar")
        features = x.dims[-1]
        for vector in vectors:
            if len(vector.dims) != 1:
                raise ShapeError(
                    f"{label(vector)} must have one axis, the last of {label(x)}, {features!r}, "
                    f"not {format_dims(vector.dims)}"
                )
            features = unify(features, vector.dims[0])
        if axis_size(features) == 0:
            raise ShapeError("the last axis has size 0, so there is nothing to normalize over")
        return (*x.dims[:-1], features)

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        if shapes[0][-1] == 0:
            raise ShapeError(explain(self, "the last axis has size 0 in the data of this run"))


class _NormalizationLoops(ByKernel):
    def rows(self, array: Array) -> Array:
        """Return a view of the array with all leading axes merged into one."""
        return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])

    def numbers(self, node: _Normalization, x: Array) -> tuple[KernelArgument, ...]:
        """Return the kernel arguments after the arrays that all kernels share."""
        return node.centred, node.dtype.type(x.shape[-1]), node.dtype.type(node.epsilon)


class _Forward(_Normalization[Axes], Generic[Left_co, Axes], abstract=True):
    """Base class of the forward ops; the parents are the operand, the weight and optionally the bias."""

    __slots__ = ()
    parents: tuple[Left_co, Node, *tuple[Node, ...]]

    def compose(self, x: Node, weight: Node, *bias: Node) -> Node:
        result = _normalized(x, self.centred, self.epsilon)[0] * weight
        return result + bias[0] if bias else result

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        return None if any(mapped[1:]) else self.rebuild(operands)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, weight, *bias = self.parents
        vector_gradients = NormalizationWeightGradient(
            x, gradient, centred=self.centred, biased=bool(bias), epsilon=self.epsilon
        )
        x_gradient = NormalizationGradient(x, weight, gradient, centred=self.centred, epsilon=self.epsilon)
        return x_gradient, *(vector_gradients[position] for position in range(1 + len(bias)))


@LOOPS.register(_Forward)
class _ForwardLoops(_NormalizationLoops):
    kernel = staticmethod(normalization_kernel)

    def kernel_arguments(self, node: _Forward, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        x, weight, *biases = operands
        bias = biases[0] if biases else np.zeros(0, out.dtype)
        return self.rows(x), weight, bias, self.rows(out), *self.numbers(node, x)


@REACH.register(_Forward)
class _ForwardReach(Reach):
    """An element depends on all along the last axis."""

    def ways(self, node: _Forward) -> list[Way]:
        return aligned(node, how={node.ndim - 1: How.ANY})

    def reached(self, node: _Forward, operands: Sequence[Reached], analysis: Analysis) -> Reached:
        x, *vectors = operands
        return analysis.pointwise(node, [analysis.along(node, [x], node.ndim - 1), *vectors], "")


class LayerNorm(_Forward[Left_co, Axes]):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, with the mean and variance over the last axis.

    `x` and the result have the axes (..., features), `weight` and the optional `bias` (features,); the sizes of the
    leading axes may come from the data. The variance is the mean square distance from the mean; where a square
    overflows (from 1e19 in float32), the row is normalized to 0. Ba, Kiros and Hinton, "Layer normalization" (2016).

    Raise `ShapeError` for axes that do not match, a scalar, a last axis of size 0 and an epsilon that is negative or
    not finite, `DTypeError` for masks and for operands of two float dtypes.

    >>> x, ones = wy.Constant([[1.0, 3.0], [0.0, 8.0]]), wy.Constant([1.0, 1.0])
    >>> wy.ops.normalization.normalization.LayerNorm(x, ones, epsilon=0.0).forward().tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """

    __slots__ = ()
    _own: LayerNorm[Any, Axes]
    centred = True

    def __init__(self, x: Node, weight: Node, bias: Node | None = None, epsilon: float = 1e-5) -> None:
        self._construct((x, weight) if bias is None else (x, weight, bias), epsilon=float(epsilon))


class RMSNorm(_Forward[Left_co, Axes]):
    """`x / sqrt(mean(x ** 2) + epsilon) * weight`, with the mean over the last axis.

    `x` and the result have the axes (..., features), `weight` (features,); the sizes of the leading axes may come from
    the data. Where a square overflows, the row is normalized to 0. Zhang and Sennrich, "Root mean square layer
    normalization" (2019).

    Raise `ShapeError` for axes that do not match, a scalar, a last axis of size 0 and an epsilon that is negative or
    not finite, `DTypeError` for masks and for operands of two float dtypes.

    >>> x, ones = wy.Constant([[3.0, -3.0], [0.0, 0.0]]), wy.Constant([1.0, 1.0])
    >>> wy.ops.normalization.normalization.RMSNorm(x, ones, epsilon=1e-9).forward().tolist()
    [[1.0, -1.0], [0.0, 0.0]]
    """

    __slots__ = ()
    _own: RMSNorm[Any, Axes]
    centred = False

    def __init__(self, x: Node, weight: Node, epsilon: float = 1e-5) -> None:
        self._construct((x, weight), epsilon=float(epsilon))

    @classmethod
    def op_name(cls) -> str:
        return "rms_norm"


class NormalizationGradient(_Normalization[Axes]):
    """The gradient of a normalization with respect to its operand, of the shape of the operand.

    `centred` is true for layer norm and false for RMS norm.
    """

    __slots__ = ("centred",)
    centred: bool

    def __init__(self, x: Node, weight: Node, gradient: Node, *, centred: bool, epsilon: float) -> None:
        self._construct((x, weight, gradient), centred=centred, epsilon=epsilon)

    def shape_rule(self) -> Dims:
        x, weight, gradient = self.parents
        return _same(x.dims, gradient.dims, weight.dims)

    def compose(self, x: Node, weight: Node, gradient: Node) -> Node:
        normalized, inverse = _normalized(x, self.centred, self.epsilon)
        scaled = gradient * weight
        orthogonal = scaled - normalized * _mean(scaled * normalized)
        return (orthogonal - _mean(scaled) if self.centred else orthogonal) * inverse

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        x, weight, gradient = operands
        if mapped[1]:
            return None
        x, gradient = spread((x, gradient), (mapped[0], mapped[2]))
        return self.rebuild((x, weight, gradient))


@LOOPS.register(NormalizationGradient)
class _NormalizationGradientLoops(_NormalizationLoops):
    kernel = staticmethod(normalization_gradient_kernel)

    def kernel_arguments(
        self, node: NormalizationGradient, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        x, weight, gradient = operands
        return self.rows(x), weight, self.rows(gradient), self.rows(out), *self.numbers(node, x)


class NormalizationWeightGradient(_Normalization[Axes]):
    """The gradients of a normalization with respect to weight and bias, of the axes (2, features), in one pass.

    Without a bias (`biased` is false) the axes are (1, features). `centred` is true for layer norm and false for RMS
    norm.
    """

    __slots__ = ("biased", "centred")
    adds_rows = True
    biased: bool
    centred: bool

    def __init__(self, x: Node, gradient: Node, *, centred: bool, biased: bool, epsilon: float) -> None:
        self._construct((x, gradient), biased=biased, centred=centred, epsilon=epsilon)

    def shape_rule(self) -> Dims:
        x, gradient = self.parents
        return (1 + self.biased, _same(x.dims, gradient.dims)[-1])

    def compose(self, x: Node, gradient: Node) -> Node:
        totals = [_total(gradient * _normalized(x, self.centred, self.epsilon)[0])]
        return stack([*totals, _total(gradient)] if self.biased else totals)


def _total(x: Node) -> Node:
    """Return the sums over all axes but the last."""
    return Sum(x, tuple(range(x.ndim - 1))) if x.ndim > 1 else x


@LOOPS.register(NormalizationWeightGradient)
class _NormalizationWeightGradientLoops(_NormalizationLoops):
    kernel = staticmethod(weight_gradient_kernel)

    def kernel_arguments(
        self, node: NormalizationWeightGradient, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        x, gradient = operands
        return self.rows(x), self.rows(gradient), out, *self.numbers(node, x), np.zeros(out.shape)


def _same(dims: Dims, gradient_dims: Dims, last: Dims = ()) -> Dims:
    """Return the common axes of an operand and its gradient; the last one must also match `last`."""
    if len(dims) != len(gradient_dims):
        raise ShapeError(f"{format_dims(dims)} against {format_dims(gradient_dims)}")
    *leading, features = map(unify, dims, gradient_dims)
    return (*leading, unify(features, last[0]) if last else features)


# --- the methods ------------------------------------------------------------------------------------------------------


@overload
def layer_norm(
    x: Shaped[L, AtLeast1D], weight: Node | Array, bias: Node | Array | None = None, epsilon: float = 1e-5
) -> LayerNorm[L]: ...
@overload
def layer_norm(
    x: OfShape[L, tuple[*Bs, N]],
    weight: Shaped[Any, tuple[N]] | Array,
    bias: Shaped[Any, tuple[N]] | Array | None = None,
    epsilon: float = 1e-5,
) -> LayerNorm[L, tuple[*Bs, N]]: ...
@method("layer_norm", function=False)
@explains_keywords
def layer_norm(x: Any, weight: object, bias: object = None, epsilon: float = 1e-5) -> LayerNorm:
    """Return `(x - mean) / sqrt(variance + epsilon) * weight + bias` over the last axis.

    `x` and the result have the axes (..., features), `weight` and `bias` (features,). See `LayerNorm` for the errors.

    >>> wy.Constant([1.0, 3.0]).layer_norm(np.array([1.0, 2.0]), np.array([5.0, 5.0]), epsilon=0.0).forward().tolist()
    [4.0, 7.0]
    """
    return LayerNorm(x, operand(weight, x), None if bias is None else operand(bias, x), epsilon)


@overload
def rms_norm(x: Shaped[L, AtLeast1D], weight: Node | Array, epsilon: float = 1e-5) -> RMSNorm[L]: ...
@overload
def rms_norm(
    x: OfShape[L, tuple[*Bs, N]], weight: Shaped[Any, tuple[N]] | Array, epsilon: float = 1e-5
) -> RMSNorm[L, tuple[*Bs, N]]: ...
@method("rms_norm", function=False)
def rms_norm(x: Any, weight: object, epsilon: float = 1e-5) -> RMSNorm:
    """Return `x / sqrt(mean(x ** 2) + epsilon) * weight` over the last axis.

    `x` and the result have the axes (..., features), `weight` (features,). See `RMSNorm` for the errors.

    >>> wy.Constant([3.0, -3.0]).rms_norm(np.array([1.0, 2.0]), epsilon=1e-9).forward().round(6).tolist()
    [1.0, -2.0]
    """
    return RMSNorm(x, operand(weight, x), epsilon)

"""Softmax, log-softmax, and cross-entropy of logits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Generic, Literal, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, unify
from wyrm.graph.base import ZERO, BaseNode, Gradient, explain, format_dims, label
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import S2, Array, Bs, FloatArray, Indices, IntegerArray, N, OfShape
from wyrm.ops.composed import Composed
from wyrm.ops.cross_entropy.labels import sample_weights, warn_of_probabilities, weighted_mean
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, float_dtype, method
from wyrm.ops.indexing.index import as_indices
from wyrm.ops.reducing.base import OneAxis
from wyrm.reach.rules import REACH, Reach
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import choice

LossReduction = Literal["mean", "sum", "none"]


class _Normalized(OneAxis[tuple[Left_co], Axes], Composed[tuple[Left_co], Axes], Generic[Left_co, Axes], abstract=True):
    """Base class of ops that normalize along one axis and keep the shape."""

    __slots__ = ()
    declaration = """
@overload
def {method}(self: Shaped[L, AtLeast1D], axis: int = -1) -> {op}[L]: ...
@overload
def {method}(self: OfShape[L, tuple[*Bs, N]], axis: int = -1) -> {op}[L, tuple[*Bs, N]]: ...
"""

    def __init__(self, x: Node, axis: int = -1) -> None:
        self._construct((x,), axis=axis)

    def dtype_rule(self) -> np.dtype:
        return float_dtype(self.parents[0])

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        """Take an axis of size 0: the result has no elements either."""


@REACH.register(_Normalized)
class _NormalizedReach(Reach):
    """An element depends on those that its composition reads."""

    composes = True


def _is_empty(x: Node) -> bool:
    """Return whether a node has no elements for any data: it may have no maximum, and is its own softmax."""
    return 0 in map(axis_size, x.dims)


class Softmax(_Normalized[Left_co, Axes]):
    """`exp(x) / sum(exp(x))` along `axis`, without overflow; raises `DTypeError` unless `x` has a float dtype.

    >>> wy.Constant([1e4, 1e4]).softmax().forward().tolist()
    [0.5, 0.5]
    """

    __slots__ = ()
    _own: Softmax[Any, Axes]
    method = "softmax"

    def compose(self, x: Node) -> Node:
        if _is_empty(x):
            return x.erase()
        exponentials = (x - x.max(self.axis, keepdims=True)).exp()
        return exponentials / exponentials.sum(self.axis, keepdims=True)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        y = self.erase()
        return (y * (gradient - (gradient * y).sum(axis=self.axis, keepdims=True)),)


class LogSoftmax(_Normalized[Left_co, Axes]):
    """`x - logsumexp(x)` along `axis`, without overflow; raises `DTypeError` unless `x` has a float dtype.

    >>> wy.Constant([0.0, 0.0]).log_softmax().forward().round(4).tolist()
    [-0.6930999755859375, -0.6930999755859375]
    """

    __slots__ = ()
    _own: LogSoftmax[Any, Axes]
    method = "log_softmax"

    def compose(self, x: Node) -> Node:
        if _is_empty(x):
            return x.erase()
        shifted = x - x.max(self.axis, keepdims=True)
        return shifted - shifted.exp().sum(self.axis, keepdims=True).log()

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient - self.erase().exp() * gradient.sum(axis=self.axis, keepdims=True),)


class CrossEntropy(
    HasIndexOperands[tuple[Left_co, IndexNode, Any], Axes], Composed[tuple[Left_co, IndexNode, Any], Axes]
):
    """`-log softmax(logits)[label]` over the last axis; see `cross_entropy`.

    The third parent is the softmax of the logits: the loss, its gradient and `predictions()` share it.
    """

    __slots__ = ("reduction",)
    _own: CrossEntropy[Any, Axes]
    residual_parents: ClassVar[frozenset[int]] = frozenset([2])
    reduction: LossReduction

    def __init__(self, logits: Node, labels: IndexNode | Indices, reduction: LossReduction = "mean") -> None:
        self._construct((logits, as_indices(labels), Softmax(logits)), reduction=reduction)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(1, self.parents[0].dims[-1]),)

    def predictions(self: CrossEntropy[Node[Any, S2]]) -> Softmax[Any, S2]:
        """Return the probabilities of the classes, of the shape of the logits; the loss computes them anyway."""
        probabilities: Softmax[Any, S2] = self.parents[2]
        return probabilities

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype

    def shape_rule(self) -> Dims:
        logits, labels, _ = self.parents
        if len(labels.dims) != len(logits.dims) - 1:
            raise ShapeError(
                f"labels must have all axes of the logits but the last: {format_dims(logits.dims[:-1])}, "
                f"not {format_dims(labels.dims)}"
            )
        rows = tuple(map(unify, logits.dims[:-1], labels.dims))
        choice("reduction", self.reduction, ("mean", "sum", "none"), ShapeError)
        if self.reduction == "mean" and 0 in map(axis_size, rows):
            raise ShapeError("has no mean over an axis of size 0")
        return rows if self.reduction == "none" else ()

    def compose(self, logits: Node, labels: IndexNode, probabilities: Node) -> Node:
        # The label's probability may underflow; the largest one is at least 1 / classes.
        label_logits = logits.take_along_axis(labels.reshape((*labels.dims, 1)), axis=-1).squeeze(-1)
        losses: Node = (logits.max(-1) - label_logits) - probabilities.max(-1).log()
        if self.reduction == "none":
            return losses
        return losses.mean() if self.reduction == "mean" else losses.sum()

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        if self.reduction == "mean" and 0 in shapes[1]:
            raise ShapeError(explain(self, "has no mean over an axis of size 0, the size in the data of this run"))

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        if not all(mapped):
            return None
        losses: Node = self.rebuild(operands, reduction="none")
        if self.reduction == "none":
            return losses
        axes: Any = tuple(range(1, losses.ndim))
        return losses.mean(axes) if self.reduction == "mean" else losses.sum(axes)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        _logits, labels, probabilities = self.parents
        if self.reduction == "mean":
            gradient = gradient / CrossEntropyCount(labels, self.dtype)
        rows = gradient if self.reduction == "none" else gradient.broadcast_to(labels.dims)
        # The gradient with respect to the logits includes the path through the softmax, so that parent gets zero.
        return CrossEntropyGradient(probabilities, labels, rows), ZERO, ZERO


class CrossEntropyCount(Node[tuple[Left_co], Axes]):
    """The number of labels, as a scalar of the float dtype `to`."""

    __slots__ = ("to",)
    _own: CrossEntropyCount[Any, Axes]
    shape_only = True
    to: np.dtype

    def __init__(self, labels: IndexNode, to: np.dtype) -> None:
        self._construct((labels,), to=to)

    def dtype_rule(self) -> np.dtype:
        return self.to

    def shape_rule(self) -> Dims:
        return ()

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.asarray(operands[0].size, dtype=self.to)

    def counted_dims(self) -> Dims:
        dims: Dims = self.parents[0].dims
        return dims

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


class CrossEntropyGradient(
    HasIndexOperands[tuple[Left_co, IndexNode, Node], Axes],
    Node[tuple[Left_co, IndexNode, Node], Axes],
    Generic[Left_co, Axes],
):
    """`(probabilities - one_hot(labels)) * weights[..., None]`: the gradient with respect to the logits."""

    __slots__ = ()
    written = "cross_entropy"
    _own: CrossEntropyGradient[Any, Axes]

    def __init__(self, probabilities: Node, labels: IndexNode, weights: Node) -> None:
        self._construct((probabilities, labels, weights))

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(1, self.parents[0].dims[-1]),)

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        return dims

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        probabilities, labels, weights = operands
        classes = xp.arange(shape[-1])
        difference = xp.where(labels[..., None] == classes, probabilities - 1.0, probabilities)
        return difference * weights[..., None]

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        return CrossEntropyGradient(*operands) if all(mapped) else None

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        probabilities, labels, weights = self.parents
        label_gradient = gradient.take_along_axis(labels.reshape((*labels.dims, 1)), axis=-1).squeeze(-1)
        weights_gradient = gradient.vector_dot(probabilities) - label_gradient
        return gradient * weights.expand_dims(-1), ZERO, weights_gradient


@LOOPS.register(CrossEntropyGradient)
class _CrossEntropyGradientLoops(ByKernel):
    @staticmethod
    def kernel(probabilities: FloatArray, labels: IntegerArray, weights: FloatArray, out: FloatArray) -> None:
        for i in range(out.shape[0]):
            weight = weights[i]
            for j in range(out.shape[1]):
                out[i, j] = probabilities[i, j] * weight
            out[i, labels[i]] -= weight

    def kernel_arguments(
        self, node: CrossEntropyGradient, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        probabilities, labels, weights = operands
        rows = (labels.size, out.shape[-1])
        return probabilities.reshape(rows), labels.reshape(-1), weights.reshape(-1), out.reshape(rows)


@overload
def cross_entropy(
    logits: OfShape[L, tuple[*Bs, N]],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    sample_weight: None = None,
    reduction: Literal["mean", "sum"] = "mean",
) -> CrossEntropy[L, tuple[()]]: ...
@overload
def cross_entropy(
    logits: OfShape[L, tuple[*Bs, N]],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    sample_weight: None = None,
    reduction: Literal["none"],
) -> CrossEntropy[L, tuple[*Bs]]: ...
@overload
def cross_entropy(
    logits: OfShape[L, tuple[*Bs, N]],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    sample_weight: Node | Array,
    reduction: Literal["mean", "sum"] = "mean",
) -> Node[Any, tuple[()]]: ...
@overload
def cross_entropy(
    logits: OfShape[L, tuple[*Bs, N]],
    labels: IndexNode[tuple[*Bs]] | IntegerArray,
    *,
    sample_weight: Node | Array,
    reduction: Literal["none"],
) -> Node[Any, tuple[*Bs]]: ...
@method("cross_entropy", function=False)
@explains_keywords
def cross_entropy(
    logits: Any, labels: Any, *, sample_weight: Node | Array | None = None, reduction: LossReduction = "mean"
) -> Node:
    """Return `-log softmax(logits)[label]` over the last axis, reduced to its mean or sum, or for each label.

    `logits` has the axes (..., classes), `labels` (...,). The method `predictions()` of the result gives the softmax of
    the logits at no extra cost. Raise `IndexOutOfRange` for a label that is no class, `ShapeError` for other axes.

    `sample_weight`, a node or an array of the axes of the labels or their leading axes, multiplies the loss of each
    label; the mean divides by the sum of the weights, and is 0 if that is 0. The result then has no `predictions()`;
    `logits.softmax()` costs nothing more. Raise `ValueError` for an array with negative weights.

    >>> wy.Constant([[0.0, 0.0]]).cross_entropy(np.array([1])).forward().round(4).item()
    0.6930999755859375
    """
    if not logits.dims:
        raise ShapeError(f"cross_entropy: {label(logits)} is a scalar; logits must have an axis of classes")
    warn_of_probabilities("cross_entropy", logits, "softmax", "logits, to which it applies softmax itself")
    if sample_weight is None:
        return CrossEntropy(logits, labels, reduction)
    choice("reduction", reduction, ("mean", "sum", "none"), ShapeError)
    losses: Node = CrossEntropy(logits, labels, "none")
    factors = sample_weights("cross_entropy", sample_weight, logits, losses.dims)
    total = losses * factors
    if reduction == "none":
        return total
    return weighted_mean(total, factors) if reduction == "mean" else total.sum()


def cross_entropy_over(axes: Collection[Axis], nodes: Iterable[BaseNode]) -> BaseNode | None:
    """Return the first cross-entropy among nodes whose classes are the elements of one of these axes."""
    return next((node for node in nodes if isinstance(node, CrossEntropy) and node.parents[0].dims[-1] in axes), None)

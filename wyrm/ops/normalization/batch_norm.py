"""Fused batch normalization: over all axes but one, with the statistics of the batch.

`BatchMoments` holds the mean and the variance of each channel: the value, its gradient and the running statistics
share them. `BatchNorm` and `BatchNormGradient` are elementwise given the moments, so native loops fuse them with what
surrounds them, such as an activation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, normalize_axis, product, unify
from wyrm.graph.base import ZERO, Gradient, explain, format_dims, label
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.typing import Array
from wyrm.ops.batching import batch_axis, spread
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.elementwise import Axes, unmasked_dtype
from wyrm.ops.indexing.joining import stack
from wyrm.ops.kernels.native import scratch
from wyrm.ops.normalization.kernels import batch_moments_kernel
from wyrm.ops.reducing.base import count_along
from wyrm.ops.reducing.reduction import Sum


def batch_count(x: Node, axis: int) -> Node:
    """Return the number of values of each channel as a scalar of the dtype of `x`."""
    return count_along(x, _others(x.ndim, axis), x)


def _others(rank: int, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(rank) if i != axis)


# --- the ops ----------------------------------------------------------------------------------------------------------


class _OverBatch(Composed[tuple[Any, ...], Axes], abstract=True):
    """Base class of the ops; the first parents have the shape of the operand, the others end with the channels.

    `axis` is that of the channels.
    """

    __slots__ = ("axis",)
    axis: int
    # The number of parents with the shape of the operand, and of those that follow with the axes (2, channels).
    whole: ClassVar[int] = 1
    pairs: ClassVar[int] = 1
    # Whether the result has the shape of the operand, and not (2, channels).
    gives_whole: ClassVar[bool] = True

    def dtype_rule(self) -> np.dtype:
        return unmasked_dtype(self.parents)

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        if len(dims) < 2:
            raise ShapeError(f"takes two axes or more, not {label(self.parents[0])} of {format_dims(dims)}")
        object.__setattr__(self, "axis", normalize_axis(self.axis, len(dims)))
        for other in self.parents[1 : self.whole]:
            if len(other.dims) != len(dims):
                raise ShapeError(f"{format_dims(dims)} against {format_dims(other.dims)}")
            dims = tuple(map(unify, dims, other.dims))
        channels = dims[self.axis]
        for position, other in enumerate(self.parents[self.whole :]):
            rows = (2,) if position < self.pairs else ()
            if not other.dims or tuple(map(axis_size, other.dims[:-1])) != rows:
                expected = format_dims((*rows, channels))
                raise ShapeError(f"{label(other)} must have the axes {expected}, not {format_dims(other.dims)}")
            channels = unify(channels, other.dims[-1])
        dims = (*dims[: self.axis], channels, *dims[self.axis + 1 :])
        return dims if self.gives_whole else (2, channels)

    def total(self, x: Node) -> Node:
        """Return the sums over all axes but that of the channels."""
        return Sum(x, _others(x.ndim, self.axis))

    def along(self, vector: Node) -> Node:
        """Return a vector of the channels to broadcast along the operand."""
        after = self.parents[0].ndim - 1 - self.axis
        result: Node = vector.reshape((vector.dims[0], *[1] * after)) if after else vector
        return result

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node:
        """Count the new axis among the channels, which are normalized each on its own."""
        batch = batch_axis(operands, mapped)
        joined = [
            _with_joined_axis(x, self.axis if position < self.whole else x.ndim - 2)
            for position, x in enumerate(spread(operands, mapped))
        ]
        one: Any = self.rebuild(joined)
        place = self.axis if self.gives_whole else 1
        channels = self.parents[0].dims[self.axis]
        apart = one.reshape((*one.dims[:place], batch, channels, *one.dims[place + 1 :]))
        result: Node = apart.transpose((place, *_others(apart.ndim, place)))
        return result


def _with_joined_axis(x: Node, place: int) -> Node:
    """Return `x` with its first axis moved to `place` and joined with the axis that follows there."""
    moved = x.transpose((*range(1, place + 1), 0, *range(place + 1, x.ndim)))
    dims: Dims = moved.dims
    axes: tuple[Axis, ...] = (*dims[:place], product(dims[place : place + 2]), *dims[place + 2 :])
    result: Node = moved.reshape(axes)
    return result


class BatchMoments(_OverBatch[Axes]):
    """The mean and the variance of each channel, (2, channels), over all axes of `x` but `axis`, that of the channels.

    The variance is the mean square distance from the mean. Raise `ShapeError` for fewer than two axes or two values for
    each channel, `DTypeError` for masks.

    >>> wy.ops.normalization.batch_norm.BatchMoments(wy.Constant([[1.0], [3.0]]), axis=1).forward().tolist()
    [[2.0], [1.0]]
    """

    __slots__ = ()
    written = "batch_norm"
    gives_whole = False

    def __init__(self, x: Node, *, axis: int) -> None:
        self._construct((x,), axis=axis)

    def shape_rule(self) -> Dims:
        dims = super().shape_rule()
        x = self.parents[0]
        sizes = [axis_size(x.dims[i]) for i in _others(len(x.dims), self.axis)]
        if 0 in sizes or None not in sizes:
            _check_count(math.prod(size or 0 for size in sizes))
        return dims

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        try:
            _check_count(math.prod(shapes[0][i] for i in _others(len(shapes[0]), self.axis)))
        except ShapeError as error:
            raise ShapeError(explain(self, str(error))) from None

    def compose(self, x: Node) -> Node:
        count = batch_count(x, self.axis)
        mean = self.total(x) / count
        centred = x - self.along(mean)
        return stack([mean, self.total(centred * centred) / count])


def _check_count(count: int) -> None:
    if count < 2:
        raise ShapeError(
            f"the statistics of a batch need two values or more for each channel, but there are {count}; leave out a "
            f"last batch of one row, or build the graph after eval()"
        )


@LOOPS.register(BatchMoments)
class _BatchMomentsLoops(ByKernel):
    kernel = staticmethod(batch_moments_kernel)

    def kernel_arguments(self, node: BatchMoments, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        x, axis = operands[0], node.axis
        shape = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
        channels, rows = x.reshape(shape), x.reshape(shape[0], shape[1] * shape[2])
        width = 0 if shape[2] >= _LONG else rows.shape[1]
        memory = scratch((1, width), node.dtype), scratch((1, width), np.float64), scratch(width, node.dtype)
        return channels, rows, out, float(shape[0] * shape[2]), *memory


# From this number of neighbouring values of a channel, its statistics are computed channel by channel.
_LONG = 16


class BatchNorm(_OverBatch[Axes]):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, with a mean and a variance for each channel.

    `axis` is that of the channels; `weight` and `bias` have the axis (channels,), and both may be None. Mean and
    variance, over all other axes, are the second parent, `BatchMoments`. Ioffe and Szegedy, "Batch normalization"
    (2015).

    Raise `ShapeError` for axes that do not match, fewer than two axes or two values for each channel, `DTypeError` for
    masks and for operands of two float dtypes.

    >>> x = wy.Constant([[1.0], [3.0]])
    >>> wy.ops.normalization.batch_norm.BatchNorm(x, axis=1, epsilon=0.0).forward().tolist()
    [[-1.0], [1.0]]
    """

    __slots__ = ("epsilon",)
    residual_parents: ClassVar[frozenset[int]] = frozenset([1])
    epsilon: float

    def __init__(
        self, x: Node, weight: Node | None = None, bias: Node | None = None, *, axis: int, epsilon: float = 1e-5
    ) -> None:
        vectors = () if weight is None or bias is None else (weight, bias)
        self._construct((x, BatchMoments(x, axis=axis), *vectors), axis=axis, epsilon=float(epsilon))

    @property
    def moments(self) -> Node:
        """The mean and the variance of each channel, of the axes (2, channels)."""
        node: Node = self.parents[1]
        return node

    def compose(self, x: Node, moments: Node, *vectors: Node) -> Node:
        scale = 1.0 / (moments[1] + self.epsilon).sqrt()
        centred = x - self.along(moments[0])
        if not vectors:
            return self.along(scale) * centred
        weight, bias = vectors
        return self.along(scale * weight) * centred + self.along(bias)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        x, moments, *vectors = self.parents
        each = BatchNormVectorGradient(x, gradient, moments, axis=self.axis, epsilon=self.epsilon)
        whole = BatchNormGradient(x, gradient, moments, each, *vectors[:1], axis=self.axis, epsilon=self.epsilon)
        return whole, ZERO, *(each[position] for position in range(len(vectors)))


class BatchNormVectorGradient(_OverBatch[Axes]):
    """The gradients of `BatchNorm` with respect to weight and bias, of the axes (2, channels), in one pass.

    The parents are the operand, the gradient with respect to the result, and the moments of the operand.
    """

    __slots__ = ("epsilon",)
    residual_parents: ClassVar[frozenset[int]] = frozenset([2])
    whole = 2
    gives_whole = False
    epsilon: float

    def __init__(self, x: Node, gradient: Node, moments: Node, *, axis: int, epsilon: float) -> None:
        self._construct((x, gradient, moments), axis=axis, epsilon=epsilon)

    def compose(self, x: Node, gradient: Node, moments: Node) -> Node:
        products = self.total(gradient * (x - self.along(moments[0])))
        return stack([products / (moments[1] + self.epsilon).sqrt(), self.total(gradient)])


class BatchNormGradient(_OverBatch[Axes]):
    """The gradient of `BatchNorm` with respect to its operand, of the shape of the operand.

    The parents are the operand, the gradient with respect to the result, the moments of the operand, the gradients with
    respect to weight and bias as `BatchNormVectorGradient`, and the weight, if there is one.
    """

    __slots__ = ("epsilon",)
    residual_parents: ClassVar[frozenset[int]] = frozenset([2, 3])
    whole: ClassVar[int] = 2
    pairs: ClassVar[int] = 2
    epsilon: float

    def __init__(
        self, x: Node, gradient: Node, moments: Node, vectors: Node, *weight: Node, axis: int, epsilon: float
    ) -> None:
        self._construct((x, gradient, moments, vectors, *weight), axis=axis, epsilon=epsilon)

    def compose(self, x: Node, gradient: Node, moments: Node, vectors: Node, *weights: Node) -> Node:
        inverse, count = 1.0 / (moments[1] + self.epsilon).sqrt(), batch_count(x, self.axis)
        slope = vectors[0] * inverse / count
        part = gradient - self.along(vectors[1] / count) - (x - self.along(moments[0])) * self.along(slope)
        return part * self.along(inverse * weights[0] if weights else inverse)

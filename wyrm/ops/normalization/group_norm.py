"""Fused normalization over groups of neighbouring channels of each row of a batch, which may be single channels.

As for layer norm, the forward pass stores no residuals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, axis_size, product, unify
from wyrm.graph.base import explain, format_dims, label
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.typing import Array
from wyrm.ops.batching import batch_axis, spread
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.elementwise import Axes, constant_like, unmasked_dtype
from wyrm.ops.indexing.joining import stack
from wyrm.ops.normalization.kernels import group_moments_kernel
from wyrm.ops.reducing.base import Count
from wyrm.ops.reducing.reduction import Sum


class _OverGroups(Composed[tuple[Any, ...], Axes], abstract=True):
    """Base class of the ops; the first parents have the axes (batch, channels, *sizes), the others (channels,)."""

    __slots__ = ("epsilon", "groups")
    groups: int
    epsilon: float
    # The number of parents with the axes of the operand.
    whole: ClassVar[int] = 1

    def __init__(self, *parents: Node, groups: int, epsilon: float = 1e-5) -> None:
        self._construct(parents, groups=groups, epsilon=float(epsilon))

    def dtype_rule(self) -> np.dtype:
        return unmasked_dtype(self.parents)

    def shape_rule(self) -> Dims:
        x, *others = self.parents
        dims: Dims = x.dims
        if not 0.0 <= self.epsilon < math.inf:
            raise ShapeError(f"epsilon must be finite and at least 0, not {self.epsilon}")
        if len(dims) < 2:
            raise ShapeError(f"takes the axes (batch, channels, *sizes), not {label(x)} of {format_dims(dims)}")
        for other in others[: self.whole - 1]:
            if len(other.dims) != len(dims):
                raise ShapeError(f"{format_dims(dims)} against {format_dims(other.dims)}")
            dims = tuple(map(unify, dims, other.dims))
        channels = dims[1]
        for vector in others[self.whole - 1 :]:
            if len(vector.dims) != 1:
                raise ShapeError(f"{label(vector)} must have one axis, {channels!r}, not {format_dims(vector.dims)}")
            channels = unify(channels, vector.dims[0])
        size = axis_size(channels)
        if not size or self.groups < 1 or size % self.groups:
            raise ShapeError(f"the channels, {channels!r}, cannot be divided into {self.groups} equal groups")
        if 0 in map(axis_size, dims[2:]):
            raise ShapeError("an axis has size 0, so there is nothing to normalize over")
        return (dims[0], channels, *dims[2:])

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        if 0 in shapes[0][2:]:
            raise ShapeError(explain(self, "an axis has size 0 in the data of this run: nothing to normalize over"))

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        """Count the new axis among the rows; with a weight for each of its elements there is no such form."""
        if any(mapped[self.whole :]):
            return None
        axis = batch_axis(operands, mapped)
        joined = [
            each.reshape((product(each.dims[:2]), *each.dims[2:]))
            for each in spread(operands[: self.whole], mapped[: self.whole])
        ]
        one: Any = self.rebuild((*joined, *operands[self.whole :]))
        apart: Node = one.reshape((axis, self.parents[0].dims[0], *one.dims[1:]))
        return apart


class GroupMoments(_OverGroups[Axes]):
    """The mean and the variance of each group of each row of `x`, (batch, 2, groups).

    >>> x = wy.Constant([[[1.0, 3.0], [0.0, 8.0]]])
    >>> wy.ops.normalization.group_norm.GroupMoments(x, groups=2).forward().tolist()
    [[[2.0, 4.0], [1.0, 16.0]]]
    """

    __slots__ = ()

    def shape_rule(self) -> Dims:
        return (super().shape_rule()[0], 2, self.groups)

    def compose(self, x: Node) -> Node:
        dims: Dims = x.dims
        members = product(dims[2:]) if dims[2:] else 1
        groups: Any = (dims[0], self.groups, (axis_size(dims[1]) or 0) // self.groups, members)
        values = x.reshape(groups)
        mean = values.mean((2, 3), keepdims=True)
        centred = values - mean
        return stack([mean.reshape(groups[:2]), (centred * centred).mean((2, 3))], axis=1)


@LOOPS.register(GroupMoments)
class _GroupMomentsLoops(ByKernel):
    kernel = staticmethod(group_moments_kernel)

    def kernel_arguments(self, node: GroupMoments, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        (x,) = operands
        count = math.prod(x.shape[1:]) // node.groups
        return x.reshape(x.shape[0], node.groups, count), out, node.dtype.type(count)


class _Channels:
    """What loops read for each row and channel: the moments of its group, and sums over its values."""

    def __init__(self, node: _OverGroups, x: Node) -> None:
        self.x = x
        dims: Dims = self.x.dims
        self._groups: Any = (dims[0], node.groups, 1)
        self._members: Any = (dims[0], node.groups, (axis_size(dims[1]) or 0) // node.groups)
        self._after: Any = [1] * (len(dims) - 2)
        self._values = tuple(range(2, len(dims)))
        moments = GroupMoments(self.x, groups=node.groups, epsilon=node.epsilon)
        self.mean: Node = moments[:, 0]
        self.inverse: Node = 1.0 / (moments[:, 1] + node.epsilon).sqrt()

    def of_groups(self, x: Node) -> Node:
        """Return what is known of groups, (batch, groups), for each channel."""
        result: Node = x.reshape(self._groups).broadcast_to(self._members).reshape(self.x.dims[:2])
        return result

    def sum_of_groups(self, x: Node) -> Node:
        """Return the sums over the channels of each group."""
        result: Node = Sum(x.reshape(self._members), (2,))
        return result

    def along(self, x: Node) -> Node:
        """Return a value for each channel to broadcast along the operand."""
        dims: Any = (*x.dims, *self._after)
        result: Node = x.reshape(dims) if self._after else x
        return result

    def total(self, x: Node) -> Node:
        """Return the sum over the values of each channel."""
        result: Node = Sum(x, self._values) if self._values else x
        return result

    @property
    def centred(self) -> Node:
        """The operand without the mean of its group."""
        result: Node = self.x - self.along(self.of_groups(self.mean))
        return result

    @property
    def count(self) -> Node:
        """The number of elements of a group."""
        sizes, members = [axis_size(self.x.dims[i]) for i in self._values], float(self._members[2])
        if None in sizes:
            return Count(self.x, self._values) * members
        return constant_like(members * math.prod(size or 0 for size in sizes), self.x)


class GroupNorm(_OverGroups[Axes]):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, with mean and variance of each group of channels.

    The parents are `x`, (batch, channels, *sizes), and optionally a weight and a bias, (channels,). Mean and variance
    are those of all elements of `channels / groups` neighbouring channels of a row. Wu and He, "Group normalization"
    (2018).

    Raise `ShapeError` for axes that do not match, channels without a size or that cannot be divided into `groups`, and
    an epsilon that is negative or not finite, `DTypeError` for masks and for operands of two float dtypes.

    >>> x = wy.Constant([[[1.0, 3.0], [0.0, 8.0]]])
    >>> wy.ops.normalization.group_norm.GroupNorm(x, groups=2, epsilon=0.0).forward().tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """

    __slots__ = ()

    def compose(self, x: Node, *vectors: Node) -> Node:
        of = _Channels(self, x)
        scale = of.of_groups(of.inverse)
        scaled: Node = of.along(scale * vectors[0] if vectors else scale) * of.centred
        return scaled + of.along(vectors[1]) if len(vectors) > 1 else scaled

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, *vectors = self.parents
        options: Any = {"groups": self.groups, "epsilon": self.epsilon}
        each = GroupNormVectorGradient(x, gradient, **options)
        return GroupNormGradient(x, gradient, *vectors[:1], **options), *(each[i] for i in range(len(vectors)))


class GroupNormGradient(_OverGroups[Axes]):
    """The gradient of `GroupNorm` with respect to its operand.

    The parents are the operand, the gradient with respect to the result, and the weight, if there is one.
    """

    __slots__ = ()
    whole = 2

    def compose(self, x: Node, gradient: Node, *weights: Node) -> Node:
        of = _Channels(self, x)
        products, total = of.total(gradient * of.centred), of.total(gradient)
        if weights:
            products, total = products * weights[0], total * weights[0]
        slope = of.sum_of_groups(products) * of.inverse * of.inverse / of.count
        shift = of.sum_of_groups(total) / of.count
        scaled = gradient * of.along(weights[0]) if weights else gradient
        part: Node = scaled - of.along(of.of_groups(shift)) - of.along(of.of_groups(slope)) * of.centred
        return of.along(of.of_groups(of.inverse)) * part


class GroupNormVectorGradient(_OverGroups[Axes]):
    """The gradients of `GroupNorm` with respect to weight and bias, of the axes (2, channels), in one pass.

    The parents are the operand and the gradient with respect to the result.
    """

    __slots__ = ()
    whole = 2
    adds_rows = True

    def shape_rule(self) -> Dims:
        return (2, super().shape_rule()[1])

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        return None

    def compose(self, x: Node, gradient: Node) -> Node:
        of = _Channels(self, x)
        products = of.total(gradient * of.centred) * of.of_groups(of.inverse)
        return stack([Sum(products, (0,)), Sum(of.total(gradient), (0,))])

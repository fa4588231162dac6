"""Normalization of groups of channels, and of each channel, over the sizes of an image."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Generic

import numpy as np
from numpy.typing import DTypeLike
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import describe
from wyrm.graph.leaves import Parameter, constant_beside
from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import Array, Bs, Unnamed
from wyrm.nn.axes import Features, M, check_axis, sized_axis
from wyrm.nn.module import Module
from wyrm.nn.normalization import shown_epsilon
from wyrm.nn.spatial import CHANNELS_SECOND, spatial_sizes
from wyrm.ops.elementwise.elementwise import operand
from wyrm.support.options import number, whole

B = TypeVar("B")
C = TypeVar("C")


def _normalized(
    name: str, x: Node, groups: int, weight: Node | Array | None, bias: Node | Array | None, epsilon: float
) -> Any:
    sizes, channels = spatial_sizes(name, x, None), axis_size(x.dims[1])
    if channels is None or channels % groups:
        raise ShapeError(f"{name}: the channels of {describe(x)} cannot be divided into {groups} equal groups")
    count = math.prod(sizes) * (channels // groups)
    grouped = x.reshape((x.dims[0], groups, count))
    result: Node = grouped.layer_norm(constant_beside(np.ones(count), x.dtype), None, epsilon).reshape(x.dims)
    for given, name_of in ((weight, "weight"), (bias, "bias")):
        if given is not None:
            each = operand(given, x)
            if each.ndim != 1 or axis_size(each.dims[0]) != channels:
                raise ShapeError(f"{name}: {name_of} must have one axis, {x.dims[1]!r}, but it is {describe(each)}")
            column: Any = (each.dims[0], *[1] * len(sizes))
            result = result * each.reshape(column) if name_of == "weight" else result + each.reshape(column)
    return result


def group_norm(
    x: Node[Any, tuple[B, C, *Bs]],
    num_groups: int,
    weight: Node | Array | None = None,
    bias: Node | Array | None = None,
    epsilon: float = 1e-5,
) -> Tensor[B, C, *Bs]:
    """Return `(x - mean) / sqrt(variance + epsilon) * weight + bias`, normalized over groups of channels.

    `x` has the axes (batch, channels, *sizes), `weight` and `bias` (channels,). The mean and the variance are those of
    all elements of a group of neighbouring channels. Wu and He, "Group normalization" (2018).

    Raise `ShapeError` for axes that do not match, axes of channels and sizes without a size, and channels that cannot
    be divided into `num_groups` groups; `DTypeError` for masks and options of another kind.

    >>> x = wy.Constant([[[1.0, 3.0], [0.0, 8.0]]])
    >>> group_norm(x, 2).forward().round(3).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    groups = whole("group_norm: num_groups", num_groups, 1)
    result: Tensor[B, C, *Bs] = _normalized("group_norm", x, groups, weight, bias, epsilon)
    return result


def instance_norm(
    x: Node[Any, tuple[B, C, *Bs]],
    weight: Node | Array | None = None,
    bias: Node | Array | None = None,
    epsilon: float = 1e-5,
) -> Tensor[B, C, *Bs]:
    """Return `group_norm` with one group per channel: each channel of each image is normalized over its sizes.

    Ulyanov, Vedaldi and Lempitsky, "Instance normalization" (2016).

    >>> instance_norm(wy.Constant([[[1.0, 3.0], [0.0, 8.0]]])).forward().round(3).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    node: Node = x
    spatial_sizes("instance_norm", node, None)
    channels = axis_size(node.dims[1])
    if channels is None:
        raise ShapeError(f"instance_norm: the channels of {describe(x)} need a size")
    result: Tensor[B, C, *Bs] = _normalized("instance_norm", x, max(1, channels), weight, bias, epsilon)
    return result


class _ChannelNorm(Module, Generic[Features]):
    """Base class of the layers: a weight, ones at first, and a bias, zeros at first, of the axis (channels,)."""

    # The name of the argument with the channels.
    _argument: ClassVar[str]
    weight: Parameter[tuple[Features]] | None
    bias: Parameter[tuple[Features]] | None

    def _begin(self, num_channels: object, epsilon: float, affine: bool, dtype: DTypeLike) -> None:
        axis: Any = sized_axis(type(self).__name__, self._argument, num_channels)
        self.channels = axis
        self.epsilon = number(f"{type(self).__name__}: epsilon", epsilon, 0.0)
        self.weight = Parameter(np.ones(int(axis)), (axis,), name="weight", dtype=dtype) if affine else None
        self.bias = Parameter(np.zeros(int(axis)), (axis,), name="bias", dtype=dtype) if affine else None

    def _check(self, x: Node) -> None:
        """Raise `ShapeError` unless `x` has the axes (batch, channels, *sizes), with the layer's channels."""
        layer = type(self).__name__
        spatial_sizes(layer, x, None)
        check_axis(layer, self._argument, self.channels, x, 1, CHANNELS_SECOND)


class GroupNorm(_ChannelNorm[Features]):
    """Normalization over groups of channels of (batch, num_channels, *sizes); see `group_norm`.

    `weight` and `bias` have the axis `num_channels`, a `Dim` with a size or an integer; they are None with
    `affine=False`. `dtype` is float32 or float64.

    Raise `ShapeError` for an axis without a size, below 1 or not divisible by `num_groups`, `DTypeError` for an axis, a
    number or a dtype of another kind, `ValueError` for an epsilon below 0.

    >>> GroupNorm(2, 4)(wy.Input(dims=(5, 4, 3, 3))).shape
    (5, 4, 3, 3)
    """

    _argument = "num_channels"

    def __init__(
        self: GroupNorm[M], num_groups: int, num_channels: M | Unnamed[M], epsilon: float = 1e-5, affine: bool = True,
        *, dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        self._begin(num_channels, epsilon, affine, dtype)
        self.num_groups = whole("GroupNorm: num_groups", num_groups, 1)
        if int(self.channels) % self.num_groups:
            raise ShapeError(f"GroupNorm: {self.channels!r} cannot be divided into {num_groups} equal groups")

    def __call__(self, x: Tensor[B, Features, *Bs]) -> Tensor[B, Features, *Bs]:
        """Return `x` normalized, of the same axes; raise `ShapeError` for other axes or channels."""
        self._check(x)
        return group_norm(x, self.num_groups, self.weight, self.bias, self.epsilon)

    def __repr__(self) -> str:
        affine = ", affine=False" if self.weight is None else ""
        return f"GroupNorm({self.num_groups}, {self.channels!r}{shown_epsilon(self.epsilon)}{affine})"


class InstanceNorm(_ChannelNorm[Features]):
    """Normalization of each channel of (batch, num_features, *sizes) over its sizes; see `instance_norm`.

    With `affine`, `weight` and `bias` have the axis `num_features`, a `Dim` with a size or an integer; else they are
    None. Statistics are always those of the image. `dtype` is float32 or float64.

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis, a number or a dtype of another
    kind, `ValueError` for an epsilon below 0.

    >>> InstanceNorm(4)(wy.Input(dims=(5, 4, 3, 3))).shape
    (5, 4, 3, 3)
    """

    _argument = "num_features"

    def __init__(
        self: InstanceNorm[M], num_features: M | Unnamed[M], epsilon: float = 1e-5, affine: bool = False, *,
        dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        self._begin(num_features, epsilon, affine, dtype)

    def __call__(self, x: Tensor[B, Features, *Bs]) -> Tensor[B, Features, *Bs]:
        """Return `x` normalized, of the same axes; raise `ShapeError` for other axes or channels."""
        self._check(x)
        return instance_norm(x, self.weight, self.bias, self.epsilon)

    def __repr__(self) -> str:
        affine = "" if self.weight is None else ", affine=True"
        return f"InstanceNorm({self.channels!r}{shown_epsilon(self.epsilon)}{affine})"


__all__ = ["GroupNorm", "InstanceNorm", "group_norm", "instance_norm"]

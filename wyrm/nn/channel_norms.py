"""Normalization of groups of channels, and of each channel, of each row of a batch."""

from __future__ import annotations

from typing import Any, ClassVar, Generic

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, axis_size
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import Array, DTypeLike, Unnamed
from wyrm.module import Module
from wyrm.nn.axes import CHANNELS_SECOND, Bs, Features, M, check_axis
from wyrm.nn.normalization import affine_parameters, shown_epsilon
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.normalization import group_norm as ops
from wyrm.support.options import whole

B = TypeVar("B")
C = TypeVar("C")


def _normalized(
    name: str, x: Node, groups: int, weight: Node | Array | None, bias: Node | Array | None, epsilon: float
) -> Node[Any, Any]:
    dims = x.dims
    channels = axis_size(dims[1])
    if channels is None or channels % groups:
        raise ShapeError(f"{name}: the channels of {describe(x)} cannot be divided into {groups} equal groups")
    for given, name_of in ((weight, "weight"), (bias, "bias")):
        each = None if given is None else operand(given, x)
        if each is not None and (each.ndim != 1 or axis_size(each.dims[0]) != channels):
            raise ShapeError(f"{name}: {name_of} must have one axis, {dims[1]!r}, but it is {describe(each)}")
    if weight is None and bias is not None:
        weight = np.ones(channels)
    vectors = (operand(each, x) for each in (weight, bias) if each is not None)
    return ops.GroupNorm(x, *vectors, groups=groups, epsilon=epsilon)


def _check_axes(name: str, x: Node, least: int, rank: int | None = None) -> None:
    """Raise unless `x` is a node of the axes (batch, channels, *sizes), with at least `least` or with `rank` sizes."""
    if not isinstance(x, BaseNode):
        raise TypeError(f"{name} takes a node, as in wy.Constant(array), not {type(x).__name__}")
    sizes = x.ndim - 2
    if sizes < least or rank not in (None, sizes):
        count = f"{least} or more" if rank is None else str(rank)
        raise ShapeError(f"{name} takes the axes (batch, channels, *sizes) with {count} sizes, not {describe(x)}")


def group_norm(
    x: Node[Any, tuple[B, C, *Bs]],
    num_groups: int,
    weight: Node | Array | None = None,
    bias: Node | Array | None = None,
    epsilon: float = 1e-5,
) -> Tensor[B, C, *Bs]:
    """Return `(x - mean) / sqrt(variance + epsilon) * weight + bias`, normalized over groups of channels.

    `x` has the axes (batch, channels, *sizes), `weight` and `bias` (channels,). The mean and the variance are those of
    all elements of a group of neighbouring channels; the data may decide all sizes but that of the channels. Wu and He,
    "Group normalization" (2018).

    Raise `ShapeError` for axes that do not match, and channels without a size or that cannot be divided into
    `num_groups` groups; `DTypeError` for masks and options of another kind.

    >>> x = wy.Constant([[[1.0, 3.0], [0.0, 8.0]]])
    >>> group_norm(x, 2).forward().round(3).tolist()
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """
    groups = whole("group_norm: num_groups", num_groups, 1)
    _check_axes("group_norm", x, 0)
    return _normalized("group_norm", x, groups, weight, bias, epsilon)


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
    _check_axes("instance_norm", node, 1)
    channels = axis_size(node.dims[1])
    if channels is None:
        raise ShapeError(f"instance_norm: the channels of {describe(x)} need a size")
    return _normalized("instance_norm", x, max(1, channels), weight, bias, epsilon)


class _ChannelNorm(Module, Generic[Features]):
    """Base class of the layers over channels: their options and parameters."""

    # The name of the argument with the channels.
    _argument: ClassVar[str]
    # The least number of spatial axes, and their number if it is fixed.
    _least: ClassVar[int] = 1
    _rank: ClassVar[int | None] = None
    channels: Axis
    epsilon: float
    weight: Parameter[tuple[Features]] | None
    bias: Parameter[tuple[Features]] | None

    def _begin(self, num_channels: object, epsilon: float, affine: bool, dtype: DTypeLike) -> None:
        checked = affine_parameters(type(self).__name__, self._argument, num_channels, epsilon, dtype)
        self.channels, self.epsilon, ones, zeros = checked
        self.weight, self.bias = (ones, zeros) if affine else (None, None)

    def _check(self, x: Node) -> None:
        """Raise `ShapeError` unless `x` has the axes (batch, channels, *sizes), with the layer's channels."""
        layer = type(self).__name__
        _check_axes(layer, x, self._least, self._rank)
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

    _argument, _least = "num_channels", 0

    def __init__(
        self: GroupNorm[M], num_groups: int, num_channels: M | Unnamed[M], epsilon: float = 1e-5, affine: bool = True,
        *, dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        self._begin(num_channels, epsilon, affine, dtype)
        self.num_groups: int = whole("GroupNorm: num_groups", num_groups, 1)
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
        return f"{type(self).__name__}({self.channels!r}{shown_epsilon(self.epsilon)}{affine})"


class InstanceNorm1d(InstanceNorm[Features]):
    """`InstanceNorm` of sequences, (batch, num_features, length), and of nothing else.

    >>> InstanceNorm1d(4)(wy.Input(dims=(5, 4, 9))).shape
    (5, 4, 9)
    """

    _rank = 1

    def __init__(
        self: InstanceNorm1d[M], num_features: M | Unnamed[M], epsilon: float = 1e-5, affine: bool = False, *,
        dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        self._begin(num_features, epsilon, affine, dtype)


class InstanceNorm2d(InstanceNorm[Features]):
    """`InstanceNorm` of images, (batch, num_features, height, width), and of nothing else.

    >>> InstanceNorm2d(4)(wy.Input(dims=(5, 4, 3, 3))).shape
    (5, 4, 3, 3)
    """

    _rank = 2

    def __init__(
        self: InstanceNorm2d[M], num_features: M | Unnamed[M], epsilon: float = 1e-5, affine: bool = False, *,
        dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        self._begin(num_features, epsilon, affine, dtype)


class InstanceNorm3d(InstanceNorm[Features]):
    """`InstanceNorm` of volumes, (batch, num_features, depth, height, width), and of nothing else.

    >>> InstanceNorm3d(4)(wy.Input(dims=(5, 4, 2, 3, 3))).shape
    (5, 4, 2, 3, 3)
    """

    _rank = 3

    def __init__(
        self: InstanceNorm3d[M], num_features: M | Unnamed[M], epsilon: float = 1e-5, affine: bool = False, *,
        dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        self._begin(num_features, epsilon, affine, dtype)

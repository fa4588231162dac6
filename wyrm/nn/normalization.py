"""Normalization: over the last axis, over a batch, over groups of channels, and of each channel of an image."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Generic, overload

import numpy as np
from numpy.typing import DTypeLike
from typing_extensions import TypeVar

from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import describe
from wyrm.graph.leaves import constant_beside
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.typing import A, Array, Unnamed
from wyrm.graph.values import record_training_mode
from wyrm.nn.axes import (
    CHANNELS_SECOND,
    Bs,
    Features,
    M,
    axis_number,
    check_axis,
    feature_axis,
    refuse_named_elsewhere,
    sized_axis,
    spatial_sizes,
    with_axes_after,
)
from wyrm.nn.layer import Layer
from wyrm.nn.module import Module
from wyrm.ops.control.updating import updating
from wyrm.ops.elementwise.elementwise import operand
from wyrm.support.options import number, whole

B = TypeVar("B")
C = TypeVar("C")


def _affine(
    layer: str, argument: str, features: object, epsilon: float, dtype: DTypeLike
) -> tuple[Any, float, Parameter, Parameter]:
    """Return the checked axis and epsilon of a layer, a weight of ones and a bias of zeros."""
    axis: Any = sized_axis(layer, argument, features)
    checked = number(f"{layer}: epsilon", epsilon, 0.0)
    weight, bias = (
        Parameter(np.full(int(axis), value), (axis,), name=name, dtype=dtype)
        for name, value in (("weight", 1.0), ("bias", 0.0))
    )
    return axis, checked, weight, bias


def _shown(epsilon: float) -> str:
    """Return the epsilon as `repr` shows it: nothing for the default."""
    return "" if epsilon == 1e-5 else f", epsilon={epsilon}"


class LayerNorm(Layer[Features, Features], Generic[Features]):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, with mean and variance over the last axis of `x`.

    `weight` starts with ones, `bias` with zeros; `bias` is None with `bias=False`. Both have the axis `features`, a
    `Dim` with a size, which mypy checks, or an integer, which it does not. `dtype` is float32 or float64. Ba, Kiros and
    Hinton, "Layer normalization" (2016).

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis, a number or a dtype of another
    kind, `ValueError` for an epsilon below 0.

    >>> layer = LayerNorm(2)
    >>> layer(wy.Constant([[1.0, 3.0], [0.0, 8.0]])).forward().round(3).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """

    weight: Parameter[tuple[Features]]
    bias: Parameter[tuple[Features]] | None

    def __init__(
        self: LayerNorm[M], features: M | Unnamed[M], epsilon: float = 1e-5, bias: bool = True, *,
        dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        _, self.epsilon, self.weight, zeros = _affine("LayerNorm", "features", features, epsilon, dtype)
        self.bias = zeros if bias else None

    def __call__(self, x: Tensor[*Bs, Features]) -> Tensor[*Bs, Features]:
        """Return `x` normalized, of the same axes.

        Raise `ShapeError` where the last axis of `x` is not `features` or has size 0, `DTypeError` for another dtype.
        """
        node = operand(x, self.weight)
        refuse_named_elsewhere("LayerNorm", "features", self.weight.dims[0], node)
        result: Tensor[*Bs, Features] = node.layer_norm(self.weight, self.bias, self.epsilon)
        return result

    def __repr__(self) -> str:
        bias = ", bias=False" if self.bias is None else ""
        return f"LayerNorm({self.weight.dims[0]!r}{_shown(self.epsilon)}{bias})"


class RMSNorm(Layer[Features, Features], Generic[Features]):
    """`x / sqrt(mean(x ** 2) + epsilon) * weight`, with the mean over the last axis of `x`.

    `weight` starts with ones. It has the axis `features`, a `Dim` with a size, which mypy checks, or an integer, which
    it does not. `dtype` is float32 or float64. Zhang and Sennrich, "Root mean square layer normalization" (2019).

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis, a number or a dtype of another
    kind, `ValueError` for an epsilon below 0.

    >>> layer = RMSNorm(2)
    >>> layer(wy.Constant([[3.0, -3.0], [0.0, 0.0]])).forward().round(3).tolist()
    [[1.0, -1.0], [0.0, 0.0]]
    """

    weight: Parameter[tuple[Features]]

    def __init__(
        self: RMSNorm[M], features: M | Unnamed[M], epsilon: float = 1e-5, *, dtype: DTypeLike = np.float32
    ) -> None:
        _, self.epsilon, self.weight, _ = _affine("RMSNorm", "features", features, epsilon, dtype)

    def __call__(self, x: Tensor[*Bs, Features]) -> Tensor[*Bs, Features]:
        """Return `x` normalized, of the same axes.

        Raise `ShapeError` where the last axis of `x` is not `features` or has size 0, `DTypeError` for another dtype.
        """
        node = operand(x, self.weight)
        refuse_named_elsewhere("RMSNorm", "features", self.weight.dims[0], node)
        result: Tensor[*Bs, Features] = node.rms_norm(self.weight, self.epsilon)
        return result

    def __repr__(self) -> str:
        return f"RMSNorm({self.weight.dims[0]!r}{_shown(self.epsilon)})"


class BatchNorm(Layer[Features, Features], Generic[Features]):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, with a mean and a variance for each feature.

    `features` is an axis of `x`, a `Dim` with a size, which mypy checks, or an integer. `axis` is its position: 1 for
    images, (batch, channels, height, width), as PyTorch's `BatchNorm2d` takes them, and -1 for the last. Without `axis`
    it is the last; an operand of more than two axes must then name it by a `Dim`, because a plain number may fit
    several axes.

    While training, mean and variance are those over all other axes, and each step moves the buffers `running_mean` and
    `running_var` to `(1 - momentum) * buffer + momentum * batch`, with the unbiased variance of the batch (divided by
    n - 1); see `wy.updating`. The buffers are saved with the model. Graphs built after `eval()` normalize by the
    buffers. Threads do not divide a batch, because its rows depend on each other. `dtype` is float32 or float64. Ioffe
    and Szegedy, "Batch normalization" (2015).

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis, a number or a dtype of another
    kind, `ValueError` for an epsilon below 0 or a momentum outside [0, 1].

    >>> layer, x = BatchNorm(1), wy.Constant([[1.0], [3.0]])
    >>> layer(x).forward().round(3).tolist()
    [[-1.0], [1.0]]
    >>> layer(x).square().sum().backward()
    >>> layer.running_mean.value.round(3).tolist()
    [0.20000000298023224]
    >>> BatchNorm(3, axis=1)(wy.Input(dims=(5, 3, 8, 8))).shape
    (5, 3, 8, 8)
    """

    weight: Parameter[tuple[Features]]
    bias: Parameter[tuple[Features]]
    running_mean: Buffer[tuple[Features]]
    running_var: Buffer[tuple[Features]]

    def __init__(
        self: BatchNorm[M], features: M | Unnamed[M], epsilon: float = 1e-5, momentum: float = 0.1, *,
        axis: int | None = None, dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        own, self.epsilon, self.weight, self.bias = _affine("BatchNorm", "features", features, epsilon, dtype)
        self.momentum = number("BatchNorm: momentum", momentum)
        if not 0.0 <= self.momentum <= 1.0:
            raise OptionError(f"BatchNorm: momentum must be in [0, 1], not {momentum}")
        self.axis = None if axis is None else axis_number("BatchNorm", axis)
        size = int(own)
        self.running_mean = Buffer(np.zeros(size), (own,), name="running_mean", dtype=dtype)
        self.running_var = Buffer(np.ones(size), (own,), name="running_var", dtype=dtype)

    @overload
    def __call__(self, x: Tensor[*Bs, Features]) -> Tensor[*Bs, Features]: ...
    @overload
    def __call__(self, x: Tensor[A, Features, *Bs]) -> Tensor[A, Features, *Bs]: ...
    def __call__(self, x: Any) -> Any:
        """Return `x` normalized, of the same axes.

        Raise `ShapeError` where `x` has fewer than two axes, where the axis of the features is not `features`, or
        where `x` has more than two axes and nothing says which of them that is; `DTypeError` for another dtype.
        """
        x = operand(x, self.weight)
        if x.ndim < 2:
            raise ShapeError(f"BatchNorm takes two axes or more, (..., features), not {describe(x)}")
        position = feature_axis("BatchNorm", self.weight.dims[0], self.axis, x)
        others = tuple(i for i in range(x.ndim) if i != position)
        after = x.ndim - 1 - position
        if not self.training:
            return self._scaled(x - with_axes_after(self.running_mean, after), self.running_var, after)
        mean = x.mean(others)
        centred = x - with_axes_after(mean, after)
        variance = centred.square().mean(others)
        unbiased = x.var(others, ddof=1)
        result = updating(
            self._scaled(centred, variance, after),
            {
                self.running_mean: self._moved(self.running_mean, mean),
                self.running_var: self._moved(self.running_var, unbiased),
            },
        )
        return record_training_mode(result, self)

    def _moved(self, buffer: Buffer, batch: Node) -> Node:
        moved: Node = (1.0 - self.momentum) * buffer + self.momentum * batch.stop_gradient()
        # With `BatchNorm(3)`, the axis of `x` may have a name that the buffer lacks.
        return moved if moved.dims == buffer.dims else moved.reshape(buffer.dims)

    def _scaled(self, centred: Node, variance: Node, after: int) -> Node:
        scale = self.weight / (variance + self.epsilon).sqrt()
        scaled: Node = centred * with_axes_after(scale, after) + with_axes_after(self.bias, after)
        return scaled

    def __repr__(self) -> str:
        momentum = "" if self.momentum == 0.1 else f", momentum={self.momentum}"
        axis = "" if self.axis is None else f", axis={self.axis}"
        return f"BatchNorm({self.weight.dims[0]!r}{_shown(self.epsilon)}{momentum}{axis})"


def _normalized(
    name: str, x: Node, groups: int, weight: Node | Array | None, bias: Node | Array | None, epsilon: float
) -> Node[Any, Any]:
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
    spatial_sizes("instance_norm", node, None)
    channels = axis_size(node.dims[1])
    if channels is None:
        raise ShapeError(f"instance_norm: the channels of {describe(x)} need a size")
    return _normalized("instance_norm", x, max(1, channels), weight, bias, epsilon)


class _ChannelNorm(Module, Generic[Features]):
    """Base class of the layers over channels: their options and parameters."""

    # The name of the argument with the channels.
    _argument: ClassVar[str]
    weight: Parameter[tuple[Features]] | None
    bias: Parameter[tuple[Features]] | None

    def _begin(self, num_channels: object, epsilon: float, affine: bool, dtype: DTypeLike) -> None:
        checked = _affine(type(self).__name__, self._argument, num_channels, epsilon, dtype)
        self.channels, self.epsilon, ones, zeros = checked
        self.weight, self.bias = (ones, zeros) if affine else (None, None)

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
        return f"GroupNorm({self.num_groups}, {self.channels!r}{_shown(self.epsilon)}{affine})"


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
        return f"InstanceNorm({self.channels!r}{_shown(self.epsilon)}{affine})"

"""Normalization: over the last axes, over a batch, and over groups of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, SupportsIndex, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, axis_size, product
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.modes import record_evaluation_mode, record_training_mode
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.typing import A, Array, DTypeLike, Unnamed
from wyrm.module import Module
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
    with_axes_after,
)
from wyrm.nn.layer import Layer
from wyrm.ops.control.updating import updating
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.normalization import batch_norm
from wyrm.ops.normalization import group_norm as group_norms
from wyrm.support.options import flag, number, whole

B = TypeVar("B")
D = TypeVar("D")
H = TypeVar("H")
W = TypeVar("W")
C = TypeVar("C")


def affine_parameters(
    layer: str, argument: str, features: Any, epsilon: float, dtype: DTypeLike
) -> tuple[Any, float, Parameter, Parameter]:
    """Return the checked axis and epsilon of a layer, a weight of ones and a bias of zeros; axes in a tuple or list."""
    several = isinstance(features, tuple | list) and len(features) > 0
    axes: Any = tuple(sized_axis(layer, argument, axis) for axis in (features if several else (features,)))
    checked = number(f"{layer}: epsilon", epsilon, 0.0)
    weight, bias = (
        Parameter(np.full(tuple(map(int, axes)), value), axes, name=name, dtype=dtype)
        for name, value in (("weight", 1.0), ("bias", 0.0))
    )
    return axes[0], checked, weight, bias


def shown_epsilon(epsilon: float) -> str:
    """Return the epsilon as `repr` shows it: nothing for the default."""
    return "" if epsilon == 1e-5 else f", epsilon={epsilon}"


class LayerNorm(Layer[Features, Features], Generic[Features]):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, with mean and variance over the last axis of `x`.

    `weight` starts with ones, `bias` with zeros; `bias` is None with `bias=False`. Both have the axis `features`, a
    `Dim` with a size, which mypy checks, or an integer, which it does not. A tuple of several axes, PyTorch's
    `normalized_shape`, normalizes over the last axes together. `dtype` is float32 or float64. Ba, Kiros and Hinton,
    "Layer normalization" (2016).

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis, a number or a dtype of another
    kind, `ValueError` for an epsilon below 0.

    >>> layer = LayerNorm(2)
    >>> layer(wy.Constant([[1.0, 3.0], [0.0, 8.0]])).forward().round(3).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    >>> LayerNorm((3, 28, 28))(wy.Input(dims=(5, 3, 28, 28))).shape
    (5, 3, 28, 28)
    """

    epsilon: float
    weight: Parameter[tuple[Features]]
    bias: Parameter[tuple[Features]] | None

    @overload
    def __init__(
        self: LayerNorm[M], features: M | Unnamed[M], epsilon: float = 1e-5, bias: bool = True, *,
        dtype: DTypeLike = np.float32,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: LayerNorm[Any], features: Sequence[Dim | SupportsIndex], epsilon: float = 1e-5, bias: bool = True, *,
        dtype: DTypeLike = np.float32,
    ) -> None: ...  # fmt: skip
    def __init__(
        self, features: Any, epsilon: float = 1e-5, bias: bool = True, *, dtype: DTypeLike = np.float32
    ) -> None:
        _, self.epsilon, self.weight, zeros = affine_parameters("LayerNorm", "features", features, epsilon, dtype)
        self.bias = zeros if bias else None

    def __call__(self, x: Tensor[*Bs, Features]) -> Tensor[*Bs, Features]:
        """Return `x` normalized, of the same axes.

        Raise `ShapeError` where the last axes of `x` are not `features` or have size 0, `DTypeError` for another dtype.
        """
        node = operand(x, self.weight)
        dims: Dims = self.weight.dims
        first = node.ndim - len(dims)
        if len(dims) == 1:
            refuse_named_elsewhere("LayerNorm", "features", dims[0], node)
            last: Tensor[*Bs, Features] = node.layer_norm(self.weight, self.bias, self.epsilon)
            return last
        if first < 0:
            raise ShapeError(f"LayerNorm normalizes over the axes {format_dims(dims)}, but x is {describe(node)}")
        for position, axis in enumerate(dims, first):
            check_axis("LayerNorm", "features", axis, node, position)
        bias = None if self.bias is None else self.bias.reshape((-1,))
        joined = node.reshape((*node.dims[:first], product(dims)))
        result: Tensor[*Bs, Features] = joined.layer_norm(self.weight.reshape((-1,)), bias, self.epsilon).reshape(
            (*node.dims[:first], *dims)
        )
        return result

    def __repr__(self) -> str:
        bias = ", bias=False" if self.bias is None else ""
        dims: Dims = self.weight.dims
        features = repr(dims[0]) if len(dims) == 1 else format_dims(dims)
        return f"LayerNorm({features}{shown_epsilon(self.epsilon)}{bias})"


class RMSNorm(Layer[Features, Features], Generic[Features]):
    """`x / sqrt(mean(x ** 2) + epsilon) * weight`, with the mean over the last axis of `x`.

    `weight` starts with ones. With `zero_centered`, the factor is `1 + weight`, as in Gemma, and `weight` starts with
    zeros: weight decay then pulls the factor to 1. `weight` has the axis `features`, a `Dim` with a size, which mypy
    checks, or an integer, which it does not. `dtype` is float32 or float64. Zhang and Sennrich, "Root mean square layer
    normalization" (2019).

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis, a number or a dtype of another
    kind, `ValueError` for an epsilon below 0.

    >>> layer = RMSNorm(2)
    >>> layer(wy.Constant([[3.0, -3.0], [0.0, 0.0]])).forward().round(3).tolist()
    [[1.0, -1.0], [0.0, 0.0]]
    """

    epsilon: float
    weight: Parameter[tuple[Features]]

    def __init__(
        self: RMSNorm[M], features: M | Unnamed[M], epsilon: float = 1e-5, *, zero_centered: bool = False,
        dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        _, self.epsilon, self.weight, _ = affine_parameters("RMSNorm", "features", features, epsilon, dtype)
        self.zero_centered: bool = flag("RMSNorm: zero_centered", zero_centered)
        if self.zero_centered:
            self.weight.set(np.zeros_like(self.weight.value))

    def __call__(self, x: Tensor[*Bs, Features]) -> Tensor[*Bs, Features]:
        """Return `x` normalized, of the same axes.

        Raise `ShapeError` where the last axis of `x` is not `features` or has size 0, `DTypeError` for another dtype.
        """
        node = operand(x, self.weight)
        refuse_named_elsewhere("RMSNorm", "features", self.weight.dims[0], node)
        factor: Node = self.weight + 1.0 if self.zero_centered else self.weight
        result: Tensor[*Bs, Features] = node.rms_norm(factor, self.epsilon)
        return result

    def __repr__(self) -> str:
        centered = ", zero_centered=True" if self.zero_centered else ""
        return f"RMSNorm({self.weight.dims[0]!r}{shown_epsilon(self.epsilon)}{centered})"


class _BatchNorm(Module, Generic[Features]):
    """Base class of the layers: the options, the statistics, and the graph."""

    # The name of the argument with the features.
    _argument: ClassVar[str]
    epsilon: float
    momentum: float | None
    running_mean: Buffer[tuple[Features]]
    running_var: Buffer[tuple[Features]]
    num_batches_tracked: Buffer | None

    def _begin(
        self, features: object, epsilon: float, momentum: float | None, dtype: DTypeLike
    ) -> tuple[Parameter, Parameter]:
        """Check the options, make the buffers, and return a weight and a bias."""
        name = type(self).__name__
        own, self.epsilon, weight, bias = affine_parameters(name, self._argument, features, epsilon, dtype)
        self.momentum = None if momentum is None else number(f"{name}: momentum", momentum)
        if self.momentum is not None and not 0.0 <= self.momentum <= 1.0:
            raise OptionError(f"{name}: momentum must be in [0, 1], or None, not {momentum}")
        self._own_axis = own
        self.running_mean = Buffer(np.zeros(int(own)), (own,), name="running_mean", dtype=dtype)
        self.running_var = Buffer(np.ones(int(own)), (own,), name="running_var", dtype=dtype)
        counts = momentum is None
        self.num_batches_tracked = Buffer(np.zeros(()), name="num_batches_tracked", dtype=dtype) if counts else None
        return weight, bias

    def _normalized(self, x: Node, axis: int, weight: Node | None, bias: Node | None) -> Any:
        """Return `x` normalized over all axes but `axis`; in training, the result updates the buffers."""
        if not self.training:
            record_evaluation_mode(self)
            after = x.ndim - 1 - axis
            scale: Node = 1.0 / (self.running_var + self.epsilon).sqrt()
            if weight is None or bias is None:
                return (x - with_axes_after(self.running_mean, after)) * with_axes_after(scale, after)
            centred = x - with_axes_after(self.running_mean, after)
            return centred * with_axes_after(scale * weight, after) + with_axes_after(bias, after)
        result = batch_norm.BatchNorm(x, weight, bias, axis=axis, epsilon=self.epsilon)
        moments: Node = result.moments.stop_gradient()
        count = batch_norm.batch_count(x, axis)
        updates: dict[Buffer, Node] = {}
        factor: Any = self.momentum
        if self.num_batches_tracked is not None:
            updates[self.num_batches_tracked] = self.num_batches_tracked + 1.0
            factor = 1.0 / updates[self.num_batches_tracked]
        for buffer, batch in (
            (self.running_mean, moments[0]),
            (self.running_var, moments[1] * (count / (count - 1.0))),
        ):
            moved: Node = (1.0 - factor) * buffer + factor * batch
            # With `BatchNorm(3)`, the axis of `x` may have a name that the buffer lacks.
            updates[buffer] = moved if moved.dims == buffer.dims else moved.reshape(buffer.dims)
        return record_training_mode(updating(result.erase(), updates), self)

    def _options_in_repr(self) -> str:
        """Return the axis and the options that are not the default, as `repr` shows them."""
        momentum = "" if self.momentum == 0.1 else f", momentum={self.momentum}"
        return f"{self.running_mean.dims[0]!r}{shown_epsilon(self.epsilon)}{momentum}"


class BatchNorm(_BatchNorm[Features], Layer[Features, Features], Generic[Features]):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, with a mean and a variance for each feature.

    `features` is an axis of `x`, a `Dim` with a size, which mypy checks, or an integer. `axis` is its position: 1 for
    images, (batch, channels, height, width), for which there is `BatchNorm2d` too, and -1 for the last. Without `axis`
    it is the last; an operand of more than two axes must then name it by a `Dim`, because a plain number may fit
    several axes.

    While training, mean and variance are those over all other axes, and each step moves the buffers `running_mean` and
    `running_var` to `(1 - momentum) * buffer + momentum * batch`, with the unbiased variance of the batch (divided by
    n - 1); see `wy.updating`. With `momentum=None` they are the averages over all batches so far, which the buffer
    `num_batches_tracked` counts. The buffers are saved with the model. Graphs built after `eval()` normalize by the
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

    _argument = "features"
    weight: Parameter[tuple[Features]]
    bias: Parameter[tuple[Features]]

    def __init__(
        self: BatchNorm[M], features: M | Unnamed[M], epsilon: float = 1e-5, momentum: float | None = 0.1, *,
        axis: int | None = None, dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        self.weight, self.bias = self._begin(features, epsilon, momentum, dtype)
        self.axis: int | None = None if axis is None else axis_number("BatchNorm", axis)

    @overload
    def __call__(self, x: Tensor[*Bs, Features]) -> Tensor[*Bs, Features]: ...
    @overload
    def __call__(self, x: Tensor[A, Features, *Bs]) -> Tensor[A, Features, *Bs]: ...
    def __call__(self, x: Any) -> Any:
        """Return `x` normalized, of the same axes.

        Raise `ShapeError` where `x` has fewer than two axes, where the axis of the features is not `features`, where
        `x` has more than two axes and nothing says which of them that is, and for one value of each feature in
        training; `DTypeError` for another dtype.
        """
        x = operand(x, self.weight)
        if x.ndim < 2:
            raise ShapeError(f"BatchNorm takes two axes or more, (..., features), not {describe(x)}")
        position = feature_axis("BatchNorm", self.weight.dims[0], self.axis, x)
        return self._normalized(x, position, self.weight, self.bias)

    def __repr__(self) -> str:
        axis = "" if self.axis is None else f", axis={self.axis}"
        return f"BatchNorm({self._options_in_repr()}{axis})"


class _ChannelBatchNorm(_BatchNorm[Features], Generic[Features]):
    """Base class of the layers over channels, the axis 1; `ranks` has the numbers of axes that they take."""

    _argument = "num_features"
    _axes: ClassVar[str]
    _ranks: ClassVar[tuple[int, ...]]
    weight: Parameter[tuple[Features]] | None
    bias: Parameter[tuple[Features]] | None

    def __init__(
        self, num_features: Any, epsilon: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, *,
        dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        ones, zeros = self._begin(num_features, epsilon, momentum, dtype)
        self.weight, self.bias = (ones, zeros) if affine else (None, None)

    def _apply(self, x: Any) -> Any:
        name = type(self).__name__
        x = operand(x, self.running_mean)
        if x.ndim not in self._ranks:
            raise ShapeError(f"{name} takes the axes {self._axes}, not {describe(x)}")
        check_axis(name, self._argument, self.running_mean.dims[0], x, 1, CHANNELS_SECOND)
        return self._normalized(x, 1, self.weight, self.bias)

    def __repr__(self) -> str:
        affine = ", affine=False" if self.weight is None else ""
        return f"{type(self).__name__}({self._options_in_repr()}{affine})"


class BatchNorm1d(_ChannelBatchNorm[Features], Layer[Features, Features], Generic[Features]):
    """Batch normalization of features, (batch, num_features), or sequences, (batch, num_features, length).

    The features are axis 1, as in PyTorch; see `BatchNorm2d` for the options and errors.

    >>> BatchNorm1d(4)(wy.Input(dims=(8, 4))).shape, BatchNorm1d(4)(wy.Input(dims=(8, 4, 20))).shape
    ((8, 4), (8, 4, 20))
    """

    _axes, _ranks = "(batch, num_features) or (batch, num_features, length)", (2, 3)

    def __init__(
        self: BatchNorm1d[M], num_features: M | Unnamed[M], epsilon: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, *, dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        super().__init__(num_features, epsilon, momentum, affine, dtype=dtype)

    @overload
    def __call__(self, x: Tensor[*Bs, Features]) -> Tensor[*Bs, Features]: ...
    @overload
    def __call__(self, x: Tensor[B, Features, W]) -> Tensor[B, Features, W]: ...
    def __call__(self, x: Any) -> Any:
        """Return `x` normalized, of the same axes; raise `ShapeError` for other axes or another number of features."""
        return self._apply(x)


class BatchNorm2d(_ChannelBatchNorm[Features], Generic[Features]):
    """Batch normalization of the channels of images, (batch, num_features, height, width).

    It is `BatchNorm` with `axis=1`, with the names and numbers of PyTorch's `BatchNorm2d`: `weight`, `bias`,
    `running_mean` and `running_var`, so that arrays of a PyTorch model load. `weight` and `bias` are None with
    `affine=False`. Graphs built in training normalize by the batch and move the statistics, those built after
    `model.eval()` normalize by the statistics: build one for each. `momentum` is the part of the new value, 0.1 as in
    PyTorch; with None, statistics are averages over all batches so far. `num_features` is a `Dim` with a size, which
    mypy checks, or an integer; `dtype` is float32 or float64.

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis, a number or a dtype of another
    kind, `ValueError` for an epsilon below 0 or a momentum outside [0, 1].

    >>> layer = BatchNorm2d(3)
    >>> layer(wy.Input(dims=(5, 3, 8, 8))).shape, [name for name in layer.state_dict()]
    ((5, 3, 8, 8), ['weight', 'bias', 'running_mean', 'running_var'])
    """

    _axes, _ranks = "(batch, num_features, height, width)", (4,)

    def __init__(
        self: BatchNorm2d[M], num_features: M | Unnamed[M], epsilon: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, *, dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        super().__init__(num_features, epsilon, momentum, affine, dtype=dtype)

    def __call__(self, x: Tensor[B, Features, H, W]) -> Tensor[B, Features, H, W]:
        """Return `x` normalized, of the same axes; raise `ShapeError` for other axes or another number of features."""
        result: Tensor[B, Features, H, W] = self._apply(x)
        return result


class BatchNorm3d(_ChannelBatchNorm[Features], Generic[Features]):
    """Batch normalization of the channels of volumes, (batch, num_features, depth, height, width).

    See `BatchNorm2d` for the options and errors.

    >>> BatchNorm3d(2)(wy.Input(dims=(5, 2, 4, 4, 4))).shape
    (5, 2, 4, 4, 4)
    """

    _axes, _ranks = "(batch, num_features, depth, height, width)", (5,)

    def __init__(
        self: BatchNorm3d[M], num_features: M | Unnamed[M], epsilon: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, *, dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        super().__init__(num_features, epsilon, momentum, affine, dtype=dtype)

    def __call__(self, x: Tensor[B, Features, D, H, W]) -> Tensor[B, Features, D, H, W]:
        """Return `x` normalized, of the same axes; raise `ShapeError` for other axes or another number of features."""
        result: Tensor[B, Features, D, H, W] = self._apply(x)
        return result


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
    return group_norms.GroupNorm(x, *vectors, groups=groups, epsilon=epsilon)


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

    def _check_channels(self, x: Node) -> None:
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
        self._check_channels(x)
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
        self._check_channels(x)
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

"""Batch normalization over any axis, and over the channels of sequences, images and volumes."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import OptionError, ShapeError
from wyrm.graph.base import describe
from wyrm.graph.modes import record_evaluation_mode, record_training_mode
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.typing import A, DTypeLike, Unnamed
from wyrm.module import Module
from wyrm.nn.axes import CHANNELS_SECOND, Bs, Features, M, axis_number, check_axis, feature_axis, with_axes_after
from wyrm.nn.layer import Layer
from wyrm.nn.normalization import affine_parameters, shown_epsilon
from wyrm.ops.control.updating import updating
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.normalization import batch_norm as ops
from wyrm.support.options import number

B = TypeVar("B")
D = TypeVar("D")
H = TypeVar("H")
W = TypeVar("W")


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
        result = ops.BatchNorm(x, weight, bias, axis=axis, epsilon=self.epsilon)
        moments: Node = result.moments.stop_gradient()
        count = ops.batch_count(x, axis)
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

    def _shown(self) -> str:
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
        return f"BatchNorm({self._shown()}{axis})"


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
        return f"{type(self).__name__}({self._shown()}{affine})"


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

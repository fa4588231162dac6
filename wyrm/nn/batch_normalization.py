"""Batch normalization."""

from __future__ import annotations

from typing import Any, Generic, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.errors import OptionError, ShapeError
from wyrm.graph.base import describe
from wyrm.graph.buffer import Buffer
from wyrm.graph.leaves import Parameter
from wyrm.graph.node import Node, Tensor
from wyrm.graph.training_mode import record_training_mode
from wyrm.graph.typing import A, Unnamed
from wyrm.nn.axes import Bs, Features, M, axis_number, feature_axis, sized_axis, with_axes_after
from wyrm.nn.layer import Layer
from wyrm.nn.normalization import shown_epsilon
from wyrm.ops.control.updating import updating
from wyrm.ops.elementwise.elementwise import operand
from wyrm.support.options import number


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
        own: Any = sized_axis("BatchNorm", "features", features)
        self.epsilon = number("BatchNorm: epsilon", epsilon, 0.0)
        self.momentum = number("BatchNorm: momentum", momentum)
        if not 0.0 <= self.momentum <= 1.0:
            raise OptionError(f"BatchNorm: momentum must be in [0, 1], not {momentum}")
        self.axis = None if axis is None else axis_number("BatchNorm", axis)
        size = int(own)
        self.weight = Parameter(np.ones(size), (own,), name="weight", dtype=dtype)
        self.bias = Parameter(np.zeros(size), (own,), name="bias", dtype=dtype)
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
        # A layer of a plain number may get an operand whose axis has a name.
        return moved if moved.dims == buffer.dims else moved.reshape(buffer.dims)

    def _scaled(self, centred: Node, variance: Node, after: int) -> Node:
        scale = self.weight / (variance + self.epsilon).sqrt()
        scaled: Node = centred * with_axes_after(scale, after) + with_axes_after(self.bias, after)
        return scaled

    def __repr__(self) -> str:
        momentum = "" if self.momentum == 0.1 else f", momentum={self.momentum}"
        axis = "" if self.axis is None else f", axis={self.axis}"
        return f"BatchNorm({self.weight.dims[0]!r}{shown_epsilon(self.epsilon)}{momentum}{axis})"

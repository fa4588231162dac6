"""Batch normalization."""

from __future__ import annotations

from typing import Any, Generic, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.errors import ShapeError
from wyrm.nn.axes import Bs, Features, M, sized_axis
from wyrm.nn.layer import Layer
from wyrm.nn.normalization import shown_epsilon
from wyrm.node.base import describe
from wyrm.node.buffer import Buffer
from wyrm.node.leaves import Parameter
from wyrm.node.node import Node, Tensor
from wyrm.node.training_mode import record_training_mode
from wyrm.ops.updating import updating
from wyrm.types.dims import Dim
from wyrm.types.options import number


class BatchNorm(Layer[Features, Features], Generic[Features]):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, with a mean and a variance for each feature.

    The last axis of `x` is `features`. While training, mean and variance are those over all other axes, and each step
    moves the buffers `running_mean` and `running_var` to `(1 - momentum) * buffer + momentum * batch`, with the
    unbiased variance of the batch (divided by n - 1); see `wy.updating`. The buffers are saved with the model. Graphs
    built after `eval()` normalize by the buffers. Threads do not divide a batch, because its rows depend on each
    other. `dtype` is float32 or float64. Ioffe and Szegedy, "Batch normalization" (2015).

    Raise `ShapeError` for an axis without a size or below 0, `DTypeError` for an axis, a number or a dtype of another
    kind, `ValueError` for an epsilon below 0 or a momentum outside [0, 1].

    >>> layer, x = BatchNorm(1), wy.Constant([[1.0], [3.0]])
    >>> layer(x).forward().round(3).tolist()
    [[-1.0], [1.0]]
    >>> layer(x).square().sum().backward()
    >>> layer.running_mean.value.round(3).tolist()
    [0.20000000298023224]
    """

    weight: Parameter[tuple[Features]]
    bias: Parameter[tuple[Features]]
    running_mean: Buffer[tuple[Features]]
    running_var: Buffer[tuple[Features]]

    @overload
    def __init__(
        self: BatchNorm,
        features: int,
        epsilon: float = 1e-5,
        momentum: float = 0.1,
        *,
        dtype: DTypeLike = np.float32,
    ) -> None: ...
    @overload
    def __init__(
        self: BatchNorm[M], features: M, epsilon: float = 1e-5, momentum: float = 0.1, *, dtype: DTypeLike = np.float32
    ) -> None: ...
    def __init__(
        self, features: Dim | int, epsilon: float = 1e-5, momentum: float = 0.1, *, dtype: DTypeLike = np.float32
    ) -> None:
        axis: Any = sized_axis("BatchNorm", "features", features)
        self.epsilon = number("BatchNorm: epsilon", epsilon, 0.0)
        if not 0.0 <= momentum <= 1.0:
            raise ValueError(f"BatchNorm: momentum must be in [0, 1], not {momentum}")
        self.momentum = float(momentum)
        self.weight = Parameter(np.ones(int(axis)), (axis,), name="weight", dtype=dtype)
        self.bias = Parameter(np.zeros(int(axis)), (axis,), name="bias", dtype=dtype)
        self.running_mean = Buffer(np.zeros(int(axis)), (axis,), name="running_mean", dtype=dtype)
        self.running_var = Buffer(np.ones(int(axis)), (axis,), name="running_var", dtype=dtype)

    def __call__(self, x: Tensor[*Bs, Features]) -> Tensor[*Bs, Features]:
        """Return `x` normalized, of the same axes.

        Raise `ShapeError` where `x` has fewer than two axes or its last is not `features`, `DTypeError` for another
        dtype.
        """
        operand: Node = x
        if len(operand.dims) < 2:
            raise ShapeError(f"BatchNorm takes two axes or more, (..., features), not {describe(operand)}")
        if not self.training:
            normalized: Tensor[*Bs, Features] = self._scaled(operand - self.running_mean, self.running_var)
            return normalized
        axes = tuple(range(len(operand.dims) - 1))
        mean = operand.mean(axes)
        centred = operand - mean
        variance = centred.square().mean(axes)
        unbiased = operand.var(axes, ddof=1)
        rate = self.momentum
        result: Tensor[*Bs, Features] = updating(
            self._scaled(centred, variance),
            {
                self.running_mean: (1.0 - rate) * self.running_mean + rate * mean.stop_gradient(),
                self.running_var: (1.0 - rate) * self.running_var + rate * unbiased.stop_gradient(),
            },
        )
        return record_training_mode(result, self)

    def _scaled(self, centred: Node, variance: Node) -> Node:
        return centred * (self.weight / (variance + self.epsilon).sqrt()) + self.bias

    def __repr__(self) -> str:
        momentum = "" if self.momentum == 0.1 else f", momentum={self.momentum}"
        return f"BatchNorm({self.weight.dims[0]!r}{shown_epsilon(self.epsilon)}{momentum})"

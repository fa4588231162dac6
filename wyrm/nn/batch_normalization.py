"""Normalization over the rows of a batch, with statistics that are kept for later."""

from __future__ import annotations

from typing import Any, Generic, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.errors import ShapeError
from wyrm.nn.axes import Bs, Features, M, sized_axis
from wyrm.nn.layer import Layer
from wyrm.nn.normalization import checked_epsilon, shown_epsilon
from wyrm.node.base import describe
from wyrm.node.buffer import Buffer
from wyrm.node.leaves import Parameter
from wyrm.node.node import Node, Tensor
from wyrm.node.training_mode import record_training_mode
from wyrm.ops.updating import updating
from wyrm.types.dims import Dim


class BatchNorm(Layer[Features, Features], Generic[Features]):
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias`, each feature with statistics of its own.

    Features are the last axis of `x`. In training, mean and variance are those of all other axes, and the buffers
    `mean` and `variance` move towards them: to `(1 - momentum) * buffer + momentum * batch`, the variance taken as that
    of a sample, divided by n - 1; they move when a model trains, see `wy.updating`, and are saved with it. After
    `evaluate()`, graphs use the buffers. Where threads share a batch, each normalizes its part by that part's
    statistics. `dtype` is float32 or float64. Ioffe and Szegedy, "Batch normalization" (2015).

    Raises `ShapeError` for an axis without a size or below 0, `DTypeError` for what is no axis, no number or no such
    dtype, `ValueError` for an epsilon below 0 or a momentum outside 0..1.

    >>> layer, x = BatchNorm(1), wy.Constant([[1.0], [3.0]])
    >>> layer(x).forward().round(3).tolist()
    [[-1.0], [1.0]]
    >>> layer(x).square().sum().backward()
    >>> layer.mean.value.round(3).tolist()
    [0.20000000298023224]
    """

    weight: Parameter[tuple[Features]]
    bias: Parameter[tuple[Features]]
    mean: Buffer[tuple[Features]]
    variance: Buffer[tuple[Features]]

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
        axis: Any = sized_axis("BatchNorm", "feature", features)
        self.epsilon = checked_epsilon("BatchNorm", epsilon)
        if not 0.0 <= momentum <= 1.0:
            raise ValueError(f"BatchNorm: momentum is a number from 0 to 1, not {momentum}")
        self.momentum = float(momentum)
        self.weight = Parameter(np.ones(int(axis)), (axis,), name="weight", dtype=dtype)
        self.bias = Parameter(np.zeros(int(axis)), (axis,), name="bias", dtype=dtype)
        self.mean = Buffer(np.zeros(int(axis)), (axis,), name="mean", dtype=dtype)
        self.variance = Buffer(np.ones(int(axis)), (axis,), name="variance", dtype=dtype)

    def __call__(self, x: Tensor[*Bs, Features]) -> Tensor[*Bs, Features]:
        """`x` normalized, of the same axes.

        `ShapeError` where `x` has no axis besides the last, or the last is not the layer's, `DTypeError` where its
        dtype is another.
        """
        given: Node = x
        if len(given.dims) < 2:
            raise ShapeError(f"BatchNorm takes an axis of the batch and one of features, not {describe(given)}")
        if not self.training:
            kept: Tensor[*Bs, Features] = self._scaled(given - self.mean, self.variance)
            return kept
        axes = tuple(range(len(given.dims) - 1))
        mean = given.mean(axes)
        centred = given - mean
        variance = centred.square().mean(axes)
        of_sample = given.var(axes, ddof=1)
        rate = self.momentum
        result: Tensor[*Bs, Features] = updating(
            self._scaled(centred, variance),
            {
                self.mean: (1.0 - rate) * self.mean + rate * mean.stop_gradient(),
                self.variance: (1.0 - rate) * self.variance + rate * of_sample.stop_gradient(),
            },
        )
        return record_training_mode(result, self)

    def _scaled(self, centred: Node, variance: Node) -> Node:
        return centred * (self.weight / (variance + self.epsilon).sqrt()) + self.bias

    def __repr__(self) -> str:
        momentum = "" if self.momentum == 0.1 else f", momentum={self.momentum}"
        return f"BatchNorm({self.weight.dims[0]!r}{shown_epsilon(self.epsilon)}{momentum})"

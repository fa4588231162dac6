"""Layer normalization and root mean square normalization over the last axis."""

from __future__ import annotations

from typing import Any, Generic

import numpy as np
from numpy.typing import DTypeLike

from wyrm.graph.leaves import Parameter
from wyrm.graph.node import Tensor
from wyrm.graph.typing import Unnamed
from wyrm.nn.axes import Bs, Features, M, refuse_named_elsewhere, sized_axis
from wyrm.nn.layer import Layer
from wyrm.ops.elementwise.elementwise import operand
from wyrm.support.options import number


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
        self: LayerNorm[M],
        features: M | Unnamed[M],
        epsilon: float = 1e-5,
        bias: bool = True,
        *,
        dtype: DTypeLike = np.float32,
    ) -> None:
        axis: Any = sized_axis("LayerNorm", "features", features)
        self.epsilon = number("LayerNorm: epsilon", epsilon, 0.0)
        self.weight = Parameter(np.ones(int(axis)), (axis,), name="weight", dtype=dtype)
        self.bias = Parameter(np.zeros(int(axis)), (axis,), name="bias", dtype=dtype) if bias else None

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
        return f"LayerNorm({self.weight.dims[0]!r}{shown_epsilon(self.epsilon)}{bias})"


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
        axis: Any = sized_axis("RMSNorm", "features", features)
        self.epsilon = number("RMSNorm: epsilon", epsilon, 0.0)
        self.weight = Parameter(np.ones(int(axis)), (axis,), name="weight", dtype=dtype)

    def __call__(self, x: Tensor[*Bs, Features]) -> Tensor[*Bs, Features]:
        """Return `x` normalized, of the same axes.

        Raise `ShapeError` where the last axis of `x` is not `features` or has size 0, `DTypeError` for another dtype.
        """
        node = operand(x, self.weight)
        refuse_named_elsewhere("RMSNorm", "features", self.weight.dims[0], node)
        result: Tensor[*Bs, Features] = node.rms_norm(self.weight, self.epsilon)
        return result

    def __repr__(self) -> str:
        return f"RMSNorm({self.weight.dims[0]!r}{shown_epsilon(self.epsilon)})"


def shown_epsilon(epsilon: float) -> str:
    """Return the epsilon as `repr` shows it: nothing for the default."""
    return "" if epsilon == 1e-5 else f", epsilon={epsilon}"

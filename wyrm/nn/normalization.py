"""Normalization over the last axis or axes: `LayerNorm` and `RMSNorm`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, SupportsIndex, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dim, Dims, product
from wyrm.graph.base import describe, format_dims
from wyrm.graph.node import Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import DTypeLike, Unnamed
from wyrm.nn.axes import Bs, Features, M, check_axis, refuse_named_elsewhere, sized_axis
from wyrm.nn.layer import Layer
from wyrm.ops.elementwise.elementwise import operand
from wyrm.support.options import number


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

    `weight` starts with ones. It has the axis `features`, a `Dim` with a size, which mypy checks, or an integer, which
    it does not. `dtype` is float32 or float64. Zhang and Sennrich, "Root mean square layer normalization" (2019).

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis, a number or a dtype of another
    kind, `ValueError` for an epsilon below 0.

    >>> layer = RMSNorm(2)
    >>> layer(wy.Constant([[3.0, -3.0], [0.0, 0.0]])).forward().round(3).tolist()
    [[1.0, -1.0], [0.0, 0.0]]
    """

    epsilon: float
    weight: Parameter[tuple[Features]]

    def __init__(
        self: RMSNorm[M], features: M | Unnamed[M], epsilon: float = 1e-5, *, dtype: DTypeLike = np.float32
    ) -> None:
        _, self.epsilon, self.weight, _ = affine_parameters("RMSNorm", "features", features, epsilon, dtype)

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

"""The layers of pooling, over the spatial axes of (batch, channels, *sizes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.graph.node import Tensor
from wyrm.nn.module import Module
from wyrm.nn.pooling import (
    B,
    C,
    D,
    H,
    W,
    adaptive_average_pool,
    adaptive_max_pool,
    adaptive_sizes,
    average_pool,
    max_pool,
)
from wyrm.nn.spatial import Padding, PerAxis, window_options


class _Pool(Module):
    """Base class of the layers: `options` are the arguments of the function after `x`."""

    options: dict[str, Any]
    # The number of spatial axes.
    rank: int

    def _check(self, kernel_size: PerAxis, stride: PerAxis | None, padding: Padding, dilation: PerAxis) -> None:
        step = kernel_size if stride is None else stride
        window_options(type(self).__name__, self.rank, kernel_size, step, padding, dilation)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: Padding = 0,
        dilation: PerAxis = 1,
        ceil_mode: bool = False,
    ) -> None:
        self._check(kernel_size, stride, padding, dilation)
        self.options = {
            "kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation,
            "ceil_mode": ceil_mode,
        }  # fmt: skip


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self._check(kernel_size, stride, padding, 1)
        self.options = {
            "kernel_size": kernel_size, "stride": stride, "padding": padding, "ceil_mode": ceil_mode,
            "count_include_pad": count_include_pad,
        }  # fmt: skip


class _AdaptivePool(_Pool):
    def __init__(self, output_size: PerAxis | Sequence[int | None]) -> None:
        adaptive_sizes(type(self).__name__, [1] * self.rank, output_size)
        self.options = {"output_size": output_size}


class MaxPool1d(_MaxPool):
    """The maximum of each window along 1 spatial axis; see `max_pool1d` for the options and errors.

    >>> MaxPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 4)
    """

    rank = 1

    def __call__(self, x: Tensor[B, C, W]) -> Tensor[B, C, Any]:
        """Return the pooled `x`, (batch, channels, width)."""
        result: Tensor[B, C, Any] = max_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class MaxPool2d(_MaxPool):
    """The maximum of each window along 2 spatial axes; see `max_pool2d` for the options and errors.

    >>> MaxPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 4, 4)
    """

    rank = 2

    def __call__(self, x: Tensor[B, C, H, W]) -> Tensor[B, C, Any, Any]:
        """Return the pooled `x`, (batch, channels, height, width)."""
        result: Tensor[B, C, Any, Any] = max_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class MaxPool3d(_MaxPool):
    """The maximum of each window along 3 spatial axes; see `max_pool3d` for the options and errors.

    >>> MaxPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 4, 4)
    """

    rank = 3

    def __call__(self, x: Tensor[B, C, D, H, W]) -> Tensor[B, C, Any, Any, Any]:
        """Return the pooled `x`, (batch, channels, depth, height, width)."""
        result: Tensor[B, C, Any, Any, Any] = max_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class AvgPool1d(_AvgPool):
    """The mean of each window along 1 spatial axis; see `avg_pool1d` for the options and errors.

    >>> AvgPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 4)
    """

    rank = 1

    def __call__(self, x: Tensor[B, C, W]) -> Tensor[B, C, Any]:
        """Return the pooled `x`, (batch, channels, width)."""
        result: Tensor[B, C, Any] = average_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class AvgPool2d(_AvgPool):
    """The mean of each window along 2 spatial axes; see `avg_pool2d` for the options and errors.

    >>> AvgPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 4, 4)
    """

    rank = 2

    def __call__(self, x: Tensor[B, C, H, W]) -> Tensor[B, C, Any, Any]:
        """Return the pooled `x`, (batch, channels, height, width)."""
        result: Tensor[B, C, Any, Any] = average_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class AvgPool3d(_AvgPool):
    """The mean of each window along 3 spatial axes; see `avg_pool3d` for the options and errors.

    >>> AvgPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 4, 4)
    """

    rank = 3

    def __call__(self, x: Tensor[B, C, D, H, W]) -> Tensor[B, C, Any, Any, Any]:
        """Return the pooled `x`, (batch, channels, depth, height, width)."""
        result: Tensor[B, C, Any, Any, Any] = average_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class AdaptiveMaxPool1d(_AdaptivePool):
    """The maximum of each of `output_size` windows; see `adaptive_max_pool1d` for the options and errors.

    >>> AdaptiveMaxPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 2)
    """

    rank = 1

    def __call__(self, x: Tensor[B, C, W]) -> Tensor[B, C, Any]:
        """Return the pooled `x`, (batch, channels, width)."""
        result: Tensor[B, C, Any] = adaptive_max_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class AdaptiveMaxPool2d(_AdaptivePool):
    """The maximum of each of `output_size` windows; see `adaptive_max_pool2d` for the options and errors.

    >>> AdaptiveMaxPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 2, 2)
    """

    rank = 2

    def __call__(self, x: Tensor[B, C, H, W]) -> Tensor[B, C, Any, Any]:
        """Return the pooled `x`, (batch, channels, height, width)."""
        result: Tensor[B, C, Any, Any] = adaptive_max_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class AdaptiveMaxPool3d(_AdaptivePool):
    """The maximum of each of `output_size` windows; see `adaptive_max_pool3d` for the options and errors.

    >>> AdaptiveMaxPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 2, 2)
    """

    rank = 3

    def __call__(self, x: Tensor[B, C, D, H, W]) -> Tensor[B, C, Any, Any, Any]:
        """Return the pooled `x`, (batch, channels, depth, height, width)."""
        result: Tensor[B, C, Any, Any, Any] = adaptive_max_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class AdaptiveAvgPool1d(_AdaptivePool):
    """The mean of each of `output_size` windows; see `adaptive_avg_pool1d` for the options and errors.

    >>> AdaptiveAvgPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 2)
    """

    rank = 1

    def __call__(self, x: Tensor[B, C, W]) -> Tensor[B, C, Any]:
        """Return the pooled `x`, (batch, channels, width)."""
        result: Tensor[B, C, Any] = adaptive_average_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class AdaptiveAvgPool2d(_AdaptivePool):
    """The mean of each of `output_size` windows; see `adaptive_avg_pool2d` for the options and errors.

    >>> AdaptiveAvgPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 2, 2)
    """

    rank = 2

    def __call__(self, x: Tensor[B, C, H, W]) -> Tensor[B, C, Any, Any]:
        """Return the pooled `x`, (batch, channels, height, width)."""
        result: Tensor[B, C, Any, Any] = adaptive_average_pool(type(self).__name__, self.rank, x, **self.options)
        return result


class AdaptiveAvgPool3d(_AdaptivePool):
    """The mean of each of `output_size` windows; see `adaptive_avg_pool3d` for the options and errors.

    >>> AdaptiveAvgPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 2, 2)
    """

    rank = 3

    def __call__(self, x: Tensor[B, C, D, H, W]) -> Tensor[B, C, Any, Any, Any]:
        """Return the pooled `x`, (batch, channels, depth, height, width)."""
        result: Tensor[B, C, Any, Any, Any] = adaptive_average_pool(type(self).__name__, self.rank, x, **self.options)
        return result


__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]

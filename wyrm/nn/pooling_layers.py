"""The layers of pooling, over the spatial axes of (batch, channels, *sizes)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from wyrm.graph.node import Node, Tensor
from wyrm.module import Module
from wyrm.nn.axes import Padding, PerAxis, window_options
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


class _Pooling(Module):
    """Base class of the layers: `options` are the arguments of the function `pool` after `x`."""

    options: dict[str, Any]
    pool: ClassVar[Callable[..., Node[Any, Any]]]
    # The number of spatial axes.
    rank: int

    def _check(self, kernel_size: PerAxis, stride: PerAxis | None, padding: Padding, dilation: PerAxis) -> None:
        step = kernel_size if stride is None else stride
        window_options(type(self).__name__, self.rank, kernel_size, step, padding, dilation)

    def _apply(self, x: Node) -> Node[Any, Any]:
        return type(self).pool(type(self).__name__, self.rank, x, **self.options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


class Pooling1d(_Pooling):
    rank = 1

    def __call__(self, x: Tensor[B, C, W]) -> Tensor[B, C, Any]:
        """Return the pooled `x`, (batch, channels, width)."""
        return self._apply(x)


class Pooling2d(_Pooling):
    rank = 2

    def __call__(self, x: Tensor[B, C, H, W]) -> Tensor[B, C, Any, Any]:
        """Return the pooled `x`, (batch, channels, height, width)."""
        return self._apply(x)


class Pooling3d(_Pooling):
    rank = 3

    def __call__(self, x: Tensor[B, C, D, H, W]) -> Tensor[B, C, Any, Any, Any]:
        """Return the pooled `x`, (batch, channels, depth, height, width)."""
        return self._apply(x)


class _MaxPool(_Pooling):
    pool: ClassVar[Callable[..., Node[Any, Any]]] = staticmethod(max_pool)

    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: Padding = 0,
        dilation: PerAxis = 1,
        ceil_mode: bool = False,
    ) -> None:
        self._check(kernel_size, stride, padding, dilation)
        self.options: dict[str, Any] = {
            "kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation,
            "ceil_mode": ceil_mode,
        }  # fmt: skip


class _AvgPool(_Pooling):
    pool: ClassVar[Callable[..., Node[Any, Any]]] = staticmethod(average_pool)

    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self._check(kernel_size, stride, padding, 1)
        self.options: dict[str, Any] = {
            "kernel_size": kernel_size, "stride": stride, "padding": padding, "ceil_mode": ceil_mode,
            "count_include_pad": count_include_pad,
        }  # fmt: skip


class _AdaptivePool(_Pooling):
    def __init__(self, output_size: PerAxis | Sequence[int | None]) -> None:
        adaptive_sizes(type(self).__name__, self.rank, output_size)
        self.options: dict[str, Any] = {"output_size": output_size}


class _AdaptiveMaxPool(_AdaptivePool):
    pool: ClassVar[Callable[..., Node[Any, Any]]] = staticmethod(adaptive_max_pool)


class _AdaptiveAvgPool(_AdaptivePool):
    pool: ClassVar[Callable[..., Node[Any, Any]]] = staticmethod(adaptive_average_pool)


class MaxPool1d(_MaxPool, Pooling1d):
    """The maximum of each window along 1 spatial axis; see `max_pool1d` for the options and errors.

    >>> MaxPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 4)
    """


class MaxPool2d(_MaxPool, Pooling2d):
    """The maximum of each window along 2 spatial axes; see `max_pool2d` for the options and errors.

    >>> MaxPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 4, 4)
    """


class MaxPool3d(_MaxPool, Pooling3d):
    """The maximum of each window along 3 spatial axes; see `max_pool3d` for the options and errors.

    >>> MaxPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 4, 4)
    """


class AvgPool1d(_AvgPool, Pooling1d):
    """The mean of each window along 1 spatial axis; see `avg_pool1d` for the options and errors.

    >>> AvgPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 4)
    """


class AvgPool2d(_AvgPool, Pooling2d):
    """The mean of each window along 2 spatial axes; see `avg_pool2d` for the options and errors.

    >>> AvgPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 4, 4)
    """


class AvgPool3d(_AvgPool, Pooling3d):
    """The mean of each window along 3 spatial axes; see `avg_pool3d` for the options and errors.

    >>> AvgPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 4, 4)
    """


class AdaptiveMaxPool1d(_AdaptiveMaxPool, Pooling1d):
    """The maximum of each of `output_size` windows; see `adaptive_max_pool1d` for the options and errors.

    >>> AdaptiveMaxPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 2)
    """


class AdaptiveMaxPool2d(_AdaptiveMaxPool, Pooling2d):
    """The maximum of each of `output_size` windows; see `adaptive_max_pool2d` for the options and errors.

    >>> AdaptiveMaxPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 2, 2)
    """


class AdaptiveMaxPool3d(_AdaptiveMaxPool, Pooling3d):
    """The maximum of each of `output_size` windows; see `adaptive_max_pool3d` for the options and errors.

    >>> AdaptiveMaxPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 2, 2)
    """


class AdaptiveAvgPool1d(_AdaptiveAvgPool, Pooling1d):
    """The mean of each of `output_size` windows; see `adaptive_avg_pool1d` for the options and errors.

    >>> AdaptiveAvgPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 2)
    """


class AdaptiveAvgPool2d(_AdaptiveAvgPool, Pooling2d):
    """The mean of each of `output_size` windows; see `adaptive_avg_pool2d` for the options and errors.

    >>> AdaptiveAvgPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 2, 2)
    """


class AdaptiveAvgPool3d(_AdaptiveAvgPool, Pooling3d):
    """The mean of each of `output_size` windows; see `adaptive_avg_pool3d` for the options and errors.

    >>> AdaptiveAvgPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 2, 2)
    """

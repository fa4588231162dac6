"""What the ops of convolutions share: their static attributes, and the checks of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, unify
from wyrm.graph.base import explain, format_dims, label
from wyrm.graph.node import Node
from wyrm.ops.elementwise.elementwise import Axes, common_dtype
from wyrm.ops.windows import Window


class ConvolutionOptions(TypedDict):
    """The static attributes that the ops share: one entry per spatial axis, and the number of groups of channels."""

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


class ConvolutionOp(Node[tuple[Node, ...], Axes], abstract=True):
    """Base class of the ops: x and gradient have the axes (batch, channels, *sizes)."""

    __slots__ = ("dilation", "groups", "padding", "stride")
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int

    def options(self) -> ConvolutionOptions:
        """Return the attributes that the ops share."""
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}

    def dtype_rule(self) -> np.dtype:
        for parent in self.parents:
            if parent.dtype.kind == "b":
                raise DTypeError(f"{label(parent)} is a mask; convert it with .astype(np.float32)")
        return common_dtype(self.parents)

    def windows(self, sizes: Sequence[int]) -> list[Window]:
        """Return the windows, of these sizes, along each spatial axis."""
        each = zip(sizes, self.stride, self.padding, self.dilation, strict=True)
        return [Window(size, stride, *padding, dilation) for size, stride, padding, dilation in each]

    def check_options(self, spatial: Sequence[Axis]) -> list[Window]:
        """Return the windows of a weight with these spatial axes; raise `ShapeError` if the attributes do not fit."""
        rank = len(spatial)
        if not 1 <= rank <= 3:
            raise ShapeError(
                f"the axes are (batch, channels, *sizes) with one to three sizes, but {label(self.parents[0])} has the "
                f"axes {format_dims(self.parents[0].dims)}"
            )
        if not len(self.stride) == len(self.padding) == len(self.dilation) == rank:
            raise ShapeError(
                f"stride {self.stride}, padding {self.padding} and dilation {self.dilation} must have {rank} entries, "
                f"one for each spatial axis"
            )
        sizes = [size for axis in spatial if (size := axis_size(axis)) is not None]
        if len(sizes) < rank or min(sizes) < 1:
            raise ShapeError(f"the windows have the axes {format_dims(tuple(spatial))}; each needs a size of 1 or more")
        if min(*self.stride, *self.dilation, self.groups) < 1 or min(map(min, self.padding)) < 0:
            raise ShapeError(
                f"stride {self.stride}, dilation {self.dilation} and groups {self.groups} must be at least 1, padding "
                f"{self.padding} at least 0"
            )
        return self.windows(sizes)

    def check_channels(self, channels: Axis, per_group: Axis, of: Node) -> None:
        """Raise `ShapeError` unless `channels`, of the node `of`, are `groups` times the channels per group."""
        if self.groups == 1:
            unify(channels, per_group)
            return
        sizes = axis_size(channels), axis_size(per_group)
        if None in sizes or sizes[0] != self.groups * (sizes[1] or 0):
            raise ShapeError(
                f"{label(of)} has {channels!r} channels, but {self.groups} groups of {per_group!r} channels each are "
                f"expected"
            )

    def check_groups(self, outputs: Axis) -> None:
        """Raise `ShapeError` unless the output channels divide into groups."""
        size = axis_size(outputs)
        if size is None or size % self.groups:
            raise ShapeError(f"{outputs!r} output channels cannot be divided into {self.groups} equal groups")

    def output_axes(self, spatial: Sequence[Axis], windows: Sequence[Window]) -> Dims:
        """Return the spatial axes of the outputs; an axis keeps its name where it keeps its size with stride 1."""
        return tuple(self._output_axis(axis, window) for axis, window in zip(spatial, windows, strict=True))

    def _output_axis(self, axis: Axis, window: Window) -> Axis:
        if window.keeps_sizes:
            return axis
        size = axis_size(axis)
        if size is not None:
            _check_fit(window, axis, size)
        return window.axis(axis)

    def check_run(self, spatial: Sequence[Axis], sizes: Sequence[int], windows: Sequence[int]) -> None:
        """Raise `ShapeError` if windows of these sizes do not fit in spatial axes that have these sizes in a run."""
        try:
            for window, axis, size in zip(self.windows(windows), spatial, sizes, strict=True):
                if not window.keeps_sizes:
                    _check_fit(window, axis, size)
        except ShapeError as error:
            raise ShapeError(explain(self, str(error))) from None

    def check_gradient(self, x_axes: Sequence[Axis], gradient: Node, windows: Sequence[Window]) -> None:
        """Raise `ShapeError` unless the spatial axes of the gradient are those of the outputs for `x_axes`."""
        for expected, axis in zip(self.output_axes(x_axes, windows), gradient.dims[2:], strict=True):
            unify(expected, axis)

    def check_ranks(self) -> None:
        """Raise `ShapeError` unless both parents have the same number of axes, at least three."""
        x, y = self.parents[:2]
        if len(x.dims) != len(y.dims) or len(x.dims) < 3:
            raise ShapeError(
                f"{label(x)} has the axes {format_dims(x.dims)}, {label(y)} {format_dims(y.dims)}; both need the same "
                f"number, three to five: (batch, channels, *sizes), or (output channels, channels per group, *windows) "
                f"of a weight"
            )


def _check_fit(window: Window, axis: Axis, size: int) -> None:
    """Raise `ShapeError` if no window fits in an axis of this size."""
    if window.count(size) < 1:
        known = "" if axis_size(axis) is not None else f", which has the size {size} in this run,"
        raise ShapeError(
            f"a window that extends over {window.extent} elements does not fit in {axis!r}{known} with padding "
            f"{(window.before, window.after)}"
        )


__all__ = ["ConvolutionOp", "ConvolutionOptions"]

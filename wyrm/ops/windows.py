"""The windows of convolutions and pooling along one axis."""

from __future__ import annotations

from dataclasses import dataclass, fields

from wyrm.graph.axes import Axis
from wyrm.graph.quotients import scaled


@dataclass(frozen=True, repr=False)
class Window:
    """The windows along one axis: `size` taps at a distance of `dilation`, at every `stride`-th place of the input.

    `before` and `after` zeros are added to the ends of the input.
    """

    size: int
    stride: int = 1
    before: int = 0
    after: int = 0
    dilation: int = 1

    @property
    def extent(self) -> int:
        """The number of elements from the first tap to the last one."""
        return (self.size - 1) * self.dilation + 1

    def count(self, size: int) -> int:
        """Return the number of windows in an input of this size; 0 or less if none fits."""
        return (size + self.before + self.after - self.extent) // self.stride + 1

    @property
    def keeps_sizes(self) -> bool:
        """Whether there are as many windows as elements, for every size."""
        return self.stride == 1 and self.before + self.after == self.extent - 1

    def axis(self, axis: Axis) -> Axis:
        """Return the axis of the windows along an axis; see `scaled`."""
        return scaled(axis, 1, self.before + self.after - self.extent + self.stride, self.stride)

    def __repr__(self) -> str:
        values = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        return f"Window({', '.join(f'{name}={value}' for name, value, default in values if value != default)})"

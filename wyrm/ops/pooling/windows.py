"""The windows of pooling along one axis: which elements each covers, for any size of the axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from wyrm.graph.axes import Axis, axis_name, axis_size
from wyrm.graph.quotients import Least, scaled
from wyrm.ops.pooling.resample import Taps, Weighting
from wyrm.ops.windows import Window

__all__ = ["Even", "Means", "Places", "Sliding", "Windows"]

# The windows along one axis: for each output the places of its taps, first, last + 1 and the distance between them.
Places = tuple[tuple[int, int, int], ...]


class Windows:
    """Base class: what windows along an axis are for an axis of each size."""

    def axis(self, axis: Axis) -> Axis:
        """Return the axis of the windows along an axis; it keeps its name where it keeps its size."""
        raise NotImplementedError

    def count(self, size: int) -> int:
        """Return the number of windows along an axis of this size; 0 or less if none fits."""
        raise NotImplementedError

    def range(self, number: int, size: int) -> tuple[int, int, int]:
        """Return the places of a window inside of an axis of this size."""
        raise NotImplementedError

    def elements(self, number: int, size: int) -> int:
        """Return the number of elements of a window, with those of the padding, of an axis of this size."""
        first, end, _ = self.range(number, size)
        return end - first

    def places(self, size: int) -> Places:
        """Return the places inside of an axis of this size that each window covers."""
        return _places(self, size)

    def misfit(self, axis: Axis, size: int) -> str:
        """Return the reason why windows do not fit in an axis that has this size; empty if they do."""
        places = self.places(size)
        if places and all(first < end for first, end, _ in places):
            return ""
        name = axis_name(axis)
        return f"{self} has no element of {name or 'an axis'} of size {size}"


@lru_cache(maxsize=1024)
def _places(windows: Windows, size: int) -> Places:
    return tuple(windows.range(number, size) for number in range(windows.count(size)))


@dataclass(frozen=True)
class Sliding(Windows):
    """Windows that slide along the axis; with `ceil` a last one may be cut off at the end."""

    window: Window
    ceil: bool = False

    def axis(self, axis: Axis) -> Axis:
        size, window = axis_size(axis), self.window
        if size is not None:
            count = self.count(size)
            return axis if count == size else count
        if not self.ceil:
            return window.axis(axis)
        slack, step = window.before + window.after - window.extent, window.stride
        most = scaled(axis, 1, slack + 2 * step - 1, step)
        # A last window that starts beyond the end does not count: it would have no element.
        if step <= window.extent - window.after:
            return most
        return Least((most, scaled(axis, 1, window.before + step - 1, step)))

    def count(self, size: int) -> int:
        window, count = self.window, self.window.count(size)
        rest = (size + window.before + window.after - window.extent) % window.stride
        return count + 1 if self.ceil and rest and count * window.stride < size + window.before else count

    def range(self, number: int, size: int) -> tuple[int, int, int]:
        start, step = number * self.window.stride - self.window.before, self.window.dilation
        first = start if start >= 0 else start + -(start // step) * step
        return first, min(start + self.window.extent, size), step

    def elements(self, number: int, size: int) -> int:
        start = number * self.window.stride - self.window.before
        return min(start + self.window.size, size + self.window.after) - start

    def __str__(self) -> str:
        window = self.window
        return (
            f"a window of {window.size} elements with stride {window.stride}, padding {(window.before, window.after)} "
            f"and dilation {window.dilation}"
        )


@dataclass(frozen=True)
class Even(Windows):
    """A number of windows that divide the axis as evenly as possible."""

    number: int

    def axis(self, axis: Axis) -> Axis:
        return axis if axis_size(axis) == self.number else self.number

    def count(self, size: int) -> int:
        return self.number

    def range(self, number: int, size: int) -> tuple[int, int, int]:
        return number * size // self.number, -(-(number + 1) * size // self.number), 1

    def __str__(self) -> str:
        return f"one of {self.number} even windows"


@dataclass(frozen=True)
class Means(Weighting):
    """The means over the elements of windows; with `padding`, the zeros outside of the axis count as elements."""

    windows: Windows
    padding: bool = False

    def taps(self, old: int, new: int) -> Taps:
        found: list[tuple[int, tuple[float, ...]]] = []
        for number, (first, end, _) in enumerate(self.windows.places(old)):
            count = self.windows.elements(number, old) if self.padding else end - first
            found.append((first, (1.0 / count,) * (end - first)))
        return tuple(found)

    def misfit(self, axis: Axis, old: int, new: int) -> str:
        return self.windows.misfit(axis, old)

"""Arguments of convolutions and pooling: one number per spatial axis, or one for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode, describe
from wyrm.support.options import choice, is_integer, whole

# One number for all spatial axes, or one for each.
PerAxis: TypeAlias = int | Sequence[int]
# Zeros to add: a number for both ends of all axes, one for each axis, or a pair (before, after) for each axis.
Padding: TypeAlias = int | Sequence[int | tuple[int, int]] | Literal["same", "valid"]

# Ends the errors about images, whose channels may be last.
CHANNELS_SECOND = "; the axes are (batch, channels, *sizes)"


def per_axis(name: str, argument: str, value: object, rank: int, low: int = 1) -> tuple[int, ...]:
    """Return an argument as one integer of at least `low` per spatial axis."""
    if is_integer(value):
        return (whole(f"{name}: {argument}", value, low),) * rank
    entries = _entries(name, argument, value, rank)
    return tuple(whole(f"{name}: {argument}", each, low) for each in entries)


def pads(
    name: str, value: object, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return the zeros before and after each spatial axis.

    "valid" adds none. "same" adds as many as keep the sizes, for a stride of 1; an odd one goes to the end.
    """
    rank = len(kernel)
    if value == "valid":
        return ((0, 0),) * rank
    if value == "same":
        if any(step != 1 for step in stride):
            raise ShapeError(f"{name}: padding 'same' keeps sizes, so it needs a stride of 1, not {tuple(stride)}")
        totals = [(size - 1) * step for size, step in zip(kernel, dilation, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    if isinstance(value, str):
        choice(f"{name}: padding", value, ("same", "valid"), DTypeError, "integers")
    if is_integer(value):
        value = (value,) * rank
    found = []
    for each in _entries(name, "padding", value, rank):
        pair = each if isinstance(each, tuple | list) else (each, each)
        if len(pair) != 2:
            raise DTypeError(f"{name}: padding of an axis must be an integer or a pair (before, after), not {each!r}")
        found.append((whole(f"{name}: padding", pair[0], 0), whole(f"{name}: padding", pair[1], 0)))
    return tuple(found)


class Windows(NamedTuple):
    """The options of windows that slide along the spatial axes, with one entry for each axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]


def window_options(
    name: str, rank: int, kernel_size: object, stride: object, padding: object, dilation: object
) -> Windows:  # fmt: skip
    """Return the checked options."""
    kernel, strides = per_axis(name, "kernel_size", kernel_size, rank), per_axis(name, "stride", stride, rank)
    dilations = per_axis(name, "dilation", dilation, rank)
    return Windows(kernel, strides, pads(name, padding, kernel, strides, dilations), dilations)


def _entries(name: str, argument: str, value: Any, rank: int) -> Sequence[Any]:
    if not isinstance(value, tuple | list) or len(value) != rank:
        axes = "the spatial axis" if rank == 1 else f"each of {rank} spatial axes"
        raise DTypeError(f"{name}: {argument} must be an integer, or a sequence of one entry for {axes}, not {value!r}")
    return value


def spatial_sizes(name: str, x: BaseNode, rank: int | None) -> tuple[int, ...]:
    """Return the sizes of the spatial axes of `x`, (batch, channels, *sizes); `rank` is their number if it is fixed."""
    if not isinstance(x, BaseNode):
        raise TypeError(f"{name} takes a node, as in wy.Constant(array), not {type(x).__name__}")
    dims: Any = x.dims
    if not (1 <= len(dims) - 2 <= 3 if rank is None else len(dims) == rank + 2):
        count = "one to three" if rank is None else str(rank)
        raise ShapeError(f"{name} takes the axes (batch, channels, *sizes) with {count} sizes, not {describe(x)}")
    sizes = tuple(size for size in map(axis_size, dims[2:]) if size is not None)
    if len(sizes) < len(dims) - 2:
        raise ShapeError(f"{name} needs spatial axes with sizes, but {describe(x)} has one whose size the data decides")
    return sizes

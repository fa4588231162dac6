"""Arguments of convolutions and pooling: one number per spatial axis, or one for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from wyrm.errors import DTypeError, ShapeError
from wyrm.node.base import BaseNode, describe
from wyrm.types.dims import axis_size
from wyrm.types.options import is_integer, whole

# One number for all spatial axes, or one for each.
PerAxis: TypeAlias = int | Sequence[int]
# Zeros to add: a number for both ends of all axes, one for each axis, or a pair (before, after) for each axis.
Padding: TypeAlias = int | Sequence[int | tuple[int, int]] | Literal["same", "valid"]


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
        raise DTypeError(f"{name}: padding must be 'same', 'valid', or integers, not {value!r}")
    if is_integer(value):
        value = (value,) * rank
    found = []
    for each in _entries(name, "padding", value, rank):
        pair = each if isinstance(each, tuple | list) else (each, each)
        if len(pair) != 2:
            raise DTypeError(f"{name}: padding of an axis must be an integer or a pair (before, after), not {each!r}")
        found.append((whole(f"{name}: padding", pair[0], 0), whole(f"{name}: padding", pair[1], 0)))
    return tuple(found)


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

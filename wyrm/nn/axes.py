"""Checks of the axes of parameters and operands of layers, and of options that have one number per spatial axis."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, axis_size, is_name, normalize_axis, unify
from wyrm.graph.base import BaseNode, describe
from wyrm.support.options import choice, integer, is_integer, whole

# The axes of a layer, covariant, so that `[Linear(a, b), Linear(b, c)]` is a list of layers.
In = TypeVar("In", bound=Dim, covariant=True, default=Any)
Out = TypeVar("Out", bound=Dim, covariant=True, default=Any)
Features = TypeVar("Features", bound=Dim, covariant=True, default=Any)
Width = TypeVar("Width", bound=Dim, covariant=True, default=Any)
Hidden = TypeVar("Hidden", bound=Dim, covariant=True, default=Any)
Rows = TypeVar("Rows", bound=Dim, covariant=True, default=Any)
Columns = TypeVar("Columns", bound=Dim, covariant=True, default=Any)
# The axes of the batch and of time.
B = TypeVar("B", default=Any)
T = TypeVar("T", default=Any)
# The axes that the constructor of a layer is given, each as `M | Unnamed[M]`.
M = TypeVar("M", bound=Dim, default=Dim)
N = TypeVar("N", bound=Dim, default=Dim)
# All axes, and all but the last.
Axes = TypeVarTuple("Axes")
Bs = TypeVarTuple("Bs")
# One number for all spatial axes, or one for each.
PerAxis: TypeAlias = int | Sequence[int]
# Zeros to add: a number for both ends of all axes, one for each axis, or a pair (before, after) for each axis.
Padding: TypeAlias = int | Sequence[int | tuple[int, int]] | Literal["same", "valid"]

# Ends the errors about images, whose channels may be last.
CHANNELS_SECOND = "; the axes are (batch, channels, *sizes)"


def sized_axis(layer: str, argument: str, axis: Any) -> Axis:
    """Return `axis` if it is a `Dim` with a size or an integer, at least 1; else raise an error naming `argument`."""
    if isinstance(axis, Dim):
        if axis.size is None:
            name = type(axis).__name__
            raise ShapeError(
                f"{layer}: {argument} is {axis!r}, which takes its size from the data of each run; a parameter "
                f"needs a size before that, as in {name}(32)"
            )
        if axis.size < 1:
            raise ShapeError(f"{layer}: {argument} must have a size of at least 1, not {axis!r}")
        return axis
    if is_name(axis):
        raise DTypeError(
            f"{layer}: {argument} is the class {axis.__name__}; give an instance with a size, as in {axis.__name__}(32)"
        )
    try:
        size = operator.index(axis)
    except TypeError:
        raise DTypeError(f"{layer}: {argument} must be a Dim or an integer, not {axis!r}") from None
    if isinstance(axis, bool):
        raise DTypeError(f"{layer}: {argument} must be a Dim or an integer, not {axis!r}")
    if size < 1:
        raise ShapeError(f"{layer}: {argument} must be at least 1, not {axis!r}")
    return size


def sized_axes(layer: str, **axes: object) -> Any:
    """Return the axes of a layer as a tuple; raise the errors of `sized_axis`, with the names of the arguments."""
    return tuple(sized_axis(layer, argument, axis) for argument, axis in axes.items())


def check_axis(layer: str, argument: str, axis: Axis, x: BaseNode, position: int, advice: str = "") -> None:
    """Raise `ShapeError` unless axis `position` of `x`, from 0, is `axis`, the `argument` of a layer.

    `advice` ends the message.
    """
    try:
        unify(x.dims[position], axis)
    except ShapeError as error:
        raise ShapeError(f"{layer}: axis {position} of {describe(x)} is not {argument}: {error}{advice}") from None
    refuse_named_elsewhere(layer, argument, axis, x, position, advice)


def refuse_named_elsewhere(
    layer: str, argument: str, axis: Axis, x: BaseNode, position: int = -1, advice: str = ""
) -> None:
    """Raise `ShapeError` if `x` has an axis named as `axis`, the `argument` of a layer, but not at `position`.

    A name decides first. Sizes decide only where the axis at `position` has another size than `axis`: then an axis of
    that size is the one that is meant, unless it is the first, the batch. Where the sizes agree nothing is refused: the
    width of an image may equal the number of channels.
    """
    dims: Dims = x.dims
    if not dims:
        return
    found = None
    if isinstance(axis, Dim) and type(dims[position]) is not type(axis):
        found = next((i for i, other in enumerate(dims) if type(other) is type(axis)), None)
    size = axis_size(axis)
    if found is None and axis_size(dims[position]) not in (None, size):
        found = next((i for i, other in enumerate(dims) if i and axis_size(other) == size), None)
    if found is not None:
        wanted = "the last axis" if position == -1 else f"axis {position}"
        raise ShapeError(f"{layer}: {argument}, {axis!r}, is axis {found} of {describe(x)}, not {wanted}{advice}")


def axis_number(layer: str, axis: object) -> int:
    """Return `axis`, the position of an axis, as an int; raise `DTypeError` for another kind."""
    try:
        return integer("axis", axis)
    except DTypeError:
        raise DTypeError(f"{layer}: axis must be the number of an axis, not {axis!r}") from None


def feature_axis(layer: str, features: Axis, axis: int | None, x: BaseNode) -> int:
    """Return which axis of `x`, from 0, has the features of a layer: `axis`, or without one the last.

    Raise `ShapeError` if that is not `features`, or if `x` has more than two
    axes and neither `axis` nor the name of `features` says which of them it is.
    """
    if axis is not None:
        position = normalize_axis(axis, x.ndim)
        check_axis(layer, "features", features, x, position)
        return position
    last = x.ndim - 1
    advice = "; give axis=1 for (batch, channels, *sizes), as in PyTorch, or axis=-1 for the last axis"
    refuse_named_elsewhere(layer, "features", features, x, advice=advice)
    named = isinstance(features, Dim) and type(x.dims[last]) is type(features)
    if last > 1 and not named:
        raise ShapeError(f"{layer}: nothing says which axis of {describe(x)} has the features, {features!r}{advice}")
    check_axis(layer, "features", features, x, last)
    return last


def with_axes_after(vector: Any, count: int) -> Any:
    """Return a node of one axis with `count` axes of size 1 after it, so that it broadcasts along another axis."""
    return vector.reshape((vector.dims[0], *[1] * count)) if count else vector


# --- spatial axes of convolutions and pooling ------------------------------------------------------------------------


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


class WindowOptions(NamedTuple):
    """The options of windows that slide along the spatial axes, with one entry for each axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]


def window_options(
    name: str, rank: int, kernel_size: object, stride: object, padding: object, dilation: object
) -> WindowOptions:  # fmt: skip
    """Return the checked options."""
    kernel, strides = per_axis(name, "kernel_size", kernel_size, rank), per_axis(name, "stride", stride, rank)
    dilations = per_axis(name, "dilation", dilation, rank)
    return WindowOptions(kernel, strides, pads(name, padding, kernel, strides, dilations), dilations)


def _entries(name: str, argument: str, value: Any, rank: int) -> Sequence[Any]:
    if not isinstance(value, tuple | list) or len(value) != rank:
        axes = "the spatial axis" if rank == 1 else f"each of {rank} spatial axes"
        raise DTypeError(f"{name}: {argument} must be an integer, or a sequence of one entry for {axes}, not {value!r}")
    return value


def spatial_axes(name: str, x: BaseNode, rank: int | None) -> Dims:
    """Return the spatial axes of `x`, (batch, channels, *sizes); `rank` is their number if it is fixed."""
    if not isinstance(x, BaseNode):
        raise TypeError(f"{name} takes a node, as in wy.Constant(array), not {type(x).__name__}")
    dims: Dims = x.dims
    if not (1 <= len(dims) - 2 <= 3 if rank is None else len(dims) == rank + 2):
        count = "one to three" if rank is None else str(rank)
        raise ShapeError(f"{name} takes the axes (batch, channels, *sizes) with {count} sizes, not {describe(x)}")
    return dims[2:]

"""Checks of axes: those of parameters need sizes before any data is seen, those of operands must be the layer's."""

from __future__ import annotations

import operator
from typing import Any

from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, is_name, normalize_axis, unify
from wyrm.graph.base import BaseNode, describe
from wyrm.support.options import integer

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

    Sizes alone do not tell: the width of an image may equal the number of channels.
    """
    if not isinstance(axis, Dim):
        return
    dims: Dims = x.dims
    name = type(axis)
    if dims and type(dims[position]) is not name and any(type(other) is name for other in dims):
        wanted = "the last axis" if position == -1 else f"axis {position}"
        found = next(i for i, other in enumerate(dims) if type(other) is name)
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

"""The arguments of draws: axes, which come first, the parameters of distributions, dtypes, and seeds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dim, Dims, axis_size, broadcast
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.storage import declared_dims
from wyrm.graph.typing import D1, D2, D3, D4, AxisOf, DTypeLike, NewDims, Size, Sizes
from wyrm.graph.weak_types import FLOATS, chosen, default_type, is_weak
from wyrm.ops.random.draws import (
    key_for,
)
from wyrm.ops.random.philox import stream_or_next
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import integer

P = ParamSpec("P")
# The only axis.
Dimension = TypeVar("Dimension", bound=Dim)


class FloatDraw(Protocol, Generic[P]):
    """A function that returns a node of the given axes; an axis without a size gets it from the data."""

    @overload
    def __call__(self, dims: Sizes, /, *args: P.args, **options: P.kwargs) -> Node: ...
    @overload
    def __call__(self, dims: tuple[()], /, *args: P.args, **options: P.kwargs) -> Node[Any, tuple[()]]: ...
    @overload
    def __call__(self, dims: Size, /, *args: P.args, **options: P.kwargs) -> Node[Any, tuple[Any]]: ...
    @overload
    def __call__(
        self, dims: Dimension | type[Dimension], /, *args: P.args, **options: P.kwargs
    ) -> Node[Any, tuple[Dimension]]: ...
    @overload
    def __call__(self, dims: tuple[AxisOf[D1]], /, *args: P.args, **options: P.kwargs) -> Node[Any, tuple[D1]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2]], /, *args: P.args, **options: P.kwargs
    ) -> Node[Any, tuple[D1, D2]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]], /, *args: P.args, **options: P.kwargs
    ) -> Node[Any, tuple[D1, D2, D3]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]], /, *args: P.args, **options: P.kwargs
    ) -> Node[Any, tuple[D1, D2, D3, D4]]: ...
    @overload
    def __call__(self, dims: NewDims, /, *args: P.args, **options: P.kwargs) -> Node[Any, NewDims]: ...


class IndexDraw(Protocol, Generic[P]):
    """A function that returns an index node of the given axes; an axis without a size gets it from the data."""

    @overload
    def __call__(self, dims: Sizes, /, *args: P.args, **options: P.kwargs) -> IndexNode: ...
    @overload
    def __call__(self, dims: tuple[()], /, *args: P.args, **options: P.kwargs) -> IndexNode[tuple[()]]: ...
    @overload
    def __call__(self, dims: Size, /, *args: P.args, **options: P.kwargs) -> IndexNode[tuple[Any]]: ...
    @overload
    def __call__(
        self, dims: Dimension | type[Dimension], /, *args: P.args, **options: P.kwargs
    ) -> IndexNode[tuple[Dimension]]: ...
    @overload
    def __call__(self, dims: tuple[AxisOf[D1]], /, *args: P.args, **options: P.kwargs) -> IndexNode[tuple[D1]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2]], /, *args: P.args, **options: P.kwargs
    ) -> IndexNode[tuple[D1, D2]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]], /, *args: P.args, **options: P.kwargs
    ) -> IndexNode[tuple[D1, D2, D3]]: ...
    @overload
    def __call__(
        self, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]], /, *args: P.args, **options: P.kwargs
    ) -> IndexNode[tuple[D1, D2, D3, D4]]: ...
    @overload
    def __call__(self, dims: NewDims, /, *args: P.args, **options: P.kwargs) -> IndexNode[NewDims]: ...


def float_draw(function: Callable[Concatenate[Any, P], Node]) -> FloatDraw[P]:
    """Declare that the axes of the result are the first argument."""
    return cast(FloatDraw[P], explains_keywords(function))


def index_draw(function: Callable[Concatenate[Any, P], IndexNode]) -> IndexDraw[P]:
    """Declare that the axes of the result are the first argument."""
    return cast(IndexDraw[P], explains_keywords(function))


def float_dtype(what: str, dtype: DTypeLike | None, *parameters: object) -> np.dtype:
    """Return the dtype of a draw: as given, else that of the parameters, else a weak one."""
    found = None if dtype is None else chosen(np.dtype(dtype))
    nodes = [parameter for parameter in parameters if isinstance(parameter, BaseNode)]
    for parameter in sorted(nodes, key=lambda node: is_weak(node.dtype)):
        if found is not None and found != parameter.dtype and not is_weak(parameter.dtype):
            raise DTypeError(f"{what}: dtype is {found}, but {describe(parameter)} is a parameter of it")
        found = found or parameter.dtype
    found = found or default_type()
    if found not in FLOATS:
        raise DTypeError(f"{what}: dtype must be float32 or float64, not {found}")
    return found


def checked_parameter(
    what: str, name: str, value: object, dims: Dims, least: float = -math.inf, most: float = math.inf
) -> Any:
    """Return a parameter: a node whose axes broadcast to `dims`, or a finite number in [least, most]."""
    if isinstance(value, BaseNode):
        node: Any = value
        result = broadcast(dims, node.dims)
        if len(result) != len(dims) or any(
            axis_size(a) not in (None, axis_size(b)) for a, b in zip(dims, result, strict=True)
        ):
            raise ShapeError(
                f"{what}: {name} is {describe(node)}, which has axes that the draws, {format_dims(dims)}, have not"
            )
        return node
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{what}: {name} must be a number or a node, not {type(value).__name__}")
    if not (math.isfinite(value) and least <= value <= most):
        bounds = "finite" if least == -math.inf else f"finite and at least {least:g}" if most == math.inf else None
        raise ValueError(f"{what}: {name} must be {bounds or f'in [{least:g}, {most:g}]'}, not {value}")
    return float(value)


def draw(op: Any, what: str, dims: Any, dtype: np.dtype, seed: int, stream: int | None) -> Any:
    return op(key_of(what, seed, stream), checked_axes(what, dims), dtype)


def checked_axes(what: str, dims: Any) -> Dims:
    if dims is None:
        raise ShapeError(f"{what}: dims must be the axes of the draws, such as (Batch(), 8), not None")
    if isinstance(dims, BaseNode | np.ndarray):
        found = describe(dims) if isinstance(dims, BaseNode) else "an array"
        raise TypeError(f"{what}: the axes of the draws come first, as in {what}(x.dims), not {found}")
    if isinstance(dims, float):
        raise TypeError(f"{what}: the axes of the draws come first, as in {what}((2, 3)), not {dims}")
    return declared_dims(None, dims, True, what)


def key_of(what: str, seed: int, stream: int | None) -> Any:
    return key_for(integer(f"{what}: seed", seed), stream_or_next(stream))

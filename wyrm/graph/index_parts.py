"""Views of integers: the node that holds them, and which of its elements a slice, transpose or reshape has."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, axis_size
from wyrm.graph.axes import resolve as resolve_dims
from wyrm.graph.base import BaseNode
from wyrm.graph.source_location import located_at


def is_integer_view(node: BaseNode) -> bool:
    """Return whether a node has integers of its first parent, in other places or only some of them."""
    return node.is_view and node.dtype.kind == "i"


def source_of(indices: BaseNode) -> BaseNode:
    """Return the node whose integers these are, behind slices, transposes and reshapes."""
    while is_integer_view(indices):
        indices = indices.parents[0]
    return indices


def _views(indices: BaseNode) -> list[BaseNode]:
    """Return the views between `source_of(indices)` and `indices`, these included, the first of them first."""
    views = []
    while is_integer_view(indices):
        views.append(indices)
        indices = indices.parents[0]
    return views[::-1]


def has_all(indices: BaseNode) -> bool:
    """Return whether indices have all integers of `source_of(indices)` in every run."""
    return all(view.same_elements or _wide(view.dims) == _wide(view.parents[0].dims) for view in _views(indices))


def _wide(dims: Dims) -> Counter[Axis | int]:
    """Return the axes with more than one element, in any order."""
    sizes = [(axis, axis_size(axis)) for axis in dims]
    return Counter(axis if size is None else size for axis, size in sizes if size != 1)


def on(whole: BaseNode, indices: BaseNode, by_rows: bool) -> BaseNode | None:
    """Return `indices` as views of `whole` in place of their source, or of each row of it; None if that is unknown."""
    node: BaseNode | None = whole
    for view in _views(indices):
        if node is None:
            return None
        with located_at(view.origin):
            node = view.batched((node,), (True,)) if by_rows else view.rebuild((node,), view.attribute_values())
    return node


def used(part: BaseNode, shape: tuple[int, ...], *, column: bool = False) -> NDArray[np.bool_] | None:
    """Return which elements of data of this shape for `source_of(part)` are among those of `part`.

    With `column`, the data may have one more axis before, or more rows than a batch. None if the answer depends on the
    batches.
    """
    dims = source_of(part).dims
    if len(shape) > len(dims):
        return _of_one(part, shape[1:])
    if not column:
        return _of_one(part, shape)
    batch = axis_size(dims[0]) if dims else None
    found = _of_one(part, shape if batch is None else (batch, *shape[1:]))
    if found is None or (found != found[:1]).any():
        return None
    return found[:1]


def _of_one(part: BaseNode, shape: Sequence[int]) -> NDArray[np.bool_] | None:
    source = source_of(part)
    sizes = {type(axis): size for axis, size in zip(source.dims, shape, strict=True) if isinstance(axis, Dim)}
    positions = np.arange(math.prod(shape)).reshape(shape)
    try:
        for view in _views(part):
            positions = view.evaluate(np, positions, shape=resolve_dims(view.dims, sizes))
    except (ShapeError, IndexError):  # data of this shape does not fit, which the run reports
        return None
    mask = np.zeros(math.prod(shape), np.bool_)
    mask[positions.reshape(-1)] = True
    return mask.reshape(shape)

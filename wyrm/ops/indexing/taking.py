"""`take`: the elements of a node at indices along an axis or into all elements, as `numpy.take`."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, overload

import numpy as np

from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import axis_size, normalize_axis
from wyrm.graph.base import describe
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.storage import bound_array
from wyrm.graph.typing import AnyShape, AtLeast1D, Bs, Indices, K, M, N, Shaped
from wyrm.ops.elementwise.elementwise import L, S, method
from wyrm.ops.indexing.advanced_indexing import advanced_getitem
from wyrm.ops.indexing.index import Index, as_indices
from wyrm.support.foreign_names import explains_keywords

# What an index beyond its axis does: raise an error, count on from the other end, or become the nearest index.
TakeMode: TypeAlias = Literal["raise", "wrap", "clip"]


@overload
def take(
    x: Shaped[L, AtLeast1D], indices: IndexNode | Indices, axis: int | None = None, *, mode: TakeMode = "raise"
) -> Node: ...
@overload
def take(
    x: Shaped[L, S], indices: IndexNode[AnyShape], axis: int | None = None, *, mode: TakeMode = "raise"
) -> Node: ...
@overload
def take(
    x: Shaped[L, S], indices: IndexNode[tuple[*Bs]], axis: None = None, *, mode: TakeMode = "raise"
) -> Node[Any, tuple[*Bs]]: ...
@overload
def take(
    x: Shaped[L, tuple[N, K]], indices: IndexNode[tuple[*Bs]], axis: Literal[0], *, mode: TakeMode = "raise"
) -> Index[L, IndexNode[tuple[*Bs]], tuple[*Bs, K]]: ...
@overload
def take(
    x: Shaped[L, tuple[N]], indices: IndexNode[tuple[*Bs]], axis: Literal[0], *, mode: TakeMode = "raise"
) -> Index[L, IndexNode[tuple[*Bs]], tuple[*Bs]]: ...
@overload
def take(
    x: Shaped[L, tuple[N, K, M]], indices: IndexNode[tuple[*Bs]], axis: Literal[0], *, mode: TakeMode = "raise"
) -> Index[L, IndexNode[tuple[*Bs]], tuple[*Bs, K, M]]: ...
@overload
def take(
    x: Shaped[L, S], indices: IndexNode | Indices, axis: int | None = None, *, mode: TakeMode = "raise"
) -> Node: ...
@method("take", integers=IndexNode)
@explains_keywords
def take(x: Any, indices: Any, axis: int | None = None, *, mode: TakeMode = "raise") -> Any:
    """Return the elements that `indices` select along `axis`, by default among all in row-major order.

    As in `numpy.take`, the axes of `indices` replace `axis` in the result, and negative indices count from the end.
    `x[rows]` and `axis=0` take rows. Raise `IndexOutOfRange` for an index beyond the axis; with `mode="wrap"` it counts
    on from the other end, and with `mode="clip"` it becomes the first or the last. These two raise `ShapeError` for an
    axis whose size comes from data. Raise `OptionError` for another mode.

    >>> x = wy.Constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> x.take([3, 0]).forward().tolist(), x.take([1, 1], axis=0).forward().tolist()
    ([4.0, 1.0], [[4.0, 5.0, 6.0], [4.0, 5.0, 6.0]])
    """
    if axis is None:
        x, axis = x if x.ndim == 1 else x.reshape(-1), 0
    position = normalize_axis(axis, x.ndim)
    chosen = _within(as_indices(indices), x, position, mode)
    return advanced_getitem(x, (*[slice(None)] * position, chosen))


def _within(indices: IndexNode, x: Node | IndexNode, axis: int, mode: TakeMode) -> IndexNode:
    """Return the indices as `mode` puts them into the axis."""
    if mode == "raise":
        return indices
    if mode not in ("wrap", "clip"):
        raise OptionError(f"take: mode must be 'raise', 'wrap' or 'clip', not {mode!r}")
    size = axis_size(x.dims[axis])
    if size is None:
        raise ShapeError(
            f"take: {describe(x)}: mode={mode!r} takes an axis whose size is known, and the size of {x.dims[axis]!r} "
            f"comes from data; use mode='raise', or give the axis a size"
        )
    if size == 0:  # no index is in range, as the selection says
        return indices
    if isinstance(indices, IndexConstant):
        array = bound_array(indices)
        return IndexConstant(array % size if mode == "wrap" else np.clip(array, 0, size - 1))
    return indices % size if mode == "wrap" else indices.clip(0, size - 1)

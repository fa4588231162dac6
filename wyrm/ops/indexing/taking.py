"""Elements along an axis, as in NumPy: `take`, at any indices, and `take_along_axis`, at those of the same shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, normalize_axis, unify
from wyrm.graph.base import ZERO, BaseNode, Gradient, describe
from wyrm.graph.index_leaves import IndexConstant, bound_of_chosen
from wyrm.graph.index_maps import IndexLoad, IndexMap
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, Gathered, Scattered, ScatterTarget
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.storage import bound_array
from wyrm.graph.typing import AnyShape, Array, AtLeast1D, Bs, Indices, IntegerArray, K, M, N, OfShape, Shaped
from wyrm.ops.batching import spread
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, S, common_dtype, method
from wyrm.ops.indexing.advanced_indexing import advanced_getitem
from wyrm.ops.indexing.gather import PlaceAlongAxisForm, TakeAlongAxisForm
from wyrm.ops.indexing.index import Index, Indexing, Rows_co, as_indices
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


def _index_along_axis(xp: ArrayNamespace, indices: IntegerArray, axis: int) -> tuple[IntegerArray, ...]:
    """Return the advanced index that equals `take_along_axis` with `indices`."""
    grid = [
        xp.arange(n).reshape([-1 if i == j else 1 for j in range(indices.ndim)]) for i, n in enumerate(indices.shape)
    ]
    grid[axis] = indices
    return tuple(grid)


class _AlongAxisRules(HasIndexOperands[Any, Axes], abstract=True):
    """What `TakeAlongAxis` and `IndexTakeAlongAxis` share."""

    __slots__ = ("axis",)
    axis: int

    def __init__(self, x: BaseNode, indices: IndexNode | Indices, axis: int) -> None:
        self._construct((x, as_indices(indices)), axis=axis)

    def shape_rule(self) -> Dims:
        x, indices = self.parents
        axis = normalize_axis(self.axis, len(x.dims))
        object.__setattr__(self, "axis", axis)
        if len(indices.dims) != len(x.dims):
            raise ShapeError(f"the operand has {len(x.dims)} axes, but the indices have {len(indices.dims)}")
        return tuple(
            i if position == axis else unify(a, i)
            for position, (a, i) in enumerate(zip(x.dims, indices.dims, strict=True))
        )

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        x, indices = operands
        chosen: Array = x[_index_along_axis(xp, indices, self.axis)]
        return chosen

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(1, self.parents[0].dims[self.axis]),)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        if not mapped[1] or not (mapped[0] or isinstance(operands[0], Node)):  # integers cannot be broadcast
            return None
        return self.rebuild(spread(operands, mapped), axis=self.axis + 1)


class TakeAlongAxis(Indexing[Left_co, Rows_co, Axes], _AlongAxisRules[Axes]):
    """The elements that `indices` select along `axis`, as `numpy.take_along_axis`."""

    __slots__ = ()
    _own: TakeAlongAxis[Any, Any, Axes]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        x, indices = self.parents
        return PlaceAlongAxis(gradient, indices, self.axis, x.dims), ZERO


class IndexTakeAlongAxis(_AlongAxisRules[Axes], IndexNode[Axes]):
    """The same as `TakeAlongAxis` for integers."""

    __slots__ = ()

    @property
    def within(self) -> Axis | None:
        """What the operand's values are within."""
        return bound_of_chosen(self.parents[0])


JAX.register(TakeAlongAxis, IndexTakeAlongAxis)(TakeAlongAxisForm(_index_along_axis))


@LOOPS.register(TakeAlongAxis, IndexTakeAlongAxis)
class _TakeAlongAxisLoops(Gathered):
    def gather_index(self, node: TakeAlongAxis | IndexTakeAlongAxis, index: IndexMap) -> IndexMap:
        return (*index[: node.axis], IndexLoad(1, index), *index[node.axis + 1 :])


class PlaceAlongAxis(HasIndexOperands[tuple[Left_co, Rows_co], Axes], Node[tuple[Left_co, Rows_co], Axes]):
    """Zeros with the operand added at the indices along `axis`: the transpose of `TakeAlongAxis`."""

    __slots__ = ("axis", "to")
    written = "take_along_axis"
    _own: PlaceAlongAxis[Any, Any, Axes]
    axis: int
    to: Dims

    def __init__(self, x: Node, indices: IndexNode, axis: int, to: Dims) -> None:
        self._construct((x, indices), axis=axis, to=to)

    def dtype_rule(self) -> np.dtype:
        return common_dtype((self.parents[0],))

    def shape_rule(self) -> Dims:
        return self.to

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, indices = operands
        result: Any = xp.zeros(shape, self.dtype)
        positions = _index_along_axis(xp, indices, self.axis)
        if hasattr(result, "at"):
            return result.at[positions].add(x)
        np.add.at(result, positions, x)
        return result

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(1, self.to[self.axis]),)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        if not mapped[1]:
            return None
        values, indices = spread(operands, mapped)
        return PlaceAlongAxis(values, indices, self.axis + 1, (indices.dims[0], *self.to))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return TakeAlongAxis(gradient, self.parents[1], self.axis), ZERO


JAX.register(PlaceAlongAxis)(PlaceAlongAxisForm(_index_along_axis))


@LOOPS.register(PlaceAlongAxis)
class _PlaceAlongAxisLoops(Scattered):
    def scatter_index(self, node: PlaceAlongAxis, parent: int, index: IndexMap) -> ScatterTarget | None:
        target = (*index[: node.axis], IndexLoad(1, index), *index[node.axis + 1 :])
        return ScatterTarget(target, adds=True) if parent == 0 else None


@overload
def take_along_axis(
    x: Shaped[L, AtLeast1D], indices: IndexNode | Indices, axis: int | None = -1
) -> TakeAlongAxis[L, IndexNode]: ...
@overload
def take_along_axis(
    x: OfShape[L, tuple[*Bs, N]], indices: IndexNode[AnyShape], axis: int = -1
) -> TakeAlongAxis[L, IndexNode]: ...
@overload
def take_along_axis(
    x: OfShape[L, tuple[*Bs, N]], indices: IndexNode[tuple[*Bs, M]], axis: Literal[-1] = -1
) -> TakeAlongAxis[L, IndexNode[tuple[*Bs, M]], tuple[*Bs, M]]: ...
@overload
def take_along_axis(
    x: OfShape[L, tuple[N, *Bs]], indices: IndexNode[tuple[M, *Bs]], axis: Literal[0]
) -> TakeAlongAxis[L, IndexNode[tuple[M, *Bs]], tuple[M, *Bs]]: ...
@overload
def take_along_axis(
    x: OfShape[L, tuple[N, *Bs]], indices: Indices, axis: int | None = -1
) -> TakeAlongAxis[L, IndexNode]: ...
@overload
def take_along_axis(
    x: OfShape[L, tuple[N, *Bs]], indices: IndexNode, axis: int | None
) -> TakeAlongAxis[L, IndexNode]: ...
@method("take_along_axis", integers=IndexTakeAlongAxis)
@explains_keywords
def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Any:
    """Return the elements that `indices` select along `axis`, as `numpy.take_along_axis`.

    `indices` has as many axes as `x`, equal except for `axis`; with `axis=None` it has one and indexes `x.ravel()`.
    Raise `ShapeError` if the axes differ, and `IndexOutOfRange` for an index below 0 or beyond the end of the axis.

    >>> wy.Constant([[1.0, 2.0], [3.0, 4.0]]).take_along_axis(np.array([[1], [0]])).forward().tolist()
    [[2.0], [3.0]]
    """
    op = IndexTakeAlongAxis if isinstance(x, IndexNode) else TakeAlongAxis
    return op(x.ravel(), indices, 0) if axis is None else op(x, indices, axis)

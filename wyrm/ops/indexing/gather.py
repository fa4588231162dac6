"""Gathering elements by several arrays of indices at once, as NumPy's advanced indexing, and its transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dims, broadcast, unify
from wyrm.graph.base import ZERO, BaseNode, Gradient, label
from wyrm.graph.index_leaves import bound_of_chosen
from wyrm.graph.index_maps import IndexLoad, IndexMap
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, Gathered, Scattered, ScatterTarget
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array
from wyrm.ops.batching import aligned, batch_axis, batch_indices, moved_to_front, spread
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.shaping.shape import aligned_index
from wyrm.support.imports import jnp


def chosen(x: Any, indices: tuple[Any, ...]) -> Any:
    """Return `x[indices]`, with NaN for an index out of range; a negative index is out of range too."""
    return x.at[indices].get(mode="fill", wrap_negative_indices=False)


def added(x: Any, indices: tuple[Any, ...], values: Any) -> Any:
    """Return `x` with `values` added at `indices` into its first axes; an index out of range adds NaN to element 0."""
    wrong = jnp.zeros((), bool)
    for index, size in zip(indices, x.shape, strict=False):
        wrong = wrong | (index < 0) | (index >= size)
    indices = tuple(jnp.where(wrong, 0, index) for index in indices)
    spread = wrong.reshape(*wrong.shape, *[1] * (values.ndim - wrong.ndim))
    return x.at[indices].add(jnp.where(spread, jnp.nan, values))


class IndexForm(JaxForm):
    """Rows of the table, converted to the dtype of the program after they are gathered."""

    looks_up_rows: bool = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        table, indices = operands
        return chosen(table, (indices,))


class GatherForm(JaxForm):
    """A gather along axes that are moved to the front; `order` and `moved` are the transpositions around it."""

    narrow: bool | None = True

    def __init__(self, order: Callable[..., tuple[int, ...]], moved: Callable[..., tuple[int, ...]]) -> None:
        self.order = order
        self.moved = moved

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, *indices = operands
        elements = chosen(x.transpose(self.order(x.ndim, node.axes)), tuple(indices))
        return elements.transpose(self.moved(len(shape), len(shape) - x.ndim + len(indices), node.after))


class TakeAlongAxisForm(JaxForm):
    """A gather along one axis; `columns` returns the index along all axes."""

    narrow: bool | None = True

    def __init__(self, columns: Callable[..., tuple[Any, ...]]) -> None:
        self.columns = columns

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, indices = operands
        return chosen(x, self.columns(lowering.xp, indices, node.axis))


class PlaceAlongAxisForm(TakeAlongAxisForm):
    """A scatter-add along one axis."""

    narrow: bool | None = False

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, indices = operands
        return added(jnp.zeros(shape, x.dtype), self.columns(lowering.xp, indices, node.axis), x)


class ScatterAddForm(JaxForm):
    """A scatter-add of rows."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, indices, values = operands
        return added(x, (indices,), values)


def common_axes(indices: Sequence[BaseNode]) -> Dims:
    """Return the axes to which index operands broadcast."""
    dims: Dims = ()
    for node in indices:
        if node.dtype.kind != "i":
            raise DTypeError(f"{label(node)} holds {node.dtype}; indices must be integers, as in wy.IndexInput(...)")
        dims = broadcast(dims, node.dims)
    return dims


def _indexed_axes_first(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of an operand with the indexed ones first."""
    return *axes, *(axis for axis in range(ndim) if axis not in axes)


def _transposition(ndim: int, rank: int, after: int) -> tuple[int, ...]:
    """Return the transposition that moves the first `rank` axes behind the `after` axes that follow."""
    return *range(rank, rank + after), *range(rank), *range(rank + after, ndim)


def _back(ndim: int, rank: int, after: int) -> tuple[int, ...]:
    """Return the inverse of `_transposition`."""
    return *range(after, after + rank), *range(after), *range(after + rank, ndim)


def _index_in_operand(
    index: IndexMap, indices: Sequence[BaseNode], axes: tuple[int, ...], after: int, ndim: int
) -> IndexMap:
    """Return the index into the operand, which has `ndim` axes, of the gathered element at `index`."""
    rank = len(index) - ndim + len(axes)
    shared, rest = index[after : after + rank], iter((*index[:after], *index[after + rank :]))
    loads = {
        axis: IndexLoad(number, aligned_index(node.dims, shared))
        for number, (axis, node) in enumerate(zip(axes, indices, strict=True), 1)
    }
    return tuple(loads[axis] if axis in loads else next(rest) for axis in range(ndim))


class _GatherRules(HasIndexOperands[Any, Axes], abstract=True):
    """What `Gather` and `IndexGather` share."""

    __slots__ = ("after", "axes")
    axes: tuple[int, ...]
    after: int

    def __init__(self, x: BaseNode, indices: Sequence[IndexNode], axes: tuple[int, ...], after: int) -> None:
        self._construct((x, *indices), axes=axes, after=after)

    def shape_rule(self) -> Dims:
        x, *indices = self.parents
        rest = tuple(axis for i, axis in enumerate(x.dims) if i not in self.axes)
        return rest[: self.after] + common_axes(indices) + rest[self.after :]

    def index_operands(self) -> tuple[IndexOperand, ...]:
        dims = self.parents[0].dims
        return tuple(IndexOperand(number, dims[axis]) for number, axis in enumerate(self.axes, 1))

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        x, *indices = operands
        chosen: Array = xp.permute_dims(x, _indexed_axes_first(x.ndim, self.axes))[tuple(indices)]
        rank = len(shape) - x.ndim + len(indices)
        return xp.permute_dims(chosen, _transposition(len(shape), rank, self.after))

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        x, *indices = operands
        build = cast(Any, type(self))
        if not any(mapped[1:]):
            return build(x, indices, tuple(axis + 1 for axis in self.axes), self.after + 1)
        rank = len(common_axes(self.parents[1:]))
        indices = [aligned(node, many, rank) for node, many in zip(indices, mapped[1:], strict=True)]
        axes = self.axes
        if mapped[0]:
            rows = batch_indices(x.dims[0], rank)
            if rows is None:
                return None
            indices, axes = [rows, *indices], (0, *(axis + 1 for axis in axes))
        return moved_to_front(build(x, indices, axes, self.after), self.after)


class Gather(_GatherRules[Axes], Node[Any, Axes]):
    """The elements of the first operand at the indices that the others give along `axes`.

    The indices broadcast to common axes, which replace `axes`: they follow the first `after` of the remaining axes.
    """

    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        dtype: np.dtype = self.parents[0].dtype
        return dtype

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        x, *indices = self.parents
        return Place(gradient, indices, self.axes, self.after, x.dims), *(ZERO for _ in indices)


class IndexGather(_GatherRules[Axes], IndexNode[Axes]):
    """The same as `Gather` for integers."""

    __slots__ = ()

    @property
    def within(self) -> Axis | None:
        """What the operand's values are within."""
        return bound_of_chosen(self.parents[0])


JAX.register(Gather, IndexGather)(GatherForm(_indexed_axes_first, _transposition))


@LOOPS.register(Gather, IndexGather)
class _GatherLoops(Gathered):
    def gather_index(self, node: Gather | IndexGather, index: IndexMap) -> IndexMap:
        x, *indices = node.parents
        return _index_in_operand(index, indices, node.axes, node.after, x.ndim)


class Place(HasIndexOperands[Any, Axes], Node[Any, Axes]):
    """Zeros with axes `to` and the operand's elements added where `Gather` takes them: its transpose."""

    __slots__ = ("after", "axes", "to")
    written = "indexing"
    axes: tuple[int, ...]
    after: int
    to: Dims

    def __init__(self, x: Node, indices: Sequence[IndexNode], axes: tuple[int, ...], after: int, to: Dims) -> None:
        self._construct((x, *indices), axes=axes, after=after, to=to)

    def dtype_rule(self) -> np.dtype:
        dtype: np.dtype = self.parents[0].dtype
        return dtype

    def shape_rule(self) -> Dims:
        x, *indices = self.parents
        rest = tuple(axis for i, axis in enumerate(self.to) if i not in self.axes)
        required = rest[: self.after] + common_axes(indices) + rest[self.after :]
        if len(x.dims) != len(required):
            raise ShapeError(f"the values have {len(x.dims)} axes, but the indices select {len(required)}")
        for have, want in zip(x.dims, required, strict=True):
            unify(have, want)
        return self.to

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return tuple(IndexOperand(number, self.to[axis]) for number, axis in enumerate(self.axes, 1))

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, *indices = operands
        order = _indexed_axes_first(len(shape), self.axes)
        rank = x.ndim - len(shape) + len(indices)
        values = xp.permute_dims(x, _back(x.ndim, rank, self.after))
        result: Any = xp.zeros(tuple(shape[axis] for axis in order), self.dtype)
        if hasattr(result, "at"):
            result = result.at[tuple(indices)].add(values)
        else:
            np.add.at(result, tuple(indices), values)
        return xp.permute_dims(result, tuple(order.index(axis) for axis in range(len(order))))

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        x, *indices = operands
        axes, batch = tuple(axis + 1 for axis in self.axes), batch_axis(operands, mapped)
        to = (batch, *self.to)
        if not any(mapped[1:]):
            return Place(x, indices, axes, self.after + 1, to)
        rank = len(common_axes(self.parents[1:]))
        rows = batch_indices(batch, rank)
        if rows is None:
            return None
        along: Any = [rows, *(aligned(node, many, rank) for node, many in zip(indices, mapped[1:], strict=True))]
        values: Any = spread([x, operands[mapped.index(True)]], [mapped[0], True])[0]
        values = values.transpose(*range(1, self.after + 1), 0, *range(self.after + 1, values.ndim))
        return Place(values, along, (0, *axes), self.after, to)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        _, *indices = self.parents
        return Gather(gradient, indices, self.axes, self.after), *(ZERO for _ in indices)


@LOOPS.register(Place)
class _PlaceLoops(Scattered):
    def scatter_index(self, node: Place, parent: int, index: IndexMap) -> ScatterTarget | None:
        if parent:
            return None
        return ScatterTarget(_index_in_operand(index, node.parents[1:], node.axes, node.after, len(node.to)), adds=True)

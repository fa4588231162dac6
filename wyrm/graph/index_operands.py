"""Index operands: which operands of an op are indices, into which axis, and the checks that they are in range."""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, axis_size, resolve_axis
from wyrm.graph.axes import resolve as resolve_dims
from wyrm.graph.base import BaseNode, P_co, S, describe, original
from wyrm.graph.op import NUMPY
from wyrm.graph.source_location import located_at
from wyrm.graph.storage import IndexLimit, stored

# --- views of integers ------------------------------------------------------------------------------------------------


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


def rebased(indices: BaseNode, onto: BaseNode, by_rows: bool) -> BaseNode | None:
    """Return the views that `indices` are of their source, of `onto` in its place, or of each row of `onto`.

    None if a view has no form for rows.
    """
    node: BaseNode | None = onto
    for view in _views(indices):
        if node is None:
            return None
        with located_at(view.origin):
            node = view.batched((node,), (True,)) if by_rows else view.rebuild((node,))
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
            positions = view.evaluate(NUMPY, positions, shape=resolve_dims(view.dims, sizes))
    except (ShapeError, IndexError):  # data of this shape does not fit, which the run reports
        return None
    mask = np.zeros(math.prod(shape), np.bool_)
    mask[positions.reshape(-1)] = True
    return mask.reshape(shape)


# --- checks -----------------------------------------------------------------------------------------------------------


def first_out_of_range(
    array: NDArray[np.integer],
    size: int,
    ignore_index: int | None = None,
    from_end: bool = False,
    counted: Callable[[], NDArray[np.bool_] | None] | None = None,
) -> tuple[int, ...] | None:
    """Return the position of the first integer outside 0..size-1 that is not `ignore_index`; None if there is none.

    With `from_end`, integers from -size on are in range. `counted` returns the mask of the elements that count, or None
    if it cannot tell.
    """
    # A single pass: as unsigned numbers, negative ones are large.
    if not array.size or int(array.view(f"u{array.itemsize}").max()) < size:
        return None
    beyond = (array < (-size if from_end else 0)) | (array >= size)
    if ignore_index is not None:
        beyond &= array != ignore_index
    if counted is not None and beyond.any():
        mask = counted()
        beyond &= False if mask is None else mask
    positions = np.argwhere(beyond)
    return tuple(map(int, positions[0])) if len(positions) else None


def check_indices(
    node: BaseNode,
    user: BaseNode,
    array: NDArray[np.integer],
    size: int,
    ignore_index: int | None = None,
    from_end: bool = False,
    counted: Callable[[], NDArray[np.bool_] | None] | None = None,
) -> None:
    """Raise `IndexOutOfRange`, naming position, value and the op that uses it, for a value out of range.

    `counted` is as in `first_out_of_range`.
    """
    position = first_out_of_range(array, size, ignore_index, from_end, counted)
    if position is not None:
        where = f" at position {position}" if position else ""
        raise IndexOutOfRange(
            f"{describe(node)} holds {int(array[position])}{where}, but {accepted_indices(user, size, from_end)}"
        )


def accepted_indices(user: BaseNode, size: int, from_end: bool = False) -> str:
    """Return the indices that an op accepts, for a message about one that is out of range."""
    table = original(user.parents[0]) if user.parents else user
    chosen = f" of {table.name}" if table.is_leaf and table.name else ""
    takes = f"takes {-size if from_end else 0} to {size - 1}" if size else "indexes an axis of size 0"
    return f"{user.written or user.op_name()}{chosen} at {user.location} {takes}"


def check_limits(leaf: BaseNode, array: NDArray[np.integer]) -> None:
    """Raise `IndexOutOfRange` if data for a leaf is out of range of an op that indexes with it."""
    limits = stored(leaf).limits
    if not limits or not array.size:
        return
    low, high = int(array.min()), int(array.max())
    for limit in list(limits.values()):
        user = limit.user()
        if user is not None and (low < 0 or high >= limit.size):
            part = limit.part
            counted = None if part is None else partial(used, part, array.shape)
            check_indices(leaf, user, array, limit.size, limit.ignore_index, limit.from_end, counted)


class IndexOperand(NamedTuple):
    """An operand of indices into `axis`, from 0 to its size less 1.

    `ignore_index` is allowed too, and with `from_end` negative indices that count from the end of the axis.
    """

    operand: int
    axis: Axis
    ignore_index: int | None = None
    from_end: bool = False


class HasIndexOperands(BaseNode[P_co, S], abstract=True):
    """An op with operands that index an axis; `index_operands` lists them.

    Data of a leaf is checked when it is set, if the axis has a size by then. Every engine checks all other indices
    before the op runs, so that neither `evaluate` nor a kernel ever gets one that is out of range.
    """

    __slots__ = ()

    def index_operands(self) -> tuple[IndexOperand, ...]:
        """Return the operands that are indices."""
        raise NotImplementedError

    def _construct(self, parents: tuple[Any, ...], name: str | None = None, **attributes: Any) -> None:
        super()._construct(parents, name, **attributes)
        for choice in self.index_operands():
            size = axis_size(choice.axis)
            if size is not None:
                limit_data(self.parents[choice.operand], self, choice, size)


def holds_data(node: BaseNode) -> bool:
    """Return whether a node is a leaf with its own data, and not a placeholder in the body of a loop."""
    return node.is_leaf and not node.stands_for


def bound_of(indices: BaseNode) -> Axis | None:
    """Return the axis, or the upper bound, that the op that computes these integers keeps them below; None if none."""
    within: Axis | None = getattr(source_of(indices), "within", None)
    return within


def is_within(indices: BaseNode, axis: Axis) -> bool:
    """Return whether the op that computes these integers keeps them in range of an axis in every run."""
    within = bound_of(indices)
    if within is None:
        return False
    most, size = axis_size(within), axis_size(axis)
    if most is None or size is None:
        return isinstance(within, Dim) and isinstance(axis, Dim) and within == axis
    return most <= size


def limit_data(indices: BaseNode, user: BaseNode, choice: IndexOperand, size: int) -> None:
    """Record that `user` indexes an axis of `size` with `indices`, for a leaf's later data; check its present data."""
    source = source_of(indices)
    draws_below: int | None = getattr(source, "draws_below", None)
    if draws_below is not None and draws_below > size:
        raise IndexOutOfRange(
            f"{describe(source)} holds values of 0 to {draws_below - 1}, but {accepted_indices(user, size)}"
        )
    if not source.is_leaf:
        return
    storage, part = stored(source), None if has_all(indices) else indices
    if storage.array is not None:
        counted = None if part is None else partial(used, part, storage.array.shape)
        check_indices(source, user, storage.array, size, choice.ignore_index, choice.from_end, counted)
    if storage.limits is None:
        storage.limits = {}
    limits, key = storage.limits, (id(user), choice.operand)
    user_reference = weakref.ref(user, lambda _: limits.pop(key, None))
    limits[key] = IndexLimit(user_reference, size, choice.ignore_index, choice.from_end, part)


def is_checked_when_set(user: BaseNode, choice: IndexOperand) -> bool:
    """Return whether the reference engine need not check these integers in each run."""
    indices = user.parents[choice.operand]
    return is_within(indices, choice.axis) or (holds_data(source_of(indices)) and axis_size(choice.axis) is not None)


def check_index_operands(user: BaseNode, operands: Sequence[np.ndarray], sizes: Mapping[type[Dim], int]) -> None:
    """Raise `IndexOutOfRange` for the first index among the operands' values that is out of range."""
    for choice in user.index_operands():
        indices = np.asarray(operands[choice.operand])
        size = resolve_axis(choice.axis, dict(sizes))
        check_indices(user.parents[choice.operand], user, indices, size, choice.ignore_index, choice.from_end)

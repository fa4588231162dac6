"""`x[key]` for keys with arrays, lists, index nodes and masks, as NumPy's advanced indexing."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import describe, label
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand, source_of
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.storage import bound_array, check_int64
from wyrm.graph.typing import IntegerArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.indexing.gather import Gather, IndexGather
from wyrm.ops.indexing.index import Index
from wyrm.reach.rules import REACH, SamePlace

# An entry of a key: a basic one, or the indices into one axis.
Basic = int | slice | EllipsisType | None
Entry = Basic | IndexNode | IntegerArray


def advanced_getitem(x: Node | IndexNode, key: object) -> Any:
    """Return `x[key]` for a key with an array, a list, an index node or a mask among its entries.

    The arrays broadcast to common axes. These replace the first indexed axis if all arrays and integers of the key
    stand side by side, else they come first. Raise `IndexOutOfRange` for a static index beyond its axis, `ShapeError`
    for a mask of another shape, and `TypeError` for a mask whose elements are not known while the graph is built.
    """
    entries = list(_expanded(x, [_key_entry(x, given) for given in (key if isinstance(key, tuple) else (key,))]))
    arrays = [position for position, entry in enumerate(entries) if _is_array(entry) or isinstance(entry, int)]
    together = arrays[-1] - arrays[0] == len(arrays) - 1
    before = sum(entry is not Ellipsis for entry in entries[: arrays[0]])
    entries = [entry for entry in entries if entry is not Ellipsis]  # which stood for no axis, and kept arrays apart
    basic: Any = tuple(slice(None) if _is_array(entry) else entry for entry in entries)
    part = x if all(isinstance(entry, slice) and entry == slice(None) for entry in basic) else x[basic]
    kept = [entry for entry in entries if not isinstance(entry, int)]
    selectors = {axis: entry for axis, entry in enumerate(kept) if isinstance(entry, IndexNode | np.ndarray)}
    axes = tuple(selectors)
    indices = [from_start(part, entry, axis) for axis, entry in selectors.items()]
    at = before if together else 0
    if isinstance(part, IndexNode):
        return IndexGather(part, indices, axes, at)
    return Index(part, indices[0]) if axes == (0,) and at == 0 else Gather(part, indices, axes, at)


def _is_array(entry: Entry) -> bool:
    return isinstance(entry, IndexNode | np.ndarray)


def _key_entry(x: Node | IndexNode, given: Any) -> Entry:
    """Return an entry of a key with its arrays as int64 or bool."""
    if isinstance(given, Constant) and given.dtype.kind == "b":
        given = bound_array(given)
    if given is None or isinstance(given, slice | EllipsisType | IndexNode):
        return given
    if isinstance(given, Node):
        if given.dtype.kind == "b":
            raise TypeError(
                f"{describe(x)} cannot be indexed by {label(given)}: the shape would depend on the data; use "
                f"wy.where(mask, node, 0.0), select rows with node.take(indices), or index by a NumPy array of bools"
            )
        raise DTypeError(f"{describe(x)}: {label(given)} holds {given.dtype}; indices must be integers")
    if isinstance(given, list | np.ndarray) and not (isinstance(given, np.ndarray) and not given.ndim):
        array = as_array(given, lambda: f"{describe(x)}: its key")
        if array.dtype.kind == "b":
            return array
        if array.size and array.dtype.kind not in "iu":
            raise DTypeError(f"{describe(x)}: indices must be integers or bools, not {array.dtype}")
        check_int64(array, x)
        return array.astype(np.int64)
    if isinstance(given, bool | np.bool_) or (isinstance(given, np.ndarray) and given.dtype.kind == "b"):
        raise TypeError(f"{describe(x)} is indexed by {given}, which NumPy treats as a mask, not as a number")
    if not hasattr(type(given), "__index__"):
        raise TypeError(f"{describe(x)} is indexed by integers, slices, None, ... and arrays, not by {given!r}")
    return operator.index(given)


def _width(entry: Entry) -> int:
    """Return the number of axes of the operand that an entry indexes."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, np.ndarray) and entry.dtype.kind == "b" else 1


def _expanded(x: Node | IndexNode, entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield an entry for each axis, the '...', and the indices of a mask's true elements in the place of the mask."""
    width = sum(map(_width, entries))
    if width > x.ndim:
        raise ShapeError(f"{describe(x)} has {x.ndim} axes, but the key indexes {width}")
    axis = 0
    gaps = 0
    for entry in (*entries, *((Ellipsis,) if Ellipsis not in _basic(entries) else ())):
        if entry is Ellipsis:
            gaps += 1
            if gaps > 1:
                raise ShapeError(f"{describe(x)} is indexed with more than one '...'")
            yield entry
            yield from (slice(None),) * (x.ndim - width)
            axis += x.ndim - width
            continue
        if isinstance(entry, np.ndarray) and entry.dtype.kind == "b":
            _check_mask(x, entry, axis)
            yield from np.nonzero(entry)
        else:
            yield entry
        axis += _width(entry)


def _basic(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that are no arrays, which `==` compares as one."""
    return [entry for entry in entries if not _is_array(entry)]


def _check_mask(x: Node | IndexNode, mask: np.ndarray, axis: int) -> None:
    dims: Dims = x.dims
    for position, (size, along) in enumerate(zip(mask.shape, dims[axis:], strict=False)):
        if axis_size(along) != size:
            raise ShapeError(
                f"{describe(x)}: a mask of shape {mask.shape} indexes axis {axis + position}, which is {along!r}"
            )


def from_start(x: Node | IndexNode, indices: IndexNode | IntegerArray, position: int) -> IndexNode:
    """Return indices into an axis of `x` as a node of numbers from 0 on: negative ones count from the end of the axis.

    Raise `IndexOutOfRange` for one known now that is out of range.
    """
    size = axis_size(x.dims[position])
    if isinstance(indices, IndexConstant):
        array = bound_array(indices)
    elif isinstance(indices, np.ndarray):
        array = indices
    else:
        source = source_of(indices)
        is_natural = getattr(source, "within", None) is not None or getattr(source, "draws_below", None) is not None
        return indices if is_natural else FromEnd(indices, x, position)
    if not (array < 0).any():
        return indices if isinstance(indices, IndexConstant) else IndexConstant(array)
    if size is None:
        return FromEnd(IndexConstant(array), x, position)
    if (array < -size).any():
        wrong = int(array[array < -size][0])
        raise IndexOutOfRange(f"{describe(x)}: index {wrong} is out of range on an axis that has {size} elements")
    return IndexConstant(np.where(array < 0, array + size, array))


class FromEnd(HasIndexOperands[Any, Axes], IndexNode[Axes]):
    """The operand's integers, of which negative ones count from the end of an axis of `count` elements.

    If data decides the count (None), the axis is the axis `position` of a second operand.
    """

    __slots__ = ("count", "position")
    position: int
    count: int | None

    def __init__(self, indices: IndexNode, x: Node | IndexNode, position: int) -> None:
        count = axis_size(x.dims[position])
        self._construct((indices,) if count is not None else (indices, x), position=position, count=count)

    @classmethod
    def op_name(cls) -> str:
        """Return the name of the operation that users write."""
        return "indexing"

    @property
    def within(self) -> Axis:
        """The axis that the values index."""
        axis: Axis = self.count if self.count is not None else self.parents[1].dims[self.position]
        return axis

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        return dims

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(0, self.within, from_end=True),)

    def size_of(self, operands: Sequence[np.ndarray]) -> int:
        """Return the size of the axis in this run."""
        return self.count if self.count is not None else int(operands[1].shape[self.position])

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Any:
        indices, size = operands[0], self.size_of(operands)
        return xp.where(indices < 0, indices + size, indices)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> IndexNode | None:
        return self.rebuild(operands, position=self.position + mapped[-1])


REACH.register(FromEnd)(SamePlace())


@LOOPS.register(FromEnd)
class _FromEndLoops(ByKernel):
    @staticmethod
    def kernel(indices: IntegerArray, out: IntegerArray, size: int) -> None:
        for i in range(indices.size):
            out[i] = indices[i] + size if indices[i] < 0 else indices[i]

    def kernel_arguments(self, node: FromEnd, operands: Sequence[np.ndarray], out: np.ndarray) -> tuple[Any, ...]:
        return operands[0].reshape(-1), out.reshape(-1), node.size_of(operands)

    def same_indices(self, node: FromEnd) -> Any:
        return node.parents[0] if node.count is not None else None

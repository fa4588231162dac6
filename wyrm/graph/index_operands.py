"""Index operands: which operands of an op are indices, into which axis, and the checks that they are in range."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from wyrm.errors import IndexOutOfRange
from wyrm.graph.axes import Axis, Dim, axis_size, resolve_axis
from wyrm.graph.base import BaseNode, P_co, S, describe
from wyrm.graph.index_checks import accepted_indices, check_indices, has_all, source_of, used
from wyrm.graph.storage import IndexLimit, stored


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
    # What messages name for an op that users do not write, such as the gradient of one that they do; else empty.
    written: ClassVar[str] = ""

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


def is_within(indices: BaseNode, axis: Axis) -> bool:
    """Return whether the op that computes these integers keeps them in range of an axis in every run."""
    within: Axis | None = getattr(source_of(indices), "within", None)
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

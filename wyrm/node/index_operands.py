"""Integers that choose: which operands of an op are indices, into which axis, and the checks that they are in range."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import IndexOutOfRange
from wyrm.node.base import BaseNode, P_co, S, describe
from wyrm.node.storage import IndexLimit, check_indices, stored, taken_by
from wyrm.types.dims import Axis, Dim, axis_size, resolve_axis


class IndexOperand(NamedTuple):
    """An operand of integers from 0 to the size of `axis` less 1; the number `ignore_index` chooses nothing."""

    operand: int
    axis: Axis
    ignore_index: int | None = None


class HasIndexOperands(BaseNode[P_co, S], abstract=True):
    """An op with operands whose integers choose along an axis; `index_operands` says which.

    Data of a leaf is checked when it is set, where the axis has a size by then. Every engine checks all other integers
    before the op runs, so that neither `evaluate` nor a kernel meets one that is out of range.
    """

    __slots__ = ()

    def index_operands(self) -> tuple[IndexOperand, ...]:
        """The operands that choose."""
        raise NotImplementedError

    def _construct(self, parents: tuple[Any, ...], name: str | None = None, **attributes: Any) -> None:
        super()._construct(parents, name, **attributes)
        for choice in self.index_operands():
            size = axis_size(choice.axis)
            if size is not None:
                _limit(self, choice, size)


def source_of(indices: BaseNode) -> BaseNode:
    """The node whose integers these are, under other axes."""
    while indices.same_elements:
        indices = indices.parents[0]
    return indices


def holds_data(node: BaseNode) -> bool:
    """Whether a node is a leaf with data of its own, and does not stand for what a step of a loop is given."""
    return node.is_leaf and not getattr(node, "stands_for", "")


def is_within(indices: BaseNode, axis: Axis) -> bool:
    """Whether the op that computes integers keeps them in range of an axis in every run."""
    within: Axis | None = getattr(source_of(indices), "within", None)
    if within is None:
        return False
    most, size = axis_size(within), axis_size(axis)
    if most is None or size is None:
        return isinstance(within, Dim) and isinstance(axis, Dim) and within == axis
    return most <= size


def _limit(user: BaseNode, choice: IndexOperand, size: int) -> None:
    """Record that `user` chooses from `size`, for data that a leaf is given later, and check what it holds now."""
    source = source_of(user.parents[choice.operand])
    draws_below: int | None = getattr(source, "draws_below", None)
    if draws_below is not None and draws_below > size:
        raise IndexOutOfRange(f"{describe(source)} holds values of 0 to {draws_below - 1}, but {taken_by(user, size)}")
    if not source.is_leaf:
        return
    storage = stored(source)
    if storage.array is not None:
        check_indices(source, user, storage.array, size, choice.ignore_index)
    if storage.limits is None:
        storage.limits = {}
    limits, key = storage.limits, (id(user), choice.operand)
    limits[key] = IndexLimit(weakref.ref(user, lambda _: limits.pop(key, None)), size, choice.ignore_index)


def is_checked_when_set(user: BaseNode, choice: IndexOperand) -> bool:
    """Whether the reference engine need not check these integers in each run."""
    indices = user.parents[choice.operand]
    return is_within(indices, choice.axis) or (holds_data(source_of(indices)) and axis_size(choice.axis) is not None)


def check_index_operands(user: BaseNode, operands: Sequence[np.ndarray], sizes: Mapping[type[Dim], int]) -> None:
    """`IndexOutOfRange` for the first integer among the operands' values that is out of range."""
    for choice in user.index_operands():
        indices = np.asarray(operands[choice.operand])
        size = resolve_axis(choice.axis, dict(sizes))
        check_indices(user.parents[choice.operand], user, indices, size, choice.ignore_index)

"""The positions along an axis, whose size the data of each run may decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import label
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.loop_form import LOOPS, ByFlatIndex
from wyrm.graph.node import IndexNode
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.reach.rules import REACH, Reach, Reached
from wyrm.reach.ways import How, Way, nothing_said
from wyrm.reach.zones import ZERO

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis


class Arange(IndexNode[Axes]):
    """The integers from the parent's only element on, one for each position of the axis `to`.

    Compiled loops compute a position where they read it, and store none.
    """

    __slots__ = ("to",)
    to: Axis

    def __init__(self, start: IndexNode, to: Axis) -> None:
        self._construct((start,), to=to)

    @property
    def within(self) -> Axis | None:
        """The axis that the values index; None if they do not begin at 0."""
        return self.to if self.parents[0] is _ZERO else None

    def shape_rule(self) -> Dims:
        (start,) = self.parents
        if [axis_size(axis) for axis in start.dims] != [1]:
            raise ShapeError(f"the start must be one integer along one axis, not {label(start)}")
        return (self.to,)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.arange(shape[0]) + operands[0]


def number_at(position: Any, start: Any) -> Any:
    """Return the number at a position of an `Arange`."""
    return start + position


@LOOPS.register(Arange)
class _ArangeLoops(ByFlatIndex):
    by_flat_index = staticmethod(number_at)


@REACH.register(Arange)
class _ArangeReach(Reach):
    """The positions, after the start."""

    counts = True

    def ways(self, node: Arange) -> list[Way]:
        return nothing_said(node, How.COUNTED)

    def reached(self, node: Arange, operands: Sequence[Reached], analysis: Analysis) -> Reached:
        found = analysis.nothing(node)
        (start,) = operands
        found.zones = analysis.image(node, start.zones, {})
        limits = (start.numbers or {}).get((ZERO, ZERO))
        found.numbers = {(atom, ZERO): limits for atom in found.axes[0]} if limits else None
        return found


# All ranges from 0 on have this same node as their start, so that a program computes equal ranges once.
_ZERO = IndexConstant([0], name="zero")


def positions(axis: Axis) -> IndexNode[tuple[Any]]:
    """Return the numbers from 0 on of the elements along an axis; a constant if its size is known.

    >>> positions(wy.Dim(3)).forward().tolist()
    [0, 1, 2]
    """
    size = axis_size(axis)
    if size is None:
        return Arange(_ZERO, axis)
    dims: Any = (axis,)
    return IndexConstant(np.arange(size), dims)


__all__ = ["Arange", "positions"]

"""Whether elements depend on the size of an axis: whether a longer input begins with the same results."""

from __future__ import annotations

from collections.abc import Iterable

from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode
from wyrm.reach.axis import AxisAnalysis, all_dims
from wyrm.reach.rules import Reached
from wyrm.reach.ways import How, Way
from wyrm.reach.zones import Zone


class SizeAnalysis(AxisAnalysis):
    """Which elements depend on the size of the axis `kind`, if their operands at the same positions do not change.

    An op depends on it if it counts elements, reads positions from the end, or reduces elements along the axis that
    later positions add to.
    """

    def without(
        self, node: BaseNode, operand: Reached, gone: Iterable[int], keepdims: bool, neutral: float | None = None
    ) -> Reached:
        gone = list(gone)
        found = super().without(node, operand, gone, keepdims, neutral)
        kept = [abs(a) for k, entry in enumerate(operand.axes) if k not in gone for a in entry if self._is_long(abs(a))]
        zones = None if neutral is None else operand.values.get(neutral)
        for atom in (abs(a) for k in gone for a in operand.axes[k] if self._is_long(abs(a))):
            # Later positions are neutral at each position that is kept.
            if zones is None or not all(any(self.limited(z.bounds, atom, k, 0) for k in kept) for z in zones):
                found.zones = [Zone({}, node)]
        return found

    def _is_long(self, atom: int) -> bool:
        variable, _ = self.sizes[atom]
        axis = variable[1] if isinstance(variable, tuple) else None
        return axis is self.kind or (isinstance(axis, Dim) and self.is_made_of(axis))

    def _of_shape(self, node: BaseNode) -> bool:
        counted = node.counted_dims()
        return self.is_made_of(*(all_dims(node) if counted is None else counted))

    def _is_lost(self, way: Way) -> bool:
        return way.how is How.ANY and self.is_made_of(*way.axes)

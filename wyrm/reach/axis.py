"""Whether elements depend on the size of an axis; the base of that analysis says which ops depend on an axis."""

from __future__ import annotations

from collections.abc import Iterable

from wyrm.graph.axes import Axis, Dim, open_axes
from wyrm.graph.base import BaseNode
from wyrm.reach.facts import Analysis
from wyrm.reach.rules import Reached, ways_of
from wyrm.reach.ways import How, Way
from wyrm.reach.zones import Zone


class AxisAnalysis(Analysis):
    """Which elements depend on something of the axis `kind`, if the elements of their operands do not change.

    Zones hold wherever elements may depend on it: behind the ops that a method here returns True for.
    """

    follows_all = True

    def __init__(self, output: BaseNode, kind: type[Dim]) -> None:
        self.kind = kind
        super().__init__([output], {})

    def is_made_of(self, *dims: Axis) -> bool:
        """Return whether one of some axes is this axis or is made of it."""
        return self.kind in set(open_axes(dims))

    def _of_op(self, node: BaseNode) -> Reached:
        found = super()._of_op(node)
        if not node.same_value and self._depends(node):
            found.zones = [Zone({}, node, next(iter(found.zones), None))]
        return found

    def _depends(self, node: BaseNode) -> bool:
        """Return whether an op depends on it by itself."""
        if node.shape_only:
            return self._of_shape(node)
        if not self._has(node):
            return False
        parts = None
        if node.same_elements:
            parts = [(d, self.sizes[abs(a)]) for d, entry in enumerate(self.known[node.parents[0]].axes) for a in entry]
        return any(map(self._is_lost, ways_of(node, parts) or ()))

    def _has(self, node: BaseNode) -> bool:
        """Return whether a node or one of its parents has the axis."""
        return any(self.is_made_of(*each.dims) for each in (node, *node.parents))

    def _of_shape(self, node: BaseNode) -> bool:
        """Return it for an op that reads the sizes of its operands alone."""
        raise NotImplementedError

    def _is_lost(self, way: Way) -> bool:
        """Return whether what depends on axes that meet depends on it."""
        raise NotImplementedError


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
        return self._has(node) if counted is None else self.is_made_of(*counted)

    def _is_lost(self, way: Way) -> bool:
        return way.how is How.ANY and self.is_made_of(*way.axes)

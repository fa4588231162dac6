"""The base of analyses of one axis: which ops depend on something of it, such as its size, by themselves."""

from __future__ import annotations

from wyrm.graph.axes import Axis, Dim, Dims, open_axes
from wyrm.graph.base import BaseNode
from wyrm.reach.facts import Analysis
from wyrm.reach.rules import Reached, ways_of
from wyrm.reach.ways import Way
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
        if not self.is_made_of(*all_dims(node)):
            return False
        parts = None
        if node.same_elements:
            parts = [(d, self.sizes[abs(a)]) for d, entry in enumerate(self.known[node.parents[0]].axes) for a in entry]
        return any(map(self._is_lost, ways_of(node, parts) or ()))

    def _of_shape(self, node: BaseNode) -> bool:
        """Return it for an op that reads the sizes of its operands alone."""
        raise NotImplementedError

    def _is_lost(self, way: Way) -> bool:
        """Return whether what depends on axes that meet depends on it."""
        raise NotImplementedError


def all_dims(node: BaseNode) -> Dims:
    """Return the axes of a node and of its parents."""
    return tuple(axis for each in (node, *node.parents) for axis in each.dims)

"""The base of analyses of one axis: which ops depend on something of it, such as its size, by themselves."""

from __future__ import annotations

from typing import Any

from wyrm.graph.axes import Axis, Dim, Dims, open_axes
from wyrm.graph.base import BaseNode
from wyrm.graph.index_maps import IndexMap, loop_indices
from wyrm.graph.loop_form import LOOPS
from wyrm.reach.facts import Analysis
from wyrm.reach.rules import REACH, Reach, Reached
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
            found.zones = [Zone({}, node)]
        return found

    def _depends(self, node: BaseNode) -> bool:
        """Return whether an op depends on it by itself."""
        if node.shape_only:
            return self._of_shape(node)
        if not self.is_made_of(*all_dims(node)):
            return False
        rule, form = REACH.of(node), LOOPS.of(node)
        found = self._of_rule(node, rule)
        if found is not None:
            return found
        if type(rule) is not Reach and not rule.composes:
            return True
        if node.composition() is not None or form.decompose(node) is not None:
            return False  # the ops that it is made of are asked
        if form.reducer is not None:
            return self._of_reduction(node, form.reducer.step)
        entries = form.gather_index(node, loop_indices(node.ndim))
        if entries is not None:
            return self._of_gather(node, entries)
        if node.same_elements:
            return self._of_reshape(node)
        if form.by_flat_index is not None:
            return self._of_number(node)
        return self._of_scatter(node)

    # What follows is True where nothing better is known.

    def _of_shape(self, node: BaseNode) -> bool:
        return True

    def _of_rule(self, node: BaseNode, rule: Reach) -> bool | None:
        """Return None where the rule does not say it."""
        return None

    def _of_reduction(self, node: BaseNode, step: str) -> bool:
        return True

    def _of_gather(self, node: BaseNode, entries: IndexMap) -> bool:
        return True

    def _of_reshape(self, node: BaseNode) -> bool:
        return True

    def _of_number(self, node: BaseNode) -> bool:
        """Return it for an op whose elements are computed from their flat position."""
        return True

    def _of_scatter(self, node: BaseNode) -> bool:
        return True


def all_dims(node: BaseNode) -> Dims:
    """Return the axes of a node and of its parents."""
    return tuple(axis for each in (node, *node.parents) for axis in each.dims)


def scatter_position(node: BaseNode, k: int) -> Any:
    """Return where an op writes the elements of its operand `k`."""
    return LOOPS.of(node).scatter_index(node, k, loop_indices(node.parents[k].ndim))

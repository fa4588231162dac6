"""Whether elements depend on the size of an axis: whether a longer input begins with the same results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wyrm.graph.axes import Axis, Dim, Times
from wyrm.graph.base import BaseNode
from wyrm.graph.index_maps import AxisLength, IndexLiteral, IndexLoad, IndexMap, LoopIndex, SumOfIndices
from wyrm.reach.axis import AxisAnalysis, all_dims, scatter_position
from wyrm.reach.reading import groups
from wyrm.reach.rules import Reach, Reached
from wyrm.reach.zones import Zone, size_of


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

    def _of_rule(self, node: BaseNode, rule: Reach) -> bool | None:
        return False if node.formula or rule.ignores_sizes(node, self.is_made_of) else None

    def _of_reduction(self, node: BaseNode, step: str) -> bool:
        return False  # `without` is asked

    def _of_gather(self, node: BaseNode, entries: IndexMap) -> bool:
        return any(self._reads_end(entry, axis) for entry, axis in zip(entries, node.parents[0].dims, strict=True))

    def _of_reshape(self, node: BaseNode) -> bool:
        divided = (each for each in groups(self, node, self.known[node.parents[0]]) if len(each[1]) > 1)
        return any(len(left) > 1 or self.is_made_of(*(node.dims[k] for k in right[1:])) for left, right in divided)

    def _of_number(self, node: BaseNode) -> bool:
        return self.is_made_of(*node.dims[1:])

    def _reads_end(self, entry: Any, axis: Axis) -> bool:
        if isinstance(entry, LoopIndex):
            return False
        if isinstance(axis, Times) and self.is_made_of(axis):
            return True
        return any(isinstance(leaf, AxisLength) and self.is_made_of(leaf.axis) for leaf in entry.leaves())

    def _of_scatter(self, node: BaseNode) -> bool:
        """Return whether elements behind the last one of an operand are written by others."""
        for k, parent in enumerate(node.parents):
            target = scatter_position(node, k)
            if target is None or target.adds:
                return True
            for entry, axis in zip(target.position, node.dims, strict=True):
                if any(isinstance(leaf, AxisLength) for leaf in entry.leaves()):
                    return True
                start, place = _after(entry)
                if place is None or not self.is_made_of(parent.dims[place.depth]):
                    if self.is_made_of(axis) and any(isinstance(leaf, IndexLoad) for leaf in entry.leaves()):
                        return True
                    continue
                variable, number = size_of(parent.dims[place.depth])
                if size_of(axis) != (variable, number + start):
                    return True
            written = {
                leaf.depth for entry in target.position for leaf in entry.leaves() if isinstance(leaf, LoopIndex)
            }
            if any(self.is_made_of(axis) for d, axis in enumerate(parent.dims) if d not in written):
                return True
        return False


def _after(entry: Any) -> tuple[int, LoopIndex | None]:
    """Return the start and the index of a position that is their sum."""
    if isinstance(entry, LoopIndex):
        return 0, entry
    if isinstance(entry, SumOfIndices):
        for start, place in ((entry.left, entry.right), (entry.right, entry.left)):
            if isinstance(start, IndexLiteral) and isinstance(place, LoopIndex):
                return start.value, place
    return 0, None

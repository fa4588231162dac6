"""Whether elements depend on the size of an axis: whether a longer input begins with the same results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from wyrm.graph.axes import Axis, Dim, Dims, Times, open_axes
from wyrm.graph.base import BaseNode
from wyrm.graph.index_maps import AxisLength, IndexLiteral, IndexLoad, IndexMap, LoopIndex, SumOfIndices
from wyrm.graph.loop_form import LOOPS
from wyrm.reach.facts import Analysis
from wyrm.reach.reading import groups
from wyrm.reach.rules import REACH, Reach, Reached
from wyrm.reach.zones import Zone, size_of


class SizeAnalysis(Analysis):
    """Which elements depend on the size of the axis `kind`, if their operands at the same positions do not change.

    Zones hold wherever elements may depend on it. An op depends on it if it counts elements, reads positions from the
    end, or reduces elements along the axis that later positions add to.
    """

    follows_all = True

    def __init__(self, output: BaseNode, kind: type[Dim]) -> None:
        self.kind = kind
        super().__init__([output], {})

    def _of_op(self, node: BaseNode) -> Reached:
        found = super()._of_op(node)
        if not node.same_value and self._is_introduced(node):
            found.zones = [Zone({}, node)]
        return found

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

    def is_long(self, axis: Axis) -> bool:
        """Return whether the size of an axis depends on that of the axis."""
        return self.kind in set(open_axes((axis,)))

    def _is_long(self, atom: int) -> bool:
        variable, _ = self.sizes[atom]
        return isinstance(variable, tuple) and (variable[1] is self.kind or self._is_made_of(variable[1]))

    def _is_made_of(self, axis: Any) -> bool:
        return not isinstance(axis, type) and self.is_long(axis)

    def _is_introduced(self, node: BaseNode) -> bool:
        """Return whether the op itself depends on the size."""
        if node.shape_only:
            counted = node.counted_dims()
            return any(map(self.is_long, _all_dims(node) if counted is None else counted))
        if not any(map(self.is_long, _all_dims(node))) or node.formula:
            return False
        rule, form = REACH.of(node), LOOPS.of(node)
        if rule.ignores_sizes(node, self.is_long):
            return False
        if type(rule) is not Reach and not rule.composes:
            return True
        if node.composition() is not None or form.decompose(node) is not None:
            return False  # the ops that it is made of are asked
        if form.reducer is not None:
            return False  # `without` is asked
        index: IndexMap = tuple(map(LoopIndex, range(node.ndim)))
        entries = form.gather_index(node, index)
        if entries is not None:
            dims = node.parents[0].dims
            return any(self._reads_end(entry, axis) for entry, axis in zip(entries, dims, strict=True))
        if node.same_elements:
            return any(
                self._is_divided(node, left, right) for left, right in groups(self, node, self.known[node.parents[0]])
            )
        if form.by_flat_index is not None:
            return any(map(self.is_long, node.dims[1:]))
        return self._scatters_to_end(node)

    def _reads_end(self, entry: Any, axis: Axis) -> bool:
        if isinstance(entry, LoopIndex):
            return False
        if isinstance(axis, Times) and self.is_long(axis):
            return True
        return any(isinstance(leaf, AxisLength) and self.is_long(leaf.axis) for leaf in entry.leaves())

    def _is_divided(self, node: BaseNode, left: Sequence[int], right: Sequence[int]) -> bool:
        if len(right) < 2:
            return False
        return len(left) > 1 or any(self.is_long(node.dims[k]) for k in right[1:])

    def _scatters_to_end(self, node: BaseNode) -> bool:
        """Return whether elements behind the last one of an operand are written by others."""
        for k, parent in enumerate(node.parents):
            target = LOOPS.of(node).scatter_index(node, k, tuple(map(LoopIndex, range(parent.ndim))))
            if target is None:
                return True
            if target.adds:
                return True
            for entry, axis in zip(target.position, node.dims, strict=True):
                if any(isinstance(leaf, AxisLength) for leaf in entry.leaves()):
                    return True
                start, place = _after(entry)
                if place is None or not self.is_long(parent.dims[place.depth]):
                    if self.is_long(axis) and any(isinstance(leaf, IndexLoad) for leaf in entry.leaves()):
                        return True
                    continue
                variable, number = size_of(parent.dims[place.depth])
                if size_of(axis) != (variable, number + start):
                    return True
            written = {
                leaf.depth for entry in target.position for leaf in entry.leaves() if isinstance(leaf, LoopIndex)
            }
            if any(self.is_long(axis) for d, axis in enumerate(parent.dims) if d not in written):
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


def _all_dims(node: BaseNode) -> Dims:
    return tuple(axis for each in (node, *node.parents) for axis in each.dims)

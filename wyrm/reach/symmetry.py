"""Whether an op treats all positions of an axis alike, so that a permuted input gives a permuted result."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexConstant, IndexInput
from wyrm.graph.index_maps import IndexLoad, IndexMap, LoopIndex, loop_indices
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.storage import stored
from wyrm.reach.axis import AxisAnalysis, scatter_position
from wyrm.reach.rules import REACH, Along, Reach, Reached, SamePlace
from wyrm.reach.zones import Zone

# The steps of reductions whose result is the same in every order.
_ANY_ORDER = {"total + x", "total * x", "total + x * y", "maximum(total, x)", "minimum(total, x)"}


class SymmetryAnalysis(AxisAnalysis):
    """Which elements may change in another way than by a permutation if the axis `kind` of all inputs is permuted.

    Elements that are sorted along the axis, and those of constants, have places that no permutation changes: they are
    `fixed`. What is made of these alone is fixed too, and without the axis it is permuted as well as not.
    """

    def is_of(self, axis: Axis) -> bool:
        """Return whether an axis is permuted."""
        return type(axis) is self.kind

    def is_made_of(self, *dims: Axis) -> bool:
        return any(map(self.is_of, dims)) or super().is_made_of(*dims)

    def _of_leaf(self, node: BaseNode) -> Reached:
        found = super()._of_leaf(node)
        is_input, is_long = isinstance(node, Input | IndexInput), self.is_made_of(*node.dims)
        if not is_input and is_long and not self._is_constant(node):
            found.zones = [Zone({}, node)]
        found.fixed = not node.is_argument and not (is_input and is_long)
        return found

    def _is_constant(self, node: BaseNode) -> bool:
        if not isinstance(node, Constant | IndexConstant):
            return node.stands_for != ""
        return self._is_symmetric(np.asarray(stored(node).array), node.dims)

    def _is_symmetric(self, array: np.ndarray, dims: Dims) -> bool:
        """Return whether every permutation of the axis, wherever an array has it, leaves its elements as they are."""
        along = [k for k, axis in enumerate(dims) if self.is_of(axis)]
        sizes = {array.shape[k] for k in along}
        if len(sizes) > 1:
            return False
        size = max(sizes, default=0)
        # All permutations follow from that of the first two positions and that of all in a circle.
        for order in ([1, 0, *range(2, size)], [*range(1, size), 0]) if size > 1 else ():
            moved = array
            for k in along:
                moved = moved.take(order, k)
            if not np.array_equal(moved, array, equal_nan=array.dtype.kind == "f"):
                return False
        return True

    def _of_op(self, node: BaseNode) -> Reached:
        starts = {self._start_of(parent) for parent in node.parents} if node.formula in ("x == y", "x != y") else {None}
        # Whether two positions are the same is the same for all permutations.
        found = super()._of_op(node) if len(starts) > 1 or None in starts else self.nothing(node)
        if not node.same_value:
            operands = [self.known[parent] for parent in node.parents]
            alike = node.shape_only or all(each.fixed for each in operands) or self._is_sorted(node)
            is_long = self.is_made_of(*node.dims)
            found.fixed = found.fixed or alike or not (found.zones or is_long)
            if found.fixed and not is_long:
                found.zones = []
        return found

    def _is_sorted(self, node: BaseNode) -> bool:
        """Return whether elements are those of an operand in their order along the axis, or some of these."""
        if len(node.parents) != 2:
            return False
        x, places = node.parents
        along = [k for k, axis in enumerate(x.dims) if self.is_made_of(axis)]
        loops, entries = loop_indices(node.ndim), LOOPS.of(node).gather_index(node, loop_indices(node.ndim))
        if not entries or len(along) != 1 or not self.is_of(x.dims[along[0]]) or self.known[x].zones:
            return False
        (k,) = along
        if entries != (*loops[:k], IndexLoad(1, loops), *loops[k + 1 :]):
            return False
        while not REACH.of(places).sorts:  # some of the positions
            loops, entries = loop_indices(places.ndim), LOOPS.of(places).gather_index(places, loop_indices(places.ndim))
            if not entries or len(places.parents) != 1 or any(e != loops[d] for d, e in enumerate(entries) if d != k):
                return False
            (places,) = places.parents
        return len(places.parents) == 1 and places.parents[0] is x and getattr(places, "axis", None) == k

    def _start_of(self, node: BaseNode) -> BaseNode | None:
        """Return from where a node counts positions along the permuted axis; None if it is no such node."""
        while not node.is_leaf and not REACH.of(node).counts:
            entries = LOOPS.of(node).gather_index(node, loop_indices(node.ndim))
            kept = entries and isinstance(entries[0], LoopIndex) and self.is_of(node.dims[entries[0].depth])
            if not (node.same_value or (len(node.parents) == len(node.parents[0].dims) == 1 and kept)):
                return None
            node = node.parents[0]
        if len(node.dims) != 1 or not self.is_of(node.dims[0]):
            return None
        if not node.is_leaf:
            start: BaseNode = node.parents[0]
            return start
        array = np.asarray(stored(node).array) if isinstance(node, IndexConstant) else np.zeros(2)
        return node if np.array_equal(array, np.arange(len(array))) else None

    def _depends(self, node: BaseNode) -> bool:
        if node in self._constants:
            return self.is_made_of(*node.dims) and not self._is_symmetric(self._constants[node], node.dims)
        return super()._depends(node)

    def _of_shape(self, node: BaseNode) -> bool:
        return False

    def _of_rule(self, node: BaseNode, rule: Reach) -> bool | None:
        operands = [parent.dims for parent in node.parents]
        if node.formula or isinstance(rule, SamePlace):
            return not self._is_aligned([*operands, node.dims])
        if isinstance(rule, Along):
            return self.is_of(operands[0][rule.axis(node)]) or not self._is_aligned(operands)
        return None if type(rule) is Reach or rule.composes else not rule.ignores_order(node, self.is_of)

    def _of_reduction(self, node: BaseNode, step: str) -> bool:
        return step not in _ANY_ORDER or not self._is_aligned([parent.dims for parent in node.parents])

    def _of_gather(self, node: BaseNode, entries: IndexMap) -> bool:
        return not self._is_kept(node, entries)

    def _of_reshape(self, node: BaseNode) -> bool:
        return not self._is_in_place(node.parents[0].dims, node.dims)

    def _of_scatter(self, node: BaseNode) -> bool:
        return not self._scatters_alike(node)

    def _is_aligned(self, operands: Sequence[Dims]) -> bool:
        """Return whether axes that broadcast together are all permuted or none, but for those of size 1."""
        for axes in zip_longest(*(reversed(dims) for dims in operands), fillvalue=1):
            long = [axis for axis in axes if axis_size(axis) != 1]
            if len({self.is_of(axis) for axis in long}) > 1:
                return False
        return not any(self.is_made_of(axis) and not self.is_of(axis) for dims in operands for axis in dims)

    def _is_kept(self, node: BaseNode, entries: IndexMap) -> bool:
        """Return whether a gather reads each position of the axis at that position."""
        parents = [(entries, node.parents[0].dims)]
        loads = {leaf for entry in entries for leaf in entry.leaves() if isinstance(leaf, IndexLoad)}
        parents += [(load.position, node.parents[load.parent].dims) for load in loads]
        for position, dims in parents:
            for entry, axis in zip(position, dims, strict=True):
                if self.is_made_of(axis):
                    kept = isinstance(entry, LoopIndex) and self.is_of(axis) and self.is_of(node.dims[entry.depth])
                    if not kept:
                        return False
                elif axis_size(axis) != 1 and isinstance(entry, LoopIndex) and self.is_of(node.dims[entry.depth]):
                    return False
        return True

    def _is_in_place(self, before: Dims, after: Dims) -> bool:
        """Return whether a reshape keeps the axis between the same elements before it, or behind it."""
        old, new = [k for k, a in enumerate(before) if self.is_of(a)], [k for k, a in enumerate(after) if self.is_of(a)]
        made = [a for a in (*before, *after) if self.is_made_of(a) and not self.is_of(a)]
        if made or len(old) != 1 or len(new) != 1:
            return False
        return _long(before[: old[0]]) == _long(after[: new[0]]) or _long(before[old[0] :]) == _long(after[new[0] :])

    def _scatters_alike(self, node: BaseNode) -> bool:
        """Return whether a scatter writes each position of the axis at that position."""
        for k, parent in enumerate(node.parents):
            target = scatter_position(node, k)
            if target is None or any(isinstance(leaf, IndexLoad) for x in target.position for leaf in x.leaves()):
                return False
            of: set[Any] = {entry.depth for entry in target.position if isinstance(entry, LoopIndex)}
            if any(self.is_made_of(axis) and d not in of for d, axis in enumerate(parent.dims)):
                return False
            for entry, axis in zip(target.position, node.dims, strict=True):
                inner = parent.dims[entry.depth] if isinstance(entry, LoopIndex) else 1
                if (self.is_made_of(axis) or self.is_made_of(inner)) and not (self.is_of(axis) and self.is_of(inner)):
                    return False
        return True


def _long(dims: Dims) -> list[Axis]:
    return [axis for axis in dims if axis_size(axis) != 1]

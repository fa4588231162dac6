"""Whether an op treats all positions of an axis alike, so that a permuted input gives a permuted result."""

from __future__ import annotations

import numpy as np

from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexConstant, IndexInput
from wyrm.graph.index_maps import IndexLoad, LoopIndex, loop_indices
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.storage import stored
from wyrm.reach.axis import AxisAnalysis
from wyrm.reach.rules import REACH, Reached
from wyrm.reach.ways import How, Way, entries_of
from wyrm.reach.zones import Zone


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
        loops, entries = loop_indices(node.ndim), entries_of(node)
        if not entries or len(along) != 1 or not self.is_of(x.dims[along[0]]) or self.known[x].zones:
            return False
        (k,) = along
        if entries != (*loops[:k], IndexLoad(1, loops), *loops[k + 1 :]):
            return False
        while not REACH.of(places).sorts:  # some of the positions
            loops, entries = loop_indices(places.ndim), entries_of(places)
            if not entries or len(places.parents) != 1 or any(e != loops[d] for d, e in enumerate(entries) if d != k):
                return False
            (places,) = places.parents
        return len(places.parents) == 1 and places.parents[0] is x and getattr(places, "axis", None) == k

    def _start_of(self, node: BaseNode) -> BaseNode | None:
        """Return from where a node counts positions along the permuted axis; None if it is no such node."""
        while not node.is_leaf and not REACH.of(node).counts:
            entries = entries_of(node)
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

    def _is_lost(self, way: Way) -> bool:
        if way.how > How.REDUCED:
            return self.is_made_of(*way.axes)
        # Axes that meet are all permuted or none, but for those of size 1.
        long = {self.is_of(axis) for axis in way.axes if axis_size(axis) != 1}
        return len(long) > 1 or any(self.is_made_of(axis) and not self.is_of(axis) for axis in way.axes)

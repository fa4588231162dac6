"""What lowering asks of a node or a schedule before it places anything."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

from wyrm.engine.native.loops import loop_index
from wyrm.node.base import BaseNode
from wyrm.node.storage import is_leaf
from wyrm.ops.arithmetic import Add
from wyrm.ops.comparison import StopGradient
from wyrm.ops.reduction import ArgMax
from wyrm.ops.sampling import RandomIndex
from wyrm.ops.shape import IndexReshape, Rearrangement
from wyrm.ops.slicing import IndexSlice
from wyrm.ops.vocabulary import TapePart
from wyrm.schedule.schedule import Schedule
from wyrm.types.dims import axis_size

# Nodes whose array shows another one's memory.
VIEWS = (Rearrangement, IndexReshape, IndexSlice, StopGradient, TapePart)


def sums_in_place(
    schedule: Schedule,
) -> dict[BaseNode[Any, Any], tuple[BaseNode[Any, Any], BaseNode[Any, Any]]]:
    """For each sum of which a kernel can add one term to the memory of the other, these two."""
    users = Counter(parent for node in schedule.nodes for parent in schedule.parents(node))
    users.update(schedule.outputs)
    found: dict[BaseNode[Any, Any], tuple[BaseNode[Any, Any], BaseNode[Any, Any]]] = {}
    for node in schedule.nodes:
        if isinstance(node, Add):
            for term, other in permutations(schedule.parents(node), 2):
                if (
                    term.adding_kernel is not None
                    and _has_memory(other)
                    and users[term] == users[other] == 1
                    and node.dims == term.dims == other.dims
                ):
                    found[node] = term, other
    return found


def _has_memory(node: BaseNode[Any, Any]) -> bool:
    """Whether the array of a node is its own."""
    view = isinstance(node, VIEWS) or (node.formula is None and node.reads(loop_index(node.dims)) is not None)
    return not (is_leaf(node) or node.shape_only or node.by_place is not None or view)


def is_below(indices: BaseNode[Any, Any], size: int) -> bool:
    """Whether integers are known to be in range: data is checked when it is given, other nodes may have a bound."""
    while indices.same_elements:
        indices = indices.parents[0]
    if isinstance(indices, ArgMax):
        most = axis_size(indices.parents[0].dims[indices.axis])
        return most is not None and most <= size
    return is_leaf(indices) or (isinstance(indices, RandomIndex) and indices.bound <= size)

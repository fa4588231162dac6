"""Properties of nodes and schedules that lowering needs in advance."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

from wyrm.engines.native.stages.loops import loop_index
from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.schedule import Schedule


def sums_in_place(
    schedule: Schedule,
) -> dict[BaseNode, tuple[BaseNode, BaseNode]]:
    """Return the sums to accumulate in place as {sum: (term, other)}: `term`'s kernel adds to the memory of `other`."""
    users = Counter(parent for node in schedule.nodes for parent in schedule.parents(node))
    users.update(schedule.outputs)
    found: dict[BaseNode, tuple[BaseNode, BaseNode]] = {}
    for node in schedule.nodes:
        if node.formula == "x + y" and len(node.parents) == 2:
            for term, other in permutations(schedule.parents(node), 2):
                if (
                    LOOPS.of(term).adding_kernel is not None
                    and _has_memory(other)
                    and users[term] == users[other] == 1
                    and node.dims == term.dims == other.dims
                ):
                    found[node] = term, other
    return found


def _has_memory(node: BaseNode) -> bool:
    """Return whether a node's array has memory of its own."""
    rule = LOOPS.of(node)
    view = node.is_view or (node.formula is None and rule.gather_index(node, loop_index(node.dims)) is not None)
    return not (node.is_leaf or node.shape_only or rule.by_flat_index is not None or view)

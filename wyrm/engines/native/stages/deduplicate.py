"""Merges equal operations, orders all, and finds the sums that the kernel of a term can add to in place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import permutations

from wyrm.engines.native.stages.differentiate import Targets
from wyrm.engines.native.stages.loops import loop_index
from wyrm.graph.base import BaseNode, label
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.ranges import Ranges
from wyrm.graph.schedule import Schedule
from wyrm.graph.traversal import shallow_first
from wyrm.ops.indexing.index import row_gradient


@dataclass(frozen=True)
class Scheduled:
    """The nodes in the order of computation, and the program's targets among them.

    `ranges` holds the known ranges of indices; `merged` names the nodes that were merged with an equal one.
    """

    targets: Targets
    schedule: Schedule
    ranges: Ranges
    merged: list[str]


def deduplicate(targets: Targets) -> Scheduled:
    """Return the schedule of a program; errors name the nodes as users wrote them."""
    # Compute each gradient as early as possible: its operands are then no longer needed.
    schedule = Schedule(shallow_first(targets.nodes), targets.original)
    final = targets.replaced(schedule.representative.__getitem__)
    merged = [label(node) for node, first in schedule.representative.items() if node is not first and node.parents]
    # These nodes tell `Ranges` which rows the data indexes, so data out of range is reported before anything runs.
    touched = [row_gradient(g, i, parameter.dims) for parameter, pairs in final.rows.items() for g, i in pairs]
    return Scheduled(final, schedule, Ranges([*schedule.nodes, *touched]), merged)


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

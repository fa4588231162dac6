"""Merges equal operations, and puts all operations in the order of computation."""

from __future__ import annotations

from dataclasses import dataclass

from wyrm.engines.native.stages.differentiate import Targets
from wyrm.graph.base import label
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

"""Each operation once, however often it was written, in the order of computation."""

from __future__ import annotations

from dataclasses import dataclass

from wyrm.compiler.differentiate import Wanted
from wyrm.node.base import label
from wyrm.node.traversal import shallow_first
from wyrm.ops.index import row_gradient
from wyrm.schedule.ranges import Ranges
from wyrm.schedule.schedule import Schedule


@dataclass(frozen=True)
class Scheduled:
    """The order of computation, and the wanted nodes, all of which are in it.

    `ranges` say what is known of the integers that choose along axes; `merged` names the nodes that equal others.
    """

    wanted: Wanted
    schedule: Schedule
    ranges: Ranges
    merged: list[str]


def deduplicate(wanted: Wanted) -> Scheduled:
    """The schedule of what is wanted; errors name the nodes as users wrote them."""
    # Each gradient as soon as it can be computed: what it is made of is then needed no more.
    schedule = Schedule(shallow_first(wanted.nodes), wanted.written)
    final = wanted.replaced(schedule.representative.__getitem__)
    merged = [label(node) for node, first in schedule.representative.items() if node is not first and node.parents]
    # What of data lies out of range is known by this, and told before anything runs.
    touched = [row_gradient(g, i, parameter.dims) for parameter, pairs in final.rows.items() for g, i in pairs]
    return Scheduled(final, schedule, Ranges([*schedule.nodes, *touched]), merged)

"""The order in which nodes are put into loops, and the sums that a kernel accumulates in place."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import permutations

from wyrm.engines.native.stages.loops import loop_axes, loop_index
from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.schedule import Schedule


def by_need(schedule: Schedule) -> list[BaseNode]:
    """Return the nodes of a schedule, elementwise ones and views just before the first of the others that needs them.

    What has fewer axes comes first. So values find the loop of those that are computed with them, and what that loop
    reads in each row is known before it.
    """
    nodes, order = schedule.nodes, list[BaseNode]()
    # The key of a node that waits until it is needed, and the nodes that it waits for.
    keys = {node: (len(loop_axes(node.dims)), i) for i, node in enumerate(nodes) if _waits(node)}
    done = set[BaseNode]()

    def add(wanted: Iterable[BaseNode]) -> None:
        """Add nodes that wait, and those that they depend on."""
        missing = dict[BaseNode, int]()
        readers: dict[BaseNode, list[BaseNode]] = defaultdict(list)
        stack = [node for node in wanted if node not in done]
        while stack:
            node = stack.pop()
            if node in missing:
                continue
            parents = [parent for parent in dict.fromkeys(schedule.parents(node)) if parent not in done]
            missing[node] = len(parents)
            for parent in parents:
                readers[parent].append(node)
            stack += parents
        ready = [(keys[node], node) for node, count in missing.items() if not count]
        heapify(ready)
        while ready:
            node = heappop(ready)[1]
            order.append(node)
            done.add(node)
            for reader in readers[node]:
                missing[reader] -= 1
                if not missing[reader]:
                    heappush(ready, (keys[reader], reader))

    for node in nodes:
        if node not in keys:
            add(schedule.parents(node))
            order.append(node)
            done.add(node)
    add(nodes)
    return order


def _waits(node: BaseNode) -> bool:
    """Return whether a node is computed where it is read."""
    return not node.is_leaf and (node.formula != "" or not _has_memory(node))


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
    form = LOOPS.of(node)
    view = node.is_view or (not node.formula and form.gather_index(node, loop_index(node.dims)) is not None)
    return not (node.is_leaf or node.shape_only or form.by_flat_index is not None or view)

"""On which positions of the inputs the nodes of a graph depend, in words for the graph page."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from wyrm.graph.axes import axis_name, axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.traversal import topological_order
from wyrm.reach.facts import Analysis
from wyrm.reach.rules import Reached
from wyrm.reach.zones import SOURCE, ZERO, Zone

# The most nodes, times axes of inputs, that are looked at: about half a second.
_LIMIT = 5_000


class Dependence(NamedTuple):
    """An input on which a node depends, the name of an axis of it, and on which positions along it."""

    source: BaseNode
    axis: str
    positions: str


def dependences(outputs: Sequence[BaseNode]) -> dict[BaseNode, tuple[Dependence, ...]]:
    """Return on what outputs and the nodes before them depend; nothing for a graph that is too large.

    >>> class Time(wy.Dim): ...
    >>> x = wy.Input(dims=(Time(), 4), name="x")
    >>> total = x.cumsum(axis=0)
    >>> [(each.axis, each.positions) for each in dependences([total])[total]]
    [('Time', 'up to its own'), ('axis 1', 'its own')]
    """
    nodes = topological_order(outputs)
    leaves = [node for node in nodes if isinstance(node, Input | IndexInput) and not node.is_argument]
    followed = [(leaf, k) for leaf in leaves for k, axis in enumerate(leaf.dims) if axis_size(axis) != 1]
    if len(nodes) * len(followed) > _LIMIT:
        return {}
    found: dict[BaseNode, list[Dependence]] = {}
    for leaf, k in followed:
        analysis = Analysis(nodes, {leaf: k})
        name = axis_name(leaf.dims[k]) or f"axis {k}"
        for node in nodes:
            known = analysis.known[node]
            if known.zones and not node.is_leaf:
                found.setdefault(node, []).append(Dependence(leaf, name, _positions(analysis, known)))
    return {node: tuple(each) for node, each in found.items()}


def _positions(analysis: Analysis, known: Reached) -> str:
    """Return the positions of the source on which an element depends, by its own position where it has one."""
    places = [entry[0] for entry in known.axes if len(entry) == 1 and entry[0] > 0]
    places = [atom for atom in places if any(_is_bound(zone, atom) for zone in known.zones)]
    windows = [analysis.window(known.zones, atom) for atom in places]
    back, ahead = min(windows, key=lambda each: sorted(each), default=(inf, inf))
    if back == ahead == 0:
        return "its own"
    if back < inf or ahead < inf:
        return _between("" if back == inf else _from_own(-back), "" if ahead == inf else _from_own(ahead))
    if any(_excludes(analysis, known.zones, atom) for atom in places):
        return "all but its own"
    back, ahead = analysis.window(known.zones, ZERO)
    first, last = ("" if limit == inf else f"{abs(limit):g}" for limit in (back, ahead))
    return _between(first or (last and "0"), last) if first or last else "all"


def _is_bound(zone: Zone, atom: int) -> bool:
    return (SOURCE, atom) in zone.bounds or (atom, SOURCE) in zone.bounds


def _excludes(analysis: Analysis, zones: Sequence[Zone], atom: int) -> bool:
    pairs = (SOURCE, atom), (atom, SOURCE)
    return all(any(analysis.limited(zone.bounds, u, v, -1) for u, v in pairs) for zone in zones)


def _from_own(distance: float) -> str:
    return "its own" if not distance else f"{abs(distance):g} {'after' if distance > 0 else 'before'} its own"


def _between(first: str, last: str) -> str:
    """Return the positions from a first to a last one, of which one may be missing."""
    if first == last:
        return first
    return f"from {first} to {last}" if first and last else f"up to {last}" if last else f"from {first} on"

"""The message of a claim that is not proved: where it is lost, the mask, the path, and what would help."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from math import inf
from types import FunctionType

from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.index_maps import IndexLiteral, SumOfIndices
from wyrm.graph.leaves import Input
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.node import Node
from wyrm.graph.source_location import called_at
from wyrm.graph.traversal import topological_order
from wyrm.reach.facts import Analysis
from wyrm.reach.rules import REACH, Along
from wyrm.reach.ways import entries_of
from wyrm.reach.zones import SOURCE, Bounds, Zone

# What users call the modules whose functions build nodes.
_ALIASES = frozenset(["np", "numpy", "wy", "wyrm"])
# Whether bounds are within a claim, whose atom is given.
Fits = Callable[[Bounds, int | None], bool]


def never(bounds: Bounds, atom: int | None) -> bool:
    """Return False, for a claim that no zone is within."""
    return False


def explained(
    text: str,
    node: BaseNode,
    analysis: Analysis,
    zone: Zone,
    atom: int | None = None,
    fits: Fits = never,
    help: str = "",
) -> str:
    """Return a text with the source on which a zone of a node depends, where a claim is lost, the path, and help.

    `help` is what helps with this claim, whatever op it is lost by.
    """
    path = [each.node for each in reversed(list(origins(zone))) if each.node is not None]
    lost, mask = lost_at(zone, fits)
    source = next((each for each in path if each in analysis.sources), None)
    of = "" if source is None else f" {label(source)}"
    lines = [f"{text}{of}{_extent(analysis, zone, atom)}"]
    if lost is not None and not (lost.is_leaf and (source is lost or lost.location.source == "")):
        lines.append(f"  lost by {label(lost) if lost.is_leaf else _written(lost)} at {_line(lost)}")
    if mask is not None:
        lines.append(f"  mask: {_written(mask)} at {_line(mask)}")
    lines.append("  path: " + " -> ".join(_steps(path)))
    lines += [f"  help: {each}" for each in _helps(node, analysis, lost, mask, path, help)]
    return "\n".join(lines)


def origins(zone: Zone | None) -> Iterator[Zone]:
    """Yield a zone and those that it was made from."""
    while zone is not None:
        yield zone
        zone = zone.origin


def lost_at(zone: Zone, fits: Fits) -> tuple[BaseNode | None, BaseNode | None]:
    """Return the first op after which a claim no longer holds of any axis, and the mask there."""
    chain = list(origins(zone))
    holds = [
        any(fits(each.bounds, a) for a in {x for key in each.bounds for x in key if type(x) is int}) for each in chain
    ]
    for k in range(len(chain) - 1):
        if holds[k + 1] and not holds[k]:
            return chain[k].node, chain[k].mask
    is_bound = fits is not never and any(SOURCE in key for key in zone.bounds)
    return chain[-1].node, zone.mask if is_bound else None


def described(node: BaseNode) -> str:
    """Return a node in words, by the name that users write."""
    while _passes(node):
        node = node.parents[0]
    return describe(node).replace(node.op_name(), _written(node), 1) if node.name is None else describe(node)


def _passes(node: BaseNode) -> bool:
    """Return whether an op returns its operand as it is."""
    return not node.is_leaf and LOOPS.of(node).decompose(node) is node.parents[0]


def _written(node: BaseNode) -> str:
    """Return what users write for an op: the function of ours that they call where it was built, or the op itself."""
    owner, _, called = called_at(node.origin).rpartition(".")
    if called and not called.startswith("_"):
        # `model.norm` is a layer of a model, not a function of ours.
        ours = owner.partition(".")[0] in _ALIASES
        rooms = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "wyrm" and ours]
        places = [Node, *(module for module in rooms if called in getattr(module, "__all__", ()))]
        if any(isinstance(getattr(place, called, None), FunctionType) for place in places):
            return called
    return node.written or node.op_name()


def _line(node: BaseNode) -> str:
    source = node.location.source
    return f"{node.location}: {source}" if source else str(node.location)


def _steps(path: list[BaseNode]) -> list[str]:
    """Return the ops of a path with the user's lines, those of one line together."""
    steps: list[tuple[str, list[str]]] = []
    for node in path:
        if _passes(node):
            continue
        place, name = str(node.location), _written(node) if node.name is None else label(node)
        if not steps or steps[-1][0] != place:
            steps.append((place, []))
        if name not in steps[-1][1]:
            steps[-1][1].append(name)
    return [f"{', '.join(names)} ({place})" for place, names in steps]


def _extent(analysis: Analysis, zone: Zone, atom: int | None) -> str:
    """Return the positions of the source on which position t may depend."""
    if atom is None:
        return ""
    back, ahead = analysis.window([zone], atom)
    first = "the first" if back == inf else _place(-back)
    last = "the last" if ahead == inf else _place(ahead)
    return f" (position t on {first})" if first == last else f" (position t on {first} to {last})"


def _place(distance: float) -> str:
    return "t" if not distance else f"t {'+' if distance > 0 else '-'} {abs(distance):g}"


def _helps(
    node: BaseNode, analysis: Analysis, lost: BaseNode | None, mask: BaseNode | None, path: list[BaseNode], help: str
) -> Iterator[str]:
    """Yield what would help."""
    if lost is not None and lost in analysis.unknown:
        name = type(lost).__name__
        yield f"{name} says nothing of what its elements depend on: register a rule, @wy.REACH.register({name})"
    if any("batch_norm" in each.op_name() or "batch_moments" in each.op_name() for each in path):
        yield "batch normalization in training reads all rows: prove the model in evaluation, after model.eval()"
        return
    yield from dict.fromkeys(analysis.doubts)
    given = [each for each in topological_order([node]) if isinstance(each, Input) and each.dtype.kind == "b"]
    if mask is not None:
        yield "compare the positions in the mask with those that the claim allows"
    elif given:
        yield f"the mask {label(given[0])} is data: a proof needs one made of wy.arange, constants and comparisons"
    elif lost is not None and (not path or path[0] is not lost) and lost not in analysis.unknown and not help:
        yield _help_of(lost, analysis)
    if help:
        yield help


def _help_of(lost: BaseNode, analysis: Analysis) -> str:
    """Return what would help with an op after which a claim does not hold."""
    name = _written(lost)
    known = [analysis.known[parent] for parent in lost.parents if parent in analysis.known]
    turned = getattr(getattr(lost, "steps", lost), "reverse", False)
    backward = turned != any(a < 0 for each in known for entry in each.axes for a in entry)
    if backward and (hasattr(lost, "steps") or isinstance(REACH.of(lost), Along) or lost.composition() is not None):
        return f"{name} goes from the last position to the first: the axis was reversed before, or reverse=True says so"
    starts = [
        leaf.value
        for entry in entries_of(lost) or ()
        for leaf in entry.leaves()
        if isinstance(entry, SumOfIndices) and isinstance(leaf, IndexLiteral)
    ]
    if starts and starts[0] > 0:
        k = starts[0]
        return (
            f"{name} moves position t + {k} to t, as x[{k}:] does: for earlier positions put others before the first, "
            f"and leave out the last, as in wy.pad(x, ({k}, 0))[:-{k}]"
        )
    return REACH.of(lost).help(lost) or (
        f"mask what {name} reads, or leave the axis out of what it reduces, moves or reorders"
    )

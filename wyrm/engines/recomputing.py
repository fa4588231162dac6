"""Layers whose values the backward pass recomputes, chosen by the names of modules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from wyrm.errors import DTypeError, OptionError
from wyrm.graph.base import BaseNode
from wyrm.graph.node import Node
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.source_location import ModuleCall, located_at
from wyrm.graph.traversal import topological_order
from wyrm.ops.control.checkpoint import checkpointed
from wyrm.support.texts import nearest

# The most names that an error lists.
_SHOWN = 30


def checked_names(remat: object) -> frozenset[str]:
    """Return the names of modules to recompute; raise `DTypeError` unless they are a name or several."""
    names = [remat] if isinstance(remat, str) else () if remat is None else remat
    if not isinstance(names, Collection) or not all(isinstance(name, str) and name for name in names):
        raise DTypeError(
            f"remat must be the names of the modules that the backward pass recomputes, such as "
            f"remat={{'attention', 'feed_forward'}}, not {remat!r}"
        )
    return frozenset(names)


def recomputed(outputs: Sequence[BaseNode], names: Collection[str]) -> list[BaseNode]:
    """Return outputs whose gradients recompute what modules of these names computed, from the modules' float inputs.

    A name is that of a module in the one that holds it, as in `attention`, or `blocks` for all of a list, a path or the
    end of one, as in `blocks.3.attention`, or a class, as in `TransformerLayer`. Where one such module is inside of
    another, the outer one is recomputed as a whole. Values are the same.

    Raise `OptionError` for a name that no module has, or whose modules have no float input to recompute from.
    """
    regions = _Regions(outputs, names)
    plain: dict[BaseNode, BaseNode] = {}
    seen: dict[BaseNode, BaseNode] = {}
    recomputes: set[ModuleCall] = set()
    for node in regions.order:
        call = regions.of.get(node)
        parents = tuple((plain if regions.of.get(each) is call else seen)[each] for each in node.parents)
        copy = node
        if any(parent is not own for parent, own in zip(parents, node.parents, strict=True)):
            with located_at(node.origin):
                copy = node.rebuild(parents)
        plain[node] = seen[node] = copy
        if call is not None and node in regions.results and isinstance(copy, Node) and copy.dtype.kind == "f":
            with located_at(node.origin):
                result = checkpointed(copy, [seen[each] for each in regions.inputs[call]])
            if result is not None:
                seen[node] = result
                recomputes.add(call)
    regions.check(recomputes)
    return [seen[output] for output in outputs]


class _Regions:
    """The nodes that modules of some names made: `of` has the outermost such call of a node.

    `inputs` has the float nodes outside that a call reads, and `results` the nodes that others read.
    """

    def __init__(self, outputs: Sequence[BaseNode], names: Collection[str]) -> None:
        self.order = topological_order(outputs)
        self._names = frozenset(map(_dotted, names))
        self._calls: dict[ModuleCall, ModuleCall | None] = {}
        self.of: dict[BaseNode, ModuleCall] = {}
        for node in self.order:
            found = None if node.is_leaf or node.origin[2] is None else self._outermost(node.origin[2])
            if found is not None:
                self.of[node] = found
        self.results: set[BaseNode] = {node for node in outputs if node in self.of}
        self.inputs: dict[ModuleCall, dict[BaseNode, None]] = {call: {} for call in self.of.values()}
        for node in self.order:
            call = self.of.get(node)
            for parent in node.parents:
                if self.of.get(parent) is call:
                    continue
                if parent in self.of:
                    self.results.add(parent)
                if call is not None and parent.dtype.kind == "f" and not isinstance(parent, Parameter | Buffer):
                    self.inputs[call][parent] = None

    def _outermost(self, call: ModuleCall) -> ModuleCall | None:
        """Return the outermost call around a call, itself included, that a name chooses."""
        unknown, around = list[ModuleCall](), call
        while around not in self._calls:
            unknown.append(around)
            if around.outer is None:
                break
            around = around.outer
        for each in reversed(unknown):
            found = None if each.outer is None else self._calls[each.outer]
            self._calls[each] = found or (each if self._names & _names_of(each) else None)
        return self._calls[call]

    def check(self, recomputes: Collection[ModuleCall]) -> None:
        """Raise `OptionError` for a name of which no call is recomputed."""
        recomputed: set[str] = set().union(*map(_names_of, recomputes))
        for name in sorted(self._names - recomputed):
            chosen = [call for call in self.of.values() if name in _names_of(call)]
            if any(name in _names_of(call) and self._calls[call] in recomputes for call in self._calls):
                continue  # it is inside of another one
            if chosen:
                raise OptionError(
                    f"remat={name!r}: {chosen[0]!r} reads no float values but parameters, so there is nothing to "
                    f"recompute it from; leave it away"
                )
            there = _ordered(self._calls)
            listed = ", ".join(there[:_SHOWN]) + (", ..." if len(there) > _SHOWN else "")
            have = f"the modules that made the graph are: {listed}" if there else "no module made the graph"
            raise OptionError(f"remat: there is no module {name!r}; {have}{nearest(name, there)}")


def _dotted(path: str) -> str:
    """Return a path with positions of lists as names, as in `blocks.3.attention`."""
    return re.sub(r"\[(\d+)\]", r".\1", path)


def _names_of(call: ModuleCall) -> set[str]:
    """Return the names that choose a call: its class, its path, the ends of it, and that of the list it is in."""
    parts = _dotted(call.path).split(".")
    ends = {".".join(parts[start:]) for start in range(len(parts)) if not parts[start].isdigit()}
    lists = {call.place[0]} if isinstance(call.place, tuple) else set()
    return {call.kind, *ends, *lists} - {""}


def _ordered(calls: Iterable[ModuleCall]) -> list[str]:
    """Return the places and then the classes of modules, each once, without positions in lists."""
    there = list(calls)
    places = [call.place if isinstance(call.place, str) else call.place[0] for call in there]
    return list(dict.fromkeys([*(place for place in places if place), *(call.kind for call in there)]))

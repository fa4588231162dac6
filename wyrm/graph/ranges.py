"""Which indices are known to be in range before a compiled program runs, and which it must check itself.

Only this module decides that. Data of leaves is checked against the `limits` found here when a program receives it;
indices that an op keeps in range are never checked; all others are checked where they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from wyrm.graph.axes import Axis, axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.index_operands import holds_data, is_within, source_of
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.traversal import topological_order

Node = BaseNode
_NONE: Mapping[Node, Node] = MappingProxyType({})


class Limit(NamedTuple):
    """Data of `leaf` must be indices into `axis`, because `user` indexes with it; see `IndexOperand`."""

    leaf: Node
    user: Node
    axis: Axis
    ignore_index: int | None
    from_end: bool


class Ranges:
    """The known ranges of the indices that `nodes` use, in the loops inside them too.

    For the body of a loop, `outer` has the ranges around it, `given` maps each input of the body to the node that it
    replaces, and `always` says whether every run does a step: data for a branch that is not taken may be anything.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        outer: Ranges | None = None,
        given: Mapping[Node, Node] = _NONE,
        always: bool = True,
    ) -> None:
        self._outer, self._given, self._always = outer, given, always
        self._limits: dict[tuple[Node, Axis, int | None, bool], Limit] = {}
        self._below: dict[tuple[Node, int | None, bool], int] = {}
        for node in nodes:
            for choice in node.index_operands():
                leaf = node.parents[choice.operand]
                self._add(Limit(leaf, node, choice.axis, choice.ignore_index, choice.from_end))
            if LOOPS.of(node).steps(node) is not None:
                self.inside(node)

    @property
    def limits(self) -> list[Limit]:
        """The limits that data of leaves is checked against when it is given."""
        return list(self._limits.values())

    def inside(self, loop: Node) -> Ranges:
        """Return the ranges inside a loop, and add the limits that the loop puts on data to these."""
        steps = LOOPS.of(loop).steps(loop)
        assert steps is not None
        body = steps.body
        given = dict(zip(body.inputs, loop.parents[steps.limited :], strict=True))
        always = not steps.limited and steps.length > 0
        return Ranges(topological_order(body.outputs), self, given, always)

    def _add(self, limit: Limit) -> None:
        source = source_of(limit.leaf)
        if source in self._given:
            if self._always and self._outer is not None:
                self._outer._add(limit._replace(leaf=self._given[source]))
        elif holds_data(source):
            size, key = axis_size(limit.axis), (source, limit.ignore_index, limit.from_end)
            self._limits.setdefault((source, limit.axis, *key[1:]), limit._replace(leaf=source))
            if size is not None:
                self._below[key] = min(size, self._below.get(key, size))

    def is_known(self, indices: Node, axis: Axis, ignore_index: int | None = None, from_end: bool = False) -> bool:
        """Return whether indices are in range of an axis in every run."""
        if is_within(indices, axis):
            return True
        source, size = source_of(indices), axis_size(axis)
        if source in self._given:
            return (
                self._always
                and self._outer is not None
                and self._outer.is_known(self._given[source], axis, ignore_index, from_end)
            )
        enough = ((source, None, False), (source, ignore_index, False), (source, ignore_index, from_end))
        known = [self._below[key] for key in enough if key in self._below]
        return size is not None and any(below <= size for below in known)

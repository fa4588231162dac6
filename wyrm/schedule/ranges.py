"""Which integers are known to be in range before a compiled program runs, and which it has to check as it goes.

This is the one place that decides it. Data of leaves is checked when a program is given it, by the `limits` found here;
integers that an op keeps in range are never checked; all others are checked where they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from wyrm.node.base import BaseNode
from wyrm.node.index_operands import holds_data, is_within, source_of
from wyrm.node.loop_form import LOOPS
from wyrm.node.traversal import topological_order
from wyrm.types.dims import Axis, axis_size

Node = BaseNode
_NONE: Mapping[Node, Node] = MappingProxyType({})


class Limit(NamedTuple):
    """Data of `leaf` lies within `axis`, for `user` chooses by it; the number `ignore_index` chooses nothing."""

    leaf: Node
    user: Node
    axis: Axis
    ignore_index: int | None


class Ranges:
    """What is known of the integers that choose among `nodes`, the loops within them included.

    For the body of a loop, `outer` has what is known around it, `given` says what each input of the body stands for,
    and `always` whether every run does a step of it: data for a branch that is not taken may be anything.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        outer: Ranges | None = None,
        given: Mapping[Node, Node] = _NONE,
        always: bool = True,
    ) -> None:
        self._outer, self._given, self._always = outer, given, always
        self._limits: dict[tuple[Node, Axis, int | None], Limit] = {}
        self._below: dict[tuple[Node, int | None], int] = {}
        for node in nodes:
            for choice in node.index_operands():
                self._add(Limit(node.parents[choice.operand], node, choice.axis, choice.ignore_index))
            if LOOPS.of(node).steps(node) is not None:
                self.inside(node)

    @property
    def limits(self) -> list[Limit]:
        """What data of leaves has to be checked for when it is given."""
        return list(self._limits.values())

    def inside(self, loop: Node) -> Ranges:
        """What is known within a loop; what it asks of data is among the limits from now on."""
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
            self._limits.setdefault((source, limit.axis, limit.ignore_index), limit._replace(leaf=source))
            size, key = axis_size(limit.axis), (source, limit.ignore_index)
            if size is not None:
                self._below[key] = min(size, self._below.get(key, size))

    def is_known(self, indices: Node, axis: Axis, ignore_index: int | None = None) -> bool:
        """Whether integers are in range of an axis wherever the program runs."""
        if is_within(indices, axis):
            return True
        source, size = source_of(indices), axis_size(axis)
        if source in self._given:
            return (
                self._always
                and self._outer is not None
                and self._outer.is_known(self._given[source], axis, ignore_index)
            )
        known = [self._below[key] for key in ((source, None), (source, ignore_index)) if key in self._below]
        return size is not None and any(below <= size for below in known)

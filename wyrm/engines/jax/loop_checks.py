"""Checks of indices that loops compute: a step reports one out of range to the host, which raises an error after it.

Elsewhere a step returns what is out of range; see `beyond` in `wyrm.engines.jax.graph`. From inside of loops, branches
and their gradients it is told by `jax.debug.callback`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from wyrm.engines.jax.graph import IndexCheck, index_checks, is_outside
from wyrm.errors import IndexOutOfRange
from wyrm.graph.axes import Dim, resolve_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_checks import accepted_indices
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.schedule import Ranges
from wyrm.graph.traversal import topological_order


class LoopChecks:
    """The checks of the nodes inside of loops, and what the last step reported."""

    def __init__(self, nodes: Iterable[BaseNode], ranges: Ranges) -> None:
        self._checks: dict[BaseNode, list[IndexCheck]] = {}
        self._error: IndexOutOfRange | None = None
        self._collect(nodes, ranges)

    def _collect(self, nodes: Iterable[BaseNode], ranges: Ranges) -> None:
        for node in nodes:
            steps = LOOPS.of(node).steps(node)
            if steps is not None:
                inside, body = ranges.inside(node), topological_order(steps.body.outputs)
                for check in index_checks(body, inside, {each: each for each in body}):
                    self._checks.setdefault(check.user, []).append(check)
                self._collect(body, inside)

    def __bool__(self) -> bool:
        return bool(self._checks)

    def report(self, node: BaseNode, operands: list[Any], sizes: Mapping[type[Dim], int]) -> None:
        """Tell the host, from a step, if an operand of a node inside of a loop is out of range."""
        import jax
        import jax.numpy as jnp

        for check in self._checks.get(node, ()):
            indices = operands[check.operand.operand].reshape(-1)
            size = resolve_axis(check.operand.axis, dict(sizes))
            outside = is_outside(indices, check.operand, size)
            first = jnp.argmax(outside) if indices.shape[0] else 0
            if indices.shape[0]:
                jax.debug.callback(partial(self._record, check, size), outside.any(), indices[first])

    def _record(self, check: IndexCheck, size: int, wrong: Any, value: Any) -> None:
        if bool(wrong) and self._error is None:
            takes = accepted_indices(check.user, size, check.operand.from_end)
            self._error = IndexOutOfRange(f"{describe(check.indices)} holds {int(value)} in a loop, but {takes}")

    def raise_reported(self, state: str) -> None:
        """Raise `IndexOutOfRange` if steps since the last call reported an index; `state` says what they changed."""
        if not self._checks:
            return
        import jax

        jax.effects_barrier()
        error, self._error = self._error, None
        if error is not None:
            raise IndexOutOfRange(f"{error}{state}")

"""The names that XLA's code, traces and errors have for a program's nodes: `layers[0].hidden:matmul~n17`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from wyrm.graph.base import BaseNode, label

# The batch of a step that is read from those of a chunk, the check that all gradients are finite, and the sums of the
# devices' parts of gradients and losses.
LOADING, CHECKING, SUMMING = "batch:load~d0", "gradients:check~c0", "gradients:sum~s0"
_FOUND = re.compile(r"~([nudcs])(\d+)")
# XLA cuts a name at "@"; "/" parts names.
_UNSAFE = re.compile(r"[^\w.\[\]-]")


class Scope(NamedTuple):
    """What a name stands for: the node ("n") or the updated array ("u") at a position, or a kind of work.

    These are loading ("d"), checks ("c") and sums over devices ("s").
    """

    kind: Literal["n", "u", "d", "c", "s"]
    position: int


def names_of_nodes(nodes: Sequence[BaseNode]) -> dict[BaseNode, str]:
    """Return a name for each computed node, with its position among `nodes`."""
    return {
        node: f"{_UNSAFE.sub('_', node.module_path)}{':' if node.module_path else ''}{node.op_name()}~n{position}"
        for position, node in enumerate(nodes)
        if not node.is_leaf
    }


def name_of_update(parameter: BaseNode, position: int) -> str:
    """Return the name of an optimizer's update of the array at a position."""
    return f"{_UNSAFE.sub('_', label(parameter))}:update~u{position}"


def scopes_of(op_name: str) -> list[Scope]:
    """Return what the names in XLA's `op_name` stand for: several if XLA merged operations of several nodes.

    >>> from wyrm.engines.jax.scopes import scopes_of
    >>> scopes_of("jit(loop)/while/body/layers[0].hidden:matmul~n17/dot_general"), scopes_of("jit(loop)/while")
    ([Scope(kind='n', position=17)], [])
    """
    return [Scope(kind, int(position)) for kind, position in _FOUND.findall(op_name)]

"""The names that XLA's code, traces and errors have for a program's nodes: `layers[0].hidden:matmul~n17`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wyrm.graph.base import BaseNode, label

# The batch of a step that is read from those of a chunk, the check that all gradients are finite, and the sums of the
# devices' parts of gradients and losses.
LOADING, CHECKING, SUMMING = "batch:load", "gradients:check", "gradients:sum"
# XLA cuts a name at "@"; "/" parts names.
_UNSAFE = re.compile(r"[^\w.\[\]-]")


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

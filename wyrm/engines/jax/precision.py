"""Whether a graph computes in float64, for which JAX needs its 64-bit types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wyrm.graph.base import BaseNode
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.traversal import topological_order


def float64_node(nodes: Sequence[BaseNode]) -> BaseNode | None:
    """Return the first node that computes in float64, also inside of loops, or None.

    Constants that the lowering of an op reads exactly do not count, such as the weights of random rows.
    """
    for node in nodes:
        reads = JAX.of(node).reads_constants
        if (node.dtype == np.float64 and not isinstance(node, Constant)) or (
            not reads and any(parent.dtype == np.float64 for parent in node.parents)
        ):
            return node
        steps = LOOPS.of(node).steps(node)
        if steps is not None:
            inside = float64_node([x for x in topological_order(steps.body.outputs) if not x.is_leaf])
            if inside is not None:
                return inside
    return None


__all__ = ["float64_node"]

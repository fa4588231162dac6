"""VJPs of decomposed ops: the higher-order gradients of a fused op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.graph.base import ZERO, BaseNode
from wyrm.graph.node import Node
from wyrm.ops.gradients.accumulation import accumulated


def composite_vjp(composed: BaseNode, gradient: Node, parents: Sequence[BaseNode]) -> tuple[Any, ...]:
    """Return the VJP of a node composed of `parents`; differentiation treats each parent as a leaf."""
    return composite_vjps([composed], [gradient], parents)


def composite_vjps(
    composed: Sequence[BaseNode], gradients: Sequence[Node], parents: Sequence[BaseNode]
) -> tuple[Any, ...]:
    """Return the sum of the VJPs of several nodes and their cotangents; a node may itself be one of the parents."""
    accumulated_gradients = accumulated(composed, gradients, parents, leaves=True)
    # A parent that occurs twice gets the whole gradient at its first place.
    return tuple(accumulated_gradients.pop(parent, ZERO) for parent in parents)

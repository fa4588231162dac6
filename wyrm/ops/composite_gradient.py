"""Gradients of nodes that are composed of others: how a fused op gets its gradients of higher order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.node.base import ZERO, BaseNode
from wyrm.node.node import Node
from wyrm.ops.accumulation import accumulated


def composite_vjp(composed: BaseNode, gradient: Node, parents: Sequence[BaseNode]) -> tuple[Any, ...]:
    """The gradients by `parents` of a node that is composed of them, each parent being a leaf to it."""
    return composite_vjps([composed], [gradient], parents)


def composite_vjps(
    composed: Sequence[BaseNode], gradients: Sequence[Node], parents: Sequence[BaseNode]
) -> tuple[Any, ...]:
    """As `composite_vjp`, of several nodes and the gradients by them; a node may be one of the parents."""
    found = accumulated(composed, gradients, parents, leaves=True)
    # A parent in two places has the whole gradient in the first.
    return tuple(found.pop(parent, ZERO) for parent in parents)

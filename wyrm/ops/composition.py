"""Gradients of nodes that are composed of others: how a fused op gets its gradients of higher order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.node.base import ZERO
from wyrm.node.node import Node
from wyrm.ops.accumulation import accumulated


def through(composed: Node[Any, Any], gradient: Any, parents: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients by `parents` of a node that is composed of them, each parent being a leaf to it."""
    return pulled([composed], [gradient], parents)


def pulled(composed: Sequence[Any], gradients: Sequence[Any], parents: Sequence[Any]) -> tuple[Any, ...]:
    """As `through`, of several nodes and the gradients by them; a node may be one of the parents."""
    found = accumulated(composed, gradients, parents, leaves=True)
    # A parent in two places has the whole gradient in the first.
    return tuple(found.pop(parent, ZERO) for parent in parents)

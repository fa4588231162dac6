"""Gradients of nodes that are composed of others: how a fused op gets its gradients of higher order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.errors import NotDifferentiable, ShapeError
from wyrm.node.base import ZERO, Undefined, explain, format_dims, label
from wyrm.node.node import Node
from wyrm.node.traversal import topological_order
from wyrm.ops.reduction import Sum
from wyrm.ops.shape import Reshape
from wyrm.types.dims import Dims, axis_size, unify


def unbroadcast(gradient: Node[Any, Any], dims: Dims) -> Node[Any, Any]:
    """The gradient summed over the axes along which an operand of axes `dims` was repeated."""
    have: Dims = gradient.dims
    if have == dims:
        return gradient
    extra = len(have) - len(dims)
    if extra < 0:
        raise ShapeError(f"{format_dims(have)} has fewer axes than {format_dims(dims)}")
    repeated = []
    for i, (axis, found) in enumerate(zip(dims, have[extra:], strict=True), extra):
        size, size_found = axis_size(axis), axis_size(found)
        if size == 1:
            if size_found != 1:
                repeated.append(i)
        elif size != size_found or size is None:
            unify(axis, found)
    axes = (*range(extra), *repeated)
    if not axes:
        return gradient
    total: Node[Any, Any] = Sum(gradient, axes)
    return Reshape(total, dims) if repeated else total


def through(composed: Node[Any, Any], gradient: Any, parents: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients by `parents` of a node that is composed of them, each parent being a leaf to it."""
    return pulled([composed], [gradient], parents)


def pulled(composed: Sequence[Any], gradients: Sequence[Any], parents: Sequence[Any]) -> tuple[Any, ...]:
    """As `through`, of several nodes and the gradients by them; a node may be one of the parents."""
    ends = set(parents)
    leading = set(parents)
    order = topological_order(composed)
    for node in order:
        if not leading.isdisjoint(node.parents):
            leading.add(node)
    found: dict[Any, Any] = {}

    def add(node: Any, part: Any) -> None:
        whole = unbroadcast(part, node.dims)
        found[node] = found[node] + whole if node in found else whole

    for node, gradient in zip(composed, gradients, strict=True):
        add(node, gradient)
    for node in reversed(order):
        if node in found and node in leading and node not in ends:
            parts = node.vjp_by(found.pop(node), [parent in leading for parent in node.parents])
            for position, (parent, part) in enumerate(zip(node.parents, parts, strict=True)):
                if parent in leading and part is not ZERO and position not in node.derived:
                    if isinstance(part, Undefined):
                        raise NotDifferentiable(explain(node, f"no gradient by {label(parent)}: {part.reason}"))
                    add(parent, part)
    # A parent in two places has the whole gradient in the first.
    return tuple(found.pop(parent, ZERO) for parent in parents)

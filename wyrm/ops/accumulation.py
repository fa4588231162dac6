"""Reverse accumulation: one walk in reverse topological order, contributions summed, every edge un-broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from wyrm.errors import DTypeError, NotDifferentiable, ShapeError
from wyrm.node.base import ZERO, BaseNode, Gradient, Undefined, explain, format_dims, label
from wyrm.node.node import Node
from wyrm.node.source_location import located_at
from wyrm.node.traversal import topological_order
from wyrm.ops.index import JoinRows
from wyrm.ops.reduction import Sum
from wyrm.ops.shape import Reshape
from wyrm.types.dims import Dims, axis_size, unify


def unbroadcast(gradient: Node, dims: Dims) -> Node:
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
    total: Node = Sum(gradient, axes)
    return Reshape(total, dims) if repeated else total


def _add(contributions: list[Node]) -> Node:
    """The sum of what the uses of one node contribute; row-sparse ones stay so among themselves."""
    total = contributions[0]
    if len(contributions) == 1:
        return total
    sparse = [c for c in contributions if c.gives_rows]
    dense = [c for c in contributions if not c.gives_rows]
    for part in (sparse, dense):
        if part:
            total = part[0]
            for other in part[1:]:
                total = JoinRows(total, other) if part is sparse else total + other
            part[:] = [total]
    return sparse[0] + dense[0] if sparse and dense else total


def _contribution(node: BaseNode, position: int, gradient: Gradient) -> Node | None:
    """What a node contributes to the gradient by one of its parents: what its `vjp` gave for that, checked."""
    parent = node.parents[position]
    if gradient is ZERO:
        return None
    if isinstance(gradient, Undefined):
        raise NotDifferentiable(explain(node, f"no gradient by {label(parent)}: {gradient.reason}"))
    if not isinstance(gradient, Node):
        raise NotDifferentiable(
            explain(node, f"vjp returned {gradient!r} for {label(parent)}; return a node, wyrm.ZERO or wyrm.Undefined")
        )
    if gradient.dtype is not parent.dtype and gradient.dtype != parent.dtype and parent.dtype.kind == "f":
        raise DTypeError(
            explain(node, f"vjp returned a gradient of {gradient.dtype} for {label(parent)}, which is {parent.dtype}")
        )
    try:
        return unbroadcast(gradient, parent.dims)
    except ShapeError:
        raise ShapeError(
            explain(
                node,
                f"vjp returned a gradient of axes {format_dims(gradient.dims)} for {label(parent)}, "
                f"which has {format_dims(parent.dims)}",
            )
        ) from None


def _parts(node: BaseNode, gradient: Node, wanted: Sequence[bool]) -> tuple[Gradient, ...]:
    """What the `vjp` of a node gives, one for each parent."""
    parts = node.vjp_by(gradient, wanted)
    if not isinstance(parts, tuple):
        raise NotDifferentiable(explain(node, f"vjp returned {parts!r}; return a tuple, one for each parent"))
    if len(parts) != len(node.parents):
        raise NotDifferentiable(explain(node, f"vjp returned {len(parts)} gradients for {len(node.parents)} parents"))
    return parts


def accumulated(
    outputs: Sequence[BaseNode],
    cotangents: Sequence[Node],
    wrt: Sequence[BaseNode],
    *,
    leaves: bool,
    order: Sequence[BaseNode] | None = None,
) -> dict[BaseNode, Node]:
    """The gradients of the outputs, weighted by the cotangents, by those nodes of `wrt` that get any.

    With `leaves` each node of `wrt` is a leaf to the outputs: nothing below it is looked at, and a gradient that is
    accounted for by another operand is not missed. Without, a node of `wrt` may be below another one, and a gradient by
    a node that is computed from another operand is an error; `order` is then the topological order, where it is known.

    The nodes that the walk makes carry the line of the node that they differentiate. Raises `NotDifferentiable`,
    `DTypeError` and `ShapeError` for what a `vjp` gives and should not.
    """
    wanted = set(wrt)
    if leaves:
        order = [*dict.fromkeys(wrt), *topological_order(outputs, wanted)]
    elif order is None:
        order = topological_order(outputs)
    leading = set(wanted)  # the nodes that depend on one of wrt
    for node in order:
        if not leading.isdisjoint(node.parents):
            leading.add(node)
    contributions: dict[BaseNode, list[Node]] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        contributions.setdefault(output, []).append(cotangent)
    found: dict[BaseNode, Node] = {}
    with located_at(None) as location:
        for node in reversed(order):
            given = contributions.pop(node, None) if node in leading else None
            if given is None:
                continue
            location.move(node.origin)
            gradient = _add(given)
            if node in wanted:
                found[node] = gradient
                if leaves:
                    continue
            parents = node.parents
            by = [parent in leading for parent in parents]
            if True not in by:
                continue
            residual_parents = node.residual_parents
            for position, part in enumerate(_parts(node, gradient, by)):
                parent = parents[position]
                if residual_parents and position in residual_parents:
                    if parent in wanted and not leaves:
                        raise NotDifferentiable(
                            explain(node, f"no gradient by {label(parent)}, which is computed from another operand")
                        )
                elif by[position] and (whole := _contribution(node, position, part)) is not None:
                    contributions.setdefault(parent, []).append(whole)
    return found

"""Reverse-mode accumulation: one walk in reverse topological order that sums the contributions to each gradient.

A fused op differentiates its decomposition in the same way, for higher-order gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.errors import DTypeError, NotDifferentiable, ShapeError
from wyrm.graph.axes import Dims, axis_size, unify
from wyrm.graph.base import ZERO, BaseNode, Gradient, Undefined, explain, format_dims, label
from wyrm.graph.node import Node
from wyrm.graph.source_location import located_at
from wyrm.graph.traversal import replaced, topological_order
from wyrm.graph.weak_types import in_type
from wyrm.ops.indexing.index import JoinRows
from wyrm.ops.reducing.reduction import Sum
from wyrm.ops.shaping.shape import Reshape


def unbroadcast(gradient: Node, dims: Dims) -> Node:
    """Return `gradient` summed over the axes along which broadcasting repeated an operand with axes `dims`."""
    have: Dims = gradient.dims
    if have == dims:
        return gradient
    extra = len(have) - len(dims)
    if extra < 0:
        raise ShapeError(f"{format_dims(have)} has fewer axes than {format_dims(dims)}")
    repeated = []
    for i, (axis, broadcast_axis) in enumerate(zip(dims, have[extra:], strict=True), extra):
        size, broadcast_size = axis_size(axis), axis_size(broadcast_axis)
        if size == 1:
            if broadcast_size != 1:
                repeated.append(i)
        elif size != broadcast_size or size is None:
            unify(axis, broadcast_axis)
    axes = (*range(extra), *repeated)
    if not axes:
        return gradient
    total: Node = Sum(gradient, axes)
    return Reshape(total, dims) if repeated else total


def _sum_of_contributions(contributions: list[Node]) -> Node:
    """Return the sum of the contributions to the gradient of one node; a sum of row-sparse ones is row-sparse."""
    total = contributions[0]
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
    """Return the contribution of `node` to its parent's gradient, a checked result of `vjp`; None for `ZERO`."""
    parent = node.parents[position]
    if isinstance(gradient, Node) and gradient.dtype is parent.dtype and gradient.dims == parent.dims:
        return gradient  # most are
    if gradient is ZERO:
        return None
    if isinstance(gradient, Undefined):
        raise NotDifferentiable(explain(node, f"no gradient with respect to {label(parent)}: {gradient.reason}"))
    if not isinstance(gradient, Node):
        raise NotDifferentiable(
            explain(node, f"vjp returned {gradient!r} for {label(parent)}; return a node, wyrm.ZERO or wyrm.Undefined")
        )
    if gradient.dtype is not parent.dtype and gradient.dtype != parent.dtype and parent.dtype.kind == "f":
        converted: Node = in_type(gradient, parent.dtype)
        if converted.dtype != parent.dtype:
            what = f"a gradient of {gradient.dtype} for {label(parent)}, which is {parent.dtype}"
            raise DTypeError(explain(node, f"vjp returned {what}"))
        gradient = converted
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


def _checked_vjp(node: BaseNode, gradient: Node, wanted: Sequence[bool]) -> tuple[Gradient, ...]:
    """Return the result of the node's `vjp`; raise unless it has one entry per parent."""
    parts = node.vjp_by(gradient, wanted)
    if not isinstance(parts, tuple):
        raise NotDifferentiable(explain(node, f"vjp returned {parts!r}; return a tuple, one for each parent"))
    if len(parts) != len(node.parents):
        raise NotDifferentiable(explain(node, f"vjp returned {len(parts)} gradients for {len(node.parents)} parents"))
    return parts


class Repeated(Node[tuple[Node, *tuple[BaseNode, ...]], Any], abstract=True):
    """Base class of ops whose value is computed again where the gradients of its readers need it."""

    __slots__ = ()

    def again(self, after: Node) -> Node | None:
        """Return the value, computed again when `after` is known; None if it is kept."""
        raise NotImplementedError


class _Copies:
    """The values that are computed again for a walk's gradients; each is made for the first reader that needs it."""

    def __init__(self, order: Sequence[BaseNode]) -> None:
        self._of: dict[BaseNode, Node | None] = {node: None for node in order if isinstance(node, Repeated)}
        self._made: set[BaseNode] = set()

    def read_by(self, node: BaseNode, gradient: Node, parts: tuple[Gradient, ...]) -> tuple[Gradient, ...]:
        """Return the results of the node's `vjp` with copies in place of its operands."""
        if not self._of or self._of.keys().isdisjoint(node.parents):
            return parts
        # The gradient of the last reader is the first that is known, and depends on no gradient of another reader.
        for parent in self._of.keys() & set(node.parents):
            if parent not in self._made:
                self._made.add(parent)
                assert isinstance(parent, Repeated)
                self._of[parent] = parent.again(gradient)
        ends: dict[BaseNode, BaseNode] = {each: each for each in (*node.parents, node, gradient)}
        ends |= {each: copy for each in node.parents if (copy := self._of.get(each)) is not None}
        computed = [part for part in parts if isinstance(part, Node)]
        copied = iter(replaced(computed, ends))
        return tuple(next(copied) if isinstance(part, Node) else part for part in parts)


def accumulated(
    outputs: Sequence[BaseNode],
    cotangents: Sequence[Node],
    wrt: Sequence[BaseNode],
    *,
    leaves: bool,
    order: Sequence[BaseNode] | None = None,
) -> dict[BaseNode, Node]:
    """Return the gradient of the outputs, weighted by the cotangents, for each node of `wrt` that receives one.

    With `leaves`, each node of `wrt` counts as a leaf: the walk stops there, and a residual parent (one computed from
    another operand) gets no gradient through the op. Without, a node of `wrt` may be an ancestor of another one, and a
    residual parent in `wrt` is an error; `order` is then the topological order of the outputs, if the caller has it.

    New nodes get the source location of the node that they differentiate. Raise `NotDifferentiable`, `DTypeError` or
    `ShapeError` if a `vjp` returns an invalid result.
    """
    targets = set(wrt)
    if leaves:
        order = [*dict.fromkeys(wrt), *topological_order(outputs, targets)]
    elif order is None:
        order = topological_order(outputs)
    # The nodes of wrt and those that depend on them, with the answers whether the parents do too.
    dependent: dict[BaseNode, tuple[bool, ...]] = dict.fromkeys(targets, ())
    wanted: tuple[bool, ...]
    for node in order:
        parents = node.parents
        if len(parents) == 2:  # most nodes; the other form takes twice the time
            wanted = parents[0] in dependent, parents[1] in dependent
        elif parents:
            wanted = tuple([parent in dependent for parent in parents])
        else:
            continue
        if True in wanted:
            dependent[node] = wanted
    contributions: dict[BaseNode, list[Node]] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        contributions.setdefault(output, []).append(cotangent)
    gradients: dict[BaseNode, Node] = {}
    copies = _Copies(order)
    with located_at(None) as location:
        for node in reversed(order):
            terms = contributions.pop(node, None)
            if terms is None or node not in dependent:
                continue
            wanted = dependent[node]
            location.move(node.origin)
            gradient = terms[0] if len(terms) == 1 else _sum_of_contributions(terms)
            if node in targets:
                gradients[node] = gradient
                if leaves:
                    continue
            if not wanted:
                continue
            parents = node.parents
            residual_parents = node.residual_parents
            parts = copies.read_by(node, gradient, _checked_vjp(node, gradient, wanted))
            for position, part in enumerate(parts):
                parent = parents[position]
                if residual_parents and position in residual_parents:
                    if parent in targets and not leaves:
                        raise NotDifferentiable(
                            explain(
                                node,
                                f"no gradient with respect to {label(parent)}, which is computed from another operand",
                            )
                        )
                elif wanted[position] and (term := _contribution(node, position, part)) is not None:
                    terms = contributions.get(parent)
                    if terms is None:
                        contributions[parent] = [term]
                    else:
                        terms.append(term)
    return gradients


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

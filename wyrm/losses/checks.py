"""Checks of a loss's operands and options, and its reduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims, unify
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.leaves import Constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.source_location import user_location
from wyrm.graph.storage import stored
from wyrm.graph.typing import Array, IntegerArray
from wyrm.ops.cross_entropy.softmax import LossReduction
from wyrm.ops.elementwise.elementwise import as_operand
from wyrm.ops.indexing.index import as_indices
from wyrm.support.options import choice

Values = Literal["any", "signs", "probabilities"]
_REDUCTIONS = get_args(LossReduction)


def as_node(loss: str, name: str, value: Node | IndexNode | Array | float, beside: Node | None = None) -> Node:
    """Return `value` as a float node; beside another node, an array or a mask takes the dtype of that node."""
    if isinstance(value, IndexNode):
        raise DTypeError(
            f"{loss}: {name} must be float, and {describe(value)} holds integer indices: use a wy.Input for numbers, "
            f"or .astype(np.float32)"
        )
    if isinstance(value, Node):
        if value.dtype.kind == "f":
            return value
        if beside is None:
            raise DTypeError(f"{loss}: {name} must be float, and {describe(value)} is a mask")
        return value.astype(beside.dtype)
    node = None if beside is None else as_operand(value, beside)
    if node is None:
        allowed = "a node" if beside is None else "a node or a NumPy array of numbers"
        raise DTypeError(f"{loss}: {name} must be {allowed}, not {type(value).__name__}")
    return node


def check_values(loss: str, name: str, given: Node | Array, node: Node, values: Values) -> None:
    """Raise an error if a constant cannot have these values, or a mask is given for signs; inputs are not checked."""
    if values == "signs" and isinstance(given, Node | np.ndarray) and given.dtype.kind == "b":
        raise DTypeError(f"{loss}: {name} must be -1 or 1, not a mask; pass wy.where(mask, 1.0, -1.0)")
    if values == "any" or not isinstance(node, Constant):
        return
    array = np.asarray(stored(node).array)
    wrong = array[np.abs(array) != 1.0] if values == "signs" else array[~((array >= 0.0) & (array <= 1.0))]
    if wrong.size:
        allowed = "-1 or 1" if values == "signs" else "in [0, 1]"
        raise ValueError(f"{loss}: {name} must be {allowed}, but holds {wrong[0]}")


def same_axes(loss: str, names: Sequence[str], operands: Sequence[Any], values: Values = "any") -> list[Node]:
    """Return the operands as nodes of the same axes; the first is a node. Constant values of the last are checked."""
    first = as_node(loss, names[0], operands[0])
    nodes = [first]
    for name, operand in zip(names[1:], operands[1:], strict=True):
        nodes.append(as_node(loss, name, operand, first))
    for node in nodes:
        if node.dims != first.dims:
            rule = f"{loss}: {', '.join(names[:-1])} and {names[-1]} must have the same shape; nothing is broadcast"
            check_axes(rule, node, first.dims, dict(zip(names, nodes, strict=True)))
    check_values(loss, names[-1], operands[-1], nodes[-1], values)
    return nodes


def vectors_and_target(loss: str, names: Sequence[str], operands: Sequence[Any], values: Values) -> list[Node]:
    """Return vectors, as nodes of the same axes, and after them their target, which has the leading axes."""
    vectors = same_axes(loss, names[:-1], operands[:-1])
    rows = rows_of(loss, names[0], vectors[0])
    target = as_node(loss, names[-1], operands[-1], vectors[0])
    check_values(loss, names[-1], operands[-1], target, values)
    rule = f"{loss}: the {names[-1]} must have the leading axes of the vectors"
    nodes = [*vectors, target]
    check_axes(rule, target, rows, dict(zip(names, nodes, strict=True)))
    return nodes


def score_and_others(loss: str, names: Sequence[str], operands: Sequence[Any], values: Values) -> list[Node]:
    """Return scores and, of one more axis at the end, the scores that they are compared with, as nodes."""
    score = as_node(loss, names[0], operands[0])
    others = as_node(loss, names[1], operands[1], score)
    rule = f"{loss}: {names[0]} must have the axes of {names[1]} but the last"
    check_axes(rule, score, rows_of(loss, names[1], others), {names[0]: score, names[1]: others})
    return [score, others]


def check_axes(rule: str, node: BaseNode, wanted: Dims, operands: Mapping[str, BaseNode]) -> None:
    """Raise `ShapeError`, with the rule and all operands, unless the node has the axes `wanted`."""
    dims: Dims = node.dims
    if dims == wanted:
        return
    try:
        if len(dims) != len(wanted):
            raise ShapeError(f"{format_dims(wanted)} against {format_dims(dims)}")
        for left, right in zip(wanted, dims, strict=True):
            unify(left, right)
    except ShapeError as error:
        width = max(map(len, operands))
        location = user_location()
        lines = [f"{rule}: {error}"]
        lines += [f"  {name:{width}}  {describe(operand)}" for name, operand in operands.items()]
        raise ShapeError("\n".join([*lines, f"  at {location.filename}:{location.line}: {location.source}"])) from None


def rows_of(loss: str, name: str, node: Node) -> Dims:
    """Return the leading axes of a node, all but the last, over which the loss is computed."""
    if not node.dims:
        raise ShapeError(f"{loss}: {name} needs at least one axis, and {describe(node)} is a scalar")
    rows: Dims = node.dims[:-1]
    return rows


def labels_of(loss: str, name: str, node: Node, labels: IndexNode | IntegerArray) -> IndexNode:
    """Return the labels as an index node with the leading axes of `node`."""
    rows = rows_of(loss, name, node)
    indices = as_indices(labels)
    rule = f"{loss}: the labels must have the leading axes of {name}"
    check_axes(rule, indices, rows, {name: node, "labels": indices})
    return indices


def check_reduction(loss: str, reduction: str) -> None:
    """Raise `ValueError` unless the reduction is one of the three."""
    choice(f"{loss}: reduction", reduction, _REDUCTIONS)


def reduced(losses: Node, reduction: LossReduction) -> Node:
    """Return the losses, their mean or their sum."""
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()

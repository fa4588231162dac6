"""What every loss checks before it builds a graph, and the reduction that ends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.node.base import BaseNode, describe, format_dims
from wyrm.node.leaves import Constant
from wyrm.node.node import IndexNode, Node
from wyrm.node.source_location import user_location
from wyrm.node.storage import stored
from wyrm.ops.elementwise import as_operand
from wyrm.ops.index import as_indices
from wyrm.ops.softmax import Reduction
from wyrm.types.dims import Dims, unify
from wyrm.types.typing import Array, IntegerArray

Values = Literal["any", "signs", "probabilities"]


def as_node(loss: str, name: str, value: Node | IndexNode | Array, beside: Node | None = None) -> Node:
    """`value` as a node of floats; beside another node, an array or a mask takes the dtype of that one."""
    if isinstance(value, IndexNode):
        raise DTypeError(f"{loss}: {name} holds numbers, and {describe(value)} holds integers that choose elements")
    if isinstance(value, Node):
        if value.dtype.kind == "f":
            return value
        if beside is None:
            raise DTypeError(f"{loss}: {name} holds floats, and {describe(value)} is a mask")
        return value.astype(beside.dtype)
    node = None if beside is None else as_operand(value, beside)
    if node is None:
        wanted = "a node" if beside is None else "a node or a NumPy array of numbers"
        raise DTypeError(f"{loss}: {name} is {wanted}, not {value!r}, a {type(value).__name__}")
    return node


def check_values(loss: str, name: str, given: Node | Array, node: Node, values: Values) -> None:
    """An error where what is `given`, as a node, cannot be those values; what an input will hold is not known yet."""
    if values == "signs" and isinstance(given, Node | np.ndarray) and given.dtype.kind == "b":
        raise DTypeError(f"{loss}: {name} is -1 or 1, not a mask; give wy.where(mask, 1.0, -1.0)")
    if values == "any" or not isinstance(node, Constant):
        return
    array = np.asarray(stored(node).array)
    wrong = array[np.abs(array) != 1.0] if values == "signs" else array[~((array >= 0.0) & (array <= 1.0))]
    if wrong.size:
        meaning = "is -1 or 1" if values == "signs" else "lies between 0 and 1"
        raise ValueError(f"{loss}: {name} {meaning}, and it holds {wrong[0]}")


def same_axes(loss: str, values: Values = "any", **operands: Node | Array) -> list[Node]:
    """The operands as nodes of the same axes; the first is a node, the values of the last are checked if known."""
    nodes: dict[str, Node] = {}
    for name, value in operands.items():
        nodes[name] = as_node(loss, name, value, next(iter(nodes.values()), None))
    *others, last = nodes
    rule = f"{loss}: {', '.join(others)} and {last} have the same shape, nothing is broadcast"
    for node in nodes.values():
        check_axes(rule, node, nodes[others[0]].dims, nodes)
    check_values(loss, last, operands[last], nodes[last], values)
    return list(nodes.values())


def check_axes(rule: str, node: BaseNode, wanted: Dims, operands: Mapping[str, BaseNode]) -> None:
    """`ShapeError`, with the rule and all operands, unless the node has the axes `wanted`."""
    dims: Dims = node.dims
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
    """The axes of a node but the last, which the loss takes together."""
    if not node.dims:
        raise ShapeError(f"{loss}: {name} has an axis or more, and {describe(node)} is a scalar")
    rows: Dims = node.dims[:-1]
    return rows


def labels_of(loss: str, name: str, node: Node, labels: IndexNode | IntegerArray) -> IndexNode:
    """The labels as an index node of the axes of `node` but the last."""
    rows = rows_of(loss, name, node)
    indices = as_indices(labels)
    rule = f"{loss}: the labels have the axes of {name} but the last"
    check_axes(rule, indices, rows, {name: node, "labels": indices})
    return indices


def check_reduction(loss: str, reduction: str) -> None:
    """`ValueError` unless the reduction is one of the three."""
    if reduction not in get_args(Reduction):
        raise ValueError(f"{loss}: reduction is 'mean', 'sum' or 'none', not {reduction!r}")


def check_range(loss: str, name: str, value: float, low: float, high: float) -> None:
    """`ValueError` unless the option lies in its range, whose ends belong to it."""
    if not low <= value <= high:
        raise ValueError(f"{loss}: {name} goes from {low} to {high}, and is not {value}")


def reduced(losses: Node, reduction: Reduction) -> Node:
    """The mean or the sum of all losses, or the losses as they are."""
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()

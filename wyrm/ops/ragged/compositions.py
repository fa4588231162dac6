"""The flat forms of ops that are made of others, and the check of an op that is being constructed."""

from __future__ import annotations

from typing import Any

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, MadeRagged, Ragged, flat_dims, ragged_axis
from wyrm.graph.base import BaseNode, reasons_alone
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.ragged import Padding
from wyrm.graph.ragged_leaves import Parts, made_rows, parts_of
from wyrm.ops.composed import Composed
from wyrm.ops.cross_entropy.softmax import LogSoftmax, Softmax
from wyrm.ops.normalization.statistics import LogSumExp, Variance
from wyrm.ops.products.prod import ProductOfOthers
from wyrm.ops.ragged.forms import PartsOf, axis_of, flat_form, of_value, rule_of
from wyrm.ops.ragged.shaping import is_along, one_axis
from wyrm.ops.reducing.base import Reduction
from wyrm.ops.subgraph import placeholder_like


@flat_form(Composed)
def composition(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    """Return the flat form of an op that is made of others: that of its composition."""
    return of_value(node.compose(*node.parents), node, operands, parts)


@flat_form(LogSoftmax, LogSumExp, ProductOfOthers, Softmax, Variance)
def composed_along(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    """Return the flat form of a composed op that has axes: of the op itself if these are those of each entry."""
    if is_along(node):
        return composition(node, operands, parts)
    if isinstance(node, Reduction):
        return node.rebuild(operands, axis=tuple(axis - 1 for axis in node.axis))
    return one_axis(node, operands, parts)


def check(node: BaseNode) -> None:
    """Raise `ShapeError` with the reason unless a node that is being constructed has a flat form.

    The flat form is made, of placeholders: what is refused is refused by the form itself.
    """
    rule, axis = rule_of(node), axis_of(node)
    if axis is None:
        for each in (node, *node.parents):
            flat_dims(each.dims)
        return
    if rule is composed_along and is_along(node):
        return  # ops that are defined along the axis
    if rule is composition:
        if type(node).shape_rule is not Composed.shape_rule:  # else its nodes were checked
            _check_composition(node, axis)
        return
    if rule is None:
        raise ShapeError(f"{node.op_name()} is not defined along {axis!r}, whose rows have different lengths")
    flat = [flat_dims(parent.dims) for parent in node.parents]
    operands = [
        parent if dims == parent.dims else placeholder_like(parent, dims, parent.name or "operand")
        for parent, dims in zip(node.parents, flat, strict=True)
    ]
    rows = next(each.dims[0] for each in (node, *node.parents) if ragged_axis(each.dims) is not None)
    found = rule(node, operands, PartsOf(lambda axis: _placeholders(axis, rows), Padding.NONE))
    wanted = flat_dims(node.dims)
    if len(found.dims) != len(wanted):
        raise AssertionError(f"the flat form of {node.op_name()} has the axes {found.dims}, not {wanted}")


def _check_composition(node: Any, axis: Ragged) -> None:
    """Raise `ShapeError` for an op made of others, such as an LSTM, if one of these is not defined along the axis."""
    try:
        with reasons_alone(node):
            node.compose(*node.parents)
    except ShapeError as error:
        raise ShapeError(
            f"is made for rows of one length, and those along {axis!r} have different ones ({error}): wy.row_scan is a "
            f"loop along each row, and pooling by attention (scores.softmax(axis=1).expand_dims(-1) * x).sum(axis=1)"
        ) from None


def _placeholders(axis: Ragged, rows: Axis) -> Parts:
    return parts_of(_placeholder(axis, rows))


def _placeholder(axis: Ragged, rows: Axis) -> BaseNode:
    if isinstance(axis, MadeRagged):
        return made_rows(axis, [_placeholder(part(), rows) for part in axis.parts])
    by_row: Any = (rows, axis)
    return IndexInput(dims=by_row)

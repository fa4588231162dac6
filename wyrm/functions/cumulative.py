"""Cumulative sums and products by the names of the array API."""

from __future__ import annotations

from typing import Any

from wyrm.errors import ShapeError
from wyrm.functions.operands import Operand, as_node
from wyrm.functions.padding import pad
from wyrm.graph.axes import normalize_axis
from wyrm.graph.base import describe
from wyrm.graph.node import Node
from wyrm.ops.reducing.cumulative import CumProd, CumSum

__all__ = ["cumulative_prod", "cumulative_sum"]


def _cumulative(op: Any, start: float, x: Operand, axis: int | None, include_initial: bool) -> Node:
    node = as_node(x)
    if axis is None and node.ndim != 1:
        raise ShapeError(f"{op.op_name()}: {describe(node)} has {node.ndim} axes: pass the axis")
    axis = normalize_axis(0 if axis is None else axis, node.ndim)
    result: Node = op(node, axis=axis)
    widths = {axis: (1, 0)}
    return pad(result, widths, constant_values=start) if include_initial else result


def cumulative_sum(x: Operand, /, *, axis: int | None = None, include_initial: bool = False) -> Node:
    """Return the sums of the elements up to each one along `axis`, after a 0 with `include_initial`.

    `axis` may be left out if there is one. Raise `ShapeError` if there are more.

    >>> wy.cumulative_sum([1.0, 2.0, 3.0], include_initial=True).forward().tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    return _cumulative(CumSum, 0.0, x, axis, include_initial)


def cumulative_prod(x: Operand, /, *, axis: int | None = None, include_initial: bool = False) -> Node:
    """Return the products of the elements up to each one along `axis`, after a 1 with `include_initial`.

    `axis` may be left out if there is one. Raise `ShapeError` if there are more.

    >>> wy.cumulative_prod([1.0, 2.0, 3.0], include_initial=True).forward().tolist()
    [1.0, 1.0, 2.0, 6.0]
    """
    return _cumulative(CumProd, 1.0, x, axis, include_initial)

"""Helpers of batching rules, which apply an op to operands with a new first axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wyrm.graph.axes import Axis, axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.node import Node


def batch_axis(operands: Sequence[BaseNode], mapped: Sequence[bool]) -> Axis:
    """Return the new axis; `mapped` tells which operands have it."""
    axes: Iterator[Axis] = (x.dims[0] for x, is_mapped in zip(operands, mapped, strict=True) if is_mapped)
    return next(axes)


def aligned(x: Node, is_mapped: bool, rank: int) -> Node:
    """Return `x` reshaped to broadcast with operands of `rank` axes after the new one, which `x` has if `is_mapped`."""
    if not is_mapped or x.ndim == rank + 1:
        return x
    axis, *rest = x.dims
    return x.reshape((axis, *[1] * (rank + 1 - x.ndim), *rest))


def spread(operands: Sequence[Node], mapped: Sequence[bool]) -> list[Any]:
    """Return the operands, broadcast so that all have the new axis."""
    axis = batch_axis(operands, mapped)
    return [x if is_mapped else x.broadcast_to((axis, *x.dims)) for x, is_mapped in zip(operands, mapped, strict=True)]


def batch_indices(axis: Axis, rank: int) -> IndexConstant | None:
    """Return the numbers of the rows of a batch, to broadcast with indices of `rank` axes; None for an unknown size."""
    size = axis_size(axis)
    return None if size is None else IndexConstant(np.arange(size).reshape(-1, *[1] * rank))


def moved_to_front(x: Any, axis: int) -> Any:
    """Return `x` with this axis first."""
    return x.transpose(axis, *(i for i in range(x.ndim) if i != axis)) if axis else x

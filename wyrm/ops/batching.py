"""What ops share that can work on many operands at once, along a new first axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wyrm.node.base import BaseNode
from wyrm.node.node import Node
from wyrm.types.dims import Axis


def batch_axis(operands: Sequence[BaseNode], mapped: Sequence[bool]) -> Axis:
    """The new axis."""
    axes: Iterator[Axis] = (x.dims[0] for x, many in zip(operands, mapped, strict=True) if many)
    return next(axes)


def aligned(x: Node, many: bool, rank: int) -> Node:
    """An operand that broadcasts with others of so many axes, not counting the new one, which it has if `many`."""
    if not many or x.ndim == rank + 1:
        return x
    axis, *rest = x.dims
    return x.reshape((axis, *[1] * (rank + 1 - x.ndim), *rest))


def spread(operands: Sequence[Node], mapped: Sequence[bool]) -> list[Any]:
    """The operands, all of them with the new axis."""
    axis = batch_axis(operands, mapped)
    return [x if many else x.broadcast_to((axis, *x.dims)) for x, many in zip(operands, mapped, strict=True)]

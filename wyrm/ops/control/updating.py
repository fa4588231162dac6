"""Updates of buffers during training, such as running statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims
from wyrm.graph.base import ZERO, BaseNode, Gradient, S, describe, explain, format_dims
from wyrm.graph.node import Node
from wyrm.graph.parameters import Buffer
from wyrm.graph.traversal import topological_order
from wyrm.graph.weak_types import in_type
from wyrm.ops.control.pass_through import Transparent


class Updating(Transparent[S]):
    """The value of `x`; the other parents are pairs of a buffer and the node of its new value."""

    __slots__ = ()

    def __init__(self, x: Node, *pairs: BaseNode) -> None:
        self._construct((x, *pairs))

    def dtype_rule(self) -> np.dtype:
        for buffer, update in self.pairs:
            if not isinstance(buffer, Buffer):
                raise DTypeError(f"only a wy.Buffer can be updated, not {describe(buffer)}")
            if update.dtype != buffer.dtype:
                raise DTypeError(f"{describe(buffer)} cannot be updated with dtype {update.dtype}")
        return super().dtype_rule()

    def shape_rule(self) -> Dims:
        for buffer, update in self.pairs:
            if update.dims != buffer.dims:
                raise ShapeError(f"{describe(buffer)} cannot be updated with the axes {format_dims(update.dims)}")
        return super().shape_rule()

    @property
    def pairs(self) -> list[tuple[BaseNode, BaseNode]]:
        """The pairs of a buffer and its new value."""
        parents: tuple[BaseNode, ...] = self.parents
        return list(zip(parents[1::2], parents[2::2], strict=True))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return gradient, *[ZERO] * (len(self.parents) - 1)


def updating(x: Node[Any, S], updates: Mapping[Buffer, Node]) -> Updating[S]:
    """Return `x`; training on the result sets each buffer in `updates`, `{buffer: node}`, to the value of its node.

    The update follows each `backward()` of a loss that depends on the result, and each step of a compiled program that
    trains such a loss. `forward`, `wy.grad` and programs without an optimizer do not update. Threads share the rows of
    a batch only if each new value is a mean over rows.

    Raise `ShapeError` or `DTypeError` unless a node has the axes and the dtype of its buffer.

    >>> count, weight = wy.Buffer(0.0), wy.Parameter(2.0)
    >>> loss = wy.updating(weight * weight, {count: count + 1.0})
    >>> loss.backward()
    >>> float(count.value)
    1.0
    """
    return Updating(x, *(part for buffer, node in updates.items() for part in (buffer, in_type(node, buffer.dtype))))


def updates_of(outputs: Iterable[BaseNode]) -> dict[Buffer, BaseNode]:
    """Return the new values of the buffers that the outputs update; raise `ShapeError` for two values of one buffer."""
    return updates_among(topological_order(outputs))


def updates_among(nodes: Iterable[BaseNode]) -> dict[Buffer, BaseNode]:
    """Return `updates_of` the outputs whose nodes, in topological order, are `nodes`."""
    updates: dict[Buffer, BaseNode] = {}
    for node in nodes:
        if isinstance(node, Updating):
            for buffer, update in node.pairs:
                assert isinstance(buffer, Buffer)
                if updates.get(buffer, update) is not update:
                    raise ShapeError(
                        explain(node, f"{describe(buffer)} has two updates in one step; use one buffer for each")
                    )
                updates[buffer] = update
    return updates

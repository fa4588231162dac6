"""Buffers that move while a model trains: what they become, said where it is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.node.base import ZERO, BaseNode, Gradient, S, describe, explain, format_dims
from wyrm.node.buffer import Buffer
from wyrm.node.node import Node
from wyrm.node.traversal import topological_order
from wyrm.ops.pass_through import Transparent
from wyrm.types.dims import Dims


class Updating(Transparent[S]):
    """`x`; after it come pairs of a buffer and what it becomes."""

    __slots__ = ()

    def __init__(self, x: Node, *pairs: BaseNode) -> None:
        self._construct((x, *pairs))

    def _own(self) -> Updating[S]:
        return self

    def dtype_rule(self) -> np.dtype:
        for buffer, becomes in self.pairs:
            if not isinstance(buffer, Buffer):
                raise DTypeError(explain(self, f"{describe(buffer)} is no wy.Buffer, so it cannot be updated"))
            if becomes.dtype != buffer.dtype:
                raise DTypeError(explain(self, f"{describe(buffer)} cannot become {becomes.dtype} numbers"))
        return super().dtype_rule()

    def shape_rule(self) -> Dims:
        for buffer, becomes in self.pairs:
            if becomes.dims != buffer.dims:
                raise ShapeError(
                    explain(self, f"{describe(buffer)} cannot become an array of axes {format_dims(becomes.dims)}")
                )
        return super().shape_rule()

    @property
    def pairs(self) -> list[tuple[BaseNode, BaseNode]]:
        """The buffers, each with what it becomes."""
        parents: tuple[BaseNode, ...] = self.parents
        return list(zip(parents[1::2], parents[2::2], strict=True))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return gradient, *[ZERO] * (len(self.parents) - 1)


def updating(x: Node[Any, S], updates: Mapping[Buffer[Any], Node]) -> Updating[S]:
    """`x`, and what buffers become whenever a model trains on it: `{buffer: node}` of the same axes and dtype.

    They move after each `backward()` of a loss that depends on it, and after each step of a compiled program that
    trains one. Threads share the rows of a batch only where a buffer becomes the mean of something over rows. Nothing
    moves where values or gradients are only computed, by `forward`, `wy.grad` or a program without an optimizer.

    Raises `ShapeError` or `DTypeError` where a node does not fit its buffer.

    >>> count, weight = wy.Buffer(0.0), wy.Parameter(2.0)
    >>> loss = wy.updating(weight * weight, {count: count + 1.0})
    >>> loss.backward()
    >>> float(count.value)
    1.0
    """
    return Updating(x, *(node for pair in updates.items() for node in pair))


def updates_of(outputs: Iterable[BaseNode]) -> dict[Buffer, BaseNode]:
    """What the buffers that outputs depend on become; `ShapeError` where one would become two things."""
    return updates_among(topological_order(outputs))


def updates_among(nodes: Iterable[BaseNode]) -> dict[Buffer, BaseNode]:
    """As `updates_of`, of all nodes that some outputs depend on, parents first."""
    found: dict[Buffer, BaseNode] = {}
    for node in nodes:
        if isinstance(node, Updating):
            for buffer, becomes in node.pairs:
                assert isinstance(buffer, Buffer)
                if found.get(buffer, becomes) is not becomes:
                    raise ShapeError(
                        explain(node, f"{describe(buffer)} would become two things in one step; give each use its own")
                    )
                found[buffer] = becomes
    return found

"""The layer between images and linear layers."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import product
from wyrm.graph.base import describe
from wyrm.graph.node import Node, Tensor
from wyrm.nn.axes import Bs
from wyrm.nn.module import Module

B = TypeVar("B")


class Flatten(Module):
    """A module that joins all axes after the first one, in row-major order: (batch, channels, height, width) to two.

    Raise `ShapeError` for an operand without axes.

    >>> Flatten()(wy.Input(dims=(5, 3, 4, 6))).shape
    (5, 72)
    """

    def __call__(self, x: Tensor[B, *Bs]) -> Tensor[B, Any]:
        """Return `x` with two axes."""
        node: Node = x
        if not node.dims:
            raise ShapeError(f"Flatten takes an axis of the batch and others, not {describe(node)}")
        result: Tensor[B, Any] = node.reshape((node.dims[0], product(node.dims[1:])))
        return result

    def __repr__(self) -> str:
        return "Flatten()"


__all__ = ["Flatten"]

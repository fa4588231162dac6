"""The parts of the residuals of a fused linear layer with cross-entropy: views of them, and residuals with one part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, Plus, axis_size
from wyrm.graph.base import ZERO, Gradient, format_dims, label
from wyrm.graph.index_maps import IndexLiteral, IndexMap
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, Gathered, KernelArgument
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.cross_entropy.jax_form import ResidualsPartForm
from wyrm.ops.elementwise.elementwise import Axes


class _OfResiduals(Node[tuple[Node, Node, Node], Axes], abstract=True):
    """Base class of ops on one part of the residuals; the parents are the residuals or the part, x and the weight."""

    __slots__ = ("part",)
    part: Literal["loss", "weight", "x"]

    def __init__(self, operand: Node, x: Node, weight: Node, part: Literal["loss", "weight", "x"]) -> None:
        self._construct((operand, x, weight), part=part)

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype

    def _dims(self) -> tuple[Dims, Dims]:
        """Return the axes of the residuals and of the part."""
        x, weight = self.parents[1:]
        parts: dict[str, Dims] = {"loss": (1,), "weight": weight.dims, "x": x.dims}
        return (Plus((weight.dims[0], 1, x.dims[0])), x.dims[1]), parts[self.part]

    def _first(self) -> int:
        """Return the first row of the part in the residuals."""
        classes = axis_size(self.parents[2].dims[0])
        assert classes is not None
        return {"weight": 0, "loss": classes, "x": classes + 1}[self.part]

    def _check_dims(self, expected: Dims) -> None:
        """Raise `ShapeError` unless the first parent has the expected sizes."""
        dims: Dims = self.parents[0].dims
        if list(map(axis_size, dims)) != list(map(axis_size, expected)):
            raise ShapeError(
                f"{label(self.parents[0])} must have the axes {format_dims(expected)}, not {format_dims(dims)}"
            )


class ResidualsPart(_OfResiduals[Axes]):
    """A view of the loss, (1,), or of one gradient in the residuals."""

    __slots__ = ()
    is_view = True

    def shape_rule(self) -> Dims:
        residuals, part = self._dims()
        self._check_dims(residuals)
        return part

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        residuals, first = operands[0], self._first()
        return residuals[first, :1] if self.part == "loss" else residuals[first : first + shape[0]]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return PlaceInResiduals(gradient, self.parents[1], self.parents[2], self.part), ZERO, ZERO


JAX.register(ResidualsPart)(ResidualsPartForm)


@LOOPS.register(ResidualsPart)
class _ResidualsPartLoops(Gathered):
    preserves_layout = True

    def gather_index(self, node: ResidualsPart, index: IndexMap) -> IndexMap:
        first = node._first()
        if node.part == "loss":
            return IndexLiteral(first), index[0]
        row, column = index
        return first + row, column


class PlaceInResiduals(_OfResiduals[Axes]):
    """Residuals that are zero outside of one part: the transpose of `ResidualsPart`."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        residuals, part = self._dims()
        self._check_dims(part)
        return residuals

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        part, first = operands[0], self._first()
        if self.part == "loss":
            part = xp.where(xp.arange(shape[1]) == 0, part, part.dtype.type(0))[None]
        before, after = (
            xp.zeros((count, shape[1]), dtype=self.dtype) for count in (first, shape[0] - first - part.shape[0])
        )
        return xp.concat([before, part, after])

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return ResidualsPart(gradient, self.parents[1], self.parents[2], self.part), ZERO, ZERO


@LOOPS.register(PlaceInResiduals)
class _PlaceInResidualsLoops(ByKernel):
    @staticmethod
    def kernel(part: FloatArray, out: FloatArray, first: int) -> None:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                inside = 0 <= i - first < part.shape[0] and j < part.shape[1]
                out[i, j] = part[i - first, j] if inside else 0

    def kernel_arguments(
        self, node: PlaceInResiduals, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        part = operands[0]
        return part.reshape(-1, part.shape[-1]), out, node._first()

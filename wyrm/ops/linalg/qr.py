"""The QR factorization of matrices with at least as many rows as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims
from wyrm.graph.base import ZERO, Gradient, format_dims
from wyrm.graph.index_maps import AxisLength, IndexMap
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, Gathered, SameIndex
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.kernels.native import scratch
from wyrm.ops.linalg.jax_form import QRResidualsForm, UpperFactorForm
from wyrm.ops.linalg.kernels import qr_kernel
from wyrm.ops.linalg.matrices import (
    Factorization,
    FactorizationPart,
    KernelArgument,
    TriangularPart,
    at_least_as_long,
    joined,
    matrices,
    matrix,
)
from wyrm.ops.linalg.triangular import TriangularSolve


class QRResiduals(Factorization[Axes]):
    """The columns of length 1, above the transposed upper triangular factor, of the axes (..., m + n, n)."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        *batch, rows, columns = matrix(self.parents[0])
        if not at_least_as_long("qr", rows, columns):
            raise ShapeError(f"{format_dims((rows, columns))} has more columns than rows")
        return (*batch, joined(rows, columns), columns)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        orthonormal, upper = np.linalg.qr(np.asarray(operands[0]))
        return np.concatenate([orthonormal, np.swapaxes(upper, -1, -2)], axis=-2)


JAX.register(QRResiduals)(QRResidualsForm)


@LOOPS.register(QRResiduals)
class _QRResidualsLoops(ByKernel):
    kernel = staticmethod(qr_kernel)

    def kernel_arguments(self, node: QRResiduals, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        a = matrices(operands[0])
        _, rows, columns = a.shape
        work = scratch(64 * columns, out.dtype)  # with blocks of 64 columns
        matrix = scratch((columns, rows), out.dtype)
        return a, matrices(out), matrix, scratch(columns, out.dtype), work, scratch(1, np.int32)


class _PartOfQR(FactorizationPart[Axes], abstract=True):
    __slots__ = ()

    def gradient_of_matrix(self, product: Node, added: Node | None = None) -> Node:
        """Return the gradient with respect to the matrix.

        `product` is the upper triangular factor times its transposed cotangent, minus the transposed cotangent of the
        columns times them. Walter and Lehmann, "Algorithmic differentiation of linear algebra functions", 2012.
        """
        orthonormal: Node = Orthonormal(*self.parents)
        upper: Node = UpperFactor(*self.parents)
        triangle: Node = TriangularPart(product, True, 0.5)
        total: Node = orthonormal @ (triangle + triangle.mT)
        solved: Node = TriangularSolve(upper, (total if added is None else total + added).mT, lower=False)
        return solved.mT


class Orthonormal(_PartOfQR[Axes]):
    """The factor with orthonormal columns."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        return matrix(self.parents[1])

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return ZERO, self.gradient_of_matrix(-(gradient.mT @ self), gradient)


LOOPS.register(Orthonormal)(SameIndex())


class UpperFactor(_PartOfQR[Axes]):
    """The upper triangular factor."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        *batch, _, columns = matrix(self.parents[1])
        return (*batch, columns, columns)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Any:
        return np.swapaxes(np.asarray(operands[0])[..., operands[1].shape[-2] :, :], -1, -2)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return ZERO, self.gradient_of_matrix(self @ gradient.mT)


JAX.register(UpperFactor)(UpperFactorForm)


@LOOPS.register(UpperFactor)
class _UpperFactorLoops(Gathered):
    def gather_index(self, node: UpperFactor, index: IndexMap) -> IndexMap:
        *batch, row, column = index
        return *batch, column + AxisLength(node.parents[1].dims[-2]), row

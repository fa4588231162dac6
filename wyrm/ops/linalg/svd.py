"""The singular value decomposition and the pseudoinverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np

from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, SameIndex
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.kernels.native import scratch
from wyrm.ops.linalg.jax_form import PseudoInverseForm, SVDResidualsForm
from wyrm.ops.linalg.kernels import svd_kernel
from wyrm.ops.linalg.matrices import (
    Factorization,
    FactorizationPart,
    KernelArgument,
    MatrixOp,
    ReciprocalGaps,
    at_least_as_long,
    joined,
    matrices,
    matrix,
)
from wyrm.ops.shaping.shape import zeros_like


def shorter_axis(a: Node) -> Axis:
    """Return the shorter one of the last two axes: that of the singular values."""
    *_, rows, columns = matrix(a)
    return columns if at_least_as_long("svd", rows, columns) else rows


class SVDResiduals(Factorization[Axes]):
    """The left singular vectors, above the singular values in descending order, above the right singular vectors.

    For matrices of m rows and n columns and k the smaller number, the axes are (..., m + 1 + n, k).
    """

    __slots__ = ()

    def shape_rule(self) -> Dims:
        *batch, rows, columns = matrix(self.parents[0])
        return (*batch, joined(rows, 1, columns), shorter_axis(self.parents[0]))

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        a = np.asarray(operands[0])
        self.refuse(~np.isfinite(a).all(axis=(-2, -1)), "holds a NaN or an infinity")
        left, values, right = np.linalg.svd(a, full_matrices=False)
        return np.concatenate([left, values[..., None, :], np.swapaxes(right, -1, -2)], axis=-2)


JAX.register(SVDResiduals)(SVDResidualsForm)


@LOOPS.register(SVDResiduals)
class _SVDResidualsLoops(ByKernel):
    kernel = staticmethod(svd_kernel)

    def kernel_arguments(self, node: SVDResiduals, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        a = matrices(operands[0])
        _, rows, columns = a.shape
        return a, matrices(out), *svd_scratch(rows, columns, out.dtype)


def svd_scratch(rows: int, columns: int, dtype: np.dtype) -> tuple[Array, ...]:
    """Return the scratch memory that `svd_kernel` takes for matrices of this size."""
    count = min(rows, columns)
    # At least what `gesdd` asks for, with blocks of 64 columns for speed.
    work = scratch(4 * count * count + 7 * count + 65 * (rows + columns), dtype)
    matrix, left = scratch((columns, rows), dtype), scratch((count, rows), dtype)
    return matrix, left, work, scratch(8 * count, np.int32), scratch(1, np.int32)


class SingularValues(FactorizationPart[Axes]):
    """The singular values, in descending order."""

    __slots__ = ()
    is_below = is_row = True

    def shape_rule(self) -> Dims:
        a = self.parents[1]
        return (*matrix(a)[:-2], shorter_axis(a))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        left: Node = LeftSingularVectors(*self.parents)
        right: Node = RightSingularVectors(*self.parents)
        return ZERO, (left * gradient[..., None, :]) @ right.mT


def _gaps(values: Node, longer: bool) -> tuple[Node, Node | None]:
    """Return `1 / (s[j]**2 - s[i]**2)` for the singular values, and `1 / s**2` if the matrix is `longer` on a side.

    A longer side has more singular vectors, whose singular value is 0.
    """
    squares = values.square()
    if not longer:
        return ReciprocalGaps(squares), None
    gaps: Node = ReciprocalGaps(concatenate([squares, zeros_like(squares[..., :1])], axis=-1))
    return gaps[..., :-1, :-1], gaps[..., -1:, :-1]


def _inner(vectors: Node, gradient: Node, values: Node) -> tuple[Node, Node | None]:
    """Return the terms of a gradient inside the span of the singular vectors and, if there are more rows, outside it.

    Townsend, "Differentiating the singular value decomposition", 2016.
    """
    sizes = [axis_size(axis) for axis in vectors.dims[-2:]]
    gaps, reciprocal = _gaps(values, sizes[0] != sizes[1])
    product = vectors.mT @ gradient
    scale = values[..., None, :]
    inside = gaps * (product - product.mT) * scale
    outside = None if reciprocal is None else (gradient - vectors @ product) * (reciprocal * scale)
    return inside, outside


class LeftSingularVectors(FactorizationPart[Axes]):
    """The matrix whose columns are the left singular vectors of length 1."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        a = self.parents[1]
        return (*matrix(a)[:-1], shorter_axis(a))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        left: Node = self
        right: Node = RightSingularVectors(*self.parents)
        inside, outside = _inner(left, gradient, SingularValues(*self.parents))
        total = left @ inside
        return ZERO, (total if outside is None else total + outside) @ right.mT


LOOPS.register(LeftSingularVectors)(SameIndex())


class RightSingularVectors(FactorizationPart[Axes]):
    """The matrix whose columns are the right singular vectors of length 1."""

    __slots__ = ()
    first: ClassVar[int] = 1
    is_below: ClassVar[bool] = True

    def shape_rule(self) -> Dims:
        a = self.parents[1]
        *batch, _, columns = matrix(a)
        return (*batch, columns, shorter_axis(a))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        # They are the left singular vectors of the transposed matrix.
        left: Node = LeftSingularVectors(*self.parents)
        right: Node = self
        inside, outside = _inner(right, gradient, SingularValues(*self.parents))
        total = right @ inside
        return ZERO, left @ (total if outside is None else total + outside).mT


class PseudoInverse(MatrixOp[Axes], Composed[tuple[Node, ...], Axes]):
    """The Moore-Penrose pseudoinverse; singular values of at most `cutoff` times the largest one count as zero."""

    __slots__ = ("cutoff",)
    cutoff: float

    def __init__(self, a: Node, cutoff: float) -> None:
        self._construct((a,), cutoff=cutoff)

    @classmethod
    def op_name(cls) -> str:
        return "pinv"

    def shape_rule(self) -> Dims:
        *batch, rows, columns = matrix(self.parents[0])
        return (*batch, columns, rows)

    def compose(self, a: Node) -> Node:
        parts = SVDResiduals(a), a
        values: Node = SingularValues(*parts)
        right: Node = RightSingularVectors(*parts)
        left: Node = LeftSingularVectors(*parts)
        return (right * reciprocals(values, self.cutoff)[..., None, :]) @ left.mT

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        # Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems", 1973; the
        # rank is the same in a neighborhood.
        a: Node = self.parents[0]
        p = cast(Node, self)  # of unknown axes
        g = gradient.mT
        inside = -(p.mT @ gradient @ p.mT)
        right = (g - a @ (p @ g)) @ (p @ p.mT)
        left = (p.mT @ p) @ (g - (g @ p) @ a)
        return (inside + right + left,)


JAX.register(PseudoInverse)(PseudoInverseForm)


def reciprocals(values: Node, cutoff: float) -> Node:
    """Return the reciprocals of singular values, and 0 for those of at most `cutoff` times the largest one."""
    counted: Node = values > values[..., :1] * cutoff
    return where(counted, 1.0 / values, 0.0)

"""Eigenvalues and eigenvectors of symmetric matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.node.base import ZERO, Gradient
from wyrm.node.node import Node
from wyrm.ops.elementwise import Axes
from wyrm.ops.linalg.lu import NO_GRADIENT
from wyrm.ops.linalg.matrices import MatrixOp, ReciprocalGaps, joined, square, symmetrized
from wyrm.types.dims import Dims
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import Array, FloatArray


class EighResiduals(MatrixOp[Axes]):
    """The eigenvalues of `(a + a.mT) / 2` in ascending order, above the eigenvectors, of the axes (..., n + 1, n)."""

    __slots__ = ()

    def __init__(self, a: Node) -> None:
        self._construct((a,))

    def _own(self) -> EighResiduals[Axes]:
        return self

    def shape_rule(self) -> Dims:
        batch, size = square(self.parents[0])
        return (*batch, joined(1, size), size)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        symmetric = symmetrized(operands[0])
        self.refuse(~np.isfinite(symmetric).all(axis=(-2, -1)), "holds a NaN or an infinity")
        values, vectors = np.linalg.eigh(symmetric)
        return np.concatenate([values[..., None, :], vectors], axis=-2)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (NO_GRADIENT,)


class _PartOfEigh(MatrixOp[Axes], abstract=True):
    __slots__ = ()
    residual_parents = frozenset([0])

    def __init__(self, residuals: Node, a: Node) -> None:
        self._construct((residuals, a))


class Eigenvalues(_PartOfEigh[Axes]):
    """The eigenvalues, in ascending order."""

    __slots__ = ()

    def _own(self) -> Eigenvalues[Axes]:
        return self

    def shape_rule(self) -> Dims:
        batch, size = square(self.parents[1])
        return (*batch, size)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Any:
        return operands[0][..., 0, :]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        vectors: Node = Eigenvectors(*self.parents)
        return ZERO, (vectors * gradient[..., None, :]) @ vectors.mT


class Eigenvectors(_PartOfEigh[Axes]):
    """The matrix whose columns are the eigenvectors of length 1."""

    __slots__ = ()

    def _own(self) -> Eigenvectors[Axes]:
        return self

    def shape_rule(self) -> Dims:
        batch, size = square(self.parents[1])
        return (*batch, size, size)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Any:
        return operands[0][..., 1:, :]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        # Giles, "An extended collection of matrix derivative results", 2008, section 3.1.
        vectors: Node = self
        values: Node = Eigenvalues(*self.parents)
        turned: Node = vectors @ (ReciprocalGaps(values) * (vectors.mT @ gradient)) @ vectors.mT
        return ZERO, (turned + turned.mT) * 0.5

"""Eigenvalues and eigenvectors of symmetric matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.kernels.native import scratch
from wyrm.ops.linalg.jax_form import EighResidualsForm
from wyrm.ops.linalg.kernels import eigh_kernel
from wyrm.ops.linalg.matrices import (
    EigenResiduals,
    EigenvalueRow,
    EigenvectorRows,
    KernelArgument,
    ReciprocalGaps,
    matrices,
    symmetrized,
)


class EighResiduals(EigenResiduals[Axes]):
    """The eigenvalues of `(a + a.mT) / 2` in ascending order, above the eigenvectors, of the axes (..., n + 1, n)."""

    __slots__ = ()

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        symmetric = symmetrized(operands[0])
        self.refuse(~np.isfinite(symmetric).all(axis=(-2, -1)), "holds a NaN or an infinity")
        values, vectors = np.linalg.eigh(symmetric)
        return np.concatenate([values[..., None, :], vectors], axis=-2)


JAX.register(EighResiduals)(EighResidualsForm)


@LOOPS.register(EighResiduals)
class _EighResidualsLoops(ByKernel):
    kernel = staticmethod(eigh_kernel)

    def kernel_arguments(
        self, node: EighResiduals, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        size = out.shape[-1]
        # The least sizes that `syevd` takes.
        work = scratch(1 + 6 * size + 2 * size * size, out.dtype)
        integers = scratch(3 + 5 * size, np.int32)
        return (
            matrices(operands[0]),
            matrices(out),
            scratch((size, size), out.dtype),
            work,
            integers,
            scratch(1, np.int32),
        )


class Eigenvalues(EigenvalueRow[Axes]):
    """The eigenvalues, in ascending order."""

    __slots__ = ()

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        vectors: Node = Eigenvectors(*self.parents)
        return ZERO, (vectors * gradient[..., None, :]) @ vectors.mT


class Eigenvectors(EigenvectorRows[Axes]):
    """The matrix whose columns are the eigenvectors of length 1."""

    __slots__ = ()

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        # Giles, "An extended collection of matrix derivative results", 2008, section 3.1.
        vectors = cast(Node, self)  # of unknown axes
        values: Node = Eigenvalues(*self.parents)
        turned: Node = vectors @ (ReciprocalGaps(values) * (vectors.mT @ gradient)) @ vectors.mT
        return ZERO, (turned + turned.mT) * 0.5

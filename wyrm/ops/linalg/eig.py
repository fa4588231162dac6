"""Eigenvalues and eigenvectors of square matrices that need not be symmetric; all eigenvalues must be real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np

from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.kernels.native import scratch
from wyrm.ops.linalg.jax_form import EigPartForm, EigResidualsForm
from wyrm.ops.linalg.kernels import eig_kernel
from wyrm.ops.linalg.matrices import (
    EigenResiduals,
    EigenvalueRow,
    EigenvectorRows,
    KernelArgument,
    ReciprocalGaps,
    matrices,
)
from wyrm.ops.linalg.systems import LUResiduals, Solve


class EigResiduals(EigenResiduals[Axes]):
    """The eigenvalues of `a` in the order of LAPACK, above the eigenvectors, of the axes (..., n + 1, n)."""

    __slots__ = ()

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        a = np.asarray(operands[0])
        self.refuse(~np.isfinite(a).all(axis=(-2, -1)), "holds a NaN or an infinity")
        values, vectors = np.linalg.eig(a)
        wrong = np.imag(values) != 0.0
        if wrong.any():
            first = complex(values[wrong][0])
            self.refuse(
                wrong.any(axis=-1),
                f"has the complex eigenvalue {first:.6g}, and wyrm has no complex numbers; np.linalg.eig of the array "
                f"computes it without a gradient",
            )
        return np.concatenate([np.real(values)[..., None, :], np.real(vectors)], axis=-2)


JAX.register(EigResiduals)(EigResidualsForm)


@LOOPS.register(EigResiduals)
class _EigResidualsLoops(ByKernel):
    kernel = staticmethod(eig_kernel)

    def kernel_arguments(self, node: EigResiduals, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        size = out.shape[-1]
        # In float64, as NumPy's; `work` has at least what `geev` takes, with blocks of 32 columns for speed.
        shapes = (size, size), (2, size), (size, size), 34 * size + 1
        arrays = (scratch(shape, np.float64) for shape in shapes)
        return matrices(operands[0]), matrices(out), *arrays, scratch(1, np.int32)


class GeneralEigenvalues(EigenvalueRow[Axes]):
    """The eigenvalues, in the order of LAPACK."""

    __slots__ = ()

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        # Giles, "An extended collection of matrix derivative results", 2008, section 3.1.
        vectors: Node = GeneralEigenvectors(*self.parents)
        return ZERO, _turned(vectors, gradient[..., :, None] * vectors.mT)


class GeneralEigenvectors(EigenvectorRows[Axes]):
    """The matrix whose columns are the eigenvectors of length 1."""

    __slots__ = ()

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        # Giles' formula, less the part of each vector's change along the vector itself, whose length stays 1:
        # Boeddeker et al., "On the computation of complex-valued gradients", 2017, section 4.
        vectors = cast(Node, self)  # of unknown axes
        values: Node = GeneralEigenvalues(*self.parents)
        along = (vectors * gradient).sum(axis=-2)[..., None, :]
        change = vectors.mT @ (gradient - vectors * along)
        return ZERO, _turned(vectors, (ReciprocalGaps(values) * change) @ vectors.mT)


JAX.register(GeneralEigenvalues, GeneralEigenvectors)(EigPartForm)


class EigenvectorSolve(Solve[Axes]):
    """The solution of `a.mT @ x = b` for matrices `a` whose columns are eigenvectors of length 1.

    Raise `LinAlgError` where the columns depend on each other up to rounding: there are too few eigenvectors.
    """

    __slots__ = ()
    reason: ClassVar[str] = (
        "has too few independent eigenvectors, up to rounding, so eigenvalues and eigenvectors have no derivative"
    )
    least: ClassVar[float] = 16.0

    @classmethod
    def op_name(cls) -> str:
        return "eig"


def _turned(vectors: Node, inner: Node) -> Node:
    """Return `inv(vectors).mT @ inner`."""
    solved: Node = EigenvectorSolve(LUResiduals(vectors), vectors, inner, transposed=True)
    return solved


__all__ = ["EigResiduals", "EigenvectorSolve", "GeneralEigenvalues", "GeneralEigenvectors"]

"""The Cholesky factorization, and the solution of triangular systems."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, broadcast, unify
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.kernels.native import scratch
from wyrm.ops.linalg.jax_form import CholeskyForm, TriangularSolveForm
from wyrm.ops.linalg.kernels import cholesky_kernel, triangular_kernel
from wyrm.ops.linalg.matrices import (
    KernelArgument,
    MatrixOp,
    TriangularPart,
    each_matrix,
    matrices,
    matrix,
    numbered,
    square,
    symmetrized,
    transposed,
)
from wyrm.ops.linalg.without_scipy import triangular_solution
from wyrm.support.imports import scipy_is_installed


def solution_dims(a: Node, b: Node) -> Dims:
    """Return the axes of `x` in `a @ x = b`; raise `ShapeError` unless `a` is square and fits `b`."""
    batch, size = square(a)
    *other, rows, columns = matrix(b)
    try:
        size = unify(size, rows)
    except ShapeError as error:
        raise ShapeError(f"the matrix and the right-hand side have different numbers of rows: {error}") from None
    dims: Dims = (*broadcast(batch, tuple(other)), size, columns)
    return dims


class TriangularSolve(MatrixOp[Axes]):
    """The solution `x` of `a @ x = b`, or of `a.mT @ x = b`, for triangular matrices `a`.

    Only the triangle that `lower` selects is read; with `unit_diagonal` the diagonal counts as ones.
    """

    __slots__ = ("lower", "transposed", "unit_diagonal")
    lower: bool
    transposed: bool
    unit_diagonal: bool

    def __init__(
        self,
        a: Node,
        b: Node,
        lower: bool = True,
        transposed: bool = False,
        unit_diagonal: bool = False,
    ) -> None:
        self._construct((a, b), lower=lower, transposed=transposed, unit_diagonal=unit_diagonal)

    @classmethod
    def op_name(cls) -> str:
        return "solve_triangular"

    def shape_rule(self) -> Dims:
        return solution_dims(*self.parents)

    def check_diagonal(self, a: Array) -> None:
        """Raise `LinAlgError` if a matrix is singular."""
        if not self.unit_diagonal:
            self.refuse((np.diagonal(a, axis1=-2, axis2=-1) == 0.0).any(axis=-1), "is singular")

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        a, b = (np.asarray(operand) for operand in operands)
        self.check_diagonal(a)
        if not scipy_is_installed():
            options: Any = {"lower": self.lower != self.transposed, "unit_diagonal": self.unit_diagonal}
            of_one = partial(triangular_solution, **options)
            return each_matrix(of_one, shape, transposed(a) if self.transposed else a, b)
        from scipy.linalg import get_blas_funcs

        (trsm,) = get_blas_funcs(("trsm",), (a, b))

        def solution(a: Array, b: Array) -> Any:
            # `a.T` is in Fortran's order, so its other triangle is read and nothing is copied.
            return trsm(1.0, a.T, b, lower=not self.lower, trans_a=not self.transposed, diag=self.unit_diagonal)

        return each_matrix(solution, shape, a, b)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        a: Node = self.parents[0]
        x = cast(Node, self)  # of unknown axes
        options = {**self.attribute_values(), "transposed": not self.transposed}
        of_b: Node = TriangularSolve(a, gradient, **options)
        product = x @ of_b.mT if self.transposed else of_b @ x.mT
        return TriangularPart(-product, self.lower, 0.0 if self.unit_diagonal else 1.0), of_b


JAX.register(TriangularSolve)(TriangularSolveForm)


@LOOPS.register(TriangularSolve)
class _TriangularSolveLoops(ByKernel):
    kernel = staticmethod(triangular_kernel)

    def kernel_arguments(
        self, node: TriangularSolve, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        a, b = operands
        options = node.lower, node.transposed, node.unit_diagonal
        return *numbered(a, out), *numbered(b, out), *options, matrices(out)


class Cholesky(MatrixOp[Axes]):
    """The lower triangular factor `l` of `l @ l.mT = (a + a.mT) / 2`."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        batch, size = square(self.parents[0])
        return (*batch, size, size)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        symmetric = symmetrized(operands[0])
        try:
            factor = np.linalg.cholesky(symmetric)
        except np.linalg.LinAlgError:
            factor = each_matrix(_factor_or_nan, shape, symmetric)
        # A matrix with a NaN may get this far.
        self.refuse(~(np.diagonal(factor, axis1=-2, axis2=-1) > 0.0).all(axis=-1), "is not positive definite")
        return factor

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        # Murray, "Differentiation of the Cholesky decomposition", 2016, equation 10.
        factor = cast(Node, self)  # of unknown axes
        half: Node = TriangularSolve(factor, TriangularPart(factor.mT @ gradient, True, 0.5), transposed=True)
        whole: Node = TriangularSolve(factor, half.mT, transposed=True)
        return ((whole + whole.mT) * 0.5,)


JAX.register(Cholesky)(CholeskyForm)


@LOOPS.register(Cholesky)
class _CholeskyLoops(ByKernel):
    kernel = staticmethod(cholesky_kernel)

    def kernel_arguments(self, node: Cholesky, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return matrices(operands[0]), matrices(out), scratch(1, np.int32)


def _factor_or_nan(a: Array) -> Any:
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return np.nan

"""Linear systems: the LU factorization, solutions, and least-squares solutions for matrices of any rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, broadcast, unify
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import as_constant, constant_beside
from wyrm.graph.loop_form import LOOPS, ByKernel
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.kernels.native import scratch
from wyrm.ops.linalg.jax_form import LUResidualsForm, SolveForm
from wyrm.ops.linalg.kernels import lu_kernel, solve_kernel
from wyrm.ops.linalg.matrices import (
    Factorization,
    KernelArgument,
    MatrixOp,
    TriangularPart,
    each_matrix,
    joined,
    matrices,
    matrix,
    numbered,
    square,
)
from wyrm.ops.linalg.svd import LeftSingularVectors, RightSingularVectors, SingularValues, reciprocals
from wyrm.ops.linalg.triangular import solution_dims
from wyrm.ops.linalg.without_scipy import lu_factors, lu_solution
from wyrm.ops.shaping.shape import BroadcastTo
from wyrm.support.imports import scipy_is_installed


class LUResiduals(Factorization[Axes]):
    """The LU factorization with row interchanges of the transposed matrices, of the axes (..., n + 1, n).

    The first n rows are the transpose of both factors in one matrix, as LAPACK's `getrf` returns them; it reads a
    row-major matrix as its transpose. The last row holds the pivots, counted from 0.
    """

    __slots__ = ()

    def shape_rule(self) -> Dims:
        batch, size = square(self.parents[0])
        return (*batch, joined(size, 1), size)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        a = np.asarray(operands[0])
        getrf: Any = lu_factors
        if scipy_is_installed():
            from scipy.linalg import get_lapack_funcs

            getrf = get_lapack_funcs("getrf", (a,))

        def factors(a: Array) -> FloatArray:
            found, pivots, *_ = getrf(a.T)
            return np.concatenate([found.T, pivots[None].astype(a.dtype)])

        return each_matrix(factors, shape, a)


JAX.register(LUResiduals)(LUResidualsForm)


@LOOPS.register(LUResiduals)
class _LUResidualsLoops(ByKernel):
    kernel = staticmethod(lu_kernel)

    def kernel_arguments(self, node: LUResiduals, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return matrices(operands[0]), matrices(out), scratch(out.shape[-1], np.int32), scratch(1, np.int32)


class Solve(MatrixOp[Axes]):
    """The solution `x` of `a @ x = b`, or of `a.mT @ x = b`, from the LU factorization of `a`."""

    __slots__ = ("transposed",)
    transposed: bool
    residual_parents: ClassVar[frozenset[int]] = frozenset([0])
    # What the error for a singular matrix says, and the largest pivot that makes one, in relative rounding errors.
    reason: ClassVar[str] = "is singular"
    least: ClassVar[float] = 0.0

    def __init__(self, factors: Node, a: Node, b: Node, transposed: bool = False) -> None:
        self._construct((factors, a, b), transposed=transposed)

    @property
    def least_pivot(self) -> float:
        """The largest pivot that makes a matrix singular."""
        return self.least * float(np.finfo(self.dtype.name).eps)

    def shape_rule(self) -> Dims:
        return solution_dims(*self.parents[1:])

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        factors, _, b = (np.asarray(operand) for operand in operands)
        diagonal = np.diagonal(factors[..., :-1, :], axis1=-2, axis2=-1)
        self.refuse((np.abs(diagonal) <= self.least_pivot).any(axis=-1), self.reason)
        if not scipy_is_installed():

            def by_numpy(factors: FloatArray, b: FloatArray) -> Any:
                return lu_solution(factors[:-1].T, factors[-1], b, transposed=not self.transposed)

            return each_matrix(by_numpy, shape, factors, b)
        from scipy.linalg import get_lapack_funcs

        getrs: Any = get_lapack_funcs("getrs", (b,))

        def solution(factors: Array, b: Array) -> Any:
            return getrs(factors[:-1].T, factors[-1].astype(np.int32), b, trans=not self.transposed)[0]

        return each_matrix(solution, shape, factors, b)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        factors, a, _ = self.parents
        x = cast(Node, self)  # of unknown axes
        of_b: Node = Solve(factors, a, gradient, not self.transposed)
        return ZERO, -(x @ of_b.mT if self.transposed else of_b @ x.mT), of_b


JAX.register(Solve)(SolveForm)


@LOOPS.register(Solve)
class _SolveLoops(ByKernel):
    kernel = staticmethod(solve_kernel)

    def kernel_arguments(self, node: Solve, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        factors, _, b = operands
        return *numbered(factors, out), *numbered(b, out), node.transposed, node.least_pivot, matrices(out)


def inverse(factors: Node, a: Node, transposed: bool = False) -> Solve[Any]:
    """Return the inverse of `a`, or the transposed inverse, from the LU factorization."""
    _, size = square(a)
    return Solve(factors, a, identity(size, a.dtype), transposed)


def identity(axis: Axis, dtype: np.dtype) -> Node:
    """Return the identity matrix of an axis, whose size data may decide."""
    size = axis_size(axis)
    if size is not None:
        return constant_beside(np.eye(size), dtype, (axis, axis))
    lower = TriangularPart(BroadcastTo(as_constant(1.0, dtype), (axis, axis)), lower=True)
    return TriangularPart(lower, lower=False)


class LeastSquares(MatrixOp[Axes], Composed[tuple[Node, ...], Axes]):
    """The `x` of the smallest norm among those that minimize the norm of `a @ x - b`, or of `a.mT @ x - b`.

    The parents are the singular value decomposition of `a`, `a` and `b`. Singular values of at most `cutoff` times the
    largest one count as zero.
    """

    __slots__ = ("cutoff", "transposed")
    cutoff: float
    transposed: bool
    residual_parents: ClassVar[frozenset[int]] = frozenset([0])

    def __init__(self, residuals: Node, a: Node, b: Node, cutoff: float, transposed: bool = False) -> None:
        self._construct((residuals, a, b), cutoff=cutoff, transposed=transposed)

    @classmethod
    def op_name(cls) -> str:
        return "lstsq"

    def shape_rule(self) -> Dims:
        *batch, rows, columns = matrix(self.parents[1])
        *other, equations, count = matrix(self.parents[2])
        if self.transposed:
            rows, columns = columns, rows
        try:
            unify(rows, equations)
        except ShapeError as error:
            raise ShapeError(f"the matrix and the right-hand side have different numbers of rows: {error}") from None
        dims: Dims = (*broadcast(tuple(batch), tuple(other)), columns, count)
        return dims

    def compose(self, residuals: Node, a: Node, b: Node) -> Node:
        values: Node = SingularValues(residuals, a)
        left, right = LeftSingularVectors(residuals, a), RightSingularVectors(residuals, a)
        inside, outside = (right, left) if self.transposed else (left, right)
        scales = reciprocals(values, self.cutoff)[..., None]
        result: Node = outside @ (scales * (inside.mT @ b))
        return result

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        # Golub and Pereyra, as for `PseudoInverse`; the rank is the same in a neighborhood.
        _, a, b = self.parents
        x = cast(Node, self)  # of unknown axes
        matrix: Node = a.mT if self.transposed else a
        of_b = self.solution(gradient, True)
        outside = b - matrix @ x
        unseen = gradient - self.solution(matrix @ gradient, False)
        of_matrix: Node = outside @ self.solution(of_b, False).mT - of_b @ x.mT + self.solution(x, True) @ unseen.mT
        return ZERO, of_matrix.mT if self.transposed else of_matrix, of_b

    def solution(self, b: Node, turned: bool) -> Node:
        """Return the solution for another right-hand side; if `turned`, of the transposed system."""
        residuals, a, _ = self.parents
        return LeastSquares(residuals, a, b, self.cutoff, self.transposed != turned)


__all__ = ["LeastSquares"]

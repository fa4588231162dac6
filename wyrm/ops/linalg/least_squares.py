"""Least-squares solutions of the smallest norm, for matrices of any rank."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, broadcast, unify
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.loop_form import LOOPS, Decomposed
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import Node
from wyrm.graph.typing import Array
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.linalg.matrices import MatrixOp, matrix
from wyrm.ops.linalg.svd import LeftSingularVectors, RightSingularVectors, SingularValues, reciprocals


class LeastSquares(MatrixOp[Axes]):
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

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        residuals, a, b = operands
        rows = a.shape[-2]
        of_rows, values, of_columns = residuals[..., :rows, :], residuals[..., rows, :], residuals[..., rows + 1 :, :]
        inside, outside = (of_columns, of_rows) if self.transposed else (of_rows, of_columns)
        counted = values > values[..., :1] * self.cutoff
        scales = xp.where(counted, 1.0 / xp.where(counted, values, xp.ones_like(values)), xp.zeros_like(values))
        result: Array = outside @ (scales[..., None] * (inside.mT @ b))
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


@LOOPS.register(LeastSquares)
class _LeastSquaresLoops(Decomposed):
    def decompose(self, node: LeastSquares) -> Node:
        *parts, b = node.parents
        values: Node = SingularValues(*parts)
        left, right = LeftSingularVectors(*parts), RightSingularVectors(*parts)
        inside, outside = (right, left) if node.transposed else (left, right)
        scales = reciprocals(values, node.cutoff)[..., None]
        result: Node = outside @ (scales * (inside.mT @ b))
        return result


__all__ = ["LeastSquares"]

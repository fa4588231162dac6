"""Linear systems, inverses and determinants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

from wyrm.errors import OptionError
from wyrm.functions.operands import Operand, as_nodes, shape_error
from wyrm.graph.axes import axis_size
from wyrm.graph.leaves import Constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import S2, A, Array, AtLeast2D, Bs, FittingShape, K, M, N, OfShape, Shaped
from wyrm.graph.weak_types import in_one_type
from wyrm.linalg.factorizations import as_matrix, as_square
from wyrm.linalg.results import LstsqResult, SlogdetResult
from wyrm.ops.elementwise.conversion import of_chosen_type
from wyrm.ops.elementwise.elementwise import L, R, S
from wyrm.ops.linalg.determinant import Determinant
from wyrm.ops.linalg.matrices import at_least_as_long, matrix
from wyrm.ops.linalg.svd import PseudoInverse, SingularValues, SVDResiduals
from wyrm.ops.linalg.systems import LeastSquares, LUResiduals, Solve, inverse
from wyrm.ops.linalg.triangular import TriangularSolve
from wyrm.ops.reducing.counting import CountTrue


def _operands(name: str, a: Operand, b: Operand, check: Callable[[str, Node], Node]) -> tuple[Node, Node, bool]:
    """Return both operands as nodes with two axes or more, and whether `b` is one vector."""
    left, right = as_nodes(a, b)
    check(name, left)
    if right.ndim == 0:
        raise shape_error(name, "the right-hand side must be a vector or a matrix", [left, right])
    vector = right.ndim == 1
    return left, right.expand_dims(-1) if vector else right, vector


def _as_columns(x: Node, vector: bool) -> Node:
    return x.squeeze(-1) if vector else x


@overload
def solve(a: Shaped[Any, tuple[*Bs, N, N]], b: Shaped[Any, FittingShape[tuple[*Bs, N, N]]]) -> Node: ...
@overload
def solve(a: Shaped[L, AtLeast2D], b: Shaped[R, S2]) -> Node: ...
@overload
def solve(a: Shaped[L, tuple[*Bs, N, N]], b: Shaped[R, tuple[N]]) -> Node[Any, tuple[*Bs, N]]: ...
@overload
def solve(a: Shaped[L, tuple[*Bs, N, N]], b: OfShape[R, tuple[*Bs, N, K]]) -> Node[Any, tuple[*Bs, N, K]]: ...
@overload
def solve(a: Shaped[L, tuple[*Bs, N, N]], b: Shaped[R, tuple[N, K]]) -> Node[Any, tuple[*Bs, N, K]]: ...
@overload
def solve(a: Shaped[L, tuple[N, N]], b: OfShape[R, tuple[*Bs, N, K]]) -> Node[Any, tuple[*Bs, N, K]]: ...
@overload
def solve(a: Shaped[L, tuple[A, M, N, *Bs]], b: Shaped[R, tuple[A, M, N, *Bs]]) -> Node: ...
@overload
def solve(a: Shaped[L, S], b: Array) -> Node: ...
@overload
def solve(a: Array, b: Shaped[R, S]) -> Node: ...
def solve(a: Any, b: Any) -> Node:
    """Return the solution `x` of `a @ x = b`, of the axes of `b`, for square `a` of the axes (..., n, n).

    `b` has the axes (..., n, k), or (n,) for one vector; leading axes broadcast. The
    gradient uses the same LU factorization.

    Raise `ShapeError` for shapes that do not match and, when computed, `LinAlgError` for a singular matrix.

    >>> wy.linalg.solve(wy.Constant([[2.0, 0.0], [0.0, 4.0]]), wy.Constant([2.0, 8.0])).forward().tolist()
    [1.0, 2.0]
    """
    left, right, vector = _operands("solve", a, b, as_square)
    return _as_columns(Solve(LUResiduals(left), left, right), vector)


@overload
def solve_triangular(
    a: Shaped[Any, tuple[*Bs, N, N]],
    b: Shaped[Any, FittingShape[tuple[*Bs, N, N]]],
    trans: Literal[0, 1, "N", "T"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Node: ...
@overload
def solve_triangular(
    a: Shaped[L, AtLeast2D],
    b: Shaped[R, S2],
    trans: Literal[0, 1, "N", "T"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Node: ...
@overload
def solve_triangular(
    a: Shaped[L, tuple[*Bs, N, N]],
    b: Shaped[R, tuple[N]],
    trans: Literal[0, 1, "N", "T"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Node[Any, tuple[*Bs, N]]: ...
@overload
def solve_triangular(
    a: Shaped[L, tuple[*Bs, N, N]],
    b: OfShape[R, tuple[*Bs, N, K]],
    trans: Literal[0, 1, "N", "T"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Node[Any, tuple[*Bs, N, K]]: ...
@overload
def solve_triangular(
    a: Shaped[L, tuple[*Bs, N, N]],
    b: Shaped[R, tuple[N, K]],
    trans: Literal[0, 1, "N", "T"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Node[Any, tuple[*Bs, N, K]]: ...
@overload
def solve_triangular(
    a: Shaped[L, S],
    b: Array,
    trans: Literal[0, 1, "N", "T"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Node: ...
@overload
def solve_triangular(
    a: Array,
    b: Shaped[R, S],
    trans: Literal[0, 1, "N", "T"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Node: ...
def solve_triangular(
    a: Any, b: Any, trans: Literal[0, 1, "N", "T"] = 0, lower: bool = False, unit_diagonal: bool = False
) -> Node:
    """Return the solution `x` of `a @ x = b` for triangular `a`, as `scipy.linalg.solve_triangular`; see `solve`.

    It reads the upper triangle of `a`, or the lower one with `lower`. With `unit_diagonal`, it takes the diagonal as
    ones. With `trans` 1 or "T" it solves `a.mT @ x = b`.

    Raise `ShapeError` for shapes that do not match, `OptionError` for another `trans` and, when computed, `LinAlgError`
    for a zero on the diagonal.

    >>> a, b = wy.Constant([[2.0, 0.0], [2.0, 1.0]]), wy.Constant([2.0, 5.0])
    >>> wy.linalg.solve_triangular(a, b, lower=True).forward().tolist()
    [1.0, 3.0]
    """
    if trans not in (0, 1, "N", "T"):
        raise OptionError(f"solve_triangular: trans must be 0, 1, 'N' or 'T', not {trans!r}")
    left, right, vector = _operands("solve_triangular", a, b, as_square)
    return _as_columns(TriangularSolve(left, right, bool(lower), trans in (1, "T"), bool(unit_diagonal)), vector)


@overload
def cho_solve(c_and_lower: tuple[Shaped[L, tuple[*Bs, N, N]], bool], b: Shaped[R, S]) -> Node[Any, S]: ...
@overload
def cho_solve(c_and_lower: tuple[Shaped[L, S], bool], b: Shaped[R, S2] | Array) -> Node: ...
def cho_solve(c_and_lower: tuple[Any, bool], b: Any) -> Node:
    """Return the solution `x` of `a @ x = b` from the Cholesky factor of `a`, as `scipy.linalg.cho_solve`.

    `c_and_lower` is the factor and whether it is the lower one, which `cholesky` returns. Raise the errors of
    `solve_triangular`.

    >>> factor = wy.linalg.cholesky(wy.Constant([[4.0, 2.0], [2.0, 5.0]]))
    >>> wy.linalg.cho_solve((factor, True), wy.Constant([4.0, 2.0])).forward().tolist()
    [1.0, 0.0]
    """
    if not isinstance(c_and_lower, tuple) or len(c_and_lower) != 2:
        raise TypeError("cho_solve takes a factor and whether it is the lower one, as in cho_solve((factor, True), b)")
    factor, lower = c_and_lower
    left, right, vector = _operands("cho_solve", factor, b, as_square)
    halfway = TriangularSolve(left, right, bool(lower), transposed=not lower)
    return _as_columns(TriangularSolve(left, halfway, bool(lower), transposed=bool(lower)), vector)


@overload
def inv(a: Shaped[L, AtLeast2D]) -> Node: ...
@overload
def inv(a: Shaped[L, tuple[*Bs, N, N]]) -> Node[Any, tuple[*Bs, N, N]]: ...
def inv(a: Any) -> Node:
    """Return the inverse of square matrices, of the axes (..., n, n). To solve a system, use `solve`.

    Raise `ShapeError` unless the matrices are square and, when computed, `LinAlgError` for a singular one.

    >>> wy.linalg.inv(wy.Constant([[2.0, 0.0], [0.0, 4.0]])).forward().tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    node = as_square("inv", a)
    return inverse(LUResiduals(node), node)


@overload
def det(a: Shaped[L, AtLeast2D]) -> Node: ...
@overload
def det(a: Shaped[L, tuple[*Bs, N, N]]) -> Node[Any, tuple[*Bs]]: ...
def det(a: Any) -> Node:
    """Return the determinant of square matrices, of the axes (...) for (..., n, n).

    The gradient, the matrix of cofactors, and its gradient exist for singular matrices too. Raise `ShapeError` unless
    the matrices are square and, when computed, `LinAlgError` for a third derivative of a singular one.

    >>> wy.linalg.det(wy.Constant([[2.0, 1.0], [0.0, 4.0]])).forward().item()
    8.0
    """
    node = as_square("det", a)
    return Determinant(LUResiduals(node), node, "value")


@overload
def slogdet(a: Shaped[L, AtLeast2D]) -> SlogdetResult: ...
@overload
def slogdet(a: Shaped[L, tuple[*Bs, N, N]]) -> SlogdetResult[tuple[*Bs]]: ...
def slogdet(a: Any) -> SlogdetResult:
    """Return the sign of the determinant and the logarithm of its absolute value: 0 and -inf for a singular matrix.

    The sign has the gradient zero. Raise `ShapeError` unless the matrices are square and, when computed, `LinAlgError`
    for the gradient of the logarithm of a singular one.

    >>> wy.linalg.slogdet(wy.Constant([[1.0, 0.0], [0.0, -1.0]])).sign.forward().item()
    -1.0
    """
    node = as_square("slogdet", a)
    factors = LUResiduals(node)
    return SlogdetResult(Determinant(factors, node, "sign"), Determinant(factors, node, "logarithm"))


@overload
def pinv(a: Shaped[L, AtLeast2D], rcond: float | None = None) -> Node: ...
@overload
def pinv(a: OfShape[L, tuple[*Bs, M, N]], rcond: float | None = None) -> Node[Any, tuple[*Bs, N, M]]: ...
def pinv(a: Any, rcond: float | None = None) -> Node:
    """Return the Moore-Penrose pseudoinverse, of the axes (..., n, m) for (..., m, n).

    Singular values of at most `rcond` times the largest one count as 0; the default is the larger of m and n times the
    machine epsilon. The gradient is valid where the rank is constant.

    Raise `ShapeError` for fewer than two axes, `OptionError` for a negative `rcond` and, when computed, `LinAlgError`
    for a NaN or an infinity.

    >>> wy.linalg.pinv(wy.Constant([[2.0], [0.0]])).forward().tolist()
    [[0.5, 0.0]]
    """
    node = of_chosen_type(as_matrix("pinv", a))
    return PseudoInverse(node, _cutoff("pinv", node, rcond))


def _cutoff(name: str, a: Node, rcond: float | None) -> float:
    """Return the relative size up to which a singular value counts as zero: `rcond`, or by NumPy's rule for None."""
    *_, rows, columns = matrix(a)
    if rcond is not None:
        if not rcond >= 0.0:
            raise OptionError(f"{name}: rcond must be at least 0, not {rcond}")
        return float(rcond)
    longer = axis_size(rows if at_least_as_long(name, rows, columns) else columns) or 1
    return longer * float(np.finfo(a.dtype).eps)


@overload
def lstsq(a: Shaped[Any, S], b: Shaped[Any, FittingShape[S]], rcond: float | None = None) -> LstsqResult: ...
@overload
def lstsq(a: Shaped[L, AtLeast2D], b: Shaped[R, S2], rcond: float | None = None) -> LstsqResult: ...
@overload
def lstsq(
    a: Node[Any, tuple[*Bs, M, N]], b: Node[Any, tuple[M]], rcond: float | None = None
) -> LstsqResult[tuple[*Bs, N]]: ...
@overload
def lstsq(
    a: Node[Any, tuple[*Bs, M, N]], b: Node[Any, tuple[*Bs, M, K]], rcond: float | None = None
) -> LstsqResult[tuple[*Bs, N, K]]: ...
@overload
def lstsq(
    a: Node[Any, tuple[*Bs, M, N]], b: Node[Any, tuple[M, K]], rcond: float | None = None
) -> LstsqResult[tuple[*Bs, N, K]]: ...
@overload
def lstsq(
    a: Node[Any, tuple[M, N]], b: Node[Any, tuple[*Bs, M, K]], rcond: float | None = None
) -> LstsqResult[tuple[*Bs, N, K]]: ...
@overload
def lstsq(a: Shaped[L, S], b: Array, rcond: float | None = None) -> LstsqResult: ...
@overload
def lstsq(a: Array, b: Shaped[R, S], rcond: float | None = None) -> LstsqResult: ...
def lstsq(a: Any, b: Any, rcond: float | None = None) -> LstsqResult:
    """Return the least-squares solution of `a @ x = b`, for `a` of the axes (..., m, n) and of any rank.

    `b` has the axes (..., m, k), or (m,) for one vector. Of several solutions, `x` is that of the smallest norm.
    Singular values of at most `rcond` times the largest one count as 0; the default is the larger of m and n times the
    machine epsilon. The gradient is valid where the rank is constant.

    The result has NumPy's parts: `x`, the sums of squared residuals (without elements unless m > n), the rank and the
    singular values of `a`; a part that nothing uses is not computed. The sums are there for a low rank too, where
    NumPy's have no elements.

    Raise `ShapeError` for shapes that do not match, `OptionError` for a negative `rcond` and, when computed,
    `LinAlgError` for a NaN or an infinity.

    >>> a, b = wy.Constant([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), wy.Constant([1.0, 3.0, 5.0])
    >>> wy.linalg.lstsq(a, b).x.forward().round(5).tolist()
    [1.0, 2.0]
    """
    left, right, vector = _operands("lstsq", a, b, as_matrix)
    left, right = map(of_chosen_type, in_one_type(left, right))
    *_, rows, columns = matrix(left)
    cutoff = _cutoff("lstsq", left, rcond)
    tall = at_least_as_long("lstsq", rows, columns)
    parts = SVDResiduals(left), left
    x: Node = LeastSquares(*parts, right, cutoff)
    residuals: Node
    if tall and axis_size(rows) != axis_size(columns):
        residuals = (right - left @ x).square().sum(axis=-2)
    else:
        residuals = Constant(np.zeros(0), dtype=left.dtype)
    values: Node = SingularValues(*parts)
    rank: IndexNode = CountTrue(values > values[..., :1] * cutoff, -1)
    return LstsqResult(_as_columns(x, vector), residuals, rank, values)

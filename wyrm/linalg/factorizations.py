"""Factorizations of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from wyrm.errors import OptionError, ShapeError
from wyrm.functions.operands import Operand, as_node, shape_error
from wyrm.graph.node import Node
from wyrm.graph.typing import AtLeast2D, Bs, M, N, OfShape, Shaped
from wyrm.linalg.results import EighResult, EigResult, QRResult, SVDResult
from wyrm.ops.elementwise.elementwise import L
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.linalg.eig import EigResiduals, GeneralEigenvalues, GeneralEigenvectors
from wyrm.ops.linalg.eigh import Eigenvalues, Eigenvectors, EighResiduals
from wyrm.ops.linalg.expm import MatrixExponential
from wyrm.ops.linalg.matrices import TriangularPart, at_least_as_long, matrix, square
from wyrm.ops.linalg.qr import Orthonormal, QRResiduals, UpperFactor
from wyrm.ops.linalg.svd import LeftSingularVectors, RightSingularVectors, SingularValues, SVDResiduals
from wyrm.ops.linalg.triangular import Cholesky
from wyrm.support.options import choice


def as_matrix(name: str, a: Operand) -> Node:
    """Return the operand as a node; raise `ShapeError` unless it has two axes or more."""
    return _checked_matrix(name, as_node(a), matrix)


def as_square(name: str, a: Operand) -> Node:
    """Return the operand as a node; raise `ShapeError` unless it holds square matrices."""
    return _checked_matrix(name, as_node(a), square)


def _checked_matrix(name: str, a: Node, rule: Callable[[Node], object]) -> Node:
    try:
        rule(a)
    except ShapeError as error:
        raise shape_error(name, str(error), [a]) from None
    return a


def _symmetric(a: Node, lower: bool) -> Node:
    """Return the symmetric matrices with one triangle of `a`."""
    half: Node = TriangularPart(a, lower, 0.5)
    return half + half.mT


@overload
def cholesky(a: Shaped[L, AtLeast2D], *, upper: bool = False) -> Node: ...
@overload
def cholesky(a: Shaped[L, tuple[*Bs, N, N]], *, upper: bool = False) -> Node[Any, tuple[*Bs, N, N]]: ...
def cholesky(a: Any, *, upper: bool = False) -> Node:
    """Return the lower triangular `l` with `l @ l.mT = a` for symmetric positive definite `a`, of the axes (..., n, n).

    It reads the lower triangle only, as NumPy does, and so its gradient is lower triangular. With `upper`, it reads the
    upper triangle and returns the transposed factor.

    Raise `ShapeError` unless the matrices are square and, when computed, `LinAlgError` for a matrix that is not
    positive definite.

    >>> wy.linalg.cholesky(wy.Constant([[4.0, 2.0], [2.0, 5.0]])).forward().tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    factor: Node = Cholesky(_symmetric(as_square("cholesky", a), lower=not upper))
    return factor.mT if upper else factor


@overload
def eig(a: Shaped[L, AtLeast2D]) -> EigResult: ...
@overload
def eig(a: Shaped[L, tuple[*Bs, N, N]]) -> EigResult[tuple[*Bs, N], tuple[*Bs, N, N]]: ...
def eig(a: Any) -> EigResult:
    """Return the eigenvalues and the eigenvectors (columns of length 1) of square `a`, of the axes (..., n, n).

    All eigenvalues must be real: wyrm has no complex numbers. Those of a product of two symmetric matrices are, if one
    of the two is positive definite, of a triangular matrix, and of the transition matrix of a reversible Markov chain;
    for a symmetric matrix use `eigh`. Order and signs are NumPy's, which sorts nothing; JAX has others in float32.
    Rounding may make equal eigenvalues complex: two of them by about the square root of the rounding error.

    With `a = V @ diag(w) @ inv(V)`, the gradient of `w` is `inv(V).T @ diag(g) @ V.T` (Giles, "An extended collection
    of matrix derivative results", 2008); that of `V` keeps the vectors' length (Boeddeker et al., "On the computation
    of complex-valued gradients", 2017). The one through the vectors needs distinct eigenvalues, both need n independent
    eigenvectors: near a matrix without, gradients are large. The sign of an eigenvector is arbitrary.

    Raise `ShapeError` unless the matrices are square and, when computed, `LinAlgError` for a complex eigenvalue, for a
    NaN or an infinity, and for a gradient that does not exist; a program of JAX gives NaN for that matrix.

    >>> values, vectors = wy.linalg.eig(wy.Constant([[2.0, 1.0], [0.0, 3.0]]))
    >>> values.forward().tolist()
    [2.0, 3.0]
    >>> vectors.forward().round(3)
    array([[1.   , 0.707],
           [0.   , 0.707]], dtype=float32)
    """
    node = as_square("eig", a)
    residuals = EigResiduals(node)
    return EigResult(GeneralEigenvalues(residuals, node), GeneralEigenvectors(residuals, node))


@overload
def eigvals(a: Shaped[L, AtLeast2D]) -> Node: ...
@overload
def eigvals(a: Shaped[L, tuple[*Bs, N, N]]) -> Node[Any, tuple[*Bs, N]]: ...
def eigvals(a: Any) -> Node:
    """Return the eigenvalues of square `a`, all of which must be real, in NumPy's order; see `eig`.

    >>> wy.linalg.eigvals(wy.Constant([[2.0, 1.0], [0.0, 3.0]])).forward().tolist()
    [2.0, 3.0]
    """
    return eig(as_square("eigvals", a)).eigenvalues


@overload
def eigh(a: Shaped[L, AtLeast2D], UPLO: Literal["L", "U"] = "L") -> EighResult: ...
@overload
def eigh(
    a: Shaped[L, tuple[*Bs, N, N]], UPLO: Literal["L", "U"] = "L"
) -> EighResult[tuple[*Bs, N], tuple[*Bs, N, N]]: ...
def eigh(a: Any, UPLO: Literal["L", "U"] = "L") -> EighResult:  # NumPy's name
    """Return the eigenvalues, ascending, and the eigenvectors (columns) of symmetric `a`, of the axes (..., n, n).

    It reads the lower triangle only, or with `UPLO="U"` the upper one, as NumPy does; so the gradient is triangular.

    The gradient through the eigenvectors needs distinct eigenvalues, and that through the eigenvalues does not. The
    sign of an eigenvector is arbitrary.

    Raise `ShapeError` unless the matrices are square and, when computed, `LinAlgError` for a NaN or an infinity, or for
    a gradient through eigenvectors of equal eigenvalues.

    >>> wy.linalg.eigh(wy.Constant([[3.0, 0.0], [0.0, 1.0]])).eigenvalues.forward().tolist()
    [1.0, 3.0]
    """
    choice("eigh: UPLO", UPLO, ("L", "U"))
    node = _symmetric(as_square("eigh", a), lower=UPLO == "L")
    residuals = EighResiduals(node)
    return EighResult(Eigenvalues(residuals, node), Eigenvectors(residuals, node))


@overload
def eigvalsh(a: Shaped[L, AtLeast2D], UPLO: Literal["L", "U"] = "L") -> Node: ...
@overload
def eigvalsh(a: Shaped[L, tuple[*Bs, N, N]], UPLO: Literal["L", "U"] = "L") -> Node[Any, tuple[*Bs, N]]: ...
def eigvalsh(a: Any, UPLO: Literal["L", "U"] = "L") -> Node:
    """Return the eigenvalues of symmetric `a`, ascending; see `eigh`.

    >>> wy.linalg.eigvalsh(wy.Constant([[3.0, 0.0], [0.0, 1.0]])).forward().tolist()
    [1.0, 3.0]
    """
    return eigh(as_square("eigvalsh", a), UPLO).eigenvalues


@overload
def svd(a: Shaped[L, AtLeast2D], full_matrices: bool = True, compute_uv: Literal[True] = True) -> SVDResult: ...
@overload
def svd(
    a: Shaped[L, tuple[*Bs, N, N]], full_matrices: bool = True, compute_uv: Literal[True] = True
) -> SVDResult[tuple[*Bs, N, N], tuple[*Bs, N], tuple[*Bs, N, N]]: ...
@overload
def svd(
    a: Shaped[L, tuple[*Bs, M, N]], full_matrices: bool = True, compute_uv: Literal[True] = True
) -> SVDResult[tuple[*Bs, M, Any], tuple[*Bs, Any], tuple[*Bs, Any, N]]: ...
@overload
def svd(
    a: OfShape[L, tuple[*Bs, M, N]], full_matrices: bool = True, *, compute_uv: Literal[False]
) -> Node[Any, tuple[*Bs, Any]]: ...
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> SVDResult | Node:
    """Return `U`, `S` and `Vh` with `a = (U * S[..., None, :]) @ Vh`, of the axes (..., m, k), (..., k), (..., k, n).

    `a` has the axes (..., m, n), and k is the smaller number. The singular values `S` are in descending order. Matrices
    that are not square need `full_matrices=False`, because the other vectors have no gradient. With `compute_uv=False`,
    return `S` alone.

    The gradient through the vectors needs distinct singular values and, unless the matrix is square, none that is 0;
    that through the values does not. The common sign of a pair of vectors is arbitrary.

    Raise `ShapeError` for fewer than two axes, or for full matrices of another shape, and, when computed, `LinAlgError`
    for a NaN or an infinity, or for a gradient that does not exist.

    >>> wy.linalg.svd(wy.Constant([[3.0, 0.0], [0.0, -4.0]])).S.forward().tolist()
    [4.0, 3.0]
    """
    node = as_matrix("svd", a)
    residuals = SVDResiduals(node)
    values: Node = SingularValues(residuals, node)
    if not compute_uv:
        return values
    *_, rows, columns = node.dims
    if full_matrices and rows != columns:
        reason = "the matrix is not square; pass full_matrices=False, because vectors without a value have no gradient"
        raise shape_error("svd", reason, [node])
    right: Node = RightSingularVectors(residuals, node)
    return SVDResult(LeftSingularVectors(residuals, node), values, right.mT)


@overload
def svdvals(x: Shaped[L, AtLeast2D]) -> Node: ...
@overload
def svdvals(x: Shaped[L, tuple[*Bs, N, N]]) -> Node[Any, tuple[*Bs, N]]: ...
@overload
def svdvals(x: Shaped[L, tuple[*Bs, M, N]]) -> Node[Any, tuple[*Bs, Any]]: ...
def svdvals(x: Any) -> Node:
    """Return the singular values in descending order; see `svd`.

    >>> wy.linalg.svdvals(wy.Constant([[3.0, 0.0], [0.0, -4.0]])).forward().tolist()
    [4.0, 3.0]
    """
    node = as_matrix("svdvals", x)
    return SingularValues(SVDResiduals(node), node)


@overload
def qr(a: Shaped[L, AtLeast2D], mode: Literal["reduced"] = "reduced") -> QRResult: ...
@overload
def qr(
    a: Shaped[L, tuple[*Bs, N, N]], mode: Literal["reduced"] = "reduced"
) -> QRResult[tuple[*Bs, N, N], tuple[*Bs, N, N]]: ...
@overload
def qr(
    a: Shaped[L, tuple[*Bs, M, N]], mode: Literal["reduced"] = "reduced"
) -> QRResult[tuple[*Bs, M, Any], tuple[*Bs, Any, N]]: ...
@overload
def qr(a: OfShape[L, tuple[*Bs, M, N]], mode: Literal["r"]) -> Node[Any, tuple[*Bs, Any, N]]: ...
def qr(a: Any, mode: Literal["reduced", "r"] = "reduced") -> QRResult | Node:
    """Return `Q` with orthonormal columns, (..., m, k), and upper triangular `R`, (..., k, n), with `Q @ R = a`.

    `a` has the axes (..., m, n), and k is the smaller number. With `mode="r"`, return `R` alone. The gradient needs
    linearly independent columns (the first k ones of a matrix with more columns than rows).

    Raise `ShapeError` for fewer than two axes, `OptionError` for another mode and, when computed, `LinAlgError` for a
    gradient of a matrix whose columns depend on each other.

    >>> wy.linalg.qr(wy.Constant([[0.0, 1.0], [2.0, 2.0]])).R.forward().tolist()
    [[-2.0, -2.0], [0.0, -1.0]]
    """
    if mode not in ("reduced", "r"):
        raise OptionError(f"qr: mode must be 'reduced' or 'r', not {mode!r}; the other results have no gradient")
    node = as_matrix("qr", a)
    *batch, rows, columns = node.dims
    if at_least_as_long("qr", rows, columns):
        residuals = QRResiduals(node)
        orthonormal: Node = Orthonormal(residuals, node)
        upper: Node = UpperFactor(residuals, node)
    else:
        count = int(rows)
        orthonormal, first = qr(node[..., :count])
        joined: Node = concatenate([first, orthonormal.mT @ node[..., count:]], axis=-1)
        upper = joined.reshape((*batch, rows, columns))
    return upper if mode == "r" else QRResult(orthonormal, upper)


@overload
def expm(a: Shaped[L, AtLeast2D]) -> Node: ...
@overload
def expm(a: Shaped[L, tuple[*Bs, N, N]]) -> Node[Any, tuple[*Bs, N, N]]: ...
def expm(a: Any) -> Node:
    """Return the exponential `1 + a + a @ a / 2 + ...` of square matrices, of the axes (..., n, n).

    Raise `ShapeError` unless the matrices are square and, when computed, `LinAlgError` for a NaN or an infinity.

    >>> wy.linalg.expm(wy.Constant([[0.0, 2.0], [0.0, 0.0]])).forward().tolist()
    [[1.0, 2.0], [0.0, 1.0]]
    """
    return MatrixExponential(as_square("expm", a))

"""Samples of the ops of linear algebra: well-conditioned matrices with distinct eigenvalues and singular values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from tests.samples.sample import Sample, distinct, normal
from wyrm.ops.linalg import determinant, eig, eigh, expm, matrices, qr, svd, systems, triangular


def regular(*shape: int) -> NDArray[np.float64]:
    """Return matrices with singular values that are neither small nor close to each other."""
    left, _ = np.linalg.qr(normal(*shape[:-1], shape[-2]))
    right, _ = np.linalg.qr(normal(*shape[:-2], shape[-1], shape[-1]))
    count = min(shape[-2:])
    values = np.linspace(2.0, 0.7, count)
    product: NDArray[np.float64] = (left[..., :, :count] * values) @ right[..., :count, :]
    return product


def positive_definite(*shape: int) -> NDArray[np.float64]:
    """Return positive definite matrices whose triangles differ, as an op may not assume symmetry."""
    root = regular(*shape)
    return root @ np.swapaxes(root, -1, -2) + np.triu(normal(*shape), 1) * 0.1


def real_spectrum(*shape: int) -> NDArray[np.float64]:
    """Return matrices with distinct real eigenvalues, and vectors that are far from orthogonal, the same each time."""
    vectors = np.eye(shape[-1]) + 0.4 * np.random.default_rng(shape).standard_normal(shape)
    values = np.linspace(-1.0, 2.0, shape[-1])
    return (vectors * values) @ np.linalg.inv(vectors)


def _eigenvalues(a: Any) -> Any:
    """Return NumPy's eigenvalues, which NumPy 2.5 returns as complex numbers."""
    return np.linalg.eigvals(a).real


def _symmetric(a: Any) -> Any:
    return (a + np.swapaxes(a, -1, -2)) / 2


def _triangular(a: Any, b: Any, lower: bool, transposed: bool, unit: bool) -> Any:
    if 0 in b.shape:
        return np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:])
    triangle = np.tril(a) if lower else np.triu(a)
    if unit:
        triangle = triangle - triangle * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return np.linalg.solve(np.swapaxes(triangle, -1, -2) if transposed else triangle, b)


def _solve(a: Any, b: Any) -> Any:
    return systems.Solve(systems.LUResiduals(a), a, b)


def _gaps(x: Any) -> Any:
    gaps = x[..., None, :] - x[..., :, None]
    return np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps != 0.0)


def _triangular_samples() -> list[Sample]:
    return [
        Sample(
            triangular.TriangularSolve,
            lambda a, b, o=(lower, transposed, unit): triangular.TriangularSolve(a, b, *o),
            (regular(*left) + 2.0 * np.eye(left[-1]), normal(*right)),
            lambda a, b, o=(lower, transposed, unit): _triangular(a, b, *o),
            name=f"TriangularSolve-{left}-{right}-{lower}-{transposed}-{unit}",
            empty=False,
            misfit=(normal(3, 3), normal(4, 2)),
        )
        for left, right, lower, transposed, unit in (
            ((3, 3), (3, 2), True, False, False),
            ((3, 3), (3, 1), False, True, False),
            ((2, 3, 3), (3, 2), True, True, True),
            ((1, 4, 4), (3, 4, 2), False, False, False),
            ((1, 1), (1, 1), True, False, False),
        )
    ]


def _parts_of_matrix(
    op: type[Any], expected: Callable[..., Any], values: Callable[..., Any], misfit: bool, *shapes: tuple[int, ...]
) -> list[Sample]:
    """Return samples of an op of one matrix, from leaves of several shapes."""
    residuals: dict[str, Any] = {
        "wyrm.ops.linalg.eig": eig.EigResiduals,
        "wyrm.ops.linalg.eigh": eigh.EighResiduals,
        "wyrm.ops.linalg.svd": svd.SVDResiduals,
        "wyrm.ops.linalg.qr": qr.QRResiduals,
    }
    factorization = residuals.get(op.__module__)
    return [
        Sample(
            op,
            op if factorization is None else lambda a: op(factorization(a), a),
            (values(*shape),),
            expected,
            name=f"{op.__name__}-{shape}",
            empty=len(shape) > 2,
            misfit=(normal(3, 4),) if misfit else None,
        )
        for shape in shapes
    ]


def _left(a: Any) -> Any:
    return np.linalg.svd(a, full_matrices=False)[0]


def _right(a: Any) -> Any:
    return np.swapaxes(np.linalg.svd(a, full_matrices=False)[2], -1, -2)


def _cofactors(a: Any) -> Any:
    return np.linalg.det(a)[..., None, None] * np.swapaxes(np.linalg.inv(a), -1, -2)


def _slope_of_cofactors(a: Any, gradient: Any) -> Any:
    inverse = np.swapaxes(np.linalg.inv(a), -1, -2)
    share = (gradient * inverse).sum((-2, -1), keepdims=True)
    product = inverse @ np.swapaxes(gradient, -1, -2) @ inverse
    return np.linalg.det(a)[..., None, None] * (share * inverse - product)


def _determinant_samples() -> list[Sample]:
    """Samples of determinants and of their derivatives."""
    shapes: tuple[tuple[int, ...], ...] = ((3, 3), (1, 1), (2, 3, 3))
    parts: tuple[Any, ...] = ("value", "sign", "logarithm")
    determinants = [
        Sample(
            determinant.Determinant,
            lambda a, p=part: determinant.Determinant(systems.LUResiduals(a), a, p),
            (regular(*shape),),
            lambda a, i=position: (np.linalg.det(a), *np.linalg.slogdet(a))[i],
            name=f"Determinant-{part}-{shape}",
            empty=len(shape) > 2,
        )
        for position, part in enumerate(parts)
        for shape in shapes
    ]
    slopes = [
        Sample(
            determinant.Cofactors,
            lambda a: determinant.Cofactors(systems.LUResiduals(a), a),
            (regular(*shape),),
            _cofactors,
            name=f"Cofactors-{shape}",
            empty=len(shape) > 2,
        )
        for shape in shapes
    ]
    return [
        *determinants,
        *slopes,
        Sample(
            determinant.CofactorsSlope,
            lambda a, gradient: determinant.CofactorsSlope(determinant.cofactors_gradient(a, gradient), a, gradient),
            (regular(3, 3), normal(3, 3)),
            _slope_of_cofactors,
            empty=False,
        ),
        Sample(
            determinant.LogDeterminantSlope,
            lambda a: determinant.LogDeterminantSlope(
                systems.LUResiduals(a), a, systems.identity(a.dims[-1], a.dtype), True
            ),
            (regular(3, 3),),
            lambda a: np.swapaxes(np.linalg.inv(a), -1, -2),
            empty=False,
        ),
    ]


def samples() -> list[Sample]:
    square, one, batch = (3, 3), (1, 1), (2, 3, 3)
    tall, wide = (2, 4, 3), (3, 5)
    solving = [
        Sample(
            systems.Solve,
            _solve,
            (regular(*left), normal(*right)),
            np.linalg.solve,
            name=f"Solve-{left}-{right}",
            empty=len(left) > 2 and len(right) == len(left),
        )
        for left, right in (
            (square, (3, 2)), (one, (1, 3)), (batch, (2, 3, 1)), (batch, (3, 2)), ((2, 1, 3, 3), (4, 3, 2)),
        )
    ]  # fmt: skip
    return [
        *_triangular_samples(),
        *_parts_of_matrix(
            triangular.Cholesky, lambda a: np.linalg.cholesky(_symmetric(a)), positive_definite, True,
            square, one, batch, (2, 1, 5, 5),
        ),
        Sample(systems.LUResiduals, _solve, (regular(4, 4), normal(4, 2)), np.linalg.solve, empty=False),
        *solving,
        *_determinant_samples(),
        Sample(
            eigh.EighResiduals,
            lambda a: eigh.Eigenvalues(eigh.EighResiduals(a), a),
            (positive_definite(3, 3),),
            lambda a: np.linalg.eigvalsh(_symmetric(a)),
            empty=False,
        ),
        *_parts_of_matrix(
            eigh.Eigenvalues, lambda a: np.linalg.eigvalsh(_symmetric(a)), positive_definite, False, square, one, batch
        ),
        *_parts_of_matrix(
            eigh.Eigenvectors, lambda a: np.linalg.eigh(_symmetric(a))[1], positive_definite, False, square, one, batch
        ),
        Sample(
            eig.EigResiduals,
            lambda a: eig.GeneralEigenvalues(eig.EigResiduals(a), a),
            (real_spectrum(3, 3),),
            _eigenvalues,
            empty=False,
            misfit=(normal(3, 4),),
        ),
        *_parts_of_matrix(eig.GeneralEigenvalues, _eigenvalues, real_spectrum, False, square, one, batch),
        *(
            Sample(
                eig.GeneralEigenvectors,
                # The signs of the vectors are those of the library of each engine.
                lambda a: eig.GeneralEigenvectors(eig.EigResiduals(a), a).square(),
                (real_spectrum(*shape),),
                lambda a: np.linalg.eig(a)[1].real ** 2,
                name=f"GeneralEigenvectors-{shape}",
                empty=len(shape) > 2,
            )
            for shape in (square, one, batch)
        ),
        Sample(
            eig.EigenvectorSolve,
            lambda a, b: eig.EigenvectorSolve(systems.LUResiduals(a), a, b, True),
            (regular(3, 3), normal(3, 2)),
            lambda a, b: np.linalg.solve(a.T, b),
            empty=False,
        ),
        Sample(
            svd.SVDResiduals,
            lambda a: svd.SingularValues(svd.SVDResiduals(a), a),
            (regular(3, 4),),
            np.linalg.svdvals,
            empty=False,
        ),
        *_parts_of_matrix(svd.SingularValues, np.linalg.svdvals, regular, False, square, tall, wide),
        *_parts_of_matrix(svd.LeftSingularVectors, _left, regular, False, square, one, tall, wide),
        *_parts_of_matrix(svd.RightSingularVectors, _right, regular, False, square, one, tall, wide),
        *(
            Sample(
                svd.PseudoInverse,
                lambda a: svd.PseudoInverse(a, 1e-9),
                (regular(*shape),),
                np.linalg.pinv,
                name=f"PseudoInverse-{shape}",
                empty=len(shape) > 2,
            )
            for shape in (square, tall, wide)
        ),
        *(
            Sample(
                systems.LeastSquares,
                lambda a, b, t=turned: systems.LeastSquares(svd.SVDResiduals(a), a, b, 1e-9, t),
                (regular(*left), normal(*right)),
                lambda a, b, t=turned: np.linalg.pinv(np.swapaxes(a, -1, -2) if t else a) @ b,
                name=f"LeastSquares-{left}-{right}-{turned}",
                empty=False,
                misfit=(normal(3, 3), normal(4, 2)),
            )
            for left, right, turned in (
                (square, (3, 2), False), (tall, (4, 1), False), (tall, (2, 3, 2), True), (wide, (5, 1), True),
            )
        ),
        Sample(
            qr.QRResiduals,
            lambda a: qr.Orthonormal(qr.QRResiduals(a), a),
            (regular(4, 3),),
            lambda a: np.linalg.qr(a)[0],
            empty=False,
            misfit=(normal(3, 4),),
        ),
        *_parts_of_matrix(qr.Orthonormal, lambda a: np.linalg.qr(a)[0], regular, False, square, one, tall),
        *_parts_of_matrix(qr.UpperFactor, lambda a: np.linalg.qr(a)[1], regular, False, square, one, tall),
        *_parts_of_matrix(expm.MatrixExponential, linalg.expm, regular, True, square, one, batch),
        *(
            Sample(
                matrices.TriangularPart,
                lambda x, o=(lower, factor): matrices.TriangularPart(x, *o),
                (normal(*shape),),
                lambda x, o=(lower, factor): (np.tril(x, -1) if o[0] else np.triu(x, 1))
                + o[1] * np.eye(*x.shape[-2:]) * x,
                name=f"TriangularPart-{shape}-{lower}",
                misfit=(normal(3),),
            )
            for shape, lower, factor in (((3, 3), True, 1.0), ((2, 3, 5), False, 0.5), ((4, 2), True, 0.0))
        ),
        Sample(matrices.ReciprocalGaps, matrices.ReciprocalGaps, (distinct(2, 4),), _gaps),
    ]  # fmt: skip


__all__ = ["positive_definite", "real_spectrum", "regular", "samples"]

"""The lowering of linear algebra to `jax.lax.linalg`, for matrices in the last two axes.

A lowered program cannot raise `LinAlgError`. Where the other engines raise it, all elements of the result for that
matrix are NaN. The signs of eigenvectors and of singular vectors are those that the library of the device returns:
LAPACK's on a CPU, as in the other engines, and cuSOLVER's on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.graph.jax_form import JaxForm, Lowering

Operands = Sequence[Any]


def refused(wrong: Any, result: Any) -> Any:
    """Return the result with NaN for the matrices that are `wrong`; there is one element for each matrix."""
    import jax.numpy as jnp

    return jnp.where(wrong[..., None, None], jnp.nan, result)


def finite(a: Any) -> tuple[Any, Any]:
    """Return which matrices hold a NaN or an infinity, and the matrices with zeros in place of those.

    LAPACK may not return for a NaN.
    """
    import jax.numpy as jnp

    wrong = ~jnp.isfinite(a).all(axis=(-2, -1))
    return wrong, jnp.where(wrong[..., None, None], 0.0, a)


def symmetrized(a: Any) -> Any:
    """Return the mean of each matrix and its transpose."""
    return 0.5 * (a + a.mT)


def diagonal(a: Any) -> Any:
    """Return the diagonals of matrices."""
    import jax.numpy as jnp

    return jnp.diagonal(a, axis1=-2, axis2=-1)


class LUResidualsForm(JaxForm):
    """The factors and pivots as LAPACK returns them, like those of the other engines."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp
        from jax.lax.linalg import lu

        (a,) = operands
        if a.size == 0:
            return jnp.zeros(shape, a.dtype)
        factors, pivots, _ = lu(a.mT)
        return jnp.concatenate([factors.mT, pivots[..., None, :].astype(a.dtype)], axis=-2)


class SolveForm(JaxForm):
    """Two triangular systems; NaN for a singular matrix."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp
        from jax.scipy.linalg import lu_solve

        residuals, _, b = operands
        if b.size == 0 or residuals.size == 0:
            return jnp.zeros(shape, b.dtype)
        # The factors are those of the transposed matrix.
        factors, pivots = residuals[..., :-1, :].mT, residuals[..., -1, :].astype(jnp.int32)
        solution = lu_solve((factors, pivots), jnp.broadcast_to(b, shape), trans=0 if node.transposed else 1)
        return refused((diagonal(factors) == 0.0).any(axis=-1), solution)


class EighResidualsForm(JaxForm):
    """Eigenvalues in ascending order above the eigenvectors; NaN for a matrix with a NaN or an infinity."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        if operands[0].size == 0:
            return jnp.zeros(shape, operands[0].dtype)
        wrong, a = finite(operands[0])
        values, vectors = jnp.linalg.eigh(symmetrized(a), symmetrize_input=False)
        return refused(wrong, jnp.concatenate([values[..., None, :], vectors], axis=-2))


class SVDResidualsForm(JaxForm):
    """The singular values, in descending order, between the vectors; NaN for a matrix with a NaN or an infinity."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        if operands[0].size == 0:
            return jnp.zeros(shape, operands[0].dtype)
        wrong, a = finite(operands[0])
        left, values, right = jnp.linalg.svd(a, full_matrices=False)
        return refused(wrong, jnp.concatenate([left, values[..., None, :], right.mT], axis=-2))


class PseudoInverseForm(JaxForm):
    """The pseudoinverse by a singular value decomposition; NaN for a matrix with a NaN or an infinity."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        if operands[0].size == 0:
            return jnp.zeros(shape, operands[0].dtype)
        wrong, a = finite(operands[0])
        return refused(wrong, jnp.linalg.pinv(a, rtol=node.cutoff))


class QRResidualsForm(JaxForm):
    """The orthonormal columns above the transposed triangular factor."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        if operands[0].size == 0:
            return jnp.zeros(shape, operands[0].dtype)
        orthonormal, upper = jnp.linalg.qr(operands[0])
        return jnp.concatenate([orthonormal, upper.mT], axis=-2)


class UpperFactorForm(JaxForm):
    """The transposed last rows of the residuals."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        residuals, a = operands
        return residuals[..., a.shape[-2] :, :].mT


class CholeskyForm(JaxForm):
    """The lower triangular factor; NaN for a matrix that is not positive definite."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp
        from jax.lax.linalg import cholesky

        (a,) = operands
        if a.size == 0:
            return jnp.zeros(shape, a.dtype)
        factor = cholesky(symmetrized(a), symmetrize_input=False)
        return refused(~(diagonal(factor) > 0.0).all(axis=-1), factor)


class TriangularSolveForm(JaxForm):
    """The solution by substitution; NaN for a singular matrix."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp
        from jax.lax.linalg import triangular_solve

        a, b = operands
        if a.size == 0 or b.size == 0:
            return jnp.zeros(shape, b.dtype)
        solution = triangular_solve(
            jnp.broadcast_to(a, (*shape[:-2], *a.shape[-2:])), jnp.broadcast_to(b, shape), left_side=True,
            lower=node.lower, transpose_a=node.transposed, unit_diagonal=node.unit_diagonal,
        )  # fmt: skip
        if node.unit_diagonal:
            return solution
        return refused((diagonal(a) == 0.0).any(axis=-1), solution)


class ReciprocalGapsForm(JaxForm):
    """The reciprocal gaps; NaN for values of which two are equal."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        (x,) = operands
        gaps = x[..., None, :] - x[..., :, None]
        same = jnp.eye(shape[-1], dtype=bool)
        wrong = ((gaps == 0.0) & ~same).any(axis=(-2, -1))
        return refused(wrong, jnp.where(same, 0.0, 1.0 / jnp.where(same, 1.0, gaps)))


class MatrixExponentialForm(JaxForm):
    """The exponential by scaling and squaring.

    NaN for a matrix with a NaN or an infinity, and for one whose 1-norm is above 250,000.
    """

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax.scipy.linalg import expm

        (a,) = operands
        return expm(a) if a.size else a

"""The lowering of linear algebra to `jax.lax.linalg`, for matrices in the last two axes.

A lowered program cannot raise `LinAlgError`. Where the other engines raise it, all elements of the result for that
matrix are NaN. The signs of eigenvectors and of singular vectors are those that the library of the device returns:
LAPACK's on a CPU, as in the other engines, and cuSOLVER's on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.support.imports import jax, jnp

Operands = Sequence[Any]


def refused(wrong: Any, result: Any) -> Any:
    """Return the result with NaN for the matrices that are `wrong`; there is one element for each matrix."""
    return jnp.where(wrong[..., None, None], jnp.nan, result)


def finite(a: Any) -> tuple[Any, Any]:
    """Return which matrices hold a NaN or an infinity, and the matrices with zeros in place of those.

    LAPACK may not return for a NaN.
    """
    wrong = ~jnp.isfinite(a).all(axis=(-2, -1))
    return wrong, jnp.where(wrong[..., None, None], 0.0, a)


def symmetrized(a: Any) -> Any:
    """Return the mean of each matrix and its transpose."""
    return 0.5 * (a + a.mT)


def diagonal(a: Any) -> Any:
    """Return the diagonals of square matrices."""
    numbers = jnp.arange(a.shape[-1])
    return jnp.where(numbers == numbers[:, None], a, 0.0).sum(axis=-1)


class _MatrixForm(JaxForm):
    """A form that computes nothing where an operand has no elements."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        if any(x.size == 0 for x in operands):
            return lowering.xp.zeros(shape, operands[-1].dtype)
        return self.compute(node, operands, shape)

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        """Return the value for operands with elements."""
        raise NotImplementedError


class LUResidualsForm(_MatrixForm):
    """The factors and pivots as LAPACK returns them, like those of the other engines."""

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        from jax.lax.linalg import lu

        (a,) = operands
        factors, pivots, _ = lu(a.mT)
        return jnp.concatenate([factors.mT, pivots[..., None, :].astype(a.dtype)], axis=-2)


class SolveForm(_MatrixForm):
    """Two triangular systems; NaN for a singular matrix."""

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        from jax.scipy.linalg import lu_solve

        residuals, _, b = operands
        # The factors and pivots are those of the transposed matrix.
        factors, pivots = residuals[..., :-1, :].mT, residuals[..., -1, :].astype(jnp.int32)
        solution = lu_solve((factors, pivots), jnp.broadcast_to(b, shape), trans=0 if node.transposed else 1)
        return refused((jnp.abs(diagonal(factors)) <= node.least_pivot).any(axis=-1), solution)


class EigResidualsForm(_MatrixForm):
    """Eigenvalues above the eigenvectors; NaN for a matrix with a NaN, an infinity, or a complex eigenvalue."""

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        # JAX has no derivatives of these vectors: `EigPartForm` has those of the graph.
        wrong, a = finite(jax.lax.stop_gradient(operands[0]))
        values, vectors = jnp.linalg.eig(a)
        wrong |= (values.imag != 0.0).any(axis=-1)
        return refused(wrong, jnp.concatenate([values.real[..., None, :], vectors.real], axis=-2))


class EigPartForm(JaxForm):
    """Some rows of the residuals, with the gradient of the graph."""

    def own_gradient(self, node: Any) -> bool:
        return True


class EighResidualsForm(_MatrixForm):
    """Eigenvalues in ascending order above the eigenvectors; NaN for a matrix with a NaN or an infinity."""

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        wrong, a = finite(operands[0])
        values, vectors = jnp.linalg.eigh(symmetrized(a), symmetrize_input=False)
        return refused(wrong, jnp.concatenate([values[..., None, :], vectors], axis=-2))


class SVDResidualsForm(_MatrixForm):
    """The singular values, in descending order, between the vectors; NaN for a matrix with a NaN or an infinity."""

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        wrong, a = finite(operands[0])
        left, values, right = jnp.linalg.svd(a, full_matrices=False)
        return refused(wrong, jnp.concatenate([left, values[..., None, :], right.mT], axis=-2))


class PseudoInverseForm(_MatrixForm):
    """The pseudoinverse by a singular value decomposition; NaN for a matrix with a NaN or an infinity."""

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        wrong, a = finite(operands[0])
        return refused(wrong, jnp.linalg.pinv(a, rtol=node.cutoff))


class QRResidualsForm(_MatrixForm):
    """The orthonormal columns above the transposed triangular factor."""

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        orthonormal, upper = jnp.linalg.qr(operands[0])
        return jnp.concatenate([orthonormal, upper.mT], axis=-2)


class UpperFactorForm(JaxForm):
    """The transposed last rows of the residuals."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        residuals, a = operands
        return residuals[..., a.shape[-2] :, :].mT


class CholeskyForm(_MatrixForm):
    """The lower triangular factor; NaN for a matrix that is not positive definite."""

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        from jax.lax.linalg import cholesky

        (a,) = operands
        factor = cholesky(symmetrized(a), symmetrize_input=False)
        return refused(~(diagonal(factor) > 0.0).all(axis=-1), factor)


class TriangularSolveForm(_MatrixForm):
    """The solution by substitution; NaN for a singular matrix."""

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        from jax.lax.linalg import triangular_solve

        a, b = operands
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
        (x,) = operands
        gaps = x[..., None, :] - x[..., :, None]
        same = jnp.eye(shape[-1], dtype=bool)
        wrong = ((gaps == 0.0) & ~same).any(axis=(-2, -1))
        return refused(wrong, jnp.where(same, 0.0, 1.0 / jnp.where(same, 1.0, gaps)))


class MatrixExponentialForm(_MatrixForm):
    """The exponential by scaling and squaring.

    NaN for a matrix with a NaN or an infinity, and for one whose 1-norm is above 250,000.
    """

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        from jax.scipy.linalg import expm

        (a,) = operands
        return expm(a) if a.size else a


class DeterminantForm(JaxForm):
    """The product of the diagonal of the factors, or of its signs, or the sum of the logarithms of its elements."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        residuals = operands[0]
        elements = diagonal(residuals[..., :-1, :])
        if node.part == "logarithm":
            return jnp.log(jnp.abs(elements)).sum(axis=-1)
        # Each interchange of rows changes the sign.
        is_interchange = residuals[..., -1, :] != jnp.arange(residuals.shape[-1])
        sign = jnp.where(is_interchange, -1.0, 1.0).astype(residuals.dtype).prod(axis=-1)
        return sign * (elements if node.part == "value" else jnp.sign(elements)).prod(axis=-1)


class CofactorsForm(_MatrixForm):
    """The determinant times the transposed inverse; a singular value decomposition runs where that is not finite."""

    def compute(self, node: Any, operands: Operands, shape: tuple[int, ...]) -> Any:
        a = operands[1]
        usual, others = self._usual(a)
        return jax.lax.cond(others.any(), lambda: self._of_vectors(a, usual, others), lambda: usual)

    def _usual(self, a: Any) -> tuple[Any, Any]:
        """Return the cofactors of regular matrices, and which matrices need others."""
        determinants = jnp.linalg.det(a)[..., None, None]
        usual = determinants * jnp.linalg.inv(a).mT
        is_wrong = (determinants[..., 0, 0] == 0.0) | ~jnp.isfinite(usual).all(axis=(-2, -1))
        return usual, is_wrong & ~finite(a)[0]

    def _of_vectors(self, a: Any, usual: Any, others: Any) -> Any:
        """Return cofactors from singular vectors, for the matrices that need them."""
        left, values, right = jnp.linalg.svd(finite(a)[1])
        sign = jnp.sign(jnp.linalg.det(left) * jnp.linalg.det(right))[..., None]
        products = jnp.where(jnp.eye(a.shape[-1], dtype=bool), 1.0, values[..., None, :]).prod(axis=-1)
        found = (left * (sign * products)[..., None, :]) @ right
        return jnp.where(others[..., None, None], found, usual)

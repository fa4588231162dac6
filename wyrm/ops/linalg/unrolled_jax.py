"""Factorizations of small matrices from elementary operations, unrolled, for runtimes that have no others.

Any leading axes are batches, also open ones.
"""

from __future__ import annotations

from typing import Any

# The most rows of a matrix: the code has some operations for each.
MOST_ROWS = 64


def lu(a: Any) -> tuple[Any, Any]:
    """Return both factors in one matrix and the pivots, counted from 0, as `jax.lax.linalg.lu` does."""
    import jax.numpy as jnp

    size = a.shape[-1]
    numbers = jnp.arange(size)
    pivots: list[Any] = []
    for k in range(size):
        pivot = k + jnp.argmax(jnp.abs(a[..., k:, k]), axis=-1)
        pivots.append(pivot)
        a = interchanged(a, k, pivot)
        column, row = a[..., :, k], a[..., k, :]
        largest = column[..., k : k + 1]
        factors = jnp.where((numbers > k) & (largest != 0.0), column / jnp.where(largest == 0.0, 1.0, largest), 0.0)
        rest = jnp.where(numbers > k, row, 0.0)
        a = a - factors[..., :, None] * rest[..., None, :]
        is_factor = (numbers > k)[:, None] & (numbers == k)
        a = jnp.where(is_factor, factors[..., :, None], a)
    return a, jnp.stack(pivots, axis=-1)


def interchanged(a: Any, k: int, row: Any) -> Any:
    """Return matrices with row `k` and row `row` interchanged; `row` has an element for each matrix."""
    import jax.numpy as jnp

    numbers = jnp.arange(a.shape[-2])
    chosen = (numbers == row[..., None])[..., None]
    taken = jnp.where(chosen, a, 0.0).sum(axis=-2, keepdims=True)
    a = jnp.where(chosen, a[..., k : k + 1, :], a)
    return jnp.where((numbers == k)[:, None], taken, a)


def cholesky(a: Any) -> Any:
    """Return the lower triangular factor; NaN for matrices that are not positive definite."""
    import jax.numpy as jnp

    size = a.shape[-1]
    numbers = jnp.arange(size)
    factor = jnp.zeros_like(a)
    for k in range(size):
        rest = a[..., :, k] - (factor * factor[..., k : k + 1, :]).sum(axis=-1)
        root = jnp.sqrt(rest[..., k : k + 1])
        column = jnp.where(numbers == k, root, jnp.where(numbers > k, rest / root, 0.0))
        factor = jnp.where(numbers == k, column[..., :, None], factor)
    return factor


def lu_solve(factors: Any, pivots: Any, b: Any, transposed: bool) -> Any:
    """Return the solution of a system, or of the transposed one, from the factors and pivots of its matrix."""
    import jax.numpy as jnp
    from jax.lax.linalg import triangular_solve

    size = factors.shape[-1]
    factors = jnp.broadcast_to(factors, (*b.shape[:-2], size, size))
    if not transposed:
        for k in range(size):
            b = interchanged(b, k, pivots[..., k])
        b = triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
        return triangular_solve(factors, b, left_side=True, lower=False)
    b = triangular_solve(factors, b, left_side=True, lower=False, transpose_a=True)
    b = triangular_solve(factors, b, left_side=True, lower=True, transpose_a=True, unit_diagonal=True)
    for k in reversed(range(size)):
        b = interchanged(b, k, pivots[..., k])
    return b


__all__ = ["MOST_ROWS", "cholesky", "interchanged", "lu", "lu_solve"]

"""QR, eigenvalues and singular values from elementary operations of JAX, for runtimes that have no others.

Any leading axes are batches, also open ones. QR is Householder's, with the signs of LAPACK. Eigenvalues of symmetric
matrices and singular values are Jacobi's: a round rotates disjoint pairs of columns, and a sweep has a round for all
pairs; twelve sweeps are more than float32 and float64 need for matrices of a few hundred rows. Golub and Van Loan,
"Matrix computations" (2013), sections 5.2, 8.5 and 8.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_SWEEPS = 12


def qr(a: Any, full: bool) -> tuple[Any, Any]:
    """Return Q and R of matrices (..., m, n), all m columns of Q if `full`."""
    import jax.numpy as jnp

    m, n = a.shape[-2:]
    identity, rows = jnp.eye(m, dtype=a.dtype), np.arange(m)
    # The identity as matrices of the batch, without a shape that may be open.
    q = identity + 0 * a[..., :, :1]
    for k in range(min(m - 1, n)):
        below = jnp.where(rows > k, a[..., :, k], 0)
        first = a[..., k, k]
        squares = (below * below).sum(axis=-1)
        norm = jnp.sqrt(first * first + squares)
        beta = jnp.where(first > 0, -norm, norm)
        moves = squares > 0
        unit = jnp.asarray((rows == k).astype(a.dtype))
        v = below + (first - beta)[..., None] * unit
        scale = jnp.where(moves, 2 / jnp.where(moves, (v * v).sum(axis=-1), 1), 0)[..., None, None]
        a = a - scale * v[..., :, None] * (v[..., :, None] * a).sum(axis=-2, keepdims=True)
        q = q - scale * (q * v[..., None, :]).sum(axis=-1, keepdims=True) * v[..., None, :]
    r = jnp.where(np.arange(m)[:, None] <= np.arange(n), a, 0)
    return (q, r) if full else (q[..., :, : min(m, n)], r[..., : min(m, n), :])


def eigh(a: Any) -> tuple[Any, Any]:
    """Return the eigenvectors, as columns, and the ascending eigenvalues of symmetric matrices (..., n, n)."""
    import jax.numpy as jnp

    n = a.shape[-1]

    def entries(state: tuple[Any, Any], p: Any, q: Any) -> tuple[Any, Any, Any]:
        rows_p, rows_q = p @ state[0], q @ state[0]
        return (rows_p * p).sum(axis=-1), (rows_q * q).sum(axis=-1), (rows_p * q).sum(axis=-1)

    def turned(state: tuple[Any, Any], rotation: Any) -> tuple[Any, Any]:
        return jnp.swapaxes(rotation, -1, -2) @ state[0] @ rotation, state[1] @ rotation

    first = a, jnp.eye(n, dtype=a.dtype) + 0 * a
    last, vectors = _swept(first, n, a.dtype, entries, turned)
    values = (last * np.eye(n, dtype=a.dtype)).sum(axis=-1)
    return _sorted(values, vectors, values)


def svd(a: Any, full: bool) -> tuple[Any, Any, Any]:
    """Return the descending singular values of matrices (..., m, n), the left vectors, and the right ones as rows."""
    import jax.numpy as jnp

    m, n = a.shape[-2:]
    if m < n:
        values, left, right = svd(jnp.swapaxes(a, -1, -2), full)
        return values, jnp.swapaxes(right, -1, -2), jnp.swapaxes(left, -1, -2)

    def entries(state: tuple[Any, Any], p: Any, q: Any) -> tuple[Any, Any, Any]:
        columns_p, columns_q = state[0] @ p.T, state[0] @ q.T
        pairs = (columns_p, columns_p), (columns_q, columns_q), (columns_p, columns_q)
        first, second, both = ((x * y).sum(axis=-2) for x, y in pairs)
        return first, second, both

    def turned(state: tuple[Any, Any], rotation: Any) -> tuple[Any, Any]:
        return state[0] @ rotation, state[1] @ rotation

    # Of order 1, so that no square overflows or vanishes.
    size = jnp.abs(a).max(axis=(-2, -1), keepdims=True) if m * n else jnp.ones((1, 1), a.dtype)
    size = jnp.where(size > 0, size, 1)
    first = a / size, jnp.eye(n, dtype=a.dtype) + 0 * jnp.swapaxes(a[..., :1, :], -1, -2)
    columns, right = _swept(first, n, a.dtype, entries, turned)
    values = jnp.sqrt((columns * columns).sum(axis=-2))
    right, _ = _sorted(-values, right, values)
    columns, values = _sorted(-values, columns, values)
    # Its columns are orthogonal, so R is diagonal; Q has vectors for singular values of 0 too.
    left, r = qr(columns, full)
    signs = jnp.where((r[..., :n, :] * np.eye(n, dtype=a.dtype)).sum(axis=-1) < 0, -1, 1).astype(a.dtype)
    if m > n and full:
        signs = jnp.concatenate([signs, jnp.ones_like(left[..., 0, n:])], axis=-1)
    return values * size[..., 0], left * signs[..., None, :], jnp.swapaxes(right, -1, -2)


def _swept(
    state: tuple[Any, Any],
    n: int,
    dtype: Any,
    entries: Callable[[tuple[Any, Any], Any, Any], tuple[Any, Any, Any]],
    turned: Callable[[tuple[Any, Any], Any], tuple[Any, Any]],
) -> tuple[Any, Any]:
    """Return the state after all sweeps; `entries` gives the two diagonal numbers of each pair and that beside them."""
    import jax
    import jax.numpy as jnp

    if n < 2:
        return state

    def sweep(state: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        for first, second in _rounds(n):
            p, q = (jnp.asarray(np.eye(n, dtype=dtype)[pair]) for pair in (first, second))
            app, aqq, apq = entries(state, p, q)
            is_zero = apq == 0
            tau = (aqq - app) / (2 * jnp.where(is_zero, 1, apq))
            # Of the two angles, the smaller one; written so that nothing overflows.
            tangent = jnp.where(tau >= 0, 1, -1) / (jnp.abs(tau) + jnp.hypot(tau, jnp.ones_like(tau)))
            tangent = jnp.where(is_zero, 0, tangent).astype(dtype)
            cosine = 1 / jnp.sqrt(1 + tangent * tangent)
            sine = tangent * cosine
            rest = jnp.asarray(np.diag(1 - np.eye(n, dtype=dtype)[[*first, *second]].sum(axis=0)))
            rotation = (
                rest
                + (p.T * cosine[..., None, :]) @ p + (q.T * cosine[..., None, :]) @ q
                + (p.T * sine[..., None, :]) @ q - (q.T * sine[..., None, :]) @ p
            )  # fmt: skip
            state = turned(state, rotation)
        return state, None

    swept: tuple[Any, Any] = jax.lax.scan(sweep, state, None, _SWEEPS)[0]
    return swept


def _rounds(n: int) -> list[tuple[list[int], list[int]]]:
    """Return rounds of disjoint pairs that are all pairs together, as of a tournament.

    >>> _rounds(4)
    [([0, 1], [3, 2]), ([0, 3], [2, 1]), ([0, 2], [1, 3])]
    """
    players = [*range(n), *([-1] if n % 2 else [])]
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = [pair for pair in zip(players[:half], reversed(players[half:]), strict=True) if -1 not in pair]
        rounds.append(([pair[0] for pair in pairs], [pair[1] for pair in pairs]))
        players = [players[0], players[-1], *players[1:-1]]
    return rounds


def _sorted(keys: Any, columns: Any, values: Any) -> tuple[Any, Any]:
    """Return columns and values in the ascending order of keys."""

    n = keys.shape[-1]
    numbers = np.arange(n)
    smaller = (keys[..., None, :] < keys[..., :, None]) | (
        (keys[..., None, :] == keys[..., :, None]) & (numbers < numbers[:, None])
    )
    places = smaller.sum(axis=-1)
    chosen = (places[..., :, None] == numbers).astype(columns.dtype)
    return columns @ chosen, (values[..., :, None] * chosen).sum(axis=-2)


__all__ = ["eigh", "qr", "svd"]

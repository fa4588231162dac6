"""The largest elements along an axis that devices divide: each ranks its own, then the best of all are ranked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import MeshAxes, Sharding


def largest(x: Any, k: int) -> Any:
    """Return the indices of the `k` largest elements along the last axis, the largest first, of equal ones the first.

    >>> from wyrm.engines.jax.ranking import largest
    >>> largest(np.array([1.0, 3.0, 3.0]), 2).tolist()
    [1, 2]
    """
    from jax import lax

    return lax.top_k(x, k)[1]


def largest_of_all(sharding: Sharding, x: Any, k: int, mesh_axes: MeshAxes, spec: tuple[Any, ...]) -> Any:
    """Return what `largest` does for an array whose last axis is divided over `mesh_axes`, and the others as in `spec`.

    Each device sends the best `k` elements that it has, and their indices.
    """
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import PartitionSpec

    devices, size = sharding.devices(mesh_axes), x.shape[-1]
    # Padding is the least element, and comes after those that equal it.
    least = -jnp.inf if x.dtype.kind == "f" or x.dtype == jnp.bfloat16 else np.iinfo(x.dtype).min
    padded = jnp.pad(x, [*[(0, 0)] * (x.ndim - 1), (0, -size % devices)], constant_values=least)

    def local(own: Any) -> Any:
        values, indices = lax.top_k(own, min(k, own.shape[-1]))
        indices = indices + lax.axis_index(mesh_axes) * own.shape[-1]
        values, indices = (
            lax.all_gather(each, mesh_axes, axis=each.ndim - 1, tiled=True) for each in (values, indices)
        )
        return jnp.take_along_axis(indices, lax.top_k(values, k)[1], axis=-1)

    ranked: Any = jax.shard_map(
        local,
        mesh=sharding.mesh,
        in_specs=PartitionSpec(*spec, mesh_axes),
        out_specs=PartitionSpec(*spec, None),
        check_vma=False,
    )
    return ranked(padded)


__all__ = ["largest", "largest_of_all"]

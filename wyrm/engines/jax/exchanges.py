"""Sums and gathers over the processes of CPUs by messages between pairs of them.

Gloo adds up and gathers in rings of many small messages, each of which waits for its turn on a busy machine: about
3 ms for 16 kB where one message each way takes 0.6 ms. Here devices whose numbers differ in one bit exchange what they
have, once for each bit ("recursive doubling": Thakur et al., "Optimization of collective communication operations in
MPICH", 2005). A device gets as many bytes as in a ring when gathering; of sums, as many for two devices.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import MeshAxes, Sharding

# The most devices for sums: more get more bytes than in a ring.
_MOST_OF_SUMS = 4


def exchanges(sharding: Sharding, mesh_axes: MeshAxes, *, sums: bool = False) -> bool:
    """Return whether devices along mesh axes exchange by pairs: processes on CPUs, as many as a power of two."""
    devices = sharding.devices(mesh_axes)
    fits = len(mesh_axes) == 1 and devices > 1 and not devices & (devices - 1)
    return fits and (not sums or devices <= _MOST_OF_SUMS) and on_processes_of_cpus(sharding.mesh)


@cache
def on_processes_of_cpus(mesh: Any) -> bool:
    """Return whether the devices of a mesh are CPUs of several processes; the mesh of a plan has no devices."""
    from jax.sharding import AbstractMesh

    if isinstance(mesh, AbstractMesh):
        return False
    devices = mesh.devices
    return len({each.process_index for each in devices.flat}) > 1 and devices.flat[0].platform == "cpu"


def gathered(sharding: Sharding, rows: Any, mesh_axes: MeshAxes) -> Any:
    """Return the rows of all devices on each of them; every device has one row."""
    import jax.numpy as jnp

    def both(own: Any, other: Any, is_first: Any) -> Any:
        return jnp.concatenate([jnp.where(is_first, own, other), jnp.where(is_first, other, own)])

    return _by_pairs(sharding, rows, mesh_axes, both)


def added(sharding: Sharding, rows: Any, mesh_axes: MeshAxes) -> Any:
    """Return the sum of the rows of all devices on each of them, with the same bits; every device has one row."""
    return _by_pairs(sharding, rows, mesh_axes, lambda own, other, _: own + other)[0]


def _by_pairs(sharding: Sharding, rows: Any, mesh_axes: MeshAxes, joined: Callable[[Any, Any, Any], Any]) -> Any:
    import jax
    from jax import lax
    from jax.sharding import PartitionSpec

    (axis,), devices = mesh_axes, sharding.devices(mesh_axes)

    def on_device(own: Any) -> Any:
        number = lax.axis_index(axis)
        distance = 1
        while distance < devices:
            other = lax.ppermute(own, axis, [(i, i ^ distance) for i in range(devices)])
            own = joined(own, other, number & distance == 0)
            distance *= 2
        return own

    mapped = jax.shard_map(
        on_device, mesh=sharding.mesh, in_specs=PartitionSpec(axis), out_specs=PartitionSpec(), check_vma=False
    )
    return mapped(rows)


__all__ = ["added", "exchanges", "gathered", "on_processes_of_cpus"]

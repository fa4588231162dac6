"""Arrays in Orbax's checkpoints, of which the host has the part of one device at a time beside the devices' own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from wyrm.support.imports import jax

# The bytes of a chunk in a file. It is read whole, also for a device that needs a few of its rows.
_CHUNK_BYTES = 4_000_000


def arrays_handler() -> Any:
    """Return Orbax's handler of a pytree of arrays.

    It writes arrays without compression, which would hold a second copy of each: CPUs' arrays are written from their
    place. It reads the part of one device after that of another.
    """
    from orbax.checkpoint import PyTreeCheckpointHandler, type_handlers

    class ArrayHandler(type_handlers.ArrayHandler):  # type: ignore[misc]  # Orbax is not read by type checkers
        async def deserialize(self, infos: Sequence[Any], args: Sequence[Any] | None = None) -> Any:
            turns = _Turns()
            return await super().deserialize([info.replace(byte_limiter=turns) for info in infos], args)

    registry = type_handlers.create_type_handler_registry((jax.Array, ArrayHandler()))
    return PyTreeCheckpointHandler(use_compression=False, type_handler_registry=registry)


class _Turns:
    """Orbax's protocol of a limit for bytes on the host: one part after another, whatever their sizes."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        await self._turn.acquire()
        # JAX frees the part before once its device has it, and then at the next transfer.
        jax.block_until_ready(jax.live_arrays())
        jax.device_put(0)

    async def release_bytes(self, requested_bytes: int) -> None:
        self._turn.release()


def saving(tree: Any) -> Any:
    """Return Orbax's arguments that save a pytree of arrays."""
    from orbax.checkpoint import SaveArgs, args

    return args.PyTreeSave(tree, save_args=jax.tree.map(lambda _: SaveArgs(chunk_byte_size=_CHUNK_BYTES), tree))


def restoring(tree: Any) -> Any:
    """Return Orbax's arguments that restore arrays with the shapes and placements of those of `tree`.

    Orbax pads arrays and takes off padding, as another mesh needs it. Dtypes are those of the checkpoint: to give them
    would copy every part.
    """
    from orbax.checkpoint import ArrayRestoreArgs, args

    def wanted(array: Any) -> Any:
        return ArrayRestoreArgs(sharding=array.sharding, global_shape=array.shape, strict=False)

    return args.PyTreeRestore(
        jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding), tree),
        restore_args=jax.tree.map(wanted, tree),
    )

"""Local steps: each device takes several steps with its own copy of the parameters, then all copies are averaged.

A step of a small batch waits for messages longer than it computes. Here a device does a number of steps with its part
of each batch without any message, as if it trained alone on smaller batches. Then one all-reduce averages the
parameters and the optimizer's state (local SGD: Stich, 2019). The numbers are not those of training on whole batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.engines.jax.state import State
from wyrm.errors import OptionError
from wyrm.graph.axes import resolve
from wyrm.graph.base import describe
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.support.imports import jax, jnp, lax

if TYPE_CHECKING:
    from wyrm.engines.jax.graph import JaxGraph
    from wyrm.engines.jax.sharding import MeshAxes, Sharding
    from wyrm.engines.jax.step import StepFunctions

# A random step is two words. From this bit of the upper word on stands the number of the device.
_DEVICE_BIT = np.uint32(20)


class LocalSteps:
    """The loop over batches with `count` local steps between averages; `functions` are those of one device.

    Raise `OptionError` unless the sharding divides the axis of the batch alone.
    """

    def __init__(self, functions: StepFunctions, sharding: Sharding, count: int) -> None:
        self.functions = functions
        self.graph: JaxGraph = functions.graph
        self.sharding = sharding
        self.count = count
        self.mesh_axes: MeshAxes = self._of_batch()

    def _of_batch(self) -> MeshAxes:
        graph, found = self.graph, set[tuple[str, ...]]()
        for leaf in (*graph.trained, *graph.held, *graph.fed):
            divided = self.sharding.divided_axes(leaf.dims)
            if divided and not isinstance(leaf, Input | IndexInput):
                raise OptionError(
                    f"local_steps={self.count}: sharding divides {describe(leaf)}, but each device needs a copy of its "
                    f"own; map the axis of the batch alone, as in sharding={{Batch: 'data'}}"
                )
            found |= {mesh_axes for _, mesh_axes in divided}
        if len(found) != 1:
            raise OptionError(
                f"local_steps={self.count} needs a mesh of several devices and one divided axis, that of the batch, as "
                f"in sharding={{Batch: 'data'}}"
            )
        return found.pop()

    def loop(
        self,
        state: State,
        held: Sequence[Any],
        feeds: Sequence[Any],
        numbers: Mapping[str, Any],
        step: Any,
        bounds: Any,
    ) -> tuple[State, tuple[Any, Any]]:
        """Return what `StepFunctions.loop` does, with means over the devices; the copies are averaged at the end.

        If a step fails on a device, none of the steps since the last average changes anything.
        """
        from jax.sharding import PartitionSpec

        whole = PartitionSpec()
        placed = [
            self.sharding.of_array(leaf, array.shape).spec for leaf, array in zip(self.graph.fed, feeds, strict=True)
        ]
        mapped = jax.shard_map(
            self._on_device,
            mesh=self.sharding.mesh,
            in_specs=(whole, whole, placed, whole, whole, whole),
            out_specs=(whole, (whole, whole)),
            check_vma=False,
        )
        state, found = mapped(state, list(held), list(feeds), dict(numbers), step, bounds)
        return state, found

    def _on_device(
        self, state: State, held: list[Any], feeds: list[Any], numbers: dict[str, Any], step: Any, bounds: Any
    ) -> tuple[State, tuple[Any, Any]]:
        # Devices draw different numbers: the upper word of a step is far from its last bits.
        own = step.at[1].set(step[1] ^ (lax.axis_index(self.mesh_axes).astype(np.uint32) << _DEVICE_BIT))

        def steps(state: State, first: Any, stop: Any) -> tuple[State, tuple[Any, Any]]:
            return self.functions.loop(1, state, held, feeds, numbers, own, (first, stop))

        def body(carried: tuple[Any, State, Any, Any]) -> tuple[Any, State, Any, Any]:
            first, before, outputs, _ = carried
            stop = jnp.minimum(first + self.count, bounds[1])
            after, (found, outside) = steps(before, first, stop)
            moves = lax.pmin(after.alive.astype(np.int32), self.mesh_axes) > 0
            found = found.at[:, -1].multiply(moves)
            return stop, self._averaged(before, after, moves), outputs + found, self._first_outside(outside, feeds)

        state = state._replace(alive=jnp.asarray(state.alive))
        _, (outputs, outside) = steps(state, bounds[0], bounds[0])
        start = (bounds[0], state, outputs, outside)
        _, state, outputs, outside = lax.while_loop(lambda now: (now[0] < bounds[1]) & now[1].alive, body, start)
        return state, (lax.pmean(outputs, self.mesh_axes), outside)

    def _averaged(self, before: State, after: State, moves: Any) -> State:
        """Return the mean of the states of all devices, or where `moves` is false the one before.

        The mean of a row of a table, and of its state, is that of the devices which moved the row.
        """
        old, structure = jax.tree.flatten((before.values, before.slots))
        new = jax.tree.leaves((after.values, after.slots))
        tables = set(self.graph.targets.rows)
        by_rows = [leaf in tables for leaf in self.graph.trained]
        by_rows += [
            parameter in tables
            for parameter, slots in zip(self.graph.parameters, before.slots, strict=True)
            for _ in slots
        ]
        parts: list[Any] = []
        for sparse, array, start in zip(by_rows, new, old, strict=True):
            # A row of a table changes on some devices, which are counted. Other arrays change on all of them.
            axes = tuple(range(1, array.ndim))
            moved = (array != start).any(axis=axes) if sparse else jnp.ones((1,), bool)
            parts += [(array - start).reshape(-1), moved.astype(array.dtype)] if array.dtype.kind == "f" else []
        totals = iter(lax.psum(parts, self.mesh_axes))
        for i, (array, start) in enumerate(zip(new, old, strict=True)):
            if array.dtype.kind == "f":
                change, counts = next(totals).reshape(array.shape), jnp.maximum(next(totals), 1)
                mean = start + change / (counts if array.ndim == 0 else counts.reshape(-1, *[1] * (array.ndim - 1)))
                new[i] = mean.reshape(array.shape)
        kept = [jnp.where(moves, mean, array) for mean, array in zip(new, old, strict=True)]
        values, slots = jax.tree.unflatten(structure, kept)
        return State(values, slots, moves)

    def _first_outside(self, outside: Any, feeds: Sequence[Any]) -> Any:
        """Return the indices out of range of the first device that has some, with positions in the whole batch."""
        if not self.graph.checks:
            return outside
        shapes = {leaf: array.shape[1:] for leaf, array in zip(self.graph.fed, feeds, strict=True)}
        sizes = self.graph.schedule.bind(shapes)
        device = lax.axis_index(self.mesh_axes)
        rows = [
            np.prod(resolve(check.indices.dims, sizes), dtype=int) if self._is_divided(check.indices.dims) else 0
            for check in self.graph.checks
        ]
        moved = outside.at[:, 1].add(jnp.asarray(rows, outside.dtype) * device.astype(outside.dtype))
        every = lax.all_gather(moved, self.mesh_axes)
        return every[jnp.argmax((every[:, :, 0] != 0).any(axis=1))]

    def _is_divided(self, dims: Sequence[Any]) -> bool:
        """Return whether the first of these axes is that of the batch, so that positions count rows of all devices."""
        divided = self.sharding.divided_axes(tuple(dims))
        return bool(divided) and divided[0][0] == 0

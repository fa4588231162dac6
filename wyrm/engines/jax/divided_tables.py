"""The tables of a graph whose rows are divided over devices, and rankings along a divided axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.engines.graph import ProgramGraph
from wyrm.engines.jax.partial_sums import PartialSum
from wyrm.engines.jax.row_exchange import RowExchange
from wyrm.graph.axes import Axis
from wyrm.graph.base import BaseNode
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import Constant
from wyrm.graph.parameters import Parameter
from wyrm.support.imports import jax, jnp, lax

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import MeshAxes, Sharding


def lookups(nodes: Iterable[BaseNode]) -> set[BaseNode]:
    """Return the nodes that look up rows of a table, their first parent."""
    return {node for node in nodes if JAX.of(node).looks_up_rows}


def ranked_axes(nodes: Iterable[Any]) -> list[Axis]:
    """Return the axes along which nodes rank elements."""
    return [node.parents[0].dims[node.axis] for node in nodes if JAX.of(node).ranks]


def paddable(graph: ProgramGraph) -> set[BaseNode]:
    """Return the parameters that may have any number of rows: tables, and those that the program does not train.

    An optimizer's rule over a whole parameter would see the padding.
    """
    optimizer = graph.optimizer
    trained = set(graph.parameters)
    tables = {node.parents[0] for node in lookups(graph.schedule.nodes)}
    return {
        leaf
        for leaf in graph.schedule.leaves
        if isinstance(leaf, Parameter)
        and (leaf not in trained or (leaf in tables and optimizer is not None and optimizer.rule(leaf).elementwise))
    }


class DividedTables:
    """The tables that a graph only looks up rows of, in `exchanges`, and other leaves whose rows have padding."""

    def __init__(self, graph: ProgramGraph, sharding: Sharding | None) -> None:
        self.exchanges: dict[BaseNode, RowExchange] = {}
        self._sharding, self._padded = sharding, dict[BaseNode, int]()
        # The mesh axes that divide the indices of each table with a row-sparse gradient, if they are the same for all.
        self._of_batch: dict[BaseNode, MeshAxes] = {}
        if sharding is None:
            return
        for table, pairs in graph.targets.rows.items():
            axes = {tuple(sharding.divided_axes(indices.dims)) for _, indices in pairs}
            every = {tuple(mesh_axes for _, mesh_axes in each) for each in axes}
            if len(every) == 1 and len(only := every.pop()) == 1:
                self._of_batch[table] = only[0]
        found = lookups(graph.schedule.nodes)
        targets = set(graph.targets.gradients)
        elsewhere = {parent for node in graph.schedule.nodes if node not in found for parent in node.parents}
        elsewhere |= {node.parents[1] for node in found} | {*graph.schedule.outputs} | targets
        for leaf in graph.schedule.leaves:
            if not isinstance(leaf, Parameter | Constant) or not sharding.row_axes(leaf):
                continue
            own = [node for node in found if node.parents[0] is leaf]
            if own and leaf not in elsewhere:
                of_batch = [axes for node in own for _, axes in sharding.divided_axes(node.parents[1].dims)]
                self.exchanges[leaf] = RowExchange(sharding, leaf, tuple(name for axes in of_batch for name in axes))
            elif sharding.stored_shape(leaf, leaf.shape) != leaf.shape:
                self._padded[leaf] = leaf.shape[0]

    def values(self, known: Mapping[BaseNode, Any]) -> dict[BaseNode, Any]:
        """Return values of leaves without padding, but tables of `exchanges` as they are stored."""
        return {leaf: self._unpadded(leaf, value) if leaf in self._padded else value for leaf, value in known.items()}

    def _unpadded(self, leaf: BaseNode, value: Any) -> Any:
        """Return the rows of a leaf, on the devices that own them."""
        assert self._sharding is not None
        return jax.lax.with_sharding_constraint(value[: self._padded[leaf]], self._sharding.of(leaf))

    def is_lookup(self, node: BaseNode) -> bool:
        """Return whether a node looks up rows that other devices may own."""
        return bool(node.parents) and node.parents[0] in self.exchanges

    def lookup(self, node: BaseNode, operands: Sequence[Any], dtype: Any) -> Any:
        """Return the value of a node for which `is_lookup`."""
        table, indices = operands
        position = self._batch_axis(node.parents[1])
        moved = jnp.moveaxis(indices, position, 0)
        found = self.exchanges[node.parents[0]].lookup(table, moved.reshape(-1), dtype)
        return jnp.moveaxis(found.reshape(*moved.shape, *found.shape[1:]), 0, position)

    def pairs(self, table: BaseNode, terms: Iterable[tuple[Any, Any, BaseNode]]) -> list[tuple[Any, Any]]:
        """Return the pairs (gradient, indices) of a table; a term is a gradient, its indices and their node.

        On a mesh, devices divide the first axis, and no two pairs have the same indices.
        """
        if self._sharding is None or (table not in self.exchanges and self._sharding.divided_axes(table.dims)):
            return [(gradient, rows) for gradient, rows, _ in terms]
        sums: dict[BaseNode, tuple[Any, Any]] = {}
        for gradient, rows, indices in terms:
            sums[indices] = (gradient if indices not in sums else sums[indices][0] + gradient), rows
        found = []
        for indices, (gradient, rows) in sums.items():
            position = self._batch_axis(indices)
            values = jnp.moveaxis(gradient, position, 0).reshape(-1, *table.shape[1:])
            found.append((values, jnp.moveaxis(rows, position, 0).reshape(-1)))
        return found

    def gathered(
        self, tables: Sequence[BaseNode], gradients: Sequence[Any], sums: Sequence[Any] = ()
    ) -> tuple[list[Any], list[Any]]:
        """Return gradients with the pairs of tables that all devices hold on all of them: in one message for each mesh.

        A message has the bits of the values and the row numbers of all pairs whose rows the devices divide equally. The
        parts of partial `sums` go with them; these are returned too, added up where a message had them.
        """
        found, added = list(gradients), list(sums)
        if self._sharding is None:
            return found, added
        joined: dict[MeshAxes, list[tuple[int, int]]] = {}
        for i, (table, gradient) in enumerate(zip(tables, gradients, strict=True)):
            if not isinstance(gradient, list) or self._sharding.divided_axes(table.dims):
                continue
            found[i] = list(gradient)
            for j, (values, rows) in enumerate(gradient):
                mesh_axes = self._of_batch.get(table, ())
                if (values.dtype, rows.dtype, rows.ndim) != (np.float32, np.int32, 1):
                    continue  # of other types, or of several batches
                if mesh_axes and len(rows) % self._sharding.devices(mesh_axes) == 0:
                    joined.setdefault(mesh_axes, []).append((i, j))
        for mesh_axes, places in joined.items():
            devices = self._sharding.devices(mesh_axes)
            parts = [
                part.reshape(devices, -1)
                for i, j in places
                for part in (lax.bitcast_convert_type(gradients[i][j][0], np.int32), gradients[i][j][1])
            ]
            own_sums = [
                i
                for i, value in enumerate(sums)
                if isinstance(value, PartialSum) and (value.mesh_axes, value.dtype) == (mesh_axes, np.float32)
            ]
            parts += [lax.bitcast_convert_type(sums[i].parts, np.int32).reshape(devices, -1) for i in own_sums]
            flat = self._sharding.constrained(jnp.concatenate(parts, axis=1), mesh_axes)
            ends = np.cumsum([part.shape[1] for part in parts])[:-1]
            own = iter(jnp.split(self._sharding.constrained(flat, ()), ends, axis=1))
            for i, j in places:
                values, rows = gradients[i][j]
                bits = next(own).reshape(values.shape)
                found[i][j] = lax.bitcast_convert_type(bits, np.float32), next(own).reshape(rows.shape)
            for i in own_sums:
                every_part = lax.bitcast_convert_type(next(own), np.float32).reshape(sums[i].parts.shape)
                added[i] = every_part.sum(axis=0)
        return found, added

    def padded(self, leaf: BaseNode, gradient: Any) -> Any:
        """Return the dense gradient of a leaf with zeros for its padding."""
        if leaf not in self._padded or self._sharding is None:
            return gradient
        more = self._sharding.stored_shape(leaf, leaf.shape)[0] - leaf.shape[0]
        return jnp.pad(gradient, [(0, more), *[(0, 0)] * (len(leaf.shape) - 1)])

    def _batch_axis(self, indices: BaseNode) -> int:
        """Return the axis of indices that devices divide, which becomes the first one so that it stays divided."""
        assert self._sharding is not None
        divided = self._sharding.divided_axes(indices.dims)
        return divided[0][0] if divided else 0


def largest(x: Any, k: int) -> Any:
    """Return the indices of the `k` largest elements along the last axis, the largest first, of equal ones the first.

    >>> from wyrm.engines.jax.divided_tables import largest
    >>> largest(np.array([1.0, 3.0, 3.0]), 2).tolist()
    [1, 2]
    """
    return lax.top_k(x, k)[1]


def largest_of_all(sharding: Sharding, x: Any, k: int, mesh_axes: MeshAxes, spec: tuple[Any, ...]) -> Any:
    """Return what `largest` does for an array whose last axis is divided over `mesh_axes`, and the others as in `spec`.

    Each device sends the best `k` elements that it has, and their indices.
    """
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


__all__ = ["DividedTables", "largest", "largest_of_all", "paddable", "ranked_axes"]

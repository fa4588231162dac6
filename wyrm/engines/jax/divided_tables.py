"""Tables whose rows are divided over devices: lookups, gradients and updates send only the rows that a batch touches.

Each device has a part of the batch, and owns a block of rows. It sends each row number once, to the owner of the row,
and gets the row back; the sum of the row's gradients goes the same way, and the owner updates its rows, with the
optimizer's state beside them. XLA needs messages of a fixed size. They have room for more rows than uniform random
numbers need; where many numbers belong to one owner, there are more rounds, and no row is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wyrm.engines.graph import ProgramGraph
from wyrm.engines.jax.partial_sums import PartialSum
from wyrm.errors import OptionError
from wyrm.graph.axes import Axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import Constant
from wyrm.graph.parameters import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.support.imports import jax, jnp, lax

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import MeshAxes, Sharding

# A table with at most so many rows for each index of a step has a gradient of its own size. XLA updates all rows in
# one loop, where it would gather and scatter the touched ones of the table and of each state, one by one on a CPU.
FEW_ROWS = 2


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
        self.of_batch: dict[BaseNode, MeshAxes] = {}
        if sharding is None:
            return
        for table, pairs in graph.targets.rows.items():
            axes = {tuple(sharding.divided_axes(indices.dims)) for _, indices in pairs}
            every = {tuple(mesh_axes for _, mesh_axes in each) for each in axes}
            if len(every) == 1 and len(only := every.pop()) == 1:
                self.of_batch[table] = only[0]
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

    def gathered(self, table: BaseNode, pairs: Sequence[tuple[Any, Any]]) -> Sequence[tuple[Any, Any]]:
        """Return the pairs of a table on all devices, if all hold it."""
        if self._sharding is None or table not in self.of_batch or self._sharding.divided_axes(table.dims):
            return pairs
        return [(self._sharding.constrained(values), self._sharding.constrained(rows)) for values, rows in pairs]

    def counted(self, table: BaseNode, pairs: Sequence[tuple[Any, Any]]) -> Any:
        """Return the sum of pairs for all rows of a table, with one more column: how many pairs a row has.

        It is a partial sum, of the parts that the devices have; or an array, where they do not divide the pairs.
        """
        assert self._sharding is not None
        mesh_axes, size = self.of_batch[table], table.shape[0]
        terms = [values.reshape(len(values), -1) for values, _ in pairs]
        terms = [jnp.concatenate([each, jnp.ones((len(each), 1), each.dtype)], axis=1) for each in terms]

        def local(*parts: Any) -> Any:
            return summed(parts[::2], jnp.concatenate(parts[1::2]), size)

        given = [array for pair in zip(terms, (rows for _, rows in pairs), strict=True) for array in pair]
        devices = self._sharding.devices(mesh_axes)
        if any(len(array) % devices for array in given):
            return local(*given)
        from jax.sharding import PartitionSpec

        spec = PartitionSpec(mesh_axes)
        found: Any = jax.shard_map(
            lambda *parts: local(*parts)[None],
            mesh=self._sharding.mesh,
            in_specs=(spec,) * len(given),
            out_specs=spec,
            check_vma=False,
        )
        return PartialSum(found(*given), mesh_axes)

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


def by_sorting(rows: Any, size: int, count: int) -> tuple[Any, Any]:
    """Return `count` touched rows and the places of `rows`, in time that does not grow with the table.

    Numbers that are at least `size` are padding.

    >>> import jax.numpy as jnp
    >>> from wyrm.engines.jax.divided_tables import by_sorting
    >>> by_sorting(jnp.array([7, 2, 7, 4]), size=9, count=4)
    (Array([2, 4, 7, 9], dtype=int32), Array([2, 0, 2, 1], dtype=int32))
    """
    ordered, given = lax.sort((rows, jnp.arange(len(rows), dtype=jnp.int32)), num_keys=1)
    before = jnp.concatenate([ordered[:1], ordered[:-1]])
    places = lax.cumsum((ordered != before).astype(np.int32))
    found = jnp.full(count, size, rows.dtype).at[places].set(ordered, mode="drop", indices_are_sorted=True)
    return found, jnp.zeros_like(places).at[given].set(places, unique_indices=True)


def by_marks(rows: Any, size: int, count: int) -> tuple[Any, Any]:
    """Return `count` touched rows and the places of `rows`, without sorting, with a mark for each row of the table.

    >>> import jax.numpy as jnp
    >>> from wyrm.engines.jax.divided_tables import by_marks
    >>> by_marks(jnp.array([7, 2, 7, 4]), size=9, count=4)
    (Array([2, 4, 7, 9], dtype=int32), Array([2, 0, 2, 1], dtype=int32))
    """
    touched = jnp.zeros(size, np.int32).at[rows].set(1)
    places = jnp.cumsum(touched) - 1
    found = jnp.full(count, size, rows.dtype)
    found = found.at[jnp.where(touched, places, count)].set(jnp.arange(size, dtype=rows.dtype), mode="drop")
    return found, places[rows]


def summed(gradients: Sequence[Any], places: Any, count: int) -> Any:
    """Return the sum for each of `count` rows of the gradients of lookups, whose rows stand at `places`, in order.

    Each lookup is added up first: rows of two lookups that cancel do so exactly only then.

    >>> import jax.numpy as jnp
    >>> from wyrm.engines.jax.divided_tables import summed
    >>> summed([jnp.array([0.1, 0.7]), jnp.array([-0.1, -0.7])], jnp.array([0, 0, 0, 0]), count=1).tolist()
    [0.0]
    """
    parts = jnp.split(places, np.cumsum([len(each) for each in gradients[:-1]]))
    sums = [jax.ops.segment_sum(x, part, num_segments=count) for x, part in zip(gradients, parts, strict=True)]
    if len(sums) > 1:  # XLA would add the terms of one lookup to the sum of another
        sums = lax.optimization_barrier(sums)
    return sum(sums[1:], sums[0])


# The room of a message, in standard deviations above the mean number of rows of an owner.
_DEVIATIONS = 4.0
# The room is a multiple of this.
_ROUNDED = 8
# The new rows of a table and of its state, from the old ones, their gradient, and the numbers of the step.
RowRule = Callable[[list[Any], Any, Any], list[Any]]


def room(count: int, owners: int, rows: int) -> int:
    """Return how many rows of each of `owners` devices, which own `rows` each, a device with `count` rows sends.

    >>> from wyrm.engines.jax.divided_tables import room
    >>> room(512, owners=8, rows=250_000), room(512, owners=8, rows=10)
    (104, 10)
    """
    mean = count / owners
    enough = math.ceil(mean + _DEVIATIONS * math.sqrt(mean) + 1)
    return max(1, min(count, rows, -(-enough // _ROUNDED) * _ROUNDED))


def written_rows(
    arrays: Sequence[Any], rows: Any, gradients: Any, rule: RowRule, numbers: Any, moves: Any
) -> list[Any]:
    """Return a table and its state with new values of some rows, given in ascending order with their gradients.

    A row number beyond the table is padding. Where `moves` is false, nothing changes.
    """
    new = rule([array.at[rows].get(mode="clip") for array in arrays], gradients, numbers)
    targets = jnp.where(moves, rows, arrays[0].shape[0])
    return [
        array.at[targets].set(after, mode="drop", indices_are_sorted=True)
        for array, after in zip(arrays, new, strict=True)
    ]


class _Sorted(NamedTuple):
    """Row numbers of a device in ascending order, each once, then numbers after the last row.

    Those of owner k are at `starts[k]` to `ends[k] - 1`. `places` has the place of each of the numbers given.
    """

    rows: Any
    places: Any
    starts: Any
    ends: Any


class RowExchange:
    """The rows of one table on the devices that own them; `sharding` divides its first axis.

    Row numbers and gradients are divided over `sources`: the mesh axes `of_batch` and those of the table's rows.
    """

    def __init__(self, sharding: Sharding, table: BaseNode, of_batch: MeshAxes) -> None:
        self._sharding = sharding
        self.shape: tuple[int, ...] = tuple(table.shape)
        self.mesh_axes: MeshAxes = sharding.row_axes(table)
        self.owners: int = sharding.devices(self.mesh_axes)
        # The rows of each owner. The last rows of the last owners may be padding.
        self.rows: int = -(-self.shape[0] // self.owners)
        if self.padding > np.iinfo(np.int32).max:
            raise OptionError(
                f"{describe(table)} has {self.shape[0]:,} rows, and devices exchange row numbers below 2**31: divide "
                f"its columns over the mesh instead of its rows, or make several tables of it"
            )
        self._columns: tuple[Any, ...] = tuple(sharding.of(table).spec[1:])
        self._column_axes: MeshAxes = tuple(
            name for entry in self._columns for name in ((entry,) if isinstance(entry, str) else entry or ())
        )
        wanted = dict.fromkeys((*of_batch, *self.mesh_axes))
        self.sources: MeshAxes = tuple(name for name in wanted if name not in self._column_axes)

    @property
    def terms(self) -> int:
        """The most terms that are added up to the gradient of a row: one of each device with a part of the batch."""
        return self._sharding.devices(self.sources)

    @property
    def padding(self) -> int:
        """The row number of padding: the first one after the rows of all owners."""
        return self.rows * self.owners

    # --- functions of arrays that devices divide ------------------------------------------------------------------

    def lookup(self, table: Any, indices: Any, dtype: Any) -> Any:
        """Return rows of the table in `dtype`, one for each of the indices (n,); NaN for an index out of range."""
        (_, divided), count = self._flat([(None, indices)]), indices.shape[0]

        def local(table: Any, indices: Any) -> Any:
            found = self._gathered(table, indices, dtype)
            inside = (indices < self.shape[0]).reshape(-1, *[1] * (found.ndim - 1))
            return jnp.where(inside, found, jnp.asarray(jnp.nan, dtype))

        result = self._on_devices(local, (self._of_table(), self._of_rows()), self._of_values())
        return result(table, divided)[:count]

    def summed(self, pairs: Sequence[tuple[Any, Any]]) -> RowSparse:
        """Return the sum of (gradient, indices) pairs, of shapes (n, ...) and (n,), without duplicates on a device.

        The arrays are divided over the devices of the batch; each device has the terms of its part.
        """

        def local(*parts: Any) -> tuple[Any, Any]:
            found = self._sorted(jnp.concatenate(parts[1::2]))
            return found.rows, summed(parts[::2], found.places, len(found.rows))

        of_rows, of_values = self._of_rows(), self._of_values()
        result = self._on_devices(local, (of_values, of_rows) * len(pairs), (of_rows, of_values))
        rows, values = result(*self._flat(pairs))
        return RowSparse(rows, values, self.shape)

    def update(self, arrays: Sequence[Any], gradient: RowSparse, rule: RowRule, numbers: Any, moves: Any) -> list[Any]:
        """Return the table and its state after a step; only the rows of a result of `summed` are written.

        `rule` is called for the rows of a round, on the devices that own them. Where `moves` is false, nothing changes.
        """

        def local(rows: Any, values: Any, moves: Any, numbers: Any, *arrays: Any) -> tuple[Any, ...]:
            def write(arrays: tuple[Any, ...], rows: Any, sums: Any) -> tuple[Any, ...]:
                return tuple(written_rows(arrays, rows, sums, rule, numbers, moves))

            return self._rounds(rows, values, write, arrays)

        whole, own = self._of((), ()), (self._of_table(),) * len(arrays)
        result = self._on_devices(local, (self._of_rows(), self._of_values(), whole, whole, *own), own)
        return list(result(gradient.rows, gradient.values, moves, numbers, *arrays))

    def total(self, gradient: RowSparse, of_sums: Callable[[Any], Any], dtype: np.dtype) -> Any:
        """Return the total, of this dtype, of a number that `of_sums` gives for the sums of some rows of a gradient."""
        divided = (*self.mesh_axes, *self._column_axes)

        def local(rows: Any, values: Any) -> Any:
            def add(totals: tuple[Any, ...], rows: Any, sums: Any) -> tuple[Any, ...]:
                return (totals[0] + of_sums(sums),)

            return lax.psum(self._rounds(rows, values, add, (jnp.zeros((), dtype),))[0], divided)

        on_devices = self._on_devices(local, (self._of_rows(), self._of_values()), self._of((), ()))
        return on_devices(gradient.rows, gradient.values)

    # --- functions of a device's own arrays -----------------------------------------------------------------------

    def _sorted(self, rows: Any) -> _Sorted:
        found, places = by_sorting(rows, self.padding, len(rows))
        bounds = jnp.searchsorted(found, self._bounds(), method="compare_all")
        return _Sorted(found, places, bounds[:-1], bounds[1:])

    def _bounds(self) -> Any:
        """Return the first row of each owner, and the number of padding."""
        return np.arange(self.owners + 1, dtype=np.int32) * np.int32(self.rows)

    def _gathered(self, table: Any, indices: Any, dtype: Any) -> Any:
        """Return the rows of the owners for a device's own indices."""
        wanted = self._sorted(indices)
        count = len(wanted.rows)
        many = room(count, self.owners, self.rows)
        rounds = lax.pmax((wanted.ends - wanted.starts + (many - 1)).max() // many, self.sources)
        first = self._bounds()[:-1, None]

        def body(state: tuple[Any, Any]) -> tuple[Any, Any]:
            turn, found = state
            places = wanted.starts[:, None] + turn * many + jnp.arange(many)
            sent = places < wanted.ends[:, None]
            asked = jnp.where(sent, wanted.rows.at[places].get(mode="clip") - first, 0)
            answers = table.at[self._exchanged(asked)].get(mode="clip").astype(dtype)
            return turn + 1, found.at[jnp.where(sent, places, count)].set(self._exchanged(answers), mode="drop")

        start = jnp.zeros((), rounds.dtype), jnp.zeros((count, *table.shape[1:]), dtype)
        _, found = lax.while_loop(lambda state: state[0] < rounds, body, start)
        return found[wanted.places]

    def _rounds(
        self,
        rows: Any,
        values: Any,
        use: Callable[[tuple[Any, ...], Any, Any], tuple[Any, ...]],
        carried: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Bring all gradients of a row to its owner, in as few rounds as there is room for; return what `use` carries.

        `use(carried, rows, sums)` gets the owner's own numbers of the rows of a round in ascending order, then padding,
        `self.rows`. All terms of a row come in the same round: in each one, an owner gets the rows below a limit, which
        is the lowest that a device has room for.
        """
        bounds = self._bounds()
        many = room(len(rows), self.owners, self.rows)
        edges = jnp.searchsorted(rows, bounds, method="compare_all")
        ends, replicas = edges[1:], tuple(name for name in self.sources if name not in self.mesh_axes)

        def limits(starts: Any) -> Any:
            after = starts + many
            own = jnp.where(after < ends, rows.at[after].get(mode="clip"), bounds[1:])
            return lax.pmin(own, self.sources)

        def body(state: tuple[Any, Any, tuple[Any, ...], Any]) -> tuple[Any, Any, tuple[Any, ...], Any]:
            starts, limit, carried, _ = state
            stops = jnp.searchsorted(rows, limit, method="compare_all")
            places = starts[:, None] + jnp.arange(many)
            own = rows.at[places].get(mode="clip") - bounds[:-1, None]
            got = self._exchanged(jnp.where(places < stops[:, None], own, self.rows)).reshape(-1)
            terms = self._exchanged(values.at[places].get(mode="clip")).reshape(-1, *values.shape[1:])
            if replicas:  # each of them updates its copy of the table with the rows of all
                got, terms = lax.all_gather(got, replicas, tiled=True), lax.all_gather(terms, replicas, tiled=True)
            once, order = by_sorting(got, self.rows, len(got))
            sums = jax.ops.segment_sum(terms, order, num_segments=len(got))
            # The sum of padding is that of rows which belong to later rounds, or to nobody.
            sums = jnp.where((once < self.rows).reshape(-1, *[1] * (sums.ndim - 1)), sums, 0)
            return stops, limits(stops), use(carried, once, sums), (limit < bounds[1:]).any()

        start = edges[:-1], limits(edges[:-1]), carried, jnp.ones((), bool)
        result: tuple[Any, ...] = lax.while_loop(lambda state: state[3], body, start)[2]
        return result

    def _exchanged(self, parts: Any) -> Any:
        """Return what the owners sent to this device for what it sent to each of them."""
        return lax.all_to_all(parts, self.mesh_axes, 0, 0, tiled=True)

    # --- placement ------------------------------------------------------------------------------------------------

    def _flat(self, pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        """Return gradients and indices with a length that the devices divide; indices out of range become padding."""
        devices, found = self._sharding.devices(self.sources), []
        for gradient, indices in pairs:
            more = max(-(-indices.shape[0] // devices), 1) * devices - indices.shape[0]
            inside = (indices >= 0) & (indices < self.shape[0])
            rows = jnp.where(inside, indices, self.padding).astype(np.int32)
            if more:
                rows = jnp.pad(rows, (0, more), constant_values=self.padding)
                if gradient is not None:
                    gradient = jnp.pad(gradient, [(0, more), *[(0, 0)] * (gradient.ndim - 1)])
            found += [gradient, rows]
        return found

    def _of_table(self) -> Any:
        return self._of(self.mesh_axes, self._columns)

    def _of_rows(self) -> Any:
        return self._of(self.sources, ())

    def _of_values(self) -> Any:
        return self._of(self.sources, self._columns)

    def _of(self, mesh_axes: MeshAxes, columns: tuple[Any, ...]) -> Any:
        from jax.sharding import PartitionSpec

        return PartitionSpec(*([mesh_axes or None] if mesh_axes or columns else []), *columns)

    def _on_devices(self, local: Callable[..., Any], given: Any, returned: Any) -> Any:
        return jax.shard_map(local, mesh=self._sharding.mesh, in_specs=given, out_specs=returned, check_vma=False)

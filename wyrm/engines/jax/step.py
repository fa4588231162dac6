"""The steps of a program as pure functions, which JAX compiles: of one batch, and of several that accumulate."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wyrm.engines.jax.divided_tables import FEW_ROWS, DividedTables
from wyrm.engines.jax.graph import JaxGraph, LoopChecks, beyond
from wyrm.engines.jax.loops import Values
from wyrm.engines.jax.lower import NO_PLACES, Lowerer, Sizes, dense, names_of_nodes
from wyrm.engines.jax.namespace import namespace
from wyrm.engines.jax.partial_sums import PartialSum, PartialSums, whole
from wyrm.engines.jax.state import Stacks, State, stacks_of
from wyrm.engines.jax.updates import JaxGradient, TouchedRows, Updates, all_finite, summed_rows
from wyrm.graph.axes import Dim, resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.parameters import Parameter
from wyrm.graph.ragged import Padding
from wyrm.graph.ragged_leaves import parts_of
from wyrm.graph.rows import RowSparse
from wyrm.graph.schedule import Schedule
from wyrm.ops.random.philox import ROWS_BEFORE, STEP
from wyrm.ops.random.philox_jax import as_words, sum_of_words, words_of
from wyrm.support.imports import jax, jnp, lax

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import Sharding


class Backward(NamedTuple):
    """The outputs of a batch, the gradients of units of parameters, and the new values of the buffers.

    A gradient is an array, a partial sum, or for a row-sparse one a list of pairs (values, row numbers). `outside` has
    the indices out of range; see `beyond` in `wyrm.engines.jax.graph`.
    """

    outputs: list[Any]
    gradients: list[Any]
    buffers: list[Any]
    outside: Any


# Returns what a batch computes, from the buffers, the batch's data and its random step.
Compute = Callable[[list[Any], list[Any], Any], Backward]
# Returns the total of a unit of parameters, placed on the devices.
PlaceTotal = Callable[[int, Any], Any]


def element(feeds: Sequence[Any], i: Any, count: int) -> list[Any]:
    """Return the data of batch `i` of `count`; an array may have one element for all batches."""
    return [lax.dynamic_index_in_dim(array, i if array.shape[0] == count else 0, keepdims=False) for array in feeds]


def step_after(step: Any, i: Any) -> Any:
    """Return the random step that is `i` steps after `step`, as two words."""
    xp: Any = namespace()
    return xp.stack(sum_of_words(words_of(step), as_words(xp.asarray(i, dtype=np.int32))))


def accumulated(
    compute: Compute,
    buffers: list[Any],
    feeds: Sequence[Any],
    rest: Sequence[Any] | None,
    weights: Any,
    step: Any,
    tables: Sequence[tuple[int, ...] | None],
    divided: Container[int],
    place: PlaceTotal,
) -> Backward:
    """Return what several batches compute: outputs and `outside` have a first axis of batches.

    The gradients are sums with `weights`, one for each batch. `feeds` have the equal batches along their first axis,
    `rest` has a last, smaller one. `tables` has the shape of a table with a row-sparse gradient, None for others. Such
    gradients are collected as pairs while these have fewer rows than the table, else added to a total of its size.
    Those of `divided` tables, of which each device has the pairs of its part of the batches, are always collected.
    """
    count = max(array.shape[0] for array in feeds)

    def weighted(buffers: list[Any], feed: list[Any], i: Any) -> Backward:
        found = compute(buffers, feed, step_after(step, i))
        return found._replace(gradients=[_scaled(gradient, weights[i]) for gradient in found.gradients])

    one = jax.eval_shape(lambda: weighted(buffers, element(feeds, 0, count), 0))
    totals = [
        None if unit in divided else place(unit, _nothing(gradient, table, count))
        for unit, (gradient, table) in enumerate(zip(one.gradients, tables, strict=True))
    ]

    def body(carried: tuple[list[Any], list[Any]], i: Any) -> Any:
        buffers, totals = carried
        found = weighted(buffers, element(feeds, i, count), i)
        totals = [
            place(unit, _plus(total, gradient))
            for unit, (total, gradient) in enumerate(zip(totals, found.gradients, strict=True))
        ]
        pairs = [each for total, each in zip(totals, found.gradients, strict=True) if total is None]
        return (found.buffers, totals), (found.outputs, found.outside, pairs)

    (buffers, totals), (outputs, outside, pairs) = lax.scan(body, (buffers, totals), jnp.arange(count, dtype=jnp.int32))
    outputs = [_by_device(each) for each in outputs]
    pairs = [[_of_devices(*pair) for pair in each] for each in pairs]
    if rest is not None:
        last = weighted(buffers, list(rest), count)
        buffers = last.buffers
        outputs = [_appended(each, value) for each, value in zip(outputs, last.outputs, strict=True)]
        outside = jnp.concatenate([outside, last.outside[None]])
        more = [each for total, each in zip(totals, last.gradients, strict=True) if total is None]
        pairs = [[*each, *others] for each, others in zip(pairs, more, strict=True)]
        totals = [_plus(total, gradient) for total, gradient in zip(totals, last.gradients, strict=True)]
    collected = iter(pairs)
    gradients = [next(collected) if total is None else total for total in totals]
    return Backward(outputs, gradients, buffers, outside)


def _scaled(gradient: Any, weight: Any) -> Any:
    if isinstance(gradient, PartialSum):
        return gradient.of_parts(_scaled(gradient.parts, weight))
    if isinstance(gradient, list):
        return [(_scaled(values, weight), rows) for values, rows in gradient]
    return gradient * weight.astype(gradient.dtype)


def _nothing(gradient: Any, table: tuple[int, ...] | None, batches: int) -> Any:
    """Return a total of zero for gradients of this shape; None where their pairs are collected."""
    if table is None:
        return jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), gradient)
    if batches * sum(rows.size for _, rows in gradient) < table[0]:
        return None
    return TouchedRows(jnp.zeros(table, gradient[0][0].dtype), jnp.zeros(table[0], bool))


def _by_device(output: Any) -> Any:
    """Return an output of all batches, with the devices of a partial sum first: a loop puts the batches first."""
    if not isinstance(output, PartialSum):
        return output
    return output.of_parts(namespace().moveaxis(output.parts, 1, 0))


def _of_devices(values: Any, rows: Any) -> tuple[Any, Any]:
    """Return the gradients and indices of all batches, without the axis of batches: a device has those of its parts."""
    if rows.ndim != 2:  # of batches, and of rows, which a mesh divides
        return values, rows
    return values.swapaxes(0, 1).reshape(-1, *values.shape[2:]), rows.swapaxes(0, 1).reshape(-1)


def _appended(outputs: Any, output: Any) -> Any:
    """Return the outputs of batches and of one more."""
    xp: Any = namespace()
    if not isinstance(outputs, PartialSum):
        return xp.append(outputs, whole(output))
    parts = output.parts if isinstance(output, PartialSum) else xp.zeros(len(outputs.parts)).at[0].set(output)
    return outputs.of_parts(xp.concatenate([outputs.parts, parts[:, None]], axis=1))


def _plus(total: Any, gradient: Any) -> Any:
    if total is None:
        return None
    if isinstance(total, TouchedRows):
        return total.joined(summed_rows(gradient, total.values.shape))
    if isinstance(total, PartialSum):
        # A last batch that the devices do not divide has no parts.
        parted = isinstance(gradient, PartialSum)
        parts = total.parts + gradient.parts if parted else total.parts.at[0].add(gradient)
        return total.of_parts(parts)
    return total + whole(gradient)


# The most bytes of gradients of which a device keeps its part while it accumulates those of sharded parameters (FSDP).
# They are reduced once in a step, as parameters are gathered once. Larger ones are reduced for each batch, for which
# parameters are gathered, and each device keeps its shards alone.
PARTS_BYTES = 2**30


class _Found(NamedTuple):
    """The values of nodes, and the indices out of range."""

    schedule: Schedule
    values: Values
    outside: Any

    def of(self, nodes: Sequence[BaseNode]) -> list[Any]:
        """Return the values of nodes, dense."""
        return [dense(self.values[self.schedule.position[node]]) for node in nodes]

    def stacked(self, nodes: Sequence[BaseNode]) -> Any:
        """Return the value of a single node, which may be a partial sum, or the values of several nodes, stacked."""
        if len(nodes) == 1:
            value = self.values[self.schedule.position[nodes[0]]]
            return value if isinstance(value, PartialSum) else dense(value)
        return self.values.stacked([self.schedule.position[node] for node in nodes])


class StepFunctions:
    """The functions of a program: `forward`, `backward`, `train` and `loop`, for data of any shapes.

    `held` are values of `JaxGraph.held`, `feed` of `JaxGraph.fed`. `step` seeds random nodes, as two words.
    """

    def __init__(
        self, graph: JaxGraph, narrow: Any = None, sharding: Sharding | None = None, stacked: bool = True
    ) -> None:
        self.graph = graph
        self.loop_checks: LoopChecks = LoopChecks(graph.schedule.nodes, graph.ranges)
        self._narrow = narrow
        self._place = None if sharding is None else sharding.place
        self._sums = None if sharding is None else PartialSums(sharding)
        self._keeps_parts = sharding is None or _keeps_parts(graph)
        self._sums_of_several = None if sharding is None else PartialSums(sharding, self._keeps_parts)
        self._sharding = sharding
        self._shards = 1 if sharding is None else int(sharding.mesh.size)
        self.tables: DividedTables = DividedTables(graph, sharding)
        targets = graph.targets
        by_rows = [gradient for pairs in targets.rows.values() for gradient, _ in pairs]
        self._wide = frozenset(
            [*targets.outputs, *targets.gradients.values(), *by_rows, *targets.buffer_updates.values()]
        )
        rows_as_pytree()
        self._names = names_of_nodes(graph.schedule.nodes)
        self._plan = self._lowerer({}).plan(graph.schedule)
        # Parameters of equal layers are stacked, but not sharded ones, whose axes have placements.
        self.stacks: Stacks = stacks_of(graph, self._plan if sharding is None and stacked else ())
        optimizer = graph.optimizer
        units = [graph.parameters[unit[0]] for unit in self.stacks.units]
        self.updates: Updates | None = None if optimizer is None else Updates(optimizer, units, self.tables.exchanges)

    def _lowerer(
        self, sizes: Sizes, sums: PartialSums | None = None, places: Mapping[type[Dim], Any] = NO_PLACES
    ) -> Lowerer:
        return Lowerer(
            sizes, narrow=self._narrow, wide=self._wide, place=self._place, sums=sums, tables=self.tables,
            sharding=self._sharding, shards=self._shards, places=places,
            report=self.loop_checks.report if self.loop_checks else None, names=self._names,
        )  # fmt: skip

    def _sizes(self, known: Mapping[BaseNode, Any]) -> Sizes:
        return self.graph.schedule.bind({leaf: tuple(known[leaf].shape) for leaf in self.graph.fed})

    def _known(self, values: Sequence[Any], held: Sequence[Any], feed: Sequence[Any], step: Any) -> dict[BaseNode, Any]:
        return self._leaves(held, feed, step) | dict(zip(self.graph.trained, values, strict=True))

    def _leaves(self, held: Sequence[Any], feed: Sequence[Any], step: Any) -> dict[BaseNode, Any]:
        """Return the values of the leaves that training does not change."""
        known: dict[BaseNode, Any] = dict(zip(self.graph.held, held, strict=True))
        known |= zip(self.graph.fed, feed, strict=True)
        return known | {STEP: step, ROWS_BEFORE: namespace().zeros_like(step)}

    def _values(
        self,
        known: Mapping[BaseNode, Any],
        stacks: Sequence[tuple[Sequence[BaseNode], Any]] = (),
        sums: PartialSums | None = None,
    ) -> _Found:
        """Return the values of the graph's nodes, given those of leaves."""
        schedule, checks, sizes = self.graph.schedule, self.graph.checks, self._sizes(known)
        known = self.tables.values(known)
        lowerer = self._lowerer(sizes, sums or self._sums, self._places(known))
        values = lowerer.compute(schedule, known, self._plan, stacks)
        indices = {check.indices: values[schedule.position[check.indices]] for check in checks}
        return _Found(schedule, values, beyond(checks, indices, sizes))

    def _places(self, known: Mapping[BaseNode, Any]) -> dict[type[Dim], Any]:
        """Return the place of each entry among those of all rows, by the axis of entries that devices may divide."""
        flat, found = self.graph.flat, dict[type[Dim], Any]()
        if flat is None or flat.padding is not Padding.PARTS or not self.graph.draws:
            return found
        for leaves in flat.inputs.values():
            parts = parts_of(leaves[0])
            if all(leaf in known for leaf in parts[1:]):
                rows, starts, lengths = (known[leaf] for leaf in parts[1:])
                before = namespace().cumulative_sum(lengths) - lengths
                found[type(parts.rows.dims[0])] = jnp.arange(rows.shape[0]) + (before - starts)[rows]
        return found

    def forward(
        self, values: Sequence[Any], held: Sequence[Any], feed: Sequence[Any], step: Any
    ) -> tuple[list[Any], Any]:
        """Return the outputs, and the indices out of range."""
        found = self._values(self._known(values, held, feed, step))
        return found.of(self.graph.targets.outputs), found.outside

    def backward(self, values: Sequence[Any], held: Sequence[Any], feed: Sequence[Any], step: Any) -> Backward:
        """Return the outputs, the gradients of the first one, and the new values of the buffers."""
        known = self._known(values, held, feed, step)
        units = [[i] for i in range(len(self.graph.parameters))]
        return self._totals(self._gradients(self._values(known), units), units)

    def _gradients(self, found: _Found, units: Sequence[Sequence[int]]) -> Backward:
        """Return what `backward` returns, with stacked gradients of each unit of parameters, and partial sums."""
        targets = self.graph.targets
        gradients: list[Any] = []
        for parameters in ([self.graph.parameters[i] for i in unit] for unit in units):
            if parameters[0] in targets.gradients:
                gradients.append(found.stacked([targets.gradients[parameter] for parameter in parameters]))
            else:
                terms = [(*found.of(pair), pair[1]) for pair in targets.rows[parameters[0]]]
                gradients.append(self.tables.pairs(parameters[0], terms))
        buffers = found.of([targets.buffer_updates[buffer] for buffer in self.graph.buffers])
        outputs = [found.stacked([output]) for output in targets.outputs]
        return Backward(outputs, gradients, buffers, found.outside)

    def _totals(self, found: Backward, units: Sequence[Sequence[int]], small: Container[int] = ()) -> Backward:
        """Return outputs and gradients with the sums over devices, and over equal rows of a table, added up.

        The tables of `small` units have been counted: see `_batch`.
        """
        parameters = [self.graph.parameters[unit[0]] for unit in units]
        gradients: list[JaxGradient] = [
            self._summed(parameter, gradient) if isinstance(gradient, list) else gradient
            for parameter, gradient in zip(parameters, found.gradients, strict=True)
        ]
        if self._sums is None:
            return found._replace(gradients=gradients)

        with jax.named_scope("gradients:sum"):
            totals = self._sums.totals([*gradients, *found.outputs], [*parameters, *(None for _ in found.outputs)])
        gradients = [
            TouchedRows.of_counted(total, parameter.shape) if unit in small else self.tables.padded(parameter, total)
            for unit, (parameter, total) in enumerate(zip(parameters, totals, strict=False))
        ]
        return found._replace(gradients=gradients, outputs=totals[len(units) :])

    def _summed(self, table: Parameter, pairs: Sequence[tuple[Any, Any]]) -> JaxGradient:
        """Return the gradient of a table, by rows."""
        exchange = self.tables.exchanges.get(table)
        return (
            summed_rows(self.tables.gathered(table, pairs), table.shape) if exchange is None else exchange.summed(pairs)
        )

    def _batch(
        self,
        values: Sequence[Any],
        held: Sequence[Any],
        feed: Sequence[Any],
        step: Any,
        sums: PartialSums | None,
        small: Container[int],
    ) -> Backward:
        """Return what a batch computes from the values of a `State`: gradients of units, with partial sums.

        Those of tables of `small` units are sums for all rows: see `DividedTables.counted`.
        """
        graph, units = self.graph, self.stacks.units
        leaves: list[list[Any]] = [[graph.parameters[i] for i in unit] for unit in units]
        leaves += [[buffer] for buffer in graph.buffers]
        arrays = list(zip(leaves, values, strict=True))
        known = self._leaves(held, feed, step) | {leaves[0]: array for leaves, array in arrays if len(leaves) == 1}
        found = self._gradients(self._values(known, [pair for pair in arrays if len(pair[0]) > 1], sums), units)
        counted = [
            self.tables.counted(leaves[unit][0], gradient) if unit in small else gradient
            for unit, gradient in enumerate(found.gradients)
        ]
        return found._replace(gradients=counted)

    def train(
        self,
        state: State,
        held: Sequence[Any],
        feed: Sequence[Any],
        numbers: Mapping[str, Any],
        step: Any,
        *,
        checks: bool = False,
    ) -> tuple[State, tuple[list[Any], Any]]:
        """Return the state after a step, the outputs, and the indices out of range.

        A loss or gradient that is not finite, or an index out of range, changes nothing, nor with `checks` does a new
        state that is not finite.
        """
        small = self._small_tables({leaf: array.shape for leaf, array in zip(self.graph.fed, feed, strict=True)})
        found = self._batch(state.values, held, feed, step, self._sums, small)
        found = self._totals(found, self.stacks.units, small)
        return self._moved(state, found, numbers, found.outputs[0], checks), (found.outputs, found.outside)

    def train_on_several(
        self,
        state: State,
        held: Sequence[Any],
        feeds: Sequence[Any],
        rest: Sequence[Any] | None,
        weights: Any,
        numbers: Mapping[str, Any],
        step: Any,
    ) -> tuple[State, tuple[list[Any], Any]]:
        """Return the state after a step with gradients of several batches, the outputs, and the indices out of range.

        The gradients are added up with these weights; see `accumulated`. Outputs have an element for each batch, and
        `step` is the random step of the first.
        """
        units, tables = self.stacks.units, self._units()
        shapes = {leaf: array.shape[1:] for leaf, array in zip(self.graph.fed, feeds, strict=True)}
        small = self._small_tables(shapes, max(array.shape[0] for array in feeds))

        def compute(buffers: list[Any], feed: list[Any], step: Any) -> Backward:
            values, step = self._of_batch(state.values[: len(units)], step)
            return self._batch([*values, *buffers], held, feed, step, self._sums_of_several, small)

        by_rows = {unit for unit, table in enumerate(tables) if table in self.graph.targets.rows} - small
        collected = [table.shape if unit in by_rows else None for unit, table in enumerate(tables)]
        divided = {unit for unit, table in enumerate(tables) if table in self.tables.exchanges}
        buffers = list(state.values[len(units) :])
        found = accumulated(compute, buffers, feeds, rest, weights, step, collected, divided, self._placed_total)
        found = self._totals(found, units, small)
        losses = found.outputs[0]
        return self._moved(state, found, numbers, (losses * weights).sum()), (found.outputs, found.outside)

    def _units(self) -> list[Parameter]:
        """Return the first parameter of each unit."""
        return [self.graph.parameters[unit[0]] for unit in self.stacks.units]

    def _small_tables(self, shapes: Mapping[BaseNode, tuple[int, ...]], batches: int = 1) -> set[int]:
        """Return the units that are tables with few rows for those of a step, of which each device adds up its part.

        These sums for all rows are reduced as those of dense gradients; the rows would be larger. `shapes` are those of
        a batch.
        """
        if not self.tables.of_batch:
            return set()
        sizes = self.graph.schedule.bind(dict(shapes))

        def rows(table: Parameter) -> int:
            indices = {indices for _, indices in self.graph.targets.rows[table]}
            return int(batches * sum(math.prod(resolve(each.dims, sizes)) for each in indices))

        return {
            unit
            for unit, table in enumerate(self._units())
            if table in self.tables.of_batch and table not in self.tables.exchanges
            if not self._is_divided(table) and table.shape[0] <= FEW_ROWS * rows(table)
        }

    def _is_divided(self, parameter: Parameter) -> bool:
        return self._sharding is not None and bool(self._sharding.divided_axes(parameter.dims))

    def _of_batch(self, values: Sequence[Any], step: Any) -> tuple[list[Any], Any]:
        """Return the units of parameters and the random step for one of several batches.

        Where devices keep shards alone, a barrier ties the parameters to the step, which differs between batches, so
        that XLA gathers them for each batch. Without it, XLA gathers all of them before the loop over batches, and
        every device keeps the whole model.
        """
        found, sharding = list(values), self._sharding
        if sharding is None or self._keeps_parts:
            return found, step
        for unit, positions in enumerate(self.stacks.units):
            parameter = self.graph.parameters[positions[0]]
            if parameter in self.graph.targets.gradients and self._is_divided(parameter):
                found[unit], step = jax.lax.optimization_barrier((found[unit], step))
        return found, step

    def _placed_total(self, unit: int, total: Any) -> Any:
        """Return the total of gradients, placed as the parameter, or as the parts of a partial sum."""
        return total if self._sums is None else self._sums.placed(total, self.graph.parameters[unit])

    def _moved(
        self, state: State, found: Backward, numbers: Mapping[str, Any], loss: Any, checks: bool = False
    ) -> State:
        """Return the state after the optimizer's step with the gradients of one batch or several."""
        assert self.updates is not None
        xp: Any = namespace()
        count, gradients = len(self.stacks.units), found.gradients
        new = self.updates.after(state.values[:count], gradients, state.slots, numbers) if checks else ()
        moves = state.alive & ~xp.any(found.outside[..., 0] != 0) & xp.isfinite(loss)
        moves &= self.updates.finite(gradients, new)
        if checks:
            moves &= all_finite([[new] for new in found.buffers if xp.isdtype(new.dtype, "real floating")])
        moved, slots = self.updates(state.values[:count], gradients, state.slots, numbers, moves)
        kept = [xp.where(moves, new, old) for new, old in zip(found.buffers, state.values[count:], strict=True)]
        return State([*moved, *kept], slots, moves)

    def loop(
        self,
        accumulate: int,
        state: State,
        held: Sequence[Any],
        feeds: Sequence[Any],
        numbers: Mapping[str, Any],
        step: Any,
        bounds: Any,
    ) -> tuple[State, tuple[Any, Any]]:
        """Do steps `bounds[0]` to `bounds[1] - 1`; return the state, rows for each step, and bad indices.

        The first axis of `feeds` and `numbers` has an element for each step; an array of `feeds` may have one for all.
        A step takes `accumulate` batches, along the next axis of `feeds` if they are several. Each batch has a row,
        with the outputs, and 1 if the step moved the parameters, else 0. Bad indices are those of the first step that
        moved nothing. `step` is the random step of the first batch.
        """
        xp: Any = namespace()
        capacity = max(array.shape[0] for array in feeds)
        several = () if accumulate == 1 else (accumulate,)
        dtype = np.result_type(np.float32, *(output.dtype for output in self.graph.outputs))
        outputs = xp.zeros((capacity, *several, len(self.graph.outputs) + 1), dtype=dtype)
        outside = xp.zeros((*several, len(self.graph.checks), 3), dtype=np.int64)
        weights = xp.full(several, 1 / accumulate, dtype=dtype)

        def body(i: Any, carried: tuple[State, Any, Any]) -> tuple[State, Any, Any]:
            before, outputs, outside = carried
            with jax.named_scope("batch:load"):
                feed = element(feeds, i, capacity)
            now = {name: lax.dynamic_index_in_dim(array, i, keepdims=False) for name, array in numbers.items()}
            if several:
                first = step_after(step, i * accumulate)
                state, (found, now_outside) = self.train_on_several(before, held, feed, None, weights, now, first)
            else:
                state, (found, now_outside) = self.train(before, held, feed, now, step_after(step, i))
            columns = [xp.broadcast_to(each, several) for each in (*found, state.alive)]
            rows = xp.stack([xp.astype(column, outputs.dtype) for column in columns], axis=-1)
            return state, outputs.at[i].set(rows), xp.where(before.alive, now_outside, outside)

        state, outputs, outside = lax.fori_loop(bounds[0], bounds[1], body, (state, outputs, outside))
        return state, (outputs, outside)


def _keeps_parts(graph: JaxGraph) -> bool:
    """Return whether each device keeps its part of all dense gradients of a step with several batches."""
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in graph.targets.gradients) <= PARTS_BYTES


@cache
def rows_as_pytree() -> None:
    """Tell JAX that a `RowSparse` is a pair of arrays, which functions may return."""
    from jax.tree_util import register_pytree_node

    register_pytree_node(
        RowSparse,
        lambda rows: ((rows.rows, rows.values), rows.shape),
        lambda shape, parts: RowSparse(parts[0], parts[1], shape),
    )

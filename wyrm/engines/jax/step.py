"""The steps of a program as pure functions, which JAX compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wyrm.engines.jax.accumulation import Backward, accumulated, element, step_after
from wyrm.engines.jax.divided_tables import DividedTables
from wyrm.engines.jax.graph import JaxGraph, LoopChecks, beyond
from wyrm.engines.jax.loops import Values
from wyrm.engines.jax.lower import Lowerer, Sizes, dense, names_of_nodes
from wyrm.engines.jax.namespace import namespace
from wyrm.engines.jax.partial_sums import PartialSum, PartialSums
from wyrm.engines.jax.state import Stacks, State, stacks_of
from wyrm.engines.jax.updates import JaxGradient, Updates, all_finite, summed_rows
from wyrm.graph.base import BaseNode
from wyrm.graph.parameters import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array
from wyrm.ops.random.philox import ROWS_BEFORE, STEP

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import Sharding


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

    `held` are values of `JaxGraph.held`, `feed` of `JaxGraph.inputs`. `step` seeds random nodes, as two words.
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

    def _lowerer(self, sizes: Sizes, sums: PartialSums | None = None) -> Lowerer:
        return Lowerer(
            sizes, narrow=self._narrow, wide=self._wide, place=self._place, sums=sums, tables=self.tables,
            sharding=self._sharding, shards=self._shards, report=self.loop_checks.report if self.loop_checks else None,
            names=self._names,
        )  # fmt: skip

    def _sizes(self, known: Mapping[BaseNode, Any]) -> Sizes:
        return self.graph.schedule.bind({leaf: tuple(known[leaf].shape) for leaf in self.graph.inputs})

    def _known(self, values: Sequence[Any], held: Sequence[Any], feed: Sequence[Any], step: Any) -> dict[BaseNode, Any]:
        return self._leaves(held, feed, step) | dict(zip(self.graph.trained, values, strict=True))

    def _leaves(self, held: Sequence[Any], feed: Sequence[Any], step: Any) -> dict[BaseNode, Any]:
        """Return the values of the leaves that training does not change."""
        known: dict[BaseNode, Any] = dict(zip(self.graph.held, held, strict=True))
        known |= zip(self.graph.inputs, feed, strict=True)
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
        values = self._lowerer(sizes, sums or self._sums).compute(schedule, known, self._plan, stacks)
        indices = {check.indices: values[schedule.position[check.indices]] for check in checks}
        return _Found(schedule, values, beyond(checks, indices, sizes))

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

    def _totals(self, found: Backward, units: Sequence[Sequence[int]]) -> Backward:
        """Return outputs and gradients with the sums over devices, and over equal rows of a table, added up."""
        parameters = [self.graph.parameters[unit[0]] for unit in units]
        # Sums of dense gradients have a message of their own, with the losses.
        alone = not any(isinstance(gradient, PartialSum) for gradient in found.gradients)
        rows, outputs = self.tables.gathered(parameters, found.gradients, found.outputs if alone else ())
        gradients: list[JaxGradient] = [
            self._summed(parameter, gradient) if isinstance(gradient, list) else gradient
            for parameter, gradient in zip(parameters, rows, strict=True)
        ]
        found = found._replace(outputs=outputs if alone else found.outputs)
        if self._sums is None:
            return found._replace(gradients=gradients)
        import jax

        with jax.named_scope("gradients:sum"):
            totals = self._sums.totals([*gradients, *found.outputs], [*parameters, *(None for _ in found.outputs)])
        gradients = [self.tables.padded(*each) for each in zip(parameters, totals, strict=False)]
        return found._replace(gradients=gradients, outputs=totals[len(units) :])

    def _summed(self, table: Parameter, pairs: Sequence[tuple[Any, Any]]) -> RowSparse:
        """Return the row-sparse gradient of a table."""
        exchange = self.tables.exchanges.get(table)
        return summed_rows(pairs, table.shape) if exchange is None else exchange.summed(pairs)

    def _batch(
        self, values: Sequence[Any], held: Sequence[Any], feed: Sequence[Any], step: Any, sums: PartialSums | None
    ) -> Backward:
        """Return what a batch computes from the values of a `State`: gradients of units, with partial sums."""
        graph, units = self.graph, self.stacks.units
        leaves: list[list[Any]] = [[graph.parameters[i] for i in unit] for unit in units]
        leaves += [[buffer] for buffer in graph.buffers]
        arrays = list(zip(leaves, values, strict=True))
        known = self._leaves(held, feed, step) | {leaves[0]: array for leaves, array in arrays if len(leaves) == 1}
        return self._gradients(self._values(known, [pair for pair in arrays if len(pair[0]) > 1], sums), units)

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
        found = self._totals(self._batch(state.values, held, feed, step, self._sums), self.stacks.units)
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
        units = self.stacks.units

        def compute(buffers: list[Any], feed: list[Any], step: Any) -> Backward:
            values, step = self._of_batch(state.values[: len(units)], step)
            return self._batch([*values, *buffers], held, feed, step, self._sums_of_several)

        tables = [self.graph.parameters[unit[0]] for unit in units]
        shapes = [table.shape if table in self.graph.targets.rows else None for table in tables]
        divided = {unit for unit, table in enumerate(tables) if table in self.tables.exchanges}
        buffers = list(state.values[len(units) :])
        found = accumulated(compute, buffers, feeds, rest, weights, step, shapes, divided, self._placed_total)
        found = self._totals(found, units)
        losses = found.outputs[0]
        return self._moved(state, found, numbers, (losses * weights).sum()), (found.outputs, found.outside)

    def _of_batch(self, values: Sequence[Any], step: Any) -> tuple[list[Any], Any]:
        """Return the units of parameters and the random step for one of several batches.

        Where devices keep shards alone, a barrier ties the parameters to the step, which differs between batches, so
        that XLA gathers them for each batch. Without it, XLA gathers all of them before the loop over batches, and
        every device keeps the whole model.
        """
        import jax

        found, sharding = list(values), self._sharding
        if sharding is None or self._keeps_parts:
            return found, step
        for unit, positions in enumerate(self.stacks.units):
            parameter = self.graph.parameters[positions[0]]
            if parameter in self.graph.targets.gradients and sharding.divided_axes(parameter.dims):
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
        moves = (
            state.alive & ~xp.any(found.outside[..., 0] != 0) & xp.isfinite(loss) & self.updates.finite(found.gradients)
        )
        count = len(self.stacks.units)
        if checks:
            moves &= self.updates.stay_finite(state.values[:count], found.gradients, state.slots, numbers)
            moves &= all_finite([new for new in found.buffers if xp.isdtype(new.dtype, "real floating")])
        moved, slots = self.updates(state.values[:count], found.gradients, state.slots, numbers, moves)
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
        import jax
        from jax import lax

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
    return sum(gradient.nbytes for gradient in map(bound_array, graph.targets.gradients)) <= PARTS_BYTES


@cache
def rows_as_pytree() -> None:
    """Tell JAX that a `RowSparse` is a pair of arrays, which functions may return."""
    from jax.tree_util import register_pytree_node

    register_pytree_node(
        RowSparse,
        lambda rows: ((rows.rows, rows.values), rows.shape),
        lambda shape, parts: RowSparse(parts[0], parts[1], shape),
    )

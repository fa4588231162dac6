"""The steps of a program as pure functions, which JAX compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wyrm.engines.jax.graph import JaxGraph, beyond
from wyrm.engines.jax.loops import Values
from wyrm.engines.jax.lower import Lowerer, Sizes, dense
from wyrm.engines.jax.namespace import namespace
from wyrm.engines.jax.partial_sums import PartialSum, PartialSums
from wyrm.engines.jax.state import Stacks, State, stacks_of
from wyrm.engines.jax.updates import JaxGradient, Updates, all_finite, summed_rows
from wyrm.graph.base import BaseNode
from wyrm.graph.rows import RowSparse
from wyrm.graph.schedule import Schedule
from wyrm.ops.random.philox import ROWS_BEFORE, STEP
from wyrm.ops.random.philox_jax import words_of
from wyrm.ops.random.steps_jax import as_words, sum_of_words

if TYPE_CHECKING:
    from wyrm.engines.jax.sharding import Sharding


class Backward(NamedTuple):
    """The outputs of a batch, the gradients of `JaxGraph.parameters`, and the new values of the buffers.

    `outside` has the indices out of range; see `beyond` in `wyrm.engines.jax.graph`.
    """

    outputs: list[Any]
    gradients: list[JaxGradient]
    buffers: list[Any]
    outside: Any


class _Found(NamedTuple):
    """The values of nodes, and the indices out of range."""

    schedule: Schedule
    values: Values
    outside: Any

    def of(self, nodes: Sequence[BaseNode]) -> list[Any]:
        """Return the values of nodes, dense."""
        return [dense(self.values[self.schedule.position[node]]) for node in nodes]

    def stacked(self, nodes: Sequence[BaseNode]) -> Any:
        """Return the values of several nodes stacked, or that of one node, which may be a partial sum."""
        if len(nodes) == 1:
            value = self.values[self.schedule.position[nodes[0]]]
            return value if isinstance(value, PartialSum) else dense(value)
        return self.values.stacked([self.schedule.position[node] for node in nodes])


class StepFunctions:
    """The functions of a program: `forward`, `backward`, `train` and `loop`, for data of any shapes.

    `held` are values of `JaxGraph.held`, `feed` of `JaxGraph.inputs`. `step` seeds random nodes, as two words.
    """

    def __init__(self, graph: JaxGraph, narrow: Any = None, sharding: Sharding | None = None) -> None:
        self.graph = graph
        self._narrow = narrow
        self._place = None if sharding is None else sharding.place
        self._sums = None if sharding is None else PartialSums(sharding)
        self._shards = 1 if sharding is None else int(sharding.mesh.size)
        targets = graph.targets
        by_rows = [gradient for pairs in targets.rows.values() for gradient, _ in pairs]
        self._wide = frozenset(
            [*targets.outputs, *targets.gradients.values(), *by_rows, *targets.buffer_updates.values()]
        )
        rows_as_pytree()
        self._plan = self._lowerer({}).plan(graph.schedule)
        # Parameters of equal layers are stacked, but not sharded ones, whose axes have placements.
        self.stacks: Stacks = stacks_of(graph, self._plan if sharding is None else ())
        optimizer = graph.optimizer
        units = [graph.parameters[unit[0]] for unit in self.stacks.units]
        self.updates: Updates | None = None if optimizer is None else Updates(optimizer, units)

    def _lowerer(self, sizes: Sizes) -> Lowerer:
        return Lowerer(
            sizes, narrow=self._narrow, wide=self._wide, place=self._place, sums=self._sums, shards=self._shards
        )

    def _sizes(self, known: Mapping[BaseNode, Any]) -> Sizes:
        return self.graph.schedule.bind({leaf: tuple(known[leaf].shape) for leaf in self.graph.inputs})

    def _known(self, values: Sequence[Any], held: Sequence[Any], feed: Sequence[Any], step: Any) -> dict[BaseNode, Any]:
        return self._leaves(held, feed, step) | dict(zip(self.graph.trained, values, strict=True))

    def _leaves(self, held: Sequence[Any], feed: Sequence[Any], step: Any) -> dict[BaseNode, Any]:
        """Return the values of the leaves that training does not change."""
        known: dict[BaseNode, Any] = dict(zip(self.graph.held, held, strict=True))
        known |= zip(self.graph.inputs, feed, strict=True)
        return known | {STEP: step, ROWS_BEFORE: namespace().zeros_like(step)}

    def _values(self, known: Mapping[BaseNode, Any], stacks: Sequence[tuple[Sequence[BaseNode], Any]] = ()) -> _Found:
        """Return the values of the graph's nodes, given those of leaves."""
        schedule, checks, sizes = self.graph.schedule, self.graph.checks, self._sizes(known)
        values = self._lowerer(sizes).compute(schedule, known, self._plan, stacks)
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
        return self._gradients(self._values(known), known, [[i] for i in range(len(self.graph.parameters))])

    def _gradients(self, found: _Found, known: Mapping[BaseNode, Any], units: Sequence[Sequence[int]]) -> Backward:
        """Return what `backward` returns, with the gradients of each unit of parameters stacked."""
        targets = self.graph.targets
        gradients: list[JaxGradient] = []
        for parameters in ([self.graph.parameters[i] for i in unit] for unit in units):
            if parameters[0] in targets.gradients:
                gradients.append(found.stacked([targets.gradients[parameter] for parameter in parameters]))
            else:
                pairs = [tuple(found.of(pair)) for pair in targets.rows[parameters[0]]]
                gradients.append(summed_rows(pairs, tuple(known[parameters[0]].shape)))
        if self._sums is not None:
            gradients = self._sums.totals(gradients)
        buffers = found.of([targets.buffer_updates[buffer] for buffer in self.graph.buffers])
        return Backward(found.of(targets.outputs), gradients, buffers, found.outside)

    def train(
        self, state: State, held: Sequence[Any], feed: Sequence[Any], numbers: Mapping[str, Any], step: Any
    ) -> tuple[State, tuple[list[Any], Any]]:
        """Return the state after a step, the outputs, and the indices out of range.

        A loss or gradient that is not finite, or an index out of range, changes nothing.
        """
        graph, units = self.graph, self.stacks.units
        leaves: list[list[Any]] = [[graph.parameters[i] for i in unit] for unit in units]
        leaves += [[buffer] for buffer in graph.buffers]
        arrays = list(zip(leaves, state.values, strict=True))
        known = self._leaves(held, feed, step) | {leaves[0]: array for leaves, array in arrays if len(leaves) == 1}
        found = self._values(known, [pair for pair in arrays if len(pair[0]) > 1])
        outputs, gradients, buffers, outside = self._gradients(found, known, units)
        state = state._replace(alive=state.alive & ~namespace().any(outside[:, 0] != 0))
        return self.update(state, gradients, numbers, outputs[0], buffers), (outputs, outside)

    def accumulate(
        self,
        values: Sequence[Any],
        totals: Sequence[Any],
        held: Sequence[Any],
        feed: Sequence[Any],
        weight: Any,
        step: Any,
    ) -> tuple[list[Any], list[Any], list[Any], Any]:
        """Return the new buffers, the totals plus `weight` times the gradients, the outputs, and indices out of range.

        For a row-sparse gradient the total is None before, and the rows of this batch alone after: a total could grow
        as large as the table. `update_by` adds up the rows of all batches.
        """
        outputs, gradients, buffers, outside = self.backward(values, held, feed, step)
        sums = [_plus(total, gradient, weight) for total, gradient in zip(totals, gradients, strict=True)]
        return buffers, sums, outputs, outside

    def zeros(self, values: Sequence[Any]) -> list[Any]:
        """Return the first totals for `accumulate`: zeros, or None for a row-sparse gradient."""
        xp: Any = namespace()
        return [
            None if parameter in self.graph.targets.rows else xp.zeros_like(value)
            for parameter, value in zip(self.graph.parameters, values, strict=False)  # buffers follow the parameters
        ]

    def accumulator_shardings(self, sharding: Sharding, of_batch: bool) -> list[Any]:
        """Return the placements of the totals; with `of_batch`, also those of row-sparse gradients of a batch."""
        rows = self.graph.targets.rows
        return [
            (RowSparse(*sharding.of_rows(parameter), parameter.shape) if of_batch else None)
            if parameter in rows
            else sharding.of(parameter)
            for parameter in self.graph.parameters
        ]

    def update(
        self,
        state: State,
        gradients: Sequence[JaxGradient],
        numbers: Mapping[str, Any],
        loss: Any,
        buffers: Sequence[Any],
    ) -> State:
        """Return the state after the optimizer's step with these gradients."""
        assert self.updates is not None
        xp: Any = namespace()
        moves = state.alive & xp.isfinite(loss) & all_finite(gradients)
        count = len(self.stacks.units)
        moved, slots = self.updates(state.values[:count], gradients, state.slots, numbers, moves)
        kept = [xp.where(moves, new, old) for new, old in zip(buffers, state.values[count:], strict=True)]
        return State([*moved, *kept], slots, moves)

    def update_by(
        self, state: State, gradients: Sequence[Any], numbers: Mapping[str, Any], loss: Any, buffers: Sequence[Any]
    ) -> State:
        """Return the state after the optimizer's step with accumulated gradients, a list for a row-sparse one."""
        sums = [joined_rows(gradient) if isinstance(gradient, list) else gradient for gradient in gradients]
        return self.update(state, self.stacks.stack(sums), numbers, loss, buffers)

    def loop(
        self,
        state: State,
        held: Sequence[Any],
        feeds: Sequence[Any],
        numbers: Mapping[str, Any],
        step: Any,
        bounds: Any,
    ) -> tuple[State, tuple[Any, Any]]:
        """Train on batches `bounds[0]` to `bounds[1] - 1`; return the state, a row for each batch, and bad indices.

        A row has the outputs, and 1 if the step moved the parameters, else 0. Bad indices are those of the first batch
        that moved nothing. The first axis of `feeds` and `numbers` has an element for each batch; an array of `feeds`
        may have one for all batches. `step` is the random step of batch 0.
        """
        from jax import lax

        xp: Any = namespace()
        capacity = max(array.shape[0] for array in feeds)
        dtype = np.result_type(np.float32, *(output.dtype for output in self.graph.outputs))
        outputs = xp.zeros((capacity, len(self.graph.outputs) + 1), dtype=dtype)
        outside = xp.zeros((len(self.graph.checks), 3), dtype=np.int64)

        def body(i: Any, carried: tuple[State, Any, Any]) -> tuple[State, Any, Any]:
            before, outputs, outside = carried
            feed = [
                lax.dynamic_index_in_dim(array, i if array.shape[0] == capacity else 0, keepdims=False)
                for array in feeds
            ]
            now = {name: lax.dynamic_index_in_dim(array, i, keepdims=False) for name, array in numbers.items()}
            advanced = xp.stack(sum_of_words(words_of(step), as_words(i)))
            state, (found, now_outside) = self.train(before, held, feed, now, advanced)
            row = xp.stack([xp.astype(each, outputs.dtype) for each in (*found, state.alive)])
            return state, outputs.at[i].set(row), xp.where(before.alive, now_outside, outside)

        state, outputs, outside = lax.fori_loop(bounds[0], bounds[1], body, (state, outputs, outside))
        return state, (outputs, outside)


@cache
def rows_as_pytree() -> None:
    """Tell JAX that a `RowSparse` is a pair of arrays, which functions may return."""
    from jax.tree_util import register_pytree_node

    register_pytree_node(
        RowSparse,
        lambda rows: ((rows.rows, rows.values), rows.shape),
        lambda shape, parts: RowSparse(parts[0], parts[1], shape),
    )


def _plus(total: Any, gradient: JaxGradient, weight: Any) -> JaxGradient:
    """Return the total plus `weight` times a gradient; for a row-sparse gradient, which has no total, the product."""
    if isinstance(gradient, RowSparse):
        return RowSparse(gradient.rows, weight.astype(gradient.values.dtype) * gradient.values, gradient.shape)
    return total + weight.astype(total.dtype) * gradient


def joined_rows(gradients: Sequence[RowSparse]) -> RowSparse:
    """Return the sum of row-sparse gradients of one table, with each touched row once."""
    return summed_rows([(each.values, each.rows) for each in gradients], gradients[0].shape)

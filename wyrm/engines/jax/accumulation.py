"""The gradients of several batches added up on the devices, in one loop of XLA: the host does not wait in between."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.jax.namespace import namespace
from wyrm.engines.jax.partial_sums import PartialSum, whole
from wyrm.engines.jax.updates import summed_rows
from wyrm.graph.rows import RowSparse
from wyrm.ops.random.philox_jax import as_words, sum_of_words, words_of


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


class _TableTotal(NamedTuple):
    """The total of a table's row-sparse gradients, and which rows they touch."""

    total: Any
    touched: Any

    def plus(self, pairs: Sequence[tuple[Any, Any]]) -> _TableTotal:
        """Return the total plus pairs of values and row numbers."""
        total, touched = self
        more = summed_rows(pairs, total.shape)
        total = total.at[more.rows].add(more.values, mode="drop")
        return _TableTotal(total, touched.at[more.rows].set(True, mode="drop"))

    def by_rows(self) -> RowSparse:
        """Return the total row-sparse, with padding as `summed_rows` has it."""
        count = self.touched.shape[0]
        rows = namespace().nonzero(self.touched, size=count, fill_value=count)[0]
        return RowSparse(rows, self.total.at[rows].get(mode="clip"), self.total.shape)


def element(feeds: Sequence[Any], i: Any, count: int) -> list[Any]:
    """Return the data of batch `i` of `count`; an array may have one element for all batches."""
    from jax import lax

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
    import jax
    import jax.numpy as jnp
    from jax import lax

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
    if rest is not None:
        last = weighted(buffers, list(rest), count)
        buffers = last.buffers
        outputs = [_appended(each, value) for each, value in zip(outputs, last.outputs, strict=True)]
        outside = jnp.concatenate([outside, last.outside[None]])
        more = [each for total, each in zip(totals, last.gradients, strict=True) if total is None]
        pairs = [[*each, *others] for each, others in zip(pairs, more, strict=True)]
        totals = [_plus(total, gradient) for total, gradient in zip(totals, last.gradients, strict=True)]
    collected = iter(pairs)
    gradients = [
        next(collected) if total is None else total.by_rows() if isinstance(total, _TableTotal) else total
        for total in totals
    ]
    return Backward(outputs, gradients, buffers, outside)


def _scaled(gradient: Any, weight: Any) -> Any:
    if isinstance(gradient, PartialSum):
        return gradient.of_parts(_scaled(gradient.parts, weight))
    if isinstance(gradient, list):
        return [(_scaled(values, weight), rows) for values, rows in gradient]
    return gradient * weight.astype(gradient.dtype)


def _nothing(gradient: Any, table: tuple[int, ...] | None, batches: int) -> Any:
    """Return a total of zero for gradients of this shape; None where their pairs are collected."""
    import jax
    import jax.numpy as jnp

    if table is None:
        return jax.tree.map(lambda array: jnp.zeros(array.shape, array.dtype), gradient)
    if batches * sum(rows.size for _, rows in gradient) < table[0]:
        return None
    return _TableTotal(jnp.zeros(table, gradient[0][0].dtype), jnp.zeros(table[0], bool))


def _by_device(output: Any) -> Any:
    """Return an output of all batches, with the devices of a partial sum first: a loop puts the batches first."""
    if not isinstance(output, PartialSum):
        return output
    return output.of_parts(namespace().moveaxis(output.parts, 1, 0))


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
    if isinstance(total, _TableTotal):
        return total.plus(gradient)
    if isinstance(total, PartialSum):
        # A last batch that the devices do not divide has no parts.
        parted = isinstance(gradient, PartialSum)
        parts = total.parts + gradient.parts if parted else total.parts.at[0].add(gradient)
        return total.of_parts(parts)
    return total + whole(gradient)


__all__ = ["Backward", "accumulated", "element", "step_after"]

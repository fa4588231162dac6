"""Loops inside the graph as loops of JAX, whose parts stay arrays of their own.

A loop that runs all its steps becomes `lax.scan`, a branch `lax.cond`, and any other loop `lax.while_loop`, which
writes what the backward pass needs into arrays for the largest number of steps.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.graph.axes import resolve
from wyrm.graph.jax_form import JaxForm, Lowering, Unjoined
from wyrm.graph.leaves import Constant
from wyrm.graph.storage import bound_array
from wyrm.ops.control.loop_body import Iteration
from wyrm.ops.kernels.loops_jax import scan, steady

# The largest float32 that is a number of steps as int32.
_MOST = 2.0**31 - 128


@Unjoined.register
class LoopParts(NamedTuple):
    """The residuals of a loop, one array for each part."""

    parts: tuple[Any, ...]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of all parts."""
        dtype: np.dtype = self.parts[0].dtype
        return dtype

    def flat(self) -> Any:
        """Return the residuals as the flat array that the graph describes."""
        import jax.numpy as jnp

        return jnp.concatenate([part.reshape(-1) for part in self.parts])


class _Results(NamedTuple):
    """The values of a loop: carries before each step and after the last, stacked outputs, sums, and steps done."""

    before: list[Any]
    last: list[Any]
    stacked: list[Any]
    sums: list[Any]
    done: Any = None


class _Loop:
    """A loop of some steps over the values of its operands."""

    def __init__(self, steps: Iteration, dtype: np.dtype, operands: Sequence[Any], lowering: Lowering) -> None:
        inputs = steps.carried + steps.sequences
        self.steps, self._lowering, self._dtype = steps, lowering, dtype
        self.init = list(operands[: steps.carried])
        self.sequences = list(operands[steps.carried : inputs])
        self._invariants = operands[inputs:]
        self.length = steps.length_for(lowering.sizes)

    @property
    def _count(self) -> int:
        """The number of carries and stacked outputs."""
        return len(self.steps.outputs) - self.steps.summed

    def step(self, carry: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any], Any]:
        """Return the next carries, outputs to stack, outputs to sum, and whether to continue."""
        body, carried, count = self.steps.body, self.steps.carried, self._count
        known = dict(zip(body.inputs, [*carry, *rows, *self._invariants], strict=True))
        outputs = self._lowering.outputs(body.outputs, known)
        goes_on = outputs.pop() if self.steps.stops else True
        outputs = [output.astype(self._dtype) for output in outputs]
        return outputs[:carried], outputs[carried:count], outputs[count:], goes_on

    def zeros(self, stacked: bool) -> list[Any]:
        """Return zeros for the outputs to stack, or for those to sum."""
        import jax.numpy as jnp

        steps, count = self.steps, self._count
        outputs = steps.outputs[steps.carried : count] if stacked else steps.outputs[count:]
        length = (self.length,) if stacked else ()
        return [jnp.zeros((*length, *resolve(x.dims, self._lowering.sizes)), self._dtype) for x in outputs]

    def all_steps(self) -> _Results:
        """Run all steps."""

        def step(carry: Any, rows: Any) -> tuple[Any, Any]:
            following, stacked, summands, _ = self.step(carry[0], rows)
            return (following, list(map(operator.add, carry[1], summands))), (carry[0], stacked)

        init, steps = (self.init, self.zeros(stacked=False)), self.steps
        (last, sums), (before, stacked) = scan(step, init, self.sequences, self.length, steps.reverse)
        return _Results(before, last, stacked, sums)

    def open_steps(self) -> _Results:
        """Run all steps where an export leaves their number open: `lax.scan` needs to know it."""
        import jax
        import jax.numpy as jnp

        count = jnp.asarray(self.length)

        def step(done: Any, results: _Results) -> _Results:
            t = count - 1 - done if self.steps.reverse else done
            rows = [jax.lax.dynamic_index_in_dim(x, t, 0, keepdims=False) for x in self.sequences]
            following, outputs, summands, _ = self.step(results.last, rows)
            sums = list(map(operator.add, results.sums, summands))
            return _Results(
                _written(results.before, results.last, t), following, _written(results.stacked, outputs, t), sums
            )

        before = [jnp.zeros((self.length, *x.shape), x.dtype) for x in self.init]
        first = _Results(before, self.init, self.zeros(stacked=True), self.zeros(stacked=False))
        results: _Results = jax.lax.fori_loop(0, count, step, first)
        return results

    def one_or_none(self, limit: Any) -> _Results:
        """Run the only step if the limit is at least 1."""
        import jax

        def run() -> tuple[Any, ...]:
            last, stacked, sums, _ = self.step(self.init, [row[0] for row in self.sequences])
            return last, [output[None] for output in stacked], sums

        def skip() -> tuple[Any, ...]:
            return self.init, self.zeros(stacked=True), self.zeros(stacked=False)

        return _Results([x[None] for x in self.init], *jax.lax.cond(limit >= 1.0, run, skip))

    def some_steps(self, limit: Any) -> _Results:
        """Run steps up to the limit, or until the body stops the loop."""
        import jax
        import jax.numpy as jnp

        steps = self.steps
        count = jnp.minimum(limit, min(self.length, _MOST)).astype(np.int32)

        def is_on(state: tuple[Any, _Results]) -> Any:
            goes_on, results = state
            return goes_on & ((results.done < count) if steps.keeps else (limit >= 1.0))

        def step(state: tuple[Any, _Results]) -> tuple[Any, _Results]:
            _, (before, carry, stacked, sums, done) = state
            t = count - 1 - done if steps.reverse else done

            rows = [jax.lax.dynamic_index_in_dim(x, t, 0, keepdims=False) for x in self.sequences]
            following, outputs, summands, goes_on = self.step(carry, rows)
            before = _written(before, carry, t) if steps.keeps else before
            sums = list(map(operator.add, sums, summands))
            return jnp.asarray(goes_on), _Results(before, following, _written(stacked, outputs, t), sums, done + 1)

        length = self.length if steps.keeps else 0
        before = [jnp.zeros((length, *x.shape), x.dtype) for x in self.init]
        zero = jnp.zeros((), np.int32)
        first = _Results(before, self.init, self.zeros(stacked=True), self.zeros(stacked=False), zero)
        results: _Results = jax.lax.while_loop(is_on, step, steady(step, (jnp.asarray(True), first)))[1]
        return results


def _written(wholes: Sequence[Any], rows: Sequence[Any], t: Any) -> list[Any]:
    """Return arrays with row `t` of each replaced."""
    import jax

    update = jax.lax.dynamic_update_index_in_dim
    return [update(whole, row, t, 0) for whole, row in zip(wholes, rows, strict=True)]


class ScanForm(JaxForm):
    """The lowering of `Scan`; its value is a `LoopParts`."""

    exact = True
    reads_constants = True

    def own_gradient(self, node: Any) -> bool:
        # JAX differentiates `scan` and `cond`, but no `while_loop` in reverse.
        steps = node.steps
        return bool(steps.keeps and (steps.stops or (steps.limited and steps.length != 1)))

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        steps = node.steps
        values = [_unrounded(x, value) for x, value in zip(node.parents, operands, strict=True)]
        loop = _Loop(steps, node.dtype, values[steps.limited :], lowering)
        if not steps.limited and not steps.stops:
            is_open = not isinstance(loop.length, int | np.integer)
            results = loop.open_steps() if is_open else loop.all_steps()
        elif steps.length == 1 and not steps.stops:
            results = loop.one_or_none(values[0])
        else:
            results = loop.some_steps(values[0] if steps.limited else np.float32(loop.length))
        parts: list[Any] = []
        for before, last in zip(results.before, results.last, strict=True):
            parts += [last, before] if steps.reverse else [before, last]
        parts += [*results.stacked, *results.sums]
        if steps.stops:
            parts.append(results.done.astype(node.dtype))
        return LoopParts(tuple(parts))


def _unrounded(parent: Any, value: Any) -> Any:
    """Return an operand; a constant of a dtype that JAX has not enabled as it is, for ops that need all its digits."""
    if isinstance(parent, Constant) and value.dtype != parent.dtype and parent.dtype == np.float64:
        return bound_array(parent)
    return value


class ScanPartForm(JaxForm):
    """The lowering of `ScanPart`, mostly one of the arrays of a `LoopParts`."""

    exact = True
    takes_rows = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        (residuals,) = operands
        if not isinstance(residuals, LoopParts):
            return super().lower(node, operands, shape, lowering)
        steps: Iteration = node.parents[0].steps
        for position, part in enumerate(residuals.parts):
            if (node.start.offset, shape) == (steps.place_of(position).offset, part.shape):
                return part
        for carry in range(steps.carried):
            before, last = residuals.parts[steps.history_of(carry)], residuals.parts[steps.last_of(carry)]
            if (node.start.offset, shape) == (steps.place_after(carry).offset, before.shape):
                rows = [last[None], before[:-1]] if steps.reverse else [before[1:], last[None]]
                return jnp.concatenate(rows)[: before.shape[0]]
        return super().lower(node, [residuals.flat()], shape, lowering)

"""Loops inside the graph, whose reverse mode is again such a loop.

One `Scan` node computes a whole loop. Its value is one flat array of residuals: the carries before each step and after
the last, the stacked outputs, and sums over steps. `ScanPart` is a view of one of these parts. The backward pass
recomputes the other values within a step. The body is compiled once, for any number of steps.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, Plus, axis_size, resolve, resolve_axis
from wyrm.graph.base import ZERO, BaseNode, Gradient, Undefined, Zero, describe, format_dims
from wyrm.graph.index_maps import AxisLength, IndexExpression, IndexLiteral, IndexMap, flat
from wyrm.graph.index_operands import limit_data
from wyrm.graph.jax_form import JAX, JaxForm, Lowering, Unjoined
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS, Gathered, LoopForm, Scattered, ScatterTarget
from wyrm.graph.node import Node
from wyrm.graph.op import NUMPY, ArrayNamespace
from wyrm.graph.schedule import Ranges
from wyrm.graph.shapes import number_of_elements, same_sizes, total_size
from wyrm.graph.storage import bound_array
from wyrm.graph.traversal import topological_order
from wyrm.graph.typing import Array
from wyrm.graph.weak_types import chosen
from wyrm.ops.control.loop_body import Iteration, LoopBody, PackedPlace, closure_convert
from wyrm.ops.control.scan_reach import ScanPartReach, ScanReach
from wyrm.ops.elementwise.arithmetic import Add
from wyrm.ops.elementwise.elementwise import Axes, Left_co
from wyrm.ops.gradients.accumulation import composite_vjps
from wyrm.ops.kernels.loops_jax import scan, steady
from wyrm.ops.products.product import MatMul
from wyrm.ops.shaping.shape import Rearrangement, Reshape, zeros_like
from wyrm.ops.shaping.transpose import Transpose
from wyrm.ops.subgraph import placeholder_like
from wyrm.reach.rules import REACH
from wyrm.support.imports import jax, jnp


def reversed_loop(scan: Scan, cotangents: Sequence[Any], wanted: Sequence[BaseNode]) -> list[Node | Zero]:
    """Return the gradients with respect to the parents after the limit, `ZERO` for those not in `wanted`.

    `wanted` holds inputs of the body. `cotangents` are the gradients with respect to the parts of the residuals, or
    None. The new loop carries the gradients with respect to the carries. Its sequences are the residuals of the
    forward loop, so it recomputes none of these.
    """
    steps, inputs, count = scan.steps, scan.steps.body.inputs, scan.steps.carried
    carried, rest = inputs[:count], inputs[count:]
    sequences, invariant_inputs = rest[: steps.sequences], rest[steps.sequences :]
    stacked_outputs = steps.outputs[count : len(steps.outputs) - steps.summed]
    parent = dict(zip(inputs, scan.parents[steps.limited :], strict=True))
    carry_gradients = [placeholder_like(x, x.dims, f"gradient of {x.name}") for x in carried]
    # The placeholders of one row each, with the stacked nodes.
    rows: dict[BaseNode, BaseNode] = {x: scan.before(i) for i, x in enumerate(carried)} | {
        x: parent[x] for x in sequences
    }

    def row_of(whole: BaseNode, x: BaseNode, name: str) -> Node:
        row: Node = placeholder_like(x, x.dims, name)
        rows[row] = whole
        return row

    stacked_cotangents = [
        None if cotangent is None else row_of(cotangent, x, "gradient of an output")
        for x, cotangent in zip(stacked_outputs, cotangents[2 * count :], strict=False)
    ]
    # The gradient with respect to a sum is the same in all steps.
    sum_cotangents = cotangents[2 * count + len(stacked_outputs) :][: steps.summed]
    all_cotangents = zip(steps.outputs, [*carry_gradients, *stacked_cotangents, *sum_cotangents], strict=True)
    pairs = [(x, cotangent) for x, cotangent in all_cotangents if cotangent is not None]
    outputs, output_cotangents = [x for x, _ in pairs], [cotangent for _, cotangent in pairs]
    differentiated = {*carried, *(x for x in wanted if x.dtype.kind == "f")}
    numbers = [x for x in inputs if x in differentiated]
    step_gradients = dict(zip(numbers, composite_vjps(outputs, output_cotangents, numbers), strict=True))
    next_carries = []
    for i, x in enumerate(carried):
        history_cotangent = cotangents[steps.history_of(i)]
        if history_cotangent is not None:  # the values before each step are a part of the residuals as well
            row = row_of(history_cotangent, x, f"gradient of the history of {x.name}")
            step_gradients[x] = row if step_gradients[x] is ZERO else step_gradients[x] + row
        next_carries.append(zeros_like(x) if step_gradients[x] is ZERO else step_gradients[x])
    sequence_gradients = {x: step_gradients[x] for x in sequences if step_gradients.get(x, ZERO) is not ZERO}
    known = {x: row_of(whole, x, "result") for x, whole in _results(scan, numbers).items()}
    # Gradients with respect to loop invariants are sums over steps; sums of matrix products become one product outside.
    totals = {x: step_gradients[x] for x in invariant_inputs if step_gradients.get(x, ZERO) is not ZERO}
    products = {x: terms for x, total in totals.items() if (terms := _products(total))}
    sums = {x: total for x, total in totals.items() if x not in products}
    needed = [factor for terms in products.values() for pair in terms for factor in pair]
    factors = list(dict.fromkeys(factor for factor in needed if _factor_of_steps(factor, rows) is None))
    body_outputs = [*next_carries, *sequence_gradients.values(), *factors, *sums.values()]
    own = [*carry_gradients, *rows, *invariant_inputs]
    outside, placeholders, computed = closure_convert(body_outputs, own, known=known)
    used = set(topological_order(computed))
    back_sequences = {x: whole for x, whole in rows.items() if x in used}
    invariants = {x: parent[x] for x in invariant_inputs if x in used} | {
        x: y for x, y in zip(placeholders, outside, strict=True) if x in used
    }
    back = Iteration(
        LoopBody([*carry_gradients, *back_sequences, *invariants], computed),
        steps.time,
        count,
        len(back_sequences),
        summed=len(sums),
        reverse=not steps.reverse,
        limited=steps.limited or steps.stops,
        written_as=steps.written_as,
    )
    limit = [scan.steps_done] if steps.stops else list(scan.parents[: steps.limited])
    last_cotangents = [cotangents[steps.last_of(i)] for i in range(count)]
    init = [zeros_like(x) if last is None else last for x, last in zip(carried, last_cotangents, strict=True)]
    # No loop remains if all gradients are zero or products of stored values.
    result: Any = (
        type(scan)(back, *limit, *init, *back_sequences.values(), *invariants.values()) if body_outputs else None
    )
    gradients: dict[BaseNode, Node] = {x: result.last(i) for i, x in enumerate(carried)}
    parts = (result.output(number) for number in range(len(sequence_gradients) + len(factors) + len(sums)))
    gradients |= {x: next(parts) for x in sequence_gradients}
    stacked = {factor: next(parts) for factor in factors}
    gradients |= {x: next(parts) for x in sums}
    for x, terms in products.items():
        gradients[x] = _summed_products(terms, stacked, rows)
    return [gradients.get(x, ZERO) for x in inputs]


def _results(scan: Scan, numbers: Sequence[BaseNode]) -> dict[BaseNode, BaseNode]:
    """Return the per-step results that the forward loop already stored, among those that depend on `numbers`.

    A limited forward loop stores its last carry also in the row of the history after its last step. The backward pass
    ignores the cotangent of that row, so second-order gradients would be wrong with `after` of such a loop.
    """
    steps, inputs = scan.steps, set(scan.steps.body.inputs)
    dependent: set[BaseNode] = set(numbers)
    for node in topological_order(steps.outputs):
        if not dependent.isdisjoint(node.parents):
            dependent.add(node)
    stored: dict[BaseNode, BaseNode] = {}
    for position, x in enumerate(steps.outputs[: len(steps.outputs) - steps.summed]):
        if x in inputs or x not in dependent or x in stored:
            continue
        if position >= steps.carried:
            stored[x] = scan.output(position - steps.carried)
        elif steps.reverse or not steps.limited:
            stored[x] = scan.after(position)
    return stored


def _products(total: Node) -> list[list[Node]]:
    """Return the pairs [x, y] of a sum of matrix products `x.T @ y`, or an empty list for any other node."""
    terms, stack = [], [total]
    while stack:
        node = stack.pop()
        if isinstance(node, Add):
            stack += node.parents
        elif isinstance(node, MatMul) and node.parents[0].ndim == node.parents[1].ndim == 2:
            left, right = node.parents
            transposed = left.parents[0] if isinstance(left, Transpose) else Transpose(left, (1, 0))
            terms.append([transposed, right])
        else:
            return []
    return terms


def _factor_of_steps(node: BaseNode, rows: Mapping[BaseNode, BaseNode]) -> Any:
    """Return the node whose rows are this factor of all steps, perhaps reshaped; None if only the loop computes it."""
    while (isinstance(node, Reshape) or node.same_value) and node not in rows:
        node = node.parents[0]
    return rows.get(node)


def _summed_products(
    terms: Sequence[Sequence[Node]], stacked: Mapping[Node, Node], rows: Mapping[BaseNode, BaseNode]
) -> Any:
    """Return the sum over steps of matrix products, as one product of the stacked factors for each term."""
    total: Any = None
    for term in terms:
        flat = []
        for factor in term:
            whole = stacked[factor] if factor in stacked else _factor_of_steps(factor, rows)
            flat.append(Reshape(whole, (number_of_elements((whole.dims[0], factor.dims[0])), factor.dims[1])))
        left, right = flat
        product = MatMul(Transpose(left, (1, 0)), right)
        total = product if total is None else total + product
    return total


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
    def _count_of_results(self) -> int:
        """The number of carries and stacked outputs."""
        return len(self.steps.outputs) - self.steps.summed

    def step(self, carry: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any], Any]:
        """Return the next carries, outputs to stack, outputs to sum, and whether to continue."""
        body, carried, count = self.steps.body, self.steps.carried, self._count_of_results
        known = dict(zip(body.inputs, [*carry, *rows, *self._invariants], strict=True))
        outputs = self._lowering.outputs(body.outputs, known)
        goes_on = outputs.pop() if self.steps.stops else True
        outputs = [output.astype(self._dtype) for output in outputs]
        return outputs[:carried], outputs[carried:count], outputs[count:], goes_on

    def zeros(self, stacked: bool) -> list[Any]:
        """Return zeros for the outputs to stack, or for those to sum."""
        steps, count = self.steps, self._count_of_results
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
        count = jnp.asarray(self.length)

        def step(done: Any, results: _Results) -> _Results:
            t = count - 1 - done if self.steps.reverse else done
            rows = [jax.lax.dynamic_index_in_dim(x, t, 0, keepdims=False) for x in self.sequences]
            following, outputs, summands, _ = self.step(results.last, rows)
            sums = list(map(operator.add, results.sums, summands))
            return _Results(
                _with_row(results.before, results.last, t), following, _with_row(results.stacked, outputs, t), sums
            )

        before = [jnp.zeros((self.length, *x.shape), x.dtype) for x in self.init]
        first = _Results(before, self.init, self.zeros(stacked=True), self.zeros(stacked=False))
        results: _Results = jax.lax.fori_loop(0, count, step, first)
        return results

    def one_or_none(self, limit: Any) -> _Results:
        """Run the only step if the limit is at least 1."""

        def run() -> tuple[Any, ...]:
            last, stacked, sums, _ = self.step(self.init, [row[0] for row in self.sequences])
            return last, [output[None] for output in stacked], sums

        def skip() -> tuple[Any, ...]:
            return self.init, self.zeros(stacked=True), self.zeros(stacked=False)

        return _Results([x[None] for x in self.init], *jax.lax.cond(limit >= 1.0, run, skip))

    def some_steps(self, limit: Any) -> _Results:
        """Run steps up to the limit, or until the body stops the loop."""
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
            before = _with_row(before, carry, t) if steps.keeps else before
            sums = list(map(operator.add, sums, summands))
            return jnp.asarray(goes_on), _Results(before, following, _with_row(stacked, outputs, t), sums, done + 1)

        length = self.length if steps.keeps else 0
        before = [jnp.zeros((length, *x.shape), x.dtype) for x in self.init]
        zero = jnp.zeros((), np.int32)
        first = _Results(before, self.init, self.zeros(stacked=True), self.zeros(stacked=False), zero)
        results: _Results = jax.lax.while_loop(is_on, step, steady(step, (jnp.asarray(True), first)))[1]
        return results


def _with_row(wholes: Sequence[Any], rows: Sequence[Any], t: Any) -> list[Any]:
    """Return arrays with row `t` of each replaced."""
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


class Scan(Node[tuple[BaseNode, ...], Axes]):
    """A loop of up to `steps.time` steps; the value is its residuals, a flat array.

    The parents are the number of steps to run, if the loop is limited, the initial carries, the sequences, whose first
    axis is that of the steps, and the loop invariants. All have one float dtype.

    Raise `ShapeError` for axes that do not match the body, `DTypeError` for two float dtypes.
    """

    __slots__ = ("steps",)
    steps: Iteration

    def __init__(self, steps: Iteration, *parents: BaseNode) -> None:
        self._construct(parents, steps=steps)

    def _construct(self, parents: tuple[Any, ...], name: str | None = None, **attributes: Any) -> None:
        super()._construct(parents, name, **attributes)
        if any(parent.dtype.kind == "i" for parent in parents):
            for limit in Ranges([self]).limits:
                if limit.size is not None:
                    limit_data(limit.leaf if limit.part is None else limit.part, limit.user, limit.choice, limit.size)

    def dtype_rule(self) -> np.dtype:
        outputs = self.steps.outputs
        for output in outputs:
            if output.dtype.kind != "f":
                raise DTypeError(f"a step must return float arrays, not {describe(output)}; cast it with .astype")
            if output.dtype != outputs[0].dtype:
                raise DTypeError(f"{describe(outputs[0])} and {describe(output)} do not mix; convert one of them")
        return chosen(outputs[0].dtype)  # a loop cannot be rebuilt in another type

    def shape_rule(self) -> Dims:
        steps, parents = self.steps, self.parents[self.steps.limited :]
        if len(parents) != len(steps.body.inputs):
            raise ShapeError(f"the body takes {len(steps.body.inputs)} inputs, not {len(parents)}")
        for position, (parent, placeholder) in enumerate(zip(parents, steps.body.inputs, strict=True)):
            is_sequence = steps.carried <= position < steps.carried + steps.sequences
            dims: Dims = (steps.time, *placeholder.dims) if is_sequence else placeholder.dims
            if not same_sizes(parent.dims, dims) or parent.dtype != placeholder.dtype:
                raise ShapeError(
                    f"{placeholder.name} must have the axes {format_dims(dims)} and the dtype {placeholder.dtype}, "
                    f"unlike {describe(parent)}"
                )
        for placeholder, output in zip(steps.body.inputs, steps.outputs[: steps.carried], strict=False):
            if not same_sizes(placeholder.dims, output.dims):
                raise ShapeError(
                    f"{placeholder.name} must keep its axes from step to step, but changes from "
                    f"{format_dims(placeholder.dims)} to {describe(output)}"
                )
        return (total_size(steps.axes),)

    # --- the parts ------------------------------------------------------------------------------------------------

    def part(self, position: int) -> ScanPart:
        """Return part number `position` of the residuals."""
        return ScanPart(self, self.steps.place_of(position), self.steps.axes[position])

    def before(self, carry: int) -> ScanPart:
        """Return the stacked values of a carry before each step."""
        return self.part(self.steps.history_of(carry))

    def after(self, carry: int) -> ScanPart:
        """Return the stacked values of a carry after each step."""
        return ScanPart(self, self.steps.place_after(carry), self.steps.axes[self.steps.history_of(carry)])

    def last(self, carry: int) -> ScanPart:
        """Return a carry after the last step."""
        return self.part(self.steps.last_of(carry))

    def output(self, number: int) -> ScanPart:
        """Return an output: stacked, of shape (steps, ...), or summed over the steps."""
        return self.part(2 * self.steps.carried + number)

    @property
    def steps_done(self) -> ScanPart:
        """The number of steps that a loop with a stop condition ran."""
        return self.part(len(self.steps.axes) - 1)

    # --- the value ------------------------------------------------------------------------------------------------

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return self._residuals({}, *operands)

    def evaluate_for(self, sizes: Mapping[type[Dim], int]) -> Callable[..., Array]:
        def evaluate(xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
            return self._residuals(sizes, *operands)

        return evaluate

    def _residuals(self, sizes: Mapping[type[Dim], int], *operands: Array) -> Array:
        steps = self.steps
        length = count = steps.length_for(sizes)
        if steps.limited:
            limit, *operands = operands  # type: ignore[assignment]  # a list in place of the tuple
            count = min(count, int(limit))
        carried: list[Array] = list(operands[: steps.carried])
        sequences = operands[steps.carried : steps.carried + steps.sequences]
        invariants = operands[steps.carried + steps.sequences :]
        residuals, parts = self._zeros_of_residuals(sizes)
        histories = [parts[steps.history_of(carry)] for carry in range(steps.carried)]
        stacked = parts[2 * steps.carried : len(parts) - steps.summed - steps.stops]
        sums = parts[len(parts) - steps.summed - steps.stops : len(parts) - steps.stops]
        done = 0
        while done < count:
            t = count - 1 - done if steps.reverse else done
            if steps.keeps:
                for history, value in zip(histories, carried, strict=True):
                    history[t] = value
            try:
                outputs = steps.body(NUMPY, sizes, *carried, *(x[t] for x in sequences), *invariants)
            except IndexOutOfRange as error:
                if steps.limited and not steps.stops:  # a branch
                    raise
                raise IndexOutOfRange(f"{error}, in step {t} of the loop at {self.location}, counted from 0") from None
            goes_on = not steps.stops or bool(outputs.pop())
            carried = outputs[: steps.carried]
            for rows, value in zip(stacked, outputs[steps.carried :], strict=False):
                rows[t] = value
            for total, value in zip(sums, outputs[steps.carried + len(stacked) :], strict=True):
                np.add(total, value, out=total)
            done += 1
            if not goes_on:
                break
        for carry, value in enumerate(carried):
            parts[steps.last_of(carry)][...] = value
            if steps.keeps and not steps.reverse and done < length:  # the value after the last step
                histories[carry][done] = value
        if steps.stops:
            parts[-1][...] = done
        return residuals

    def _zeros_of_residuals(self, sizes: Mapping[type[Dim], int]) -> tuple[Array, list[Array]]:
        """Return residuals of zeros, and views of their parts."""
        shapes = [resolve(dims, sizes) for dims in self.steps.axes]
        residuals: Array = np.zeros(sum(map(math.prod, shapes)), self.dtype)
        parts, start = list[Array](), 0
        for shape in shapes:
            parts.append(residuals[start : start + math.prod(shape)].reshape(shape))
            start += math.prod(shape)
        return residuals, parts

    # --- the gradient ---------------------------------------------------------------------------------------------

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return self.vjp_by(gradient, [True] * len(self.parents))

    def vjp_by(self, gradient: Node, wanted: Sequence[bool]) -> tuple[Gradient, ...]:
        steps = self.steps
        if not steps.keeps:
            reason = "a while_loop without max_steps stores no residuals; pass max_steps= to differentiate it"
            return tuple(Undefined(reason) for _ in self.parents)
        cotangents = [part_of_gradient(gradient, steps.place_of(i), dims) for i, dims in enumerate(steps.axes)]
        chosen = [x for x, is_wanted in zip(steps.body.inputs, wanted[steps.limited :], strict=True) if is_wanted]
        return (*(ZERO for _ in range(steps.limited)), *reversed_loop(self, cotangents, chosen))


@LOOPS.register(Scan)
class _ScanLoops(LoopForm):
    def steps(self, node: Scan) -> Iteration:
        return node.steps


JAX.register(Scan)(ScanForm)
REACH.register(Scan)(ScanReach)


def _in_residuals(start: PackedPlace, dims: Dims, index: IndexMap) -> IndexExpression:
    """Return the index in the residuals of an element of a part at `start` that has the axes `dims`."""
    offset = start.offset if axis_size(start.offset) is not None else Plus((start.offset,))
    return _length(offset) + flat(index, list(map(_length, dims))) if dims else _length(offset)


def _length(axis: Axis) -> IndexExpression:
    size = axis_size(axis)
    return AxisLength(axis) if size is None else IndexLiteral(size)


class _OfResiduals(Node[tuple[Left_co], Axes], abstract=True):
    """An op of the part of residuals that begins at `start`."""

    __slots__ = ()
    start: PackedPlace

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return self.evaluate_for({})(xp, *operands, shape=shape)

    def evaluate_for(self, sizes: Mapping[type[Dim], int]) -> Callable[..., Array]:
        return partial(self.at_offset, resolve_axis(self.start.offset, sizes))

    def at_offset(self, offset: int, xp: ArrayNamespace, operand: Array, *, shape: tuple[int, ...]) -> Array:
        """Compute the value for a part that begins after `offset` elements."""
        raise NotImplementedError


class ScanPart(_OfResiduals[Left_co, Axes], Rearrangement[Left_co, Axes]):
    """A view of the part of the residuals that begins at `start`, with the axes `to`."""

    __slots__ = ("start", "to")
    written = "scan"
    _own: ScanPart[Any, Axes]
    start: PackedPlace
    to: Dims

    def __init__(self, residuals: Node, start: PackedPlace, to: Dims) -> None:
        self._construct((residuals,), start=start, to=to)

    def shape_rule(self) -> Dims:
        (residuals,) = self.parents
        end, size = self.start.after(self.to).offset, residuals.dims[0]
        sizes = axis_size(end), axis_size(size)
        if len(residuals.dims) != 1 or (sizes[0] is not None and sizes[1] is not None and sizes[0] > sizes[1]):
            raise ShapeError(
                f"the part {format_dims(self.to)} after {self.start.offset!r} elements exceeds the residuals, "
                f"{format_dims(residuals.dims)}"
            )
        return self.to

    def at_offset(self, offset: int, xp: ArrayNamespace, operand: Array, *, shape: tuple[int, ...]) -> Array:
        return xp.reshape(operand[offset : offset + math.prod(shape)], shape)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        (residuals,) = operands
        offset, size = self.start.offset, number_of_elements(self.to)
        if isinstance(offset, Dim) or isinstance(size, Dim):
            return None
        part: Node = residuals[:, offset : offset + size]
        return part.reshape((residuals.dims[0], *self.to))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (PlacePart(gradient, self.start, self.parents[0].dims[0]),)


@LOOPS.register(ScanPart)
class _ScanPartLoops(Gathered):
    preserves_layout = True

    def gather_index(self, node: ScanPart, index: IndexMap) -> IndexMap:
        return (_in_residuals(node.start, node.to, index),)


JAX.register(ScanPart)(ScanPartForm)
REACH.register(ScanPart)(ScanPartReach)


class PlacePart(_OfResiduals[Left_co, Axes]):
    """Residuals that are zero outside of the part that begins at `start`: the transpose of `ScanPart`."""

    __slots__ = ("size_of_residuals", "start")
    _own: PlacePart[Any, Axes]
    start: PackedPlace
    size_of_residuals: Axis

    def __init__(self, part: Node, start: PackedPlace, size_of_residuals: Axis) -> None:
        self._construct((part,), start=start, size_of_residuals=size_of_residuals)

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype

    def shape_rule(self) -> Dims:
        (part,) = self.parents
        end, size = axis_size(self.start.after(part.dims).offset), axis_size(self.size_of_residuals)
        if end is not None and size is not None and end > size:
            raise ShapeError(f"{describe(part)} ends at element {end}, but the residuals have {size}")
        return (self.size_of_residuals,)

    def at_offset(self, offset: int, xp: ArrayNamespace, operand: Array, *, shape: tuple[int, ...]) -> Array:
        flat = xp.reshape(operand, (-1,))
        before, after = (xp.zeros(count, dtype=self.dtype) for count in (offset, shape[0] - offset - flat.shape[0]))
        return xp.concat([before, flat, after])

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (ScanPart(gradient, self.start, self.parents[0].dims),)


@LOOPS.register(PlacePart)
class _PlacePartLoops(Scattered):
    def scatter_index(self, node: PlacePart, parent: int, index: IndexMap) -> ScatterTarget | None:
        return ScatterTarget((_in_residuals(node.start, node.parents[0].dims, index),))


def part_of_gradient(gradient: Node, start: PackedPlace, dims: Dims) -> Node | None:
    """Return one part of a gradient with respect to residuals, or None if the part is known to be zero.

    If the gradient is a sum of `PlacePart` nodes, the result adds their operands and needs no array of residuals.
    """
    terms, stack, end = [], [gradient], start.after(dims)
    while stack:
        node = stack.pop()
        if isinstance(node, Add):
            stack += reversed(node.parents)
            continue
        if not isinstance(node, PlacePart):
            return ScanPart(gradient, start, dims)
        own: Dims = node.parents[0].dims
        if (node.start.offset, own) == (start.offset, dims):
            terms.append(node.parents[0])
        elif not (end.is_within(node.start) or node.start.after(own).is_within(start)):
            return ScanPart(gradient, start, dims)
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total


def over_time(
    step: Callable[[Sequence[Any], Sequence[Any]], tuple[Sequence[Node], Sequence[Node]]],
    starts: Sequence[Node],
    sequences: Sequence[Node],
    *,
    reverse: bool = False,
) -> Scan:
    """Return the loop over axis 1, the time, of sequences whose axis 0 is the batch; its outputs begin with the time.

    `step(states, rows)` returns the next states, the first of which are `starts`, and the outputs of a step. Whoever
    calls it checks the indices that steps use.
    """
    states = [placeholder_like(start, start.dims, "state") for start in starts]
    rows = [placeholder_like(x, (x.dims[0], *x.dims[2:]), "row") for x in sequences]
    following, made = step(states, rows)
    outside, captured, outputs = closure_convert([*following, *made], [*states, *rows])
    body = LoopBody([*states, *rows, *captured], outputs, checked=True)
    time: Axis = sequences[0].dims[1]
    steps = Iteration(body, time, len(states), len(rows), reverse=reverse)
    return Scan(steps, *starts, *(x.swapaxes(0, 1) for x in sequences), *outside)

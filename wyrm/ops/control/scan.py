"""Loops inside the graph, whose reverse mode is again such a loop.

One `Scan` node computes a whole loop. Its value is one flat array of residuals: the carries before each step and after
the last, the stacked outputs, and sums over steps. `ScanPart` is a view of one of these parts. The backward pass
recomputes the other values within a step. The body is compiled once, for any number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, axis_size, resolve, resolve_axis
from wyrm.graph.base import ZERO, BaseNode, Gradient, Undefined, describe, format_dims
from wyrm.graph.index_maps import AxisLength, IndexExpression, IndexLiteral, IndexMap, flat
from wyrm.graph.index_operands import limit_data
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, Gathered, LoopForm, Scattered, ScatterTarget
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.schedule import Ranges
from wyrm.graph.shapes import number_of_elements, same_sizes, total_size
from wyrm.graph.typing import Array
from wyrm.graph.weak_types import chosen
from wyrm.ops.control.loop_body import Iteration, LoopBody, PackedPlace, closure_convert
from wyrm.ops.control.scan_gradient import reversed_loop
from wyrm.ops.control.scan_jax import ScanForm, ScanPartForm
from wyrm.ops.elementwise.arithmetic import Add
from wyrm.ops.elementwise.elementwise import Axes, Left_co
from wyrm.ops.shaping.shape import Rearrangement
from wyrm.ops.subgraph import placeholder_like


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
        return self._residuals({}, xp, *operands)

    def evaluate_for(self, sizes: Mapping[type[Dim], int]) -> Callable[..., Array]:
        def evaluate(xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
            return self._residuals(sizes, xp, *operands)

        return evaluate

    def _residuals(self, sizes: Mapping[type[Dim], int], xp: ArrayNamespace, *operands: Array) -> Array:
        steps = self.steps
        length = count = steps.length_for(sizes)
        if steps.limited:
            limit, *operands = operands  # type: ignore[assignment]  # a list in place of the tuple
            count = min(count, int(limit))
        carried: list[Array] = [xp.asarray(x) for x in operands[: steps.carried]]
        sequences = operands[steps.carried : steps.carried + steps.sequences]
        invariants = operands[steps.carried + steps.sequences :]
        stacked = len(steps.outputs) - steps.summed  # the carries and the stacked outputs
        histories: list[dict[int, Array]] = [{} for _ in range(stacked)]
        sums: list[Array] = [xp.zeros(resolve(x.dims, sizes), dtype=self.dtype) for x in steps.outputs[stacked:]]
        done = 0
        while done < count:
            t = count - 1 - done if steps.reverse else done
            if steps.keeps:
                for history, value in zip(histories, carried, strict=False):
                    history[t] = value
            try:
                outputs = steps.body(xp, sizes, *carried, *(x[t] for x in sequences), *invariants)
            except IndexOutOfRange as error:
                if steps.limited and not steps.stops:  # a branch
                    raise
                raise IndexOutOfRange(f"{error}, in step {t} of the loop at {self.location}, counted from 0") from None
            goes_on = not steps.stops or bool(outputs.pop())
            carried = outputs[: steps.carried]
            for history, value in zip(histories[steps.carried :], outputs[steps.carried :], strict=False):
                history[t] = value
            sums = [x + y for x, y in zip(sums, outputs[stacked:], strict=True)]
            done += 1
            if not goes_on:
                break
        parts: list[Array] = []
        for position, history in enumerate(histories):
            size = resolve(steps.outputs[position].dims, sizes)
            if position < steps.carried:  # the value after the last step lies next to the value before it
                history[-1 if steps.reverse else done] = carried[position]
            rows = range(-steps.reverse, length + 1 - steps.reverse) if steps.keeps else [done]
            if position >= steps.carried:
                rows = range(length)
            parts += [xp.reshape(history.get(t, xp.zeros(size, dtype=self.dtype)), (-1,)) for t in rows]
            if position < steps.carried and steps.keeps and not steps.reverse:
                parts[-1] = xp.reshape(carried[position], (-1,))
        parts += [xp.reshape(x, (-1,)) for x in sums]
        if steps.stops:
            parts.append(xp.asarray([done], dtype=self.dtype))
        return xp.concat([xp.zeros(0, dtype=self.dtype), *parts])

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


def _in_residuals(start: PackedPlace, dims: Dims, index: IndexMap) -> IndexExpression:
    """Return the index in the residuals of an element of a part at `start` that has the axes `dims`."""
    offset = _length(start.offset)
    return offset + flat(index, list(map(_length, dims))) if dims else offset


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

    `step(states, rows)` returns the next states, the first of which are `starts`, and the outputs of a step.
    """
    states = [placeholder_like(start, start.dims, "state") for start in starts]
    rows = [placeholder_like(x, (x.dims[0], *x.dims[2:]), "row") for x in sequences]
    following, made = step(states, rows)
    outside, captured, outputs = closure_convert([*following, *made], [*states, *rows])
    body = LoopBody([*states, *rows, *captured], outputs)
    time: Axis = sequences[0].dims[1]
    steps = Iteration(body, time, len(states), len(rows), reverse=reverse)
    return Scan(steps, *starts, *(x.swapaxes(0, 1) for x in sequences), *outside)


__all__ = ["PlacePart", "Scan", "ScanPart", "over_time", "part_of_gradient"]

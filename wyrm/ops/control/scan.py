"""Loops inside the graph, whose reverse mode is again such a loop.

One `Scan` node computes a whole loop. Its value is one flat array of residuals: the carries before each step and after
the last, the stacked outputs, and sums over steps. `ScanPart` is a view of one of these parts. The backward pass
recomputes the other values within a step. The body is compiled once, for any number of steps.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims, axis_size
from wyrm.graph.base import ZERO, BaseNode, Gradient, Undefined, describe, format_dims
from wyrm.graph.index_maps import IndexExpression, IndexLiteral, IndexMap, flat
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, Gathered, LoopForm, Scattered, ScatterTarget
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import Node
from wyrm.graph.typing import Array
from wyrm.graph.weak_types import chosen
from wyrm.ops.control.scan_gradient import reversed_loop
from wyrm.ops.control.scan_jax import ScanForm, ScanPartForm
from wyrm.ops.control.steps import Steps, size_of
from wyrm.ops.elementwise.arithmetic import Add
from wyrm.ops.elementwise.elementwise import Axes, Left_co
from wyrm.ops.shaping.shape import Rearrangement


class Scan(Node[tuple[BaseNode, ...], Axes]):
    """A loop of up to `steps.length` steps; the value is its residuals, a flat array.

    The parents are the number of steps to run, if the loop is limited, the initial carries, the sequences, whose first
    axis is that of the steps, and the loop invariants. All have one float dtype.

    Raise `ShapeError` for axes that do not match the body, `DTypeError` for two float dtypes.
    """

    __slots__ = ("steps",)
    steps: Steps

    def __init__(self, steps: Steps, *parents: BaseNode) -> None:
        self._construct(parents, steps=steps)

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
            shape = (steps.length, *placeholder.shape) if is_sequence else placeholder.shape
            if parent.shape != shape or parent.dtype != placeholder.dtype:
                raise ShapeError(
                    f"{placeholder.name} must have the shape {shape} and the dtype {placeholder.dtype}, unlike "
                    f"{describe(parent)}"
                )
        for placeholder, output in zip(steps.body.inputs, steps.outputs[: steps.carried], strict=False):
            if placeholder.shape != output.shape:
                raise ShapeError(
                    f"{placeholder.name} must keep its shape from step to step, but changes from {placeholder.shape} "
                    f"to {describe(output)}"
                )
        return (steps.starts[-1],)

    # --- the parts ------------------------------------------------------------------------------------------------

    def part(self, position: int) -> ScanPart:
        """Return part number `position` of the residuals."""
        return ScanPart(self, self.steps.starts[position], self.steps.axes[position])

    def before(self, carry: int) -> ScanPart:
        """Return the stacked values of a carry before each step."""
        return self.part(self.steps.history_of(carry))

    def after(self, carry: int) -> ScanPart:
        """Return the stacked values of a carry after each step."""
        steps = self.steps
        size = 0 if steps.reverse else size_of(steps.outputs[carry].dims)
        return ScanPart(self, steps.starts[2 * carry] + size, steps.axes[steps.history_of(carry)])

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
        steps = self.steps
        count = steps.length
        if steps.limited:
            limit, *operands = operands  # type: ignore[assignment]  # a list in place of the tuple
            count = min(count, int(limit))
        carried: list[Array] = [xp.asarray(x) for x in operands[: steps.carried]]
        sequences = operands[steps.carried : steps.carried + steps.sequences]
        invariants = operands[steps.carried + steps.sequences :]
        stacked = len(steps.outputs) - steps.summed  # the carries and the stacked outputs
        histories: list[dict[int, Array]] = [{} for _ in range(stacked)]
        sums: list[Array] = [xp.zeros(x.shape, dtype=self.dtype) for x in steps.outputs[stacked:]]
        done = 0
        while done < count:
            t = count - 1 - done if steps.reverse else done
            if steps.keeps:
                for history, value in zip(histories, carried, strict=False):
                    history[t] = value
            outputs = steps.body(xp, *carried, *(x[t] for x in sequences), *invariants)
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
            size = steps.outputs[position].shape
            if position < steps.carried:  # the value after the last step lies next to the value before it
                history[-1 if steps.reverse else done] = carried[position]
            rows = range(-steps.reverse, steps.length + 1 - steps.reverse) if steps.keeps else [done]
            if position >= steps.carried:
                rows = range(steps.length)
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
        cotangents = [part_of_gradient(gradient, at, dims) for at, dims in zip(steps.starts, steps.axes, strict=False)]
        chosen = [x for x, is_wanted in zip(steps.body.inputs, wanted[steps.limited :], strict=True) if is_wanted]
        return (*(ZERO for _ in range(steps.limited)), *reversed_loop(self, cotangents, chosen))


@LOOPS.register(Scan)
class _ScanLoops(LoopForm):
    def steps(self, node: Scan) -> Steps:
        return node.steps


JAX.register(Scan)(ScanForm)


def _in_residuals(dims: Dims, index: IndexMap, start: int) -> IndexExpression:
    """Return the index in the residuals of an element of a part that begins at `start` and has the axes `dims`."""
    return IndexLiteral(start) + flat(index, list(map(operator.index, dims))) if dims else IndexLiteral(start)


class ScanPart(Rearrangement[Left_co, Axes]):
    """A view of the part of the residuals that begins at `start`, with the axes `to`."""

    __slots__ = ("start", "to")
    _own: ScanPart[Any, Axes]
    start: int
    to: Dims

    def __init__(self, residuals: Node, start: int, to: Dims) -> None:
        self._construct((residuals,), start=start, to=to)

    def shape_rule(self) -> Dims:
        (residuals,) = self.parents
        size = axis_size(residuals.dims[0]) if len(residuals.dims) == 1 else None
        if size is None or self.start + size_of(self.to) > size:
            raise ShapeError(f"the part {self.to} at {self.start} exceeds the residuals, {format_dims(residuals.dims)}")
        return self.to

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.reshape(operands[0][self.start : self.start + math.prod(shape)], shape)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        (residuals,) = operands
        part: Node = residuals[:, self.start : self.start + size_of(self.to)]
        return part.reshape((residuals.dims[0], *self.to))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (PlacePart(gradient, self.start, axis_size(self.parents[0].dims[0]) or 0),)


@LOOPS.register(ScanPart)
class _ScanPartLoops(Gathered):
    preserves_layout = True

    def gather_index(self, node: ScanPart, index: IndexMap) -> IndexMap:
        return (_in_residuals(node.to, index, node.start),)


JAX.register(ScanPart)(ScanPartForm)


class PlacePart(Node[tuple[Left_co], Axes]):
    """Residuals that are zero outside of the part that begins at `start`: the transpose of `ScanPart`."""

    __slots__ = ("residuals_size", "start")
    _own: PlacePart[Any, Axes]
    start: int
    residuals_size: int

    def __init__(self, part: Node, start: int, residuals_size: int) -> None:
        self._construct((part,), start=start, residuals_size=residuals_size)

    def dtype_rule(self) -> np.dtype:
        return self.parents[0].dtype

    def shape_rule(self) -> Dims:
        (part,) = self.parents
        if self.start + part.size > self.residuals_size:
            raise ShapeError(
                f"{part.size} elements from {self.start} on exceed the residuals, of size {self.residuals_size}"
            )
        return (self.residuals_size,)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        flat = xp.reshape(operands[0], (-1,))
        before, after = (
            xp.zeros(count, dtype=self.dtype) for count in (self.start, shape[0] - self.start - flat.shape[0])
        )
        return xp.concat([before, flat, after])

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (ScanPart(gradient, self.start, self.parents[0].dims),)


@LOOPS.register(PlacePart)
class _PlacePartLoops(Scattered):
    def scatter_index(self, node: PlacePart, parent: int, index: IndexMap) -> ScatterTarget | None:
        return ScatterTarget((_in_residuals(node.parents[0].dims, index, node.start),))


def part_of_gradient(gradient: Node, start: int, dims: Dims) -> Node | None:
    """Return one part of a gradient with respect to residuals, or None if the part is known to be zero.

    If the gradient is a sum of `PlacePart` nodes, the result adds their operands and needs no array of residuals.
    """
    terms, stack = [], [gradient]
    size = size_of(dims)
    while stack:
        node = stack.pop()
        if isinstance(node, Add):
            stack += reversed(node.parents)
        elif not isinstance(node, PlacePart):
            return ScanPart(gradient, start, dims)
        elif (node.start, node.parents[0].dims) == (start, dims):
            terms.append(node.parents[0])
        elif node.start < start + size and start < node.start + node.parents[0].size:
            return ScanPart(gradient, start, dims)
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total


__all__ = ["PlacePart", "Scan", "ScanPart", "part_of_gradient"]

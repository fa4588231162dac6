"""What the LSTM and the GRU share: the formulas of a step, their ops over all steps, and the checks of operands.

Three ops of a layer use its `StepFormulas`: `Residuals` runs the recurrence and stores what the backward pass needs, an
op selects the states from them, and `ResidualsGradient` runs the backward pass. Both passes are loops in the graph, and
fused: kernels do them in native code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, product, unify
from wyrm.graph.base import format_dims, label
from wyrm.graph.loop_form import ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.composed import Composed
from wyrm.ops.control.scan import over_time
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, common_dtype, unmasked_dtype
from wyrm.ops.indexing.joining import stack
from wyrm.ops.kernels.native import scratch
from wyrm.ops.shaping.shape import zeros_like
from wyrm.reach.rules import REACH, Reach
from wyrm.reach.ways import How, Places, Way, ways_by

# Least batch * time for which the backward pass copies the transposed weights.
TRANSPOSE_FROM = 256
# Rows of a slot of a batch, and the least multiplications of its product at a step: smaller ones reread the weights for
# too few rows.
_SLOT_ROWS, _SLOT_WORK = 16, 1 << 19

# The shape of the gates of one step: (batch, gates, hidden).
Axes3 = tuple[Axis, int, Axis]


class StepFormulas:
    """The formulas of one step of a recurrent layer.

    The operands of the layer are the projected inputs, (batch, time, gates * hidden), the weights, (hidden, gates *
    hidden), its parameters and its initial states, two in all, then optional resets. The residuals of a step, (batch,
    entries, hidden), are entries of its own, the states before the step and the states after it.
    """

    # The layer, for messages.
    layer: ClassVar[str]
    # The number of states; the first one is multiplied by the weights.
    states: ClassVar[int]

    def forward(
        self, inputs: Node, products: Node, parameters: Sequence[Node], states: Sequence[Node], axes: Axes3
    ) -> tuple[list[Node], list[Node]]:
        """Return the own entries of the residuals and the states after the step.

        `inputs` are the projected inputs of the step, `products` the first state times the weights.
        """
        raise NotImplementedError

    def backward(
        self, entry: Callable[[int], Node], cotangents: Sequence[Node], gates: int
    ) -> tuple[list[Node], list[Node], Node]:
        """Return the gradients of the step: all to store, and those with respect to the product with the weights.

        The third result is the gradient with respect to a state that does not pass through the weights. `entry(k)` is
        an entry of the residuals; `cotangents` are the gradients with respect to the states after the step.
        """
        raise NotImplementedError

    def before(self, hidden: Node, direct: Node) -> list[Node]:
        """Return the gradients with respect to the states before a step: through the weights, and past them."""
        raise NotImplementedError

    def split(self, operands: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the parameters, the initial states and the resets among the operands of the layer."""
        count = 4 - self.states
        return list(operands[2:count]), list(operands[count:4]), list(operands[4:])


class Recurrent(Node[tuple[Node, ...], Axes], abstract=True):
    """Base class of the recurrent ops."""

    __slots__ = ()
    cell: ClassVar[StepFormulas]

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents)


class _OverTime(Recurrent[Axes], Composed[tuple[Node, ...], Axes], abstract=True):
    """An op whose value, (batch, time, entries, hidden), has entries for each step."""

    __slots__ = ()

    @property
    def gates(self) -> int:
        """The number of gates, including the candidate."""
        raise NotImplementedError

    @property
    def axes_of_step(self) -> Axes3:
        """The shape of the gates of one step."""
        dims: Any = self.dims
        batch, _, _, width = dims
        return batch, self.gates, width


def _zero_at_resets(states: Sequence[Node], resets: Sequence[Any]) -> list[Node]:
    """Return states, or gradients with respect to them, that are zero where a reset is."""
    for mask in resets:
        states = [where(mask[:, None], 0.0, state) for state in states]
    return list(states)


class Residuals(_OverTime[Axes], abstract=True):
    """Base class of the residuals; the parents are the operands of the layer, see `StepFormulas`."""

    __slots__ = ()

    def compose(self, *operands: Any) -> Node:
        projected, weights, *_ = operands
        parameters, states, resets = self.cell.split(operands)

        def step(states: Sequence[Node], rows: Sequence[Any]) -> tuple[list[Node], list[Node]]:
            inputs, *reset = rows
            states = _zero_at_resets(states, reset)
            entries, following = self.cell.forward(inputs, states[0] @ weights, parameters, states, self.axes_of_step)
            return following, [stack([*entries, *states, *following], 1)]

        return over_time(step, states, [projected, *resets]).output(0).swapaxes(0, 1)

    def dtype_rule(self) -> np.dtype:
        for mask in self.parents[4:]:
            if mask.dtype.kind != "b":
                raise DTypeError(f"resets must have dtype bool, like x > 0; {label(mask)} is {mask.dtype}")
        return unmasked_dtype(self.parents[:4])

    def common_axes(self, gates: int, states: Sequence[int]) -> tuple[Axis, Axis, Axis]:
        """Return the axes (batch, time, hidden), or raise `ShapeError`; `states` are the positions of the states."""
        projected, weights, *others = self.parents
        resets = others[2:]
        ranks = (projected, 3), (weights, 2), *((self.parents[i], 2) for i in states), *((mask, 2) for mask in resets)
        for parent, rank in ranks:
            if len(parent.dims) != rank:
                raise ShapeError(f"{label(parent)} must have {rank} axes, not {format_dims(parent.dims)}")
        batch, time, projected_width = projected.dims
        width = weights.dims[0]
        expected = product((gates, width))
        for operand, axis in (("projected input", projected_width), ("recurrent weights", weights.dims[1])):
            if axis_size(axis) != axis_size(expected):
                raise ShapeError(f"the last axis of the {operand} must be {gates} * {width!r}, not {axis!r}")
        for i in states:
            batch, width = unify(batch, self.parents[i].dims[0]), unify(width, self.parents[i].dims[1])
        for mask in resets:
            batch, time = unify(batch, mask.dims[0]), unify(time, mask.dims[1])
        if axis_size(time) == 0:
            raise ShapeError(f"the time axis has size 0; {self.cell.layer} needs at least one step")
        return batch, time, width


@REACH.register(Residuals)
class _ResidualsReach(Reach):
    """Sequences stay apart; the loop over the steps says the rest."""

    composes = True

    def ways(self, node: Residuals[Any]) -> list[Way]:
        places: list[Places] = [(0, [0, 1, None]), *((k, [0, None]) for k in range(4 - node.cell.states, 4))]
        places += [(k, [0, 1]) for k in range(4, len(node.parents))]
        return ways_by(node, places, {1: How.COUNTED, 2: How.ANY, 3: How.ANY})


class ResidualsLoops(ByKernel):
    def kernel_arguments(self, node: Residuals, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        batch, time, entries, width = out.shape
        rows = out.reshape(batch, time, entries * width)
        return *operands[:4], mask_rows(operands[4:]), rows, slots_of(batch, operands[1])


class ResidualsGradient(_OverTime[Axes], abstract=True):
    """Base class of the VJPs of the layers; the parents are the residuals, the weights, cotangents and resets."""

    __slots__ = ()

    def __init__(self, residuals: Node, weights: Node, states_gradient: Node, *resets: Node) -> None:
        self._construct((residuals, weights, states_gradient, *resets))

    def compose(self, residuals: Any, weights: Any, states_gradient: Any, *resets: Any) -> Node:
        cell, (batch, gates, width) = self.cell, self.axes_of_step

        def step(later: Sequence[Node], rows: Sequence[Any]) -> tuple[list[Node], list[Node]]:
            entries, gradient, *reset = rows
            of_states = [gradient[:, state] for state in range(cell.states)] if cell.states > 1 else [gradient]
            cotangents = [x + y for x, y in zip(of_states, later, strict=True)]
            gradients, of_product, direct = cell.backward(lambda k: entries[:, k], cotangents, gates)
            hidden: Node = stack(of_product, 1).reshape((batch, product((gates, width)))) @ weights.T
            hidden, direct = _zero_at_resets([hidden, direct], reset)
            return cell.before(hidden, direct), [stack([*gradients, direct], 1)]

        zeros = [zeros_like(residuals[:, 0, 0])] * cell.states
        loop = over_time(step, zeros, [residuals, states_gradient, *resets], reverse=True)
        return loop.output(0).swapaxes(0, 1)

    def gradients(self, entries: Axis) -> int:
        """Return the number of gradients of a step, for residuals with this axis of entries."""
        raise NotImplementedError

    def shape_rule(self) -> Dims:
        batch, time, entries, width = self.parents[0].dims
        states = (self.cell.states,) if self.cell.states > 1 else ()
        for axis, other in zip((batch, time, *states, width), self.parents[2].dims, strict=True):
            unify(axis, other)
        return batch, time, self.gradients(entries), width


class GradientLoops(ByKernel):
    def kernel_arguments(
        self, node: ResidualsGradient, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        residuals, weights, states_gradient, *resets = operands
        batch, time, parts, width = out.shape
        rows = residuals.reshape(batch, time, residuals.shape[2] * width), out.reshape(batch, time, parts * width)
        # For few rows the copy costs more than the products gain.
        transposed = scratch(weights.shape[::-1] if batch * time >= TRANSPOSE_FROM else (0, 0), out.dtype)
        hidden_gradient = scratch((batch, width), out.dtype)
        arrays = rows[0], weights, states_gradient, mask_rows(resets), rows[1], hidden_gradient, transposed
        return *arrays, slots_of(batch, weights)


def slots_of(batch: int, weights: Array) -> int:
    """Return into how many slots of consecutive rows threads divide a batch; one if the products would be small."""
    return max(1, batch // _SLOT_ROWS) if _SLOT_ROWS * weights.size >= _SLOT_WORK else 1


def transpose_into(x: FloatArray, transposed: FloatArray) -> None:
    """Write `x.T` into `transposed`, which may be empty."""
    for i in range(transposed.shape[0]):
        for j in range(transposed.shape[1]):
            transposed[i, j] = x[j, i]


def mask_rows(resets: Sequence[Array]) -> Array:
    """Return the mask of resets, empty where there is none."""
    return resets[0] if resets else np.zeros((0, 0), np.bool_)

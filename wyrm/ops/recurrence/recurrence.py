"""What the LSTM and the GRU share: the walk over time, forward and backward, their ops, and the checks of operands.

Three ops of a layer use its `StepFormulas`: `Residuals` runs the recurrence and stores what the backward pass needs, an
op selects the states from them, and `ResidualsGradient` runs the backward pass. The walks are over arrays or, for
gradients of gradients, over nodes; the kernels implement them as loops.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, product, unify
from wyrm.graph.base import ZERO, Gradient, Undefined, format_dims, label
from wyrm.graph.loop_form import ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, common_dtype
from wyrm.ops.gradients.accumulation import composite_vjp
from wyrm.ops.indexing.joining import stack
from wyrm.ops.kernels.native import scratch

# Least batch * time for which the backward pass copies the transposed weights.
TRANSPOSE_FROM = 256
# Rows of a slot of a batch, and the least multiplications of its product at a step: smaller ones reread the weights for
# too few rows.
_SLOT_ROWS, _SLOT_WORK = 16, 1 << 19

Value = TypeVar("Value", FloatArray, Node)
# The shape of the gates of one step: (batch, gates, hidden).
Axes3 = tuple[Axis, int, Axis]


class RecurrentFunctions(NamedTuple, Generic[Value]):
    """The functions that the formulas call, for an array namespace or for nodes."""

    sigmoid: Callable[[Value], Value]
    tanh: Callable[[Value], Value]
    where: Callable[[Value, float, Value], Value]
    stack: Callable[[list[Value], int], Value]
    matmul: Callable[[Value, Value], Value]


OF_NODES: RecurrentFunctions[Node] = RecurrentFunctions(
    lambda x: x.sigmoid(), lambda x: x.tanh(), where, stack, operator.matmul
)


def of_arrays(xp: ArrayNamespace) -> RecurrentFunctions[FloatArray]:
    """Return the functions of an array namespace."""

    def sigmoid(x: FloatArray) -> FloatArray:
        power = xp.exp(-xp.abs(x))
        return xp.where(x < 0.0, power, 1.0) / (1.0 + power)

    return RecurrentFunctions(sigmoid, xp.tanh, xp.where, xp.stack, xp.matmul)


class StepFormulas:
    """The formulas of one step of a recurrent layer, for arrays and for nodes.

    The operands of the layer are the projected inputs, (batch, time, gates * hidden), the weights, (hidden, gates *
    hidden), its parameters and its initial states, two in all, then optional resets. The residuals of a step, (batch,
    entries, hidden), are entries of its own, the states before the step and the states after it.
    """

    # The layer, for messages.
    layer: ClassVar[str]
    # The number of states; the first one is multiplied by the weights.
    states: ClassVar[int]

    def forward(
        self, of: RecurrentFunctions[Any], inputs: Any, product: Any, parameters: Any, states: Any, axes: Axes3
    ) -> tuple[list[Any], list[Any]]:
        """Return the own entries of the residuals and the states after the step.

        `inputs` are the projected inputs of the step, `product` the first state times the weights.
        """
        raise NotImplementedError

    def backward(
        self, entry: Callable[[int], Any], cotangents: Sequence[Any], gates: int
    ) -> tuple[list[Any], list[Any], Any]:
        """Return the gradients of the step: all to store, and those with respect to the product with the weights.

        The third result is the gradient with respect to a state that does not pass through the weights. `entry(k)` is
        an entry of the residuals; `cotangents` are the gradients with respect to the states after the step.
        """
        raise NotImplementedError

    def of_product(self, xp: ArrayNamespace, gradients: Any) -> Any:
        """Return, of the stored gradients of one step, those with respect to the product with the weights."""
        return gradients[:, 0, :-1]

    def before(self, hidden: Any, direct: Any) -> list[Any]:
        """Return the gradients with respect to the states before a step: through the weights, and past them."""
        raise NotImplementedError

    def split(self, operands: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the parameters, the initial states and the resets among the operands of the layer."""
        count = 4 - self.states
        return list(operands[2:count]), list(operands[count:4]), list(operands[4:])

    # --- the walks over time --------------------------------------------------------------------------------------

    def walk_forward(self, of: RecurrentFunctions[Any], steps: int, operands: Sequence[Any], axes: Axes3) -> Any:
        """Return the residuals of all steps; `axes` is the shape of the gates of one step: (batch, gates, hidden)."""
        parameters, states, resets = self.split(operands)
        residuals: list[Any] = []
        for t in range(steps):
            for mask in resets:
                states = [of.where(mask[:, t, None], 0.0, state) for state in states]
            inputs, product_of_state = operands[0][:, t], of.matmul(states[0], operands[1])
            entries, following = self.forward(of, inputs, product_of_state, parameters, states, axes)
            residuals.append(of.stack([*entries, *states, *following], 1))
            states = following
        return of.stack(residuals, 1)

    def walk_backward(self, of: RecurrentFunctions[Any], steps: int, operands: Sequence[Any], axes: Axes3) -> Any:
        """Return the gradients of all steps; the operands are the residuals, the weights, cotangents and resets."""
        residuals, weights, of_states, *resets = operands
        batch, gates, width = axes
        result: list[Any] = []
        cotangents = self.of_states(of_states, -1)
        for t in reversed(range(steps)):
            entry: Callable[[int], Any] = partial(_entry, residuals, t)
            gradients, of_product, direct = self.backward(entry, cotangents, gates)
            sums: Any = of.stack(of_product, 1)
            hidden: Any = of.matmul(sums.reshape((batch, product((gates, width)))), weights.T)
            for mask in resets:
                hidden, direct = (of.where(mask[:, t, None], 0.0, x) for x in (hidden, direct))
            result.append(of.stack([*gradients, direct], 1))
            if t > 0:
                earlier = zip(self.before(hidden, direct), self.of_states(of_states, t - 1), strict=True)
                cotangents = [x + y for x, y in earlier]
        return of.stack(result[::-1], 1)

    def of_states(self, values: Any, t: int) -> list[Any]:
        """Return the parts of a value of the axes of the layer's result, one for each state, at step t."""
        return [values[:, t, state] for state in range(self.states)] if self.states > 1 else [values[:, t]]


def _entry(residuals: Any, t: int, k: int) -> Any:
    return residuals[:, t, k]


class Recurrent(Node[tuple[Node, ...], Axes], abstract=True):
    """Base class of the recurrent ops."""

    __slots__ = ()
    cell: ClassVar[StepFormulas]

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents)


class _Walk(Recurrent[Axes], abstract=True):
    """An op whose value, (batch, time, entries, hidden), is that of a walk over time."""

    __slots__ = ()

    @property
    def gates(self) -> int:
        """The number of gates, including the candidate."""
        raise NotImplementedError

    def walk(self, of: RecurrentFunctions[Any], steps: int, operands: Sequence[Any], axes: Axes3) -> Any:
        """Return the value of the walk over these operands."""
        raise NotImplementedError

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        if 0 in shape:
            return xp.zeros(shape, self.dtype)
        value: FloatArray = self.walk(of_arrays(xp), shape[1], operands, (shape[0], self.gates, shape[3]))
        return value

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        dims: Any = self.dims
        batch, time, _, width = dims
        steps = axis_size(time)
        if steps is None:
            # The decomposition has nodes for each step, so it needs the number of steps.
            reason = (
                f"the second-order gradient of {self.cell.layer} needs a time axis with a size, but {time!r} gets its "
                f"size from the data of each run; give it one, as in {type(time).__name__}(20)"
            )
            return tuple(Undefined(reason) if parent.dtype.kind == "f" else ZERO for parent in self.parents)
        composed = self.walk(OF_NODES, steps, self.parents, (batch, self.gates, width))
        return composite_vjp(composed, gradient, self.parents)


class Residuals(_Walk[Axes], abstract=True):
    """Base class of the residuals; the parents are the operands of the layer, see `StepFormulas`."""

    __slots__ = ()

    def walk(self, of: RecurrentFunctions[Any], steps: int, operands: Sequence[Any], axes: Axes3) -> Any:
        return self.cell.walk_forward(of, steps, operands, axes)

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        shared = rows[1 : 4 - self.cell.states]
        return "rows" if all(row is None for row in shared) and all(row in (0, None) for row in rows) else None

    def dtype_rule(self) -> np.dtype:
        for mask in self.parents[4:]:
            if mask.dtype.kind != "b":
                raise DTypeError(f"resets must have dtype bool, like x > 0; {label(mask)} is {mask.dtype}")
        for parent in self.parents[:4]:
            if parent.dtype.kind == "b":
                raise DTypeError(f"{label(parent)} is a mask; convert it with .astype(np.float32)")
        return super().dtype_rule()

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


class ResidualsLoops(ByKernel):
    def kernel_arguments(self, node: Residuals, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        batch, time, entries, width = out.shape
        rows = out.reshape(batch, time, entries * width)
        return *operands[:4], mask_rows(operands[4:]), rows, slots_of(batch, operands[1])


class ResidualsGradient(_Walk[Axes], abstract=True):
    """Base class of the VJPs of the layers; the parents are the residuals, the weights, cotangents and resets."""

    __slots__ = ()

    def __init__(self, residuals: Node, weights: Node, states_gradient: Node, *resets: Node) -> None:
        self._construct((residuals, weights, states_gradient, *resets))

    def walk(self, of: RecurrentFunctions[Any], steps: int, operands: Sequence[Any], axes: Axes3) -> Any:
        return self.cell.walk_backward(of, steps, operands, axes)

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

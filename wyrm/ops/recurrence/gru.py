"""Fused gated recurrent unit (GRU) over a whole sequence, with one matrix product per step for all gates.

Residuals have the axes (batch, time, 6 * hidden) here. The entries of a step are those of `GRUResiduals`.

`wyrm.ops.recurrence.recurrence` tells how the three ops work together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, product, unify
from wyrm.graph.base import ZERO, Gradient, format_dims, label
from wyrm.graph.index_maps import IndexLiteral, IndexMap
from wyrm.graph.loop_form import LOOPS, Gathered
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import BoolArray, FloatArray
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.elementwise.fast_math import sigmoid, tanh
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.kernels.sums import shared_turns
from wyrm.ops.products.product import multiply_into
from wyrm.ops.recurrence.recurrence import (
    Axes3,
    GradientLoops,
    Recurrent,
    Residuals,
    ResidualsGradient,
    ResidualsLoops,
    StepFormulas,
    transpose_into,
)


def start_step(row: FloatArray, hidden: FloatArray, projected: FloatArray, bias: FloatArray, reset: bool) -> None:
    """Write what the matrix product of a step adds to, and the state before the step, into the row of residuals."""
    width = hidden.size
    for k in range(2 * width):
        row[k] = projected[k]
    for k in range(width):
        row[2 * width + k] = bias[k]
    for k in range(width):
        row[4 * width + k] = 0 if reset else hidden[k]


def step_forward(
    reset_gates: FloatArray,
    update_gates: FloatArray,
    recurrent: FloatArray,
    candidates: FloatArray,
    previous: FloatArray,
    hidden: FloatArray,
    projected: FloatArray,
) -> None:
    """Compute one step; the gates hold their pre-activations on entry and their values on return."""
    for k in range(reset_gates.size):
        reset_gate, update_gate = sigmoid(reset_gates[k]), sigmoid(update_gates[k])
        candidate = tanh(projected[k] + reset_gate * recurrent[k])
        reset_gates[k], update_gates[k], candidates[k] = reset_gate, update_gate, candidate
        hidden[k] = candidate + update_gate * (previous[k] - candidate)


def forward_rows(
    projected: FloatArray,
    weights: FloatArray,
    bias: FloatArray,
    hidden: FloatArray,
    resets: BoolArray,
    residuals: FloatArray,
) -> None:
    """Fill `residuals`; `resets` is empty where there is no mask."""
    width = weights.shape[0]
    for t in range(residuals.shape[1]):
        for b in range(residuals.shape[0]):
            row, reset = residuals[b, t], resets.size > 0 and resets[b, t]
            if t == 0:
                start_step(row, hidden[b], projected[b, t], bias, reset)
            else:
                start_step(row, residuals[b, t - 1, 5 * width :], projected[b, t], bias, reset)
        multiply_into(residuals[:, t, 4 * width : 5 * width], weights, residuals[:, t, : 3 * width], 1)
        for b in range(residuals.shape[0]):
            row = residuals[b, t]
            step_forward(
                row[:width], row[width : 2 * width], row[2 * width : 3 * width], row[3 * width : 4 * width],
                row[4 * width : 5 * width], row[5 * width :], projected[b, t, 2 * width :],
            )  # fmt: skip


def forward_kernel(
    projected: FloatArray,
    weights: FloatArray,
    bias: FloatArray,
    hidden: FloatArray,
    resets: BoolArray,
    residuals: FloatArray,
    slots: int,
) -> None:
    """Fill `residuals` with the steps of all rows; threads share the slots of consecutive rows."""
    batch = residuals.shape[0]
    for slot in shared_turns(slots, batch * residuals.shape[1] * weights.size // slots):
        low, high = batch * slot // slots, batch * (slot + 1) // slots
        forward_rows(projected[low:high], weights, bias, hidden[low:high], resets[low:high], residuals[low:high])


def step_backward(
    row: FloatArray,
    hidden_gradient: FloatArray,
    reset_gradient: FloatArray,
    update_gradient: FloatArray,
    candidate_gradient: FloatArray,
    recurrent_gradient: FloatArray,
    direct_gradient: FloatArray,
) -> None:
    """Compute the entries of `GRUGradient` for one step from the gradient with respect to the new state.

    Unlike the step derived from `step_forward`, it reads the gates in the residuals, and records nothing beside them.
    """
    width = hidden_gradient.size
    for k in range(width):
        reset_gate, update_gate, recurrent = row[k], row[width + k], row[2 * width + k]
        candidate, previous, gradient = row[3 * width + k], row[4 * width + k], hidden_gradient[k]
        inward = (gradient - gradient * update_gate) * (1 - candidate * candidate)
        candidate_gradient[k] = inward
        recurrent_gradient[k] = inward * reset_gate
        reset_gradient[k] = inward * recurrent * (reset_gate - reset_gate * reset_gate)
        update_gradient[k] = gradient * (previous - candidate) * (update_gate - update_gate * update_gate)
        direct_gradient[k] = gradient * update_gate


def backward_rows(
    residuals: FloatArray,
    weights: FloatArray,
    states_gradient: FloatArray,
    resets: BoolArray,
    out: FloatArray,
    hidden_gradient: FloatArray,
    transposed: FloatArray,
) -> None:
    """Fill `out`, of the axes (batch, time, 5 * hidden), with the entries of `GRUGradient`.

    `transposed` is `weights.T`, or empty: a product would pack a strided `weights.T` at each step.
    """
    width, steps = weights.shape[0], out.shape[1]
    for t in range(steps - 1, -1, -1):
        for b in range(out.shape[0]):
            result, later = out[b, t], out[b, t if t == steps - 1 else t + 1, 4 * width :]
            for k in range(width):
                from_later = 0 if t == steps - 1 else hidden_gradient[b, k] + later[k]
                hidden_gradient[b, k] = states_gradient[b, t, k] + from_later
            step_backward(
                residuals[b, t], hidden_gradient[b], result[:width], result[width : 2 * width],
                result[2 * width : 3 * width], result[3 * width : 4 * width], result[4 * width :],
            )  # fmt: skip
        gates, candidates = out[:, t, : 2 * width], out[:, t, 3 * width : 4 * width]
        if transposed.size > 0:
            multiply_into(gates, transposed[: 2 * width], hidden_gradient, 0)
            multiply_into(candidates, transposed[2 * width :], hidden_gradient, 1)
        else:
            multiply_into(gates, weights[:, : 2 * width].T, hidden_gradient, 0)
            multiply_into(candidates, weights[:, 2 * width :].T, hidden_gradient, 1)
        for b in range(out.shape[0]):
            if resets.size > 0 and resets[b, t]:
                hidden_gradient[b] = 0
                out[b, t, 4 * width :] = 0


def backward_kernel(
    residuals: FloatArray,
    weights: FloatArray,
    states_gradient: FloatArray,
    resets: BoolArray,
    out: FloatArray,
    hidden_gradient: FloatArray,
    transposed: FloatArray,
    slots: int,
) -> None:
    """Fill `out` with the gradients of all rows, in slots; `transposed` is scratch memory for `weights.T`, or empty."""
    batch = out.shape[0]
    transpose_into(weights, transposed)
    for slot in shared_turns(slots, batch * out.shape[1] * weights.size // slots):
        low, high = batch * slot // slots, batch * (slot + 1) // slots
        backward_rows(
            residuals[low:high], weights, states_gradient[low:high], resets[low:high], out[low:high],
            hidden_gradient[low:high], transposed,
        )  # fmt: skip


# The residuals of a step: the reset and update gates, the recurrent part of the candidate, the candidate, and the
# states before and after.
_RECURRENT, _PREVIOUS, _HIDDEN, _ENTRIES = 2, 4, 5, 6
# The entries of the gradient of a step: with respect to the pre-activations of the gates and of the candidate, to the
# recurrent part of the candidate, and to the previous state by its weight in the new one.
_GATES, _RECURRENT_GRADIENT, _DIRECT, _GRADIENTS = 2, 3, 4, 5


class _GRUCell(StepFormulas):
    layer = "a GRU"
    states = 1

    def forward(
        self, inputs: Node, products: Node, parameters: Sequence[Node], states: Sequence[Node], axes: Axes3
    ) -> tuple[list[Node], list[Node]]:
        (bias,), (hidden,) = parameters, states
        projected, sums = inputs.reshape(axes), products.reshape(axes)
        reset, update = ((projected[:, gate] + sums[:, gate]).sigmoid() for gate in range(_GATES))
        recurrent = sums[:, _RECURRENT] + bias
        candidate = (projected[:, _GATES] + reset * recurrent).tanh()
        new_hidden = candidate + update * (hidden - candidate)
        return [reset, update, recurrent, candidate], [new_hidden]

    def backward(
        self, entry: Callable[[int], Node], cotangents: Sequence[Node], gates: int
    ) -> tuple[list[Node], list[Node], Node]:
        (hidden_gradient,) = cotangents
        reset, update, recurrent, candidate, previous = (entry(k) for k in range(_HIDDEN))
        inward = hidden_gradient * (1.0 - update) * (1.0 - candidate * candidate)
        of_gates: list[Node] = [
            inward * recurrent * reset * (1.0 - reset),
            hidden_gradient * (previous - candidate) * update * (1.0 - update),
        ]
        direct = hidden_gradient * update
        of_product = [*of_gates, inward * reset]
        return [*of_gates, inward, inward * reset], of_product, direct

    def before(self, hidden: Node, direct: Node) -> list[Node]:
        return [hidden + direct]


_CELL_OF_GRU = _GRUCell()


class GRUResiduals(Residuals[Axes]):
    """The residuals of a GRU, of the axes (batch, time, 6, hidden); see `GRU` for the operands.

    The entries of a step are the reset gate, the update gate, the recurrent part of the candidate, the candidate, the
    previous state (zeros after a reset) and the new state.
    """

    __slots__ = ()
    written = "gru"
    cell: ClassVar[StepFormulas] = _CELL_OF_GRU

    @property
    def gates(self) -> int:
        return 3

    def __init__(self, projected: Node, weights: Node, bias: Node, hidden: Node, *resets: Node) -> None:
        self._construct((projected, weights, bias, hidden, *resets))

    def shape_rule(self) -> Dims:
        batch, time, width = self.common_axes(self.gates, (3,))
        bias = self.parents[2]
        if len(bias.dims) != 1:
            raise ShapeError(f"{label(bias)} must have one axis, not {format_dims(bias.dims)}")
        return batch, time, _ENTRIES, unify(width, bias.dims[0])


@LOOPS.register(GRUResiduals)
class _GRUResidualsLoops(ResidualsLoops):
    kernel = staticmethod(forward_kernel)


class GRU(Recurrent[Axes]):
    """The states of a gated recurrent unit, of the axes (batch, time, hidden).

    `projected`, of the axes (batch, time, 3 * hidden), is the inputs times their weights, plus the bias. `weights`, of
    the axes (hidden, 3 * hidden), multiplies the previous state `h`; `bias`, of the axis (hidden,), is added to its
    part for the candidate. `hidden`, of the axes (batch, hidden), is the initial state. With reset gate r, update gate
    z and candidate n, in this order: `n = tanh(projected_n + r * (h @ weights_n + bias))`, `h = (1 - z) * n + z * h`,
    where r and z are sigmoids (Cho et al., 2014, with the reset after the product, as cuDNN and PyTorch). Where the
    optional mask `resets`, of the axes (batch, time), is true, the state is set to zero before that step.

    The axes of batch and time may get their sizes from the data.

    Raise `ShapeError` for axes that do not match or a time axis of size 0, `DTypeError` unless `resets` is bool and
    the other operands have one float dtype.

    >>> gates, weights = wy.Constant(np.zeros((2, 5, 9))), wy.Constant(np.zeros((3, 9)))
    >>> start, bias = wy.Constant(np.ones((2, 3))), wy.Constant(np.zeros(3))
    >>> wy.ops.recurrence.gru.GRU(gates, weights, bias, start).forward()[0, :, 0].tolist()
    [0.5, 0.25, 0.125, 0.0625, 0.03125]
    """

    __slots__ = ()
    cell: ClassVar[StepFormulas] = _CELL_OF_GRU
    residual_parents: ClassVar[frozenset[int]] = frozenset([0])

    def __init__(self, projected: Node, weights: Node, bias: Node, hidden: Node, *resets: Node) -> None:
        residuals: GRUResiduals = GRUResiduals(projected, weights, bias, hidden, *resets)
        self._construct((residuals, *residuals.parents))

    def shape_rule(self) -> Dims:
        batch, time, _, width = self.parents[0].dims
        return batch, time, width

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return operands[0][:, :, _HIDDEN]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        residuals, projected, weights, _, _, *resets = self.parents
        batch, time, _, width = residuals.dims
        gradients: Node = GRUGradient(residuals, weights, gradient, *resets)
        sums: Node = concatenate([gradients[:, :, :_GATES], gradients[:, :, _RECURRENT_GRADIENT:_DIRECT]], axis=2)
        rows = sums.reshape((product((batch, time)), product((3, width))))
        previous = residuals[:, :, _PREVIOUS].reshape((product((batch, time)), width))
        first: Node = sums[:, 0].reshape((batch, product((3, width))))
        hidden_gradient: Node = first @ weights.T + gradients[:, 0, _DIRECT]
        for mask in resets:
            hidden_gradient = where(mask[:, 0, None], 0.0, hidden_gradient)
        return (
            ZERO, gradients[:, :, :_RECURRENT_GRADIENT].reshape(projected.dims), previous.T @ rows,
            gradients[:, :, _RECURRENT_GRADIENT].sum(axis=(0, 1)), hidden_gradient, *(ZERO for _ in resets),
        )  # fmt: skip


@LOOPS.register(GRU)
class _GRULoops(Gathered):
    def gather_index(self, node: GRU, index: IndexMap) -> IndexMap:
        batch, time, width = index
        return batch, time, IndexLiteral(_HIDDEN), width


class GRUGradient(ResidualsGradient[Axes]):
    """The VJP of a GRU, of the axes (batch, time, 5, hidden), from the cotangent of its states.

    The entries of a step are the gradients with respect to the pre-activations of the reset gate, of the update gate
    and of the candidate, to the recurrent part of the candidate, and to the previous state by `z * h`.
    """

    __slots__ = ()
    cell: ClassVar[StepFormulas] = _CELL_OF_GRU

    @property
    def gates(self) -> int:
        return 3

    def gradients(self, entries: Axis) -> int:
        return _GRADIENTS


@LOOPS.register(GRUGradient)
class _GRUGradientLoops(GradientLoops):
    kernel = staticmethod(backward_kernel)


__all__ = ["GRU", "GRUGradient", "GRUResiduals"]

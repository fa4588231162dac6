"""Fused gated recurrent unit (GRU) over a whole sequence, with one matrix product per step for all gates.

The ops and their formulas are arranged as those of the LSTM in `wyrm.ops.recurrence.recurrent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, product, unify
from wyrm.graph.base import ZERO, Gradient, format_dims, label
from wyrm.graph.index_maps import IndexLiteral, IndexMap
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, KernelArgument, LoopForm
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.gradients.composite_gradient import composite_vjp
from wyrm.ops.indexing.slicing import concatenate
from wyrm.ops.kernels.scratch import scratch
from wyrm.ops.recurrence.gated_recurrent_kernels import backward_kernel, forward_kernel
from wyrm.ops.recurrence.jax_form import GRUGradientForm, GRUResidualsForm
from wyrm.ops.recurrence.parts import (
    OF_NODES,
    TRANSPOSE_FROM,
    Functions,
    Recurrent,
    Residuals,
    Value,
    mask_rows,
    of_arrays,
    unsized_time,
)

# The residuals of a step: the reset and update gates, the recurrent part of the candidate, the candidate, and the
# states before and after.
_RECURRENT, _PREVIOUS, _HIDDEN, _ENTRIES = 2, 4, 5, 6
# The entries of the gradient of a step: with respect to the pre-activations of the gates and of the candidate, to the
# recurrent part of the candidate, and to the previous state by its weight in the new one.
_GATES, _RECURRENT_GRADIENT, _DIRECT, _GRADIENTS = 2, 3, 4, 5


# --- the formulas, for arrays and for nodes ---------------------------------------------------------------------------


def _forward(of: Functions[Value], steps: int, operands: Sequence[Any], axes: tuple[Axis, Axis]) -> Value:
    """Return the residuals; `axes` is the shape of a state: (batch, hidden)."""
    projected, weights, bias, hidden, *resets = operands
    residuals: list[Value] = []
    for t in range(steps):
        for mask in resets:
            hidden = of.where(mask[:, t, None], 0.0, hidden)
        products: tuple[Any, Any] = projected[:, t], of.matmul(hidden, weights)
        inputs, sums = (x.reshape((axes[0], 3, axes[1])) for x in products)
        reset, update = of.sigmoid(inputs[:, 0] + sums[:, 0]), of.sigmoid(inputs[:, 1] + sums[:, 1])
        recurrent = sums[:, _RECURRENT] + bias
        candidate = of.tanh(inputs[:, 2] + reset * recurrent)
        new_hidden = candidate + update * (hidden - candidate)
        entries: list[Any] = [reset, update, recurrent, candidate, hidden, new_hidden]
        residuals.append(of.stack(entries, 1))
        hidden = new_hidden
    return of.stack(residuals, 1)


def _backward(of: Functions[Value], steps: int, operands: Sequence[Any], axes: tuple[Axis, Axis]) -> Value:
    """Return the entries of `GRUGradient`; `axes` is as in `_forward`."""
    residuals, weights, states_gradient, *resets = operands
    batch, width = axes
    result: list[Value] = []
    hidden_gradient = states_gradient[:, -1]
    for t in reversed(range(steps)):
        reset, update, recurrent, candidate, previous = (residuals[:, t, k] for k in range(_HIDDEN))
        inward = hidden_gradient * (1.0 - update) * (1.0 - candidate * candidate)
        gates: list[Any] = [
            inward * recurrent * reset * (1.0 - reset),
            hidden_gradient * (previous - candidate) * update * (1.0 - update),
        ]
        direct = hidden_gradient * update
        sums: Any = of.stack([*gates, inward * reset], 1)
        hidden_gradient = of.matmul(sums.reshape((batch, product((3, width)))), weights.T)
        for mask in resets:
            hidden_gradient, direct = (of.where(mask[:, t, None], 0.0, x) for x in (hidden_gradient, direct))
        result.append(of.stack([*gates, inward, inward * reset, direct], 1))
        if t > 0:
            hidden_gradient = hidden_gradient + direct + states_gradient[:, t - 1]
    return of.stack(result[::-1], 1)


# --- the ops ----------------------------------------------------------------------------------------------------------


class GRUResiduals(Residuals[Axes]):
    """The residuals of a GRU, of the axes (batch, time, 6, hidden); see `GRU` for the operands.

    The entries of a step are the reset gate, the update gate, the recurrent part of the candidate, the candidate, the
    previous state (zeros after a reset) and the new state.
    """

    __slots__ = ()
    layer = "a GRU"

    def __init__(self, projected: Node, weights: Node, bias: Node, hidden: Node, *resets: Node) -> None:
        self._construct((projected, weights, bias, hidden, *resets))

    def shape_rule(self) -> Dims:
        batch, time, width = self.common_axes(3, (3,))
        bias = self.parents[2]
        if len(bias.dims) != 1:
            raise ShapeError(f"{label(bias)} must have one axis, not {format_dims(bias.dims)}")
        return batch, time, _ENTRIES, unify(width, bias.dims[0])

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if rows[1] is rows[2] is None and all(row in (0, None) for row in rows) else None

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        if 0 in shape:
            return xp.zeros(shape, self.dtype)
        return _forward(of_arrays(xp), shape[1], operands, (shape[0], shape[3]))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        dims: Any = self.dims
        batch, time, _, width = dims
        steps = axis_size(time)
        if steps is None:
            return unsized_time(self, time)
        return composite_vjp(_forward(OF_NODES, steps, self.parents, (batch, width)), gradient, self.parents)


@LOOPS.register(GRUResiduals)
class _GRUResidualsLoops(LoopForm):
    kernel = staticmethod(forward_kernel)

    def kernel_arguments(self, node: GRUResiduals, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        batch, time, entries, width = out.shape
        return (*operands[:4], mask_rows(operands[4:]), out.reshape(batch, time, entries * width))


JAX.register(GRUResiduals)(GRUResidualsForm(_forward))


class GRU(Recurrent[Axes]):
    """The states of a gated recurrent unit, of the axes (batch, time, hidden).

    `projected`, of the axes (batch, time, 3 * hidden), is the inputs times their weights, plus the bias. `weights`, of
    the axes (hidden, 3 * hidden), multiplies the previous state `h`; `bias`, of the axis (hidden,), is added to its
    part for the candidate. `hidden`, of the axes (batch, hidden), is the initial state. With reset gate r, update gate
    z and candidate n, in this order: `n = tanh(projected_n + r * (h @ weights_n + bias))`, `h = (1 - z) * n + z * h`,
    where r and z are sigmoids (Cho et al., 2014, with the reset after the product, as cuDNN and PyTorch). Where the
    optional mask `resets`, of the axes (batch, time), is true, the state is set to zero before that step.

    The axes of batch and time may get their sizes from the data; a second-order gradient needs the size of time.

    Raise `ShapeError` for axes that do not match or a time axis of size 0, `DTypeError` unless `resets` is bool and
    the other operands have one float dtype.

    >>> gates, weights = wy.Constant(np.zeros((2, 5, 9))), wy.Constant(np.zeros((3, 9)))
    >>> start, bias = wy.Constant(np.ones((2, 3))), wy.Constant(np.zeros(3))
    >>> wy.ops.recurrence.gated_recurrent.GRU(gates, weights, bias, start).forward()[0, :, 0].tolist()
    [0.5, 0.25, 0.125, 0.0625, 0.03125]
    """

    __slots__ = ()
    layer = "a GRU"
    residual_parents = frozenset([0])

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
class _GRULoops(LoopForm):
    def gather_index(self, node: GRU, index: IndexMap) -> IndexMap:
        batch, time, width = index
        return batch, time, IndexLiteral(_HIDDEN), width


class GRUGradient(Recurrent[Axes]):
    """The VJP of a GRU, of the axes (batch, time, 5, hidden), from the cotangent of its states.

    The entries of a step are the gradients with respect to the pre-activations of the reset gate, of the update gate
    and of the candidate, to the recurrent part of the candidate, and to the previous state by `z * h`.
    """

    __slots__ = ()
    layer = "a GRU"

    def __init__(self, residuals: Node, weights: Node, states_gradient: Node, *resets: Node) -> None:
        self._construct((residuals, weights, states_gradient, *resets))

    def shape_rule(self) -> Dims:
        batch, time, _, width = self.parents[0].dims
        for axis, other in zip((batch, time, width), self.parents[2].dims, strict=True):
            unify(axis, other)
        return batch, time, _GRADIENTS, width

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        if 0 in shape:
            return xp.zeros(shape, self.dtype)
        return _backward(of_arrays(xp), shape[1], operands, (shape[0], shape[3]))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        dims: Any = self.dims
        batch, time, _, width = dims
        steps = axis_size(time)
        if steps is None:
            return unsized_time(self, time)
        return composite_vjp(_backward(OF_NODES, steps, self.parents, (batch, width)), gradient, self.parents)


@LOOPS.register(GRUGradient)
class _GRUGradientLoops(LoopForm):
    kernel = staticmethod(backward_kernel)

    def kernel_arguments(self, node: GRUGradient, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        residuals, weights, states_gradient, *resets = operands
        batch, time, parts, width = out.shape
        rows = residuals.reshape(batch, time, residuals.shape[2] * width), out.reshape(batch, time, parts * width)
        transposed = scratch(weights.shape[::-1] if batch * time >= TRANSPOSE_FROM else (0, 0), out.dtype)
        hidden_gradient = scratch((batch, width), out.dtype)
        return rows[0], weights, states_gradient, mask_rows(resets), rows[1], hidden_gradient, transposed


JAX.register(GRUGradient)(GRUGradientForm(_backward))


__all__ = ["GRU", "GRUGradient", "GRUResiduals"]

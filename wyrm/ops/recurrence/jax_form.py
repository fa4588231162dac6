"""The recurrent ops by JAX: one loop over time, whose step is the formula of the op for a sequence of one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.kernels.over_time_jax import State, over_time
from wyrm.ops.recurrence.parts import of_arrays

# The formula of an op, as `_forward` and `_backward` of the LSTM and the GRU.
Formula = Callable[..., Any]


class _RecurrentForm(JaxForm):
    """The lowering of an op with this formula."""

    def __init__(self, formula: Formula) -> None:
        self._formula = formula


class LSTMResidualsForm(_RecurrentForm):
    """The lowering of `LSTMResiduals`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        projected, weights, hidden, cell, *resets = operands
        functions, axes = of_arrays(lowering.xp)._replace(matmul=lowering.product), (shape[0], node.gates, shape[3])

        def step(state: State, rows: list[Any]) -> tuple[State, Any]:
            made = self._formula(functions, 1, [rows[0], weights, *state, *rows[1:]], axes)
            return (made[:, 0, -2], made[:, 0, -1]), made

        return over_time(step, (hidden, cell), [projected, *resets])


class LSTMGradientForm(_RecurrentForm):
    """The lowering of `LSTMGradient`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        xp: Any = lowering.xp
        residuals, weights, states_gradient, *resets = operands
        batch, _, parts, width = shape
        functions = of_arrays(xp)._replace(matmul=lowering.product)

        def step(later: State, rows: list[Any]) -> tuple[State, Any]:
            residuals, gradient, *resets = rows
            given = gradient + xp.stack(later, axis=1)[:, None]
            made = self._formula(functions, 1, [residuals, weights, given, *resets], (batch, parts - 1, width))
            hidden = lowering.product(made[:, 0, :-1].reshape(batch, (parts - 1) * width), weights.T)
            for mask in resets:
                hidden = xp.where(mask, 0.0, hidden)
            return (hidden, made[:, 0, -1]), made

        zero = xp.zeros((batch, width), residuals.dtype)
        return over_time(step, (zero, zero), [residuals, states_gradient, *resets], reverse=True)


class GRUResidualsForm(_RecurrentForm):
    """The lowering of `GRUResiduals`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        projected, weights, bias, hidden, *resets = operands
        functions, axes = of_arrays(lowering.xp)._replace(matmul=lowering.product), (shape[0], shape[3])

        def step(state: State, rows: list[Any]) -> tuple[State, Any]:
            made = self._formula(functions, 1, [rows[0], weights, bias, *state, *rows[1:]], axes)
            return (made[:, 0, -1],), made

        return over_time(step, (hidden,), [projected, *resets])


class GRUGradientForm(_RecurrentForm):
    """The lowering of `GRUGradient`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        xp: Any = lowering.xp
        residuals, weights, states_gradient, *resets = operands
        batch, width = shape[0], shape[3]
        functions = of_arrays(xp)._replace(matmul=lowering.product)

        def step(later: State, rows: list[Any]) -> tuple[State, Any]:
            residuals, gradient, *resets = rows
            given = gradient + later[0][:, None]
            made = self._formula(functions, 1, [residuals, weights, given, *resets], (batch, width))
            # The gradients with respect to both gates and to the recurrent part of the candidate.
            sums = xp.concat([made[:, 0, :2], made[:, 0, 3:4]], axis=1)
            hidden = lowering.product(sums.reshape(batch, 3 * width), weights.T)
            for mask in resets:
                hidden = xp.where(mask, 0.0, hidden)
            return (hidden + made[:, 0, 4],), made

        zero = xp.zeros((batch, width), residuals.dtype)
        return over_time(step, (zero,), [residuals, states_gradient, *resets], reverse=True)


__all__ = ["GRUGradientForm", "GRUResidualsForm", "LSTMGradientForm", "LSTMResidualsForm"]

"""The recurrent ops by JAX: one loop over time, whose step is that of the op's `StepFormulas`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.ops.kernels.loops_jax import State, over_time
from wyrm.ops.recurrence.recurrence import Residuals, ResidualsGradient, of_arrays


@JAX.register(Residuals)
class ResidualsForm(JaxForm):
    """The lowering of the residuals of a layer."""

    def lower(self, node: Residuals, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        functions = of_arrays(lowering.xp)._replace(matmul=lowering.product)
        axes = (shape[0], node.gates, shape[3])
        (projected, weights), (parameters, states, resets) = operands[:2], node.cell.split(operands)

        def step(state: State, rows: list[Any]) -> tuple[State, Any]:
            made = node.cell.walk_forward(functions, 1, [rows[0], weights, *parameters, *state, *rows[1:]], axes)
            return tuple(made[:, 0, entry] for entry in range(-len(state), 0)), made

        return over_time(step, tuple(states), [projected, *resets])


@JAX.register(ResidualsGradient)
class ResidualsGradientForm(JaxForm):
    """The lowering of the gradients of a layer."""

    def lower(
        self, node: ResidualsGradient, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering
    ) -> Any:
        xp: Any = lowering.xp
        residuals, weights, states_gradient, *resets = operands
        functions = of_arrays(lowering.xp)._replace(matmul=lowering.product)
        axes = (shape[0], node.gates, shape[3])

        def step(later: State, rows: list[Any]) -> tuple[State, Any]:
            residuals, gradient, *resets = rows
            given = gradient + (later[0] if len(later) == 1 else xp.stack(later, axis=1))[:, None]
            made = node.cell.walk_backward(functions, 1, [residuals, weights, given, *resets], axes)
            sums = node.cell.of_product(xp, made)
            hidden = lowering.product(sums.reshape(axes[0], axes[1] * axes[2]), weights.T)
            for mask in resets:
                hidden = xp.where(mask, 0.0, hidden)
            return tuple(node.cell.before(hidden, made[:, 0, -1])), made

        zero = xp.zeros((shape[0], shape[3]), residuals.dtype)
        return over_time(step, (zero,) * node.cell.states, [residuals, states_gradient, *resets], reverse=True)


__all__ = ["ResidualsForm", "ResidualsGradientForm"]

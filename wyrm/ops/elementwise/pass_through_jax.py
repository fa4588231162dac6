"""Ops whose value is that of their first parent, as JAX computes and differentiates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.jax_form import JaxForm, Lowering


class StopGradientForm(JaxForm):
    """The lowering of `StopGradient`."""

    narrow = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax

        return jax.lax.stop_gradient(operands[0])


class OptimizationBarrierForm(JaxForm):
    """The lowering of `OptimizationBarrier`: XLA merges nothing across it either."""

    narrow = True

    def own_gradient(self, node: Any) -> bool:
        return True  # JAX cannot differentiate the loop that stands for a barrier on CPUs

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax

        def barrier(x: Any, after: Any) -> Any:
            return jax.lax.optimization_barrier((x, after))[0]

        x, after = operands
        if after.size == 0:
            return x
        return jax.lax.platform_dependent(x, after, cpu=_unfolded, default=barrier)


def _unfolded(x: Any, after: Any) -> Any:
    """Return `x` after a loop of no turns, which depends on `after`.

    XLA for CPUs drops its barriers before it merges equal operations, and it cannot tell that this loop has no turns.
    """
    import jax

    turns = (after[(0,) * after.ndim] > 0).astype(np.int32) - 1
    return jax.lax.while_loop(lambda state: state[0] > 0, lambda state: (state[0] - 1, -state[1]), (turns, x))[1]


__all__ = ["OptimizationBarrierForm", "StopGradientForm"]

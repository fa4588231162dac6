"""Ops whose value is that of their first parent, as JAX computes and differentiates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.node.jax_form import JaxForm, Lowering


class StopGradientForm(JaxForm):
    """The lowering of `StopGradient`."""

    narrow = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax

        return jax.lax.stop_gradient(operands[0])


class OptimizationBarrierForm(JaxForm):
    """The lowering of `OptimizationBarrier`: XLA merges nothing across it either."""

    narrow = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax

        return jax.lax.optimization_barrier(tuple(operands))[0]


__all__ = ["OptimizationBarrierForm", "StopGradientForm"]

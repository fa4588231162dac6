"""The lowering of ops whose elements depend on those before them along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.graph.jax_form import JaxForm, Lowering


class CumSumForm(JaxForm):
    """`lax.cumsum`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax import lax

        return lax.cumsum(operands[0], axis=node.axis, reverse=node.reverse)


class CumProdForm(JaxForm):
    """`lax.cumprod`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax import lax

        return lax.cumprod(operands[0], axis=node.axis, reverse=node.reverse)


class ProductOfOthersAlongForm(JaxForm):
    """Two loops over the axis, for the products of the elements before and after each one.

    The numbers have one infinitesimal for each direction: coefficient s of a number is that of the directions whose
    bits are set in s.
    """

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp
        from jax import lax

        x, *directions = (jnp.moveaxis(operand, node.axis, 0) for operand in operands)
        if not len(x):
            return operands[0]
        sets = range(2 ** len(directions))

        def step(product: list[Any], row: tuple[Any, list[Any]]) -> tuple[list[Any], list[Any]]:
            element, along = row
            following = [
                sum((product[s ^ (1 << i)] * each for i, each in enumerate(along) if s >> i & 1), product[s] * element)
                for s in sets
            ]
            return following, product

        one = [jnp.ones_like(x[0]), *(jnp.zeros_like(x[0]) for _ in sets[1:])]
        before, after = (lax.scan(step, one, (x, directions), reverse=reverse)[1] for reverse in (False, True))
        rows = sum((before[s] * after[sets[-1] ^ s] for s in sets[1:]), before[0] * after[sets[-1]])
        return jnp.moveaxis(rows, 0, node.axis)


__all__ = ["CumProdForm", "CumSumForm", "ProductOfOthersAlongForm"]

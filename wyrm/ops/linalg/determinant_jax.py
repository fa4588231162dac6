"""The lowering of determinants and cofactors to JAX."""

from __future__ import annotations

from typing import Any

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.linalg.jax_forms import Operands, diagonal, finite


class DeterminantForm(JaxForm):
    """The product of the diagonal of the factors, or of its signs, or the sum of the logarithms of its elements."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        residuals = operands[0]
        elements = diagonal(residuals[..., :-1, :])
        if node.part == "logarithm":
            return jnp.log(jnp.abs(elements)).sum(axis=-1)
        interchanges = (residuals[..., -1, :] != jnp.arange(residuals.shape[-1])).sum(axis=-1)
        sign = jnp.where(interchanges % 2, -1.0, 1.0).astype(residuals.dtype)
        return sign * (elements if node.part == "value" else jnp.sign(elements)).prod(axis=-1)


class CofactorsForm(JaxForm):
    """The determinant times the transposed inverse; a singular value decomposition runs where that is not finite."""

    def lower(self, node: Any, operands: Operands, shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax
        import jax.numpy as jnp

        a = operands[1]
        if a.size == 0:
            return jnp.zeros(shape, a.dtype)
        determinants = jnp.linalg.det(a)[..., None, None]
        usual = determinants * jnp.linalg.inv(a).mT
        wrong, safe = finite(a)
        others = ((determinants[..., 0, 0] == 0.0) | ~jnp.isfinite(usual).all(axis=(-2, -1))) & ~wrong

        def with_others(usual: Any) -> Any:
            left, values, right = jnp.linalg.svd(safe)
            sign = jnp.sign(jnp.linalg.det(left) * jnp.linalg.det(right))[..., None]
            products = jnp.where(jnp.eye(shape[-1], dtype=bool), 1.0, values[..., None, :]).prod(axis=-1)
            found = (left * (sign * products)[..., None, :]) @ right
            return jnp.where(others[..., None, None], found, usual)

        return jax.lax.cond(others.any(), with_others, lambda usual: usual, usual)

"""The lowering of products. In a bfloat16 program, XLA sums the products of bfloat16 numbers in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.node.jax_form import JaxForm, Lowering


class MatMulForm(JaxForm):
    """One `dot_general`, whose result has the dtype of the node."""

    narrow = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        return jnp.matmul(*operands, preferred_element_type=lowering.dtype(node))


class EinsumForm(JaxForm):
    """One `dot_general`, and transpositions around it that XLA merges with it."""

    narrow = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        return jnp.einsum(node.subscripts, *operands, preferred_element_type=lowering.dtype(node))


class VectorDotForm(JaxForm):
    """A sum of products, which XLA merges with the operands' gathers; a product of matrices of one row it would not."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, y = operands
        return (x * y).sum(axis=-1)


__all__ = ["EinsumForm", "MatMulForm", "VectorDotForm"]

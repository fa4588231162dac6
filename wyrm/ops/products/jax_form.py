"""The lowering of products. In a bfloat16 program, their operands are bfloat16 and their sums float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.jax_form import JaxForm, Lowering


def sum_dtype(*operands: Any) -> Any:
    """Return the dtype of the sums of products: float32, or float64 for float64 operands."""
    import jax.numpy as jnp

    return jnp.promote_types(jnp.result_type(*operands), np.float32)


def matmul(x: Any, y: Any) -> Any:
    """Return `x @ y`, with sums of float32 or wider."""
    import jax.numpy as jnp

    return jnp.matmul(x, y, preferred_element_type=sum_dtype(x, y))


class ProductForm(JaxForm):
    """Base class of the lowerings of ops that sum products; their results are the sums, which are wide."""

    narrow: bool | None = True
    sums_products = True


class MatMulForm(ProductForm):
    """One `dot_general`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return lowering.product(*operands)


class EinsumForm(ProductForm):
    """One `dot_general`, and transpositions around it that XLA merges with it."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        return jnp.einsum(node.subscripts, *operands, preferred_element_type=sum_dtype(*operands))


class VectorDotForm(JaxForm):
    """A sum of products: XLA fuses it with gathers of the operands, unlike a product of matrices of one row."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, y = operands
        return (x * y).sum(axis=-1)


__all__ = ["EinsumForm", "MatMulForm", "ProductForm", "VectorDotForm", "matmul", "sum_dtype"]

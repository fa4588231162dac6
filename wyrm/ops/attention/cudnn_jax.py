"""Attention by cuDNN, which NVIDIA's GPUs compute in one kernel: bfloat16, without a mask, dropout or ALiBi."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from wyrm.support.imports import jax, jnp

if TYPE_CHECKING:
    from wyrm.ops.attention.attention import Attention, AttentionGradient


def takes(node: Attention | AttentionGradient, parts: Sequence[Any]) -> bool:
    """Return whether cuDNN computes this attention and its gradient, on the devices that JAX has.

    A query that sees no key has zeros here and no number there, so masks are left to tiles; cuDNN's dropout draws other
    numbers.
    """
    query, key, value = parts
    if node.masked or node.biased or node.alibi or node.dropout_rate > 0.0 or query.dtype != jnp.bfloat16:
        return False
    if (node.causal and query.shape[1] != key.shape[1]) or query.shape[3] != value.shape[3]:
        return False
    if jax.default_backend() != "gpu" or jax.sharding.get_abstract_mesh().manual_axes:
        return False
    return has_kernels(tuple(part.shape for part in parts), causal=node.causal, scale=node.scale)


@cache
def has_kernels(shapes: tuple[tuple[int, ...], ...], *, causal: bool, scale: float | None) -> bool:
    """Return whether cuDNN has kernels for queries, keys and values of these shapes, and for their gradient.

    JAX says it as it traces them, which takes as long as the attention itself: equal nodes ask once.
    """

    def forward_and_gradient(*parts: Any) -> Any:
        value, pull_back = jax.vjp(lambda *parts: _attended(parts, causal, scale), *parts)
        return pull_back(value)

    try:
        jax.eval_shape(forward_and_gradient, *(jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes))
    except (RuntimeError, NotImplementedError, ValueError):
        # It is another device, or a version of cuDNN or a number of features without such kernels.
        return False
    return True


def attended(node: Attention | AttentionGradient, parts: Sequence[Any]) -> Any:
    """Return the sums of values, (batch, queries, heads, features)."""
    return _attended(parts, node.causal, node.scale)


def _attended(parts: Sequence[Any], causal: bool, scale: float | None) -> Any:
    queries, keys, values = parts
    factor = queries.shape[-1] ** -0.5 if scale is None else scale
    return jax.nn.dot_product_attention(queries, keys, values, is_causal=causal, scale=factor, implementation="cudnn")


def gradients(node: Attention | AttentionGradient, parts: Sequence[Any], cotangent: Any) -> tuple[Any, ...]:
    """Return the gradients of queries, keys and values."""
    _, pull_back = jax.vjp(lambda *parts: attended(node, parts), *parts)
    found: tuple[Any, ...] = pull_back(cotangent.astype(parts[0].dtype))
    return found


__all__ = ["attended", "gradients", "takes"]

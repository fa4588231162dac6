"""Attention by cuDNN, which NVIDIA's GPUs compute in one kernel: bfloat16, without a mask, dropout or ALiBi."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from wyrm.support.imports import jax, jnp

if TYPE_CHECKING:
    from wyrm.ops.attention.attention import Attention, AttentionGradient


def takes(node: Attention | AttentionGradient, qkv: Any) -> bool:
    """Return whether cuDNN computes this attention and its gradient, on the devices that JAX has.

    A query that sees no key has zeros here and no number there, so masks are left to tiles; cuDNN's dropout draws other
    numbers.
    """
    if node.masked or node.alibi or node.dropout_rate > 0.0 or qkv.dtype != jnp.bfloat16:
        return False
    if jax.default_backend() != "gpu" or jax.sharding.get_abstract_mesh().manual_axes:
        return False
    return has_kernels(qkv.shape, causal=node.causal)


@cache
def has_kernels(shape: tuple[int, ...], *, causal: bool) -> bool:
    """Return whether cuDNN has kernels for queries, keys and values of this shape, and for their gradient.

    JAX says it as it traces them, which takes as long as the attention itself: equal nodes ask once.
    """

    def forward_and_gradient(qkv: Any) -> Any:
        value, pull_back = jax.vjp(lambda qkv: _attended(qkv, causal=causal), qkv)
        return pull_back(value)

    try:
        jax.eval_shape(forward_and_gradient, jax.ShapeDtypeStruct(shape, jnp.bfloat16))
    except (RuntimeError, NotImplementedError, ValueError):
        # It is another device, or a version of cuDNN or a number of features without such kernels.
        return False
    return True


def attended(node: Attention | AttentionGradient, qkv: Any) -> Any:
    """Return the sums of values, (batch, time, heads, features)."""
    return _attended(qkv, causal=node.causal)


def _attended(qkv: Any, *, causal: bool) -> Any:
    queries, keys, values = (qkv[:, :, i] for i in range(3))
    return jax.nn.dot_product_attention(
        queries, keys, values, is_causal=causal, scale=qkv.shape[-1] ** -0.5, implementation="cudnn"
    )


def gradient(node: Attention | AttentionGradient, qkv: Any, cotangent: Any) -> Any:
    """Return the gradient with respect to `qkv`, of its shape."""
    _, pull_back = jax.vjp(lambda qkv: attended(node, qkv), qkv)
    return pull_back(cotangent.astype(qkv.dtype))[0]


__all__ = ["attended", "gradient", "takes"]

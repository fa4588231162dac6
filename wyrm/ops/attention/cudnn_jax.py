"""Attention by cuDNN, which NVIDIA's GPUs compute in one kernel: bfloat16, without a mask, dropout or ALiBi."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wyrm.ops.attention.attention import Attention, AttentionGradient


def takes(node: Attention | AttentionGradient, qkv: Any) -> bool:
    """Return whether cuDNN computes this attention and its gradient, on the devices that JAX has.

    A query that sees no key has zeros here and no number there, so masks are left to tiles; cuDNN's dropout draws other
    numbers.
    """
    import jax
    import jax.numpy as jnp

    if node.masked or node.alibi or node.dropout_rate > 0.0 or qkv.dtype != jnp.bfloat16:
        return False
    if jax.default_backend() != "gpu" or jax.sharding.get_abstract_mesh().manual_axes:
        return False
    try:
        jax.eval_shape(lambda qkv: gradient(node, qkv, attended(node, qkv)), qkv)
    except (RuntimeError, NotImplementedError, ValueError):
        # JAX says so for a device, a version of cuDNN or a number of features without such kernels.
        return False
    return True


def attended(node: Attention | AttentionGradient, qkv: Any) -> Any:
    """Return the sums of values, (batch, time, heads, features)."""
    import jax

    queries, keys, values = (qkv[:, :, i] for i in range(3))
    return jax.nn.dot_product_attention(
        queries, keys, values, is_causal=node.causal, scale=qkv.shape[-1] ** -0.5, implementation="cudnn"
    )


def gradient(node: Attention | AttentionGradient, qkv: Any, cotangent: Any) -> Any:
    """Return the gradient with respect to `qkv`, of its shape."""
    import jax

    _, pull_back = jax.vjp(lambda qkv: attended(node, qkv), qkv)
    return pull_back(cotangent.astype(qkv.dtype))[0]


__all__ = ["attended", "gradient", "takes"]

"""Convolutions from products of matrices, for runtimes that have none of these axes, groups or rows of kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def convolved(
    x: Any,
    kernel: Any,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    feature_group_count: int = 1,
    batch_group_count: int = 1,
) -> Any:
    """Return `jax.lax.conv_general_dilated` of arrays with the axes rows, channels, positions.

    It adds products for each tap of the kernel, or joins those for each output, whichever are fewer.
    """
    import jax
    import jax.numpy as jnp

    sides = [(low, high, spacing - 1) for (low, high), spacing in zip(padding, lhs_dilation, strict=True)]
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *sides])
    groups, taps = feature_group_count * batch_group_count, kernel.shape[2:]
    if batch_group_count == 1:
        x = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    else:
        x = jnp.moveaxis(x.reshape(groups, x.shape[0] // groups, *x.shape[1:]), 0, 1)
    kernel = kernel.reshape(groups, kernel.shape[0] // groups, *kernel.shape[1:])
    outputs = [
        (size - (count - 1) * dilation - 1) // stride + 1
        for size, count, dilation, stride in zip(x.shape[3:], taps, rhs_dilation, window_strides, strict=True)
    ]

    def window(offsets: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> Any:
        ranges = [
            slice(offset, offset + (count - 1) * step + 1, step)
            for offset, count, step in zip(offsets, counts, steps, strict=True)
        ]
        return x[(slice(None), slice(None), slice(None), *ranges)]

    if np.prod(taps) <= np.prod(outputs):
        result: Any = 0.0
        for tap in itertools.product(*map(range, taps)):
            rows = window(np.multiply(tap, rhs_dilation).tolist(), outputs, window_strides)
            result = result + jnp.einsum("ngi...,goi->ngo...", rows, kernel[(..., *tap)])
    else:
        elements, flat = [], kernel.reshape(*kernel.shape[:3], -1)
        for output in itertools.product(*map(range, outputs)):
            rows = window(np.multiply(output, window_strides).tolist(), taps, rhs_dilation)
            elements.append(jnp.einsum("ngik,goik->ngo", rows.reshape(*rows.shape[:3], -1), flat))
        result = jnp.stack(elements, axis=-1).reshape(*elements[0].shape, *outputs)
    return result.reshape(result.shape[0], -1, *outputs)


def mapped(plain: Callable[[Any, Any], Any], by_rows: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function of an array and a kernel, whose `jax.vmap` over kernels is that of `by_rows`.

    JAX's own is a convolution of as many groups as there are rows, which must not be open.
    """
    import jax

    convolve: Any = jax.custom_batching.custom_vmap(plain)

    def rule(count: int, batched: Sequence[bool], x: Any, kernel: Any) -> tuple[Any, bool]:
        if batched[1]:
            return jax.vmap(by_rows, [0 if many else None for many in batched])(x, kernel), True
        return jax.vmap(plain, (0, None))(x, kernel), True

    convolve.def_vmap(rule)
    found: Callable[[Any, Any], Any] = convolve
    return found


__all__ = ["convolved", "mapped"]

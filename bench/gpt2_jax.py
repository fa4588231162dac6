"""GPT-2 written by hand in JAX, with the fusions and the dropout masks of wyrm's engine: see `bench.gpt2`.

Attention and the cross-entropy compute a block of rows at a time, and what their backward passes read again. Layers
are one loop over stacked parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.gpt2 import Size, jax_training_step

# Bytes of attention weights, or of logits, in a block.
BLOCK_BYTES = 2**22


def hashed(position: Any, first: Any, second: Any) -> Any:
    """Return a random word for each position."""
    word = position * jnp.uint32(0x9E3779B9) + first
    word = (word ^ word >> 16) * jnp.uint32(0x21F0AAAD) ^ second
    word = (word ^ word >> 15) * jnp.uint32(0x735A2D97)
    return word ^ word >> 15


def dropped(x: Any, key: Any, rate: float) -> Any:
    """Return `x` after dropout."""
    if not rate:
        return x
    first, second = jax.random.bits(key, (2,), jnp.uint32)
    keep = hashed(jnp.arange(x.size, dtype=jnp.uint32), first, second) >= jnp.uint32(rate * 2**32)
    return jnp.where(keep.reshape(x.shape), x / (1 - rate), 0)


def _weights(queries: Any, keys: Any, words: Any, first: int, rate: float) -> tuple[Any, Any, Any]:
    """Return exponentials, the inverses of their sums, and the factors of dropout of a tile of queries."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", queries, keys) * queries.shape[-1] ** -0.5
    rows, columns = first + np.arange(queries.shape[2])[:, None], np.arange(keys.shape[2])
    scores = jnp.where(rows >= columns, scores, -1e30)
    exponentials = jnp.exp(scores - scores.max(-1, keepdims=True))
    inverse = 1 / exponentials.sum(-1, keepdims=True)
    if not rate:
        return exponentials, inverse, 1.0
    half = words[2] // 2  # two weights share a word
    word = hashed(jnp.asarray(columns % half, jnp.uint32), words[0][..., None], words[1][..., None])
    part = word >> jnp.asarray(16 * (columns >= half), jnp.uint32) & 0xFFFF
    return exponentials, inverse, jnp.where(part >= jnp.uint32(rate * 2**16), 1 / (1 - rate), 0)


def _tiles(qkv: Any, words: Any) -> Any:
    """Yield the first query, queries, keys, values and random words of two tiles of a causal sequence."""
    queries, keys, values = (qkv[:, :, i].swapaxes(1, 2) for i in range(3))
    time = queries.shape[2]
    for first in (0, time // 2):
        last = first + time // 2
        of_tile = None if words is None else (*(word[:, :, first:last] for word in words), time)
        yield first, queries[:, :, first:last], keys[:, :, :last], values[:, :, :last], of_tile


def _attended(qkv: Any, words: Any, rate: float) -> Any:
    found = []
    for first, queries, keys, values, of_tile in _tiles(qkv, words):
        exponentials, inverse, factors = _weights(queries, keys, of_tile, first, rate)
        found.append(jnp.einsum("bhqk,bhkd->bhqd", exponentials * factors, values) * inverse)
    return jnp.concatenate(found, 2).swapaxes(1, 2)


def _attended_gradient(qkv: Any, words: Any, gradient: Any, rate: float) -> Any:
    gradient = gradient.swapaxes(1, 2)
    of_queries: list[Any] = []
    of_keys: Any = 0.0
    of_values: Any = 0.0
    for first, queries, keys, values, of_tile in _tiles(qkv, words):
        exponentials, inverse, factors = _weights(queries, keys, of_tile, first, rate)
        shares, cotangent = exponentials * inverse, gradient[:, :, first : first + queries.shape[2]]
        slopes = jnp.einsum("bhqd,bhkd->bhqk", cotangent, values) * factors
        slopes = (slopes - (slopes * shares).sum(-1, keepdims=True)) * shares * queries.shape[-1] ** -0.5
        of_queries.append(jnp.einsum("bhqk,bhkd->bhqd", slopes, keys))
        unseen = ((0, 0), (0, 0), (0, qkv.shape[1] - keys.shape[2]), (0, 0))
        of_keys += jnp.pad(jnp.einsum("bhqk,bhqd->bhkd", slopes, queries), unseen)
        of_values += jnp.pad(jnp.einsum("bhqk,bhqd->bhkd", shares * factors, cotangent), unseen)
    parts = jnp.concatenate(of_queries, 2), of_keys, of_values
    return jnp.stack([part.swapaxes(1, 2) for part in parts], axis=2)


def _by_blocks(function: Callable[..., Any], *arrays: Any) -> Any:
    """Compute a function of sequences for a block of them after the other."""
    batch, time, _, heads, _ = arrays[0].shape
    blocks = max(1, min(batch, 4 * batch * heads * time * time // BLOCK_BYTES))
    parts = jax.tree.map(lambda array: array.reshape(blocks, -1, *array.shape[1:]), arrays)
    found = jax.lax.map(lambda part: function(*part), parts)
    return found.reshape(batch, *found.shape[2:])


def make_attention(rate: float) -> Any:
    """Return attention of (qkv, random words of rows), whose backward pass computes the weights again."""

    def value(qkv: Any, words: Any) -> Any:
        return _by_blocks(partial(_attended, rate=rate), qkv, words)

    def forward(qkv: Any, words: Any) -> Any:
        return value(qkv, words), (qkv, words)

    def backward(saved: Any, gradient: Any) -> Any:
        return _by_blocks(partial(_attended_gradient, rate=rate), *saved, gradient), None

    attention = jax.custom_vjp(value)
    attention.defvjp(forward, backward)
    return attention


def _entropy(x: Any, table: Any, labels: Any) -> tuple[Any, Any, Any]:
    """Return the mean cross-entropy of `x @ table.T`, and its gradients, block by block."""
    rows = len(labels)
    blocks = max(1, rows * table.shape[0] * 4 // BLOCK_BYTES)
    while rows % blocks:
        blocks += 1

    def step(totals: Any, part: Any) -> Any:
        of_table, loss = totals
        x, labels = part
        logits = x @ table.T
        logits -= logits.max(-1, keepdims=True)
        exponentials = jnp.exp(logits)
        sums = exponentials.sum(-1)
        loss += (jnp.log(sums) - jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]).sum() / rows
        chosen = labels[:, None] == jnp.arange(table.shape[0])
        slopes = (exponentials / sums[:, None] - chosen) / rows
        return (of_table + slopes.T @ x, loss), slopes @ table

    parts = x.reshape(blocks, -1, x.shape[-1]), labels.reshape(blocks, -1)
    (of_table, loss), of_x = jax.lax.scan(step, (jnp.zeros_like(table), jnp.zeros(())), parts)
    return loss, of_x.reshape(x.shape), of_table


def _cross_entropy(x: Any, table: Any, labels: Any) -> Any:
    """Return the mean cross-entropy of the logits `x @ table.T`."""
    return _entropy(x, table, labels)[0]


def _entropy_forward(x: Any, table: Any, labels: Any) -> Any:
    loss, *slopes = _entropy(x, table, labels)
    return loss, slopes


def _entropy_backward(slopes: Any, gradient: Any) -> Any:
    return slopes[0] * gradient, slopes[1] * gradient, None


cross_entropy = jax.custom_vjp(_cross_entropy)
cross_entropy.defvjp(_entropy_forward, _entropy_backward)


def _norm(x: Any, weights: Any) -> Any:
    """Return the layer norm."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weights[0] + weights[1]


def linear(x: Any, weights: Any) -> Any:
    """Return a linear layer."""
    return x @ weights[0] + weights[1]


norm = jax.checkpoint(_norm)
linear_gelu = jax.checkpoint(lambda x, weights: jax.nn.gelu(linear(x, weights)))


def jax_fused_step(size: Size, dropout: float) -> Callable[[], object]:
    """One jitted function with donated state, with the layers in a loop."""
    width, layers = size.width, size.layers
    keys = iter(jax.random.split(jax.random.key(0), 6))

    def normal(*shape: int) -> Any:
        return 0.02 * jax.random.normal(next(keys), shape)

    def norm_parameters(*layers: int) -> Any:
        return jnp.ones((*layers, width)), jnp.zeros((*layers, width))

    def linear_parameters(inputs: int, outputs: int) -> Any:
        return normal(layers, inputs, outputs), jnp.zeros((layers, outputs))

    blocks = {
        "first": norm_parameters(layers), "second": norm_parameters(layers),
        "packed": linear_parameters(width, 3 * width), "mixed": linear_parameters(width, width),
        "inner": linear_parameters(width, 4 * width), "outer": linear_parameters(4 * width, width),
    }  # fmt: skip
    tables = normal(size.vocabulary, width), normal(size.context, width)
    parameters = {"tables": tables, "blocks": blocks, "norm": norm_parameters()}
    attention = make_attention(dropout)

    def loss(parameters: Any, read: Any, following: Any, key: Any) -> Any:
        batch, time = read.shape
        first, *others = jax.random.split(key, 1 + 3 * layers)

        def layer(x: Any, element: Any) -> Any:
            block, keys = element
            packed = linear(norm(x, block["first"]), block["packed"]).reshape(batch, time, 3, size.heads, -1)
            words = jax.random.bits(keys[0], (2, batch, size.heads, time), jnp.uint32)
            attended = attention(packed, tuple(words) if dropout else None).reshape(batch, time, width)
            x = x + dropped(linear(attended, block["mixed"]), keys[1], dropout)
            hidden = linear_gelu(norm(x, block["second"]), block["inner"])
            return x + dropped(linear(hidden, block["outer"]), keys[2], dropout), None

        x = dropped(parameters["tables"][0][read] + parameters["tables"][1][:time], first, dropout)
        x, _ = jax.lax.scan(layer, x, (parameters["blocks"], jnp.stack(others).reshape(layers, 3)))
        states = norm(x, parameters["norm"]).reshape(-1, width)
        return cross_entropy(states, parameters["tables"][0], following.reshape(-1))

    return jax_training_step(size, parameters, loss)

"""The draws of `draws` and `dropout` as JAX arrays, each from a key and the element's position.

The words of a position are those of `standard_draws`, bit for bit. The functions of JAX that make floats of them differ
from those there by a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError
from wyrm.graph.base import BaseNode, explain
from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.random.dropout_mask import drop_threshold
from wyrm.ops.random.philox_jax import Words, hashed_word, philox_block, traced_once, wide_product, words_of
from wyrm.support.imports import jax, jnp

# --- words --------------------------------------------------------------------------------------------------------


def key_words(step: Any, seed: Any, stream: Any) -> Words:
    """Return the two words of a `RandomKey`."""
    zero = np.uint32(0)
    return philox_block((zero, zero), words_of(step), seed, stream)[:2]


def positions(lowering: Lowering, node: BaseNode, key: Any, shape: tuple[int, ...]) -> Any:
    """Return the positions of all elements of a node of this shape, uint32; `key` may count the rows before."""
    position, places = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape), lowering.places(node)
    if places is not None:
        moved = places.astype(jnp.uint32) - jnp.arange(shape[0], dtype=jnp.uint32)
        position = position + moved.reshape(-1, *(1 for _ in shape[1:])) * np.uint32(math.prod(shape[1:]))
    return position + key[2] * np.uint32(math.prod(shape[1:])) if len(key) == 3 else position


@traced_once()
def position_words(position: Any, first: Any, second: Any) -> Words:
    """Return two words for positions and a key: Philox2x32-10."""
    for _ in range(10):
        low, high = wide_product(position, 0xD256D193)
        position, second = high ^ first ^ second, low
        first = first + np.uint32(0x9E3779B9)
    return position, second


def is_kept(lowering: Lowering, node: Any, key: Any, shape: tuple[int, ...]) -> Any:
    """Return the dropout mask of a node of this shape."""
    position = positions(lowering, node, key, shape)
    return hashed_word(position, key[0], key[1]) >= np.uint32(drop_threshold(node.rate, 2**32))


def integer_below(words: Words, size: Any) -> Any:
    """Return an integer below `size`, a number of at most 2**32 or an array of words, as uint32."""
    if isinstance(size, int) and size == 2**32:
        return words[0]
    (low, high), (_, carried) = wide_product(words[0], size), wide_product(words[1], size)
    return high + (low + carried < low)


def as_indices(node: Any, integers: Any, low: int, high: int) -> Any:
    """Return uint32 integers, plus `low`, as indices; raise `DTypeError` if those below `high` are no int32."""
    from jax.dtypes import canonicalize_dtype

    dtype: np.dtype = canonicalize_dtype(np.int64)
    if not -(2 ** (8 * dtype.itemsize - 1)) <= low <= high <= 2 ** (8 * dtype.itemsize - 1):
        text = f"draws integers from {low:,} to {high - 1:,}, and JAX has int32 alone unless jax_enable_x64 is set"
        raise DTypeError(explain(node, text))
    return integers.astype(dtype) + dtype.type(low)


# --- distributions ------------------------------------------------------------------------------------------------


def _tail_of(words: Words, dtype: np.dtype) -> tuple[Any, Any]:
    """Return whether points lie in the upper half of a distribution, and the probability beyond them."""
    a, b = words
    rest = a & np.uint32(0x7FFFFFFF)
    if dtype == np.float32:
        tail = (rest.astype(jnp.float32) + 0.5) * 2.0**-32
    else:
        tail = (((rest.astype(jnp.int64) << 32) | b.astype(jnp.int64)).astype(jnp.float64) + 0.5) * 2.0**-64
    return a >= np.uint32(0x80000000), tail


def uniform(words: Words, dtype: np.dtype) -> Any:
    """Return uniform numbers in [0, 1)."""
    a, b = words
    if dtype == np.float32:
        return (a >> np.uint32(8)).astype(jnp.float32) * 2.0**-24
    high, low = (a >> np.uint32(5)).astype(jnp.float64), (b >> np.uint32(6)).astype(jnp.float64)
    return (high * 2.0**26 + low) * 2.0**-53


def exponential(words: Words, dtype: np.dtype) -> Any:
    """Return numbers of the exponential distribution of mean 1."""
    upper, tail = _tail_of(words, dtype)
    # `log1p` of XLA loses two digits below -0.4.
    log_of_rest = jnp.where(tail < 0.29, jnp.log1p(-tail), jnp.log(1.0 - tail))
    return -jnp.where(upper, jnp.log(tail), log_of_rest)


def gumbel(words: Words, dtype: np.dtype) -> Any:
    """Return numbers of the standard Gumbel distribution."""
    return -jnp.log(exponential(words, dtype))


def laplace(words: Words, dtype: np.dtype) -> Any:
    """Return numbers of the Laplace distribution of mean 0 and scale 1."""
    upper, tail = _tail_of(words, dtype)
    size = -jnp.log(2.0 * tail)
    return jnp.where(upper, size, -size)


def normal(words: Words, dtype: np.dtype) -> Any:
    """Return numbers of the standard normal distribution."""
    from jax.scipy.special import ndtri

    upper, tail = _tail_of(words, dtype)
    quantile = ndtri(tail)
    return jnp.where(upper, -quantile, quantile)


# --- forms --------------------------------------------------------------------------------------------------------


class RandomKeyForm(JaxForm):
    """The lowering of `RandomKey`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        step, *rows_before = operands
        key = key_words(step, lowering.attribute(node, "seed"), lowering.attribute(node, "stream"))
        return lowering.xp.stack([*key, *(words_of(rows)[0] for rows in rows_before)])


class DropoutMaskForm(JaxForm):
    """The lowering of `DropoutMask`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return is_kept(lowering, node, operands[0], shape)


class DropoutForm(JaxForm):
    """The lowering of `Dropout` and `AddDropout`."""

    narrow: bool | None = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, *residual, step = operands
        key = key_words(step, lowering.attribute(node, "seed"), lowering.attribute(node, "stream"))
        mask = is_kept(lowering, node, lowering.xp.stack(key), shape)
        dropped = lowering.xp.where(mask, x * (1.0 / (1.0 - node.rate)), 0.0)
        return residual[0] + dropped if residual else dropped


class StandardDrawForm(JaxForm):
    """The lowering of draws from a distribution without parameters: a function of words and a dtype."""

    def __init__(self, distribution: Callable[[Words, np.dtype], Any]) -> None:
        self._distribution = distribution

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        (key,) = operands
        words = position_words(positions(lowering, node, key, shape), key[0], key[1])
        return self._distribution(words, node.dtype)


class RandomIntegerForm(JaxForm):
    """The lowering of `RandomInteger`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        (key,) = operands
        words = position_words(positions(lowering, node, key, shape), key[0], key[1])
        drawn = integer_below(words, node.count)
        return as_indices(node, drawn, node.low, node.low + node.count)


class RandomPermutationForm(JaxForm):
    """The lowering of `RandomPermutation`: the shuffle of Fisher and Yates, all rows at once."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        (key,) = operands
        count = shape[-1]
        words = position_words(positions(lowering, node, key, shape), key[0], key[1])
        drawn = integer_below(words, jnp.arange(1, count + 1, dtype=jnp.uint32))
        others = as_indices(node, drawn, 0, count).reshape(-1, count)

        def shuffled(others: Any) -> Any:
            def swapped(i: Any, row: Any) -> Any:
                return row.at[i].set(row[others[i]]).at[others[i]].set(i)

            return jax.lax.fori_loop(0, count, swapped, jnp.zeros_like(others))

        return jax.vmap(shuffled)(others).reshape(shape)


__all__ = [
    "DropoutForm",
    "DropoutMaskForm",
    "RandomIntegerForm",
    "RandomKeyForm",
    "RandomPermutationForm",
    "StandardDrawForm",
    "as_indices",
    "exponential",
    "gumbel",
    "integer_below",
    "key_words",
    "laplace",
    "normal",
    "position_words",
    "positions",
    "uniform",
]

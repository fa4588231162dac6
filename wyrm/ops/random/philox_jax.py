"""Random words and the steps that they are drawn for, as JAX arrays of uint32.

A 64-bit number, such as a step, is a pair of words (low, high); a step is an array whose last axis holds the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.random.dropout_mask import hashed_word
from wyrm.ops.random.philox import WORD, words_of_block
from wyrm.support.imports import jnp

Words = tuple[Any, Any]


def is_step(value: Any) -> bool:
    """Return whether an array holds steps, as words, and not integers."""
    return bool(value.dtype == np.uint32)


def as_words(value: Any) -> Words:
    """Return the words of steps or of integers."""
    if is_step(value):
        return words_of(value)
    return value.astype(np.uint32), (value >> min(32, 8 * value.dtype.itemsize - 1)).astype(np.uint32)


def sum_of_words(x: Words, y: Words) -> Words:
    """Return the words of a sum, without its carry beyond 64 bits."""
    (low, high), (other_low, other_high) = x, y
    total = low + other_low
    return total, high + other_high + (total < low)


class LoopStepsForm(JaxForm):
    """The lowering of `LoopSteps`: words of a function of positions and of the words of a step."""

    def __init__(self, words_at: Callable[..., Words]) -> None:
        self._words_at = words_at

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        position = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
        return jnp.stack(lowering.elementwise(self._words_at, position, *words_of(operands[0])), axis=-1)


class SumOfStepsForm(JaxForm):
    """The lowering of a sum of integers, which may be a step and a number of steps."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        if not any(map(is_step, operands)):
            return lowering.xp.broadcast_to(operands[0] + operands[1], shape)
        return lowering.xp.stack(sum_of_words(*map(as_words, operands)), axis=-1)


# --- digits -------------------------------------------------------------------------------------------------------

_BITS = np.uint32(22)
_MASK = np.uint32(2**22 - 1)


class ToDigitsForm(JaxForm):
    """The lowering of `ToDigits`, of integers or of steps."""

    exact = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        low, high = as_words(operands[0])
        middle = low >> _BITS | (high & np.uint32(2**12 - 1)) << np.uint32(10)
        last = high.astype(np.int32) >> 12
        digits = [(low & _MASK).astype(node.dtype), middle.astype(node.dtype), last.astype(node.dtype)]
        return lowering.xp.stack(digits, axis=-1)


class FromDigitsForm(JaxForm):
    """The lowering of `FromDigits`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        low, middle, last = (operands[0][..., i].astype(np.int32).astype(np.uint32) for i in range(3))
        words = low | middle << _BITS, middle >> np.uint32(10) | last << np.uint32(12)
        if node.is_step:
            return lowering.xp.stack(words, axis=-1)
        from jax.dtypes import canonicalize_dtype

        if canonicalize_dtype(np.int64) == np.int64:
            # No shift: ONNX has none of signed integers.
            return words[0].astype(np.int64) + words[1].astype(np.int32).astype(np.int64) * 2**32
        return words[0].astype(np.int32)


def word(value: Any) -> Any:
    """Return the low word of an integer, or of a scalar that JAX traces, as uint32."""
    return np.uint32(value & WORD) if isinstance(value, int) else value.astype(np.uint32)


def step_words(step: int) -> NDArray[np.uint32]:
    """Return a random step as an array of its two words."""
    return np.array([step & WORD, step >> 32 & WORD], np.uint32)


def words_of(step: Any) -> Words:
    """Return the words of steps, whose last axis holds them."""
    return step[..., 0], step[..., 1]


def philox_block(lowering: Lowering, counter: Words, step: Words, seed: Any, stream: Any) -> tuple[Any, ...]:
    """Return four words for the counter block (counter, step) and the key (seed, stream): Philox4x32-10."""
    # Arrays, not known numbers, for which the rounds would be traced again for each seed and stream.
    key = (jnp.asarray(word(each)) for each in (seed, stream))
    words: tuple[Any, ...] = lowering.elementwise(words_of_block, *counter, *step, *key)
    return words


def row_keys(lowering: Lowering, rows: int, step: Any, seed: Any, stream: Any) -> Words:
    """Return the keys of rows, two arrays of shape (rows,)."""
    row = jnp.arange(rows, dtype=jnp.uint32)
    first, second, _, _ = philox_block(lowering, (row, jnp.zeros_like(row)), words_of(step), seed, stream)
    return first, second


def kept_by_rows(
    first: Any, second: Any, columns: int, threshold: int, seen: int | None = None, beginning: Any = 0
) -> Any:
    """Return whether elements are kept, (..., columns), for rows of keys (...).

    `seen` asks for so many columns alone, from the column `beginning` on.
    """
    # A word decides over two elements. Each computes it for itself, so that XLA fuses the mask with what it is for.
    half = -(-columns // 2)
    column = jnp.arange(columns if seen is None else seen, dtype=jnp.uint32) + word(beginning)
    is_upper = column >= half
    words = hashed_word(column - is_upper * np.uint32(half), first[..., None], second[..., None])
    return (words >> is_upper * np.uint32(16) & np.uint32(0xFFFF)) >= np.uint32(threshold)


__all__ = [
    "FromDigitsForm",
    "LoopStepsForm",
    "SumOfStepsForm",
    "ToDigitsForm",
    "as_words",
    "kept_by_rows",
    "philox_block",
    "row_keys",
    "step_words",
    "sum_of_words",
    "word",
    "words_of",
]

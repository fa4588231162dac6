"""Random words and the steps that they are drawn for, as JAX arrays, in uint32 arithmetic.

A 64-bit number, such as a step, is a pair of words (low, high); a step is an array whose last axis holds the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.random.philox import WORD
from wyrm.support.imports import jax, jnp


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
    """The lowering of `LoopSteps`."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        position = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
        counter = position, jnp.full_like(position, 2**30)
        first, second, _, _ = philox_block(counter, words_of(operands[0]), 0, 0)
        return jnp.stack([first << np.uint32(30) ^ second, first >> np.uint32(2)], axis=-1)


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


Words = tuple[Any, Any]


def traced_once(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a function one of `jax.jit`, so that equal calls in a program are traced once."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def jitted() -> Callable[..., Any]:
            compiled: Callable[..., Any] = jax.jit(function, static_argnames=static)
            return compiled

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            return jitted()(*arguments, **keywords)

        return call

    return decorate


def word(value: Any) -> Any:
    """Return the low word of an integer, or of a scalar that JAX traces, as uint32."""
    return np.uint32(value & WORD) if isinstance(value, int) else value.astype(np.uint32)


def step_words(step: int) -> NDArray[np.uint32]:
    """Return a random step as an array of its two words."""
    return np.array([step & WORD, step >> 32 & WORD], np.uint32)


def words_of(step: Any) -> Words:
    """Return the words of steps, whose last axis holds them."""
    return step[..., 0], step[..., 1]


def wide_product(x: Any, factor: Any) -> Words:
    """Return the 64-bit product of words and a number below 2**32, or other words, from products of their halves."""
    half, low = np.uint32(16), np.uint32(0xFFFF)
    factor = np.uint32(factor) if isinstance(factor, int) else factor
    upper, lower = factor >> half, factor & low
    x_upper, x_lower = x >> half, x & low
    middle = x_upper * lower + (x_lower * lower >> half)
    cross = x_lower * upper + (middle & low)
    return x * factor, x_upper * upper + (middle >> half) + (cross >> half)


def philox_block(counter: Words, step: Words, seed: Any, stream: Any) -> tuple[Any, Any, Any, Any]:
    """Return four words for the counter block (counter, step) and the key (seed, stream): Philox4x32-10."""
    block: tuple[Any, Any, Any, Any] = _philox_rounds(*counter, *step, word(seed), word(stream))
    return block


@traced_once()
def _philox_rounds(a: Any, b: Any, c: Any, d: Any, first: Any, second: Any) -> tuple[Any, Any, Any, Any]:
    for _ in range(10):
        (left_low, left), (right_low, right) = wide_product(a, 0xD2511F53), wide_product(c, 0xCD9E8D57)
        a, b, c, d = right ^ b ^ first, right_low, left ^ d ^ second, left_low
        first, second = first + np.uint32(0x9E3779B9), second + np.uint32(0xBB67AE85)
    return a, b, c, d


def hashed_word(position: Any, first: Any, second: Any) -> Any:
    """Return the random word at a position of the row whose key is (first, second); all are uint32."""
    result = position * np.uint32(0x9E3779B9) + first
    result = (result ^ (result >> np.uint32(16))) * np.uint32(0x21F0AAAD) ^ second
    result = (result ^ (result >> np.uint32(15))) * np.uint32(0x735A2D97)
    return result ^ (result >> np.uint32(15))


def dropout_mask(rows: int, columns: int, threshold: int, step: Any, seed: Any, stream: Any, first_row: Any = 0) -> Any:
    """Return whether each element is kept, of shape (rows, columns); `first_row` is the number of rows before.

    `step` has the shape (2,). `seed`, `stream` and `first_row` are integers or traced uint32 scalars.
    """
    return _dropout_mask(rows, columns, threshold, step, word(seed), word(stream), word(first_row))


@traced_once("rows", "columns", "threshold")
def _dropout_mask(rows: int, columns: int, threshold: int, step: Any, seed: Any, stream: Any, first_row: Any) -> Any:
    first, second = _row_keys(rows, step, seed, stream, first_row)
    return kept_by_rows(first, second, columns, threshold)


def row_keys(rows: int, step: Any, seed: Any, stream: Any, first_row: Any = 0) -> Words:
    """Return the keys of rows, two arrays of shape (rows,); see `dropout_mask` for the arguments."""
    keys: Words = _row_keys(rows, step, word(seed), word(stream), word(first_row))
    return keys


@traced_once("rows")
def _row_keys(rows: int, step: Any, seed: Any, stream: Any, first_row: Any) -> Words:
    row = jnp.arange(rows, dtype=jnp.uint32) + first_row
    first, second, _, _ = philox_block((row, jnp.zeros_like(row)), words_of(step), seed, stream)
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
    "dropout_mask",
    "hashed_word",
    "kept_by_rows",
    "philox_block",
    "row_keys",
    "step_words",
    "sum_of_words",
    "traced_once",
    "wide_product",
    "word",
    "words_of",
]

"""Random steps and the integers that loops carry as digits, as JAX arrays; a step is a pair of uint32 words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.ops.random.philox_jax import Words, philox_block, words_of


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
        import jax.numpy as jnp

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
            return words[0].astype(np.int64) | words[1].astype(np.int32).astype(np.int64) << 32
        return words[0].astype(np.int32)


__all__ = ["FromDigitsForm", "LoopStepsForm", "SumOfStepsForm", "ToDigitsForm", "as_words", "sum_of_words"]

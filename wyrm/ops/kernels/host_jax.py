"""Calls of NumPy code from programs of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np


def on_host(
    compute: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: np.dtype,
    operands: Sequence[Any],
    vmap_method: Literal["sequential", "broadcast_all"] = "sequential",
) -> Any:
    """Return `compute(*arrays)`, of this shape and dtype, for the NumPy arrays of JAX's operands; it may change them.

    JAX computes the rows of a `jax.vmap` one by one, or with "broadcast_all" in one call, with axes before `shape`.
    """
    import jax

    # The call gets and returns words of 32 bits: it may run in a thread of XLA's, in which JAX has no 64-bit types.
    kinds = [np.dtype(operand.dtype) for operand in operands]
    words = [_words(operand, kind) for operand, kind in zip(operands, kinds, strict=True)]
    result = jax.ShapeDtypeStruct((*shape, 2) if dtype.itemsize == 8 else shape, _word(dtype))

    def call(*given: Any) -> Any:
        arrays = (_array(np.asarray(x), kind) for x, kind in zip(given, kinds, strict=True))
        found = np.asarray(compute(*arrays), dtype)
        many = found.view(_word(dtype)) if found.ndim else found.reshape(1).view(_word(dtype))
        return many.reshape((*found.shape, 2) if dtype.itemsize == 8 else found.shape)

    found = jax.pure_callback(call, result, *words, vmap_method=vmap_method)
    return found if _word(dtype) == dtype else jax.lax.bitcast_convert_type(found, dtype)


def _word(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the words that hold numbers of a dtype."""
    return np.dtype(np.uint32) if dtype.itemsize >= 4 else dtype


def _words(operand: Any, dtype: np.dtype) -> Any:
    import jax

    return operand if _word(dtype) == dtype else jax.lax.bitcast_convert_type(operand, _word(dtype))


def _array(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a new array of the numbers that words hold."""
    shape = words.shape[:-1] if dtype.itemsize == 8 else words.shape
    return np.array(words, order="C").reshape(-1).view(dtype).reshape(shape)

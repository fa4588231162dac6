"""The random words and masks of the XLA backend are those of NumPy, bit for bit."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from wyrm.engines.jax.lower import Lowerer, words
from wyrm.ops.random import philox_jax
from wyrm.ops.random.dropout_mask import dropout_mask
from wyrm.ops.random.philox import philox

KEYS = [(0, 0, 0), (2**32, 1, 7), (2**63 + 5, 123456, 2**31), (-1, -1, 2**33 + 1)]


@pytest.mark.parametrize(("step", "seed", "stream"), KEYS)
def test_philox(step: int, seed: int, stream: int) -> None:
    counter = np.array([0, 1, 2**32 - 1, 2**32, 2**63 + 12345], np.uint64)
    low, high = (counter & np.uint64(2**32 - 1)).astype(np.uint32), (counter >> np.uint64(32)).astype(np.uint32)
    found = philox_jax.philox_block(Lowerer({}), (low, high), philox_jax.words_of(words(step)), seed, stream)
    np.testing.assert_array_equal(np.stack(found, axis=-1), philox(counter, step, seed, stream))


def mask(rows: int, columns: int, threshold: int, step: Any, seed: Any, stream: Any) -> Any:
    """The dropout mask of attention's rows."""
    keys = philox_jax.row_keys(Lowerer({}), rows, step, seed, stream)
    return philox_jax.kept_by_rows(*keys, columns, threshold)


@pytest.mark.parametrize(("step", "seed", "stream"), KEYS)
@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (3, 8), (1, 1), (2, 0)])
def test_dropout_mask(rows: int, columns: int, step: int, seed: int, stream: int) -> None:
    expected = dropout_mask(rows, columns, 30000, step, seed, stream)
    np.testing.assert_array_equal(mask(rows, columns, 30000, words(step), seed, stream), expected)


def test_dropout_mask_of_traced_seeds() -> None:
    found = jax.jit(partial(mask, 5, 6, 1000))(words(2**40), np.uint32(3), np.uint32(4))
    np.testing.assert_array_equal(found, dropout_mask(5, 6, 1000, 2**40, 3, 4))

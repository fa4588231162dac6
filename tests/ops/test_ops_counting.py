"""Reductions of masks: NumPy's values in both engines, over any axes, batched, and without elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError

MASK = np.random.default_rng(0).random((2, 3, 4)) < 0.5
AXES = [None, 0, -1, (0, 2), (0, 1, 2)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "var", "std", "any", "all"])
def test_reductions_of_masks_are_those_of_numpy(name: str, keepdims: bool) -> None:
    x: Any = wy.Input(MASK)
    nodes = [getattr(x, name)(axis=axis, keepdims=keepdims) for axis in AXES]
    expected = [getattr(MASK, name)(axis=axis, keepdims=keepdims) for axis in AXES]
    for values in (wy.run(nodes), wy.compile(nodes)()):
        for found, wanted in zip(values, expected, strict=True):
            assert found.shape == wanted.shape and found.dtype.kind == wanted.dtype.kind
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_any_and_all_of_numbers() -> None:
    x: Any = wy.Input(np.array([[0.0, -0.0], [np.nan, 0.0], [1.0, 2.0]]), finite=False)
    assert x.any(axis=1).forward().tolist() == [False, True, True]
    assert x.all(axis=1).forward().tolist() == [False, False, True]
    assert wy.count_nonzero(x).forward() == 3 and wy.count_nonzero(wy.IndexConstant([0, 2, 3])).forward() == 2


def test_without_elements() -> None:
    x: Any = wy.Input(np.zeros((0, 3), bool))
    nodes: list[Any] = [x.sum(), x.any(), x.all(), x.sum(axis=0)]
    for values in (wy.run(nodes), wy.compile(nodes)()):
        assert [value.tolist() for value in values] == [0, False, True, [0, 0, 0]]


def test_many_elements_are_counted_exactly() -> None:
    """Beyond 2 ** 24, where float32 sums of ones stop."""
    count = 2**24 + 3
    total: Any = wy.Input(np.ones(count, bool)).sum()
    assert total.forward() == wy.compile(total)() == count


def test_the_index_of_the_minimum() -> None:
    data = np.array([[3.0, np.nan, 1.0], [-np.inf, 2.0, -np.inf], [0.0, -0.0, 5.0]])
    x: Any = wy.Input(data, finite=False)
    for axis in (None, 0, -1):
        for keepdims in (False, True):
            found = x.argmin(axis=axis, keepdims=keepdims)
            expected = np.argmin(data, axis=axis, keepdims=keepdims)
            np.testing.assert_array_equal(found.forward(), expected)
            np.testing.assert_array_equal(wy.compile(found)(), expected)
    mask: Any = wy.Input(MASK)
    np.testing.assert_array_equal(mask.argmin(axis=1).forward(), MASK.argmin(axis=1))


def test_rows_of_a_batch() -> None:
    found = wy.vmap(lambda row: row.sum(axis=0))(MASK)
    np.testing.assert_array_equal(found, MASK.sum(axis=1))
    np.testing.assert_array_equal(wy.vmap(lambda row: row.any(axis=-1))(MASK), MASK.any(axis=-1))


def test_a_count_as_a_number() -> None:
    x = wy.Parameter([-1.0, 2.0, 3.0])
    share: Any = (x > 0).sum().astype(np.float32) / 3.0
    assert share.forward() == np.float32(2 / 3)
    assert ((x > 0).sum() + 1).forward() == 3


def test_products_of_masks_are_refused() -> None:
    x: Any = wy.Input(MASK)
    with pytest.raises(DTypeError, match="is bool; convert it"):
        x.prod()

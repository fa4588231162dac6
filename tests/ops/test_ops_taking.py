"""`take` has the values, the defaults and the modes of `numpy.take`, and row-sparse gradients along the first axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.functions.test_methods import X
from wyrm.errors import IndexOutOfRange, OptionError, ShapeError
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import stored

INDICES: list[Any] = [0, -1, [1, 0], [[0, -2], [1, 1]], np.array([], np.int64)]


class Batch(wy.Dim): ...


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_values_are_those_of_numpy(axis: Any, mode: Any) -> None:
    """As a method, as a function and by NumPy, for fixed indices and for those of data."""
    for indices in INDICES if mode == "raise" else [*INDICES, [7, -9, 30]]:
        expected = np.take(X, indices, axis=axis, mode=mode)
        node: Any = wy.Constant(X)
        data: Any = wy.IndexInput(indices)
        for found in (
            node.take(indices, axis, mode=mode),
            wy.take(X, indices, axis, mode=mode),
            np.take(node, indices, axis=axis, mode=mode),
            node.take(data, axis, mode=mode),
        ):
            np.testing.assert_array_equal(found.forward(), expected)


def test_the_default_counts_through_all_elements() -> None:
    x = wy.Constant([[1.0, 2.0], [3.0, 4.0]])
    assert x.take([0, 3]).forward().tolist() == wy.take(x, [0, -1]).forward().tolist() == [1.0, 4.0]
    assert x.take([0, 1], axis=0).forward().tolist() == x[[0, 1]].forward().tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_gradients_of_rows_are_row_sparse() -> None:
    table: Any = wy.Parameter(np.ones((6, 2)))
    rows = wy.IndexInput([4, 0, -2])
    for node in (table.take(rows, axis=0), np.take(table, [4, 0, -2], axis=0), table.take([4, 0, 10], 0, mode="wrap")):
        gradient = wy.grad(node.sum(), table)
        assert type(gradient).gives_rows
        assert gradient.forward().tolist() == [[1.0] * 2, [0.0] * 2, [0.0] * 2, [0.0] * 2, [2.0] * 2, [0.0] * 2]
    table.take(rows, axis=0).sum().backward()
    assert isinstance(stored(table).gradient, RowSparse) and table.gradient.sum() == 6.0


def test_axes_that_data_sizes() -> None:
    x: Any = wy.Input(dims=(Batch(), 2), name="x")
    x.set(np.arange(6.0).reshape(3, 2))
    assert x.take([0, -1]).forward().tolist() == [0.0, 5.0]
    assert x.take([-1], axis=0).forward().tolist() == [[4.0, 5.0]]
    with pytest.raises(ShapeError, match="mode='clip' takes an axis whose size is known"):
        x.take([0], axis=0, mode="clip")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.take([4]), IndexOutOfRange, "4"),
        (lambda x: x.take([-5]), IndexOutOfRange, "-5"),
        (lambda x: x.take([2], axis=0), IndexOutOfRange, "2"),
        (lambda x: x.take([0], axis=2), ShapeError, "axis 2"),
        (lambda x: x.take([0], mode="around"), OptionError, "mode must be 'raise', 'wrap' or 'clip', not 'around'"),
        (lambda x: x.take([0.5]), TypeError, "integers"),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(wy.Constant([[1.0, 2.0], [3.0, 4.0]]))

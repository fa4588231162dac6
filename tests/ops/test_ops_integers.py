"""Integer nodes have NumPy's reductions, choices and axes, as methods and through its functions, in all engines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, ShapeError

_RANDOM = np.random.default_rng(0)
X = _RANDOM.integers(-9, 9, (3, 4, 2))
Y = _RANDOM.integers(-9, 9, (4, 2))
LARGE = np.array([2**62, 2**62, -(2**63), 5])


class Batch(wy.Dim): ...


Call = Callable[[Any, Any], Any]


def _method(name: str, options: dict[str, Any], x: Any, y: Any) -> Any:
    return getattr(x, name)(**options)


def _function(name: str, options: dict[str, Any], x: Any, y: Any) -> Any:
    return getattr(np, name)(x, **options)


def _reductions() -> list[Call]:
    found: list[Call] = []
    for name in ("sum", "max", "min"):
        for axis in (None, 0, -1, (0, 2), ()):
            for kept in (False, True):
                options: Any = {"axis": axis, "keepdims": kept}
                found += [partial(_method, name, options), partial(_function, name, options)]
    return found


CALLS: list[Call] = [
    *_reductions(),
    *(lambda x, y, a=axis: np.cumsum(x, axis=a) for axis in (None, 0, 1)),
    *(lambda x, y, a=axis: np.sort(x, axis=a) for axis in (None, 0, -1)),
    lambda x, y: np.take_along_axis(x, np.argsort(x, axis=0), axis=0),
    lambda x, y: x.clip(-2, 3),
    lambda x, y: np.clip(x, y, 3),
    lambda x, y: np.clip(x, 3, -2),
    lambda x, y: np.clip(x, None, 3),
    lambda x, y: np.maximum(x, y),
    lambda x, y: np.minimum(y, x),
    lambda x, y: np.maximum(3, x),
    lambda x, y: np.minimum(Y, x),
    lambda x, y: abs(x) + np.abs(y),
    lambda x, y: x.T,
    lambda x, y: np.transpose(x),
    lambda x, y: np.transpose(x, (1, 0, 2)),
    lambda x, y: np.expand_dims(x, (0, 2)),
    lambda x, y: np.squeeze(x[:1], 0),
    lambda x, y: np.ravel(x),
    lambda x, y: np.where(x > 0, x, y),
    lambda x, y: np.where(x > y, x, 0),
    lambda x, y: np.where(x > 0, 7, x),
    lambda x, y: np.where(X > 0, Y, x),
    lambda x, y: np.take(x, [3, -1]),
    lambda x, y: np.take(x, [9, -7], axis=1, mode="wrap"),
    lambda x, y: np.sum(x, where=x > 0, axis=1),
    lambda x, y: np.max(x, initial=5, axis=1),
]


def test_values_are_those_of_numpy_in_all_engines() -> None:
    x, y = wy.IndexInput(X), wy.IndexInput(Y)
    nodes = [call(x, y) for call in CALLS]
    results = (wy.run(nodes), wy.compile(nodes)(), wy.compile(nodes, engine="jax")())
    for values in results:
        for call, value in zip(CALLS, values, strict=True):
            assert value.dtype == np.int64
            np.testing.assert_array_equal(value, call(X, Y))


def test_no_digit_is_lost_and_overflow_wraps_around() -> None:
    x: Any = wy.IndexInput(LARGE)
    calls: list[Callable[[Any], Any]] = [
        np.sum,
        np.cumsum,
        np.max,
        np.min,
        np.sort,
        abs,
        lambda x: np.where(x > 5, x, -1),
    ]
    nodes = [call(x) for call in calls]
    with np.errstate(all="ignore"):
        for values in (wy.run(nodes), wy.compile(nodes)()):
            for call, value in zip(calls, values, strict=True):
                np.testing.assert_array_equal(value, call(LARGE))


def test_functions_take_integer_nodes() -> None:
    x: Any = wy.IndexInput([3, -1, 2])
    assert wy.maximum(x, 2).forward().tolist() == wy.maximum(2, x).forward().tolist() == [3, 2, 2]
    assert wy.where(x > 0, x, 0).forward().tolist() == [3, 0, 2]
    assert wy.sum(x).forward() == 4 and wy.sort(x).forward().tolist() == [-1, 2, 3]
    assert wy.abs(x).forward().tolist() == [3, 1, 2] and (x + [1, 1, 1]).forward().tolist() == [4, 0, 3]


def test_axes_that_data_sizes() -> None:
    rows: Any = wy.IndexInput(dims=(Batch(), 2), name="rows")
    nodes = [rows.sum(axis=0), rows.max(), rows.sort(axis=0), rows.cumsum(axis=0)]
    program = wy.compile(nodes)
    for size in (1, 4):
        data = np.arange(2 * size).reshape(size, 2) % 5
        for value, expected in zip(
            program({rows: data}), (data.sum(0), data.max(), np.sort(data, 0), data.cumsum(0)), strict=True
        ):
            np.testing.assert_array_equal(value, expected)
    assert wy.compile(rows.sum())({rows: np.zeros((0, 2), np.int64)}) == 0
    with pytest.raises(ShapeError, match="has no value over an axis of size 0, which the data of this run has"):
        wy.compile(rows.max())({rows: np.zeros((0, 2), np.int64)})


def test_rows_of_a_batch() -> None:
    found = wy.vmap(lambda row: (row.sum() + row.sort() * row.max() + row.cumsum()).astype(np.float32))(X[0])
    expected = [row.sum() + np.sort(row) * row.max() + row.cumsum() for row in X[0]]
    np.testing.assert_array_equal(found, np.array(expected))


def test_large_sums_have_64_bits_under_jax() -> None:
    rows = wy.IndexInput(dims=(3,), name="rows")
    total = wy.compile([rows.sum(), rows.cumsum()], engine="jax")
    found = total({rows: [2_000_000_000] * 3})
    assert found[0] == 6_000_000_000 and found[1].tolist() == [2_000_000_000, 4_000_000_000, 6_000_000_000]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.maximum(1.5), DTypeError, r"holds integers, and 1\.5 does not"),
        (lambda x: x.maximum("1"), TypeError, "holds integers, and str does not"),
        (lambda x: x.maximum(wy.Constant([1.0, 2.0])), DTypeError, "does not: convert the integers with .astype"),
        (lambda x: wy.where(x > 0, x, 0.5), DTypeError, r"holds integers, and 0\.5 does not"),
        (lambda x: wy.where(x > 0, wy.Constant([1.0, 2.0]), x), DTypeError, "holds integers"),
        (lambda x: x.sum(axis=2), ShapeError, "axis 2"),
        (lambda x: x.sum(axis=(0, 0)), ShapeError, "twice"),
        (lambda x: x[:0].max(), ShapeError, "has no value over an axis of size 0"),
        (lambda x: x.sum(0, np.int64), TypeError, "keepdims must be True or False"),
        (lambda x: x.mean(), AttributeError, r"convert with x\.astype"),
    ],
)
def test_errors(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(wy.IndexInput([1, 2]))

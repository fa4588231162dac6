"""Advanced indexing against NumPy and JAX: values in both engines, gradients to second order, vmap, ranges."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import IndexOutOfRange
from wyrm.ops.indexing.index import RowGradient
from wyrm.ops.reducing.sorting import SearchSorted

X = np.random.default_rng(0).standard_normal((3, 4, 5, 6))
MASK = np.random.default_rng(1).random((4, 5)) < 0.5
ROW_MASK = np.array([True, True, False])
ROWS, COLUMNS = np.array([2, 0, -1]), np.array([[1], [-4]])
ALL = slice(None)
STATIC: list[Any] = [
    [0, 2], ([0, -1], [1, 1]), (ALL, [0], ..., [0]), (ALL, [0, 1], [0, 1]), (ALL, 0, ALL, [1, 2]), (ALL, 0, [1, 2]),
    (0, ALL, [1, 2]), (ALL, None, [1, 2]), (ALL, [1, 2], None, [0, 1]), (ALL, MASK), (ALL, MASK, 0), (ROW_MASK,),
    (..., [0, -1]), (np.array([[0, 1], [2, -3]]), slice(1, 3), slice(None, None, -1), [[5], [0]]), np.array([], int),
    ([[0, 1], [1, 2]],), (np.array(1), [0, 1]), (np.array([True, False, True]), ALL, [1, 0]), ([0, 1], None, [0, 1]),
    (ALL, slice(1, None, 2), [0, 1]), (None, [0, 1], [0, 1], None), (np.int64(1), [0, 1]), (ROW_MASK, ..., -1),
    (ALL, np.zeros((4, 5), bool)), (np.array([1], np.uint8),), ([], ALL, [1]),
]  # fmt: skip
# Keys of `ROWS` and `COLUMNS`, here as index nodes.
DYNAMIC: list[Any] = [
    lambda i, j: i,
    lambda i, j: (ALL, i),
    lambda i, j: (i, j),
    lambda i, j: (ALL, j, i),
    lambda i, j: (i, ALL, j),
    lambda i, j: (i, 0),
    lambda i, j: (0, i),
    lambda i, j: (slice(1, 3), np.array([1, 2]), j[0, 0]),
    lambda i, j: (ALL, ALL, j, None, i),
    lambda i, j: i[0],
    lambda i, j: (i, np.array([0, 1, 3]), ..., -1),
]


@pytest.mark.parametrize("key", STATIC, ids=str)
def test_a_static_key_selects_as_in_numpy(key: Any) -> None:
    node = wy.Parameter(X)[key]
    assert node.shape == X[key].shape
    np.testing.assert_array_equal(node.forward(), X[key])


def test_static_keys_in_native_code() -> None:
    x = wy.Parameter(X)
    parts = [x[key] for key in STATIC if X[key].size]
    for part, value in zip(parts, wy.compile(parts)(), strict=True):
        np.testing.assert_array_equal(value, part.forward())


@pytest.mark.parametrize("key", DYNAMIC)
def test_index_nodes_and_their_gradients(key: Any) -> None:
    x, i, j = wy.Parameter(X), wy.IndexInput(ROWS), wy.IndexInput(COLUMNS)
    weight = np.random.default_rng(2).standard_normal(X[key(ROWS, COLUMNS)].shape)

    def loss(x: Any, i: Any, j: Any, weight: Any) -> Any:
        part = x[key(i, j)]
        return (part * part * part * weight).sum()

    value = loss(x, i, j, wy.Constant(weight))
    (gradient,) = wy.grad(value, [x])
    (second,) = wy.grad((gradient * gradient).sum(), [x])
    with jax.enable_x64(True):
        first = jax.grad(loss)

        def squared(x: Any) -> Any:
            return (first(x, ROWS, COLUMNS, weight) ** 2).sum()

        wanted = jax.jit(lambda x: [first(x, ROWS, COLUMNS, weight), jax.grad(squared)(x)])(X)
    for engine in (wy.run, lambda nodes: wy.compile(nodes)()):
        for have, want in zip(engine([gradient, second]), wanted, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "select",
    [
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x[i, :, COLUMNS],
        lambda x, i: x[:, i, COLUMNS],
        lambda x, i: x[i[0], ..., 0],
    ],
)
@pytest.mark.parametrize("in_axes", [(0, None), (None, 0), (0, 0)])
def test_vmap_selects_in_each_row(select: Any, in_axes: tuple[Any, Any]) -> None:
    x = X if in_axes[0] == 0 else X[0]
    rows = np.stack([ROWS, ROWS[::-1], ROWS]) if in_axes[1] == 0 else ROWS
    found: Any = wy.vmap(lambda x, i: select(x, i), in_axes)(x, rows)
    expected = [select(x[n] if in_axes[0] == 0 else x, rows[n] if in_axes[1] == 0 else rows) for n in range(3)]
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-7)


def test_integers_by_integers() -> None:
    tokens, order = wy.IndexInput([[5, 6, 7], [8, 9, 10]]), wy.IndexInput([2, -3])
    for node in (tokens[:, order], tokens[1, order], tokens[[1, 0], order]):
        np.testing.assert_array_equal(wy.compile(node)(), node.forward())
    assert tokens[:, order].forward().tolist() == [[7, 5], [10, 8]]


def test_a_constant_mask_is_a_key() -> None:
    x = wy.Parameter([1.0, 2.0, 3.0])
    assert x[wy.Constant(np.array([True, False, True]))].forward().tolist() == [1.0, 3.0]


class Batch(wy.Dim): ...


def test_rows_of_a_table_are_checked_before_an_epoch_and_have_a_sparse_gradient() -> None:
    table = wy.Parameter(np.zeros((4, 3)), name="table")
    rows, y = wy.IndexInput(dims=(Batch(),), name="rows"), wy.Input(dims=(Batch(), 3), dtype=np.float64, name="y")
    loss = (table[rows] - y).square().sum()
    assert isinstance(wy.grad(loss, table), RowGradient)
    train = wy.compile(loss, wy.optim.SGD([table], learning_rate=0.5))
    train.epoch({rows: np.array([0, -1, 1, -1]), y: np.ones((4, 3))}, batch_size=1)
    np.testing.assert_array_equal(table.value[:, 0], [1.0, 1.0, 0.0, 1.0])
    for wrong in (4, -5):
        with pytest.raises(IndexOutOfRange, match=f"rows holds {wrong} in row 1, .* takes -4 to 3; no parameter"):
            train.epoch({rows: np.array([0, wrong]), y: np.ones((2, 3))}, batch_size=1)
        with pytest.raises(IndexOutOfRange, match=f"holds {wrong} at position"):
            rows.set([0, wrong])


def test_an_axis_whose_size_data_decides() -> None:
    x, i = wy.Input(dims=(Batch(),), dtype=np.float64), wy.IndexInput(dims=(2,))
    program, static = wy.compile(x[i]), wy.compile(x[[-1, 0]])
    for size in (3, 5):
        assert program({x: np.arange(float(size)), i: np.array([-1, 0])}).tolist() == [size - 1.0, 0.0]
        assert static({x: np.arange(float(size))}).tolist() == [size - 1.0, 0.0]
    for wrong in (3, -4):
        with pytest.raises(IndexOutOfRange, match=f"{wrong}"):
            program({x: np.arange(3.0), i: np.array([0, wrong])})
        x.set(np.arange(3.0))
        i.set([0, wrong])
        with pytest.raises(IndexOutOfRange, match=f"{wrong}"):
            x[i].forward()


def test_computed_indices_are_checked_where_they_are_used() -> None:
    x, numbers = wy.Parameter([1.0, 2.0, 3.0]), wy.Input([0.5, 2.5])
    chosen = x[SearchSorted(x, numbers)]
    for run in (chosen.forward, wy.compile(chosen)):
        numbers.set([0.5, 2.5])
        assert run().tolist() == [1.0, 3.0]
        numbers.set([0.5, 3.5])
        with pytest.raises(IndexOutOfRange):
            run()


def test_a_scan_reads_an_element_of_each_step() -> None:
    x = wy.Parameter([1.0, 2.0, 4.0])
    steps = wy.IndexConstant([0, -1, 1])

    def step(carry: Any, i: Any) -> tuple[Any, Any]:
        return carry + x[i], carry

    start: Any = wy.Constant(0.0)
    total, _ = wy.scan(step, start, steps)
    for run in (total.forward, wy.compile(total)):
        assert run() == 7.0
    np.testing.assert_array_equal(wy.compile(wy.grad(total, x))(), [1.0, 1.0, 1.0])

"""Updates at keys against NumPy's assignment: values, repeated indices, gradients, vmap, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.graph.traversal import topological_order
from wyrm.testing import check_grads

X, V = np.random.default_rng(0).standard_normal((2, 3, 4))
ROWS = np.array([2, 0, 2])
ALL = slice(None)
KEYS: list[Any] = [
    0, (ALL, 1), (ALL, slice(None, None, -2)), ROWS, (ROWS, [0, 1, 0]), (ALL, [1, 1]), V > 0, ..., (None, 1), [-1, -1],
]  # fmt: skip


@pytest.mark.parametrize("of_nodes", [False, True])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_set_and_add_as_in_numpy(key: Any, of_nodes: bool) -> None:
    values = V.ravel()[: X[key].size].reshape(X[key].shape)
    written, added, filled = X.copy(), X.copy(), X.copy()
    written[key] = values
    np.add.at(added, key, values)
    filled[key] = 2.0
    at: Any = key
    if of_nodes:
        entries = [
            wy.IndexInput(each) if each is ROWS else each for each in (key if isinstance(key, tuple) else (key,))
        ]
        at = tuple(entries) if isinstance(key, tuple) else entries[0]
    x, v = wy.Parameter(X), wy.Parameter(values)
    nodes: list[Any] = [x.at[at].set(v), x.at[at].add(v), x.at[at].set(2.0)]
    for engine in (wy.run, lambda outputs: wy.compile(outputs)()):
        for have, want in zip(engine(nodes), (written, added, filled), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-15)
    for node in nodes:
        check_grads(node)


def test_vmap_updates_each_row() -> None:
    rows = np.array([[0, 1], [2, 2], [1, 0]])
    values, x = V[:, :2, None] * np.ones(4), np.stack([X, X + 1.0, X + 2.0])
    found: Any = wy.vmap(lambda x, i, v: x.at[i].set(v))(x, rows, values)
    for row in range(3):
        expected = x[row].copy()
        expected[rows[row]] = values[row]
        np.testing.assert_array_equal(found[row], expected)


@pytest.mark.parametrize(
    "mapped", [(0, 0, 0), (0, None, 0), (None, 0, 0), (None, None, 0), (0, 0, None), (0, None, None)]
)
def test_vmap_updates_one_row_of_each(mapped: Any) -> None:
    x, rows, values = np.stack([X, X + 1.0, X + 2.0]), np.array([2, 0, 1]), V
    given = tuple(each if axis == 0 else each[0] for each, axis in zip((x, rows, values), mapped, strict=True))
    gradient = wy.function(lambda x, i, v: (x.at[i].set(v * v) ** 2).sum()).grad(wrt=(0, 2))
    results = wy.vmap(lambda x, i, v: (x.at[i].set(v), *gradient(x, i, v)), in_axes=mapped)(*given)
    for row in range(3):
        one, i, value = (each[row] if axis == 0 else each for each, axis in zip(given, mapped, strict=True))
        expected, slope = one.copy(), 2.0 * one
        expected[i], slope[i] = value, 0.0
        for found, want in zip(results, (expected, slope, 4.0 * value**3), strict=True):
            np.testing.assert_allclose(found[row], want, rtol=1e-13)


class Batch(wy.Dim): ...


def test_errors() -> None:
    x, rows = wy.Parameter(X), wy.IndexInput([2, 0, 2])
    with pytest.raises(ShapeError, match=r"does not broadcast to the selected elements, \(4,\)"):
        x.at[0].set(np.ones(3))
    with pytest.raises(IndexOutOfRange):
        x.at[3].set(1.0)
    with pytest.raises(ShapeError, match="the data of each run decides a size"):
        wy.Input(dims=(Batch(),)).at[0].set(1.0)
    _ = x.at[rows].set(1.0)
    with pytest.raises(IndexOutOfRange, match="takes -3 to 2"):
        rows.set([0, 1, 5])


def test_the_node_itself_does_not_change() -> None:
    x = wy.Parameter(X)
    x.at[0].set(0.0).forward()
    np.testing.assert_array_equal(x.value, X)


def test_the_sizes_of_the_jacobian_of_an_update_are_integers() -> None:
    jacobian: Any = wy.jacobian(lambda a: a.at[np.array([0, 0])].add(a[:1] * 0.5))
    found = jacobian(wy.Parameter(np.ones(3)))
    assert all(type(axis) is int for node in topological_order([found]) for axis in node.dims)
    np.testing.assert_allclose(found.forward(), np.diag([2.0, 1.0, 1.0]))

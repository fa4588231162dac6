"""Sizes that the data of each run decides: `x.shape`, ranges, constant matrices and diagonals over such axes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import ShapeError
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Items(wy.Dim): ...


BATCH = Batch()
CASES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "arange": (lambda x, b: x[:, 0] * wy.arange(b).astype(np.float64), lambda x: x[:, 0] * np.arange(len(x))),
    "arange of a joined axis": (
        lambda x, b: (wy.arange(1 + b).astype(np.float64) * 2.0).sum() * x,
        lambda x: np.arange(len(x) + 1).sum() * 2.0 * x,
    ),
    "arange of a flattened axis": (
        lambda x, b: wy.arange(b * 3).astype(np.float64).reshape((b, 3)) * x,
        lambda x: np.arange(x.size).reshape(x.shape) * x,
    ),
    "zeros": (lambda x, b: x + wy.zeros((b, 3)), lambda x: x),
    "ones": (lambda x, b: wy.ones(b) @ x, lambda x: x.sum(0)),
    "full": (lambda x, b: x * wy.full((b, 1), 3.0), lambda x: 3.0 * x),
    "eye": (lambda x, b: wy.eye(b) @ x, lambda x: x),
    "eye below": (lambda x, b: wy.eye(b, k=-1) @ x, lambda x: np.eye(len(x), k=-1) @ x),
    "eye of two axes": (lambda x, b: wy.eye(b, 3, 1) * x, lambda x: np.eye(len(x), 3, 1) * x),
    "identity": (lambda x, b: wy.identity(b) @ x, lambda x: x),
    "tri": (lambda x, b: wy.tri(b) @ x, lambda x: np.tri(len(x)) @ x),
    "tril": (lambda x, b: wy.tril(x @ x.T, -1), lambda x: np.tril(x @ x.T, -1)),
    "triu": (lambda x, b: wy.triu(x @ x.T, 1), lambda x: np.triu(x @ x.T, 1)),
    "triangle of a row": (lambda x, b: wy.tril(x[:, 0]), lambda x: np.tril(x[:, 0])),
    "diagonal": (lambda x, b: wy.diagonal(x @ x.T), lambda x: np.diagonal(x @ x.T)),
    "trace": (lambda x, b: wy.trace(x @ x.T), lambda x: np.trace(x @ x.T)),
    "diag of a matrix": (lambda x, b: wy.diag(x @ x.T), lambda x: np.diag(x @ x.T)),
    "diag": (lambda x, b: wy.diag(x[:, 1]), lambda x: np.diag(x[:, 1])),
    "diag above": (lambda x, b: wy.diag(x[:, 1], 2), lambda x: np.diag(x[:, 1], 2)),
    "diag below": (lambda x, b: wy.diag(x[:, 1], -1), lambda x: np.diag(x[:, 1], -1)),
    "einsum": (lambda x, b: wy.einsum("ii->i", x @ x.T), lambda x: np.diagonal(x @ x.T)),
    "reshape": (lambda x, b: x.reshape(b, 3, 1).sum(-1), lambda x: x),
    "flatten": (lambda x, b: x.reshape(b * 3), lambda x: x.reshape(-1)),
    "quotient": (lambda x, b: x.sum(0) / b, lambda x: x.mean(0)),
    "product": (lambda x, b: b * x - b, lambda x: len(x) * x - len(x)),
    "least": (lambda x, b: wy.minimum(10.0 * x, b), lambda x: np.minimum(10.0 * x, len(x))),
    "rest of integers": (lambda x, b: x * x[wy.argmax(x.reshape(-1)) % b], lambda x: x * x[np.argmax(x) % len(x)]),
    "integers before it": (
        lambda x, b: x * wy.where((wy.arange(b) + 1)[:, None] < b, 1.0, 2.0),
        lambda x: x * np.where(np.arange(1, len(x) + 1)[:, None] < len(x), 1.0, 2.0),
    ),
    "integers from the end": (lambda x, b: x[-1 - wy.arange(b) + b], lambda x: x[::-1]),
    "broadcast": (lambda x, b: x[0].broadcast_to((b, 3)), lambda x: np.broadcast_to(x[0], x.shape)),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_of_an_axis_without_a_size(name: str) -> None:
    """They equal NumPy's in every engine, for data of several sizes, and so do the gradients."""
    build, expected = CASES[name]
    weight = wy.Parameter(np.array([0.5, -1.5, 2.0]), name="weight")
    x = wy.Input(dims=(BATCH, 3), dtype=np.float64, name="x")
    value = build(x * weight, x.shape[0])
    gradient = wy.grad(value.sum(), weight)
    programs = [wy.compile([value, gradient], engine=engine) for engine in ("native", "jax")]
    for rows in (4, 1, 6):
        data = np.random.default_rng(rows).normal(size=(rows, 3))
        x.set(data)
        wanted = [value.forward(), gradient.forward()]
        np.testing.assert_allclose(wanted[0], expected(data * weight.value), rtol=1e-12)
        for program in programs:
            for found, want in zip(program({x: data}), wanted, strict=True):
                np.testing.assert_allclose(found, want, rtol=1e-5)
    check_grads(value)


def test_the_shape_of_an_open_node_has_the_axis_itself() -> None:
    x: Any = wy.Input(dims=(BATCH, 3), name="x")
    assert x.shape == (BATCH, 3) and x.shape[0] is BATCH
    assert wy.Input(dims=(Batch(2), 3)).shape == (2, 3)
    assert hasattr(x, "shape") and dict(inspect.getmembers(x))["shape"] == (BATCH, 3)
    numbers: list[Callable[[Any], object]] = [
        int, range, np.arange, lambda n: n - 1, lambda n: n // 2, lambda n: 1.0 / n, lambda n: n / 2, lambda n: n > 1,
        lambda n: n >= 1, lambda n: n < 1, lambda n: n <= 1,
    ]  # fmt: skip
    for number in numbers:
        with pytest.raises(ShapeError, match="axis Batch has no size of its own: it is bound by the data of each run"):
            number(x.shape[0])
    assert not hasattr(x, "size")
    assert wy.random.normal(x.shape).dims == x.dims and wy.random.index(5, x.shape[:1]).dims == (BATCH,)


def test_sums_and_products_of_axes() -> None:
    assert (BATCH * 2).parts == (BATCH, 2) and (np.int64(2) * BATCH).parts == (2, BATCH)
    assert (Batch(3) + Items(4)).size == 7 and (1 + Batch(3)).size == 4 and (Batch(3) * Items(4)).size == 12
    wrong: Any = 0.5
    calls: list[Callable[[], object]] = [
        lambda: BATCH * wrong, lambda: wrong * BATCH, lambda: BATCH + wrong, lambda: wrong + BATCH,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(TypeError, match="unsupported operand"):
            call()


def test_axes_of_a_size_are_numbers_too() -> None:
    four: Any = Batch(4)
    assert (four - 1, four // 3, four / 8, 2.0 / four) == (3, 1, 0.5, 0.5)
    assert four > 3 and four >= 4 and four < 5 and four <= 4
    assert (wy.Constant([8.0]) / four).forward().tolist() == [2.0]


def test_axes_keep_their_names() -> None:
    assert wy.arange(Batch(3)).dims == (Batch(3),) and wy.arange(BATCH).dims == (BATCH,)
    assert wy.eye(Batch(3)).dims == (Batch(3), Batch(3)) and wy.eye(BATCH, Items(4)).dims == (BATCH, Items(4))
    assert wy.diagonal(wy.ones((Items(4), Batch(3), Batch(3))), 0, 1, 2).dims == (Items(4), Batch(3))
    assert wy.zeros((BATCH, 2)).dims == (BATCH, 2) and wy.tri(BATCH).dims == (BATCH, BATCH)
    assert_type(wy.arange(BATCH), wy.IndexNode[tuple[Batch]])
    assert_type(wy.eye(BATCH), wy.Node[Any, tuple[Batch, Batch]])
    assert_type(wy.eye(BATCH, Items(4)), wy.Node[Any, tuple[Batch, Items]])
    assert_type(wy.ones((BATCH, Items(4))), wy.Node[Any, tuple[Batch, Items]])
    assert_type(wy.zeros((2, 3)), wy.Constant)


def test_errors_name_the_axis() -> None:
    arange: Any = wy.arange
    with pytest.raises(ShapeError, match=r"takes that axis alone, not \(1, Batch\(\), 1\)"):
        arange(1, BATCH)
    with pytest.raises(ShapeError, match=r"decides the size of axis 0, Batch\(\); give it a size"):
        wy.ones((BATCH, BATCH)).diagonal(1)
    with pytest.raises(ShapeError, match=r"decides the size of axis 0, Batch\(\); give it a size"):
        wy.ones((BATCH, 3)).diagonal()
    with pytest.raises(ShapeError, match="axis Batch has no size: no input of this graph binds it"):
        wy.arange(BATCH).forward()


def test_in_batch_negatives_learn() -> None:
    users, items = wy.nn.Embedding(20, 8, seed=0), wy.nn.Embedding(20, 8, seed=1)
    user, item = (wy.IndexInput(dims=(BATCH,), name=name) for name in ("user", "item"))
    scores = users(user) @ items(item).T
    loss = scores.cross_entropy(wy.arange(scores.shape[0]))
    train = wy.compile(loss, wy.optim.Adam(loss.parameters(), 0.05))
    columns = {user: np.arange(20), item: np.arange(20)[::-1].copy()}
    first, *_, last = (train.epoch(columns, batch_size=7) for _ in range(60))
    assert last < 0.1 * first


def test_threads_do_not_divide_a_batch_whose_rows_are_numbered() -> None:
    """The positions of the rows in a part of the batch would begin at 0 again."""
    found = []
    for threads in (1, 2):
        table, user = wy.nn.Embedding(20, 8, seed=0), wy.IndexInput(dims=(BATCH,), name="user")
        loss = (wy.arange(BATCH).astype(np.float32) * table(user).sum(-1)).mean()
        train = wy.compile(loss, wy.optim.SGD([table.weight], 0.1))
        train.epoch({user: np.arange(20)}, batch_size=10, threads=threads, mode="synchronized")
        found.append(table.weight.value)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)

"""The matrix product that kernels call equals NumPy's for every layout, size and precision."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.native import compiled
from wyrm.ops.products.product import multiply_into

pytestmark = pytest.mark.optimized

# The position of the last of the layouts that have the same numbers.
LAST_EQUAL = 3


def layouts(array: Any) -> list[Any]:
    """Return the array, and equal ones in column order, with gaps, reversed, and with a repeated row or column."""
    wide = np.zeros((array.shape[0] * 2, array.shape[1] * 3), array.dtype)
    wide[::2, ::3] = array
    found = [array, np.asfortranarray(array), wide[::2, ::3], np.ascontiguousarray(array[::-1])[::-1]]
    found.append(np.ascontiguousarray(array.T)[::-1].T)
    found += [np.broadcast_to(array[:1], array.shape), np.broadcast_to(array[:, :1], array.shape)]
    return found


def multiply_matrices(x: Any, y: Any, out: Any, kept: int) -> None:
    multiply_into(x, y, out, kept)


@pytest.fixture(scope="module")
def multiply() -> Any:
    return compiled(multiply_matrices)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 1),
        (3, 5, 2),
        (4, 4, 3),
        (2, 1, 7),
        (1, 9, 6),
        (7, 1, 1),
        (5, 3, 0),
        (17, 19, 23),
        (33, 8, 64),
        (1, 99, 33),
        (2, 40, 70),
        (3, 9, 4101),
        (4, 70, 31),
        (40, 4, 70),
        (41, 3, 4101),
        (64, 1, 300),
        (65, 200, 300),
        (30, 101, 30),
        (1, 1901, 800),
        (1901, 1, 800),
    ],
)
def test_products_of_every_layout(multiply: Any, sizes: tuple[int, int, int], dtype: type) -> None:
    rows, columns, inner = sizes
    random = np.random.default_rng(0)
    x: Any = random.normal(size=(rows, inner)).astype(dtype)
    y: Any = random.normal(size=(inner, columns)).astype(dtype)
    before: Any = random.normal(size=(rows, columns)).astype(dtype)
    tolerance = 1e-4 if dtype is np.float32 else 1e-12
    # The first layouts are of equal numbers, of which NumPy multiplies those that are contiguous fast.
    known: dict[Any, Any] = {}
    for (i, left), (j, right), kept in product(enumerate(layouts(x)), enumerate(layouts(y)), (0, 1)):
        operands = max(i, LAST_EQUAL), max(j, LAST_EQUAL)
        if operands not in known:
            known[operands] = (x if i <= LAST_EQUAL else left) @ (y if j <= LAST_EQUAL else right)
        expected = known[operands] + before if kept else known[operands]
        room: Any = np.zeros((rows, columns + 3), dtype)
        outs: list[Any] = [np.empty((rows, columns), dtype), room[:, 1:-2], np.empty((columns, rows), dtype).T]
        for out in outs:
            out[:] = before if kept else np.nan
            multiply(left, right, out, kept)
            if not (np.abs(out - expected) <= tolerance + tolerance * np.abs(expected)).all():  # NaNs are not close
                message = f"layouts {i} and {j}, kept: {kept}"
                np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance, err_msg=message)
        assert (room[:, 0] == 0.0).all() and (room[:, -2:] == 0.0).all()


@pytest.mark.parametrize(
    ("dims", "taken"),
    [
        ((2, 4), "(5, 3)"), ((8,), "(5, 3)"), ((wy.Dim(), 3), "(5, 3)"),
        ((2, 2), "(2, 2, 3)"), ((4,), "(4, 3)"), ((wy.Dim(), 2), "(Dim(), 2, 3)"),
    ],
)  # fmt: skip
def test_rows_that_are_chosen_often_are_multiplied_once(dims: tuple[Any, ...], taken: str) -> None:
    random = np.random.default_rng(0)
    table, weight = wy.Parameter(random.normal(size=(5, 4))), wy.Parameter(random.normal(size=(4, 3)))
    rows = wy.IndexInput(dims=dims, name="rows")
    rows.set(np.resize([0, 3, 4, 3], [each if isinstance(each, int) else 2 for each in dims]))
    found: Any = table.index(rows) @ weight
    outputs = [found, *wy.grad(found.square().sum(), [weight])]
    program = wy.compile(outputs)
    assert f"# matmul {taken}" in program.source
    for have, node in zip(program(), outputs, strict=True):
        np.testing.assert_allclose(have, node.forward(), rtol=1e-12)


@pytest.mark.parametrize("steps", [2, 6])
@pytest.mark.parametrize("optimizer", [wy.optim.SGD, wy.optim.Adam])
def test_rows_that_are_chosen_often_are_trained_as_by_the_reference(optimizer: Any, steps: int) -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(5, 4)), random.normal(size=(4, 3))
    # Each step leaves out one row of the table, which the optimizer must leave unchanged.
    data = np.stack([random.permutation(5)[:4][random.integers(0, 4, (3, steps))] for _ in range(4)])
    found = []
    for native in (True, False):
        table, weight = map(wy.Parameter, values)
        rows = wy.IndexInput(dims=(wy.Dim(), steps), name="rows")
        scores: Any = table.index(rows) @ weight
        loss = scores.tanh().square().mean()
        trained = optimizer([table, weight], 0.1)
        program = wy.compile(loss, trained) if native else None
        for batch in data:
            if program is not None:
                program.epoch({rows: batch}, batch_size=3)
                continue
            rows.set(batch)
            loss.backward()
            trained.step()
            trained.zero_gradient()
        found.append((table.value, weight.value))
    for have, expected in zip(*found, strict=True):
        np.testing.assert_allclose(have, expected, rtol=1e-9, atol=1e-12)

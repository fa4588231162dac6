"""Proofs along rows of any length, compared with what changes when entries of one row change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotProved


class Batch(wy.Dim): ...


class Words(wy.Ragged): ...


class Width(wy.Dim): ...


LENGTHS = (3, 1, 0, 4)
MODELS: dict[str, Callable[[Any], Any]] = {
    "tanh": lambda x: x.tanh(),
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "maximum": lambda x: (x * 1.0).sum(1).relu(),
    "sum of all": lambda x: x.sum((0, 1)),
    "centred": lambda x: x - x.mean(1, keepdims=True),
    "softmax": lambda x: x.softmax(1),
    "cumsum": lambda x: x.cumsum(axis=1),
    "first": lambda x: wy.first_entry(x),
    "last": lambda x: wy.last_entry(x),
    "pairs": lambda x: wy.row_pairs(x)[0] * wy.row_pairs(x)[1],
    "joined": lambda x: wy.concatenate((x, x * 2.0), axis=1),
    "product": lambda x: x @ wy.Constant(np.ones((4, 3))),
    "scan": lambda x: wy.row_scan(lambda h, row: ((0.5 * h + row).tanh(),) * 2, wy.zeros_like(x.sum(1)), x)[1],
    "positions": lambda x: x * wy.entry_positions(x).astype(np.float64)[..., None],
    "lengths": lambda x: x.sum(1) * wy.row_lengths(x).astype(np.float64)[:, None],
}
# What is proved; the others may hold.
PROVED = {"tanh", "sum", "mean", "cumsum", "softmax", "centred", "product"}


def rows_of(random: np.random.Generator) -> list[np.ndarray]:
    return [random.uniform(0.5, 1.5, (length, 4)) for length in LENGTHS]


@pytest.mark.parametrize("name", MODELS)
def test_what_is_proved_of_rows_does_not_change(name: str) -> None:
    random = np.random.default_rng(0)
    x: Any = wy.Input(dims=(Batch(), Words(), Width(4)), dtype=np.float64, name="x")
    try:
        node = MODELS[name](x)
    except (wy.WyrmError, TypeError, IndexError):
        pytest.skip("not defined along rows of any length")
    rows = rows_of(random)
    x.set(rows)
    before = _rows(node)
    assert np.isfinite(np.concatenate([row.reshape(-1) for row in before])).all()
    independent = _is_proved(lambda: wy.prove(node).independent(Batch))
    causal = _is_proved(lambda: wy.prove(node).causal(Words))
    assert independent or name not in PROVED
    for changed in range(len(LENGTHS)):
        other = [row if k != changed else row * random.uniform(1.5, 2.0, row.shape) for k, row in enumerate(rows)]
        x.set(other)
        after = _rows(node)
        for k in range(len(before)):
            if independent and k != changed:
                np.testing.assert_array_equal(after[k], before[k])
        if causal and LENGTHS[changed]:
            last = [row.copy() for row in rows]
            last[changed][-1] *= 1.7
            x.set(last)
            after = _rows(node)
            np.testing.assert_array_equal(
                after[changed][: LENGTHS[changed] - 1], before[changed][: LENGTHS[changed] - 1]
            )


def _is_proved(prove: Callable[[], object]) -> bool:
    try:
        prove()
    except (NotProved, wy.errors.ShapeError):
        return False
    return True


def _rows(node: Any) -> list[np.ndarray]:
    value = node.forward()
    return (
        [np.asarray(row) for row in value] if hasattr(value, "offsets") or np.ndim(value) > 1 else [np.asarray(value)]
    )

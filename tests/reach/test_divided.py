"""Axes that are divided by a reshape: views of one input whose parts stand at different axes are told apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotProved


class Time(wy.Dim): ...


class Items(wy.Dim): ...


BATCH, TIME = wy.Dim(), Time(12)
LINE = wy.Input(dims=(Time(4),), name="line")
PARTS = LINE.reshape((2, 2))
ROWS = wy.Input(dims=(BATCH, TIME, 4), name="rows")
CHUNKS = ROWS.reshape((BATCH, 3, 4, 4))
BEFORE = np.tril(np.ones((4, 4)))


def line(node: wy.Node) -> wy.Node:
    return node.reshape((LINE.dims[0],))


def attention(mask: np.ndarray) -> wy.Node:
    weights = wy.where(mask > 0, CHUNKS @ CHUNKS.mT, -np.inf).softmax()
    return (weights @ CHUNKS).reshape((BATCH, TIME, 4))


WRONG: dict[str, Callable[[], object]] = {
    "a transposed view": lambda: wy.prove(line(PARTS + PARTS.T)).independent(Time),
    "a view beside the whole": lambda: wy.prove(line((PARTS[:, :, None] - LINE).sum(2))).independent(Time),
    "flattened again, beside its parts": lambda: wy.prove(
        line((PARTS.reshape((4,)) * PARTS[:, :, None]).sum(2))
    ).independent(Time),
    "flattened again, its parts summed": lambda: wy.prove(
        line((PARTS.reshape((4,)) * PARTS[:, :, None]).sum((0, 1)))
    ).independent(Time),
    "attention within a chunk": lambda: wy.prove(attention(np.ones((4, 4)))).causal(Time),
    "a mask the wrong way round": lambda: wy.prove(attention(BEFORE.T)).causal(Time),
    "a mask off by one": lambda: wy.prove(attention(np.tril(np.ones((4, 4)), 1))).causal(Time),
    "a chunk before": lambda: wy.prove(attention(BEFORE)).local(Time, before=2),
}
RIGHT: dict[str, Callable[[], object]] = {
    "equal views": lambda: wy.prove(line(PARTS + PARTS)).independent(Time),
    "transposed twice": lambda: wy.prove(line((PARTS.T + PARTS.T).T)).independent(Time),
    "causal attention within a chunk": lambda: wy.prove(attention(BEFORE)).causal(Time),
    "its window": lambda: wy.prove(attention(BEFORE)).local(Time, before=3),
    "a constant of weights": lambda: wy.prove((BEFORE @ CHUNKS).reshape((BATCH, TIME, 4))).causal(Time),
    "sums within a chunk": lambda: wy.prove(CHUNKS.cumsum(2).reshape((BATCH, TIME, 4))).causal(Time),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_meets_another_part_is_not_proved(name: str) -> None:
    with pytest.raises(NotProved):
        WRONG[name]()


@pytest.mark.parametrize("name", RIGHT)
def test_what_stays_within_its_part_is_proved(name: str) -> None:
    RIGHT[name]()


ITEMS = Items(6)
VALUES = wy.Input(dims=(ITEMS,), name="values")
PLACES = wy.arange(ITEMS)


@pytest.mark.parametrize(
    "ordered",
    [
        VALUES * PLACES.astype(np.float32),
        wy.where(PLACES < 3, VALUES, 0.0),
        wy.tril(wy.ones((ITEMS, ITEMS))) @ VALUES,
    ],
    ids=["weights by position", "a mask by position", "a causal mask"],
)
def test_positions_of_a_sized_axis_are_not_equivariant(ordered: wy.Node) -> None:
    with pytest.raises(NotProved):
        wy.prove(ordered).equivariant(Items)
    with pytest.raises(NotProved):
        wy.prove(ordered.sum()).invariant(Items)


def test_constants_that_treat_all_positions_alike_are_equivariant() -> None:
    others = (1.0 - wy.eye(ITEMS)) @ VALUES
    wy.prove(others).equivariant(Items)
    wy.prove(others.max()).invariant(Items)

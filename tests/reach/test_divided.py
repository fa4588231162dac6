"""Axes that are divided by a reshape: views of one input whose parts stand at different axes are told apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotProved
from wyrm.reach.claims import Claims
from wyrm.reach.facts import Analysis


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


ZEROS = wy.zeros_like(CHUNKS[:, :1])
EARLIER = wy.concatenate([ZEROS, CHUNKS[:, :-1]], axis=1)
LATER = wy.concatenate([CHUNKS[:, 1:], ZEROS], axis=1)
PADDED = wy.pad(CHUNKS, ((0, 0), (1, 0), (0, 0), (0, 0)))[:, :-1]
QUERY, KEY = wy.arange(4)[:, None], wy.arange(8)[None, :]
WITHIN = QUERY + 4 >= KEY
FIXED = wy.Constant(np.tri(4, 8, 4) > 0)


def chunked(first: wy.Node, second: wy.Node, mask: wy.Node) -> Claims[Any]:
    keys = wy.concatenate([first, second], axis=2)
    weights = wy.where(mask, CHUNKS @ keys.mT, -np.inf).softmax()
    return wy.prove((weights @ keys).reshape((BATCH, TIME, 4)))


@pytest.mark.parametrize(
    "claims",
    [chunked(EARLIER, CHUNKS, WITHIN), chunked(PADDED, CHUNKS, WITHIN), chunked(EARLIER, CHUNKS, FIXED)],
    ids=["joined", "padded", "a constant mask"],
)
def test_attention_to_the_own_chunk_and_the_one_before_is_causal(claims: Claims[Any]) -> None:
    claims.causal(Time)
    claims.local(Time, before=7)
    for wrong in (partial(claims.local, Time, before=6), partial(claims.causal, Time, strict=True)):
        with pytest.raises(NotProved):
            wrong()


def test_a_window_over_two_chunks_has_its_own_size() -> None:
    window = chunked(EARLIER, CHUNKS, WITHIN & (KEY > QUERY))
    window.local(Time, before=3)
    with pytest.raises(NotProved):
        window.local(Time, before=2)


@pytest.mark.parametrize(
    "claims",
    [
        chunked(EARLIER, CHUNKS, QUERY + 5 >= KEY),
        chunked(LATER, CHUNKS, WITHIN),
        chunked(CHUNKS, EARLIER, WITHIN),
        chunked(wy.roll(CHUNKS, 1, axis=1), CHUNKS, WITHIN),
        chunked(EARLIER, CHUNKS, KEY >= QUERY),
        chunked(EARLIER, CHUNKS[:, :, ::-1], WITHIN),
    ],
    ids=["off by one", "the chunk after", "exchanged", "the last before the first", "turned", "reversed"],
)
def test_attention_to_other_chunks_is_not_causal(claims: Claims[Any]) -> None:
    with pytest.raises(NotProved):
        claims.causal(Time)


def test_positions_of_an_axis_that_is_joined_of_parts_have_its_size() -> None:
    parts = wy.Input(dims=(Time(8),)).reshape((2, 4))[:, ::2]
    joined = wy.stack([parts, parts], 1).reshape((8,))
    analysis = Analysis([joined], {joined.parents[0].parents[0].parents[0].parents[0]: None})
    (entry,) = analysis.known[joined].axes
    assert math.prod(analysis.sizes[atom][1] for atom in entry) == 8


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


SORTED: dict[str, Callable[[wy.Node], wy.Node]] = {
    "the greatest": lambda x: wy.sort(x)[-1],
    "a trimmed mean": lambda x: wy.sort(x)[1:-1].mean(),
    "the median": wy.median,
    "quantiles": lambda x: wy.quantile(x, [0.1, 0.8]),
    "the two greatest": lambda x: wy.top_k(x, 2)[0],
    "weights by rank": lambda x: (wy.sort(x) * PLACES.astype(np.float32)).sum(),
    "a vector of all, sorted": lambda x: wy.sort(x) @ wy.Parameter(np.ones((6, 2), np.float32), dims=(ITEMS, 2)),
    "sorted twice": lambda x: wy.sort(wy.sort(x) * 2.0 + 1.0)[0],
}
ORDERED: dict[str, Callable[[wy.Node], wy.Node]] = {
    "sorted and data": lambda x: (wy.sort(x) * x).sum(),
    "by other elements": lambda x: wy.take_along_axis(x, wy.argsort(x.square()), 0)[-1],
    "where the greatest is": lambda x: wy.argsort(x)[-1].astype(np.float32),
    "sorted, then by position": lambda x: (wy.sort(x) - x)[0],
    "sorted in parts": lambda x: wy.sort(x.reshape((2, 3)))[0, 0],
}


@pytest.mark.parametrize("name", SORTED)
def test_what_is_sorted_is_the_same_in_every_order(name: str) -> None:
    wy.prove(SORTED[name](VALUES)).invariant(Items)


@pytest.mark.parametrize("name", ORDERED)
def test_what_is_partly_sorted_is_not_the_same_in_every_order(name: str) -> None:
    with pytest.raises(NotProved):
        wy.prove(ORDERED[name](VALUES)).invariant(Items)


def test_sorted_elements_are_not_permuted() -> None:
    with pytest.raises(NotProved):
        wy.prove(wy.sort(VALUES)).equivariant(Items)


OPEN = Items()
LOOSE = wy.Input(dims=(OPEN,), name="loose")


def beside(axis: Items, values: wy.Node, chosen: Callable[[wy.IndexNode, wy.IndexNode], wy.Node]) -> wy.Node:
    places = wy.arange(axis)
    return wy.where(chosen(places[:, None], places[None, :]), values[None, :], 0.0).sum(1)


@pytest.mark.parametrize(("axis", "values"), [(OPEN, LOOSE), (ITEMS, VALUES)], ids=["open", "sized"])
def test_the_own_position_is_left_out_alike_everywhere(axis: Items, values: wy.Node) -> None:
    wy.prove(beside(axis, values, lambda i, j: i != j)).equivariant(Items)
    wy.prove((1.0 - wy.eye(axis)) @ values).equivariant(Items)
    for wrong in (
        beside(axis, values, lambda i, j: i + 1 != j),
        beside(axis, values, lambda i, j: i < j),
        beside(axis, values, lambda i, j: i[::-1] == j),
        wy.eye(axis, k=1) @ values,
    ):
        with pytest.raises(NotProved):
            wy.prove(wrong).equivariant(Items)


def test_attention_with_a_mask_of_keys_is_equivariant_and_with_positions_is_not() -> None:
    wy.nn.seed(0)
    layer = wy.nn.MultiHeadAttention(8, 2, causal=False)
    rows, keep = wy.Input(dims=(BATCH, OPEN, 8)), wy.Input(dims=(BATCH, OPEN), dtype=np.bool_)
    wy.prove(layer(rows, key_mask=keep)).equivariant(Items)
    first = wy.Constant(np.arange(6)[None] < 4)
    with pytest.raises(NotProved):
        wy.prove(layer(wy.Input(dims=(BATCH, ITEMS, 8)), key_mask=first)).equivariant(Items)

"""Published and classical leaks: the wrong version is not proved, with its line, and the right one is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotProved


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Width(wy.Dim): ...


class Classes(wy.Dim): ...


Claim = Callable[[Any], Any]


def causal(node: Any) -> Any:
    return wy.prove(node).causal(Time)


def strictly_causal(node: Any) -> Any:
    return wy.prove(node).causal(Time, strict=True)


def independent(node: Any) -> Any:
    return wy.prove(node).independent(Batch)


def excludes(node: Any) -> Any:
    return wy.prove(node).excludes(Batch)


class Leak(NamedTuple):
    """A claim, and a model that takes whether it is the wrong version."""

    claim: Claim
    build: Callable[[Any, bool], Any]

    def __str__(self) -> str:
        return self.build.__name__


LEAKS: list[Leak] = []


def leak(claim: Claim) -> Callable[[Callable[[Any, bool], Any]], Callable[[Any, bool], Any]]:
    def registered(build: Callable[[Any, bool], Any]) -> Callable[[Any, bool], Any]:
        LEAKS.append(Leak(claim, build))
        return build

    return registered


def positions(x: Any) -> tuple[Any, Any]:
    t = wy.arange(x.dims[1])
    return t[:, None], t[None, :]


# --- attention --------------------------------------------------------------------------------------------------------


@leak(causal)
def mask_off_by_one(x: Any, wrong: bool) -> Any:
    query, key = positions(x)
    seen = query + 1 >= key if wrong else query >= key
    return wy.where(seen, x @ x.swapaxes(1, 2), -np.inf).softmax() @ x


@leak(causal)
def transposed_mask(x: Any, wrong: bool) -> Any:
    query, key = positions(x)
    seen = query <= key if wrong else key <= query
    return wy.where(seen, x @ x.swapaxes(1, 2), -np.inf).softmax() @ x


@leak(causal)
def mask_after_the_softmax(x: Any, wrong: bool) -> Any:
    query, key = positions(x)
    seen, scores = (query >= key).astype(np.float32), x @ x.swapaxes(1, 2)
    if wrong:  # the weights of earlier positions were divided by a sum over the later ones
        return (scores.softmax() * seen) @ x
    weights = scores.exp() * seen
    return (weights / weights.sum(-1, keepdims=True)) @ x


@leak(causal)
def scores_that_are_lowered_too_little(x: Any, wrong: bool) -> Any:
    query, key = positions(x)
    hidden = (query < key).astype(np.float32)
    return (x @ x.swapaxes(1, 2) - hidden * (5.0 if wrong else 1e9)).softmax() @ x


@leak(causal)
def causal_attention_that_was_not_asked_for(x: Any, wrong: bool) -> Any:
    return wy.nn.MultiHeadAttention(Width(8), 2, causal=not wrong)(x)


@leak(independent)
def attention_over_flattened_rows(x: Any, wrong: bool) -> Any:
    if not wrong:
        return (x @ x.swapaxes(1, 2)).softmax() @ x
    flat = x.reshape((x.dims[0] * x.dims[1], 8))
    return ((flat @ flat.T).softmax() @ flat).reshape(x.dims)


# --- windows and statistics -------------------------------------------------------------------------------------------


@leak(causal)
def convolution_with_same_padding(x: Any, wrong: bool) -> Any:
    layer = wy.nn.Conv1d(8, 8, 3)
    padded = wy.pad(x, ((0, 0), (1, 1) if wrong else (2, 0), (0, 0)))
    return layer(padded.swapaxes(1, 2)).swapaxes(1, 2)


@leak(causal)
def centred_moving_maximum(x: Any, wrong: bool) -> Any:
    if wrong:
        return wy.nn.max_pool1d(x.swapaxes(1, 2), 3, 1, 1).swapaxes(1, 2)
    before = wy.pad(x, ((0, 0), (2, 0), (0, 0)), constant_values=-100.0)
    return wy.nn.max_pool1d(before.swapaxes(1, 2), 3, 1).swapaxes(1, 2)


@leak(causal)
def normalization_over_time(x: Any, wrong: bool) -> Any:
    axis = 1 if wrong else 2
    centred = x - x.mean(axis, keepdims=True)
    return centred / (centred.square().mean(axis, keepdims=True) + 1e-5).sqrt()


@leak(causal)
def mean_of_all_time(x: Any, wrong: bool) -> Any:
    if wrong:
        return x - x.mean(1, keepdims=True)
    count = (wy.arange(x.dims[1]) + 1).astype(np.float32)[:, None]
    return x - x.cumsum(axis=1) / count


@leak(causal)
def scaling_by_the_maximum(x: Any, wrong: bool) -> Any:
    return x / (x.max(1, keepdims=True) if wrong else wy.cummax(x, 1))


@leak(independent)
def batch_normalization_in_training(x: Any, wrong: bool) -> Any:
    layer = wy.nn.BatchNorm1d(8)
    return (layer if wrong else layer.eval())(x.swapaxes(1, 2))


@leak(independent)
def whitening_of_the_batch(x: Any, wrong: bool) -> Any:
    rows = x.sum(1)
    covariance = rows.T @ rows if wrong else wy.Constant(np.eye(8, dtype=np.float32))
    return rows @ wy.linalg.inv(covariance)


@leak(independent)
def softmax_over_the_batch(x: Any, wrong: bool) -> Any:
    return x.sum(1).softmax(0 if wrong else 1)


# --- order ------------------------------------------------------------------------------------------------------------


@leak(causal)
def both_directions(x: Any, wrong: bool) -> Any:
    return wy.nn.StackedLSTM(Width(8), 4, 1, bidirectional=wrong)(x).sequence


@leak(causal)
def returns_to_go_as_features(x: Any, wrong: bool) -> Any:
    return wy.flip(wy.flip(x, 1).cumsum(axis=1), 1) if wrong else x.cumsum(axis=1)


@leak(causal)
def a_roll_that_wraps_around(x: Any, wrong: bool) -> Any:
    return wy.concatenate([x[:, -1:], x[:, :-1]], 1) if wrong else wy.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]


@leak(causal)
def differences_ahead(x: Any, wrong: bool) -> Any:
    later, earlier = wy.pad(x[:, 1:], ((0, 0), (0, 1), (0, 0))), wy.pad(x[:, :-1], ((0, 0), (1, 0), (0, 0)))
    return later - x if wrong else x - earlier


@leak(causal)
def ranks_of_all_time(x: Any, wrong: bool) -> Any:
    return wy.sort(x, axis=1 if wrong else 2)


@leak(causal)
def filling_from_behind(x: Any, wrong: bool) -> Any:
    """Missing values, here negative ones, are filled with the last known one; the wrong way with the next one."""
    row = wy.flip(x, 1) if wrong else x
    last = wy.cummax(wy.where(row > 0.0, wy.arange(x.dims[1])[:, None], 0), 1)
    filled = wy.take_along_axis(row, last, 1)
    return wy.flip(filled, 1) if wrong else filled


@leak(causal)
def a_scan_backwards(x: Any, wrong: bool) -> Any:
    rows = x.swapaxes(0, 1)
    states = wy.scan(lambda h, row: ((0.5 * h + row).tanh(),) * 2, wy.zeros_like(rows[0]), rows, reverse=wrong)[1]
    return states.swapaxes(0, 1)


# --- targets ----------------------------------------------------------------------------------------------------------


@leak(strictly_causal)
def the_item_to_predict_as_the_last_input(x: Any, wrong: bool) -> Any:
    seen = x if wrong else wy.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    return wy.nn.GRU(Width(8), 8)(seen).sequence


@leak(excludes)
def target_encoding_with_its_own_row(x: Any, wrong: bool) -> Any:
    """The mean target of the rows of the same category, in the training data."""
    category, target = (x[:, 0, 0] > 0.5).astype(np.float32), x.sum((1, 2))
    rows = wy.arange(x.dims[0])
    others = (rows[:, None] != rows[None, :]).astype(np.float32)
    same = wy.Constant(np.array([0.0, 1.0], np.float32))[rows % 2]
    weights = same[:, None] == same[None, :] if wrong else (same[:, None] == same[None, :]).astype(np.float32) * others
    del category
    return (weights * target[None, :]).sum(1)


@leak(excludes)
def negatives_with_the_positive(x: Any, wrong: bool) -> Any:
    """The hardest negative of each row among the other rows of the batch."""
    items = x.sum(1)
    rows = wy.arange(x.dims[0])
    scores = wy.Constant(np.ones((1, 8), np.float32)) @ items.T
    candidates = scores if wrong else wy.where(rows[:, None] != rows[None, :], scores, -np.inf)
    return wy.broadcast_to(candidates, (x.dims[0], x.dims[0])).max(1)


def data(time: Any) -> Any:
    return wy.Input(dims=(Batch(), time, Width(8)), name="x")


@pytest.mark.parametrize("each_leak", LEAKS, ids=str)
def test_the_right_version_is_proved_for_all_sizes(each_leak: Leak) -> None:
    node = each_leak.build(data(Time()), False)
    assert each_leak.claim(node) is node


@pytest.mark.parametrize("each_leak", LEAKS, ids=str)
def test_the_wrong_version_is_not_proved_and_its_line_is_named(each_leak: Leak) -> None:
    node = each_leak.build(data(Time()), True)
    with pytest.raises(NotProved, match="not proved: ") as caught:
        each_leak.claim(node)
    message = str(caught.value)
    lines = [number for _, _, number in each_leak.build.__code__.co_lines() if number is not None]
    assert any(f"{Path(__file__).name}:{line}" in message for line in lines)
    assert "  path: x (" in message


# Padding and slices of an axis with a size give a number, without its name.
NAMED = [each for each in LEAKS if not {"pad", "conv1d", "Conv1d"} & set(each.build.__code__.co_names)]


@pytest.mark.parametrize("each_leak", NAMED, ids=str)
def test_sizes_that_are_known_change_nothing(each_leak: Leak) -> None:
    node = each_leak.build(data(Time(6)), False)
    assert each_leak.claim(node) is node
    with pytest.raises(NotProved):
        each_leak.claim(each_leak.build(data(Time(6)), True))

"""Backward kernels written by hand equal those derived from the forward ones."""

# mypy: allow-untyped-defs, allow-untyped-calls
# Kernels of users have no types.

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.ops.adjoints.checking import call
from wyrm.ops import ctc
from wyrm.ops.adjoints.derived import adjoint, kind_of_value
from wyrm.ops.recurrence import gru, lstm

WIDTH = 5


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def derived(kernel: Any, arguments: dict[str, Any], cotangents: dict[str, Any]) -> dict[str, Any]:
    """Return the gradients with respect to what the arrays held before, for cotangents of what they hold after."""
    made = adjoint(kernel, [kind_of_value(each) for each in arguments.values()])
    given = {key: each.copy() if isinstance(each, np.ndarray) else each for key, each in arguments.items()}
    d = {key: cotangents.get(key, np.zeros_like(given[key])).copy() for key in made.cotangents}
    call(made, list(given.values()), list(d.values()), [])
    return d


@pytest.mark.parametrize("coupled", [False, True])
def test_the_step_of_an_lstm(coupled: bool) -> None:
    names = ("input_gates", "forget_gates", "candidates", "output_gates", "tanh_cells", "previous_cell")
    sizes = [0 if coupled and key == "forget_gates" else WIDTH for key in names]
    before = {key: random(7 + i)[:size] for i, (key, size) in enumerate(zip(names, sizes, strict=True))}
    before |= {"hidden": np.zeros(WIDTH), "cells": np.zeros(WIDTH)}
    d_hidden, d_cell = random(21)[:WIDTH], random(22)[:WIDTH]
    wanted = derived(lstm.step_forward, before, {"hidden": d_hidden, "cells": d_cell})
    after = {key: each.copy() for key, each in before.items()}
    lstm.step_forward(**after)
    gates = {key: np.zeros_like(before[key]) for key in names[:4]}
    lstm.step_backward(
        *(after[key] for key in names), d_hidden, *gates.values(), cell := d_cell.copy()
    )  # fmt: skip
    for key, found in gates.items():
        np.testing.assert_allclose(found, wanted[key], rtol=1e-12, err_msg=key)
    np.testing.assert_allclose(cell, wanted["previous_cell"], rtol=1e-12)


def test_the_step_of_a_gru() -> None:
    names = ("reset_gates", "update_gates", "recurrent", "candidates", "previous", "hidden", "projected")
    before = {key: random(7 + i)[:WIDTH] for i, key in enumerate(names)}
    gradient = random(21)[:WIDTH]
    wanted = derived(gru.step_forward, before, {"hidden": gradient})
    after = {key: each.copy() for key, each in before.items()}
    gru.step_forward(**after)
    row = np.concatenate([after[key] for key in names[:5]])
    found = {key: np.zeros(WIDTH) for key in ("reset_gates", "update_gates", "projected", "recurrent", "previous")}
    gru.step_backward(row, gradient, *found.values())
    for key, each in found.items():
        np.testing.assert_allclose(each, wanted[key], rtol=1e-12, err_msg=key)


def test_alignments() -> None:
    scores = random(3, 7, 4)
    scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
    labels, steps, lengths = np.array([[1, 1, 2], [3, 2, 0], [2, 0, 0]]), np.array([7, 5, 4]), np.array([3, 2, 1])
    states = 2 * labels.shape[1] + 1
    forward, weights = np.zeros((8, states)), random(3)
    given = {
        "log_probability": scores, "labels": labels, "steps": steps, "lengths": lengths, "blank": 0, "forward": forward,
        "out": np.zeros(3),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        wanted = derived(ctc.ctc_kernel, given, {"out": weights})["log_probability"]
        found = np.zeros_like(scores)
        ctc.ctc_gradient_kernel(scores, labels, steps, lengths, 0, forward, np.zeros((2, states)), found)
    np.testing.assert_allclose(found * weights[:, None, None], wanted, rtol=1e-11, atol=1e-14)


class Rows(wy.Dim): ...


class Features(wy.Dim): ...


class Windows(wy.Dim): ...


@wy.kernel
def normalized(
    x: wy.Tensor[Rows, Features], weight: wy.Tensor[Features], bias: wy.Tensor[Features],
    out: wy.Written[Rows, Features],
):  # fmt: skip
    for i in range(x.shape[0]):
        total, squares = 0.0, 0.0
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / x.shape[1]
        for j in range(x.shape[1]):
            squares += (x[i, j] - mean) * (x[i, j] - mean)
        inverse = 1.0 / math.sqrt(squares / x.shape[1] + 1e-5)
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * inverse * weight[j] + bias[j]


def test_normalization() -> None:
    x, weight, bias = (wy.Parameter(random(*shape)) for shape in ((3, 6), (6,), (6,)))
    layer = wy.nn.LayerNorm(6, dtype=np.float64)
    layer.weight.set(weight.value)
    layer.bias.set(bias.value)
    ours, theirs = normalized(x, weight, bias), layer(x)
    factors = random(3, 6)
    pairs = [(ours, theirs)]
    for mine, yours in ((x, x), (weight, layer.weight), (bias, layer.bias)):
        pairs.append((wy.grad((ours * factors).sum(), mine), wy.grad((theirs * factors).sum(), yours)))
    for found, wanted in pairs:
        np.testing.assert_allclose(wy.compile([found])()[0], wy.compile([wanted])()[0], rtol=1e-10, atol=1e-12)


@wy.kernel
def pooled(x: wy.Tensor[Rows, Features], like: wy.Tensor[Windows], out: wy.Written[Rows, Windows]):
    for i in range(x.shape[0]):
        for j in range(like.size):
            best = x[i, 2 * j]
            for k in range(1, 3):
                if x[i, 2 * j + k] > best:
                    best = x[i, 2 * j + k]
            out[i, j] = best + 0.0 * like[j]


def test_pooling() -> None:
    x = wy.Parameter(random(2, 9))
    ours = pooled(x, np.zeros(4))
    theirs: Any = wy.nn.max_pool1d(x[:, None], 3, 2)[:, 0]
    factors = random(2, 4)
    gradients = [wy.grad((each * factors).sum(), x) for each in (ours, theirs)]
    for found, wanted in ((ours, theirs), gradients):
        np.testing.assert_allclose(wy.compile([found])()[0], wy.compile([wanted])()[0], rtol=1e-12)

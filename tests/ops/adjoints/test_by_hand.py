"""Backward kernels written by hand equal those derived from the forward ones."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
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
    backward: Any = lstm.step_backward
    cell = d_cell.copy()
    backward(*(after[key] for key in names), d_hidden, *gates.values(), cell)
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
            total += x[i, j]  # type: ignore[assignment]  # elements are numbers here
        mean = total / x.shape[1]
        for j in range(x.shape[1]):
            squares += (x[i, j] - mean) * (x[i, j] - mean)  # type: ignore[assignment]  # as above
        inverse = 1.0 / math.sqrt(squares / x.shape[1] + 1e-5)
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * inverse * weight[j] + bias[j]


def test_normalization() -> None:
    x, weight, bias = (wy.Parameter(random(*shape)) for shape in ((3, 6), (6,), (6,)))
    layer: Any = wy.nn.LayerNorm(6, dtype=np.float64)
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


class Queries(wy.Dim): ...


class Keys(wy.Dim): ...


class Columns(wy.Dim): ...


def check_gradients(found: wy.Node, wanted: wy.Node, leaves: list[wy.Parameter]) -> None:
    """Compare two nodes, and their gradients, natively."""
    factors = random(*found.shape)
    nodes: list[list[wy.Node]] = [
        [each, *(wy.grad((each * factors).sum(), leaf) for leaf in leaves)] for each in (found, wanted)
    ]
    for x, y in zip(*(wy.compile(each)() for each in nodes), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@wy.kernel
def attended(
    query: wy.Tensor[Queries, Features], key: wy.Tensor[Keys, Features], value: wy.Tensor[Keys, Columns],
    out: wy.Written[Queries, Columns],
):  # fmt: skip
    scores = np.zeros(key.shape[0])
    for i in range(query.shape[0]):
        most, total = -1e300, 0.0
        for j in range(i + 1):
            scores[j] = 0.0
            for k in range(key.shape[1]):
                scores[j] += query[i, k] * key[j, k]
            scores[j] = scores[j] / math.sqrt(key.shape[1])
            most = max(most, scores[j])
        for j in range(i + 1):
            scores[j] = math.exp(scores[j] - most)
            total += scores[j]
        for j in range(i + 1):
            for c in range(value.shape[1]):
                out[i, c] += scores[j] / total * value[j, c]


def test_attention() -> None:
    query, key, value = (wy.Parameter(random(*shape)) for shape in ((5, 3), (5, 3), (5, 4)))
    wanted: Any = wy.scaled_dot_product_attention(*(each[None, None] for each in (query, key, value)), is_causal=True)
    check_gradients(attended(query, key, value), wanted[0, 0], [query, key, value])


@wy.kernel
def surprise(logits: wy.Tensor[Rows, Features], labels: wy.IndexTensor[Rows], out: wy.Written[Rows]):
    for i in range(logits.shape[0]):
        most, total = logits[i, 0], 0.0
        for j in range(1, logits.shape[1]):
            most = max(most, logits[i, j])
        for j in range(logits.shape[1]):
            total += math.exp(logits[i, j] - most)
        out[i] = most + math.log(total) - logits[i, labels[i]]


def test_cross_entropy() -> None:
    logits, labels = wy.Parameter(random(4, 6)), np.array([0, 5, 2, 2])
    check_gradients(surprise(logits, labels), wy.losses.cross_entropy(logits, labels, reduction="none"), [logits])
    x, weight = wy.Parameter(random(4, 3)), wy.Parameter(random(6, 3))
    head: Any = wy.losses.cross_entropy(x @ weight.mT, labels, reduction="none")
    check_gradients(surprise(x @ weight.mT, labels), head, [x, weight])


@wy.kernel
def correlated(
    x: wy.Tensor[Rows, Features], weight: wy.Tensor[Columns, Rows, Windows], like: wy.IndexTensor[Keys],
    out: wy.Written[Columns, Keys],
):  # fmt: skip
    for c in range(weight.shape[0]):
        for i in range(like.size):
            for r in range(x.shape[0]):
                for w in range(weight.shape[2]):
                    if 0 <= 2 * i + w - 1 < x.shape[1]:
                        out[c, i] += weight[c, r, w] * x[r, 2 * i + w - 1]


def test_convolution() -> None:
    x, weight = wy.Parameter(random(2, 9)), wy.Parameter(random(3, 2, 4))
    wanted: Any = wy.nn.conv1d(x[None], weight, stride=2, padding=1)[0]
    check_gradients(correlated(x, weight, np.zeros(wanted.shape[1], np.int64)), wanted, [x, weight])


@wy.kernel
def factorized(a: wy.Tensor[Rows, Rows], out: wy.Written[Rows, Rows]):
    for i in range(a.shape[0]):
        for j in range(i + 1):
            left = a[i, j]
            for k in range(j):
                left -= out[i, k] * out[j, k]
            if i == j:
                out[i, j] = math.sqrt(left)
            else:
                out[i, j] = left / out[j, j]


@wy.kernel
def solved(a: wy.Tensor[Rows, Rows], b: wy.Tensor[Rows], out: wy.Written[Rows]):
    work = np.zeros((a.shape[0], a.shape[0]))
    for i in range(a.shape[0]):
        out[i] = b[i]
        for j in range(a.shape[0]):
            work[i, j] = a[i, j]
    for k in range(a.shape[0]):
        for i in range(k + 1, a.shape[0]):
            factor = work[i, k] / work[k, k]
            out[i] -= factor * out[k]
            for j in range(k, a.shape[0]):
                work[i, j] -= factor * work[k, j]
    for i in range(a.shape[0] - 1, -1, -1):
        for j in range(i + 1, a.shape[0]):
            out[i] -= work[i, j] * out[j]
        out[i] = out[i] / work[i, i]


def test_factorizations_and_systems_of_lapack() -> None:
    root, b = random(4, 4), wy.Parameter(random(4))
    a = wy.Parameter(root @ root.T + 4.0 * np.eye(4))
    check_gradients(factorized(a), wy.linalg.cholesky(a), [a])
    check_gradients(solved(a, b), wy.linalg.solve(a, b), [a, b])

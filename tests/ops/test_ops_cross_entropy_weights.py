"""Weights of samples in `x.cross_entropy` and `linear_cross_entropy`, beside PyTorch, in every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.against_torch import check_against_torch
from tests.pytorch import functional, torch
from wyrm.errors import DTypeError, ShapeError
from wyrm.testing import check_grads

RANDOM = np.random.default_rng(0)
ROWS, WIDTH, CLASSES = 6, 3, 5
X: Any = RANDOM.normal(size=(ROWS, WIDTH))
WEIGHT: Any = RANDOM.normal(size=(CLASSES, WIDTH))
LABELS: Any = np.array([0, 4, 2, 2, 1, 3])
SAMPLES: Any = RANDOM.uniform(0.2, 2.0, ROWS)


class Batch(wy.Dim): ...


class Width(wy.Dim): ...


def torch_mean(logits: Any, weights: Any, **options: Any) -> Any:
    each = functional.cross_entropy(logits, torch.tensor(LABELS), reduction="none", **options)
    counted = torch.tensor((options.get("ignore_index", -100) != LABELS).astype(float))
    return (each * weights).sum() / (weights * counted).sum()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_logits(reduction: Any) -> None:
    def wanted(logits: Any, weights: Any) -> Any:
        each = functional.cross_entropy(logits, torch.tensor(LABELS), reduction="none") * weights
        return {"mean": each.sum() / weights.sum(), "sum": each.sum(), "none": each}[reduction]

    check_against_torch(
        lambda logits, weights: logits.cross_entropy(LABELS, sample_weight=weights, reduction=reduction),
        wanted,
        [X @ WEIGHT.T, SAMPLES],
    )


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.2}, {"ignore_index": 2}])
def test_the_fused_linear_layer(options: dict[str, Any]) -> None:
    """The value and the gradients with respect to x, the matrix and the weights."""
    check_against_torch(
        lambda x, matrix, weights: wy.linear_cross_entropy(x, matrix, LABELS, sample_weight=weights, **options),
        lambda x, matrix, weights: torch_mean(x @ matrix.T, weights, **options),
        [X, WEIGHT, SAMPLES],
        second_order=False,
    )
    loss = wy.linear_cross_entropy(
        wy.Parameter(X), wy.Parameter(WEIGHT), LABELS, sample_weight=wy.Parameter(SAMPLES), **options
    )
    check_grads(loss)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("engine", ["native", "jax"])
def test_engines_and_batches_of_any_size(engine: Any, dtype: Any) -> None:
    batch, width = Batch(), Width(WIDTH)
    x, weights = wy.Input(dims=(batch, width), dtype=dtype), wy.Input(dims=(batch,), dtype=dtype)
    labels, matrix = wy.IndexInput(dims=(batch,)), wy.Parameter(WEIGHT.astype(dtype))
    nodes: list[Any] = []
    options: Any
    for options in ({}, {"ignore_index": 2, "label_smoothing": 0.1}):
        fused = wy.linear_cross_entropy(x, matrix, labels, sample_weight=weights, **options)
        logits: Any = x @ matrix.T
        apart = wy.losses.cross_entropy(logits, labels, sample_weight=weights, **options)
        nodes += [fused, apart, wy.grad(fused, matrix), wy.grad(apart, matrix)]
    nodes.append((x @ matrix.T).cross_entropy(labels, sample_weight=weights))
    program = wy.compile(nodes, engine=engine)
    for rows in (ROWS, 1, 4):
        data: Any = {x: X[:rows].astype(dtype), labels: LABELS[:rows], weights: SAMPLES[:rows].astype(dtype)}
        for leaf, array in data.items():
            leaf.set(array)
        found, expected = program(data), wy.run(nodes)
        for have, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=3e-5 if dtype == np.float32 or engine == "jax" else 1e-12)
        for first, second in ((0, 1), (2, 3), (4, 5), (6, 7), (0, 8)):
            np.testing.assert_allclose(expected[first], expected[second], rtol=2e-5, atol=1e-6)


def test_weights_of_leading_axes_and_arrays() -> None:
    x, labels = wy.Parameter(RANDOM.normal(size=(2, 3, WIDTH))), LABELS.reshape(2, 3)
    rows = np.array([0.5, 2.0])
    matrix = wy.Parameter(WEIGHT)
    for weights, full in ((rows, np.repeat(rows, 3)), (SAMPLES.reshape(2, 3), SAMPLES)):
        expected = torch_mean(torch.tensor(x.value.reshape(6, WIDTH) @ WEIGHT.T), torch.tensor(full)).item()
        fused = wy.linear_cross_entropy(x, matrix, labels, sample_weight=weights)
        np.testing.assert_allclose(fused.forward(), expected, rtol=1e-12)
        logits: Any = x @ matrix.T
        np.testing.assert_allclose(logits.cross_entropy(labels, sample_weight=weights).forward(), expected, rtol=1e-12)


def test_the_mean_over_a_data_set_divides_by_all_weights() -> None:
    """Batches of different weights do not count the same."""
    batch = Batch()
    x, labels = wy.Input(dims=(batch, WIDTH), dtype=np.float64), wy.IndexInput(dims=(batch,))
    weights, matrix = wy.Input(dims=(batch,), dtype=np.float64), wy.Parameter(WEIGHT)
    wanted = torch_mean(torch.tensor(X @ WEIGHT.T), torch.tensor(SAMPLES)).item()
    for loss in (
        wy.linear_cross_entropy(x, matrix, labels, sample_weight=weights),
        (x @ matrix.T).cross_entropy(labels, sample_weight=weights),
    ):
        found: Any = wy.compile(loss).evaluate({x: X, labels: LABELS, weights: SAMPLES}, batch_size=4)
        np.testing.assert_allclose(
            found if isinstance(found, float) else next(iter(found.values())), wanted, rtol=1e-12
        )


def test_weights_that_are_all_0_give_0() -> None:
    x, matrix = wy.Parameter(X), wy.Parameter(WEIGHT)
    nothing = np.zeros(ROWS)
    for loss in (
        wy.linear_cross_entropy(x, matrix, LABELS, sample_weight=nothing),
        (x @ matrix.T).cross_entropy(LABELS, sample_weight=nothing),
    ):
        assert loss.forward() == 0.0 and wy.compile(loss)() == 0.0
        assert not wy.grad(loss, x).forward().any()


def test_errors() -> None:
    x, matrix = wy.Parameter(X), wy.Parameter(WEIGHT)
    logits: Any = x @ matrix.T
    for call, name in (
        (lambda weights: logits.cross_entropy(LABELS, sample_weight=weights), "cross_entropy"),
        (lambda weights: wy.linear_cross_entropy(x, matrix, LABELS, sample_weight=weights), "linear_cross_entropy"),
    ):
        with pytest.raises(ShapeError, match=f"{name}: sample_weight must have the axes of the losses"):
            call(np.ones(4))
        with pytest.raises(ValueError, match=f"{name}: sample_weight must be at least 0, but holds -1"):
            call(-np.ones(ROWS))
        with pytest.raises(DTypeError, match="sample_weight must be float"):
            call(wy.IndexConstant(LABELS))
    with pytest.raises(ShapeError, match="reduction must be"):
        logits.cross_entropy(LABELS, sample_weight=SAMPLES, reduction="average")

"""Weights of samples and classes and ignored labels, against PyTorch and against losses weighted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.against_torch import check_against_torch
from tests.pytorch import functional, torch
from wyrm import losses
from wyrm.errors import IndexOutOfRange, ShapeError

RANDOM = np.random.default_rng(3)
LOGITS = RANDOM.normal(size=(2, 5, 4))
LABELS = np.array([[0, 3, 1, -100, 2], [-100, 1, 1, 0, 3]])
CLASSES = np.array([0.5, 2.0, 1.0, 0.25])
SAMPLES = RANDOM.uniform(0.5, 2.0, (2, 5))


def torch_cross_entropy(x: Any, **options: Any) -> Any:
    return functional.cross_entropy(torch.movedim(x, -1, 1), torch.tensor(LABELS), torch.tensor(CLASSES), **options)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_weights_of_classes_are_pytorchs(reduction: Any, smoothing: float) -> None:
    options: dict[str, Any] = {"ignore_index": -100, "label_smoothing": smoothing, "reduction": reduction}
    check_against_torch(
        lambda x: losses.cross_entropy(x, wy.IndexInput(LABELS), weight=CLASSES, **options),
        lambda x: torch_cross_entropy(x, **options),
        [LOGITS],
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_weights_are_pytorchs(reduction: Any) -> None:
    options: dict[str, Any] = {"ignore_index": -100, "reduction": reduction}
    check_against_torch(
        lambda x: losses.nll(x, wy.IndexInput(LABELS), weight=CLASSES, **options),
        lambda x: functional.nll_loss(torch.movedim(x, -1, 1), torch.tensor(LABELS), torch.tensor(CLASSES), **options),
        [LOGITS],
        second_order=False,
    )


@pytest.mark.parametrize("loss", [losses.cross_entropy, losses.nll, losses.multiclass_focal])
def test_all_weights_multiply(loss: Any) -> None:
    labels = wy.IndexInput(LABELS)
    each = loss(wy.Constant(LOGITS), np.maximum(LABELS, 0), reduction="none").forward()
    weights = np.where(LABELS == -100, 0.0, CLASSES[np.maximum(LABELS, 0)] * SAMPLES)
    options: dict[str, Any] = {"weight": CLASSES, "sample_weight": SAMPLES, "ignore_index": -100}
    for reduction, expected in (
        ("none", each * weights), ("sum", (each * weights).sum()), ("mean", (each * weights).sum() / weights.sum())
    ):  # fmt: skip
        result = loss(wy.Constant(LOGITS), labels, **options, reduction=reduction)
        np.testing.assert_allclose(result.forward(), expected, rtol=1e-12)
        np.testing.assert_allclose(wy.compile(result)(), expected, rtol=1e-12)


def test_a_mean_without_labels_that_count_is_0() -> None:
    x = wy.Parameter(LOGITS[0])
    labels = np.full(5, -100)
    for loss in (losses.cross_entropy, losses.nll, losses.multiclass_focal):
        mean = loss(x, wy.IndexInput(labels), ignore_index=-100, weight=CLASSES)
        assert mean.forward() == 0.0
        assert not wy.grad(mean, x).forward().any()
    assert losses.mse(x, LOGITS[1], sample_weight=np.zeros(5)).forward() == 0.0


def test_labels_out_of_range_are_errors() -> None:
    labels = wy.IndexInput(dims=(5,))
    loss = losses.cross_entropy(wy.Constant(LOGITS[0]), labels, ignore_index=-100)
    for wrong in (-1, 4, -101):
        with pytest.raises(IndexOutOfRange):
            labels.set(np.array([0, 1, wrong, 2, -100]))
    labels.set(np.array([0, 1, 3, 2, -100]))
    loss.forward()


class Batch(wy.Dim): ...


class Classes(wy.Dim): ...


def test_labels_are_checked_in_native_code_whatever_the_size_of_the_axis() -> None:
    logits, labels = wy.Input(dims=(Batch(), Classes())), wy.IndexInput(dims=(Batch(),))
    run = wy.compile(losses.cross_entropy(logits, labels, ignore_index=9, reduction="none"))
    for classes in (4, 3):
        scores = RANDOM.normal(size=(3, classes)).astype(np.float32)
        expected = losses.cross_entropy(wy.Constant(scores), np.array([1, 9, 2]), ignore_index=9, reduction="none")
        np.testing.assert_allclose(run({logits: scores, labels: np.array([1, 9, 2])}), expected.forward(), rtol=1e-5)
        with pytest.raises(IndexOutOfRange):
            run({logits: scores, labels: np.array([1, 9, classes])})


def test_training_on_ignored_labels_runs_natively_over_batches() -> None:
    batch = Batch()
    x, labels = wy.Input(dims=(batch, 3)), wy.IndexInput(dims=(batch,))
    layer = wy.nn.Linear(3, 4, seed=0)
    loss = losses.cross_entropy(layer(x), labels, ignore_index=-1, weight=CLASSES)
    train = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.5))
    rows = RANDOM.normal(size=(64, 3)).astype(np.float32)
    answers = np.where(rows[:, 0] > 1.0, -1, (rows[:, 1] > 0.0).astype(np.int64))
    means = [train.epoch({x: rows, labels: answers}, batch_size=16) for _ in range(10)]
    assert means[-1] < 0.7 * means[0]


@pytest.mark.parametrize(
    "name", ["mse", "l1", "huber", "smooth_l1", "log_cosh", "quantile", "poisson_nll", "bce_with_logits"]
)
@pytest.mark.parametrize("axes", [(2, 5), (2,), ()])
def test_weights_of_samples(name: str, axes: tuple[int, ...]) -> None:
    x, target = RANDOM.normal(size=(2, 5)), RANDOM.uniform(0.1, 0.9, (2, 5))
    weights = RANDOM.uniform(0.5, 2.0, axes)
    full = np.broadcast_to(weights.reshape((*axes, *[1] * (2 - len(axes)))), (2, 5))
    loss = getattr(losses, name)
    each = loss(wy.Constant(x), target, reduction="none").forward()
    for reduction, expected in (
        ("none", each * full), ("sum", (each * full).sum()), ("mean", (each * full).sum() / full.sum())
    ):  # fmt: skip
        result = loss(wy.Constant(x), target, sample_weight=weights, reduction=reduction)
        np.testing.assert_allclose(result.forward(), expected, rtol=1e-12)
    node = loss(wy.Constant(x), target, sample_weight=wy.Input(weights))
    np.testing.assert_allclose(node.forward(), (each * full).sum() / full.sum(), rtol=1e-12)


# The stubs of PyTorch lack the weight.
_mse: Any = functional.mse_loss


def test_the_weighted_mean_of_squares_is_pytorchs() -> None:
    target, weights = RANDOM.normal(size=(2, 5)), RANDOM.uniform(0.5, 2.0, (2, 5))
    check_against_torch(
        lambda x: losses.mse(x, target, sample_weight=weights),
        lambda x: _mse(x, torch.tensor(target), weight=torch.tensor(weights)),
        [LOGITS[:, :, 0]],
    )


@pytest.mark.parametrize("pos_weight", [3.0, np.array([0.5, 1.0, 2.0, 4.0])])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_pos_weight_is_pytorchs(pos_weight: Any, reduction: Any) -> None:
    target = RANDOM.uniform(0.0, 1.0, (5, 4))
    check_against_torch(
        lambda x: losses.bce_with_logits(x, target, pos_weight=pos_weight, reduction=reduction),
        lambda x: functional.binary_cross_entropy_with_logits(
            x, torch.tensor(target), pos_weight=torch.tensor(pos_weight, dtype=torch.float64), reduction=reduction
        ),
        [LOGITS[0]],
    )


def test_wrong_weights_are_errors() -> None:
    x, target = wy.Constant(np.zeros((3, 4))), np.zeros((3, 4))
    with pytest.raises(ShapeError, match="sample_weight must have the axes of the losses"):
        losses.mse(x, target, sample_weight=np.ones(4))
    with pytest.raises(ShapeError, match="sample_weight"):
        losses.mse(x, target, sample_weight=np.ones((3, 4, 1)))
    with pytest.raises(ValueError, match="at least 0, but holds -1"):
        losses.mse(x, target, sample_weight=np.array([1.0, -1.0, 1.0]))
    with pytest.raises(ShapeError, match="weight must have one number for each class"):
        losses.cross_entropy(x, np.array([0, 1, 2]), weight=np.ones(3))
    with pytest.raises(ShapeError, match="pos_weight"):
        losses.bce_with_logits(x, target, pos_weight=np.ones(3))

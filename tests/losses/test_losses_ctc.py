"""Connectionist temporal classification against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.against_torch import check_against_torch
from tests.pytorch import functional, torch
from tests.values import ENGINES, computed
from wyrm import losses
from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.testing import check_grads

RANDOM = np.random.default_rng(2)
LOGITS = RANDOM.normal(size=(4, 9, 5)) * 2.0
LABELS = np.array([[1, 1, 2], [3, 4, 1], [2, 0, 0], [4, 4, 4]])
STEPS, LENGTHS = np.array([9, 7, 5, 8]), np.array([3, 3, 1, 3])


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


def expected(logits: Any, **options: Any) -> Any:
    return functional.ctc_loss(
        logits.log_softmax(-1).transpose(0, 1), torch.tensor(LABELS), torch.tensor(STEPS), torch.tensor(LENGTHS),
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_values_and_gradients_are_pytorchs(reduction: Any) -> None:
    def ours(logits: Any) -> Any:
        return losses.ctc(logits.log_softmax(), LABELS, STEPS, LENGTHS, reduction=reduction)

    check_against_torch(ours, lambda x: expected(x, reduction=reduction), [LOGITS], second_order=False)


def test_another_blank_and_full_lengths_are_pytorchs() -> None:
    labels = LABELS[[0, 1, 3]]

    def theirs(logits: Any) -> Any:
        return functional.ctc_loss(
            logits.log_softmax(-1).transpose(0, 1), torch.tensor(labels), torch.tensor([9] * 3),
            torch.tensor([3] * 3), reduction="none",
        )  # fmt: skip

    def ours(logits: Any) -> Any:
        return losses.ctc(logits.log_softmax(), labels, reduction="none")

    check_against_torch(ours, theirs, [LOGITS[:3]], second_order=False)
    rolled = np.roll(LOGITS[:3], -1, axis=-1)
    blank_last = losses.ctc(wy.Constant(rolled).log_softmax(), labels - 1, blank=4, reduction="none")
    np.testing.assert_allclose(blank_last.forward(), ours(wy.Constant(LOGITS[:3])).forward(), rtol=1e-12)


def test_sequences_too_short_have_an_infinite_loss_and_gradient_0() -> None:
    x = wy.Parameter(LOGITS[:2])
    options: Any = {"input_lengths": np.array([3, 9]), "label_lengths": np.array([3, 3])}
    labels = np.array([[1, 1, 2], [1, 2, 3]])
    each = losses.ctc(x.log_softmax(), labels, **options, reduction="none")
    assert np.isposinf(each.forward()[0]) and np.isfinite(each.forward()[1])
    zeroed = losses.ctc(x.log_softmax(), labels, **options, zero_infinity=True, reduction="sum")
    gradient = wy.grad(zeroed, x)
    np.testing.assert_allclose(zeroed.forward(), each.forward()[1])
    for array in (gradient.forward(), wy.compile(gradient)()):
        assert not array[0].any() and array[1].any()


def test_empty_labels_are_all_blanks() -> None:
    lengths = np.array([0, 0])
    loss = losses.ctc(wy.Constant(LOGITS[:2]).log_softmax(), LABELS[:2], label_lengths=lengths, reduction="none")
    blanks = -wy.Constant(LOGITS[:2]).log_softmax().forward()[:, :, 0].sum(1)
    np.testing.assert_allclose(loss.forward(), blanks, rtol=1e-12)
    np.testing.assert_allclose(wy.compile(loss)(), blanks, rtol=1e-12)


def test_a_batch_of_the_datas_size_trains_natively() -> None:
    batch, time = Batch(), Time()
    x, labels = wy.Input(dims=(batch, time, 3)), wy.IndexInput(dims=(batch, 2))
    steps, lengths = wy.IndexInput(dims=(batch,)), wy.IndexInput(dims=(batch,))
    layer = wy.nn.Linear(3, 4, seed=0)
    loss = losses.ctc(layer(x).log_softmax(), labels, steps, lengths)
    train = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=0.05))
    columns: Any = {
        x: RANDOM.normal(size=(20, 6, 3)).astype(np.float32),
        labels: RANDOM.integers(1, 4, (20, 2)),
        steps: np.full(20, 6),
        lengths: RANDOM.integers(1, 3, 20),
    }
    means = [train.epoch(columns, batch_size=8) for _ in range(30)]
    assert means[-1] < 0.9 * means[0]
    with pytest.raises(IndexOutOfRange):
        train.epoch(columns | {steps: np.full(20, 7)}, batch_size=8)
    with pytest.raises(IndexOutOfRange):
        train.epoch(columns | {lengths: np.full(20, 3)}, batch_size=8)
    with pytest.raises(IndexOutOfRange):
        train.epoch(columns | {labels: np.full((20, 2), 4)}, batch_size=8)


def test_gradients_to_second_order() -> None:
    x = wy.Parameter(LOGITS[:, :4])
    options: Any = {"input_lengths": np.array([4, 2, 3, 4]), "label_lengths": np.array([1, 3, 1, 0])}
    check_grads(losses.ctc(x.log_softmax(), LABELS, **options, zero_infinity=True, reduction="sum"))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_second_order_gradient_of_a_time_that_data_decides(engine: Any) -> None:
    found = []
    for time in (Time(), LOGITS.shape[1]):
        x = wy.Input(dims=(4, time, 5), dtype=np.float64)
        (gradient,) = wy.grad(losses.ctc(x.log_softmax(), LABELS, STEPS, LENGTHS), [x])
        second: Any = wy.grad(gradient.square().sum(), x)
        found.append(computed([second], {x: LOGITS}, engine)[0])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-12)
    assert np.abs(found[0]).max() > 0.0


@pytest.mark.parametrize("engine", ENGINES)
def test_classes_that_are_impossible_have_no_weight(engine: Any) -> None:
    x = wy.Input(dims=(1, 3, 3), dtype=np.float64, finite=False)
    labels, steps, lengths = np.array([[1]]), np.array([3]), np.array([1])
    loss: Any = losses.ctc(x, labels, steps, lengths, reduction="sum")
    (gradient,) = wy.grad(loss, [x])
    with np.errstate(divide="ignore"):
        data = np.log(np.array([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]]))
    value, slopes = computed([loss, gradient], {x: data}, engine)
    assert value == pytest.approx(0.0, abs=1e-12)  # all of its paths emit the label
    np.testing.assert_allclose(slopes, -np.exp(data), atol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_nan_stays_one_and_a_masked_class_has_a_loss(engine: Any) -> None:
    x = wy.Input(dims=(2, 6, 4), finite=False)
    loss: Any = losses.ctc(x, np.array([[1, 2, 3]] * 2), reduction="none")
    data = np.log(np.random.default_rng(0).dirichlet(np.ones(4), (2, 6))).astype(np.float32)
    data[0, 3, 1] = np.nan
    (values,) = computed([loss], {x: data}, engine)
    assert np.isnan(values[0]) and np.isfinite(values[1])
    data[0, 3, 1] = 0.0
    data[:, :, 2] = -1e30
    (values,) = computed([loss], {x: data}, engine)
    np.testing.assert_allclose(values, 1e30, rtol=1e-6)


def test_wrong_operands_are_errors() -> None:
    x = wy.Parameter(LOGITS)
    with pytest.raises(ShapeError, match="blank 5"):
        losses.ctc(x, LABELS, blank=5)
    with pytest.raises(ShapeError, match="ctc takes log-probabilities"):
        losses.ctc(x, LABELS[0])
    with pytest.raises(ShapeError, match="give input_lengths"):
        losses.ctc(wy.Input(dims=(4, Time(), 5)), LABELS)
    with pytest.raises(ShapeError):
        losses.ctc(x, LABELS[:3])

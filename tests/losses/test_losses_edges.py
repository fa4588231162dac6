"""Losses at the edges of their domains: large, equal, certain and empty inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.losses.untried import untried
from tests.pytorch import torch
from wyrm import losses
from wyrm.errors import IndexOutOfRange, ShapeError

EXTREMES = (1e4, -1e4, 0.0)
PAIRS = np.array([(x, y) for x in EXTREMES for y in EXTREMES])
BITS = np.tile([0.0, 1.0], len(PAIRS))
SIGNS = 2.0 * BITS - 1.0

# Each builds a loss of a table of extreme values, one pair per row.
BUILDERS: dict[str, Callable[[Any], Any]] = {
    "mse": lambda x: losses.mse(x[:, 0], x[:, 1], reduction="none"),
    "l1": lambda x: losses.l1(x[:, 0], x[:, 1], reduction="none"),
    "huber": lambda x: losses.huber(x[:, 0], x[:, 1], reduction="none"),
    "bce": lambda x: losses.bce(x, np.resize(BITS, x.shape), reduction="none"),
    "bce_with_logits": lambda x: losses.bce_with_logits(x, np.resize(BITS, x.shape), reduction="none"),
    "focal": lambda x: losses.focal(x, np.resize(BITS, x.shape), reduction="none"),
    "focal-half": lambda x: losses.focal(x, np.resize(BITS, x.shape), gamma=0.5, reduction="none"),
    "hinge": lambda x: losses.hinge(x, np.resize(SIGNS, x.shape), reduction="none"),
    "squared_hinge": lambda x: losses.squared_hinge(x, np.resize(SIGNS, x.shape), reduction="none"),
    "cross_entropy": lambda x: losses.cross_entropy(x, np.resize([0, 1], len(PAIRS)), reduction="none"),
    "cross_entropy-smooth": lambda x: losses.cross_entropy(
        x, np.resize([0, 1], len(PAIRS)), label_smoothing=0.1, reduction="none"
    ),
    "cross_entropy-ignored": lambda x: losses.cross_entropy(
        x, np.resize([0, 1, -100], len(PAIRS)), ignore_index=-100, reduction="none"
    ),
    "cross_entropy-weighted": lambda x: losses.cross_entropy(
        x, np.resize([0, 1], len(PAIRS)), weight=np.array([0.0, 2.0]), reduction="none"
    ),
    "multiclass_focal": lambda x: losses.multiclass_focal(x, np.resize([0, 1], len(PAIRS)), reduction="none"),
    "multiclass_focal-half": lambda x: losses.multiclass_focal(
        x, np.resize([0, 1], len(PAIRS)), gamma=0.5, reduction="none"
    ),
    "ctc": lambda x: losses.ctc(x.reshape((3, 3, 2)).log_softmax(), np.ones((3, 1), np.int64), reduction="none"),
    "smooth_l1": lambda x: losses.smooth_l1(x[:, 0], x[:, 1], reduction="none"),
    "log_cosh": lambda x: losses.log_cosh(x[:, 0], x[:, 1], reduction="none"),
    "quantile": lambda x: losses.quantile(x[:, 0], x[:, 1], level=0.9, reduction="none"),
    "poisson_nll": lambda x: losses.poisson_nll(x * 1e-3, np.zeros(x.shape), reduction="none"),
    "gaussian_nll": lambda x: losses.gaussian_nll(x[:, 0], x[:, 1], np.ones(len(PAIRS)), reduction="none"),
    "student_t_nll": lambda x: losses.student_t_nll(
        x[:, 0], x[:, 1], np.ones(len(PAIRS)), degrees_of_freedom=3.0, reduction="none"
    ),
    "nll": lambda x: losses.nll(x.log_softmax(), np.resize([0, 1], len(PAIRS)), reduction="none"),
    "kl_divergence": lambda x: losses.kl_divergence(x.log_softmax(), x.softmax(), reduction="none"),
    "kl_divergence-log": lambda x: losses.kl_divergence(
        x.log_softmax(), (-x).log_softmax(), log_target=True, reduction="none"
    ),
    "bpr": lambda x: losses.bpr(x[:, 0], x[:, 1], reduction="none"),
    "margin_ranking": lambda x: losses.margin_ranking(x[:, 0], x[:, 1], SIGNS[: len(PAIRS)], reduction="none"),
    "triplet": lambda x: losses.triplet(x, -x, x, reduction="none"),
    "cosine_embedding": lambda x: losses.cosine_embedding(x, -x, SIGNS[: len(PAIRS)], reduction="none"),
    "info_nce": lambda x: losses.info_nce(x, -x, symmetric=True, items=np.resize([0, 1, 2], len(PAIRS))),
    "info_nce-normalized": lambda x: losses.info_nce(x, -x, normalize=True, temperature=0.01, reduction="none"),
    "sampled_softmax": lambda x: losses.sampled_softmax(x[:, 0], x, reduction="none"),
    "sampled_softmax-hits": lambda x: losses.sampled_softmax(
        x[:, 0], x, items=(wy.IndexConstant(np.zeros(9, np.int64)), wy.IndexConstant([0, 0])), reduction="none"
    ),
    "warp": lambda x: losses.warp(x[:, 0], x, num_items=1000, margin=0.0, reduction="none"),
    "implicit_squares": lambda x: losses.implicit_squares(
        x * 1e-3, -x * 1e-3, np.resize([0, 1], (len(PAIRS), 1)), reduction="none"
    ),
}


def _at_the_ends(name: str, count: int) -> Callable[[Any], Any]:
    """Return a builder of a loss of numbers from 0 to 1, which most losses take."""
    return lambda x: getattr(losses, name)(*[0.5 + 0.5 * x[:, i % 2].tanh() for i in range(count)], reduction="none")


BUILDERS |= {name: _at_the_ends(name, count) for name, count in untried(BUILDERS).items()}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_and_gradients_are_finite_at_the_extremes(name: str, dtype: Any) -> None:
    x = wy.Parameter(PAIRS.astype(dtype))
    result = BUILDERS[name](x)
    values = result.forward()
    assert np.isfinite(values).all()
    assert (values >= -1e-6).all()
    result.sum().backward()
    assert np.isfinite(x.gradient).all()


def test_bce_with_logits_is_exact_at_the_extremes() -> None:
    x = wy.Parameter(np.array([1e4, 1e4, -1e4, -1e4]))
    loss = losses.bce_with_logits(x, np.array([1.0, 0.0, 1.0, 0.0]), reduction="none")
    assert loss.forward().tolist() == [0.0, 1e4, 1e4, 0.0]
    loss.sum().backward()
    assert x.gradient.tolist() == [0.0, 1.0, -1.0, 0.0]


def test_bpr_of_a_wrong_order_is_the_difference() -> None:
    assert losses.bpr(wy.Constant(-1e4), wy.Constant(1e4)).forward().item() == 2e4
    assert losses.bpr(wy.Constant(1e4), wy.Constant(-1e4)).forward().item() == 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bce_of_a_certain_answer_is_pytorchs(dtype: Any) -> None:
    p, t = np.array([0.0, 1.0, 1.0, 0.0, 0.3], dtype), np.array([1.0, 0.0, 0.9, 0.1, 0.9], dtype)
    x, given = wy.Parameter(p), torch.tensor(p, requires_grad=True)
    loss = losses.bce(x, t, reduction="none")
    expected = torch.nn.functional.binary_cross_entropy(given, torch.tensor(t), reduction="none")
    np.testing.assert_allclose(loss.forward(), expected.detach().numpy(), rtol=1e-6)
    loss.sum().backward()
    expected.sum().backward()
    np.testing.assert_allclose(x.gradient, given.grad.numpy(), rtol=1e-5)


def test_bce_of_a_certain_right_answer_has_the_derivative_of_its_logarithm() -> None:
    x = wy.Parameter(np.array([0.0, 1.0]))
    losses.bce(x, np.array([0.0, 1.0]), reduction="sum").backward()
    assert x.gradient.tolist() == [1.0, -1.0]


def test_bce_of_a_number_beyond_the_range_is_that_of_the_nearest_probability() -> None:
    beyond, nearest = wy.Parameter(np.array([-3.0, 7.0] * 2)), wy.Constant(np.array([0.0, 1.0] * 2))
    target = np.array([0.0, 1.0, 1.0, 0.0])
    loss = losses.bce(beyond, target, reduction="none")
    np.testing.assert_array_equal(loss.forward(), losses.bce(nearest, target, reduction="none").forward())
    loss.sum().backward()
    assert beyond.gradient.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_bce_of_a_certain_mistake_is_pytorchs() -> None:
    x, t = np.array([0.0, 1.0, 1e-60, 1.0 - 1e-15]), np.array([1.0, 0.0, 1.0, 0.0])
    expected = torch.nn.functional.binary_cross_entropy(torch.tensor(x), torch.tensor(t), reduction="none")
    ours = losses.bce(wy.Constant(x), t, reduction="none").forward()
    np.testing.assert_allclose(ours, expected.numpy(), rtol=1e-9)


def test_bce_keeps_the_digits_of_a_small_probability() -> None:
    loss = losses.bce(wy.Constant(1e-12, dtype=np.float64), np.array(0.0))
    assert loss.forward().item() == pytest.approx(1e-12, rel=1e-9)


def test_focal_without_its_factor_is_bce_with_logits() -> None:
    x, t = wy.Constant(PAIRS), np.resize(BITS, PAIRS.shape)
    plain = losses.bce_with_logits(x, t, reduction="none").forward()
    np.testing.assert_allclose(losses.focal(x, t, gamma=0.0, alpha=None, reduction="none").forward(), plain)


def test_focal_of_a_target_between_is_the_weighted_mean() -> None:
    x = wy.Constant(np.array([0.3, -2.0]))
    yes, no, some = (losses.focal(x, np.full(2, t), reduction="none").forward() for t in (1.0, 0.0, 0.3))
    np.testing.assert_allclose(some, 0.3 * yes + 0.7 * no, rtol=1e-12)


def test_huber_is_smooth_where_its_parts_meet() -> None:
    x = wy.Parameter(np.array([2.0, -2.0, np.nextafter(2.0, 3.0)]))
    loss = losses.huber(x, np.zeros(3), delta=2.0, reduction="none")
    np.testing.assert_allclose(loss.forward(), [2.0, 2.0, 2.0], rtol=1e-12)
    loss.sum().backward()
    np.testing.assert_allclose(x.gradient, [2.0, -2.0, 2.0], rtol=1e-12)


def test_the_gradient_of_l1_at_its_kink_is_zero() -> None:
    x = wy.Parameter(np.array([1.0]))
    losses.l1(x, np.array([1.0])).backward()
    assert x.gradient.tolist() == [0.0]


def test_an_outcome_of_probability_zero_counts_nothing() -> None:
    target = wy.Parameter(np.array([[0.0, 1.0], [0.5, 0.5]]))
    x = wy.Parameter(np.log([[0.5, 0.5], [0.5, 0.5]]))
    loss = losses.kl_divergence(x, target, reduction="none")
    np.testing.assert_allclose(loss.forward(), [np.log(2.0), 0.0], atol=1e-15)
    loss.sum().backward()
    assert np.isfinite(target.gradient).all()
    np.testing.assert_allclose(x.gradient, -target.value)


@pytest.mark.parametrize("log_target", [False, True])
def test_an_outcome_of_probability_zero_counts_nothing_where_none_is_predicted(log_target: bool) -> None:
    with np.errstate(divide="ignore"):
        target, x = np.array([[0.0, 1.0]]), wy.Input(np.log([[0.0, 1.0]]), finite=False)
        other = wy.Input(np.log(target) if log_target else target, finite=False)
    loss = losses.kl_divergence(x, other, log_target=log_target)
    by_prediction, by_target = wy.grad(loss, [x, other])
    assert loss.forward().item() == 0.0
    np.testing.assert_array_equal(by_prediction.forward(), -target)
    assert np.isfinite(by_target.forward()).all()


def test_equal_vectors_have_a_gradient() -> None:
    x = wy.Parameter(np.ones((2, 3)))
    losses.triplet(x, np.ones((2, 3)), np.zeros((2, 3))).backward()  # type: ignore[call-overload]  # positive as array
    losses.cosine_embedding(x, x, np.array([1, -1])).backward()
    assert np.isfinite(x.gradient).all()


def test_a_vector_of_zeros_has_the_cosine_zero() -> None:
    x, y = wy.Parameter(np.zeros((1, 3))), wy.Parameter(np.ones((1, 3)))
    loss = losses.cosine_embedding(x, y, np.array([1]))
    assert loss.forward().item() == 1.0
    loss.backward()
    assert np.isfinite(x.gradient).all()


def test_long_vectors_do_not_overflow() -> None:
    x = wy.Constant(np.full((1, 3), 1e15, np.float32))
    loss = losses.cosine_embedding(x, x, np.array([-1]))
    assert loss.forward().item() == pytest.approx(1.0)


def test_masks_are_targets_of_zero_and_one() -> None:
    x, mask = wy.Constant(np.array([0.2, 0.7])), np.array([True, False])
    for loss in (losses.bce, losses.bce_with_logits, losses.focal, losses.mse):
        wanted = loss(x, mask.astype(np.float64)).forward()
        assert loss(x, mask).forward() == wanted
        assert loss(x, wy.Input(mask)).forward() == wanted


def test_labels_may_be_computed() -> None:
    x = wy.Constant(np.array([[0.1, 0.9], [0.8, 0.2]]))
    labels = x.argmax(axis=-1)
    assert losses.cross_entropy(x, labels).forward() < np.log(2.0)
    np.testing.assert_allclose(losses.nll(x, labels).forward(), -0.85)


def test_cross_entropy_without_smoothing_is_the_op() -> None:
    x, labels = wy.Constant(np.array([[0.1, 0.9]])), wy.IndexInput([1])
    assert type(losses.cross_entropy(x, labels)) is type(x.cross_entropy(labels))


def test_ignored_labels_count_nothing() -> None:
    x = wy.Parameter(np.array([[0.1, 0.9], [-1e4, 1e4]]))
    labels = wy.IndexInput([-1, 1])
    loss = losses.cross_entropy(x, labels, ignore_index=-1)
    assert loss.forward() == 0.0
    loss.backward()
    assert x.gradient is not None and (np.asarray(x.gradient) == 0.0).all()
    labels.set([-1, -1])
    assert loss.forward() == 0.0
    with pytest.raises(IndexOutOfRange):
        labels.set([-1, -2])
    assert wy.compile(loss)() == 0.0


def test_without_elements_the_sum_is_zero() -> None:
    x = wy.Parameter(np.zeros((0, 3)))
    loss = losses.mse(x, np.zeros((0, 3)), reduction="sum")
    assert loss.forward().item() == 0.0
    loss.backward()
    assert losses.mse(x, np.zeros((0, 3)), reduction="none").forward().shape == (0, 3)


def test_without_elements_the_mean_is_an_error() -> None:
    with pytest.raises(ShapeError, match="has no value over an axis of size 0"):
        losses.mse(wy.Parameter(np.zeros((0, 3))), np.zeros((0, 3)))


def test_nodes_carry_the_users_line() -> None:
    loss = losses.huber(wy.Constant([1.0]), np.array([2.0]))
    assert "losses.huber(wy.Constant([1.0])" in loss.location.source
    assert loss.parents[0].location.source == loss.location.source

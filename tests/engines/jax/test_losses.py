"""Every loss of `wy.losses`: values and gradients in float64, the same in all engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.parity import assert_parity

L = wy.losses
_random = np.random.default_rng(6)


def numbers(*shape: int) -> Any:
    return wy.Parameter(_random.standard_normal(shape), name="x")


def shares(*shape: int) -> Any:
    """Return probabilities over the last axis, as an array."""
    drawn = _random.random(shape) + 0.1
    return drawn / drawn.sum(axis=-1, keepdims=True)


VALUES, POSITIVE, BINARY = _random.standard_normal((5, 3)), _random.random((5, 3)) + 0.2, np.eye(5, 3)
LABELS, SIGNS, WEIGHTS = np.array([0, 2, 1, 1, 0]), np.array([1.0, -1.0, 1.0, 1.0, -1.0]), np.arange(1.0, 6.0)
LOSSES: dict[str, Callable[[Any], Any]] = {
    "bce": lambda how: L.bce(numbers(5, 3).sigmoid(), BINARY, **how),
    "bce_with_logits": lambda how: L.bce_with_logits(numbers(5, 3), BINARY, **how),
    "bpr": lambda how: L.bpr(numbers(5), numbers(5), **how),
    "cosine_embedding": lambda how: L.cosine_embedding(numbers(5, 3), numbers(5, 3), SIGNS, **how),
    "cross_entropy": lambda how: L.cross_entropy(numbers(5, 3), LABELS, label_smoothing=0.1, **how),
    "ctc": lambda how: L.ctc(numbers(5, 6, 4).log_softmax(), np.array([[1, 2], [3, 3], [2, 1], [1, 1], [3, 2]]), **how),
    "focal": lambda how: L.focal(numbers(5, 3), BINARY, **how),
    "gaussian_nll": lambda how: L.gaussian_nll(numbers(5, 3), VALUES, POSITIVE, **how),
    "hinge": lambda how: L.hinge(numbers(5), SIGNS, **how),
    "huber": lambda how: L.huber(numbers(5, 3), VALUES, **how),
    "implicit_squares": lambda how: L.implicit_squares(numbers(5, 3), numbers(7, 3), LABELS[:, None], **how),
    "info_nce": lambda how: L.info_nce(numbers(5, 3), numbers(5, 3), temperature=0.5, **how),
    "kl_divergence": lambda how: L.kl_divergence(numbers(5, 3).log_softmax(), shares(5, 3), **how),
    "l1": lambda how: L.l1(numbers(5, 3), VALUES, **how),
    "log_cosh": lambda how: L.log_cosh(numbers(5, 3), VALUES, **how),
    "margin_ranking": lambda how: L.margin_ranking(numbers(5), numbers(5), SIGNS, margin=0.5, **how),
    "mse": lambda how: L.mse(numbers(5, 3), VALUES, **how),
    "multiclass_focal": lambda how: L.multiclass_focal(numbers(5, 3), LABELS, **how),
    "nll": lambda how: L.nll(numbers(5, 3).log_softmax(), LABELS, **how),
    "poisson_nll": lambda how: L.poisson_nll(numbers(5, 3), POSITIVE, **how),
    "quantile": lambda how: L.quantile(numbers(5, 3), VALUES, level=0.3, **how),
    "sampled_softmax": lambda how: L.sampled_softmax(numbers(5), numbers(5, 4), **how),
    "smooth_l1": lambda how: L.smooth_l1(numbers(5, 3), VALUES, **how),
    "squared_hinge": lambda how: L.squared_hinge(numbers(5), SIGNS, **how),
    "student_t_nll": lambda how: L.student_t_nll(numbers(5, 3), VALUES, POSITIVE, degrees_of_freedom=3.0, **how),
    "triplet": lambda how: L.triplet(numbers(5, 3), numbers(5, 3), numbers(5, 3), **how),
    "warp": lambda how: L.warp(numbers(5), numbers(5, 4), num_items=20, **how),
}
HOW: dict[str, dict[str, Any]] = {
    "mean": {"sample_weight": WEIGHTS}, "sum": {"reduction": "sum"}, "none": {"reduction": "none"},
}  # fmt: skip


def test_the_losses_are_all() -> None:
    assert LOSSES.keys() == {*L.__all__}


@pytest.mark.parametrize("reduction", HOW)
def test_losses(reduction: str) -> None:
    assert_parity({name: loss(HOW[reduction]) for name, loss in LOSSES.items()}, 1e-9)

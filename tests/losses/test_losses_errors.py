"""Errors in the use of losses, found when the graph is built or by mypy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.losses.untried import untried
from wyrm import losses
from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


def scores(*shape: int, dtype: Any = np.float32) -> Any:
    return wy.Parameter(np.zeros(shape, dtype), name="scores")


PAIRWISE = ["mse", "l1", "huber", "bce", "bce_with_logits", "focal", "hinge", "squared_hinge", "bpr"]
PAIRWISE += ["smooth_l1", "log_cosh", "quantile", "poisson_nll"]
REDUCIBLE: dict[str, tuple[Any, ...]] = {
    **{name: (scores(4, 3), np.ones((4, 3))) for name in PAIRWISE},
    "cross_entropy": (scores(4, 3), np.array([0, 1, 2, 0])),
    "nll": (scores(4, 3), np.array([0, 1, 2, 0])),
    "ctc": (scores(4, 3, 5), np.array([[1], [2], [0], [4]])),
    "multiclass_focal": (scores(4, 3), np.array([0, 1, 2, 0])),
    "gaussian_nll": (scores(4, 3), np.ones((4, 3)), np.ones((4, 3))),
    "student_t_nll": (scores(4, 3), np.ones((4, 3)), np.ones((4, 3))),
    "kl_divergence": (scores(4, 3), np.ones((4, 3))),
    "margin_ranking": (scores(4, 3), scores(4, 3), np.ones((4, 3))),
    "triplet": (scores(4, 3), scores(4, 3), scores(4, 3)),
    "cosine_embedding": (scores(4, 3), scores(4, 3), np.ones(4)),
    "info_nce": (scores(4, 3), scores(4, 3)),
    "sampled_softmax": (scores(4), scores(4, 3)),
    "warp": (scores(4), scores(4, 3)),
    "implicit_squares": (scores(4, 3), scores(5, 3), np.array([[0], [1], [4], [2]])),
}
# The options without a default.
OPTIONS: dict[str, dict[str, Any]] = {"student_t_nll": {"degrees_of_freedom": 3.0}, "warp": {"num_items": 5}}
REDUCIBLE |= {name: (scores(4, 3), *[np.ones((4, 3))] * (count - 1)) for name, count in untried(REDUCIBLE).items()}


@pytest.mark.parametrize("name", losses.__all__)
def test_an_unknown_reduction_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: reduction must be 'mean', 'sum' or 'none', not 'average'"):
        getattr(losses, name)(*REDUCIBLE[name], **OPTIONS.get(name, {}), reduction="average")


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize("shape", [(32,), (1,), (1, 32), (32, 32), ()])
def test_a_target_that_would_broadcast_is_an_error(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=f"{name}: .* must have the same shape; nothing is broadcast"):
        getattr(losses, name)(scores(32, 1), np.ones(shape))


def test_the_message_names_both_operands_and_the_users_line() -> None:
    prediction = wy.Input(dims=(32,), name="prediction")
    target: Any = wy.Input(dims=(32, 1), name="y")  # the type checker would refuse it
    with pytest.raises(ShapeError) as error:
        losses.mse(prediction, target)
    message = str(error.value)
    assert "prediction and target must have the same shape; nothing is broadcast: (32,) against (32, 1)" in message
    assert "prediction  prediction (32,) float32" in message
    assert "target      y (32, 1) float32" in message
    assert "losses.mse(prediction, target)" in message


def test_the_other_way_round_is_an_error_too() -> None:
    with pytest.raises(ShapeError, match=r"\(32, 1\) against \(32,\)"):
        target: Any = wy.Input(dims=(32,))
        losses.mse(wy.Input(dims=(32, 1)), target)


def test_equal_sizes_of_different_names_are_an_error() -> None:
    x, y = wy.Input(dims=(Batch(4),)), wy.Input(dims=(Time(4),))
    with pytest.raises(ShapeError, match="equal sizes, different names"):
        losses.mse(x, y)  # type: ignore[misc]  # the mistake that mypy finds


def test_an_array_for_an_axis_without_a_size_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"Batch\(\) gets its size from the data of each run"):
        losses.mse(wy.Input(dims=(Batch(),)), np.zeros(4))


def test_labels_as_target_of_numbers_are_an_error() -> None:
    labels = wy.IndexInput(dims=(4,), name="labels")
    with pytest.raises(DTypeError, match=r"mse: target must be float, and labels .* holds integer indices"):
        losses.mse(scores(4), labels)  # type: ignore[call-overload]  # the mistake that mypy finds


def test_an_array_as_prediction_is_an_error() -> None:
    with pytest.raises(DTypeError, match="mse: prediction must be a node, not ndarray"):
        losses.mse(np.zeros(4), scores(4))  # type: ignore[call-overload]  # the mistake that mypy finds


def test_a_string_as_target_is_an_error() -> None:
    with pytest.raises(DTypeError, match="mse: target must be a node or a NumPy array of numbers, not str"):
        losses.mse(scores(4), "y")  # type: ignore[call-overload]  # the mistake that mypy finds


def test_a_mask_as_prediction_is_an_error() -> None:
    with pytest.raises(DTypeError, match=r"bce: probability must be float, and .* is a mask"):
        losses.bce(scores(4) > 0.0, np.ones(4))


def test_two_float_types_are_an_error() -> None:
    with pytest.raises(DTypeError, match="float64"):
        losses.mse(scores(4), scores(4, dtype=np.float64))


@pytest.mark.parametrize("name", ["hinge", "squared_hinge"])
def test_zeros_where_signs_belong_are_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}: target must be -1 or 1, but holds 0\.0"):
        getattr(losses, name)(scores(2), np.array([0, 1]))


def test_a_mask_where_signs_belong_is_an_error() -> None:
    with pytest.raises(DTypeError, match=r"hinge: target must be -1 or 1, not a mask; pass wy\.where\(mask, 1\.0"):
        losses.hinge(scores(2), wy.Input(np.array([True, False])))


def test_an_array_of_a_mask_where_signs_belong_is_an_error() -> None:
    with pytest.raises(DTypeError, match="margin_ranking: target must be -1 or 1, not a mask"):
        losses.margin_ranking(scores(2), scores(2), np.array([True, True]))


def test_zeros_as_targets_of_cosine_embedding_are_an_error() -> None:
    with pytest.raises(ValueError, match="cosine_embedding: target must be -1 or 1"):
        losses.cosine_embedding(scores(2, 3), scores(2, 3), np.array([0, 1]))


@pytest.mark.parametrize("name", ["bce", "bce_with_logits", "focal"])
@pytest.mark.parametrize("wrong", [-1.0, 1.5, float("nan")])
def test_targets_that_are_no_probabilities_are_an_error(name: str, wrong: float) -> None:
    with pytest.raises(ValueError, match=rf"{name}: target must be in \[0, 1\], but holds {wrong}"):
        getattr(losses, name)(scores(2), np.array([0.5, wrong]))


def test_a_distribution_beyond_one_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"kl_divergence: target must be in \[0, 1\], but holds 2\.0"):
        losses.kl_divergence(scores(1, 2), np.array([[2.0, 0.0]]))


@pytest.mark.parametrize("delta", [0.0, -1.0, float("nan")])
def test_a_delta_that_is_not_above_zero_is_an_error(delta: float) -> None:
    with pytest.raises(ValueError, match="huber: delta must be above 0, not"):
        losses.huber(scores(2), np.zeros(2), delta=delta)


@pytest.mark.parametrize("smoothing", [-0.1, 1.1, float("nan")])
def test_label_smoothing_out_of_range_is_an_error(smoothing: float) -> None:
    with pytest.raises(ValueError, match=r"cross_entropy: label_smoothing must be in \[0, 1\], not"):
        losses.cross_entropy(scores(2, 3), np.array([0, 1]), label_smoothing=smoothing)


def test_a_negative_gamma_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"focal: gamma must be at least 0, not -1\.0"):
        losses.focal(scores(2), np.ones(2), gamma=-1.0)


def test_an_alpha_out_of_range_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"focal: alpha must be in \[0, 1\], not 1\.5"):
        losses.focal(scores(2), np.ones(2), alpha=1.5)


@pytest.mark.parametrize("name", ["margin_ranking", "triplet"])
def test_a_negative_margin_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}: margin must be at least 0, not -1\.0"):
        getattr(losses, name)(*REDUCIBLE[name], margin=-1.0)


def test_a_margin_beyond_every_cosine_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"cosine_embedding: margin must be in \[-1, 1\], not 1\.5"):
        losses.cosine_embedding(*REDUCIBLE["cosine_embedding"], margin=1.5)


@pytest.mark.parametrize("name", ["cross_entropy", "nll"])
@pytest.mark.parametrize("shape", [(4, 1), (3,), (), (4, 3)])
def test_labels_of_other_axes_are_an_error(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=f"{name}: the labels must have the leading axes of") as error:
        getattr(losses, name)(scores(4, 3), np.zeros(shape, np.int64))
    assert "scores (4, 3) float32" in str(error.value)
    assert "labels" in str(error.value)


@pytest.mark.parametrize("name", ["cross_entropy", "nll"])
def test_a_label_beyond_the_classes_is_an_error_when_it_is_set(name: str) -> None:
    labels = wy.IndexInput(dims=(4,), name="labels")
    loss = getattr(losses, name)(scores(4, 3), labels)
    with pytest.raises(IndexOutOfRange, match=r"labels .* holds 3 at position \(2,\).*takes 0 to 2"):
        labels.set([0, 1, 3, 2])
    labels.set([0, 1, 2, 2])
    loss.forward()


@pytest.mark.parametrize("name", ["cross_entropy", "nll"])
def test_a_label_beyond_the_classes_in_an_array_is_an_error(name: str) -> None:
    with pytest.raises(IndexOutOfRange, match=r"holds -1 at position \(1,\)"):
        getattr(losses, name)(scores(2, 3), np.array([0, -1]))


@pytest.mark.parametrize("name", ["cross_entropy", "nll"])
def test_floats_as_labels_are_an_error(name: str) -> None:
    with pytest.raises(DTypeError, match="integers"):
        getattr(losses, name)(scores(2, 3), np.array([0.0, 1.0]))


@pytest.mark.parametrize("name", ["cross_entropy", "nll"])
def test_a_float_node_as_labels_is_an_error(name: str) -> None:
    with pytest.raises(DTypeError, match="integers"):
        getattr(losses, name)(scores(2, 3), wy.Input(dims=(2,)))


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("cross_entropy", (scores(), np.array(0))),
        ("nll", (scores(), np.array(0))),
        ("kl_divergence", (scores(), np.array(0.5))),
        ("triplet", (scores(), scores(), scores())),
        ("cosine_embedding", (scores(), scores(), np.array(1.0))),
    ],
)
def test_scalars_where_an_axis_is_needed_are_an_error(name: str, operands: tuple[Any, ...]) -> None:
    with pytest.raises(ShapeError, match=rf"{name}: \w+ needs at least one axis, and scores .* is a scalar"):
        getattr(losses, name)(*operands)


def test_a_triplet_of_different_shapes_is_an_error() -> None:
    with pytest.raises(ShapeError, match="triplet: anchor, positive and negative must have the same shape"):
        losses.triplet(scores(4, 3), scores(4, 3), scores(1, 3))


def test_vectors_of_different_shapes_are_an_error() -> None:
    with pytest.raises(ShapeError, match="cosine_embedding: first and second must have the same shape"):
        losses.cosine_embedding(scores(4, 3), scores(4, 2), np.ones(4))


@pytest.mark.parametrize("shape", [(4, 1), (1,), (), (4, 3)])
def test_a_target_of_other_axes_than_the_vectors_is_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="cosine_embedding: the target must have the leading axes of the vectors"):
        losses.cosine_embedding(scores(4, 3), scores(4, 3), np.ones(shape))


def test_scores_of_different_shapes_are_an_error() -> None:
    with pytest.raises(ShapeError, match="margin_ranking: first, second and target must have the same shape"):
        losses.margin_ranking(scores(4), scores(4, 1), np.ones(4))


@pytest.mark.parametrize(
    ("name", "method", "needed", "target"),
    [
        ("cross_entropy", "softmax", "logits, to which it applies softmax itself", np.array([0, 1, 2, 0])),
        ("multiclass_focal", "softmax", "logits, to which it applies softmax itself", np.array([0, 1, 2, 0])),
        ("nll", "softmax", "log-probabilities, such as those of log_softmax", np.array([0, 1, 2, 0])),
        ("ctc", "softmax", "log-probabilities, such as those of log_softmax", np.array([[1], [2], [0], [4]])),
        ("kl_divergence", "softmax", "log-probabilities, such as those of log_softmax", np.full((4, 3), 1 / 3)),
        ("bce_with_logits", "sigmoid", "logits, to which it applies sigmoid itself", np.ones((4, 3))),
        ("focal", "sigmoid", "logits, to which it applies sigmoid itself", np.ones((4, 3))),
    ],
)
def test_probabilities_where_a_loss_takes_logits_are_told(name: str, method: str, needed: str, target: Any) -> None:
    probabilities = getattr(scores(4, 3, 5) if name == "ctc" else scores(4, 3), method)()
    with pytest.warns(RuntimeWarning, match=rf"takes {needed}, but is given probabilities: {method} \(") as told:
        getattr(losses, name)(probabilities, target)
    assert [each.filename for each in told] == [__file__]


def test_log_probabilities_are_logits_too(recwarn: pytest.WarningsRecorder) -> None:
    losses.cross_entropy(scores(4, 3).log_softmax(), np.array([0, 1, 2, 0]))
    assert not recwarn.list

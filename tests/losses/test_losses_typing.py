"""The types of losses under mypy, which checks this file: an unused `type: ignore` is an error."""

from __future__ import annotations

from typing import Any, Literal, assert_type

import numpy as np
import pytest

import wyrm as wy
from wyrm import losses
from wyrm.errors import ShapeError


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Width(wy.Dim): ...


BATCH, TIME, WIDTH = Batch(2), Time(4), Width(3)
X = wy.Parameter(np.full((2, 3), 0.5), (BATCH, WIDTH))
Y = wy.Input(np.full((2, 3), 0.25), dims=(BATCH, WIDTH))
CUBE = wy.Parameter(np.zeros((2, 4, 3)), (BATCH, TIME, WIDTH))
ROW = wy.Parameter(np.zeros(2), (BATCH,))
LABELS = wy.IndexInput([0, 1], dims=(BATCH,))
DRAWN = wy.IndexInput(np.zeros((2, 3), np.int64), dims=(BATCH, WIDTH))
STEPS = wy.IndexInput(np.zeros((2, 4), np.int64), dims=(BATCH, TIME))


def scores_of(items: wy.IndexNode) -> wy.Node:
    return items.astype(np.float64)


def test_mean_and_sum_are_scalars() -> None:
    assert_type(losses.mse(X, Y), wy.Tensor[()])
    assert_type(losses.huber(X, Y, delta=2.0, reduction="sum"), wy.Tensor[()])
    assert_type(losses.cross_entropy(X, LABELS, label_smoothing=0.1), wy.Tensor[()])
    assert_type(losses.triplet(CUBE, CUBE, CUBE, reduction="mean"), wy.Tensor[()])
    assert_type(losses.info_nce(X, Y, items=LABELS), wy.Tensor[()])
    assert_type(losses.sampled_softmax(ROW, X), wy.Tensor[()])
    assert_type(losses.warp(ROW, X, num_items=9), wy.Tensor[()])
    assert_type(losses.warp(ROW, scores_of, items=DRAWN, num_items=9), wy.Tensor[()])
    assert_type(losses.implicit_squares(X, X, STEPS), wy.Tensor[()])
    total = losses.mse(X, Y) + 0.1 * losses.bpr(X, Y) + losses.nll(CUBE, STEPS, reduction="sum")
    total.backward()
    assert total.shape == ()


def test_none_keeps_the_elements_shape() -> None:
    elements = losses.l1(X, Y, reduction="none")
    assert_type(elements, wy.Tensor[Batch, Width])
    assert elements.dims == (BATCH, WIDTH)
    assert_type(losses.bce(X, Y, reduction="none"), wy.Tensor[Batch, Width])
    assert_type(losses.margin_ranking(ROW, ROW, ROW, reduction="none"), wy.Tensor[Batch])


def test_none_drops_the_axis_that_is_taken_together() -> None:
    steps = losses.cross_entropy(CUBE, STEPS, reduction="none")
    assert_type(steps, wy.Tensor[Batch, Time])
    assert steps.dims == (BATCH, TIME)
    assert_type(losses.nll(X, LABELS, reduction="none"), wy.Tensor[Batch])
    assert_type(losses.kl_divergence(X, Y, reduction="none"), wy.Tensor[Batch])
    assert_type(losses.triplet(CUBE, CUBE, CUBE, reduction="none"), wy.Tensor[Batch, Time])
    assert_type(losses.cosine_embedding(X, X, ROW, reduction="none"), wy.Tensor[Batch])
    assert_type(losses.info_nce(X, X, reduction="none"), wy.Tensor[Batch])
    assert_type(losses.sampled_softmax(ROW, X, reduction="none"), wy.Tensor[Batch])
    assert_type(losses.warp(ROW, X, num_items=9, reduction="none"), wy.Tensor[Batch])
    assert_type(losses.warp(ROW, scores_of, items=DRAWN, num_items=9, reduction="none"), wy.Tensor[Batch])
    assert_type(losses.implicit_squares(X, X, STEPS, reduction="none"), wy.Tensor[Batch])


def test_arrays_take_the_shape_of_the_node() -> None:
    assert_type(losses.mse(X, np.zeros((2, 3)), reduction="none"), wy.Tensor[Batch, Width])
    assert_type(losses.cross_entropy(X, np.array([0, 1]), reduction="none"), wy.Tensor[Batch])
    assert_type(losses.hinge(ROW, np.array([1, -1]), reduction="none"), wy.Tensor[Batch])


def test_what_an_op_makes_is_a_tensor_too() -> None:
    assert_type(losses.mse((X * 2.0).tanh(), Y, reduction="none"), wy.Tensor[Batch, Width])
    assert_type(losses.mse(CUBE.sum(axis=-1).mean(axis=-1), ROW), wy.Tensor[()])


def test_a_reduction_in_a_variable_gives_either() -> None:
    def total(reduction: Literal["mean", "sum", "none"]) -> wy.Node:
        return losses.mse(X, Y, reduction=reduction)

    assert total("none").shape == (2, 3)
    assert total("sum").shape == ()


def test_unknown_shapes_are_no_false_alarm() -> None:
    unknown = wy.Input(np.zeros((2, 3)))
    loss: wy.Tensor[()] = losses.mse(unknown, X) + losses.mse(X, unknown) + losses.mse(unknown, unknown)
    rows: wy.Tensor[Batch] = losses.cross_entropy(unknown, LABELS, reduction="none")
    free: wy.Tensor[Batch, Width] = losses.l1(unknown, unknown, reduction="none")
    layer: wy.nn.Linear[Any, Any] = wy.nn.Linear(3, 3, dtype=np.float64)
    assert losses.mse(layer(unknown), X).shape == losses.mse(layer(X), unknown).shape == ()
    assert loss.shape == () and rows.shape == (2,) and free.shape == (2, 3)


def test_another_axis_is_an_error() -> None:
    with pytest.raises(ShapeError):
        losses.mse(X, CUBE)  # type: ignore[misc]  # the mistake that mypy finds


def test_one_score_a_row_against_a_table_is_an_error() -> None:
    column = wy.Parameter(np.zeros((2, 1)), (BATCH, wy.One()))
    with pytest.raises(ShapeError):
        losses.mse(column, ROW)  # type: ignore[misc]  # the mistake that mypy finds


def test_labels_of_another_axis_are_an_error() -> None:
    with pytest.raises(ShapeError):
        losses.cross_entropy(CUBE, LABELS)  # type: ignore[misc]  # the mistake that mypy finds


def test_vectors_of_another_axis_are_an_error() -> None:
    with pytest.raises(ShapeError):
        losses.triplet(X, X, CUBE)  # type: ignore[misc]  # the mistake that mypy finds


def test_elements_are_no_scalar() -> None:
    elements = losses.mse(X, Y, reduction="none")
    with pytest.raises(ShapeError, match="takes a scalar"):
        elements.backward()  # type: ignore[call-arg]  # the mistake that mypy finds


def test_a_misspelt_reduction_is_an_error() -> None:
    with pytest.raises(ValueError, match="not 'avg'"):
        losses.mse(X, Y, reduction="avg")  # type: ignore[call-overload]  # the mistake that mypy finds

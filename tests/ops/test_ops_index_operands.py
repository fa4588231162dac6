"""`where`, dropout, and the cross-entropy whose softmax is a node of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, IndexOutOfRange, NotDifferentiable, ShapeError


def ones(count: int = 64) -> Any:
    return wy.Parameter(np.ones(count, np.float32), name="p")


def test_where_takes_numbers_and_arrays_with_the_nodes_float_type() -> None:
    x = wy.Parameter(np.array([1.0, 2.0], np.float32))
    for other in (0, 0.5, np.array([1, 2]), np.array([1.0, 2.0]), np.float64(2.0), True):
        for chosen in (wy.where(x > 1.0, x, other), wy.where(x > 1.0, other, x)):
            assert chosen.dtype == np.float32
        expected = np.where(x.value > 1.0, x.value, np.asarray(other))
        np.testing.assert_allclose(wy.where(x > 1.0, x, other).forward(), expected)


def test_where_of_arrays_alone_keeps_their_float_type() -> None:
    mask = wy.Parameter([1.0, 2.0]) > 1.0
    assert wy.where(mask, 1.0, 2.0).dtype == np.float32
    assert wy.where(mask, np.array([1.0, 2.0]), 0.0).dtype == np.float64
    assert wy.where(mask, 0, np.array([1, 2])).dtype == np.float32
    assert wy.where(mask, mask, ~mask).dtype == np.bool_
    chosen: Any = np.array([True, False])
    assert wy.where(chosen, 1.0, 2.0).forward().tolist() == [1.0, 2.0]


def test_where_refuses_what_is_no_mask_and_no_number() -> None:
    x: Any = wy.Parameter([1.0, 2.0], name="x")
    rows: Any = np.array([0, 1])
    word: Any = "word"
    with pytest.raises(DTypeError, match="the condition must be a mask, such as x > 0; x is float32"):
        wy.where(x, 1.0, 2.0)
    with pytest.raises(DTypeError, match="the condition must be a mask, such as x > 0, not an array of int64"):
        wy.where(rows, 1.0, 2.0)
    rows = wy.IndexInput([0, 1], name="rows")
    with pytest.raises(DTypeError, match=r"rows .*holds integers"):
        wy.where(x > 1.0, rows, 2.0)
    with pytest.raises(TypeError, match="an operand must be a node, a number or a NumPy array"):
        wy.where(x > 1.0, word, 2.0)


def test_the_gradient_of_where_is_zero_where_the_other_was_chosen() -> None:
    x = wy.Parameter([1.0, 4.0])
    loss = wy.where(x > 2.0, x.square(), x * 3.0).sum()
    assert wy.grad(loss, x).forward().tolist() == [3.0, 8.0]


def test_forward_and_backward_draw_the_same_mask_and_the_next_forward_another() -> None:
    p = ones()
    dropped = p.dropout(0.5)
    loss = dropped.sum()
    masks = []
    for _ in range(3):
        p.clear_gradient()
        loss.forward()
        loss.backward()
        np.testing.assert_array_equal(p.gradient, dropped.value)
        masks.append(tuple(dropped.value))
    assert len(set(masks)) == 3


def test_a_forward_of_another_graph_in_between_does_not_change_the_mask() -> None:
    p, q = ones(), ones()
    dropped = p.dropout(0.5)
    loss, other = dropped.sum(), q.dropout(0.5).sum()
    loss.forward()
    mask = dropped.value
    other.forward()
    wy.run([other])
    loss.backward()
    np.testing.assert_array_equal(p.gradient, mask)
    before = other.value
    assert before == other.value and other.forward() != 0.0


def test_the_same_step_draws_the_same_mask() -> None:
    p = ones()
    dropped = p.dropout(0.3, seed=5)
    values = []
    for _ in range(2):
        wy.random.set_step(7)
        values.append([dropped.forward(), dropped.forward()])
    np.testing.assert_array_equal(values[0], values[1])
    assert (values[0][0] != values[0][1]).any()


def test_a_backward_after_set_step_draws_for_that_step() -> None:
    p = ones()
    dropped = p.dropout(0.5)
    loss = dropped.sum()
    wy.random.set_step(7)
    mask = dropped.forward()
    for _ in range(2):
        loss.forward()
        p.clear_gradient()
        wy.random.set_step(7)
        loss.backward()
        np.testing.assert_array_equal(p.gradient, mask)


def test_backward_alone_draws_one_mask_until_the_next_forward() -> None:
    p = ones()
    loss = p.dropout(0.5).sum()
    loss.backward()
    first = p.gradient
    loss.backward()
    np.testing.assert_array_equal(p.gradient, 2.0 * first)


def test_each_dropout_of_a_graph_draws_its_own_mask() -> None:
    p = ones(256)
    first, second = p.dropout(0.5), p.dropout(0.5)
    wy.run([first, second])
    same = first.dropout(0.5, stream=0), first.dropout(0.5, stream=0)
    wy.run(same)
    assert (first.value != second.value).any()
    np.testing.assert_array_equal(same[0].value, same[1].value)


def test_the_share_that_is_dropped_and_the_mean_that_is_kept() -> None:
    value = wy.Constant(np.ones(100_000)).dropout(0.2).forward()
    assert set(np.unique(value)) == {0.0, 1.25}
    assert abs((value == 0.0).mean() - 0.2) < 0.01


@pytest.mark.parametrize("rate", [1.0, -0.1, 2.0, float("nan")])
def test_a_dropout_rate_out_of_range_is_an_error(rate: float) -> None:
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\), not"):
        ones().dropout(rate)


def test_a_rate_of_zero_keeps_everything() -> None:
    assert ones().dropout(0.0).forward().tolist() == [1.0] * 64


def logits() -> Any:
    return wy.Parameter(np.array([[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]]), name="logits")


def test_labels_beyond_the_classes_are_refused_where_the_loss_is_built_and_where_labels_are_set() -> None:
    with pytest.raises(IndexOutOfRange, match=r"labels .*holds 3 at position \(1,\).*cross_entropy of logits.*0 to 2"):
        logits().cross_entropy(wy.IndexInput([0, 3], name="labels"))
    labels = wy.IndexInput([0, 2], name="labels")
    loss = logits().cross_entropy(labels)
    with pytest.raises(IndexOutOfRange):
        labels.set([-1, 0])
    assert labels.value.tolist() == [0, 2] and np.isfinite(loss.forward())


@pytest.mark.parametrize("bad", [[0.0, 1.0], wy.Parameter([0.0, 1.0]), [True, False]])
def test_labels_are_integers(bad: Any) -> None:
    with pytest.raises(DTypeError):
        logits().cross_entropy(bad)


def test_labels_have_the_axes_of_the_logits_but_the_last() -> None:
    with pytest.raises(ShapeError, match=r"labels must have all axes of the logits but the last: \(2,\), not \(2, 1\)"):
        logits().cross_entropy(np.array([[0], [1]]))
    with pytest.raises(ShapeError, match="2 against 3"):
        logits().cross_entropy(np.array([0, 1, 2]))
    with pytest.raises(ShapeError, match="is a scalar; logits must have an axis of classes"):
        logits().sum().cross_entropy(np.array(0))
    with pytest.raises(ShapeError, match="reduction must be 'mean', 'sum' or 'none', not 'max'"):
        logits().cross_entropy(np.array([0, 1]), reduction="max")


def test_predictions_are_part_of_the_loss_and_no_way_to_differentiate_it() -> None:
    x = logits()
    loss = x.cross_entropy(np.array([0, 1]))
    loss.forward()
    np.testing.assert_allclose(loss.predictions().value.sum(axis=-1), 1.0)
    with pytest.raises(
        NotDifferentiable, match="no gradient with respect to softmax, which is computed from another operand"
    ):
        wy.grad(loss, loss.predictions())
    # Other uses of the predictions have gradients, like any node.
    entropy = -(loss.predictions() * loss.predictions().log()).sum()
    assert wy.grad(entropy, loss.predictions()).forward().shape == (2, 3)
    assert wy.grad(loss + entropy, x).forward().any()

"""`SAGA` finds the optimum that scikit-learn finds, by constant steps, and in every engine the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotDifferentiable, OptionError, ShapeError
from wyrm.optim import SAGA, SGD, Combined, remembered

RANDOM = np.random.default_rng(0)
ROWS, COLUMNS = 61, 5
# Two of three numbers are zero, in the last column nine of ten.
SHARES = np.array([0.5, 0.4, 0.3, 0.3, 0.1])
FEATURES = RANDOM.standard_normal((ROWS, COLUMNS)) * (RANDOM.random((ROWS, COLUMNS)) < SHARES)
LIKED = (RANDOM.random(ROWS) < 1.0 / (1.0 + np.exp(-FEATURES @ [2.0, -1.0, 1.0, 0.1, -2.0]))).astype(np.float64)
RATE = 1.0 / (3.0 * (0.25 * (FEATURES**2).sum(axis=1).max() + 0.1))
COLUMNS_OF_ROWS = [np.flatnonzero(row) for row in FEATURES]


class Batch(wy.Dim): ...


class Words(wy.Ragged): ...


def optimum(l1: float, l2: float) -> Any:
    """Return the weights that scikit-learn finds for the mean over rows and the penalty."""
    linear = pytest.importorskip("sklearn.linear_model")
    share = {"l1_ratio": l1 / (l1 + l2)} if l1 else {"l1_ratio": 0.0}
    model = linear.LogisticRegression(
        C=1.0 / (ROWS * (l1 + l2)), fit_intercept=False, solver="saga", tol=1e-12, max_iter=100_000, **share
    )
    return model.fit(FEATURES, LIKED).coef_[0]


def problem(sparse: bool, reduction: str = "sum") -> tuple[Any, dict[Any, Any], Any, Any]:
    """Return the remembered loss, its data, the weights and the slopes."""
    batch = Batch()
    weights = wy.Parameter(np.zeros(COLUMNS), name="weights")
    slopes = wy.Parameter(np.zeros(ROWS), name="slopes")
    row, liked = wy.IndexInput(dims=(batch,), name="row"), wy.Input(dims=(batch,), dtype=np.float64, name="liked")
    data: dict[Any, Any] = {row: np.arange(ROWS), liked: LIKED}
    if sparse:
        ids = wy.IndexInput(dims=(batch, Words()), name="ids")
        value = wy.Input(dims=(batch, Words()), dtype=np.float64, name="value")
        scores: Any = (weights.index(ids) * value).sum(axis=1)
        values = [FEATURES[i, columns] for i, columns in enumerate(COLUMNS_OF_ROWS)]
        data |= {ids: COLUMNS_OF_ROWS, value: values}
    else:
        x = wy.Input(dims=(batch, COLUMNS), dtype=np.float64, name="x")
        scores = x @ weights
        data[x] = FEATURES
    loss: Any = wy.losses.bce_with_logits(scores, liked, reduction=reduction)  # type: ignore[call-overload]  # a name
    return remembered(loss, scores, slopes.index(row)), data, weights, slopes


def optimizer_of(weights: Any, slopes: Any, steps: int, rate: float = RATE, l1: float = 0.0, l2: float = 0.0) -> Any:
    return Combined([SAGA([weights], rate, steps, l1, l2), SGD([slopes], 1.0)])


def eager_epoch(loss: Any, data: dict[Any, Any], optimizer: Any, seed: int) -> None:
    """Train for a pass over the rows with the reference engine."""
    for i in np.random.default_rng(seed).permutation(ROWS):
        for leaf, column in data.items():
            leaf.set(column[i : i + 1])
        loss.backward()
        optimizer.step()
        loss.zero_gradient()


@pytest.mark.parametrize("engine", ["native", "jax", "reference"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.1), (0.03, 0.05)])
def test_constant_steps_lead_to_the_optimum_of_scikit_learn(engine: str, sparse: bool, l1: float, l2: float) -> None:
    loss, data, weights, slopes = problem(sparse)
    optimizer = optimizer_of(weights, slopes, ROWS, l1=l1, l2=l2)
    if engine == "reference":
        for seed in range(20):
            eager_epoch(loss, data, optimizer, seed)
        np.testing.assert_allclose(weights.value, optimum(l1, l2), atol=2e-2)
        return
    program: Any = wy.compile(loss, optimizer, engine=engine)
    for seed in range(80):
        program.epoch(data, batch_size=1, shuffle=True, seed=seed)
    expected = optimum(l1, l2)
    np.testing.assert_allclose(weights.value, expected, atol=1e-6)
    if l1:
        assert (weights.value == 0.0).tolist() == (expected == 0.0).tolist() and (expected == 0.0).any()
    wrong = 1.0 / (1.0 + np.exp(-FEATURES @ expected)) - LIKED
    np.testing.assert_allclose(slopes.value, wrong, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_last_batch_of_fewer_rows_leads_to_the_same_optimum(sparse: bool) -> None:
    loss, data, weights, slopes = problem(sparse)  # of 61 rows: 16 batches, the last one of one row
    program = wy.compile(loss, optimizer_of(weights, slopes, 16, RATE / 4.0, l2=0.1 * ROWS / 16))
    for seed in range(200):
        program.epoch(data, batch_size=4, shuffle=True, seed=seed)
    np.testing.assert_allclose(weights.value, optimum(0.0, 0.1), atol=1e-6)


def test_the_loss_is_that_of_the_rows_and_a_gradient_what_has_changed() -> None:
    loss, data, weights, slopes = problem(False)
    slopes.set(RANDOM.standard_normal(ROWS))
    for leaf, column in data.items():
        leaf.set(column)
    wrong = 0.5 - LIKED - slopes.value
    np.testing.assert_allclose(loss.forward(), ROWS * np.log(2.0))
    np.testing.assert_allclose(wy.grad(loss, weights).forward(), wrong @ FEATURES)
    np.testing.assert_allclose(wy.grad(loss, slopes).forward(), -wrong)


def test_steps_are_those_of_the_papers_where_every_second_touches_a_row() -> None:
    table = wy.Parameter(np.array([[1.0], [1.0]]))
    optimizer = SAGA([table], 0.1, 4, l1=0.5, l2=2.0)
    x, mean, touched = np.ones(2), np.zeros(2), np.zeros(2)
    for step in range(1, 9):
        row = step % 2
        table.index(np.array([row])).sum().backward()
        optimizer.step()
        optimizer.zero_gradient()
        touched[row] += 1.0
        rate = 0.1 * step / touched[row]
        moved = x[row] - 0.1 - rate * mean[row]
        x[row] = np.sign(moved) * max(abs(moved) - 0.5 * rate, 0.0) / (1.0 + 2.0 * rate)
        mean[row] += 0.25
        np.testing.assert_allclose(table.value[:, 0], x)


def test_steps_are_counted_as_far_as_float32_counts() -> None:
    optimizer = SAGA([wy.Parameter(0.0)], 0.1, 2)
    found = [optimizer.hyperparameters(2**24 + more) for more in (-1, 0, 1, 2)]
    assert [numbers["counts"] for numbers in found] == [1.0, 1.0, 0.0, 0.0]
    assert [numbers["steps"] - 2**24 for numbers in found] == [-1.0, 0.0, 0.0, 0.0]


WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: SAGA([wy.Parameter(0.0)], 0.1, 0), OptionError, "steps_per_epoch must be an integer of at least 1, not 0"),
    (lambda: SAGA([wy.Parameter(0.0)], 0.1, 2, l1=-1.0), OptionError, "l1"),
    (lambda: SAGA([wy.Parameter(0.0)], 0.1), TypeError, "steps_per_epoch"),  # type: ignore[call-arg]  # which is shown
]


@pytest.mark.parametrize(("wrong", "error", "match"), WRONG)
def test_wrong_options(wrong: Callable[[], object], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        wrong()


def test_what_cannot_be_remembered_is_refused_with_its_names() -> None:
    scores, weight = wy.Input(dims=(Batch(),), name="scores"), wy.Parameter(1.0, name="weight")
    last = wy.Parameter(np.zeros(3, np.float32), name="slopes")
    with pytest.raises(ShapeError, match=r"last must have the axes of scores[\s\S]*slopes"):
        remembered(scores.sum(), scores, last)
    with pytest.raises(NotDifferentiable, match=r"takes a scalar float loss[\s\S]*\.sum\(\)"):
        remembered(scores * weight, scores, scores)
    with pytest.raises(NotDifferentiable, match="does not depend on the scores"):
        remembered(weight * 2.0, scores, scores)

"""The fused linear layer with cross-entropy against its composition: blocks of rows, ignored labels, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.ops.cross_entropy import linear_cross_entropy


def operands(rows: int, classes: int, width: int, dtype: Any = np.float64) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(rows)
    x, weight = random.normal(size=(rows, width)).astype(dtype), random.normal(size=(classes, width)).astype(dtype)
    return wy.Parameter(x, name="x"), wy.Parameter(weight, name="weight"), random.integers(0, classes, rows)


def trained(loss: Any, parameters: list[Any], loop: Any) -> list[Any]:
    """Return the loss and the parameters after one step of gradient descent in native code."""
    program = wy.compile(loss, wy.optim.SGD(parameters, 0.5), loop=loop)
    value = program({})
    return [value, *(parameter.value for parameter in parameters)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loop", ["compiled", "python"])
def test_a_step_equals_that_of_the_composition(loop: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_cross_entropy, "_FEWEST_ROWS", 4)  # several blocks
    monkeypatch.setattr(linear_cross_entropy, "_LOGITS_BYTES", 0)
    results = []
    for fused in (True, False):
        x, weight, labels = operands(11, 7, 5, dtype)
        hidden: Any = x.tanh()
        loss: Any = (
            wy.linear_cross_entropy(hidden, weight, labels) if fused else (hidden @ weight.mT).cross_entropy(labels)
        )
        results.append(trained(loss, [x, weight], loop))
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    for actual, desired in zip(*results, strict=True):
        np.testing.assert_allclose(actual, desired, rtol=tolerance, atol=tolerance)


def few_classes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide 23 classes into several chunks, and 100 rows into blocks of unequal sizes."""
    monkeypatch.setattr(linear_cross_entropy, "_FEWEST_BY_CLASSES", 8)
    monkeypatch.setattr(linear_cross_entropy, "_CLASSES_OF_CHUNK", 7)
    monkeypatch.setattr(linear_cross_entropy, "_FEWEST_ROWS", 32)
    monkeypatch.setattr(linear_cross_entropy, "_MOST_BY_CLASSES", 32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loop", ["compiled", "python"])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.3}, {"ignore_index": 4}, {"given": True}])
def test_residuals_by_classes_equal_those_of_numpy(
    options: dict[str, Any], loop: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_classes_at_a_time(monkeypatch)
    x, weight, labels = operands(100, 23, 5, dtype)
    given = [] if "given" not in options else [wy.Constant(np.arange(100, dtype=dtype) % 3)]
    options = {name: value for name, value in options.items() if name != "given"}
    # The logits of the first chunk, whose classes no row has, are -inf.
    x.set(np.concatenate([np.full((100, 1), 8), x.value[:, 1:]], axis=1).astype(dtype))
    weight.set(np.concatenate([np.full((7, 5), [[-np.finfo(dtype).max, 0, 0, 0, 0]]), weight.value[7:]]).astype(dtype))
    labels = np.maximum(labels, 7)
    labels[:9] = options.get("ignore_index", 7)
    if "label_smoothing" in options:  # to which a logit of -inf adds an infinite loss
        weight.set(np.maximum(weight.value, -9))
    residuals = linear_cross_entropy.LinearCrossEntropyResiduals(x, weight, labels, *given, **options)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    with np.errstate(over="ignore"):
        expected = residuals.forward()
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(wy.compile(residuals, loop=loop)({}), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_of_ignored_rows_may_be_nan_and_those_of_others_are_seen(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_classes_at_a_time(monkeypatch)
    x, weight, labels = operands(100, 23, 5, dtype)
    labels[3] = -100
    residuals = linear_cross_entropy.LinearCrossEntropyResiduals(x, weight, labels, ignore_index=-100)
    program, results = wy.compile(residuals), {}
    for row, size in ((3, 0.0), (3, 1.0), (50, 1.0)):
        changed = operands(100, 23, 5, dtype)[0].value.copy()
        changed[row] = np.array([1, -1, 1, -1, 1]) * np.finfo(dtype).max * size
        x.set(changed)
        results[row, size] = program({})
    assert np.isfinite(results[3, 1.0]).all()
    np.testing.assert_array_equal(results[3, 1.0], results[3, 0.0])
    assert np.isnan(results[50, 1.0][[0, 23, 24 + 50], 0]).all()  # a gradient of the weight, the loss, the row's own
    assert np.isfinite(results[50, 1.0][24 + 51]).all()


def test_the_logits_are_computed_once_where_gradients_are_wanted() -> None:
    x, weight, labels = operands(6, 7, 5)
    loss = wy.linear_cross_entropy(x, weight, labels)
    alone = wy.compile(loss).source
    trained_source = wy.compile(loss, wy.optim.SGD([x, weight], 0.1)).source
    assert "linear_cross_entropy_kernel(" in alone and "linear_cross_entropy_res_kernel(" not in alone
    assert "linear_cross_entropy_res_kernel(" in trained_source and "cross_entropy_kernel(" not in trained_source


def test_a_tied_table_has_both_gradients() -> None:
    random = np.random.default_rng(0)
    table = wy.Parameter(random.normal(size=(9, 4)), name="table")
    tokens, following = random.integers(0, 9, (2, 3)), random.integers(0, 9, (2, 3))
    fused = wy.linear_cross_entropy(table.index(tokens), table, following)
    composed: Any = table.index(tokens) @ table.mT
    plain = composed.cross_entropy(following)
    (actual,), (desired,) = wy.grad(fused, [table]), wy.grad(plain, [table])
    np.testing.assert_allclose(actual.forward(), desired.forward(), rtol=1e-10, atol=1e-14)
    assert float(fused.forward()) == pytest.approx(float(plain.forward()), rel=1e-12)


def test_large_logits_have_a_finite_loss_and_ignored_labels_alone_a_loss_of_zero() -> None:
    x, weight, labels = operands(3, 4, 2, np.float32)
    x.set(x.value * 1e4)
    loss = wy.linear_cross_entropy(x, weight, labels)
    assert np.isfinite(loss.forward()) and np.isfinite(wy.compile(loss)({}))
    x, weight, _ = operands(3, 4, 2)
    ignored = wy.linear_cross_entropy(x, weight, np.full(3, -100), ignore_index=-100)
    assert float(ignored.forward()) == 0.0
    assert trained(ignored, [x, weight], "python")[0] == 0.0
    np.testing.assert_array_equal(x.value, operands(3, 4, 2)[0].value)


def test_labels_out_of_range_and_wrong_operands_are_errors() -> None:
    x, weight, labels = operands(3, 4, 2)
    with pytest.raises(IndexOutOfRange, match="4"):
        wy.linear_cross_entropy(x, weight, np.array([0, 1, 4]))
    with pytest.raises(IndexOutOfRange, match=r"holds 9 at position \(1,\), but linear_cross_entropy .* takes 0 to 3"):
        wy.linear_cross_entropy(x, weight, np.array([0, 9, -100]), ignore_index=-100)
    targets = wy.IndexInput(dims=(3,), name="targets")
    loss = wy.linear_cross_entropy(x, weight, targets, ignore_index=-100)
    with pytest.raises(IndexOutOfRange, match=r"targets holds 9 in row 1, but linear_cross_entropy .* takes 0 to 3"):
        wy.compile(loss)({targets: [0, 9, -100]})
    with pytest.raises(ValueError, match=r"label_smoothing must be in \[0, 1\)"):
        wy.linear_cross_entropy(x, weight, labels, label_smoothing=1.0)
    with pytest.raises(ShapeError, match="2 against 3") as error:
        wy.linear_cross_entropy(x, wy.Parameter(np.zeros((4, 3))), labels)
    assert "-4611686018427387904" not in str(error.value)

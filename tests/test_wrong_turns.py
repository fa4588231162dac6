"""What people try first and wyrm does otherwise: each error names what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError, ShapeError


class Batch(wy.Dim): ...


class Features(wy.Dim): ...


# Untyped: the type checker refuses the same calls.
W: Any = wy
BATCH, FEATURES = Batch(), Features(4)
MATRIX: Any = wy.Constant(np.arange(6.0).reshape(2, 3))
INDICES: Any = wy.IndexConstant(np.array([0, 2, 1]))
X: Any = wy.Input(dims=(BATCH, FEATURES), name="x")
WEIGHT: Any = wy.Parameter(np.ones(4, np.float32), name="weight")
LOSS: Any = (X @ WEIGHT).square().mean()
ROWS = np.ones((8, 4), np.float32)
TABLE: Any = wy.data.Dataset(x=ROWS)


def program() -> Any:
    return wy.compile(LOSS, wy.optim.SGD([WEIGHT], 0.0))


TURNS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: W.losses.poisson, AttributeError, r"wy\.losses\.poisson_nll\(rate, target\)"),
    (lambda: W.Parameter.ones, AttributeError, r"wy\.Parameter\(np\.ones\(\(2, 3\)\)\)"),
    (lambda: W.Parameter.normal, AttributeError, r"wy\.nn\.initializers"),
    (lambda: W.Parameter.randn, AttributeError, r"wy\.nn\.initializers"),
    (lambda: WEIGHT.uniform, AttributeError, r"wy\.nn\.initializers"),
    (lambda: MATRIX.one_hot(5), AttributeError, "only integers have classes"),
    (lambda: MATRIX.index(INDICES), AttributeError, r"use x\[indices\]"),
    (lambda: W.Program.step, AttributeError, r"program\(\{x: array\}\)"),
    (lambda: program().step({X: ROWS}), AttributeError, r"program\(\{x: array\}\)"),
    (lambda: W.train.Program, AttributeError, r"wy\.Program"),
    (lambda: LOSS.run, AttributeError, r"x\.forward\(\)"),
    (lambda: LOSS.gradient, AttributeError, r"wy\.grad\(loss, x\)"),
    (lambda: MATRIX.i0(), AttributeError, r"wy\.special\.i0\(x\)"),
    (lambda: W.nn.LearnedPositions(4, 2), AttributeError, r"wy\.nn\.LearnedPositionalEncoding"),
    (lambda: W.data.TokenBlocks(np.arange(9), 2, vocabulary_size=9), TypeError, "did you mean 'vocab_size'"),
    (lambda: W.watch.SummaryWriter, AttributeError, r"wy\.watch\.RunWriter\(folder\)"),
    (lambda: W.SummaryWriter, AttributeError, r"wy\.watch\.RunWriter\(folder\)"),
    (lambda: W.train.fit(program(), ROWS, ROWS[:, 0]), TypeError, r"as one mapping, .*\{x: inputs, y: targets\}"),
    (lambda: W.train.fit(program(), {X: ROWS}, epochs=1, validation=0.2), TypeError, r"train_test_split\(data, 0\.2\)"),
    (lambda: W.train.fit(W.nn.Linear(4, 2), TABLE, epochs=1), OptionError, r"not Linear: program = wy\.compile\("),
    (lambda: W.train.fit(program(), (ROWS,), epochs=1), TypeError, "not tuple; the inputs are: x"),
    (lambda: W.compile(LOSS, W.optim.SGD([WEIGHT], 0.0), metrics=["accuracy"]), TypeError, r"metrics=\{'accuracy': \("),
    (lambda: W.compile({"loss": LOSS}), DTypeError, r"not a dict: give list\(outputs\.values\(\)\)"),
    (lambda: X @ X, ShapeError, r"for products of each row with its row use x\.vector_dot\(y\)"),
    (lambda: X.dot(X), AttributeError, r"use x @ y, or x\.vector_dot\(y\)"),
    (lambda: W.recommend(W.nn.Embedding(3, 2), MATRIX, k=2), DTypeError, r"users\.weight and items\.weight"),
    (lambda: LOSS.forward({X: ROWS}), TypeError, r"takes no arguments: bind data with input\.set\(array\)"),
    (lambda: LOSS.forward(ROWS), TypeError, r"or use wy\.compile\(x\)\(\{input: array\}\)"),
    (lambda: W.quantile(MATRIX, MATRIX, 0.5), TypeError, r"q holds numbers, .* wy\.losses\.quantile\("),
    (lambda: W.losses.gaussian_nll(MATRIX, MATRIX), TypeError, "'variance': give the variance of each element"),
    (lambda: W.nn.MultiHeadAttention(3, 1)(MATRIX, MATRIX, MATRIX), TypeError, r"layer\(x, key=memory, value=memory\)"),
    (lambda: W.Input((BATCH, FEATURES)), ShapeError, r"write dims=\(Batch\(\), Features\(4\)\)"),
    (lambda: W.Input((Batch, 3)), ShapeError, r"write dims=\(Batch, 3\)"),
    (lambda: W.Input(BATCH), ShapeError, r"write dims=\(Batch\(\),\)"),
    (lambda: W.Input((3, 4)), ShapeError, r"write dims=\(3, 4\) .* a list for these numbers, \[3, 4\]"),
    (lambda: W.Parameter((BATCH, FEATURES)), ShapeError, r"write dims=\(Batch\(\), Features\(4\)\)"),
    (lambda: W.IndexInput((BATCH,)), ShapeError, r"write dims=\(Batch\(\),\)"),
    (lambda: W.train.History().history, AttributeError, r"history\['loss'\]"),
    (lambda: W.optim.LBFGS, AttributeError, r"scipy\.optimize\.minimize\(wy\.function\(f\)\.value_and_grad\(\)"),
    (lambda: W.full_like(INDICES, 2.5), DTypeError, r"holds integers, not 2\.5; pass dtype=np\.float32"),
    (lambda: W.bitwise_and(MATRIX > 0.0, MATRIX > 1.0), AttributeError, "x & y"),
    (lambda: W.optim.WarmupCosine(1e-3, warmup_steps=10, steps=99), TypeError, "'warmup_steps': use warmup=, a num"),
    (lambda: W.optim.LinearWarmup(1e-3, warmup_steps=10), TypeError, "LinearWarmup has steps="),
    (lambda: W.optim.OneCycle(1e-3, total_steps=100), TypeError, "use steps=, the number of all batches"),
    (lambda: W.optim.Cosine(1e-3, T_max=100), TypeError, "use steps=, the number of all batches"),
    (lambda: W.optim.Cosine(1e-3, stepz=100), TypeError, "did you mean 'steps'"),
    (lambda: W.nn.GlobalAveragePooling2d(), AttributeError, r"use x\.mean\(axis=\(-2, -1\)\)"),
    (lambda: W.data.random_rotation(ROWS, 10), AttributeError, r"scipy\.ndimage\.rotate in dataset\.map"),
    (lambda: TABLE.shuffle(), AttributeError, r"wy\.data\.DataLoader\(dataset, batch_size\), or shuffle=True"),
    (lambda: TABLE.batch(2), AttributeError, r"wy\.data\.DataLoader\(dataset, batch_size\)"),
    (lambda: W.data.DataLoader(TABLE, 2, transform=abs), TypeError, r"dataset\.map\(function, seed=0\)"),
    (lambda: TABLE.map(lambda columns, generator: columns), TypeError, "'generator': give seed=0 for a random"),
    (lambda: TABLE.map(lambda columns: columns, seed=0), TypeError, "too many .*: leave out seed= if it draws"),
    (lambda: W.cross_entropy(MATRIX, INDICES), AttributeError, r"wy\.losses\.cross_entropy\(logits, labels\), or"),
    (lambda: program().epoch({X: ROWS}, blas_threads=2), TypeError, r"only program\.backward and profile have it"),
    (lambda: W.unique_values(MATRIX), AttributeError, "use NumPy on x.forward"),
]  # fmt: skip


@pytest.mark.parametrize(("turn", "error", "message"), TURNS, ids=[message for _, _, message in TURNS])
def test_a_wrong_turn_is_told_the_way(turn: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        turn()


def test_names_on_a_class_are_plain_where_nothing_is_known() -> None:
    assert not hasattr(W.Program, "nothing") and W.Program.epoch is vars(wy.Program)["epoch"]
    with pytest.raises(AttributeError, match=r"^type object 'Program' has no attribute 'nothing'$"):
        _ = W.Program.nothing


@pytest.mark.parametrize("values", [[3, 4], (3.0, 4.0), np.array([3.0, 4.0])])
def test_numbers_that_are_no_shape_stay_values(values: Any) -> None:
    assert wy.Input(values).value.tolist() == list(values)


def test_a_tuple_beside_axes_is_a_value() -> None:
    assert wy.Input((3, 4), dims=(2,)).value.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("dtype", [None, np.float32, np.float64])
def test_one_hot_of_integers(dtype: Any) -> None:
    labels = wy.IndexInput(np.array([[0, 2], [1, 7]]))
    found = labels.one_hot(3, dtype=dtype)
    assert found.dtype == (dtype or np.float32) and found.shape == (2, 2, 3)
    np.testing.assert_array_equal(found.forward(), np.arange(3) == labels.value[..., None])
    assert np.array_equal(found.value, wy.one_hot(labels, 3, dtype=dtype).forward())


def test_one_hot_of_an_open_axis() -> None:
    labels = wy.IndexInput(dims=(BATCH,), name="labels")
    found = wy.compile(labels.one_hot(3))({labels: np.array([2, 0])})
    assert found.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize(("name", "value"), [("zeros_like", 0), ("ones_like", 1)])
def test_like_integers_are_integers(name: str, value: int) -> None:
    for package in (W, np):
        found = getattr(package, name)(INDICES)
        assert found.dtype == np.int64 and found.forward().tolist() == [value] * 3
    assert getattr(W, name)(INDICES, np.float64).forward().dtype == np.float64
    rows = wy.IndexInput(dims=(BATCH,))
    assert wy.compile(getattr(W, name)(rows))({rows: np.array([5, 6])}).tolist() == [value] * 2


def test_names_of_the_array_standard() -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.0, -1.0])
    calls: list[Any] = [
        lambda m, a, b: m.concat([a, b]),
        lambda m, a, b: m.pow(a, b),
        lambda m, a, b: m.power(2.0, b),
        lambda m, a, b: m.permute_dims(m.stack([a, b]), (1, 0)),
        lambda m, a, b: m.matrix_transpose(m.stack([a, b])),
        lambda m, a, b: m.vecdot(a, b),
        lambda m, a, b: m.astype(a, np.float32),
        *((lambda m, a, b, name=name: getattr(m, name)(a / 4.0)) for name in ("acos", "asin", "atan", "atanh")),
        *((lambda m, a, b, name=name: getattr(m, name)(a)) for name in ("acosh", "asinh")),
        lambda m, a, b: m.atan2(a, b),
        lambda m, a, b: m.cumulative_sum(a),
    ]
    for call in calls:
        found = call(wy, wy.Constant(x), wy.Constant(y)).forward()
        np.testing.assert_allclose(found, call(np, x, y), rtol=1e-15)

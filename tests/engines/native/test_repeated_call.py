"""A repeated call of a program or kernel is fast, and returns the same values as a new one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.native import compiled
from wyrm.graph.storage import stored

FLOAT = np.float32


def graph() -> tuple[Any, Any, Any, Any]:
    x, y = wy.Input(name="x"), wy.Input(dims=(3,), name="y")
    weight = wy.Parameter(2.0, name="weight")
    return x, y, weight, (weight * x + y).tanh().sum()


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, 3],
        [FLOAT(1.0), np.float64(2.0), 3.0],
        [np.array(1.0, FLOAT), np.array(2.0), 3.0, True],
        [0.5, -0.0, 1e-46, 3.3e38],
    ],
    ids=str,
)
def test_numbers_of_every_type_are_what_arrays_of_them_are(values: list[Any]) -> None:
    x, y, _, out = graph()
    program = wy.compile([out, x * 1.0])
    data = np.array([0.1, 0.2, 0.3], FLOAT)
    for value in (*values, *values):
        np.testing.assert_array_equal(
            program({x: value, y: data}), wy.compile([out, x * 1.0])({x: np.asarray(value), y: data})
        )


def test_what_is_not_given_is_what_the_inputs_hold_now() -> None:
    x, y, weight, out = graph()
    program = wy.compile(out)
    y.set([1.0, 2.0, 3.0])
    x.set(1.0)
    for change in (
        lambda: x.set(2.0), lambda: y.set([0.0, 0.5, 1.0]), lambda: weight.set(0.25), lambda: None,
    ):  # fmt: skip
        change()
        for feed in ({x: 0.5}, {}, None, {x: np.array(0.25, FLOAT)}):
            given = x.value if not feed else feed[x]
            expected = np.tanh(weight.value * given + y.value).sum()
            np.testing.assert_allclose(program(feed), expected, rtol=1e-5)


def test_parameters_that_training_moves_are_read_anew() -> None:
    x, y, weight, out = graph()
    program, train = wy.compile(out), wy.compile(out.square(), wy.optim.SGD([weight], 0.1))
    data = np.array([0.1, 0.2, 0.3], FLOAT)
    feed: dict[Any, Any] = {x: 1.0, y: data}
    for _ in range(3):
        before = float(weight)
        np.testing.assert_allclose(program(feed), np.tanh(before + data).sum(), rtol=1e-5)
        train(feed)
        assert float(weight) != before


def test_bad_data_is_refused_after_good_data_and_leaves_no_trace() -> None:
    x, y, _, out = graph()
    program = wy.compile(out)
    data = np.array([0.1, 0.2, 0.3], FLOAT)
    good = program({x: 1.0, y: data})
    steps = program.state_dict()["steps"]
    nan = data.copy()
    nan[1] = np.nan
    refused: list[tuple[Any, type[Exception]]] = [
        ({x: float("nan"), y: data}, wy.errors.NotFinite), ({x: 1e39, y: data}, wy.errors.NotFinite),
        ({x: FLOAT(np.inf), y: data}, wy.errors.NotFinite), ({x: 5.0, y: nan}, wy.errors.NotFinite),
        ({x: 5.0, y: data[:2]}, wy.errors.ShapeError), ({x: data, y: data}, wy.errors.ShapeError),
        ({x: 5.0}, wy.errors.ShapeError), ({x: 5.0, y: data, out: 1.0}, wy.errors.ShapeError),
        ({x: 5.0, y: data, "z": 1.0}, TypeError), ([5.0], TypeError), ({x: "5.0", y: data}, wy.errors.DTypeError),
    ]  # fmt: skip
    for feed, error in refused:
        with pytest.raises(error):
            program(feed)
        np.testing.assert_array_equal(program({x: 1.0, y: data}), good)
    assert program.state_dict()["steps"] == steps + len(refused)


def test_other_sizes_between() -> None:
    class Batch(wy.Dim): ...

    x = wy.Input(dims=(Batch(), 2))
    program = wy.compile((x * 2.0).sum(axis=0))
    for rows in (3, 3, 1, 1, 3, 0, 0, 3):
        data = np.arange(2.0 * rows, dtype=FLOAT).reshape(rows, 2)
        np.testing.assert_array_equal(program({x: data}), 2.0 * data.sum(0))
        np.testing.assert_array_equal(program({x: np.asfortranarray(data)}), 2.0 * data.sum(0))


def test_results_are_not_overwritten_by_the_next_call() -> None:
    x, y, _, out = graph()
    program = wy.compile([out, (y * x).reshape(3, 1).transpose()])
    results = [program({x: float(i), y: np.ones(3, FLOAT)}) for i in range(4)]
    for i, (_, product) in enumerate(results):
        np.testing.assert_array_equal(product, np.full((1, 3), float(i)))


def test_random_nodes_draw_for_each_call() -> None:
    x = wy.Input(dims=(64,))
    node = x.dropout(0.5)
    one, other = wy.compile(node), wy.compile(node)
    data = np.ones(64, FLOAT)
    many = [one({x: data}) for _ in range(4)]
    assert len({array.tobytes() for array in many}) == 4
    other.load_state_dict({"steps": 2, "epochs": 0})
    np.testing.assert_array_equal(other({x: data}), many[2])
    np.testing.assert_array_equal(other({x: data}), many[3])


def test_indices_are_checked_in_each_call() -> None:
    rows, table = wy.IndexInput(dims=(2,), name="rows"), wy.Parameter(np.arange(6.0).reshape(3, 2))
    program = wy.compile(table.index(rows).sum())
    for good in ([0, 1], [1, 2]):
        assert float(program({rows: np.array(good)})) == float(table.value[good].sum())
        with pytest.raises(IndexError):
            program({rows: np.array([0, 3])})


def test_a_function_takes_numbers_for_what_the_arrays_beside_them_make_of_them() -> None:
    def plain(x: Any, y: Any) -> Any:
        return x * y + x

    quick = wy.function(plain, engine="native")
    third = 1.0 / 3.0
    calls: list[tuple[Any, Any]] = [
        (third, 2.0), (third, np.array(2.0)), (third, 2.0), (np.array(third), 2.0), (third, np.array(2.0, FLOAT)),
        (third, np.ones(3)), (third, np.ones(3, FLOAT)), (third, 2), (third, FLOAT(2.0)), (third, 3.0),
    ]  # fmt: skip
    for x, y in (*calls, *reversed(calls)):
        found, expected = quick(x, y), wy.function(plain)(x, y)
        assert found.dtype == expected.dtype and type(found) is type(expected)
        np.testing.assert_array_equal(found, expected)


def test_a_native_function_copies_what_it_returns_and_reads_what_it_closes_over() -> None:
    weight = wy.Parameter([1.0, 2.0])
    double = wy.function(lambda x: x * weight, engine="native")
    data = np.array([1.0, 1.0], FLOAT)
    first = double(data)
    weight.set([3.0, 4.0])
    second = double(data)
    data[...] = 2.0
    assert (first.tolist(), second.tolist(), double(data).tolist()) == ([1.0, 2.0], [3.0, 4.0], [6.0, 8.0])


def test_an_array_that_a_leaf_holds_instead_is_read() -> None:
    x, y, weight, out = graph()
    program, data = wy.compile(out), np.array([0.1, 0.2, 0.3], FLOAT)
    program({x: 1.0, y: data})
    stored(weight).array = np.array(0.5, FLOAT)
    np.testing.assert_allclose(program({x: 1.0, y: data}), np.tanh(0.5 + data).sum(), rtol=1e-5)


class Rows(wy.Dim): ...


def test_indices_are_checked_in_every_call() -> None:
    table = wy.Parameter(np.arange(10.0).reshape(5, 2))
    picked, once = wy.IndexInput(dims=(Rows(),), name="picked"), wy.IndexInput(dims=(), name="once")
    program = wy.compile([table.index(picked), table.index(once)])
    good: dict[Any, Any] = {picked: np.array([4, 0, 1]), once: np.array(2)}
    expected = program(good)
    for place, wrong in (
        (picked, np.array([4, 0, 5])), (picked, np.array([0, -1, 0])), (once, np.array(5)), (once, np.array(-1)),
    ):  # fmt: skip
        with pytest.raises(wy.errors.IndexOutOfRange):
            program({**good, place: wrong})
        for have, want in zip(program(good), expected, strict=True):
            np.testing.assert_array_equal(have, want)


def test_indices_into_what_the_data_gives_a_size_are_checked_in_every_call() -> None:
    logits, labels = wy.Input(dims=(2, Rows()), name="logits"), wy.IndexInput(dims=(2,), name="labels")
    program = wy.compile(logits.cross_entropy(labels))
    data, chosen = np.arange(8.0, dtype=FLOAT).reshape(2, 4), np.array([3, 0])
    expected = program({logits: data, labels: chosen})
    for held in (False, True):
        if held:
            labels.set(chosen)
        for _ in range(2):
            good, short = (
                {logits: each} if held else {logits: each, labels: chosen} for each in (data, data[:, :3].copy())
            )
            np.testing.assert_array_equal(program(good), expected)
            with pytest.raises(wy.errors.IndexOutOfRange):
                program(short)
            with pytest.raises(wy.errors.IndexOutOfRange):
                program({logits: data, labels: chosen + 1})


class Columns(wy.Dim): ...


CHANGES: dict[str, Any] = {"shape": (1, 9), "strides": (8, 24), "dtype": np.dtype(np.int64)}
changes = pytest.mark.parametrize("attribute", CHANGES)
attributes_are_assigned = pytest.mark.filterwarnings(r"ignore:Setting the \w+ on:DeprecationWarning")


@attributes_are_assigned
@changes
@pytest.mark.parametrize("loop", ["compiled", "python"])
def test_an_array_is_changed_in_place_between_calls_of_a_program(attribute: str, loop: Any) -> None:
    x: Any = wy.Input(dims=(Rows(), Columns()), name="x", dtype=np.float64)
    scale = wy.Parameter(np.float64(1.0), name="scale")
    program = wy.compile(x.T * 2.0, loop=loop)
    train = wy.compile((x[0] * scale).sum(), wy.optim.SGD([scale], 0.0), loop=loop)
    function: Any = wy.function(lambda x: x.T * 2.0, engine="native")
    data = np.arange(9.0).reshape(3, 3)
    for change in (False, True):
        if change:
            setattr(data, attribute, CHANGES[attribute])
        for _ in range(2):
            np.testing.assert_array_equal(program({x: data}), data.T * 2.0)
            assert train.epoch({x: data}, batch_size=len(data)) == data[0].astype(np.float64).sum()
            if data.dtype == np.float64:  # integers are indices to a function
                np.testing.assert_array_equal(function(data), data.T * 2.0)


def last_row(x: Any) -> Any:
    total = 0.0
    for j in range(x.shape[1]):
        total += x[-1, j]
    return total


@attributes_are_assigned
@changes
def test_an_array_is_changed_in_place_between_calls_of_a_kernel(attribute: str) -> None:
    kernel, data = compiled(last_row), np.arange(9.0).reshape(3, 3)
    assert kernel(data) == last_row(data)
    setattr(data, attribute, CHANGES[attribute])
    assert kernel(data) == last_row(data)

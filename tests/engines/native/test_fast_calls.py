"""Calls of small programs and functions that were called often take what a full call takes, and refuse the same."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.run.calls import OFTEN
from wyrm.errors import IndexOutOfRange, NotFinite, ShapeError, WyrmError

ONES = np.ones(4, np.float32)


class Batch(wy.Dim): ...


def often(call: Callable[[], Any]) -> Any:
    for _ in range(OFTEN + 5):
        found = call()
    return found


def _checks_natively(program: Any) -> bool:
    return not program._engine._free[-1].repeated._left


def _weighted() -> tuple[Any, Any, Any]:
    x, weights = wy.Input(dims=(4,), name="x"), wy.Parameter(np.arange(4, dtype=np.float32))
    return x, weights, wy.compile([(x * weights).sum(), x * weights])


def test_a_fast_call_takes_what_a_full_call_takes() -> None:
    x, _, program = _weighted()
    often(lambda: program({x: ONES}))
    assert _checks_natively(program)
    data = np.arange(8, dtype=np.float32)
    given: list[Any] = [
        data[:4], data[::2], data[3::-1], data[:4].astype(np.float64), data[:4].astype(np.int32), [1.0, 2.0, 3.0, 4.0],
        np.ma.array(data[:4]).data, data[:4].astype(">f4"),
    ]  # fmt: skip
    for each in given:
        for _ in range(2):
            total, product = program({x: each})
            expected = np.asarray(each, np.float32) * np.arange(4, dtype=np.float32)
            np.testing.assert_array_equal(product, expected)
            assert total == expected.sum() and total.shape == () and total.dtype == np.float32
    assert (program({"x": data[:4]})[1] == data[:4] * np.arange(4)).all()


def test_a_fast_call_refuses_what_a_full_call_refuses() -> None:
    x, _, program = _weighted()
    wrong: list[Any] = [
        {}, None, {x: ONES[:3]}, {x: ONES[:, None]}, {x: np.array([1.0, np.nan, 0.0, 0.0], np.float32)}, {x: "text"},
        {x: ONES * np.float32(np.inf)}, {wy.Input(dims=(4,), name="x"): ONES}, {x: ONES, "y": ONES}, {x: None},
        {x: 1.0}, {x: np.float32(1.0)}, [ONES], {x: np.full(4, 1e300)}, {x: ONES.astype(np.complex64)},
    ]  # fmt: skip

    def refusals() -> list[Any]:
        found: list[Any] = []
        for each in wrong:
            with pytest.raises((WyrmError, TypeError)) as raised:
                program(each)
            found.append((type(raised.value), str(raised.value)))
            assert (program({x: ONES})[1] == np.arange(4)).all()
        return found

    before = refusals()
    often(lambda: program({x: ONES}))
    assert _checks_natively(program)
    assert refusals() == before


def test_results_have_their_own_memory_and_parameters_may_change() -> None:
    x, weights, program = _weighted()
    results = [program({x: ONES})[1] for _ in range(OFTEN + 5)]
    results[-1][:] = 7.0
    assert all((each == np.arange(4)).all() for each in results[:-1])
    weights.set(np.full(4, 3.0, np.float32))
    assert (program({x: ONES})[1] == 3.0).all()
    other = wy.Input(np.full(4, 2.0, np.float32), name="other")
    held = wy.compile(other * x)
    often(lambda: held({x: ONES, other: ONES}))
    assert (held({x: ONES}) == 2.0).all()
    other.set(np.full(4, 5.0, np.float32))
    assert (held({x: ONES}) == 5.0).all() and (held({x: ONES, other: ONES}) == 1.0).all()


def test_numbers_and_open_axes() -> None:
    number = wy.Input(name="number")
    double = wy.compile(number * 2.0)
    often(lambda: double({number: 1.5}))
    for value in (2.5, np.float32(2.5), np.float64(2.5), np.array(2.5, np.float32), np.array(2.5)):
        assert double({number: value}) == 5.0
    assert double({number: 3}) == 6.0
    for wrong in (np.inf, np.nan, 1e300, 10**400):
        with pytest.raises((NotFinite, WyrmError, OverflowError)):
            double({number: wrong})
    rows = wy.Input(dims=(Batch(), 3), name="rows")
    sums = wy.compile(rows.sum(1))
    for count in (4, 7, 4):
        often(lambda count=count: sums({rows: np.ones((count, 3), np.float32)}))  # type: ignore[misc]  # a default
        assert (sums({rows: np.full((count, 3), 2.0, np.float32)}) == np.full(count, 6.0)).all()
    with pytest.raises(ShapeError):
        sums({rows: np.ones((4, 2), np.float32)})


@pytest.mark.parametrize("ignored", [None, -100])
def test_indices_are_checked(ignored: int | None) -> None:
    table, rows = wy.Parameter(np.eye(5, dtype=np.float32)), wy.IndexInput(dims=(3,), name="rows")
    if ignored is None:
        program: Any = wy.compile(table.take(rows, axis=0))
    else:
        program = wy.compile(wy.losses.cross_entropy(table[:3], rows, ignore_index=ignored))
    good = np.array([0, 4, 2])
    expected = often(lambda: program({rows: good}))
    for bad in (5, -6, 2**62, -(2**62)):
        for _ in range(2):
            with pytest.raises(IndexOutOfRange, match="rows holds"):
                program({rows: np.array([1, bad, 0])})
        assert (program({rows: good}) == expected).all()
    if ignored is not None:
        assert np.isfinite(program({rows: np.array([1, ignored, 0])}))


def test_what_calls_take_natively_needs_no_full_call(monkeypatch: pytest.MonkeyPatch) -> None:
    x, labels = wy.Input(dims=(3, 5), name="x"), wy.IndexInput(dims=(3,), name="labels")
    scale, large = wy.Input(name="scale"), wy.Input(np.ones((200, 200), np.float32), name="large")
    loss = wy.losses.cross_entropy(x * scale, labels, ignore_index=-100) + large.mean()
    program: Any = wy.compile(loss)
    data, good = np.arange(15, dtype=np.float32).reshape(3, 5), np.array([0, 4, 2])
    ones = np.ones((200, 200), np.float32)
    feeds: list[dict[Any, Any]] = [
        {x: data, labels: good, scale: 1.5},
        {x: data[:, ::-1], labels: np.array([1, -100, -100]), scale: np.float32(0.5)},
        {x: pickle.loads(pickle.dumps(data)), labels: good[::-1], scale: np.array(0.5, np.float32), large: 2.0 * ones},
        {x: data, labels: good, scale: 1.5, large: (2.0 * ones).T},
    ]
    expected = [program(feed) for feed in feeds]
    often(lambda: program(feeds[0]))
    with monkeypatch.context() as patch:
        patch.setattr(program._engine, "run", None)
        for _ in range(2):
            np.testing.assert_array_equal([program(feed) for feed in feeds], expected)
    for bad in (5, -1, -101, 2**62):
        with pytest.raises(IndexOutOfRange, match="labels holds"):
            program({**feeds[0], labels: np.array([1, bad, 0])})
    with pytest.raises(NotFinite, match="large holds"):
        program({**feeds[0], large: ones * np.float32(np.nan)})
    large.set(3.0 * ones)
    np.testing.assert_allclose(program(feeds[0]), expected[0] + 2.0, rtol=1e-6)


def test_a_program_that_may_fail_reads_large_inputs_where_they_are() -> None:
    x, rows = wy.Input(dims=(64, 512), name="x"), wy.IndexInput(dims=(3,), name="rows")
    program: Any = wy.compile(x.take(rows + 1, axis=0))
    for turn in range(OFTEN + 5):
        data = np.full((64, 512), turn, np.float32)
        assert (program({x: data, rows: np.array([0, 62, 5])}) == turn).all()
        if turn in (1, OFTEN + 3):
            for _ in range(2):
                with pytest.raises(IndexOutOfRange):
                    program({x: data, rows: np.array([0, 63, 5])})


def test_draws_go_on() -> None:
    x = wy.Input(dims=(4,), name="x")
    programs = [wy.compile(x + wy.random.normal((4,), seed=3, stream=1)) for _ in range(2)]
    fast = [programs[0]({x: ONES}) for _ in range(OFTEN + 20)]
    for number, found in enumerate(fast):
        programs[1].load_state_dict({"steps": number, "epochs": 0})
        np.testing.assert_array_equal(found, programs[1]({x: ONES.tolist()}))
    with wy.random.at_step(3):
        np.testing.assert_array_equal(programs[0]({x: ONES}), fast[3])
    assert programs[0].state_dict()["steps"] == OFTEN + 20


def test_functions_in_one_call() -> None:
    square = wy.function(lambda x, y: ((x * y).square().sum(), x + y)[0], engine="native")
    both = square.value_and_grad(wrt=(0, 1))
    x, y = np.arange(3.0), np.full(3, 2.0)

    def check(first: Any, second: Any, dtype: Any = np.float64) -> None:
        value, (left, right) = both(first, second)
        a, b = np.asarray(first, dtype), np.asarray(second, dtype)
        assert value == pytest.approx(((a * b) ** 2).sum()) and value.dtype == dtype
        np.testing.assert_allclose(left, np.broadcast_to(2 * a * b * b, left.shape))
        assert left.shape == a.shape and right.shape == b.shape

    for _ in range(3):
        often(lambda: both(x, y))
        check(x + 1.0, y)
        check(x[::-1], y[::-1])
        check(x.astype(np.float32), y.astype(np.float32), np.float32)
        check(np.arange(4.0), np.arange(4.0))
    wrong: list[Any] = [(x, y[:2]), (x,), (x, y, y), (x, "text")]
    for arguments in wrong:
        with pytest.raises((WyrmError, TypeError, ValueError)):
            both(*arguments)
    check(x, y)


def test_functions_that_do_not_read_an_argument() -> None:
    slope = wy.function(lambda x: (3.0 * x).sum(), engine="native").grad()
    for size in (3, 40_000):
        for dtype in (np.float32, np.float64):
            found = often(lambda size=size, dtype=dtype: slope(np.ones(size, dtype)))  # type: ignore[misc]  # defaults
            assert found.shape == (size,) and found.dtype == dtype and (found == 3.0).all()
    constant: Any = wy.function(lambda: wy.Constant(2.0) * 3.0, engine="native")
    assert often(constant) == 6.0
    with pytest.raises(TypeError):
        constant(1.0)


def test_functions_of_numbers() -> None:
    cube = wy.function(lambda x: x * x * x, engine="native").value_and_grad()
    value, slope = often(lambda: cube(2.0))
    assert (value, slope) == (8.0, 12.0) and value.dtype == np.float32
    value, slope = often(lambda: cube(np.array(2.0)))
    assert (value, slope) == (8.0, 12.0) and value.dtype == np.float64
    assert cube(2.0)[0].dtype == np.float32
    assert np.isnan(cube(np.nan)[0]) and np.isinf(cube(np.inf)[0])
    scaled = wy.function(lambda x, factor: (x * factor).sum(), engine="native")
    for dtype in (np.float32, np.float64):
        x = np.ones(3, dtype)
        assert often(lambda x=x: scaled(x, 0.1)).dtype == dtype  # type: ignore[misc]  # a default
        assert scaled(x, 0.1) == pytest.approx(0.3) and scaled(x, 2) == 6.0


def test_shapes_in_turn() -> None:
    x = wy.Input(dims=(Batch(), 3), name="x")
    program: Any = wy.compile([(2.0 * x).sum(1), x.sum()])
    for turn in range(2 * OFTEN):
        for rows in (4, 4, 20_000, 7, 20_000, 20_000):
            sums, total = program({x: np.full((rows, 3), turn, np.float32)})
            assert sums.shape == (rows,) and (sums == 6.0 * turn).all() and total == 3.0 * rows * turn
    bindings = [weakref.ref(binding) for binding in program._engine.runner._held()]
    gc.disable()
    try:
        program._engine._free.clear()
        program._engine.runner.release()
        assert len(bindings) == 3 and not any(binding() for binding in bindings)  # their memory is free at once
    finally:
        gc.enable()
    assert program({x: np.ones((4, 3), np.float32)})[1] == 12.0


def test_threads_call_one_program() -> None:
    x, _, program = _weighted()
    often(lambda: program({x: ONES}))
    wrong: list[int] = []

    def work(number: int) -> None:
        data = ONES * np.float32(number)
        wrong.extend(number for _ in range(300) if (program({x: data})[1] != np.arange(4) * number).any())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong

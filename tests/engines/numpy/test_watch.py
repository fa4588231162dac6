"""`watch_nan` finds the first NaN, and `time_ops` measures the time of each op."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotFinite


def test_the_first_nan_is_named_with_its_operands() -> None:
    x: Any = wy.Parameter([1.0, -2.0], name="x")
    y = x.log()
    loss = (y * 0.0).sum()
    assert np.isnan(loss.forward())
    with wy.watch_nan(), pytest.raises(NotFinite) as error:
        loss.forward()
    message = str(error.value)
    assert message.startswith("log: the first NaN is at position (1,)")
    assert "y = x.log()" in message
    assert "x (2,) float32" in message and "ranges from -2.0 to 1.0" in message


def test_a_nan_that_only_the_gradient_has() -> None:
    x: Any = wy.Parameter(0.0, name="x")
    loss = x.sqrt() * 0.0
    with wy.watch_nan():
        assert loss.forward() == 0.0
        with pytest.raises(NotFinite, match="divide: the first NaN") as error:
            loss.backward()
    assert "loss = x.sqrt() * 0.0" in str(error.value)
    assert x.gradient == 0.0
    loss.backward()
    assert np.isnan(x.gradient)


def test_infinities_on_request() -> None:
    x: Any = wy.Parameter(0.0, name="x")
    loss = 1.0 / x
    with wy.watch_nan():
        assert np.isinf(loss.forward())
    with wy.watch_nan(infinity=True), pytest.raises(NotFinite, match=r"divide: the first infinity is at position \(\)"):
        loss.forward()


def test_a_nan_in_an_input_is_found_at_its_first_use() -> None:
    x = wy.Input(np.array([1.0, np.nan]), name="x", finite=False)
    with wy.watch_nan(), pytest.raises(NotFinite, match="multiply: the first NaN"):
        (x * 2.0).forward()


def test_a_nan_in_the_rows_of_a_table() -> None:
    table = wy.Parameter(np.ones((3, 2)), name="table")
    loss = (table.index([1, 1]) * 0.0).sqrt().sum()
    with wy.watch_nan(infinity=True), pytest.raises(NotFinite, match="divide: the first infinity"):
        loss.backward()


def test_values_are_right_after_watching() -> None:
    p: Any = wy.Parameter([1.0, 2.0])
    h = p * 2.0
    loss, other = h.sum(), (h * h).sum()
    for value in (1.0, 2.0, 3.0):
        p.set([value, value])
        with wy.watch_nan():
            assert loss.forward() == 4.0 * value
        assert other.forward() == 8.0 * value * value
        p.set([0.0, value])
        assert loss.forward() == 2.0 * value
        with wy.watch_nan():
            assert other.forward() == 4.0 * value * value


def test_calls_and_seconds_by_op() -> None:
    p: Any = wy.Parameter([1.0, 2.0])
    loss = (p.exp() * p.exp().sin()).sum()
    loss.forward()
    with wy.time_ops() as timing:
        loss.forward()
        loss.forward()
    assert dict(timing.calls) == {"exp": 2, "sin": 2, "multiply": 2, "sum": 2}
    assert all(seconds >= 0.0 for seconds in timing.seconds.values())
    lines = str(timing).splitlines()
    assert lines[0].split() == ["op", "calls", "total", "ms", "us/call"] and len(lines) == 5
    with wy.time_ops() as timing:
        loss.backward()
    assert timing.calls["exp"] == 1 and timing.calls["cos"] == 1


def test_watching_and_timing_at_once() -> None:
    p: Any = wy.Parameter(-1.0)
    loss = p.exp().log().sqrt()
    for first, second in ((wy.watch_nan, wy.time_ops), (wy.time_ops, wy.watch_nan)):
        with first() as a, second() as b, pytest.raises(NotFinite, match="sqrt"):
            loss.forward()
        timing = a or b
        assert isinstance(timing, wy.Timing) and timing.calls["log"] == 1
    with wy.time_ops() as outer, wy.time_ops() as inner:
        loss.forward()
    assert outer.calls == inner.calls
    assert np.isnan(loss.forward())

"""Ctrl-C and other signals take effect between two updates, so that each update is atomic."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.numpy import reference
from wyrm.graph import storage
from wyrm.optim.rule import Rule
from wyrm.support import interrupts
from wyrm.support.interrupts import deferred, deliver


@pytest.fixture(autouse=True)
def _handlers_are_put_back() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)
    yield
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)) == before


def press() -> None:
    """Raise SIGINT, as Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


def pressed_after(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return a function that calls `function` and raises SIGINT at the end of call number `count`."""
    calls = 0

    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        found = function(*arguments, **keywords)
        calls += 1
        if calls == count:
            press()
        return found

    return wrapped


def test_a_signal_is_deferred_to_the_end() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deferred:
        press()
        done.append(1)
        with deferred:
            press()
        done.append(2)
    assert done == [1, 2]


def test_deliver_runs_pending_handlers() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deferred:
        deliver()
        done.append(1)
        press()
        deliver()
        done.append(2)
    assert done == [1]


def test_every_python_handler_is_deferred_and_none_is_lost() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    try:
        with pytest.raises(KeyboardInterrupt), deferred:
            press()
            signal.raise_signal(signal.SIGUSR1)
            assert not came
        assert came == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_handler_may_install_another_one() -> None:
    def first(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, second)

    def second(number: int, frame: object) -> None:
        raise AssertionError("the replaced handler must not run for the same signal")

    before = signal.signal(signal.SIGINT, first)
    try:
        with deferred:
            press()
            deliver()
        assert signal.getsignal(signal.SIGINT) is second
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_inside_and_the_signal_both_propagate() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, deferred:
        press()
        raise ValueError("inside")
    assert isinstance(caught.value.__context__, ValueError)


def test_deferring_in_another_thread_delays_nothing() -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with deferred:
            inside.set()
            assert leave.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)
    with pytest.raises(KeyboardInterrupt):
        press()
    leave.set()
    thread.join()


# --- the reference engine --------------------------------------------------------------------------------------------


def trained(steps: int) -> tuple[list[Any], wy.optim.Adam]:
    parameters = [wy.Parameter(np.full(2, 1.0), name="a"), wy.Parameter(np.full(2, 2.0), name="b")]
    optimizer = wy.optim.Adam(parameters, 0.1)
    loss: Any = (parameters[0] * parameters[1]).sum()
    for _ in range(steps):
        loss.backward()
        optimizer.step()
        loss.zero_gradient()
    loss.backward()
    return parameters, optimizer


@pytest.mark.parametrize("which", [1, 2])
def test_an_optimizer_step_is_atomic(which: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during the update of the first parameter, and of the second."""
    parameters, optimizer = trained(3)
    monkeypatch.setattr(Rule, "move", pressed_after(Rule.move, which))
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    monkeypatch.undo()
    want, peer = trained(4)
    assert optimizer.steps == 4
    for key, array in peer.state_dict().items():
        np.testing.assert_array_equal(optimizer.state_dict()[key], array)
    for mine, other in zip(parameters, want, strict=True):
        np.testing.assert_array_equal(mine.value, other.value)


def test_accumulating_gradients_is_atomic(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters, _ = trained(0)
    loss = (parameters[0] * parameters[1]).sum()
    monkeypatch.setattr("wyrm.engines.numpy.reference.accumulate", pressed_after(reference.accumulate, 1))
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
    assert parameters[0].gradient.tolist() == [4.0, 4.0]
    assert parameters[1].gradient.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("clip", [wy.optim.clip_by_value, wy.optim.clip_by_global_norm])
def test_clipping_gradients_is_atomic(clip: Any) -> None:
    class Pressing(np.ndarray):
        """An array that raises SIGINT while it is clipped."""

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **keywords: Any) -> Any:
            plain = [np.asarray(each) for each in inputs]
            if not out:
                return getattr(ufunc, method)(*plain, **keywords)
            getattr(ufunc, method)(*plain, out=tuple(map(np.asarray, out)), **keywords)
            if ufunc.__name__ in ("multiply", "clip"):
                press()
            return out[0]

    parameters, _ = trained(0)
    for parameter in parameters:
        storage.stored(parameter).gradient = np.full(2, 3.0).view(Pressing)
    with pytest.raises(KeyboardInterrupt):
        clip(parameters, 1.0)
    assert np.array_equal(*(parameter.gradient for parameter in parameters))
    assert float(np.max(parameters[0].gradient)) <= 1.0


def test_an_interrupted_set_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after the data of a leaf has changed but before its version has."""
    x = wy.Parameter(1.0)
    doubled = x * 2.0
    doubled.forward()
    calls = iter([False, True])
    tick = storage.tick

    def pressed_at_the_end() -> int:
        if next(calls):
            press()
        return tick()

    monkeypatch.setattr(storage, "tick", pressed_at_the_end)
    with pytest.raises(KeyboardInterrupt):
        x.set(5.0)
    monkeypatch.undo()
    assert (float(x), float(doubled.forward())) == (5.0, 10.0)


def test_a_handler_left_installed_passes_signals_on() -> None:
    """A deferring handler that was left installed after its section passes signals on to the previous handler."""
    before = signal.getsignal(signal.SIGINT)
    with deferred:
        left: Any = signal.getsignal(signal.SIGINT)
    assert left is interrupts._hold
    signal.signal(signal.SIGINT, left)
    with pytest.raises(KeyboardInterrupt):
        press()
    assert signal.getsignal(signal.SIGINT) is before

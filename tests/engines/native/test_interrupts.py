"""Whatever ends an epoch or a call, the counts equal the steps done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines import epochs
from wyrm.engines.native.run import epoch as epoch_state
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.errors import Diverged, IndexOutOfRange

ROWS = 200


class Batch(wy.Dim): ...


class Case:
    """A program that subtracts 1 from every table row that it visits, which counts its steps."""

    def __init__(self, loop: Any = "auto") -> None:
        batch = Batch()
        self.table = wy.Parameter(np.zeros((ROWS, 2), np.float32), name="table")
        self.rows = wy.IndexInput(dims=(batch,), name="rows")
        self.optimizer = wy.optim.SGD([self.table], 1.0)
        self.program = wy.compile(self.table.index(self.rows).sum(), self.optimizer, loop=loop)
        self.doubled = self.table * 2.0
        self.doubled.forward()

    def epoch(self, **options: Any) -> float:
        return self.program.epoch({self.rows: np.arange(ROWS)}, **options)

    def made(self) -> int:
        """Return the number of steps done, of one row each; all counters agree on it."""
        made = int(np.count_nonzero(self.table.value[:, 0]))
        counted = self.optimizer.state_dict()
        assert [int(counted["steps"]), counted["counts"].tolist()] == [made, [made]]
        assert self.program.state_dict()["steps"] == made
        np.testing.assert_array_equal(self.doubled.forward(), self.table.value * 2.0)
        return made


def pressed_after(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Wrap a function to press Ctrl-C in the main thread at the end of its n-th call there."""
    calls = 0

    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        found = function(*arguments, **keywords)
        if threading.current_thread() is threading.main_thread():
            calls += 1
            if calls == count:
                signal.raise_signal(signal.SIGINT)
        return found

    return wrapped


def copy_after(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_state, "_COPY_SECONDS", seconds)
    monkeypatch.setattr(epoch_state, "_COPY_RARELY", 0.0)


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make chunks one step long, with a snapshot after each."""
    monkeypatch.setattr(epochs, "_CHUNK", 0.0)
    copy_after(0.0, monkeypatch)


@pytest.mark.parametrize("chunk", [0.0, 1.0])
@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"threads": 2, "mode": "synchronized"}])
def test_an_interrupted_epoch_has_counted_its_steps(
    options: Any, chunk: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the main thread's first chunk, of one step or of fifty."""
    monkeypatch.setattr(epochs, "_CHUNK", chunk)
    case = Case()
    cast(Any, case.program._engine).pace.rate = 50.0
    monkeypatch.setattr(NativeRunner, "call", pressed_after(NativeRunner.call, 1))
    with pytest.raises(KeyboardInterrupt):
        case.epoch(**options)
    monkeypatch.undo()
    assert case.made() >= (50 if chunk and not options else 1)
    # The next epoch works as usual.
    case.table.set(np.zeros((ROWS, 2)))
    before = case.optimizer.steps
    case.epoch(**options)
    assert case.optimizer.steps == before + ROWS


def test_an_interrupted_call_has_counted_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case()
    case.program({case.rows: [3]})
    monkeypatch.setattr(NativeRunner, "call", pressed_after(NativeRunner.call, 1))
    with pytest.raises(KeyboardInterrupt):
        case.program({case.rows: [4]})
    monkeypatch.undo()
    assert case.made() == 2


def test_an_interrupt_inside_a_step_of_a_python_loop_waits_for_its_end(
    short_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = wy.Parameter(np.ones(3), name="a"), wy.Parameter(np.ones(3), name="b")
    x = wy.Input(dims=(Batch(),), name="x", dtype=np.float64)
    optimizer = wy.optim.Adam([a, b], 0.1)
    program = wy.compile((a * x.sum()).sum() + (b * 2.0).sum(), optimizer, loop="python")
    program.epoch({x: [1.0]})
    entries = cast(Any, program._engine).runner._entries
    (update,) = (function for function in entries if function.__name__.startswith("update_all"))
    monkeypatch.setitem(entries, update, pressed_after(entries[update], 7))
    with pytest.raises(KeyboardInterrupt):
        program.epoch({x: np.ones(40)})
    # The interrupt came in the fourth step, between the updates of the two parameters.
    assert optimizer.steps == 1 + 4 == program.state_dict()["steps"]
    np.testing.assert_allclose(a.value, b.value)
    np.testing.assert_allclose(a.value, 1.0 - 0.1 * 5, rtol=1e-6)


def test_a_handler_that_does_not_raise_sees_whole_steps_and_the_epoch_goes_on(short_chunks: None) -> None:
    case = Case()
    seen: list[dict[str, int]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(case.program.state_dict()))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NativeRunner, "call", pressed_after(NativeRunner.call, 5))
            case.epoch()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [{"steps": 5, "epochs": 0}]
    assert case.made() == ROWS


@pytest.mark.parametrize("options", [{}, {"threads": 2}])
def test_an_index_error_in_mid_epoch_leaves_the_steps_before_it_counted(options: Any) -> None:
    scores = wy.Input(dims=(Batch(), 4), name="scores")
    table = wy.Parameter(np.zeros((3, 2), np.float32), name="table")
    optimizer = wy.optim.SGD([table], 1.0)
    program = wy.compile(table.index(scores.argmax(axis=1)).sum(), optimizer)
    doubled = table * 2.0
    doubled.forward()
    chosen = np.arange(ROWS) % 3
    chosen[150] = 3
    data = np.eye(4, dtype=np.float32)[chosen]
    with pytest.raises(IndexOutOfRange):
        program.epoch({scores: data}, **options)
    made = int(-table.value[:, 0].sum())
    assert made == 150 if not options else made >= 50
    assert made == optimizer.steps == program.state_dict()["steps"]
    np.testing.assert_array_equal(doubled.forward(), table.value * 2.0)


def diverging() -> tuple[Any, Any, Any, Any]:
    """Return a weight, its optimizer, a program whose loss is not finite from batch 7 on, and data."""
    x = wy.Input(dims=(Batch(),), name="x", dtype=np.float64)
    weight = wy.Parameter(np.ones(2), name="weight")
    optimizer = wy.optim.Adam([weight], 0.125)
    program = wy.compile((weight * 1.0).sum() * x.square().mean(), optimizer)
    data = np.ones(20)
    data[12:] = 1e200
    return weight, optimizer, program, {x: data}


@pytest.mark.parametrize("options", [{}, {"threads": 2, "mode": "synchronized"}])
@pytest.mark.parametrize("kept", [0, 6])
def test_what_diverged_is_taken_back_with_its_counts(options: Any, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "_CHUNK", 0.0 if kept else 1e9)
    copy_after(0.0 if kept else 1e9, monkeypatch)
    weight, optimizer, program, columns = diverging()
    with pytest.raises(Diverged, match=f"batch 7 at learning rate 0.125; .* after batch {kept}[.]"):
        program.epoch(columns, batch_size=2, **options)
    counted = optimizer.state_dict()
    assert (optimizer.steps, counted["counts"].tolist(), program.state_dict()["steps"]) == (kept, [kept], kept)
    peer, other, again, (column,) = (*diverging()[:3], tuple(columns))
    if kept:
        (leaf,) = again.inputs
        again.epoch({leaf: columns[column][: 2 * kept]}, batch_size=2, **options)
    np.testing.assert_array_equal(weight.value, peer.value)
    for key, array in other.state_dict().items():
        np.testing.assert_array_equal(counted[key], array)


@pytest.mark.parametrize("batch", [3, 5])
@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"threads": 2, "mode": "synchronized"}])
def test_a_schedule_is_called_only_for_steps_that_run(options: Any, batch: int) -> None:
    """For 23 rows: with threads of unequal shares, and with a smaller last batch."""
    x = wy.Input(dims=(Batch(),), name="x", dtype=np.float64)
    weight = wy.Parameter(np.zeros(1), name="weight")
    steps = -(-23 // batch)
    rates = [2.0**-i for i in range(steps)]  # a list, so that a step beyond it is an IndexError
    optimizer = wy.optim.SGD([weight], lambda step: rates[step])
    program = wy.compile((weight * x.mean()).sum(), optimizer)
    program.epoch({x: np.ones(23)}, batch_size=batch, **options)
    assert float(weight.value[0]) == -sum(rates)
    assert optimizer.steps == steps


def test_a_program_counts_the_steps_of_its_own_parameters() -> None:
    """As in a step of the reference, which skips parameters without a gradient."""
    moved = []
    for native in (True, False):
        a, b = wy.Parameter(np.ones(2), name="a"), wy.Parameter(np.ones(2), name="b")
        optimizer = wy.optim.Adam([a, b], 0.1)
        for loss in (a.square().sum(), b.square().sum()):
            program = wy.compile(loss, optimizer)
            for _ in range(3):
                if native:
                    program({})
                else:
                    loss.backward()
                    optimizer.step()
                    loss.zero_gradient()
        assert optimizer.state_dict()["counts"].tolist() == [3, 3] and optimizer.steps == 6
        moved.append([a.value, b.value])
    np.testing.assert_allclose(moved[0], moved[1], rtol=1e-12)


def test_synchronized_threads_move_the_parameters_of_the_loss_alone() -> None:
    x = wy.Input(dims=(Batch(),), name="x")
    weight, other = wy.Parameter(1.0, name="weight"), wy.Parameter(1.0, name="other")
    program = wy.compile((weight * x).mean(), wy.optim.SGD([weight, other], 0.5))
    (other * 3.0).backward()
    program.epoch({x: np.ones(4)}, batch_size=4, threads=2, mode="synchronized")
    assert (float(weight), float(other), float(other.gradient)) == (0.5, 1.0, 3.0)


FIRST = """
import os, signal, sys
import numpy as np, wyrm as wy

def interrupted(where):
    '''Ctrl-C at the first call of a function, in a process of its own; then the same once more.'''
    x, w = wy.Input(dims=(3,), name="x"), wy.Parameter([1.0, 2.0, 3.0])
    program = wy.compile((w * x).tanh().sum(), wy.optim.SGD([w], 0.1))
    feed = {x: [0.5, 0.25, 0.125]}

    def press(frame, event, argument):
        if event == "call" and (frame.f_code.co_filename.endswith(where[0]) and frame.f_code.co_name == where[1]):
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(press)
    try:
        program(feed)
    except KeyboardInterrupt:
        program(feed)
        return 0
    return 1  # it was not interrupted

places = [("llvmlite/binding/__init__.py", "<module>"), ("engines/native/llvm/library.py", "entry_of")]
for place in places:
    child = os.fork()
    if not child:
        code = 2
        try:
            code = interrupted(place)
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert status == 0, (place, status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
def test_an_interrupt_in_the_first_compilation_leaves_the_compiler_usable() -> None:
    """While LLVM is imported, and while machine code is loaded."""
    found = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr

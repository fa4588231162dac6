"""Predictions of one program in many threads at once: what each gives alone, whatever the others are given."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.products import pool
from wyrm.engines.native.run.calls import OFTEN
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.errors import IndexOutOfRange, LinAlgError, NotFinite, ShapeError

THREADS = 8
# What `PYFUNCTYPE` sets in the flags of a function that keeps the GIL.
_KEEPS_THE_GIL = 4
_RANDOM = np.random.default_rng(0)


class Batch(wy.Dim): ...


class Words(wy.Ragged): ...


@pytest.fixture(autouse=True)
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Call `work(number)` in threads that begin together; raise the first error."""
    errors: list[BaseException] = []
    begin = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            begin.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for error in errors:
        raise error


def floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def perceptron() -> Any:
    x = wy.Input(dims=(Batch(), 40), name="x")
    model = wy.nn.Linear(40, 64) >> wy.nn.relu >> wy.nn.Linear(64, 30)
    model.eval()
    return model(x).softmax(), [{x: floats(rows, 40)} for rows in (1, 2, 16, 70, 500)]


def products_that_threads_share() -> Any:
    x = wy.Input(dims=(Batch(), 256), name="x")
    return (x @ wy.Parameter(floats(256, 256))).tanh() @ wy.Parameter(floats(256, 256)), [
        {x: floats(rows, 256)} for rows in (256, 300)
    ]


def texts() -> Any:
    tokens = wy.IndexInput(dims=(Batch(), 20), name="tokens")
    model = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2))
    model.eval()
    return model(tokens), [{tokens: _RANDOM.integers(0, 50, (rows, 20))} for rows in (1, 2, 4)]


def images() -> Any:
    x = wy.Input(dims=(Batch(), 3, 12, 12), name="x")
    model = wy.nn.Conv2d(3, 8, 3) >> wy.nn.relu >> wy.nn.Flatten() >> wy.nn.Linear(800, 5)
    model.eval()
    return model(x), [{x: floats(rows, 3, 12, 12)} for rows in (1, 3, 9)]


def rows_of_words() -> Any:
    words = wy.IndexInput(dims=(Batch(), Words()), name="words")
    rows = [[_RANDOM.integers(0, 30, _RANDOM.integers(0, 9)) for _ in range(count)] for count in (1, 5, 40)]
    return wy.nn.EmbeddingBag(30, 16)(words), [{words: wy.RaggedArray.of_rows(each)} for each in rows]


def factors() -> Any:
    x = wy.Input(dims=(Batch(), 6, 6), name="x", dtype=np.float64)
    half = _RANDOM.standard_normal((7, 6, 6))
    spd = half @ half.transpose(0, 2, 1) + 6.0 * np.eye(6)
    return wy.linalg.cholesky(x), [{x: spd[:rows]} for rows in (1, 3, 7)]


def bessel() -> Any:
    x = wy.Input(dims=(Batch(),), name="x")
    return wy.special.jv(0.5, x.exp()), [{x: floats(rows)} for rows in (1, 30, 900)]


MODELS = [perceptron, products_that_threads_share, texts, images, rows_of_words, factors, bessel]


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, wy.RaggedArray):
        return np.array_equal(found.values, expected.values)
    return bool(found.shape == expected.shape and found.tobytes() == expected.tobytes())


def often(call: Callable[[], Any]) -> None:
    for _ in range(OFTEN + 5):
        call()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_threads_get_the_bits_that_each_gets_alone(model: Any) -> None:
    output, feeds = model()
    alone, program = wy.compile(output), wy.compile(output)
    expected = [alone(feed) for feed in feeds]

    def work(number: int) -> None:
        for turn in range(2 * OFTEN // len(feeds) + 2):  # all threads begin with the same new shape
            for _ in range(1 + (turn + number) % 3):
                place = (turn * (1 + number)) % len(feeds)
                assert same(program(feeds[place]), expected[place])
        for _ in range(OFTEN + 5):
            assert same(program(feeds[number % len(feeds)]), expected[number % len(feeds)])

    in_threads(work)
    assert program.state_dict()["steps"] > THREADS * OFTEN


def test_programs_in_bfloat16_are_the_same_in_threads() -> None:
    output, feeds = products_that_threads_share()
    program: Any = wy.compile(output, compute_dtype="bfloat16")
    expected = [program(feed) for feed in feeds]

    def work(number: int) -> None:
        for turn in range(OFTEN + 10):
            place = (turn // 20 + number) % len(feeds)
            assert same(program(feeds[place]), expected[place])

    in_threads(work)


def test_an_error_in_one_thread_leaves_the_others_alone() -> None:
    x = wy.Input(dims=(Batch(), 2, 2), name="x", dtype=np.float64)
    rows = wy.IndexInput(dims=(Batch(),), name="rows")
    program: Any = wy.compile([wy.linalg.cholesky(x), wy.Parameter(np.arange(10.0)).index(rows + 1)])
    identity = np.broadcast_to(np.eye(2), (3, 2, 2)).copy()
    good = {x: identity, rows: np.arange(3)}
    bad: list[tuple[Any, type[Exception]]] = [
        ({x: -identity, rows: np.arange(3)}, LinAlgError),
        ({x: identity, rows: np.array([0, 9, 1])}, IndexOutOfRange),
        ({x: identity * np.nan, rows: np.arange(3)}, NotFinite),
        ({x: identity[:, :1], rows: np.arange(3)}, ShapeError),
        ({x: identity, rows: np.arange(2)}, ShapeError),
    ]

    def work(number: int) -> None:
        for turn in range(2 * OFTEN):
            if number % 2 and turn % 3 == 1:
                feed, kind = bad[(turn + number) % len(bad)]
                with pytest.raises(kind):
                    program(feed)
            scale = 1.0 + number
            root, taken = program({x: identity * scale**2, rows: np.full(3, number)})
            assert (root == identity * scale).all() and (taken == number + 1.0).all()

    in_threads(work)
    assert (program(good)[0] == identity).all()


def test_no_two_threads_draw_the_same_numbers() -> None:
    x = wy.Input(name="x")
    output = wy.random.normal((3,), seed=5) + x
    alone, program = wy.compile(output), wy.compile(output)
    found: list[bytes] = []
    in_threads(lambda number: found.extend(program({x: 0.0}).tobytes() for _ in range(2 * OFTEN)))
    count = THREADS * 2 * OFTEN
    assert sorted(found) == sorted(alone({x: 0.0}).tobytes() for _ in range(count))
    assert program.state_dict() == alone.state_dict() == {"steps": count, "epochs": 0}
    with pytest.raises(NotFinite):
        program({x: np.nan})
    assert program.state_dict()["steps"] == count
    with wy.random.at_step(3):
        pinned = program({x: 0.0})
    alone.load_state_dict({"steps": 3, "epochs": 0})
    assert same(pinned, alone({x: 0.0})) and program.state_dict()["steps"] == count


def test_calls_run_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wy.Input(dims=(Batch(),), name="x")
    program: Any = wy.compile(x + 1.0)
    meet, call = threading.Barrier(THREADS), NativeRunner.call

    def together(self: NativeRunner, *arguments: Any) -> int:
        meet.wait(60.0)  # raises if calls wait for each other
        return call(self, *arguments)

    monkeypatch.setattr(NativeRunner, "call", together)

    def work(number: int) -> None:
        for turn in range(5):  # each is the first call of its shape
            data = np.full(1 + THREADS * turn + number, number, np.float32)
            assert (program({x: data}) == number + 1).all()

    in_threads(work)


def test_a_call_within_a_call_has_arrays_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wy.Input(dims=(Batch(),), name="x")
    program: Any = wy.compile([x + 1.0, x * 2.0])
    call, inner = NativeRunner.call, list[Any]()

    def again(self: NativeRunner, *arguments: Any) -> int:
        if len(inner) < 3:
            inner.append(None)
            inner.append(program({x: np.full(1, len(inner), np.float32)}))
        return call(self, *arguments)

    monkeypatch.setattr(NativeRunner, "call", again)
    first, second = program({x: np.full(1, 9.0, np.float32)})
    assert first.tolist() == [10.0] and second.tolist() == [18.0]
    assert [[each.tolist() for each in found] for found in inner if found] == [
        [[4.0], [6.0]],
        [[3.0], [4.0]],
        [[2.0], [2.0]],
    ]


def test_memory_is_that_of_the_calls_that_run_at_once() -> None:
    output, feeds = perceptron()
    program: Any = wy.compile(output)
    program(feeds[0])
    alone = program.plan.peak_bytes
    for _ in range(THREADS):  # one after the other
        in_threads(lambda number: program(feeds[0]), 1)
    assert program.plan.peak_bytes == alone
    in_threads(lambda number: often(lambda: program(feeds[0])))
    assert alone <= program.plan.peak_bytes <= THREADS * alone


@pytest.mark.parametrize(("size", "keeps"), [(8, True), (700, False)])
def test_short_calls_keep_the_gil_and_long_ones_do_not(size: int, keeps: bool) -> None:
    x = wy.Input(dims=(Batch(), size), name="x")
    program: Any = wy.compile((x @ wy.Parameter(floats(size, size))).tanh())
    often(lambda: program({x: floats(size, size)}))
    entry: Any = program._engine._free[-1].repeated._entry
    assert bool(entry._flags_ & _KEEPS_THE_GIL) == keeps


def test_arrays_of_every_layout_are_copied_by_short_calls() -> None:
    x = wy.Input(dims=(Batch(), 4), name="x")
    rows = wy.IndexInput(dims=(Batch(),), name="rows")
    table = np.arange(9.0, dtype=np.float32)
    program: Any = wy.compile([x * 2.0, wy.Parameter(table).index(rows), x.T, (2.0 * x).sum()])
    for turn in range(2 * OFTEN):
        data = np.full((600, 4), turn, np.float32) + np.arange(4, dtype=np.float32)
        given: list[np.ndarray] = [
            data,
            data[::-1][::-1],
            np.asfortranarray(data),
            np.frombuffer(data.tobytes(), "<f4"),
        ]
        given[1] = np.repeat(data, 2, axis=0)[::2]
        given[3] = given[3].reshape(600, 4)
        ids = np.arange(1200) % 9
        doubled, taken, turned, total = program({x: given[turn % 4], rows: ids[:: 1 + turn % 2][:600]})
        assert (doubled == 2.0 * data).all() and (turned == data.T).all()
        assert (taken == table[ids[:: 1 + turn % 2][:600]]).all() and total == pytest.approx((2.0 * data).sum())
        doubled[...] = taken[...] = turned[...] = 0.0  # they are the caller's


def test_predictions_while_another_thread_trains() -> None:
    x, y = wy.Input(dims=(Batch(), 4), name="x"), wy.Input(dims=(Batch(),), name="y")
    layer = wy.nn.Linear(4, 1)
    loss = (layer(x)[:, 0] - y).square().mean()
    train, live = wy.compile(loss, wy.optim.Adam(layer.parameters(), 0.01)), wy.compile(layer(x)[:, 0])
    served: Any = copy.deepcopy(live)
    data = floats(30, 4)
    expected = served({x: data})
    done = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            for _ in range(20):
                train.epoch({x: data, y: data.sum(1)}, batch_size=5)
            done.set()
        while not done.is_set():
            assert np.isfinite(live({x: data})).all()
            assert same(served({x: data}), expected)

    in_threads(work, 3)
    assert not same(live({x: data}), expected) and same(live({x: data}), wy.compile(layer(x)[:, 0])({x: data}))


FORKING = """
import os, sys, threading, numpy as np, wyrm as wy
class Batch(wy.Dim): ...
x = wy.Input(dims=(Batch(), 300), name="x")
program = wy.compile((x @ np.ones((300, 300), np.float32)).sum(1))
program({x: np.ones((1, 300), np.float32)})
stop = threading.Event()
def work(number):
    while not stop.is_set():
        assert (program({x: np.full((200, 300), number, np.float32)}) == 90000.0 * number).all()
threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(1, 4)]
for each in threads: each.start()
for turn in range(12):
    child = os.fork()
    if not child:
        os._exit(0 if (program({x: np.full((200 + turn % 2, 300), 7.0, np.float32)}) == 630000.0).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for each in threads: each.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
def test_a_process_is_forked_while_threads_predict() -> None:
    found = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr


def test_work_is_shared_again_some_time_after_threads_have_met(request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: pool.limit(None))
    pool.limit(2)
    words, x = pool._words, wy.Input(dims=(512, 512), name="x")
    program: Any = wy.compile(x @ wy.Parameter(floats(512, 512)))
    feed = {x: floats(512, 512)}
    expected = program(feed)
    words[pool._CROWDED] = 2**28
    for _ in range(4):
        assert same(program(feed), expected)
    assert words[pool._CROWDED] <= 0

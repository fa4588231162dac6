"""`Program.profile` times every call of a step, counts its work, and leaves the program as it was."""

from __future__ import annotations

import copy
import json
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.epochs import EpochOptions, train_epochs
from wyrm.engines.native.llvm.cache import CompilationCount
from wyrm.engines.native.products.pool import processors
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.stages.write import Head
from wyrm.engines.totals import Totals
from wyrm.errors import DataError, Diverged, DTypeError, OptionError, ShapeError
from wyrm.profile import measure
from wyrm.profile.instrument import SUM_ROWS, instrumented
from wyrm.profile.measure import Recorder, RecordingEngine, RecordingRunner, timed_head

PEAKS = wy.profile.Peaks((1e11, 2e11), (5e10, 1e11), (1e10, 1.5e10), ((2e5, 1e11, 2e11),), threads=2)


class Batch(wy.Dim): ...


class Wide(wy.Dim): ...


def trained(optimizer: Any = wy.optim.Adam, **options: Any) -> tuple[Any, dict[Any, np.ndarray], Any]:
    """Return a program that trains a small model, its data, and the weight."""
    x, y = wy.Input(dims=(Batch(), 8), name="x"), wy.Input(dims=(Batch(), 4), name="y")
    draw = np.random.default_rng(0)
    weight = wy.Parameter(draw.normal(size=(8, 4)).astype(np.float32), name="weight")
    loss = (x.dropout(0.1, stream=7) @ weight - y).square().mean()
    program = wy.compile(loss, optimizer([weight], 0.1), **options)
    columns = {x: draw.normal(size=(96, 8)).astype(np.float32), y: draw.normal(size=(96, 4)).astype(np.float32)}
    return program, columns, weight


def test_every_stage_is_there_and_its_calls_are_counted() -> None:
    program, columns, _ = trained()
    profile = program.profile(columns, batch_size=16, steps=5, peaks=PEAKS)
    assert profile.steps == 5 and profile.threads == 1 and profile.peaks is PEAKS
    native = [stage for stage in profile.stages if stage.part]
    assert {stage.part for stage in native} == {"data", "forward", "backward", "update"}
    assert [stage.name for stage in native[:2]] == ["load x", "load y"]
    assert all(stage.calls == 5 for stage in native)
    assert len(native) == 2 + program.plan.calls
    assert all(stage.seconds >= 0 and stage.typical_seconds >= 0 for stage in profile.stages)
    assert sum(stage.seconds for stage in profile.stages) == pytest.approx(profile.thread_seconds)
    assert profile.thread_seconds <= profile.seconds
    assert sum(profile.parts.values()) == pytest.approx(profile.thread_seconds)
    for stage in native:
        assert stage.location.startswith("test_profile_program.py:")


def test_threads_share_large_loops_and_not_small_ones() -> None:
    x = wy.Input(dims=(Batch(), Wide(1024)), name="x")
    program, rate = wy.compile(x * 2.0), 1e10 + 0.5e10 * (min(2, processors()) - 1)
    for rows, bandwidth in ((200, rate), (100, 1e10)):
        given = {x: np.ones((rows, 1024), np.float32)}
        (stage,) = (each for each in program.profile(given, steps=2, peaks=PEAKS).stages if each.kind == "loop")
        assert stage.least_seconds == pytest.approx(2 * 4 * rows * 1024 / bandwidth) and stage.memory_bound


def test_flops_of_products_and_bytes_of_loops_are_exact() -> None:
    batch, wide = Batch(), Wide(32)
    x, weight = wy.Input(dims=(batch, wide), name="x"), wy.Parameter(np.ones((32, 24), np.float32), name="weight")
    product = wy.compile(x @ weight).profile({x: np.ones((40, 32))}, steps=2, peaks=PEAKS)
    (stage,) = (each for each in product.stages if each.kind == "product")
    assert stage.flops == stage.product_flops == 2 * 40 * 32 * 24 and stage.exact
    assert (stage.bytes_read, stage.bytes_written) == (4 * (40 * 32 + 32 * 24), 4 * 40 * 24)
    assert stage.nodes == ("matmul (Batch=40, 24)",)
    assert stage.least_seconds == pytest.approx(2 * 40 * 32 * 24 / 1e11) and not stage.memory_bound
    loop = wy.compile(x * 2.0 + 1.0).profile({x: np.ones((40, 32))}, steps=2, peaks=PEAKS)
    (stage,) = (each for each in loop.stages if each.kind == "loop")
    assert stage.flops == 2 * 40 * 32 and stage.exact
    assert (stage.bytes_read, stage.bytes_written) == (4 * 40 * 32, 4 * 40 * 32)


@pytest.mark.parametrize(
    ("method", "rows", "shared"), [("call", 20, False), ("call", 30, True), ("epoch", 100, False), ("epoch", 150, True)]
)
def test_threads_share_products_that_pay(method: Literal["call", "epoch"], rows: int, shared: bool) -> None:
    x, weight = wy.Input(dims=(Batch(), 512), name="x"), wy.Parameter(np.ones((512, 128), np.float32), name="weight")
    loss = (x @ weight).square().mean()
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.0))
    batch = rows if method == "epoch" else 1
    given, peaks = {x: np.ones((rows, 512), np.float32)}, replace(PEAKS, bandwidth=(1e15, 1e15), cached=())
    profile = program.profile(given, method=method, steps=2, batch_size=batch, peaks=peaks)
    stage = next(each for each in profile.stages if each.kind == "product")
    threads = min(2, processors()) if shared else 1
    assert stage.least_seconds == pytest.approx(2 * rows * 512 * 128 / (threads * 1e11)) and not stage.memory_bound


def test_convolutions_count_by_their_formula() -> None:
    x, layer = wy.Input(dims=(Batch(), 1, 12, 12), name="x"), wy.nn.Conv2d(1, 4, 3, padding=1)
    profile = wy.compile(layer(x)).profile({x: np.ones((2, 1, 12, 12))}, steps=2, peaks=PEAKS)
    (stage,) = (each for each in profile.stages if "convolution" in each.name)
    assert stage.flops == stage.product_flops == 2 * 2 * 4 * 12 * 12 * 9 and not stage.exact


def test_the_program_stays_as_it_was() -> None:
    program, columns, weight = trained()
    same, same_columns, same_weight = trained()
    for each, data in ((program, columns), (same, same_columns)):
        for _ in range(2):  # the second epoch on the same data compiles the calls of a whole epoch
            each.epoch(data, batch_size=16, shuffle=True)
    machine, compiled, state = program.llvm, program.source, program.state_dict()
    before = weight.value.copy()
    for options in ({}, {"threads": 2}, {"threads": 2, "mode": "synchronized"}, {"accumulate": 2}):
        program.profile(columns, batch_size=16, steps=3, peaks=PEAKS, **options)
    program.profile(columns, method="backward", steps=2, peaks=PEAKS)
    np.testing.assert_array_equal(weight.value, before)
    assert not weight.gradient.any() and program.state_dict() == state and program.optimizer.steps == 12
    assert program.llvm == machine and program.source == compiled
    count = CompilationCount.compiled
    for each, data in ((program, columns), (same, same_columns)):
        each.epoch(data, batch_size=16, shuffle=True)
    assert CompilationCount.compiled == count
    np.testing.assert_array_equal(weight.value, same_weight.value)


def test_the_plain_run_has_no_clock() -> None:
    program, columns, _ = trained()
    source = program.graph.source
    identity = source.run.identity
    timed = instrumented(source)
    assert "read_clock" in timed.routine.code.text and "read_clock" not in source.run.code.text
    assert source.run.identity == identity != timed.routine.identity
    program.profile(columns, batch_size=16, steps=2, peaks=PEAKS)
    assert "wyrm_clock" not in program.llvm


@pytest.mark.parametrize("mode", ["hogwild", "synchronized"])
def test_threads_wait(mode: Any) -> None:
    program, columns, _ = trained()
    profile = program.profile(columns, batch_size=16, steps=6, threads=2, mode=mode, peaks=PEAKS)
    assert profile.threads == 2 and profile.steps == 6
    assert {event.thread for event in profile.events} == {0, 1}
    assert profile.thread_seconds <= 2 * profile.seconds
    names = {stage.name for stage in profile.stages}
    # Hogwild threads without a barrier wait only if one ends before the other's last call.
    assert mode == "hogwild" or "wait for the other threads" in names
    assert (mode == "synchronized") == ("step of the optimizer" in names)


@pytest.mark.parametrize("loop", ["compiled", "python"])
def test_both_forms_of_the_loop_are_timed(loop: Any) -> None:
    program, columns, _ = trained(loop=loop)
    profile = program.profile(columns, batch_size=32, steps=3, peaks=PEAKS)
    assert [stage.calls for stage in profile.stages if stage.part] == [3] * (2 + program.plan.calls)


def test_ops_without_a_native_form_are_python() -> None:
    x = wy.Input(dims=(Batch(),), name="x")
    program = wy.compile(wy.linalg.eigh(x.expand_dims(1) * x.expand_dims(0)).eigenvalues)
    profile = program.profile({x: np.ones(3)}, steps=2, peaks=PEAKS)
    assert all(stage.calls >= 1 for stage in profile.stages)


def test_calls_and_backward() -> None:
    program, columns, _ = trained()
    call = program.profile(columns, method="call", steps=4, peaks=PEAKS)
    assert (call.method, call.steps) == ("call", 4)
    backward = program.profile(columns, method="backward", steps=4, threads=2, peaks=PEAKS)
    assert (backward.method, backward.steps, backward.threads) == ("backward", 4, 2)
    forward = wy.compile(program.outputs[0].sum() * 2.0)
    assert forward.profile(columns, steps=2, peaks=PEAKS).method == "call"


def test_the_calls_inside_of_loops_are_timed() -> None:
    x, weight = wy.Input(dims=(16, 4), name="x"), wy.Parameter(np.eye(4, dtype=np.float32), name="weight")

    def inner(state: Any, _: Any) -> Any:
        return (state @ weight).tanh(), None

    def outer(state: Any, _: Any) -> Any:
        return wy.scan(inner, state * 0.5, None, length=3)[0], None

    carry, _ = wy.scan(outer, x, None, length=5)
    loss = carry.square().mean()
    program = wy.compile(loss, wy.optim.SGD([weight], 0.1))
    profile = program.profile({x: np.ones((32, 4))}, batch_size=16, steps=2, peaks=PEAKS)
    counts = {(stage.kind, stage.part): 0 for stage in profile.stages}
    for stage in profile.stages:
        counts[stage.kind, stage.part] += stage.calls
    assert counts["product", "forward"] == 2 * 5 * 3 and counts["scan", "forward"] == 2 * (1 + 5)
    forward = next(each for each in profile.stages if each.kind == "product" and each.part == "forward")
    assert forward.flops == 2 * 16 * 4 * 4 and forward.exact and "test_profile_program.py" in forward.location
    assert sum(stage.seconds for stage in profile.stages) == pytest.approx(profile.thread_seconds)
    assert profile.thread_seconds <= profile.seconds and all(stage.seconds >= 0 for stage in profile.stages)


def test_steps_default_to_a_part_of_a_second() -> None:
    program, columns, _ = trained()
    assert 3 <= program.profile(columns, batch_size=16, peaks=PEAKS).steps <= 200_000


def test_the_timeline_of_many_short_steps_stays_small() -> None:
    x = wy.Input(name="x")
    slope = wy.Parameter(1.0, name="slope")
    program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], 0.01))
    profile = program.profile({x: np.ones(30_000)}, steps=30_000, peaks=PEAKS)
    assert profile.steps == 30_000 and len(profile.events) < 60_000


def test_memory_agrees_with_the_program() -> None:
    program, columns, weight = trained()
    profile = program.profile(columns, batch_size=16, steps=2, memory=True, peaks=PEAKS)
    memory = profile.memory
    assert memory is not None
    program.epoch(columns, batch_size=16)
    assert memory.block_bytes + memory.own_bytes == program.plan.peak_bytes
    assert memory.parameter_bytes == weight.value.nbytes and memory.optimizer_bytes == 2 * weight.value.nbytes
    assert max(memory.totals) <= memory.block_bytes
    assert memory.block_bytes == -(-max(each.offset + each.bytes for each in memory.arrays) // 64) * 64
    assert sum(each.bytes for each in memory.live(memory.peak)) == max(memory.totals)
    assert sum(size for *_, size in memory.owners) == max(memory.totals)
    # Arrays that exist at the same time do not overlap.
    for position in range(len(memory.calls) + 1):
        alive = sorted((each.offset, each.offset + each.bytes) for each in memory.live(position))
        assert all(end <= start for (_, end), (start, _) in pairwise(alive))
    assert "owned by" in str(profile) and "test_profile_program.py" in str(memory)


def test_the_table_names_what_takes_time() -> None:
    program, columns, _ = trained()
    profile = program.profile(columns, batch_size=16, steps=3, peaks=PEAKS)
    text = str(profile)
    for word in (
        "3 steps of epoch: ",
        " a step, in one thread",
        "matmul",
        "roofline",
        "load x",
        "GFLOP/s",
        "(Batch=16, 4)",
    ):
        assert word in text
    assert len(profile.table(2).splitlines()) == 2 + 2 + 1
    assert sum(group.calls for group in profile.groups) == sum(stage.calls for stage in profile.stages)


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    program, data, _ = trained()
    profile = program.profile(data, batch_size=16, steps=3, peaks=PEAKS, memory=True)
    whole = profile.table(width=0)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    texts = [str(profile), profile.table()]
    assert all(len(line) <= columns for text in texts for line in text.splitlines())
    assert "share" in texts[1] and "time a step" in texts[1] and "matmul" in texts[1]
    assert profile.table(width=0) == whole and max(map(len, whole.splitlines())) > 120


def test_the_trace_is_what_perfetto_reads(tmp_path: Path) -> None:
    program, columns, _ = trained()
    profile = program.profile(columns, batch_size=16, steps=4, threads=2, peaks=PEAKS)
    trace = json.loads(profile.chrome_trace(tmp_path / "trace.json").read_text())
    names = [each for each in trace["traceEvents"] if each["ph"] == "M"]
    events = [each for each in trace["traceEvents"] if each["ph"] == "X"]
    assert {each["name"] for each in names} == {"process_name", "thread_name"}
    assert len(names) + len(events) == len(trace["traceEvents"]) and len({each["pid"] for each in events}) == 1
    assert {each["tid"] for each in events} == {each["tid"] for each in names if each["name"] == "thread_name"}
    for thread in {each["tid"] for each in events}:
        own = [each for each in events if each["tid"] == thread]
        steps = [each for each in own if each["cat"] == "step"]
        assert [each["ts"] for each in own] == sorted(each["ts"] for each in own) and len(steps) == 2
        for each in own:
            assert each["dur"] >= 0
            if each["cat"] not in ("step", "wait", "Python"):
                inside = (
                    step["ts"] - 0.01 <= each["ts"] and each["ts"] + each["dur"] <= step["ts"] + step["dur"] + 0.01
                    for step in steps
                )  # fmt: skip
                assert any(inside)
    assert any("matmul" in each["args"].get("nodes", "") for each in events)


def test_what_begins_after_the_last_step_is_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    run = measure._RecordingPool.run

    def run_and_wait(pool: Any, jobs: Any, stop: Any) -> None:
        run(pool, jobs, stop)
        now = time.perf_counter_ns()
        pool._recorder.span("wait for the door", "wait", 0, now + 10**9, now + 2 * 10**9)

    monkeypatch.setattr(measure._RecordingPool, "run", run_and_wait)
    program, columns, _ = trained()
    profile = program.profile(columns, batch_size=16, steps=4, threads=2, peaks=PEAKS)
    assert all((event.name == "step") == (event.stage < 0) for event in profile.events)
    assert "wait for the door" not in {event.name for event in profile.events}


def test_repeated_layers_are_one_row() -> None:
    class Block(wy.nn.Module):
        def __init__(self) -> None:
            self.layers = [wy.nn.Linear(8, 8) for _ in range(3)]

        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x).tanh()
            return x

    x = wy.Input(dims=(Batch(), 8), name="x")
    profile = wy.compile(Block()(x).sum()).profile({x: np.ones((4, 8))}, steps=2, peaks=PEAKS)
    (group,) = (group for group in profile.groups if group.stage.kind == "product")
    assert [stage.modules for stage in group.stages] == [(f"layers[{i}]",) for i in range(3)]
    assert "layers[*]" in str(profile)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_bad_options_are_refused_before_anything_is_compiled() -> None:
    program, columns, _ = trained()
    forward = wy.compile(program.outputs[0] * 2.0)
    (x, y), compiled = columns, CompilationCount.compiled
    refusals: list[tuple[Any, type[Exception], str, Any, dict[str, Any]]] = [
        (program, OptionError, "steps", columns, {"steps": 0}),
        (program, OptionError, "steps", columns, {"steps": -1}),
        (program, DTypeError, "steps", columns, {"steps": 1.5}),
        (program, OptionError, "threads", columns, {"threads": 0}),
        (program, OptionError, "batch_size", columns, {"batch_size": 0}),
        (program, OptionError, "method must be", columns, {"method": "train"}),
        (program, OptionError, "one thread", columns, {"method": "call", "threads": 2}),
        (program, OptionError, "Peaks", columns, {"peaks": 1e9}),
        (program, OptionError, "next\\(iter\\(loader\\)\\)", iter([columns]), {}),
        (program, ShapeError, "no rows", {x: np.ones((0, 8)), y: np.ones((0, 4))}, {}),
        (program, ShapeError, "is missing", {x: columns[x]}, {}),
        (program, ShapeError, "different lengths", {x: columns[x], y: columns[y][:5]}, {}),
        (program, DataError, "no column", {"x": columns[x]}, {}),
        (program, OptionError, "mode", columns, {"mode": "both"}),
        (forward, OptionError, "no optimizer", columns, {"method": "epoch"}),
        (forward, OptionError, "no optimizer", columns, {"method": "backward"}),
        (forward, ShapeError, "no elements", {x: np.ones((0, 8)), y: np.ones((0, 4))}, {}),
    ]
    for refusing, error, text, data, options in refusals:
        with pytest.raises(error, match=text):
            refusing.profile(data, **({"batch_size": 16} | options))
    assert CompilationCount.compiled == compiled


def test_a_loss_that_diverges_leaves_the_program_as_it_was() -> None:
    program, columns, weight = trained()
    x, _ = columns
    before = weight.value.copy()
    with pytest.raises(Diverged):
        program.profile(columns | {x: np.full((96, 8), 1e30, np.float32)}, batch_size=16, steps=3, peaks=PEAKS)
    np.testing.assert_array_equal(weight.value, before)


def test_peaks_are_positive() -> None:
    with pytest.raises(OptionError, match="positive"):
        wy.profile.Peaks((0.0, 1.0), (1.0, 1.0), (1.0, 1.0))


def test_a_batch_size_needs_data() -> None:
    program: Any = wy.compile(wy.Constant([1.0, 2.0]).sum())
    with pytest.raises(OptionError, match="give its columns first"):
        program.profile(batch_size=4)
    with pytest.raises(OptionError, match="give its columns first"):
        program.profile(threads=2)


# --- the instrumented code --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_arrays_that_are_too_small_are_not_written(missing: tuple[int, int, int]) -> None:
    program, columns, _ = trained()
    graph = copy.deepcopy(program).graph
    runner = RecordingRunner(graph, "compiled", Recorder())
    binding = runner.binding({leaf: (16, columns[leaf].shape[1]) for leaf in graph.inputs})
    steps, places = 3 - missing[0], len(runner.instrumented.sites) + 1 - missing[1]
    memory = np.full((8, 64), -7, np.int64)
    times = memory[:1, : steps * places].reshape(steps, places)
    sums = memory[4 : 4 + SUM_ROWS - missing[2], :1].copy()
    assert np.shares_memory(times, memory)
    head = Head(0, 3, 16, 0, np.arange(48), np.zeros(2), np.zeros((3, len(graph.source.hyperparameters))))
    done = NativeRunner.call(runner, binding, columns, timed_head(head, times, sums))
    assert done == 0 and (memory == -7).all() and (sums == -7).all()


def test_residuals_have_the_line_of_the_loss() -> None:
    labels = wy.IndexInput(dims=(12,), name="labels")
    x, table = wy.Input(dims=(12, 4), name="x"), wy.Parameter(np.ones((9, 4), np.float32), name="table")
    loss = wy.linear_cross_entropy(x, table, labels)
    program = wy.compile(loss, wy.optim.SGD([table], 0.1))
    profile = program.profile({x: np.ones((12, 4)), labels: np.arange(12) % 9}, batch_size=12, steps=2, peaks=PEAKS)
    (stage,) = (each for each in profile.stages if "residuals" in " ".join(each.nodes))
    assert stage.source.startswith("loss = wy.linear_cross_entropy")


def test_the_clocks_change_no_number() -> None:
    program, columns, weight = trained()
    copied = copy.deepcopy(program)
    runner = RecordingRunner(copied.graph, "auto", Recorder())
    options = EpochOptions(16, shuffle=True, seed=3, threads=1, mode="hogwild", progress=False, accumulate=1)
    engine = RecordingEngine(copied.graph, runner)
    means = train_epochs(engine, columns, options, Totals(copied.graph.outputs), in_batches=False)[0].outputs
    assert means == [program.epoch(columns, batch_size=16, shuffle=True, seed=3)]
    np.testing.assert_array_equal(copied.optimizer.parameters[0].value, weight.value)

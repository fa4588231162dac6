"""Threads share loops whose turns are independent, and only those; any number of them gives the same bits."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import llvmlite.binding
import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    ArraySize,
    Break,
    CountedLoop,
    Element,
    Let,
    Literal,
    Name,
    Nest,
    Store,
    When,
    fill,
)
from wyrm.engines.native.ir.independent import independent
from wyrm.engines.native.ir.program import assigned, every
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.translate import Translation
from wyrm.engines.native.llvm import lapack
from wyrm.engines.native.llvm.calling import kind_of_argument
from wyrm.engines.native.llvm.library import CompiledFunction
from wyrm.engines.native.llvm.optimize import optimized
from wyrm.engines.native.llvm.product_modules import pool_module
from wyrm.engines.native.llvm.shared_loops import LEAST_ELEMENTS, shared_loops
from wyrm.engines.native.products import pool
from wyrm.engines.native.products.target import host, target_of
from wyrm.engines.native.products.writer import SHARED
from wyrm.graph.typing import FloatArray
from wyrm.ops.kernels.sums import shared_turns

TURN, INNER = Name("i"), Name("j")
X = Element("x", (TURN,))


def loop(*body: Any) -> CountedLoop:
    return CountedLoop("i", ArraySize("x", 0), body)


def function(*body: Any) -> ArrayFunction:
    return ArrayFunction("f", ("x", "y", "z"), body)


def test_loops_over_elements_are_independent() -> None:
    assert independent(function(loop(Let("a", X), Store("y", (TURN,), Name("a")))))
    assert independent(function(Let("s", Element("z", ())), loop(Store("y", (TURN,), Apply("add", (X, Name("s")))))))
    # Each turn reads and writes its own element, or row.
    assert independent(function(loop(Store("x", (TURN,), Apply("exp", (X,))))))
    row = CountedLoop("j", ArraySize("x", 1), (Store("y", (TURN,), Element("x", (TURN, INNER)), adds=True),))
    assert independent(function(loop(Store("y", (TURN,), Literal(0)), row)))
    assert independent(function(Nest(("i", "j"), (Literal(3), Literal(4)), (Store("y", (TURN, INNER), Literal(1)),))))


@pytest.mark.parametrize(
    "body",
    [
        # A sum over the turns, in a variable or in memory.
        (Let("sum", Literal(0)), loop(Let("sum", Apply("accumulate", (Name("sum"), X))))),
        (loop(Store("y", (Literal(0),), X, adds=True)),),
        (
            CountedLoop(
                "i", Literal(3), (CountedLoop("j", Literal(3), (Store("y", (INNER,), Literal(1), adds=True),)),)
            ),
        ),
        # Rows that data chooses; the neighbour that another turn writes; another axis.
        (loop(Store("y", (X,), Literal(1))),),
        (loop(Store("x", (TURN,), Element("x", (Apply("add", (TURN, Literal(1))),)))),),
        (
            CountedLoop(
                "i",
                Literal(3),
                (CountedLoop("j", Literal(3), (Store("y", (TURN, INNER), Element("y", (INNER, TURN))),)),),
            ),
        ),
        (Nest(("i", "j"), (Literal(3), Literal(4)), (Store("y", (INNER,), Literal(1)),)),),
        # A turn that ends the loop.
        (loop(Store("y", (TURN,), X), When(Apply("greater", (X, Literal(1))), (Break(),))),),
        (),
        # What is written or read before it.
        (fill("y", 1), loop(Store("y", (TURN,), X))),
        (Let("s", Element("y", (Literal(0),))), loop(Store("y", (TURN,), Name("s")))),
        (loop(Store("y", (TURN,), X)), loop(Store("z", (TURN,), X))),
    ],
)
def test_what_turns_share_is_not_divided(body: Any) -> None:
    assert not independent(function(*body))


@pytest.fixture
def limited() -> Iterator[Any]:
    yield pool.limit
    pool.limit(None)


class Rows(wy.Dim): ...


def test_any_number_of_threads_gives_the_same_bits(limited: Any) -> None:
    random: Any = np.random.default_rng(0)
    x = wy.Input(dims=(Rows(), 217, 211), name="x")
    bias = wy.Parameter(random.normal(size=211).astype(np.float32), name="bias")
    program = wy.compile(((x + bias).tanh() * 1.5).exp())
    assert pool.STATE in program.llvm
    for rows in (1, 3, 5):
        given = random.normal(size=(rows, 217, 211)).astype(np.float32)
        found = []
        for threads in (1, 2, 3, 7):
            limited(threads)
            found.append(program({x: given}).copy())
        expected = np.exp(1.5 * np.tanh(given + bias.value))
        np.testing.assert_allclose(found[0], expected, rtol=1e-5)
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])


def test_updates_are_shared_and_reductions_over_the_shared_axis_are_not(limited: Any) -> None:
    def trained(threads: int) -> Any:
        limited(threads)
        start: Any = np.random.default_rng(1).normal(size=(523, 401)).astype(np.float32)
        assert start.size > LEAST_ELEMENTS
        weight = wy.Parameter(start, name="weight")
        loss = (weight.sum(axis=0).square()).mean() + weight.square().mean()
        program = wy.compile(loss, wy.optim.AdamW(loss.parameters(), 0.1))
        losses = [float(program({})) for _ in range(4)]
        return losses, weight.value.copy()

    losses, weight = trained(1)
    assert losses[-1] < losses[0]
    for threads in (2, 5):
        again, moved = trained(threads)
        assert again == losses
        np.testing.assert_array_equal(moved, weight)


@pytest.mark.parametrize(("size", "threads", "used"), [(523, 1, ["large"]), (523, 2, ["none"]), (3, 1, [])])
def test_other_threads_share_large_products_of_an_epoch_in_one_thread(
    monkeypatch: pytest.MonkeyPatch, size: int, threads: int, used: list[str]
) -> None:
    seen = []

    def limited(threads: int, *, libraries: bool) -> Any:
        seen.append("none")
        return lapack.limited(threads, libraries=libraries)

    def sharing(*, libraries: bool) -> Any:
        seen.append("large")
        return lapack.sharing_large_products(libraries=libraries)

    monkeypatch.setattr("wyrm.engines.native.run.runner.limited", limited)
    monkeypatch.setattr("wyrm.engines.native.run.runner.sharing_large_products", sharing)
    weight, x = wy.Parameter(np.ones((size, 401), np.float32)), wy.Input(dims=(Rows(),), name="x")
    loss = (weight * 0.5).square().mean() + x.square().mean()
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
    program.epoch({x: np.ones(4, np.float32)}, batch_size=2, threads=threads)
    assert seen == used


Ranges = Callable[..., list[tuple[int, int]]]


@pytest.fixture
def shared() -> Ranges:
    """Return a function that lets threads share turns; it returns the ranges that a function was called for."""
    wy.compile(wy.Parameter(np.ones((2, 523, 401), np.float32)).tanh())({})  # loads the module of the threads
    integer, pointer = ctypes.c_int64, ctypes.c_void_p
    place = llvmlite.binding.address_of_symbol(pool_module(host()).symbol)
    share = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, integer, integer, integer)(place)

    def ranges(work: int, count: int = 90, unit: int = 8, fails: int = -1) -> list[tuple[int, int]]:
        found = list[tuple[int, int]]()

        def do(_: object, first: int, end: int) -> int:
            found.append((first, end))
            return 7 if first <= fails < end else 0

        function = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, integer, integer)(do)
        assert share(ctypes.cast(function, pointer), None, work, count, unit) == (7 if 0 <= fails < count else 0)
        return sorted(found)

    return ranges


def test_ranges_are_all_turns_and_begin_at_multiples_of_the_unit(limited: Any, shared: Ranges) -> None:
    for threads in (1, 2, 3, 7):
        limited(threads)
        for count, unit in ((90, 8), (1, 1), (7, 1), (5, 8), (8, 8), (9, 8), (10_001, 64)):
            for _ in range(20):
                found = shared(pool.ALWAYS, count, unit)
                ends = [0, *(end for _, end in found)]
                assert found == list(pairwise(ends))
                assert ends[-1] == count
                assert all(end % unit == 0 for end in ends[:-1])
                assert len(found) == min(threads, -(-count // unit))


def test_the_status_of_any_range_is_that_of_all(limited: Any, shared: Ranges) -> None:
    for threads in (1, 2, 3):
        limited(threads)
        for fails in (0, 40, 89, -1):  # the last without a failure: no status is left of the calls before
            for _ in range(20):
                shared(pool.ALWAYS, fails=fails)


@pytest.mark.parametrize(
    ("triple", "threads", "pauses"),
    [("aarch64-linux-gnu", True, "aarch64.isb(i32 15)"), ("arm64-apple-darwin", True, "aarch64.isb(i32 15)"),
     ("x86_64-apple-darwin", True, "x86.sse2.pause()"), ("riscv64-linux-gnu", True, None),
     ("x86_64-pc-windows-msvc", False, None)],
)  # fmt: skip
def test_the_module_of_threads_is_compiled_for_other_systems(triple: str, threads: bool, pauses: str | None) -> None:
    target = replace(target_of(triple), allocates=True)
    unit = pool_module(target)
    assert ("pthread_create" in unit.text) == threads
    assert ("pause" in unit.text or "isb" in unit.text) == (pauses is not None)
    assert pauses is None or pauses in unit.text
    module, machine = optimized(unit.text, unit.level, target.machine(0))
    assert SHARED.encode() in machine.emit_object(module)


def test_python_never_frees_what_threads_wait_in() -> None:
    before = sys.getrefcount(pool._words)
    pool.state_address()
    after = sys.getrefcount(pool._words)  # an assertion would hold a reference itself
    assert after == before + 1


def test_products_below_the_least_size_are_not_shared(limited: Any, shared: Ranges) -> None:
    limited(3)
    assert [len(shared(work)) for work in (0, 999, 1000, pool.ALWAYS, pool.ALONE)] == [3, 3, 3, 3, 1]
    with lapack.sharing_large_products(libraries=False):
        assert [len(shared(work)) for work in (pool.LARGE_PRODUCTS - 1, pool.LARGE_PRODUCTS, pool.ALWAYS)] == [1, 3, 3]
        with lapack.limited(1, libraries=False):
            assert len(shared(pool.ALWAYS)) == 1
    limited(3)
    assert len(shared(0)) == 3


def test_small_programs_are_not_prepared_for_threads() -> None:
    x = wy.Input(dims=(Rows(), 8), name="x")
    assert pool.STATE not in wy.compile(x.tanh()).llvm


def add_rows(x: FloatArray, parts: FloatArray, out: FloatArray, wrong: int) -> None:
    """`out = x + 1`, row by row, in parts with scratch memory of their own; fails at the row `wrong`."""
    rows, slots = x.shape[0], parts.shape[0]
    for slot in shared_turns(slots, x.size // slots):
        for row in range(rows * slot // slots, rows * (slot + 1) // slots):
            if row == wrong:
                raise IndexError("a wrong row")
            for j in range(x.shape[1]):
                parts[slot, j] = x[row, j] + 1
            for j in range(x.shape[1]):
                out[row, j] = parts[slot, j]


def add_rows_after_a_loop(x: FloatArray, parts: FloatArray, out: FloatArray, wrong: int) -> None:
    """The same, with more than scalars before the loop."""
    for j in range(x.shape[1]):
        out[0, j] = 0
    for row in shared_turns(x.shape[0], x.shape[1]):
        for j in range(x.shape[1]):
            out[row, j] = x[row, j] + 1


def fill_row(x: FloatArray, value: int) -> None:
    """`x = value`."""
    for j in range(x.shape[0]):
        x[j] = value


def add_rows_after_a_call(x: FloatArray, parts: FloatArray, out: FloatArray, wrong: int) -> None:
    """The same, after a call that is made once."""
    fill_row(parts[0], 1)
    for row in shared_turns(x.shape[0], x.shape[1]):
        for j in range(x.shape[1]):
            out[row, j] = x[row, j] + parts[0, j]


def named_alike(table: FloatArray, part: bool, status: FloatArray, position: bool) -> None:
    """`status = table + part`, with the names of variables that sharing the loop may have too."""
    for row in shared_turns(table.shape[0], table.shape[1]):
        for j in range(table.shape[1]):
            status[row, j] = table[row, j] + (1 if part else 2)


def test_variables_of_a_shared_loop_have_names_of_their_own(limited: Any) -> None:
    x: Any = np.random.default_rng(0).normal(size=(700, 211)).astype(np.float32)
    kernel = KernelFunction(named_alike, distinct=True)
    found = Translation(checked=False).specialized(kernel, kinds(x, True, x, True)).function
    *_, shared = shared_loops(found, host())
    names = {each.name for statement in every(shared.body) for each in assigned(statement)}
    assert names - {each.name for statement in every(found.body) for each in assigned(statement)}
    assert not names & {each.name for each in found.parameters}
    for threads in (1, 3):
        limited(threads)
        out = np.zeros_like(x)
        CompiledFunction(kernel)(x, True, out, True)
        np.testing.assert_array_equal(out, x + np.float32(1))


def function_of(kernel: Any) -> tuple[CompiledFunction, int]:
    """Return a kernel as native code, and how many functions its module has."""
    compiled = CompiledFunction(KernelFunction(kernel, distinct=True))
    table = np.zeros((1, 1), np.float32)
    found = Translation(checked=False).specialized(KernelFunction(kernel, distinct=True), kinds(table, table, table, 0))
    return compiled, len(shared_loops(found.function, host()))


def kinds(*arguments: object) -> tuple[Any, ...]:
    return tuple(map(kind_of_argument, arguments))


@pytest.mark.parametrize("kernel", [add_rows, add_rows_after_a_call])
@pytest.mark.parametrize("rows", [1, 5, 700])
def test_threads_share_the_turns_of_a_kernel(limited: Any, rows: int, kernel: Any) -> None:
    x: Any = np.random.default_rng(0).normal(size=(rows, 211)).astype(np.float32)
    compiled, functions = function_of(kernel)
    assert functions == 3
    for threads in (1, 2, 7):
        limited(threads)
        out = np.zeros_like(x)
        compiled(x, np.zeros((min(16, rows), 211), np.float32), out, -1)
        np.testing.assert_array_equal(out, x + np.float32(1))


@pytest.mark.parametrize("rows", [5, 700])
def test_an_error_in_a_thread_of_a_kernel_is_raised(limited: Any, rows: int) -> None:
    x: Any = np.ones((rows, 211), np.float32)
    compiled, _ = function_of(add_rows)
    for threads in (1, 2, 7):
        limited(threads)
        for wrong in (0, rows - 1):
            with pytest.raises(IndexError, match="a wrong row"):
                compiled(x, np.zeros((4, 211), np.float32), np.zeros_like(x), wrong)


def test_a_kernel_with_more_than_scalars_before_its_loop_runs_in_one_thread(limited: Any) -> None:
    x: Any = np.ones((700, 211), np.float32)
    compiled, functions = function_of(add_rows_after_a_loop)
    assert functions == 1
    limited(3)
    out = np.zeros_like(x)
    compiled(x, np.zeros((4, 211), np.float32), out, -1)
    np.testing.assert_array_equal(out, x + 1)


@pytest.mark.parametrize("layer", [wy.nn.LSTM, wy.nn.GRU])
@pytest.mark.parametrize("rows", [33, 70])
def test_recurrent_layers_have_the_same_bits_for_any_number_of_threads(limited: Any, layer: Any, rows: int) -> None:
    def trained(threads: int) -> list[Any]:
        limited(threads)
        wy.nn.seed(0)
        x = wy.Input(dims=(Rows(), 5, 3), name="x")
        states, _ = layer(3, 128)(x)
        loss = states.square().mean()
        program = wy.compile(loss, wy.optim.SGD(loss.parameters(), 1.0))
        given: Any = np.random.default_rng(1).normal(size=(rows, 5, 3)).astype(np.float32)
        losses = [float(program({x: given})) for _ in range(3)]
        return [*losses, *(parameter.value.copy() for parameter in loss.parameters())]

    first = trained(1)
    assert first[0] > first[1] > first[2]
    for threads in (2, 3):
        for have, want in zip(trained(threads), first, strict=True):
            np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("features", [5, 8])  # scores by blocks, and by columns
@pytest.mark.parametrize("rate", [0.0, 0.25])
def test_attention_has_the_same_bits_for_any_number_of_threads(limited: Any, rate: float, features: int) -> None:
    def trained(threads: int) -> list[Any]:
        limited(threads)
        start: Any = np.random.default_rng(1).normal(size=(5, 130, 3, 3, features)).astype(np.float32)
        qkv = wy.Parameter(start, name="qkv")
        loss = wy.attention(qkv, causal=True, dropout_rate=rate, stream=1).square().mean()
        program = wy.compile(loss, wy.optim.SGD([qkv], 10.0))
        losses = [float(program({})) for _ in range(3)]
        return [*losses, qkv.value.copy()]

    first = trained(1)
    assert len({float(loss) for loss in first[:3]}) == 3
    for threads in (2, 3, 7):
        for have, want in zip(trained(threads), first, strict=True):
            np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_a_linear_layer_has_the_same_bits_for_any_number_of_threads(
    limited: Any, smoothing: float
) -> None:
    def trained(threads: int) -> list[Any]:
        limited(threads)
        random: Any = np.random.default_rng(1)
        x = wy.Parameter(random.normal(size=(150, 24)).astype(np.float32), name="x")
        weight = wy.Parameter(random.normal(size=(3000, 24)).astype(np.float32), name="weight")
        labels = random.integers(0, 3000, 150)
        loss = wy.linear_cross_entropy(x, weight, labels, label_smoothing=smoothing)
        program = wy.compile(loss, wy.optim.SGD([x, weight], 10.0))
        losses = [float(program({})) for _ in range(3)]
        return [*losses, x.value.copy(), weight.value.copy()]

    first = trained(1)
    assert first[0] > first[1] > first[2]
    for threads in (2, 3, 7):
        for have, want in zip(trained(threads), first, strict=True):
            np.testing.assert_array_equal(have, want)

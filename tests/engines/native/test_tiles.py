"""Products by tiles equal NumPy's on every target, and have the same bits on any number of threads."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.guarded import Guarded
from wyrm.engines.native.ir.types import FLOAT32, FLOAT64, scalar_of
from wyrm.engines.native.llvm import library
from wyrm.engines.native.llvm.optimize import AS_WRITTEN, machine_code
from wyrm.engines.native.llvm.product_modules import pool_module
from wyrm.engines.native.products import matrix, pool
from wyrm.engines.native.products.target import Target, host, target_of
from wyrm.engines.native.products.writer import SHARED
from wyrm.support.narrow_numbers import as_bfloat16, as_int4, from_bfloat16, from_int4

# Every shape of tile that `host` chooses; blocks of a few panels, so that small matrices have several.
# LLVM splits vectors that this processor does not have.
TARGETS = {
    "wide": Target(512, (14, 2), masks=True, block_bytes=2**17),
    "avx2": Target(256, (6, 2), masks=False, block_bytes=2**16),
    "arm": Target(128, (6, 4), masks=False, block_bytes=2**16),
    "narrow": Target(128, (4, 2), masks=False, block_bytes=2**15),
}
INTEGER, POINTER = ctypes.c_int64, ctypes.c_void_p
SIGNATURE = ctypes.CFUNCTYPE(
    None, INTEGER, INTEGER, INTEGER, POINTER, INTEGER, INTEGER, POINTER, INTEGER, INTEGER, POINTER, INTEGER,
    ctypes.c_bool,
)  # fmt: skip
Multiply = Callable[[Any, Any, Any, bool], None]


def product_of(target: Target, dtype: type, *, rounds: bool = False) -> Multiply:
    """Return the product of a target for a dtype, that of the right operand if it is narrow."""
    threads = pool_module(host())
    symbol = threads.symbol
    if symbol not in library._provided:
        library.provide(symbol, machine_code(threads.text, threads.level))
        library._provided.add(symbol)
    text = matrix.text(target, FLOAT64 if dtype is np.float64 else FLOAT32, symbol, scalar_of(dtype), rounds=rounds)
    loaded = library.Loaded(machine_code(text, AS_WRITTEN), SHARED)
    function = SIGNATURE(loaded.address)

    def multiply(x: Any, y: Any, out: Any, adds: bool, _keep: object = loaded) -> None:
        strides = [[step // each.itemsize for step in each.strides] for each in (x, y, out)]
        given = (x.ctypes.data, *strides[0], y.ctypes.data, *strides[1], out.ctypes.data, strides[2][0])
        function(*out.shape, x.shape[1], *given, adds)

    return multiply


@pytest.fixture(scope="module")
def products() -> Callable[[str, type], Multiply]:
    """Return a function that gives the product of a target and a dtype, that of the right operand if it is narrow."""
    return cache(lambda name, dtype: product_of(TARGETS[name], dtype))


def operand(random: np.random.Generator, rows: Any, columns: Any, dtype: type, by_columns: bool) -> Any:
    """Return a matrix inside a larger one, whose other elements are NaN: reading them would be seen."""
    room: Any = np.full((columns + 2, rows + 5) if by_columns else (rows + 2, columns + 5), np.nan, dtype)
    inside = room[1:-1, 2:-3]
    inside[:] = random.normal(size=inside.shape)
    return inside.T if by_columns else inside


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", TARGETS)
def test_products_of_any_size_and_layout(products: Any, target: str, dtype: type) -> None:
    multiply, random = products(target, dtype), np.random.default_rng(0)
    for _ in range(150):
        rows, columns, inner = random.integers(1, 80), random.integers(1, 150), random.integers(0, 600)
        x, y = (operand(random, *size, dtype, bool(random.integers(2))) for size in ((rows, inner), (inner, columns)))
        room: Any = random.normal(size=(rows + 2, columns + 40)).astype(dtype)
        expected, adds = room.astype(np.float64), bool(random.integers(2))
        inside = np.s_[1:-1, 7 : 7 + columns]
        expected[inside] = x.astype(np.float64) @ y.astype(np.float64) + (expected[inside] if adds else 0.0)
        multiply(x, y, room[inside], adds)
        tolerance = 1e-4 if dtype is np.float32 else 1e-12
        np.testing.assert_allclose(room, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16])
@pytest.mark.parametrize("target", TARGETS)
def test_right_operands_of_narrow_numbers(products: Any, target: str, dtype: type) -> None:
    multiply, random = products(target, dtype), np.random.default_rng(8)
    sizes = [tuple(random.integers(1, (40, 150, 400))) for _ in range(80)]
    for rows, columns, inner in [*sizes, (1, 1601, 1003), (1, 391, 4097), (2, 700, 801), (70, 300, 40), (5, 9, 0)]:
        exact: Any = random.normal(size=(columns, inner)).astype(np.float32)
        narrow = np.rint(30 * exact).astype(np.int8) if dtype is np.int8 else as_bfloat16(exact)
        wide = narrow.astype(np.float64) if dtype is np.int8 else from_bfloat16(narrow).astype(np.float64)
        x = operand(random, rows, inner, np.float32, bool(random.integers(2)))
        for transposed in (False, True):
            # No page may be read behind the last number.
            matrix_of = narrow if transposed else np.ascontiguousarray(narrow.T)
            guarded = Guarded.of(matrix_of)
            y = guarded.view(dtype, matrix_of.shape)
            room: Any = random.normal(size=(rows + 2, columns + 40)).astype(np.float32)
            expected, adds = room.astype(np.float64), bool(random.integers(2))
            inside = np.s_[1:-1, 7 : 7 + columns]
            expected[inside] = x.astype(np.float64) @ wide.T + (expected[inside] if adds else 0.0)
            multiply(x, y.T if transposed else y, room[inside], adds)
            scale = 1e-5 * max(1.0, np.abs(expected).max())
            np.testing.assert_allclose(room, expected, rtol=1e-4, atol=scale)


@pytest.mark.parametrize("target", TARGETS)
def test_right_operands_of_blocks_of_int4(products: Any, target: str) -> None:
    multiply, random = products(target, np.uint8), np.random.default_rng(9)
    sizes = [tuple(random.integers(1, (40, 150, 12))) for _ in range(60)]
    for rows, columns, blocks in [*sizes, (1, 1601, 33), (2, 301, 131), (70, 300, 2), (200, 40, 20)]:
        held = as_int4(random.normal(size=(columns, 32 * blocks)).astype(np.float32))
        wide = from_int4(held).astype(np.float64)
        x = operand(random, rows, 32 * blocks, np.float32, bool(random.integers(2)))
        guarded = Guarded.of(held)
        room: Any = random.normal(size=(rows + 2, columns + 40)).astype(np.float32)
        expected, adds = room.astype(np.float64), bool(random.integers(2))
        inside = np.s_[1:-1, 7 : 7 + columns]
        expected[inside] = x.astype(np.float64) @ wide.T + (expected[inside] if adds else 0.0)
        multiply(x, guarded.view(np.uint8, held.shape).T, room[inside], adds)
        np.testing.assert_allclose(room, expected, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("target", TARGETS)
def test_right_operands_whose_blocks_of_int4_run_along_rows(products: Any, target: str) -> None:
    multiply, random = products(target, np.uint8), np.random.default_rng(10)
    sizes = [tuple(random.integers(1, (40, 150, 12))) for _ in range(60)]
    for rows, inner, blocks in [*sizes, (1, 1601, 33), (2, 301, 131), (70, 300, 130), (200, 40, 20), (300, 600, 7)]:
        held = as_int4(random.normal(size=(inner, 32 * blocks)).astype(np.float32))
        wide = from_int4(held).astype(np.float64)
        x = operand(random, rows, inner, np.float32, bool(random.integers(2)))
        guarded = Guarded.of(held)
        room: Any = random.normal(size=(rows + 2, 32 * blocks + 40)).astype(np.float32)
        expected, adds = room.astype(np.float64), bool(random.integers(2))
        inside = np.s_[1:-1, 7 : 7 + 32 * blocks]
        expected[inside] = x.astype(np.float64) @ wide + (expected[inside] if adds else 0.0)
        multiply(x, guarded.view(np.uint8, held.shape), room[inside], adds)
        np.testing.assert_allclose(room, expected, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("target", TARGETS)
def test_large_products_of_few_rows(products: Any, target: str) -> None:
    multiply, random = products(target, np.float32), np.random.default_rng(5)
    for rows, inner, columns in ((1, 1003, 1601), (2, 13, 60_011), (1, 4096, 391), (2, 4097, 199), (3, 700, 801)):
        for by_columns in (False, True):
            x = operand(random, rows, inner, np.float32, by_columns)
            y = operand(random, inner, columns, np.float32, False)
            room: Any = random.normal(size=(rows + 2, columns + 40)).astype(np.float32)
            expected, inside = room.astype(np.float64), np.s_[1:-1, 7 : 7 + columns]
            for adds in (False, True):
                before = expected[inside] if adds else 0.0
                expected[inside] = x.astype(np.float64) @ y.astype(np.float64) + before
                multiply(x, y, room[inside], adds)
                np.testing.assert_allclose(room, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_small_products_touch_nothing_beside_their_operands(products: Any, target: str) -> None:
    multiply, random = products(target, np.float32), np.random.default_rng(6)
    x, y = (random.normal(size=size).astype(np.float32) for size in ((29, 600), (600, 150)))
    few = product([*range(1, 18), 29], (0, 1, 2, 7, 8, 13, 40), (1, 3, 5, 40))
    # Tiles of left operands whose rows are far apart are packed.
    packed = product((13, 15, 27, 29), (300, 600), (150,))
    for (rows, inner, columns), by_columns in product([*few, *packed], (False, True)):
        left, right = x[:rows, :inner], y[:inner, :columns]
        blocks = [Guarded.of(each) for each in (left.T if by_columns else left, right, np.ones((rows, columns), "f4"))]
        shapes = [(inner, rows) if by_columns else (rows, inner), (inner, columns), (rows, columns)]
        given, other, out = (each.view(np.float32, shape) for each, shape in zip(blocks, shapes, strict=True))
        for adds in (True, False):
            multiply(given.T if by_columns else given, other, out, adds)
            expected = left.astype(np.float64) @ right + adds
            np.testing.assert_allclose(out, expected, 1e-4, 1e-4, err_msg=f"{rows} x {inner} x {columns}")


def check_repeated_and_strided(multiply: Multiply, x: Any, y: Any) -> None:
    """Compare products of parts of `x`, (90, 120), with strides or repeated, and of `y`, (40, 70), with NumPy's."""
    left = [x[::3, ::3], x[::-3, ::-3], np.broadcast_to(x[0, :40], (30, 40)), np.broadcast_to(x[:30, :1], (30, 40))]
    right = [y, np.broadcast_to(y[0], y.shape), np.broadcast_to(y[:, 0].copy(), (70, 40)).T]
    for one in left:
        for other in right:
            out = np.full((30, 70), np.nan, np.float32)
            multiply(one, other, out, False)
            np.testing.assert_allclose(out, one @ other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_repeated_operands_and_any_strides_of_the_left_one(products: Any, target: str) -> None:
    multiply, random = products(target, np.float32), np.random.default_rng(1)
    x, y = random.normal(size=(90, 120)).astype(np.float32), random.normal(size=(40, 70)).astype(np.float32)
    check_repeated_and_strided(multiply, x, y)


def test_a_step_of_the_highest_tile_has_its_addresses_in_registers() -> None:
    target = target_of("x86_64-linux-gnu", "x86-64-v4")
    module = llvm.parse_assembly(matrix.text(target, FLOAT32, None))
    code = target.machine(3).emit_assembly(module).partition("\ntile_14_2:")[2].partition(".Lfunc_end")[0]
    steps = [each for each in re.split(r"^\.LBB\w+:", code, flags=re.MULTILINE) if each.count("vbroadcastss") == 14]
    assert len(steps) == 1
    # Addresses of all rows would be nine loads more, and a step of 28 products has time for few.
    assert len(re.findall(r"\(%r[bs]p\)|\(%rbx\)", steps[0])) <= 4


def test_two_panels_are_packed_together_and_rows_that_lie_in_other_pages_are_fetched() -> None:
    target = target_of("x86_64-linux-gnu", "x86-64-v4")
    module = llvm.parse_assembly(matrix.text(target, FLOAT32, None))
    code = target.machine(3).emit_assembly(module).partition("\npack_rows:")[2].partition(".Lfunc_end")[0]
    loops = [each for each in re.split(r"^\.LBB\w+:", code, flags=re.MULTILINE) if "prefetch" in each]
    assert len(loops) == 1
    # Two panels have four vectors, which are four cache lines.
    assert loops[0].count("prefetcht0") == 4
    assert len(re.findall(r"\tvmov\w+\t\S*\(.*\), %zmm", loops[0])) == 4
    assert len(re.findall(r"\tvmov\w+\t%zmm\d+, ", loops[0])) == 4


def test_infinities_and_nan_are_those_of_numpy(products: Any) -> None:
    multiply = products("narrow", np.float64)
    x, y = np.ones((9, 9)), np.ones((9, 9))
    x[0, 0], x[1, 1], y[2, 2], x[3, 3], y[3, 4], y[5, 5] = np.inf, np.nan, -np.inf, np.inf, 0.0, np.nan
    out = np.empty((9, 9))
    multiply(x, y, out, False)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, x @ y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_of_long_and_cancelling_sums_are_at_most_those_of_blas(products: Any, dtype: type) -> None:
    multiply, random = products("avx2" if host().bits >= 256 else "narrow", dtype), np.random.default_rng(2)
    for inner, cancels in ((100_000, False), (100_000, True), (1_000, False), (1_000, True)):
        x: Any = random.normal(size=(24, inner)).astype(dtype)
        y: Any = random.normal(size=(inner, 24)).astype(dtype)
        if cancels:
            x[:, inner // 2 :], y[inner // 2 :] = x[:, : inner // 2], -y[: inner // 2]
            x += np.asarray(1e-3 * random.normal(size=x.shape), dtype)
        exact = np.asarray(x, np.longdouble) @ np.asarray(y, np.longdouble)
        out: Any = np.empty((24, 24), dtype)
        multiply(x, y, out, False)
        ours, theirs = (np.sqrt(np.mean((each - exact) ** 2)) for each in (out, x @ y))
        assert ours <= theirs, (inner, cancels)


@pytest.mark.parametrize("rows", [4, 8, 20])
def test_errors_of_long_sums_in_few_rows_are_at_most_those_of_blas(products: Any, rows: int) -> None:
    multiply, random = products("avx2" if host().bits >= 256 else "narrow", np.float32), np.random.default_rng(6)
    for inner in (2_000, 30_000):
        x, y = (random.normal(size=size).astype(np.float32) for size in ((rows, inner), (inner, 40)))
        exact = x.astype(np.float64) @ y.astype(np.float64)
        out: Any = np.empty((rows, 40), np.float32)
        multiply(x, y, out, False)
        ours, theirs = (np.sqrt(np.mean((each - exact) ** 2)) for each in (out, x @ y))
        assert ours <= theirs, inner


@pytest.mark.parametrize("target", TARGETS)
def test_left_operands_whose_rows_share_sets_of_the_cache(products: Any, target: str) -> None:
    multiply, random = products(target, np.float32), np.random.default_rng(7)
    room: Any = np.full((80, 1024), np.nan, np.float32)
    for rows, inner, columns in ((77, 1000, 400), (13, 513, 130), (29, 5, 300)):
        x, y = room[:rows, 3 : 3 + inner], random.normal(size=(inner, columns)).astype(np.float32)
        x[:] = random.normal(size=x.shape)
        for given in (y, np.asfortranarray(y)):
            out = np.ones((rows, columns), np.float32)
            multiply(x, given, out, True)
            np.testing.assert_allclose(out, x @ y + 1.0, rtol=1e-3, atol=1e-3)


@pytest.fixture
def limited_to() -> Any:
    yield pool.limit
    pool.limit(None)


def test_threads_give_the_same_bits(products: Any, limited_to: Any) -> None:
    multiply, random = products("narrow", np.float32), np.random.default_rng(3)
    sizes = (
        (900, 101, 300), (50, 1000, 300), (4, 9_000, 500), (3_000, 1, 4_000), (1, 9_001, 900), (20, 160, 2_600),
        (56, 40, 3_900),
    )  # fmt: skip
    for rows, columns, inner in sizes:
        x, y = (random.normal(size=size).astype(np.float32) for size in ((rows, inner), (inner, columns)))
        assert rows * columns * inner >= 8_000_000
        found = []
        for threads in (1, 2, 3, 7):
            limited_to(threads)
            out = np.full((rows, columns), np.nan, np.float32)
            multiply(x, y, out, False)
            found.append(out)
        np.testing.assert_allclose(found[0], x @ y, rtol=1e-3, atol=1e-3)
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])


def test_many_threads_of_python_multiply_at_the_same_time(products: Any, limited_to: Any) -> None:
    multiply, random = products("narrow", np.float32), np.random.default_rng(4)
    limited_to(2)
    x, y = (random.normal(size=(220, 220)).astype(np.float32) for _ in range(2))
    expected, wrong = x @ y, []

    def run() -> None:
        out = np.empty_like(x)
        for _ in range(20):
            multiply(x, y, out, False)
            if not np.allclose(out, expected, rtol=1e-3, atol=1e-3):
                wrong.append(out)

    threads = [threading.Thread(target=run) for _ in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong

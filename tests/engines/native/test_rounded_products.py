"""Products of bfloat16 operands, `compute_dtype="bfloat16"`: their numbers, and the instructions that compute them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.native.test_tiles import Multiply, check_repeated_and_strided, operand, product_of
from tests.guarded import Guarded
from wyrm.engines.native.ir.types import FLOAT32
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.llvm.calling import kind_of_argument
from wyrm.engines.native.llvm.library import Modules
from wyrm.engines.native.llvm.optimize import optimized
from wyrm.engines.native.products import pool
from wyrm.engines.native.products import target as targets
from wyrm.engines.native.products.target import Target, host, rounding_host, target_of
from wyrm.errors import OptionError
from wyrm.graph.typing import FloatArray
from wyrm.ops.products.product import multiply_exactly, multiply_into
from wyrm.support.narrow_numbers import as_bfloat16, as_int4, from_bfloat16, from_int4

# Blocks of a few panels, so that small matrices have several.
SMALL = Target(512, (14, 2), masks=True, block_bytes=2**17, pairs="vectors")
# The instructions that multiply pairs of bfloat16.
PAIRS = re.compile(r"\b(tdpbf16ps|vdpbf16ps)\b")


def available(pairs: str) -> bool:
    """Whether this process may run the instructions."""
    if pairs == "tiles":
        return rounding_host().pairs == "tiles"
    return "+avx512bf16" in host().features.split(",")


@pytest.fixture(scope="module")
def products() -> Callable[[Any, type], Multiply]:
    """Return a function that gives the product of rounded operands, by "vectors" or by "tiles"."""

    def of(pairs: Any, dtype: type) -> Multiply:
        if not available(pairs):
            pytest.skip(f"this processor has no {pairs} of bfloat16")
        return product_of(replace(SMALL, pairs=pairs), dtype, rounds=True)

    return cache(of)


def rounded(x: FloatArray) -> FloatArray:
    """Return the nearest numbers of bfloat16."""
    return from_bfloat16(as_bfloat16(x.astype(np.float32)))


@pytest.mark.parametrize("pairs", ["vectors", "tiles"])
def test_products_of_any_size_and_layout(products: Any, pairs: str) -> None:
    multiply, random = products(pairs, np.float32), np.random.default_rng(0)
    sizes = [tuple(random.integers((1, 1, 0), (80, 150, 600))) for _ in range(200)]
    for rows, columns, inner in [*sizes, (32, 32, 0), (33, 65, 1), (16, 48, 33), (31, 17, 1_100), (97, 40, 2_000)]:
        x, y = (
            operand(random, *size, np.float32, bool(random.integers(2))) for size in ((rows, inner), (inner, columns))
        )
        x[:], y[:] = rounded(x), rounded(y)
        room: Any = random.normal(size=(rows + 2, columns + 40)).astype(np.float32)
        expected, adds = room.astype(np.float64), bool(random.integers(2))
        inside = np.s_[1:-1, 7 : 7 + columns]
        expected[inside] = x.astype(np.float64) @ y.astype(np.float64) + (expected[inside] if adds else 0.0)
        multiply(x, y, room[inside], adds)
        np.testing.assert_allclose(room, expected, 1e-4, 1e-4, err_msg=f"{rows} x {inner} x {columns}")


@pytest.mark.parametrize("pairs", ["vectors", "tiles"])
def test_operands_are_rounded_to_the_nearest(products: Any, pairs: str) -> None:
    multiply, random = products(pairs, np.float32), np.random.default_rng(1)
    x, y = (random.normal(size=size).astype(np.float32) for size in ((70, 90), (90, 110)))
    for left, right in ((x, y), (np.asfortranarray(x), np.asfortranarray(y))):
        out = np.empty((70, 110), np.float32)
        multiply(left, right, out, False)
        np.testing.assert_allclose(out, rounded(x).astype(np.float64) @ rounded(y), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pairs", ["vectors", "tiles"])
def test_operands_end_with_a_page(products: Any, pairs: str) -> None:
    multiply, random = products(pairs, np.float32), np.random.default_rng(2)
    for rows, inner, columns in ((13, 33, 40), (32, 32, 32), (29, 61, 35), (9, 300, 150), (65, 7, 33)):
        x, y = (rounded(random.normal(size=size)) for size in ((rows, inner), (inner, columns)))
        for left in (x, np.asfortranarray(x)):
            for right in (y, np.asfortranarray(y)):
                blocks = [
                    Guarded.of(np.ascontiguousarray(each if each.flags.c_contiguous else each.T))
                    for each in (left, right, np.ones((rows, columns), np.float32))
                ]
                a, b, out = (
                    block.view(np.float32, each.shape)
                    if each.flags.c_contiguous
                    else block.view(np.float32, each.T.shape).T
                    for block, each in zip(blocks, (left, right, np.ones((rows, columns))), strict=True)
                )
                multiply(a, b, out, True)
                np.testing.assert_allclose(out, x.astype(np.float64) @ y + 1.0, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("pairs", ["vectors", "tiles"])
def test_repeated_operands_and_any_strides_of_the_left_one(products: Any, pairs: str) -> None:
    multiply, random = products(pairs, np.float32), np.random.default_rng(3)
    check_repeated_and_strided(multiply, rounded(random.normal(size=(90, 120))), rounded(random.normal(size=(40, 70))))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.uint8])
@pytest.mark.parametrize("pairs", ["vectors", "tiles"])
def test_right_operands_of_narrow_numbers(products: Any, pairs: str, dtype: type) -> None:
    multiply, random = products(pairs, dtype), np.random.default_rng(4)
    for rows, columns, blocks in ((40, 150, 12), (9, 33, 1), (70, 300, 40), (31, 40, 3), (16, 700, 11), (10, 300, 9)):
        # An odd number of terms, except where blocks hold them.
        inner = 32 * blocks - (0 if dtype is np.uint8 else 5)
        exact = random.normal(size=(columns, inner)).astype(np.float32)
        x = rounded(random.normal(size=(rows, inner)))
        if dtype is np.uint8:
            held: Any = as_int4(exact)
            wide = from_int4(held)
        else:
            held = np.rint(30 * exact).astype(np.int8) if dtype is np.int8 else as_bfloat16(exact)
            wide = held.astype(np.float32) if dtype is np.int8 else from_bfloat16(held)
        expected = x.astype(np.float64) @ rounded(wide).astype(np.float64).T
        for by_rows in (False, True) if dtype is not np.uint8 else (False,):
            out = np.empty((rows, columns), np.float32)
            # No page may be read behind the last number.
            given = np.ascontiguousarray(held.T) if by_rows else held
            guarded = Guarded.of(given)
            right = guarded.view(given.dtype, given.shape)
            multiply(x, right if by_rows else right.T, out, False)
            np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("pairs", ["vectors", "tiles"])
def test_infinities_and_nan_stay_in_their_rows_and_columns(products: Any, pairs: str) -> None:
    multiply = products(pairs, np.float32)
    x, y = np.ones((40, 50), np.float32), np.ones((50, 60), np.float32)
    x[0, 0], x[1, 1], y[2, 2], x[3, 3], y[3, 4], y[5, 5] = np.inf, np.nan, -np.inf, np.inf, 0.0, np.nan
    out = np.empty((40, 60), np.float32)
    multiply(x, y, out, False)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, x @ y)


@pytest.mark.parametrize("pairs", ["vectors", "tiles"])
def test_threads_give_the_same_bits(products: Any, pairs: str) -> None:
    multiply, random = products(pairs, np.float32), np.random.default_rng(5)
    try:
        for rows, columns, inner in ((900, 101, 300), (50, 1000, 300), (300, 400, 700)):
            x, y = (random.normal(size=size).astype(np.float32) for size in ((rows, inner), (inner, columns)))
            found = []
            for threads in (1, 2, 3, 7):
                pool.limit(threads)
                out = np.full((rows, columns), np.nan, np.float32)
                multiply(x, y, out, False)
                found.append(out)
            for other in found[1:]:
                np.testing.assert_array_equal(other, found[0])
    finally:
        pool.limit(None)


# --- what the code says -----------------------------------------------------------------------------------------------


def rounded_product(x: FloatArray, y: FloatArray, out: FloatArray) -> None:
    multiply_into(x, y, out, 0)


def exact_product(x: FloatArray, y: FloatArray, out: FloatArray) -> None:
    multiply_exactly(x, y, out, 0)


def instructions(function: Any, target: Target, dtype: Any = np.float32) -> set[str]:
    """Return the instructions of AVX512_BF16 and AMX in the modules of a function of three matrices for a target."""
    modules = Modules(target=target)
    kinds = tuple(kind_of_argument(np.zeros((40, 40), dtype)) for _ in range(3))
    name = modules.translation.specialized(KernelFunction(function, distinct=True), kinds).function.name
    found: set[str] = set()
    for unit in modules.all_of(name)[0]:
        machine = target.machine(2)
        module, _ = optimized(unit.text, unit.level, machine)
        found |= {*PAIRS.findall(machine.emit_assembly(module))}
    return found


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ("sapphirerapids", {"tdpbf16ps"}), ("graniterapids", {"tdpbf16ps"}), ("cooperlake", {"vdpbf16ps"}),
        ("znver4", {"vdpbf16ps"}), ("znver5", {"vdpbf16ps"}), ("haswell", set()), ("skylake-avx512", set()),
    ],
)  # fmt: skip
def test_the_instructions_of_a_processor(cpu: str, expected: set[str]) -> None:
    target = target_of("x86_64-linux-gnu", cpu).rounding()
    assert instructions(rounded_product, target) == expected
    assert instructions(rounded_product, replace(target, pairs=None)) == set()


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "wasm32-unknown-unknown"])
def test_other_processors_keep_float32(triple: str) -> None:
    assert target_of(triple).rounding() == target_of(triple)


def test_products_of_float64_and_exact_ones_are_not_rounded() -> None:
    target = target_of("x86_64-linux-gnu", "sapphirerapids").rounding()
    assert instructions(rounded_product, target, np.float64) == instructions(exact_product, target) == set()


@pytest.mark.parametrize(
    ("cpu", "message"),
    [
        ("haswell", "keeps products in float32, which this processor multiplies as fast"),
        ("sapphirerapids", "the system does not let this process use AMX"),
    ],
)
def test_that_products_stay_in_float32_is_said(monkeypatch: pytest.MonkeyPatch, cpu: str, message: str) -> None:
    said: list[str] = []
    monkeypatch.setattr(targets, "say", said.append)
    monkeypatch.setattr(targets, "host", lambda: target_of("x86_64-linux-gnu", cpu))
    monkeypatch.setattr(targets, "_tiles_allowed", lambda: False)
    assert rounding_host.__wrapped__().pairs is None
    (text,) = said
    assert message in text


# --- programs ---------------------------------------------------------------------------------------------------------


class Batch(wy.Dim): ...


def language_model() -> tuple[Any, dict[Any, Any]]:
    """Return the loss of a small decoder, and its data."""
    wy.nn.seed(0)
    config = wy.nn.DecoderConfig(
        vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64,
    )  # fmt: skip
    inputs = [wy.IndexInput(dims=(Batch(), 32), name=name) for name in ("tokens", "targets")]
    loss = wy.nn.Decoder(config).loss(*inputs)
    tokens = np.random.default_rng(0).integers(0, 300, (8, 33))
    return loss, dict(zip(inputs, (tokens[:, :-1].copy(), tokens[:, 1:].copy()), strict=True))


def losses(steps: int, **options: Any) -> list[float]:
    loss, data = language_model()
    program = wy.compile(loss, wy.optim.AdamW(loss.parameters(), 3e-3), **options)
    return [float(program(data)) for _ in range(steps)]


needs_pairs = pytest.mark.skipif(rounding_host().pairs is None, reason="this processor has no pairs of bfloat16")


@needs_pairs
def test_all_products_of_a_training_step_are_rounded() -> None:
    loss, data = language_model()
    found = {}
    for dtype in (None, "bfloat16"):
        program: Any = wy.compile(loss, wy.optim.AdamW(loss.parameters(), 3e-3), compute_dtype=dtype)
        program(data)
        text = program.stages()["loop program"]
        found[dtype] = set(re.findall(r"product\(.*\)  # (.*)", text))
    assert found == {None: {"float32 @ float32"}, "bfloat16": {"rounded to bfloat16"}}


@needs_pairs
def test_losses_follow_those_of_jax_in_bfloat16() -> None:
    ours, theirs, exact = (
        losses(20, **options)
        for options in ({"compute_dtype": "bfloat16"}, {"compute_dtype": "bfloat16", "engine": "jax"}, {})
    )
    assert ours != exact
    np.testing.assert_allclose(ours, theirs, rtol=2**-7)
    np.testing.assert_allclose(ours, exact, rtol=2**-8)
    assert ours[-1] < 0.9 * ours[0]


@needs_pairs
@pytest.mark.parametrize("threads", [1, 2])
def test_gradients_are_those_of_float32_up_to_the_rounding(threads: int) -> None:
    loss, data = language_model()
    random, found = np.random.default_rng(1), []
    for dtype in (None, "bfloat16"):
        program: Any = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1), compute_dtype=dtype)
        for each in loss.parameters():
            each.zero_gradient()
        program.backward(data, threads=threads)
        found.append([np.array(each.gradient, np.float64) for each in loss.parameters()])
    exact, rough = found
    size = np.sqrt(sum(float((a**2).sum()) for a in exact))
    projections = [
        sum(float(((a - b) * random.normal(size=a.shape)).sum()) for a, b in zip(exact, rough, strict=True))
        for _ in range(16)
    ]
    # The unit of rounding of bfloat16 is 2**-8.
    assert 0 < np.sqrt(np.mean(np.square(projections))) < 2**-8 * size
    for a, b in zip(exact, rough, strict=True):
        assert np.linalg.norm(a - b) < 2**-6 * np.linalg.norm(a)


@needs_pairs
def test_layers_of_a_loop_in_python_are_rounded_too() -> None:
    assert losses(3, compute_dtype="bfloat16", loop="python") == losses(3, compute_dtype="bfloat16")


def test_float32_is_the_default() -> None:
    assert losses(2, compute_dtype="float32") == losses(2)


@needs_pairs
def test_exponentials_of_matrices_keep_their_digits() -> None:
    x = wy.Parameter(np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32) / 10, name="x")
    node = wy.linalg.expm(x)
    rough, exact = (wy.compile(node, compute_dtype=dtype)() for dtype in ("bfloat16", None))
    np.testing.assert_array_equal(rough, exact)


def test_parameters_and_states_stay_float32() -> None:
    loss, data = language_model()
    program = wy.compile(loss, wy.optim.AdamW(loss.parameters(), 3e-3), compute_dtype="bfloat16")
    program(data)
    assert {each.value.dtype for each in loss.parameters()} == {FLOAT32.dtype}


def test_unknown_dtypes_are_refused() -> None:
    loss, _ = language_model()
    given: Any
    for given, message in (("float16", "'float16' is not supported"), ("int8", "must be 'float32' or 'bfloat16'")):
        with pytest.raises(OptionError, match=message):
            wy.compile(loss, compute_dtype=given)

"""Kernels of the library, and small ones, compute the same in JAX as in Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from tests.engines.native.kernels.running import copies, same, written
from wyrm.engines.jax.kernels.forms import called, elementwise, jax_form
from wyrm.engines.native.kernels import functions_of_numbers
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.values import NotCompiled
from wyrm.ops import ctc
from wyrm.ops.elementwise import special_kernels
from wyrm.ops.kernels import eigenvalues
from wyrm.ops.linalg.kernels import cholesky_kernel

RANDOM = np.random.default_rng(0)
MATRIX = RANDOM.normal(size=(5, 5))
SYMMETRIC = MATRIX @ MATRIX.T
INFO = np.zeros(1, np.int64)


def memory(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape)


def check(function: Callable[..., Any], *arguments: Any, tolerance: float = 1e-12) -> None:
    """Assert that a kernel gives the same in JAX as in Python."""
    theirs = copies(arguments)
    expected = function(*theirs)
    with jax.enable_x64(True):
        results, changed = called(KernelFunction(function), arguments)
        same(tuple(map(np.asarray, results)), () if expected is None else (expected,), tolerance)
        for position, array in changed.items():
            same(np.asarray(array), theirs[position], tolerance)


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (eigenvalues.potrf, (76, 5, SYMMETRIC, 5, INFO)),
        (eigenvalues.potrf, (76, 5, -SYMMETRIC, 5, INFO)),
        (eigenvalues.trsm, (76, 76, 84, 78, 3, 5, 1.0, MATRIX, 5, MATRIX[:, :3].copy(), 3)),
        (eigenvalues.getrf, (5, 5, MATRIX, 5, np.zeros(5, np.int64), INFO)),
        (eigenvalues.geqrf, (5, 4, MATRIX[:4].copy(), 5, memory(4), memory(4), 4, INFO)),
        (eigenvalues.syevd, (86, 76, 5, SYMMETRIC, 5, memory(5), memory(25), 25, INFO, 1, INFO)),
    ],
    ids=["potrf", "potrf of no definite matrix", "trsm", "getrf", "geqrf", "syevd"],
)
def test_factorizations(kernel: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    check(kernel, *arguments)


def test_ctc() -> None:
    scores = np.log(RANDOM.dirichlet(np.ones(6), size=(3, 7)))
    labels, steps, lengths = RANDOM.integers(1, 6, (3, 3)), np.array([7, 6, 2]), np.array([3, 1, 3])
    check(ctc.ctc_kernel, scores, labels, steps, lengths, 0, memory(8, 7), memory(3))
    check(ctc.ctc_gradient_kernel, scores, labels, steps, lengths, 0, memory(8, 7), memory(2, 7), memory(3, 7, 6))


SPECIAL = [
    (special_kernels.digamma, 1), (special_kernels.ndtri, 1), (special_kernels.i0, 1), (special_kernels.i1e, 1),
    (special_kernels.zeta, 2), (special_kernels.betaln, 2), (special_kernels.gammainc, 2),
    (special_kernels.gammaincc, 2),
]  # fmt: skip


@pytest.mark.parametrize(("function", "count"), SPECIAL, ids=[each.__name__ for each, _ in SPECIAL])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_functions(function: Callable[..., Any], count: int, dtype: Any) -> None:
    x = [RANDOM.gamma(2.0, 3.0, 40).astype(dtype) for _ in range(count)]
    with np.errstate(all="ignore"), jax.enable_x64(dtype == np.float64):
        expected = np.array([function(*each) for each in zip(*x, strict=True)])
        found = elementwise(function, *x)
        assert found.dtype == dtype
        same(np.asarray(found), expected, 2e-6 if dtype == np.float32 else 1e-13)


# --- what becomes of loops -------------------------------------------------------------------------------------------

KERNELS = """
from wyrm.ops.kernels.sums import accumulated

def rows(x, out):
    for i in range(x.shape[0]):
        total = x.dtype.type(0)
        for j in range(x.shape[1]):
            total = accumulated(total, x[i, j] * x[i, j])
        for j in range(x.shape[1] - 1, -1, -1):
            if x[i, j] > 0:
                out[i, j] = x[i, j] / total

def shifted(x):
    for i in range(1, x.size):
        x[i] = x[i] + x[i - 1]

def alternating(x, a, b):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            a, b = b, a
            x[i, j] = a
    return a

def filled(x, b):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, 1:] = b
            b = x[i, j]

def first_above(x, bound):
    for i in range(x.size):
        if x[i] > bound:
            return i
    return -1

def looked_up(x, places, out):
    last = 0
    for i in range(places.size):
        last = places[i]
        out[i] = x[last]
    return last

def searched(x, bound):
    low, high = 0, x.size
    while low < high:
        middle = (low + high) // 2
        if x[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low

def refuses(x):
    y = x[0]
    if y > 0:
        raise IndexError("a number is positive")
    x[0] = 0.0
"""


def kernel_of_text(name: str) -> Any:
    return KernelFunction(written(KERNELS, name))


def test_independent_turns_are_no_loops() -> None:
    x = RANDOM.normal(size=(4, 30))
    check(kernel_of_text("rows").function, x, np.zeros((4, 30)))
    text = str(jax.make_jaxpr(jax_form(kernel_of_text("rows")))(x, np.zeros((4, 30))))
    assert "while" not in text and "scan" not in text and "reduce_sum" in text and "scatter" not in text


def test_dependent_turns_are_a_loop() -> None:
    check(kernel_of_text("shifted").function, RANDOM.normal(size=20))
    assert "scan" in str(jax.make_jaxpr(jax_form(kernel_of_text("shifted")))(np.ones(20)))


def test_turns_that_carry_a_number_are_a_loop() -> None:
    """A number that an inner loop carries from turn to turn of the outer one."""
    check(kernel_of_text("alternating").function, RANDOM.normal(size=(5, 3)), 3.0, 7.0)
    check(kernel_of_text("filled").function, RANDOM.normal(size=(5, 3)), 3.0)


def test_values_of_the_last_turn() -> None:
    check(kernel_of_text("looked_up").function, RANDOM.normal(size=6), np.array([4, 0, 2]), np.zeros(3))


@pytest.mark.parametrize("bound", [-9.0, 0.5, 9.0])
def test_returns_and_loops_of_unknown_length(bound: float) -> None:
    check(kernel_of_text("first_above").function, RANDOM.normal(size=7), bound)
    check(kernel_of_text("searched").function, np.sort(RANDOM.normal(size=7)), bound)


def test_lanes_leave_a_loop_one_by_one() -> None:
    """A function of numbers, for all elements of arrays that broadcast."""

    x = RANDOM.normal(size=(3, 1, 4))
    found = elementwise(special_kernels.betaln, np.abs(x), np.abs(x[0]) + 1)
    expected = [special_kernels.betaln(*each) for each in np.nditer([np.abs(x), np.abs(x[0]) + 1])]
    same(np.asarray(found).reshape(-1), np.array(expected).reshape(-1), 1e-5)


FUNCTIONS = [
    name
    for name, function in {**vars(np), **vars(math)}.items()
    if callable(function) and name in {*functions_of_numbers._OF_ONE, *functions_of_numbers._ROUNDING}
]


@pytest.mark.parametrize("enabled", [False, True])
def test_functions_of_numbers_need_no_option_of_jax(enabled: bool) -> None:
    """Each function of one number, of both float types, where JAX has 64-bit types enabled or not."""
    calls = [f"np.{name}(x)" if hasattr(np, name) else f"math.{name}(x)" for name in FUNCTIONS]
    of_two = ["np.hypot(x, y)", "np.arctan2(x, y)", "np.copysign(x, y)", "np.fmod(x, y)", "x // y", "x % y", "x**y"]
    text = "\n".join(["import math", "def kernel(x, y):", f"    return {', '.join([*calls, *of_two])}"])
    function = written(text, "kernel")
    x, y = np.array([0.3, 0.7, 0.95]), np.array([0.4, 0.2, -3.0])
    with jax.enable_x64(enabled):
        for dtype, tolerance in ((np.float32, 3e-6), (np.float64, 3e-6 if not enabled else 1e-13)):
            found = elementwise(function, x.astype(dtype), y.astype(dtype))
            with np.errstate(all="ignore"):
                expected = [function(*each) for each in zip(x.astype(dtype), y.astype(dtype), strict=True)]
            for name, one, other in zip([*calls, *of_two], found, zip(*expected, strict=True), strict=True):
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance / 3.0, err_msg=name)


def test_forms_work_in_transformations() -> None:
    form, x = jax_form(kernel_of_text("rows")), RANDOM.normal(size=(2, 4, 3)).astype(np.float32)
    expected = np.stack([np.asarray(form(each, np.zeros_like(each))[0]) for each in x])
    by_rows = jax.vmap(lambda each: form(each, jnp.zeros_like(each))[0])(x)
    same(np.asarray(by_rows), expected, 1e-6)
    slope = jax.grad(lambda x: form(x, jnp.zeros_like(x))[0].sum())(x[0])
    step = np.zeros_like(x[0])
    step[1, 2] = 1e-2
    sums = [float(form(x[0] + each, np.zeros_like(step))[0].sum()) for each in (step, -step)]
    assert abs(slope[1, 2] - (sums[0] - sums[1]) / 2e-2) < 1e-3


def test_forms_of_rows_on_devices() -> None:
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows, x = PartitionSpec("rows"), np.abs(RANDOM.normal(size=(4, 3))).astype(np.float32)

    def sorted_place(x: Any) -> Any:
        return elementwise(special_kernels.gammainc, x, x + 1), *jax_form(kernel_of_text("shifted"))(x[:, 0])

    found = jax.shard_map(sorted_place, mesh=mesh, in_specs=rows, out_specs=rows)(x)
    for one, other in zip(found, sorted_place(x), strict=True):
        same(np.asarray(one), np.asarray(other), 1e-6)


def test_results_have_32_bits_unless_jax_has_64() -> None:
    places = jnp.array([1, 0])
    last, out = jax_form(kernel_of_text("looked_up"))(jnp.ones(2), places, jnp.zeros(2))
    assert (last.dtype, out.dtype) == (np.int32, np.float32)
    with jax.enable_x64(True):
        assert jax_form(kernel_of_text("looked_up"))(np.ones(2), np.array([1, 0]), np.zeros(2))[0].dtype == np.int64


def test_a_kernel_that_raises_gives_nan() -> None:
    (found,) = jax_form(kernel_of_text("refuses"))(np.array([1.0, 2.0]))
    assert np.isnan(found).all()
    assert jax_form(kernel_of_text("refuses"))(np.array([-1.0, 2.0]))[0].tolist() == [0.0, 2.0]


def test_errors_name_the_line() -> None:
    with pytest.raises(NotCompiled, match=r"LAPACK.*kernels.py:\d+"):
        jax_form(cholesky_kernel)(np.ones((1, 2, 2)), np.ones((1, 2, 2)), np.zeros(1, np.int32))

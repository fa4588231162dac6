"""Tapes with a limit: the turns of loops in blocks that run forward again."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# Kernels of users have no types.

from __future__ import annotations

import math
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.ops.adjoints.checking import Case, tapes_of
from tests.ops.adjoints.programs import PROGRAMS, kalman
from tests.ops.adjoints.random_kernels import native
from tests.ops.adjoints.test_programs import SMOOTH, case_of, error
from wyrm.errors import IndexOutOfRange, OptionError
from wyrm.ops.adjoints import blocks
from wyrm.ops.adjoints.derived import adjoint, forward_and_backward, kind_of_value
from wyrm.ops.adjoints.op import residuals_of


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "TURNS", 2)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("levels", [1, 2])
def test_programs_equal_complex_steps(name: str, levels: int) -> None:
    case = case_of(name)
    expected = case.expected()
    assert error(case.reverse(levels=levels), expected) < 1e-12
    assert error(case.in_halves(levels=levels), expected) < 1e-12
    if levels == 1:
        assert error(case.in_halves(native, levels=1), expected) < 1e-12


def test_a_surrogate_slope_stands_in_place_of_the_derivative() -> None:
    function, make = PROGRAMS["integrate_and_fire"]
    case = Case(function, make(9), 3)
    assert case.in_halves(levels=1) == pytest.approx(case.forward(), rel=1e-12)


# Loops that are easy to divide wrongly.


def arrays_written_before_in_and_after(x, n):
    work = np.zeros(n)
    for i in range(n):
        work[i] = x[i] * x[i]
    total = 0.0
    for i in range(n):
        total = total * 0.9 + work[i] * work[n - 1 - i] + 0.1
        work[i] = work[i] * total
    for i in range(n):
        work[i] = x[i]  # what the loop before read
        total += work[i] * work[i]
    return total


def sums_in_place(x, n):
    work = np.zeros(2)
    for i in range(n):
        work[i % 2] += x[i] * x[i]
        work[0] -= x[i]
    return work[0] * work[1]


def down_by_two(x, n):
    v = 1.0
    for i in range(n - 1, 0, -2):
        v = v * x[i] + x[i - 1]
    return v


def views_from_before(x, n):
    table = np.zeros((2, n))
    row = table[1]
    for i in range(n):
        row[i] = x[i] * x[i] + row[i - 1]
    return row[n - 1] * table[1, 0]


def in_a_branch(x, n):
    v = 0.5
    if x[0] > 0.0:
        for i in range(n):
            v = v * x[i] + 0.3
    else:
        for i in range(n):
            v = v * 0.5 - x[i]
    return v


def in_a_loop_with_integers(x, n):
    v, m = 0.5, 0
    for k in range(3):
        for i in range(k, n):
            m = (m + i) % n
            v = v * x[m] + 0.3 * x[k]
        v = v * v
    return v


def that_breaks(x, n):
    v = x[0]
    for i in range(20):
        v = v * 1.2 + x[i % n] * v
        if v > 3.0:
            v = v * v
            break
    return v


def within_a_while(x, n):
    v, turns = x[0], 0
    while v < 40.0 and turns < 30:
        for i in range(n):
            v = v + 0.1 * v * x[i]
        turns += 1
    return v


def without_turns(x, n):
    v = x[0]
    for i in range(n, n):
        v = v * x[i]
    return v * v


KERNELS = [
    arrays_written_before_in_and_after, sums_in_place, down_by_two, views_from_before, in_a_branch,
    in_a_loop_with_integers, that_breaks, within_a_while, without_turns,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: str(kernel.__name__))
@pytest.mark.parametrize("levels", [1, 2])
def test_derivatives_equal_complex_steps(kernel: Any, levels: int) -> None:
    for size in (2, 7):
        case = Case(kernel, [np.random.default_rng(size).uniform(0.3, 1.1, size), size])
        expected = case.expected()
        for mode in (case.reverse, case.in_halves):
            assert mode(levels=levels) == pytest.approx(expected, rel=1e-11), size
        if levels == 1:
            assert case.in_halves(native, levels=1) == pytest.approx(expected, rel=1e-11), size


@pytest.mark.parametrize("name", ["kalman", "overwritten_and_read", "changed_in_loop"])
def test_the_adjoint_in_blocks_has_derivatives(name: str) -> None:
    function, make = PROGRAMS[name]
    arguments = make(5)
    derived = adjoint(function, [kind_of_value(each) for each in arguments], levels=1)
    x = [np.array(each) if isinstance(each, np.ndarray) else each for each in arguments]
    types = {**dict(derived.tapes), **{each.name: each.type for each in derived.work}}
    made: dict[str, np.ndarray] = {
        text: np.zeros(shape if known else 200, {"i": int, "b": bool}.get(types[text], float))
        for text, shape, known in zip(derived.sizes.names, derived.sizer(*x), derived.sizes.known, strict=True)
    }
    cotangents = [np.ones(np.shape(each)) for each, text in zip(x, derived.parameters, strict=True)
                  if text in derived.cotangents]  # fmt: skip
    case = Case(
        derived.function,
        [*x, *cotangents, *(1.0 for _ in derived.seeds), *(made[text] for text in tapes_of(derived))],
        2,
    )
    assert case.reverse() == pytest.approx(case.expected(), rel=1e-10)


def test_tapes_are_about_as_long_as_the_square_root_of_the_turns() -> None:
    def numbers(size: int, levels: int) -> int:
        given = [np.zeros(size), 0.5, 0.1, 0.9]
        found = forward_and_backward(kalman, [kind_of_value(each) for each in given], levels=levels)
        return sum(math.prod(shape) for derived in found for shape in derived.sizer(*given))

    assert numbers(10_000, 0) > 40_000
    assert numbers(10_000, 1) < 1_000
    assert numbers(10_000, 1) < 3 * numbers(1_000, 1) + 100


# --- ops --------------------------------------------------------------------------------------------------------------


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


@wy.kernel(tape_limit=4_000)
def filtered(observed, noise):
    return kalman(observed, noise, 0.1, 0.9)


@wy.kernel
def filtered_at_once(observed, noise):
    return kalman(observed, noise, 0.1, 0.9)


def observations(size: int) -> np.ndarray:
    return np.random.default_rng(size).normal(size=size)


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_gradients_are_those_without_a_limit(engine: Any) -> None:
    if engine == "jax":
        pytest.importorskip("jax")
    x, noise = wy.Parameter(observations(1_000)), wy.Parameter(np.float64(0.5))
    found = {}
    for kernel in (filtered, filtered_at_once):
        loss = kernel(x, noise)
        found[kernel] = wy.compile([loss, wy.grad(loss, x), wy.grad(loss, noise)], engine=engine)()
    for mine, others in zip(found[filtered], found[filtered_at_once], strict=True):
        np.testing.assert_allclose(mine, others, rtol=1e-10)


def test_a_gradient_that_keeps_the_limit_has_no_blocks() -> None:
    noise = wy.Parameter(np.float64(0.5))
    levels = {
        size: filtered(wy.Parameter(observations(size)), noise).plan.gradient_for([(size,), ()]).levels
        for size in (100, 1_000)
    }
    assert levels == {100: 0, 1_000: 1}


@pytest.mark.parametrize("kernel", [filtered, filtered_at_once])
def test_the_plan_of_a_program_says_the_bytes_that_a_call_allocates(kernel: Any) -> None:
    x, noise = wy.Input(dims=(Time(),), dtype=np.float64), wy.Parameter(np.float64(0.5))
    loss = kernel(x, noise)
    program = wy.compile([loss, wy.grad(loss, noise)])
    program({x: observations(10)})
    before, data = program.plan.peak_bytes, {x: observations(100_000)}
    tracemalloc.start()
    program(data)
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    said = program.plan.peak_bytes - before
    tapes = loss.plan.gradient_for([parent.dims for parent in loss.parents])
    needed = tapes.tape_bytes([(100_000,), ()])
    assert allocated == pytest.approx(said, rel=0.01, abs=20_000)
    others = 2 * data[x].nbytes  # x, and its gradient
    assert said == pytest.approx(needed + others, abs=1_000)
    assert needed == (1_600_064 if kernel is filtered_at_once else pytest.approx(12_800, rel=0.1))
    memory = program.profile(data, steps=1, memory=True).memory
    assert memory is not None
    assert memory.block_bytes + memory.own_bytes == pytest.approx(said, rel=0.01, abs=20_000)


@pytest.mark.parametrize("limit", [None, 0])
@pytest.mark.parametrize("name", ["soft_dtw", "hidden_markov", "kalman", "edit_distance", "integrate_and_fire"])
def test_tapes_of_known_length_are_used_to_the_end(name: str, limit: int | None) -> None:
    function, make = PROGRAMS[name]
    operands = [wy.Parameter(np.asarray(each)) for each in make(12)]
    loss: Any = wy.kernel(function, tape_limit=limit)(*operands)
    plan = loss.plan.gradient_for([each.dims for each in operands])
    shapes = [each.shape for each in operands]
    _, memory = plan.taken_apart(residuals_of(plan)(*operands).forward(), shapes)
    places = dict(zip(("tape", "tape32", "choices", "notes"), memory["notes"], strict=False))
    assert {each.name: each.shape for each in plan.tapes(shapes)} == {
        each.name: (places[each.name],) for each in plan.tapes(shapes)
    }


def test_second_derivatives() -> None:
    wy.testing.check_grads(filtered(wy.Parameter(observations(400)), wy.Parameter(np.float64(0.5))))


def test_open_axes_have_blocks() -> None:
    x, noise = wy.Input(dims=(Time(),), dtype=np.float64), wy.Parameter(np.float64(0.5))
    loss = filtered(x, noise)
    program = wy.compile([loss, wy.grad(loss, noise)])
    for size in (3, 500):
        fixed = wy.Constant(observations(size))
        expected = [filtered_at_once(fixed, noise), wy.grad(filtered_at_once(fixed, noise), noise)]
        for mine, other in zip(program({x: observations(size)}), expected, strict=True):
            np.testing.assert_allclose(mine, other.forward(), rtol=1e-10)


@wy.kernel(batch=Batch, tape_limit=200_000)
def faded(x: wy.Tensor[Batch, Time], factor, out: wy.Written[Batch, Time]):
    for b in range(x.shape[0]):
        mean = 0.0
        for t in range(x.shape[1]):
            mean = factor * mean * mean + (1.0 - factor) * x[b, t]
            out[b, t] = mean


def test_rows_in_threads_have_blocks_of_their_own() -> None:
    rows = np.random.default_rng(0).random((200, 300))
    x, factor = wy.Parameter(rows), wy.Parameter(np.float64(0.4))
    out = faded(x, factor)
    plan = out.plan.gradient_for([(200, 300), ()])
    assert plan.levels == 1  # a row is one turn of the outer loop: rows of a slot share a tape
    assert plan.tape_bytes([(200, 300), ()]) < plan.plan.gradient.tape_bytes([(200, 300), ()]) / 2
    loss = (out * out).sum()
    found = wy.compile([wy.grad(loss, x), wy.grad(loss, factor)])()
    again = pickle.loads(pickle.dumps((wy.grad(loss, x), wy.grad(loss, factor))))
    mean, d, slope = np.zeros(200), np.zeros(200), 0.0
    means = [mean]
    for t in range(300):
        means.append(0.4 * means[-1] ** 2 + 0.6 * rows[:, t])
    d_x = np.zeros_like(rows)
    for t in range(299, -1, -1):
        d = d + 2.0 * means[t + 1]
        d_x[:, t] = 0.6 * d
        slope += float(np.sum(d * (means[t] ** 2 - rows[:, t])))
        d = d * 0.8 * means[t]
    np.testing.assert_allclose(found[0], d_x, rtol=1e-11)
    np.testing.assert_allclose(found[1], slope, rtol=1e-11)
    np.testing.assert_allclose(again[0].forward(), d_x, rtol=1e-11)


@wy.kernel(tape_limit=0, room=300)
def grown(x, limit):
    v = x[0]
    while v < limit:
        v = v + 0.01 * x[1] * v
    return v


def test_a_loop_that_only_its_run_tells_needs_room_for_blocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "TURNS", 64)
    x = wy.Parameter(np.array([1.0, 0.5]))
    short, long, longer = grown(x, 10.0), grown(x, 1e10), grown(x, 1e60)
    for loss, turns in ((short, 462), (long, 4617)):
        value = wy.compile([loss, wy.grad(loss, x)])
        np.testing.assert_allclose(value()[1], [1.005**turns, turns * 0.01 * 1.005 ** (turns - 1)], rtol=1e-10)
    with pytest.raises(IndexOutOfRange, match=r"records more than 300 numbers: give it more room"):
        wy.compile([longer, wy.grad(longer, x)])()


def test_a_limit_is_a_number_of_bytes() -> None:
    with pytest.raises(OptionError, match="tape_limit"):
        wy.kernel(kalman, tape_limit=-1)

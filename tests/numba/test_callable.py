"""Functions and programs that code compiled by numba calls."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import wyrm as wy
from bench.sampling import hamiltonian
from wyrm.errors import DTypeError, IndexOutOfRange, OptionError, ShapeError

sample = numba.njit(nogil=True)(hamiltonian)


@numba.njit
def begin(seed: int) -> None:
    """Seed the generators of numba, which are not those of NumPy."""
    np.random.seed(seed)  # noqa: NPY002  # the interface that numba compiles


@numba.njit(parallel=True)
def in_threads(functions: Any, xs: Any) -> Any:
    found = np.zeros(len(xs))
    for thread in numba.prange(len(functions)):
        for row in range(thread, len(xs), len(functions)):
            found[row] = functions[thread](xs[row])[0]
    return found


@numba.njit
def call(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


@pytest.fixture(scope="module")
def energy() -> Any:
    precision = np.array([[2.0, 0.6], [0.6, 1.0]])
    return wy.numba.callable(wy.function(lambda q: 0.5 * (q @ precision @ q)).value_and_grad(), np.zeros(2))


def test_a_sampler_compiled_by_numba_calls_value_and_gradient(energy: Any) -> None:
    begin(0)
    found = sample(energy, np.zeros(2), 8, 0.3, 4000)
    expected = np.linalg.inv([[2.0, 0.6], [0.6, 1.0]])
    np.testing.assert_allclose(np.cov(found[200:].T), expected, atol=0.15)


def test_results_are_new_arrays_and_python_gets_the_same(energy: Any) -> None:
    points = np.random.default_rng(0).normal(size=(2, 2))
    (first, slope), (second, _) = (call(energy, each) for each in points)
    assert first != second
    np.testing.assert_array_equal(slope, energy(points[0])[1])


def test_each_thread_has_a_copy(energy: Any) -> None:
    points = np.random.default_rng(0).normal(size=(64, 2))
    expected = [energy(each)[0] for each in points]
    np.testing.assert_array_equal(in_threads(energy.copies(2), points), expected)


def test_programs_with_indices_and_open_axes_and_parameters_that_move() -> None:
    class Batch(wy.Dim): ...

    table, rows = wy.Parameter(np.arange(12.0).reshape(4, 3), name="table"), wy.IndexInput(dims=(Batch(),), name="rows")
    weights = wy.Input(dims=(3,), name="weights", dtype=np.float64)
    program = wy.compile([table.index(rows) @ weights, weights.sum()])
    look = wy.numba.callable(program, {rows: np.zeros(2, np.int64), weights: np.ones(3)})
    found, total = call(look, np.array([3, 1]), np.ones(3))
    assert found.tolist() == [30.0, 12.0] and total == 3.0
    table.set(np.ones((4, 3)))
    assert call(look, np.array([3, 1]), np.ones(3))[0].tolist() == [3.0, 3.0]
    for bad in (np.array([0, 4]), np.array([-1, 0])):
        with pytest.raises(IndexError, match="out of range"):
            call(look, bad, np.ones(3))
        with pytest.raises(IndexOutOfRange, match="takes 0 to 3"):
            look(bad, np.ones(3))
    with pytest.raises(ValueError, match="shape"):
        call(look, np.array([0]), np.ones(3))


def test_random_nodes_draw_anew_in_each_call() -> None:
    noisy = wy.numba.callable(lambda x: x + wy.random.normal(3), np.zeros(3))
    first, second, third = call(noisy, np.zeros(3)), call(noisy, np.zeros(3)), noisy(np.zeros(3))
    assert len({tuple(each) for each in (first, second, third)}) == 3


def test_wrong_arguments_are_told_before_anything_runs(energy: Any) -> None:
    for bad, text in ((np.zeros((2, 2)), "with 1 axes"), (np.zeros(2, np.float32), "of float64")):
        with pytest.raises(numba.TypingError, match=text):
            call(energy, bad)
    with pytest.raises(numba.TypingError, match="takes 1 arrays"):
        call(energy, np.zeros(2), np.zeros(2))
    with pytest.raises(ShapeError, match=r"shape \(2,\)"):
        energy(np.zeros(3))
    with pytest.raises(DTypeError, match="float64"):
        energy(np.zeros(2, np.float32))
    parameter = wy.Parameter(1.0, name="p")
    with pytest.raises(OptionError, match="without an optimizer"):
        wy.numba.callable(wy.compile(parameter.square(), wy.optim.SGD([parameter], 0.1)), {})
    x = wy.Input(dims=(2,), name="x")
    with pytest.raises(ShapeError, match=r"as \{x: array\}"):
        wy.numba.callable(wy.compile(x.sum()), np.zeros(2))


LOOP = """
import numba

@numba.njit(cache=True)
def twice(f, x):
    return f(f(x))
"""


def test_callers_are_cached_for_other_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "loop_of_twice.py").write_text(LOOP, encoding="utf-8")
    found = []
    for function in (lambda x: 2.0 * x, lambda x: 3.0 * x):
        sys.modules.pop("loop_of_twice", None)
        twice = importlib.import_module("loop_of_twice").twice
        result = twice(wy.numba.callable(function, np.zeros(2)), np.ones(2))
        found.append((result.tolist(), sum(twice.stats.cache_hits.values())))
    assert found == [([4.0, 4.0], 0), ([9.0, 9.0], 1)]

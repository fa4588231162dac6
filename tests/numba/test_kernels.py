"""Kernels that numba compiles: values, gradients, training, threads, loops, JAX, exceptions and the cache."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import wyrm as wy
from tests.numba import soft_dtw
from tests.numba.soft_dtw import Cubed, OutOfBounds, SoftDTW
from wyrm.engines.native.kernels.functions import kernel_of
from wyrm.engines.native.llvm.cache import CompilationCount
from wyrm.errors import OptionError, RegistrationError

TARGET = np.sin(np.arange(6) / 2.0)


def series(rows: int) -> Any:
    return np.random.default_rng(0).normal(size=(rows, 5))


@pytest.fixture(scope="module")
def loss() -> Any:
    class Batch(wy.Dim): ...

    x = wy.Input(dims=(Batch(), 5), name="x", dtype=np.float64)
    scale = wy.Parameter(np.ones(5), name="scale")
    return SoftDTW(x * scale, wy.Constant(TARGET)).mean(), x, scale


def test_gradients_are_those_of_finite_differences_in_every_engine() -> None:
    x = wy.Parameter(series(3), name="x")
    wy.testing.check_grads(SoftDTW(x, wy.Constant(TARGET)).sum(), order=1)
    wy.testing.check_grads(Cubed(wy.Parameter(series(1)[0], name="y")).sum())


def test_values_are_those_of_python(loss: Any) -> None:
    rows = series(4)
    expected = [float(SoftDTW(wy.Constant(rows), wy.Constant(TARGET)).forward()[i]) for i in range(4)]
    found = wy.compile(SoftDTW(wy.Parameter(rows, name="x"), wy.Constant(TARGET)))({})
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_training_in_threads_is_training_in_one(loss: Any) -> None:
    mean, x, scale = loss
    losses = []
    for threads in (1, 2):
        scale.set(np.ones(5))
        train = wy.compile(mean, wy.optim.SGD([scale], 0.02))
        data = {x: series(64)}
        losses.append([train.epoch(data, batch_size=16, threads=threads, mode="synchronized") for _ in range(3)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-9)
    assert losses[0][-1] < losses[0][0]


def test_an_exception_is_that_of_the_function_and_nothing_moves(loss: Any) -> None:
    mean, x, scale = loss
    train = wy.compile(mean, wy.optim.SGD([scale], 0.02))
    bad = series(64)
    bad[0, 0] = 1e9
    before = scale.value.copy()
    with pytest.raises(OutOfBounds, match="begins too far away") as caught:
        train.epoch({x: bad}, batch_size=64)
    assert "distances raised an exception; no parameter has moved" in caught.value.__notes__[0]
    np.testing.assert_array_equal(scale.value, before)
    assert np.isfinite(train.epoch({x: series(64)}, batch_size=64))


def test_a_loop_inside_the_graph_calls_it() -> None:
    xs = wy.Input(dims=(4, 2, 5), name="xs", dtype=np.float64)
    total, each = wy.scan(
        lambda total, x: (total + Cubed(SoftDTW(x, wy.Constant(TARGET))).sum(), SoftDTW(x, wy.Constant(TARGET))),
        wy.Constant(np.zeros(())),
        xs,
    )
    program, data = wy.compile([total, each]), series(8).reshape(4, 2, 5)
    assert "evaluate" not in program.source
    xs.set(data)
    for found, node in zip(program({xs: data}), (total, each), strict=True):
        np.testing.assert_allclose(found, node.forward(), rtol=1e-12)


def test_jax_calls_python_and_says_so_once(loss: Any) -> None:
    mean, x, _ = loss
    with pytest.warns(RuntimeWarning, match="JAX cannot trace op SoftDTW"):
        program = wy.compile(mean, engine="jax")
        found = program({x: series(4)})
    np.testing.assert_allclose(found, wy.compile(mean)({x: series(4)}), rtol=1e-5)


def test_what_numba_refuses_is_told_with_its_words() -> None:
    @numba.njit
    def strange(x: Any, out: Any) -> None:
        out[0] = x.no_such_attribute

    class Strange(wy.Node):
        __slots__ = ()
        shape_rule, dtype_rule, evaluate, vjp = Cubed.shape_rule, Cubed.dtype_rule, Cubed.evaluate, Cubed.vjp

        def __init__(self, x: Any) -> None:
            super().__init__(x)

    class StrangeLoops(wy.LoopForm):
        kernel = strange

    wy.LOOPS.register(Strange)(StrangeLoops)
    with pytest.raises(RegistrationError, match=r"numba cannot compile strange for .*no_such_attribute"):
        wy.compile(Strange(wy.Parameter([1.0], name="x")))({})


def test_an_export_refuses_it(tmp_path: Any) -> None:
    x = wy.Input(dims=(3,), name="x")
    with pytest.raises(OptionError, match="cubed_kernel calls cubed, which numba compiles"):
        wy.compile(Cubed(x)).export(tmp_path / "model")
    assert not (tmp_path / "model").exists()


# A function that calls another one, in a module that changes.
HELPER = """
import numba

@numba.njit
def inner(x):
    return x * {factor}

@numba.njit
def cubed(x, shift):
    return inner(x), shift + 1
"""


def test_the_cache_knows_all_that_a_function_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = []
    factor = float(np.random.default_rng().integers(10, 2**40))  # no program in the cache has it
    for each in (factor, factor, factor + 1.0):
        (tmp_path / "helper_of_cubed.py").write_text(HELPER.format(factor=each), encoding="utf-8")
        sys.modules.pop("helper_of_cubed", None)
        importlib.invalidate_caches()
        kernel_of.cache_clear()  # as in a new process
        monkeypatch.setattr(soft_dtw, "cubed", importlib.import_module("helper_of_cubed").cubed)
        before = CompilationCount.compiled
        value = wy.compile(Cubed(wy.Parameter(np.array([2.0]), name="x")))({})
        found.append((float(value[0]), CompilationCount.compiled > before))
    assert found == [(2.0 * factor + 3.0, True), (2.0 * factor + 3.0, False), (2.0 * factor + 5.0, True)]

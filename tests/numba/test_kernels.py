"""Kernels that numba compiles: values, gradients, training, threads, loops, JAX, exceptions and the cache."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import numba
import numpy as np
import pytest

import wyrm as wy
from tests.numba.soft_dtw import Cubed, OutOfBounds, SoftDTW
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


# The function that a kernel calls is in a module of its own, which the second run changes.
PROGRAM = """
import numpy as np, wyrm as wy
from tests.numba.soft_dtw import Cubed
from wyrm.engines.native.llvm.cache import CompilationCount
import helper, tests.numba.soft_dtw as ops
ops.cubed = helper.cubed
print(float(wy.compile(Cubed(wy.Parameter([2.0], name="x")))({})[0]), CompilationCount.compiled > 0)
"""
HELPER = """
import numba

@numba.njit
def inner(x):
    return x * {factor}

@numba.njit
def cubed(x, shift):
    return inner(x), shift + 1
"""


def test_the_cache_knows_all_that_a_function_calls(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYRM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    found = []
    for factor in (2.0, 2.0, 5.0):
        (tmp_path / "helper.py").write_text(textwrap.dedent(HELPER.format(factor=factor)), encoding="utf-8")
        done = subprocess.run([sys.executable, "-B", "-c", PROGRAM], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout.split())
    assert found == [["7.0", "True"], ["7.0", "False"], ["13.0", "True"]]

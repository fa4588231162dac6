"""Weak float types in functions, loops and branches: float64 programs give the numbers of NumPy and JAX in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.functions.array_cases import CASES
from tests.functions.test_array_functions import X
from wyrm.errors import DTypeError
from wyrm.graph.weak_types import is_weak

A = np.array([[-1.3, 2.1, 0.4], [0.7, -0.2, 3.3]])
LABELS = np.array([0, 2, 1])
FLOAT64 = np.dtype(np.float64)


@pytest.mark.parametrize("name", CASES)
def test_functions_of_weak_operands_are_those_of_numpy_in_float64(name: str) -> None:
    wanted = CASES[name](np, X)
    weak = CASES[name](np, wy.Constant(X.tolist()))
    assert is_weak(weak.dtype)
    for node in (weak + wy.Constant(np.zeros(())), CASES[name](np, wy.Input(X))):
        assert node.dtype == node.forward().dtype == FLOAT64
        np.testing.assert_allclose(node.value, wanted, rtol=1e-14, atol=1e-14 * np.abs(wanted).max(initial=0.0))


# Functions of NumPy's module or wyrm's, and an array or node.
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda np, a: np.where(a > 0, 0.1, 0.2),
    "nested where": lambda np, a: np.where(a > 0, np.where(a > 1, 0.1, 0.3), 0.2),
    "product with where": lambda np, a: a * np.where(a > 0, 1.1, 0.3),
    "mean of a mask": lambda np, a: a * (a > 0).mean(),
    "mean over an axis": lambda np, a: a * (a > 0).mean(axis=0),
    "var of a mask": lambda np, a: a * (a > 0).var(),
    "std of a mask": lambda np, a: a * (a > 0).std(axis=1, keepdims=True),
    "count by an integer": lambda np, a: a * ((a > 0).sum() / 7),
    "count by a float": lambda np, a: a * ((a > 0).sum() / 0.7),
    "indices": lambda np, a: a / ((np.argmax(a, axis=0) + 1) / 3),
    "maximum": lambda np, a: np.maximum(a, 0.1),
    "minimum": lambda np, a: np.minimum(0.1, a),
    "clip": lambda np, a: np.clip(a, -0.31, 0.7),
    "pad": lambda np, a: np.pad(a, 1, constant_values=0.1),
    "select": lambda np, a: np.select([a < 0, a < 1], [0.1, a], 0.7),
    "select numbers": lambda np, a: np.select([a < 0, a < 1], [0.1, 0.3], 0.7),
    "full_like": lambda np, a: np.full_like(a, 0.1),
    "power": lambda np, a: abs(a) ** 0.1,
    "power of a number": lambda np, a: 0.1**a,
    "ones": lambda np, a: a * np.ones((2, 3)),
    "zeros": lambda np, a: a + np.zeros(3),
    "full": lambda np, a: a * np.full((2, 3), 0.1),
    "eye": lambda np, a: a @ (np.eye(3) * 0.1),
    "identity": lambda np, a: a @ (np.identity(3) * 0.1),
    "tri": lambda np, a: a @ (np.tri(3) * 0.1),
    "arange": lambda np, a: a * np.exp(-np.arange(3.0) / 0.7),
    "arange of steps": lambda np, a: a * np.arange(0.0, 0.3, 0.1),
    "linspace": lambda np, a: a @ np.linspace(0, 1, 9).reshape(3, 3),
    "logspace": lambda np, a: a * np.logspace(0, 1.1, 3),
    "geomspace": lambda np, a: a * np.geomspace(0.1, 1.1, 3),
    "einsum": lambda np, a: np.einsum("ij,jk->ik", a, np.full((3, 2), 0.1)),
    "concatenate": lambda np, a: np.concatenate([np.full((1, 3), 0.1), a]),
    "stack": lambda np, a: np.stack([np.full((2, 3), 0.1), a]),
    "comparison": lambda np, a: np.where(a > np.linspace(-1, 1, 3), a, 0.3),
    "average": lambda np, a: np.average(a, axis=1, weights=np.linspace(0.1, 1, 3)),
    "interp": lambda np, a: np.interp(a, np.linspace(-1, 1, 5), np.linspace(0.1, 0.7, 5) ** 2),
    "hypot": lambda np, a: np.hypot(a, 0.1),
    "arctan2": lambda np, a: np.arctan2(0.1, a),
    "heaviside": lambda np, a: np.heaviside(a, 0.1),
    "copysign": lambda np, a: np.copysign(0.1, a),
    "remainder": lambda np, a: np.remainder(a, 0.3),
    "deg2rad": lambda np, a: np.deg2rad(a),
    "sinc": lambda np, a: np.sinc(a),
    "i0": lambda np, a: np.i0(a),
    "quantile": lambda np, a: np.quantile(a, 0.3, axis=1),
    "cov": lambda np, a: np.cov(a),
    "bincount": lambda np, a: np.bincount(LABELS, weights=a[0], minlength=4),
    "bincount of indices": lambda np, a: a * np.bincount(np.argmax(a, axis=0), minlength=3)[:3],
    "convolve": lambda np, a: np.convolve(np.linspace(0, 1, 4), a[0]),
    "gradient": lambda np, a: np.gradient(a, 0.1, axis=1),
    "diff": lambda np, a: np.diff(a, axis=1, prepend=0.1),
    "trapezoid": lambda np, a: np.trapezoid(a, dx=0.1),
    "cross": lambda np, a: np.cross(a, [0.1, 0.2, 0.3]),
    "solve": lambda np, a: np.linalg.solve(np.eye(3) * 0.1 + np.tri(3), a.T),
    "inv": lambda np, a: a @ np.linalg.inv(np.eye(3) * 0.1 + np.tri(3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_in_float64_give_the_numbers_of_numpy(name: str) -> None:
    node, wanted = PROGRAMS[name](wy, wy.Input(A)), PROGRAMS[name](np, A)
    assert node.dtype == FLOAT64 and node.shape == wanted.shape
    np.testing.assert_allclose(node.forward(), wanted, rtol=4e-15, atol=4e-15)


def test_numpy_functions_of_masks_and_numbers() -> None:
    a: Any = wy.Input(A)
    found = [np.where(a > 0, 0.1, 0.2), a * np.where(a > 0, 1.1, 0.0), a + np.mean(a > 0)]
    wanted = [np.where(A > 0, 0.1, 0.2), A * np.where(A > 0, 1.1, 0.0), A + np.mean(A > 0)]
    for node, array in zip(found, wanted, strict=True):
        assert node.dtype == FLOAT64 and node.forward().tolist() == array.tolist()


def test_the_engines_agree() -> None:
    x: Any = wy.Input(A)
    weak = wy.linspace(0.0, 1.0, 3) * 0.1
    outputs = [x * weak, np.where(x > 0, 0.1, 0.2), weak * 1.0]
    wanted = wy.run(outputs)
    with jax.enable_x64(True):
        for engine in ("native", "jax"):
            for have, want in zip(wy.compile(outputs, engine=engine)(), wanted, strict=True):
                assert have.dtype == want.dtype
                np.testing.assert_allclose(have, want, rtol=1e-7 if want.dtype == np.float32 else 1e-15)


def test_functions_that_depend_on_the_precision_choose_a_type() -> None:
    x, matrix = wy.Input(A[0]), wy.Constant([[1.0, 0.5], [0.1, 0.2], [0.3, 0.3]])
    for node in (wy.nan_to_num(wy.Constant([np.inf, 0.1, 0.2])), wy.linalg.pinv(matrix)[0]):
        with pytest.raises(DTypeError, match="do not mix"):
            x + node
    solution = wy.linalg.lstsq(matrix, x).x.forward()
    np.testing.assert_allclose(
        solution, np.linalg.lstsq(np.array([[1.0, 0.5], [0.1, 0.2], [0.3, 0.3]]), A[0])[0], rtol=1e-13
    )


# --- functions ------------------------------------------------------------------------------------------------------

TRACED: dict[str, Callable[[Any, Any], Any]] = {
    "mask": lambda np, a: np.where(a > 0, 0.1, 0.2),
    "number": lambda np, a: 0.1,
    "ones": lambda np, a: np.ones(3) * 0.1,
    "several": lambda np, a: (np.linspace(0, 1, 4) * 0.3, a * 0.1, np.eye(2) / 7),
    "sum": lambda np, a: (np.where(a > 0, 0.1, 0.2) * a * ((a > 0).sum() / 7)).sum(),
}


@pytest.mark.parametrize("name", TRACED)
def test_a_function_of_float64_returns_what_jax_returns(name: str) -> None:
    found = wy.function(lambda a: TRACED[name](wy, a))(A[0])
    with jax.enable_x64(True):
        wanted = jax.jit(lambda a: TRACED[name](jax.numpy, a))(A[0])
        for have, want in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert have.dtype == want.dtype == FLOAT64
            np.testing.assert_allclose(have, want, rtol=1e-15)
    narrow = wy.function(lambda a: TRACED[name](wy, a))(A[0].astype(np.float32))
    assert {leaf.dtype for leaf in jax.tree.leaves(narrow)} == {np.dtype(np.float32)}


def test_derivatives_of_a_function_are_in_the_type_of_its_arguments() -> None:
    def f(a: Any) -> Any:
        return np.where(a > 0, 0.1, 0.2) * a

    slopes = np.where(A[0] > 0, 0.1, 0.2)
    assert wy.function(lambda a: f(a).sum()).grad()(A[0]).tolist() == slopes.tolist()
    assert wy.vjp(f, A[0])[1](np.ones(3))[0].tolist() == slopes.tolist()
    assert wy.jvp(f, (A[0],), (np.ones(3),))[1].tolist() == slopes.tolist()
    assert wy.jacobian(f)(A[0]).tolist() == np.diag(slopes).tolist()
    constant = [wy.function(lambda a: 0.1).grad()(A[0]), wy.jacobian(lambda a: wy.ones(3) * 0.1)(A[0])]
    assert [array.dtype for array in constant] == [FLOAT64, FLOAT64]


def test_weak_nodes_from_outside_a_function() -> None:
    weak: Any = wy.ones(3) * 0.1
    assert wy.function(lambda a: weak)(A[0]).tolist() == [0.1, 0.1, 0.1]
    assert wy.function(lambda a: weak * a)(A[0]).tolist() == (0.1 * A[0]).tolist()
    assert wy.function(lambda a, b: a * b)(wy.Input(A[0]), weak).forward().tolist() == (0.1 * A[0]).tolist()


def test_vmap() -> None:
    assert wy.vmap(lambda a: np.where(a > 0, 0.1, 0.2))(A).tolist() == np.where(A > 0, 0.1, 0.2).tolist()
    assert wy.vmap(lambda a: wy.ones(2) * 0.1)(A).tolist() == [[0.1, 0.1]] * 2
    x, weak = wy.Input(A[0]), wy.Constant([0.1, 0.2])
    assert wy.vmap(lambda row: row * x)(weak).forward().tolist() == (np.array([[0.1], [0.2]]) * A[0]).tolist()
    assert wy.vmap(lambda row: row * 2.0)(weak).dtype == np.float32
    drawn = wy.vmap(lambda a: a * wy.random.normal((3,)))(wy.Input(np.ones((2, 3)))).forward()
    assert drawn.dtype == FLOAT64 and (drawn[0] != drawn[1]).all()


def test_a_custom_derivative() -> None:
    @wy.custom_vjp
    def tenth(x: Any) -> Any:
        return x

    tenth.define(lambda x: (x * 0.1, None), lambda _, gradient: (gradient * 0.3,))
    x = wy.Input(A[0])
    assert wy.function(lambda a: (tenth(a) * np.where(a > 0, 0.1, 0.2)).sum()).grad()(A[0]).dtype == FLOAT64
    assert (tenth(wy.ones(3) * 0.1) * x).forward().tolist() == (0.1 * 0.1 * A[0]).tolist()


def test_a_checkpoint() -> None:
    x, weak = wy.Parameter(A[0]), wy.ones(3) * 0.1
    result = wy.checkpoint(lambda y: (y * x).sum(), weak)
    assert wy.grad(result, x).forward().tolist() == [0.1, 0.1, 0.1]


# --- loops and branches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", [0.1, wy.full((), 0.1), wy.Constant(0.1)], ids=["number", "full", "constant"])
def test_a_weak_carry_takes_the_type_of_the_step(init: Any) -> None:
    x = wy.Input(A[0])
    last, made = wy.scan(lambda carry, row: (carry + row * 0.1, carry > 0.0), init, x)
    assert last.forward().item() == ((0.1 + A[0, 0] * 0.1) + A[0, 1] * 0.1) + A[0, 2] * 0.1
    assert made.dtype == np.bool_
    closed, halves = wy.scan(lambda carry, _: (carry + x.sum() * 0.1, carry / 2), init, None, length=2)
    assert closed.dtype == halves.dtype == FLOAT64
    np.testing.assert_allclose(closed.forward(), 0.1 + 2 * A[0].sum() * 0.1, rtol=1e-15)
    counted, _ = wy.scan(lambda carry, _: (carry * 2.0, carry > x[0]), init, None, length=2)
    assert counted.dtype == FLOAT64 and counted.forward().item() == 0.4


def test_weak_sequences_and_carries_of_several_parts() -> None:
    x = wy.Input(A[0])
    last, rows = wy.scan(lambda carry, row: (carry * 2.0 + row * x[1], row), 0.1, wy.linspace(0.0, 0.3, 3))
    assert rows.forward().tolist() == np.linspace(0.0, 0.3, 3).tolist() and last.dtype == FLOAT64
    (total, scaled), _ = wy.scan(lambda c, row: ((c[0] + row, c[1] * 0.1), None), (0.0, wy.ones(2)), x)
    assert scaled.forward().tolist() == [1.0 * 0.1 * 0.1 * 0.1] * 2 and total.dtype == FLOAT64
    alone, _ = wy.scan(lambda carry, row: (carry + row, None), 0.1, wy.linspace(0.0, 1.0, 3))
    assert alone.dtype == np.float32


def test_while_loops() -> None:
    x = wy.Input(A[0])
    summed = wy.while_loop(lambda c: c < 1.0, lambda c: c + 0.1 * x[1], 0.0)
    compared = wy.while_loop(lambda c: c < x[1], lambda c: c + 0.1, wy.zeros(()))
    count, total, tenths = 0, 0.0, 0.0
    while total < 1.0:
        total, count = total + 0.1 * A[0, 1], count + 1
    while tenths < A[0, 1]:
        tenths += 0.1
    assert summed.forward().item() == total and compared.forward().item() == tenths
    limited = wy.while_loop(lambda c: c < 1.0, lambda c: c + 0.1 * x[1], 0.0, max_steps=30)
    assert wy.grad(limited, x).forward()[1] == pytest.approx(0.1 * count, rel=1e-15)


def test_branches() -> None:
    x = wy.Input(A[0])
    assert wy.cond(x[0] > 0, lambda: 0.1, lambda: 0.2).forward().item() == 0.2
    assert wy.cond(x[0] > 0, lambda v: v * x, lambda v: v, wy.ones(3) * 0.3).forward().tolist() == [0.3] * 3
    branches: list[Any] = [lambda: x[0], lambda: 0.2, lambda: 0.3]
    assert wy.switch(wy.IndexConstant(2), branches).forward().item() == 0.3


def test_a_random_node_draws_where_it_was_built() -> None:
    x, outside = wy.Input(np.ones(3)), wy.random.normal(())
    _, same = wy.scan(lambda carry, row: (carry, row * outside), 0.0, x)
    _, new = wy.scan(lambda carry, row: (carry, row * wy.random.normal(())), 0.0, x)
    have, wanted, drawn = wy.run([same, x * outside, new])
    assert have.tolist() == wanted.tolist() and len(set(drawn.tolist())) == 3

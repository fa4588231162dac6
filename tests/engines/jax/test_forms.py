"""Properties of lowerings beyond the values of samples: refused matrices, indices out of range, narrow types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import wyrm as wy
from tests.samples import SAMPLES
from tests.samples.linalg import positive_definite, regular
from tests.samples.sample import Sample
from wyrm.engines.jax.lower import Lowerer
from wyrm.engines.jax.namespace import betaln
from wyrm.errors import IndexOutOfRange
from wyrm.graph.jax_form import JAX
from wyrm.graph.schedule import Schedule

L = wy.linalg


def lowered(node: Any, known: Any = None, **options: Any) -> Any:
    schedule = Schedule([node])
    return jax.jit(lambda values: Lowerer(**options).run(schedule, dict(zip(known or {}, values, strict=True))))(
        list((known or {}).values())
    )[0]


REFUSED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "cholesky": (L.cholesky, -np.eye(2)),
    "eigh": (lambda a: L.eigh(a).eigenvalues[..., None], np.full((2, 2), np.inf)),
    "expm": (L.expm, np.full((2, 2), np.nan)),
    "pinv": (L.pinv, np.full((2, 2), np.nan)),
    "solve": (lambda a: L.solve(a, np.ones((2, 1))), np.ones((2, 2))),
    "solve_triangular": (lambda a: L.solve_triangular(a, np.ones((2, 1)), lower=True), np.zeros((2, 2))),
    "svdvals": (lambda a: L.svdvals(a)[..., None], np.full((2, 2), np.inf)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_matrix_is_nan_and_others_are_not(name: str) -> None:
    function, wrong = REFUSED[name]
    right = positive_definite(2, 2)
    with jax.enable_x64(True):
        found = lowered(function(wy.Constant(np.stack([right, wrong]))))
    np.testing.assert_allclose(found[0], function(wy.Constant(right)).forward(), rtol=1e-10)
    assert np.isnan(found[1]).all()


def test_equal_eigenvalues_have_no_gradient() -> None:
    a = wy.Parameter(np.eye(2))
    (gradient,) = wy.grad(L.eigh(a).eigenvectors[0, 0], [a])
    with jax.enable_x64(True):
        assert np.isnan(lowered(gradient)).any()


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_matrices_without_elements(shape: tuple[int, ...]) -> None:
    a = wy.Constant(np.zeros(shape))
    with jax.enable_x64(True):
        for node in (L.inv(a), L.det(a), L.eigh(a).eigenvalues, L.svdvals(a), L.pinv(a), L.cholesky(a), L.expm(a)):
            np.testing.assert_array_equal(lowered(node), node.forward())


def test_factorizations_are_differentiable_by_jax() -> None:
    a = wy.Parameter(regular(3, 3) + 3.0 * np.eye(3))
    for node in (L.inv(a), L.svdvals(a), L.qr(a).R, L.slogdet(a).logabsdet, L.pinv(a)):
        total = (node * node).sum()
        (gradient,) = wy.grad(total, [a])
        schedule = Schedule([total])
        with jax.enable_x64(True):
            found = jax.jit(jax.grad(lambda value, s=schedule: Lowerer().run(s, {a: value})[0]))(a.value)
        np.testing.assert_allclose(found, gradient.forward(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["jv", "yv", "iv", "ive"])
def test_bessel_functions_are_differentiable_by_jax(name: str) -> None:
    x = wy.Parameter(np.array([0.4, 2.0, 7.0]))
    node = getattr(wy.special, name)(1.5, x).sum()
    (gradient,) = wy.grad(node, [x])
    with jax.enable_x64(True):
        found = jax.jit(jax.grad(lambda value: Lowerer().run(Schedule([node]), {x: value})[0]))(x.value)
        np.testing.assert_allclose(found, gradient.forward(), rtol=1e-10)


def test_beta_keeps_the_precision_of_float64() -> None:
    values = np.array([-100.5, -2.5, -0.7, 1e-10, 0.3, 1.0, 3.7, 9.9, 10.0, 50.0, 500.0, 1e10])
    a, b = np.meshgrid(values, values)
    with jax.enable_x64(True):
        found = betaln(jnp.asarray(a), jnp.asarray(b))
        np.testing.assert_allclose(found, special.betaln(a, b), rtol=1e-11, atol=1e-12)


def test_an_index_out_of_range_gives_nan() -> None:
    table, rows = wy.Parameter(np.ones((3, 2), np.float32)), wy.IndexConstant([0, 2, 1])
    for node in (table.index(rows + 1), table.take(rows + 1, axis=0), table[rows + 1, rows % 2], table.index(rows - 1)):
        found = np.isnan(np.asarray(lowered(node)))
        assert found.any() and not found.all()
    values = np.ones((3, 2), np.float32)
    for node in (table.scatter_add(rows - 1, values), table.at[rows + 1].set(2.0), table.at[rows + 1].add(2.0)):
        assert np.isnan(np.asarray(lowered(node))).any()


def test_data_beyond_32_bits_are_refused() -> None:
    large = np.array([5, 2**40])
    rows = wy.IndexInput(dims=(2,), name="rows")
    program = wy.compile(rows // 2, engine="jax")
    with pytest.raises(IndexOutOfRange, match=r"rows .* was given 1099511627776 at position 1"):
        program({rows: large})
    function, _ = wy.jax.lower(rows // 2, inputs=[rows])
    with pytest.raises(IndexOutOfRange, match="was given 1099511627776"):
        function({}, large)


def test_a_constant_beyond_32_bits_is_computed_with_64() -> None:
    found = wy.compile(wy.IndexConstant([5, 2**40]) // 2, engine="jax")()
    np.testing.assert_array_equal(found, [2, 2**39])


def narrow(sample: Sample) -> bool:
    return JAX.of_op(sample.op).narrow is True and sample.differentiable and "random" not in sample.tags


FAMILIES = {sample.op.__name__: sample for sample in SAMPLES if narrow(sample)}


@pytest.mark.parametrize("op", FAMILIES)
def test_narrow_ops_in_bfloat16(op: str) -> None:
    sample = FAMILIES[op]
    leaves: list[Any] = [
        wy.IndexConstant(x) if x.dtype.kind == "i" else wy.Parameter(x.astype(np.float32)) if x.dtype.kind == "f" else
        wy.Input(x) for x in sample.operands
    ]  # fmt: skip
    node = sample.build(*leaves)
    known = {leaf: leaf.value for leaf in leaves if leaf.dtype.kind == "f"}
    expected = node.forward()
    found = lowered(node, known, narrow=jnp.bfloat16)
    is_narrow = node.ndim > 1 and not JAX.of(node).exact
    assert found.dtype == (jnp.bfloat16 if is_narrow else node.dtype)
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(np.asarray(found, np.float32), expected, rtol=2e-2, atol=2e-2 * scale)

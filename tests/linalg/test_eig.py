"""Eigenvalues of matrices that are not symmetric: NumPy's numbers, PyTorch's derivatives, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from tests.samples.linalg import real_spectrum
from wyrm.errors import LinAlgError

ROTATION = np.array([[0.0, -1.0], [1.0, 0.0]])
SHAPES = [(1, 1), (3, 3), (2, 5, 5), (2, 3, 4, 4)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_are_those_of_numpy_in_every_engine(shape: tuple[int, ...], dtype: Any) -> None:
    a = real_spectrum(*shape).astype(dtype)
    nodes = [*wy.linalg.eig(wy.Constant(a)), wy.linalg.eigvals(wy.Constant(a))]
    # NumPy 2.5 returns complex numbers for real ones too.
    expected = [value.real for value in (*np.linalg.eig(a), np.linalg.eigvals(a))]
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    for engine in ("reference", "native", "jax"):
        found = wy.run(nodes) if engine == "reference" else wy.compile(nodes, engine=engine)()
        assert [value.dtype for value in found] == [dtype] * 3
        if dtype == np.float32:  # LAPACKs round otherwise, to another order and other signs
            values, vectors, _ = found
            np.testing.assert_allclose(np.sort(values), np.sort(expected[0]), rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(a @ vectors, vectors * values[..., None, :], atol=tolerance)
            np.testing.assert_allclose((vectors * vectors).sum(axis=-2), np.ones(shape[:-1]), rtol=tolerance)
            continue
        for value, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("part", ["values", "vectors", "both"])
@pytest.mark.parametrize("shape", SHAPES)
def test_first_and_second_derivatives_are_those_of_torch(shape: tuple[int, ...], part: str) -> None:
    a, direction = real_spectrum(*shape), np.random.default_rng(0).standard_normal(shape)

    def loss(values: Any, vectors: Any, rows: Any) -> Any:
        # It depends neither on the order of the eigenvalues nor on the signs of the vectors.
        of_values = values.exp() if part != "vectors" else values * 0.0 + 1.0
        squares = vectors * vectors if part != "values" else vectors * 0.0 + 1.0
        return (of_values[..., None, :] * squares * rows).sum() + (squares * squares * rows).sum()

    rows = np.linspace(-1.0, 2.0, shape[-1])[:, None]
    leaf = wy.Parameter(a)
    total = loss(wy.linalg.eig(leaf)[0], wy.linalg.eig(leaf)[1], rows)
    first = wy.grad(total, leaf)
    second = wy.grad((first * direction).sum(), leaf)

    tensor = torch.tensor(a, requires_grad=True)
    values, vectors = torch.linalg.eig(tensor)
    their_loss = loss(values.real, vectors.real, torch.tensor(rows))
    (their_first,) = torch.autograd.grad(their_loss, tensor, create_graph=True)
    (their_second,) = torch.autograd.grad((their_first * torch.tensor(direction)).sum(), tensor)
    for found in (wy.run([first, second]), wy.compile([first, second])()):
        np.testing.assert_allclose(found[0], their_first.detach().numpy(), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(found[1], their_second.numpy(), rtol=1e-7, atol=1e-7)


def test_gradients_beside_differences() -> None:
    a = wy.Parameter(real_spectrum(2, 4, 4))
    values, vectors = wy.linalg.eig(a)
    wy.testing.check_grads(values.exp().sum() + (vectors.square() * values[..., None, :]).square().sum(), order=2)


def test_the_gradient_of_jax_is_that_of_the_graph() -> None:
    import jax

    a = wy.Parameter(real_spectrum(3, 3), name="a")
    values, vectors = wy.linalg.eig(a)
    total = values.exp().sum() + vectors.square().square().sum()
    with jax.enable_x64(True):
        function, parameters = wy.jax.lower(total)
        (found,) = jax.tree.leaves(jax.jit(jax.grad(function))(parameters))
    np.testing.assert_allclose(found, wy.grad(total, a).forward(), rtol=1e-10)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_complex_eigenvalue_is_named_with_its_matrix(engine: str) -> None:
    batch = np.stack([np.eye(2), np.diag([1.0, 2.0]), 3.0 * ROTATION + np.eye(2), ROTATION])
    a = wy.Input(batch, name="transitions")
    values = wy.linalg.eigvals(a)
    with pytest.raises(LinAlgError, match=r"matrix 2 of the batch has the complex eigenvalue 1\+3j") as error:
        values.forward() if engine == "reference" else wy.compile(values)()
    assert "transitions" in str(error.value) and "test_eig.py" in str(error.value)


def test_nothing_changes_where_an_eigenvalue_is_complex() -> None:
    scale, a = wy.Parameter(1.0, name="scale"), wy.Input(dims=(2, 2), name="a")
    loss = wy.linalg.eigvals(a * scale).square().sum()
    program = wy.compile(loss, wy.optim.Adam([scale], 0.1))
    program({a: np.diag([1.0, 2.0])})
    before = float(scale)
    with pytest.raises(LinAlgError, match=r"(?s)complex eigenvalue .*no parameter has moved in this step"):
        program({a: ROTATION})
    assert float(scale) == before
    program({a: np.diag([1.0, 2.0])})
    assert float(scale) != before


def test_jax_gives_nan_for_a_complex_eigenvalue_alone() -> None:
    found = wy.compile(wy.linalg.eigvals(wy.Constant(np.stack([np.diag([1.0, 2.0]), ROTATION]))), engine="jax")()
    np.testing.assert_allclose(found[0], [1.0, 2.0])
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_equal_eigenvalues(engine: str) -> None:
    def value(node: Any) -> Any:
        return node.forward() if engine == "reference" else wy.compile(node)()

    # With n independent vectors, a symmetric function of the eigenvalues has its gradient, as with `eigh`.
    a = wy.Parameter(np.eye(3) * 2.0)
    np.testing.assert_allclose(value(wy.grad(wy.linalg.eigvals(a).prod(), a)), np.eye(3) * 4.0)
    with pytest.raises(LinAlgError, match="two equal eigenvalues"):
        value(wy.grad(wy.linalg.eig(a).eigenvectors.sum(), a))
    for dtype in (np.float32, np.float64):
        jordan = wy.Parameter(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]], dtype))
        np.testing.assert_allclose(value(wy.linalg.eigvals(jordan)), [1.0, 1.0, 3.0])
        with pytest.raises(LinAlgError, match=r"eig.*: the matrix has too few independent eigenvectors"):
            value(wy.grad(wy.linalg.eigvals(jordan).sum(), jordan))


def test_a_stationary_distribution_and_its_gradient() -> None:
    """The left eigenvector of a birth and death chain, whose eigenvalues are real, beside its closed form."""
    up, down = wy.Parameter(np.array([0.3, 0.2])), np.array([0.25, 0.4])
    chain = wy.diag(up, 1) + np.diag(down, -1)
    transitions = chain + wy.diag(1.0 - chain.sum(axis=-1))
    values, vectors = wy.linalg.eig(transitions.T)
    vector = (vectors * (values == values.max())).sum(axis=-1)
    found = vector / vector.sum()
    ratio = wy.concatenate([wy.ones(1), (up / down).cumprod(0)])
    expected = ratio / ratio.sum()
    np.testing.assert_allclose(found.forward(), expected.forward(), rtol=1e-12)
    weights = np.array([1.0, 3.0, -2.0])
    one, other = (wy.grad((each * weights).sum(), up).forward() for each in (found, expected))
    np.testing.assert_allclose(one, other, rtol=1e-10)

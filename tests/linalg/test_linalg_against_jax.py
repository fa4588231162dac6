"""Linear algebra against JAX in float64: values, first and second derivatives, in both engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

import wyrm as wy
from tests.samples.linalg import positive_definite, regular
from tests.samples.sample import normal

jnp = jax.numpy
LA, JLA = wy.linalg, jax.numpy.linalg
Case = tuple[Callable[..., Any], Callable[..., Any], tuple[NDArray[Any], ...]]


def _symmetric(a: Any) -> Any:
    """Return the symmetric matrices with the lower triangle of `a`, which is what NumPy reads."""
    return jnp.tril(a) + jnp.swapaxes(jnp.tril(a, -1), -1, -2)


def _projected_vectors(vectors: Any) -> Any:
    """Return the squares of the vectors' elements, which do not depend on the vectors' signs."""
    return vectors * vectors


# JAX takes long to compile the derivatives of `expm`: one shape will do.
CASES: dict[str, Case] = {"expm (2, 3, 3)": (LA.expm, jax.scipy.linalg.expm, (regular(2, 3, 3),))}
for shape in ((1, 1), (3, 3), (2, 5, 5), (2, 3, 4, 4)):
    CASES |= {
        f"cholesky {shape}": (LA.cholesky, lambda a: JLA.cholesky(_symmetric(a)), (positive_definite(*shape),)),
        f"inv {shape}": (LA.inv, JLA.inv, (regular(*shape),)),
        f"det {shape}": (LA.det, JLA.det, (regular(*shape),)),
        f"slogdet {shape}": (lambda a: LA.slogdet(a)[1], lambda a: JLA.slogdet(a)[1], (regular(*shape),)),
        f"eigvalsh {shape}": (LA.eigvalsh, lambda a: JLA.eigvalsh(_symmetric(a)), (positive_definite(*shape),)),
        f"eigh {shape}": (
            lambda a: _projected_vectors(LA.eigh(a).eigenvectors),
            lambda a: _projected_vectors(JLA.eigh(_symmetric(a))[1]),
            (positive_definite(*shape),),
        ),
        f"solve {shape}": (LA.solve, JLA.solve, (regular(*shape), normal(*shape[:-1], 2))),
        f"solve a vector {shape}": (
            LA.solve,
            lambda a, b: JLA.solve(a, b[:, None])[..., 0],
            (regular(*shape), normal(shape[-1])),
        ),
        f"solve_triangular {shape}": (
            lambda a, b: LA.solve_triangular(a, b, lower=True, trans=1),
            lambda a, b: jax.lax.linalg.triangular_solve(a, b, lower=True, transpose_a=True, left_side=True),
            (regular(*shape) + 2.0 * np.eye(shape[-1]), normal(*shape[:-1], 2)),
        ),
        f"matrix_power {shape}": (
            lambda a: LA.matrix_power(a, -3),
            lambda a: JLA.matrix_power(a, -3),
            (regular(*shape),),
        ),
    }
for shape in ((1, 1), (3, 3), (5, 2), (2, 4, 3), (3, 5), (2, 1, 3)):
    CASES |= {
        f"svdvals {shape}": (
            LA.svdvals,
            lambda a: JLA.svd(a, full_matrices=False, compute_uv=False),
            (regular(*shape),),
        ),
        f"svd, left {shape}": (
            lambda a: _projected_vectors(LA.svd(a, full_matrices=False).U),
            lambda a: _projected_vectors(JLA.svd(a, full_matrices=False)[0]),
            (regular(*shape),),
        ),
        f"svd, right {shape}": (
            lambda a: _projected_vectors(LA.svd(a, full_matrices=False).Vh),
            lambda a: _projected_vectors(JLA.svd(a, full_matrices=False)[2]),
            (regular(*shape),),
        ),
        f"pinv {shape}": (LA.pinv, JLA.pinv, (regular(*shape),)),
    }
    if shape[-2] >= shape[-1]:  # JAX has no gradient of other QR factorizations
        CASES |= {
            f"qr, q {shape}": (lambda a: LA.qr(a).Q, lambda a: JLA.qr(a)[0], (regular(*shape),)),
            f"qr, r {shape}": (lambda a: LA.qr(a, "r"), lambda a: JLA.qr(a)[1], (regular(*shape),)),
        }
    if len(shape) == 2:
        CASES[f"lstsq {shape}"] = (
            lambda a, b: LA.lstsq(a, b).x,
            lambda a, b: JLA.lstsq(a, b)[0],
            (regular(*shape), normal(shape[0], 2)),
        )
        for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            CASES[f"norm {order} {shape}"] = (
                lambda a, o=order: LA.norm(a, o, axis=(0, 1)),
                lambda a, o=order: JLA.norm(a, o, axis=(0, 1)),
                (regular(*shape),),
            )
    for order in (None, 0, 1, 2, 3, -1, 0.5, np.inf, -np.inf):
        CASES[f"norm of vectors {order} {shape}"] = (
            lambda a, o=order: LA.norm(a, o, axis=-2, keepdims=True),
            lambda a, o=order: JLA.norm(a, o, axis=-2, keepdims=True),
            (regular(*shape),),
        )


NAMES = list(CASES)
GROUPS = [NAMES[start : start + 12] for start in range(0, len(NAMES), 12)]


def outputs_of(name: str) -> tuple[list[Any], Callable[..., list[Any]]]:
    """Return the value, the gradients and the second derivatives of a case as nodes, and a function of JAX for them."""
    ours, theirs, operands = CASES[name]
    random = np.random.default_rng(0)
    directions = [random.standard_normal(x.shape) for x in operands]
    leaves: Any = [wy.Parameter(x) for x in operands]
    node = ours(*leaves)
    weights = random.standard_normal(node.shape)
    first = wy.vjp(node, leaves, weights)
    slope: Any = sum(((g * d).sum() for g, d in zip(first, directions, strict=True)), start=wy.Constant(np.zeros(())))
    second = wy.grad(slope, leaves, allow_unused=True)

    def loss(*arrays: Any) -> Any:
        return jnp.sum(theirs(*arrays) * weights)

    positions = tuple(range(len(operands)))

    def values(*arrays: Any) -> list[Any]:
        # Second derivatives are symmetric: forwards, JAX traces and compiles them in less time than backwards.
        first, second = jax.jvp(jax.grad(loss, positions), arrays, tuple(directions))
        return [theirs(*arrays), *first, *second]

    return [node, *first, *second], values


@pytest.mark.parametrize("names", GROUPS, ids=[f"from_{names[0]}" for names in GROUPS])
def test_values_and_derivatives(names: list[str]) -> None:
    with jax.enable_x64(True):
        cases = {name: outputs_of(name) for name in names}
        values = [values for _, values in cases.values()]

        def all_values(arrays: list[Any]) -> list[list[Any]]:
            return [function(*operands) for function, operands in zip(values, arrays, strict=True)]

        # One function compiles in less time than each case by itself.
        expected = jax.jit(all_values)([CASES[name][2] for name in names])
    for (name, (outputs, _)), wanted in zip(cases.items(), expected, strict=True):
        for found, want in zip(wy.run(outputs), wanted, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (-1, -2)])
def test_matrix_norms_are_those_of_numpy(order: Any, keepdims: bool, axis: Any) -> None:
    x = normal(3, 4, 2)
    # NumPy's function of a node.
    found = np.linalg.norm(wy.Parameter(x), order, axis=axis, keepdims=keepdims)  # type: ignore[call-overload]
    expected = np.linalg.norm(x, order, axis=axis, keepdims=keepdims)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.forward(), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, -1, 0.5, np.inf, -np.inf])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
def test_vector_norms_are_those_of_numpy(order: Any, keepdims: bool, axis: int) -> None:
    x = normal(3, 4)
    found = np.linalg.norm(wy.Parameter(x), order, axis, keepdims)  # type: ignore[call-overload]  # a node
    expected = np.linalg.norm(x, order, axis, keepdims)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.forward(), expected, rtol=1e-12)

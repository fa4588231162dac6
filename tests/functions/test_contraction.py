"""Products that contract axes, against NumPy, JAX and the native engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import ShapeError

jax = pytest.importorskip("jax")
RANDOM = np.random.default_rng(3)
SUBSCRIPTS = {
    "i->": ((3,),),
    "ij->ji": ((2, 3),),
    "ij": ((2, 3),),
    "ba": ((2, 3),),
    "ii": ((3, 3),),
    "ii->i": ((3, 3),),
    "jiji->ij": ((2, 3, 2, 3),),
    "iij,jk": ((3, 3, 2), (2, 4)),
    "ij,jk,kl": ((2, 3), (3, 4), (4, 5)),
    "ij,jk,kl->li": ((2, 3), (3, 4), (4, 5)),
    "i,j,k->kji": ((2,), (3,), (4,)),
    "ab,bc,cd,de,ea->": ((2, 3), (3, 2), (2, 4), (4, 3), (3, 2)),
    "...ij,...jk->...ik": ((5, 2, 3), (5, 3, 4)),
    "...ij,jk": ((5, 6, 2, 3), (3, 4)),
    "i...,...i": ((3, 1, 4), (2, 4, 3)),
    "...i,i->...": ((2, 3), (3,)),
    "... , ...": ((4, 1), (3,)),
    "b...,b->...b": ((2, 3, 4), (2,)),
}


def nodes_of(shapes: tuple[tuple[int, ...], ...]) -> tuple[list[np.ndarray], list[Any]]:
    arrays = [RANDOM.normal(size=shape) for shape in shapes]
    return arrays, [wy.Parameter(array) for array in arrays]


@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_einsum_in_values_and_gradients(subscripts: str) -> None:
    arrays, nodes = nodes_of(SUBSCRIPTS[subscripts])
    result: Any = wy.einsum(subscripts, *nodes)
    expected = np.einsum(subscripts, *arrays)
    np.testing.assert_allclose(result.forward(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(wy.compile(result)(), expected, rtol=1e-11, atol=1e-12)
    weight = RANDOM.normal(size=expected.shape)

    def loss(*operands: Any) -> Any:
        return (jax.numpy.einsum(subscripts, *operands) * weight).sum()

    found = wy.grad((result * weight).sum(), nodes)
    with jax.enable_x64(True):
        wanted = jax.jit(jax.grad(loss, tuple(range(len(arrays)))))(*arrays)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.forward(), other, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(np.einsum(subscripts, *nodes).forward(), expected, rtol=1e-12, atol=1e-12)


def test_einsum_by_lists_of_axes() -> None:
    arrays, (x, y) = nodes_of(((2, 3), (3, 4)))
    np.testing.assert_allclose(wy.einsum(x, [0, 1], y, [1, 2]).forward(), arrays[0] @ arrays[1])
    np.testing.assert_allclose(wy.einsum(x, [0, 1], y, [1, 2], [2, 0]).forward(), (arrays[0] @ arrays[1]).T)
    found = wy.einsum(x, (..., 1), arrays[1], [1, 2], (..., 2)).forward()
    np.testing.assert_allclose(found, arrays[0] @ arrays[1])
    with pytest.raises(ShapeError, match="are not of the form"):
        wy.einsum("i-", x)
    with pytest.raises(TypeError, match=r"a sublist holds integers from 0 to 51 and \.\.\., not \[0, -1\]"):
        wy.einsum(x, [0, -1])


def test_einsum_contracts_in_the_cheapest_order() -> None:
    sizes = (50, 40), (40, 30), (30, 2)
    _, nodes = nodes_of(sizes)
    cheap = wy.einsum("ij,jk,kl->il", *nodes)
    assert {parent.shape for parent in cheap.parents} == {(50, 40), (40, 2)}
    in_order = wy.einsum("ij,jk,kl->il", *nodes, optimize=False)
    assert {parent.shape for parent in in_order.parents} == {(50, 30), (30, 2)}
    chosen = wy.einsum("ij,jk,kl->il", *nodes, optimize=["einsum_path", (1, 2), (0, 1)])
    for other in (in_order, chosen):
        np.testing.assert_allclose(other.forward(), cheap.forward(), rtol=1e-12)


def test_einsum_of_three_operands_names_the_axes_that_differ() -> None:
    x, y = wy.Input(dims=(2, 3)), wy.Input(dims=(3, 4))
    with pytest.raises(wy.errors.ShapeError, match=r"axis 'k': 4 against 2"):
        wy.einsum("ij,jk,kl->il", x, y, x)


def test_einsum_keeps_the_names_of_axes() -> None:
    class Batch(wy.Dim): ...

    class Hidden(wy.Dim): ...

    x = wy.Input(dims=(Batch(), Hidden(3)), dtype=np.float64)
    result = wy.einsum("bi,ij,jk->kb", x, np.ones((3, 2)), np.ones((2, 4)))
    assert result.dims[0] == 4 and isinstance(result.dims[1], Batch)
    x.set(np.ones((5, 3)))
    assert result.forward().shape == (4, 5)


def test_einsum_under_vmap() -> None:
    x, y = RANDOM.normal(size=(4, 3, 3)), RANDOM.normal(size=(3, 2))
    found = wy.vmap(lambda a: wy.einsum("ii,ij,kj->k", a, y, y))(x)
    np.testing.assert_allclose(found, np.einsum("bii,ij,kj->bk", x, y, y), rtol=1e-12)


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "matmul": (lambda xp, x, y: xp.matmul(x, y), ((2, 3), (3, 4))),
    "dot": (lambda xp, x, y: xp.dot(x, y), ((2, 3), (5, 3, 4))),
    "dot of vectors": (lambda xp, x, y: xp.dot(x, y), ((3,), (3,))),
    "dot of a number": (lambda xp, x, y: xp.dot(x, y), ((), (3,))),
    "inner": (lambda xp, x, y: xp.inner(x, y), ((2, 3), (4, 5, 3))),
    "inner of a number": (lambda xp, x, y: xp.inner(x, y), ((2, 3), ())),
    "vdot": (lambda xp, x, y: xp.vdot(x, y), ((2, 3), (3, 2))),
    "vecdot": (lambda xp, x, y: xp.vecdot(x, y), ((4, 2, 3), (2, 3))),
    "outer": (lambda xp, x, y: xp.outer(x, y), ((2, 2), (3,))),
    "kron": (lambda xp, x, y: xp.kron(x, y), ((2, 3), (4, 2))),
    "kron of other ranks": (lambda xp, x, y: xp.kron(x, y), ((3,), (2, 2, 2))),
    "tensordot": (lambda xp, x, y: xp.tensordot(x, y), ((2, 3, 4), (3, 4, 5))),
    "tensordot of pairs": (lambda xp, x, y: xp.tensordot(x, y, axes=([0, -1], [1, 0])), ((2, 3, 4), (4, 2, 5))),
    "tensordot of one pair": (lambda xp, x, y: xp.tensordot(x, y, axes=(1, -1)), ((2, 3), (4, 3))),
    "tensordot of none": (lambda xp, x, y: xp.tensordot(x, y, axes=0), ((2,), (3,))),
    "cross": (lambda xp, x, y: xp.cross(x, y), ((4, 3), (3,))),
    "cross along an axis": (lambda xp, x, y: xp.cross(x, y, axis=0), ((3, 2), (3, 2))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_in_values_and_gradients(name: str) -> None:
    product, shapes = PRODUCTS[name]
    arrays, nodes = nodes_of(shapes)
    expected = product(np, *arrays)
    result = product(wy, *nodes)
    for each in (result, product(np, *nodes), product(wy, nodes[0], arrays[1]), product(wy, arrays[0], nodes[1])):
        np.testing.assert_allclose(each.forward(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(wy.compile(result)(), expected, rtol=1e-11, atol=1e-12)
    weight = RANDOM.normal(size=np.shape(expected))
    found = wy.grad((result * weight).sum(), nodes)
    with jax.enable_x64(True):
        wanted = jax.jit(jax.grad(lambda x, y: (product(jax.numpy, x, y) * weight).sum(), (0, 1)))(*arrays)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.forward(), other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: wy.tensordot(x, x, axes=([0], [0, 1])), r"tensordot: axes must be a number or two lists of axes"),
        (lambda x: wy.cross(x, x), r"cross: takes vectors of 3 elements along axis -1\n  operand 0  x \(2, 4\)"),
        (lambda x: wy.einsum("ij,jk", x, x), r"axis 'j': 4 against 2"),
        (lambda x: wy.einsum("i...j...k", x), r"names 6 axes, but the operand has 2"),
    ],
)
def test_operands_that_do_not_fit(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message) as error:
        call(wy.Parameter(np.ones((2, 4)), name="x"))
    assert "test_contraction.py" in str(error.value)

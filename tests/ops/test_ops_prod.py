"""The product: its derivatives where elements are zero, to the third order, and over axes whose size the data gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import wyrm as wy


class Rows(wy.Dim): ...


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 2, 3)])
def test_derivatives_to_the_third_order_with_zeros(zeros: tuple[int, ...]) -> None:
    point = np.array([2.0, -3.0, 0.5, 4.0])
    point[list(zeros)] = 0.0
    x = wy.Parameter(point)
    product = x.prod()
    first = wy.grad(product, x)
    for i, j, k in itertools.product(range(4), repeat=3):
        second = wy.grad(first[i], x)[j]
        third = wy.grad(second, x, allow_unused=True)[k]
        for places, found in (((i,), first[i]), ((i, j), second), ((i, j, k), third)):
            distinct = len(set(places)) == len(places)
            expected = np.prod(np.delete(point, places)) if distinct else 0.0
            assert float(found.forward()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_product_over_rows_of_the_data_in_a_program(rows: int) -> None:
    x = wy.Input(dims=(Rows(), 3), dtype=np.float64)
    program = wy.compile([x.prod(axis=0), wy.grad(x.prod(axis=(0, 1)), x)])
    data = np.random.default_rng(rows).normal(size=(rows, 3))
    data[rows // 2 :, 1] = 0.0
    product, gradient = program({x: data})
    np.testing.assert_allclose(product, data.prod(axis=0))
    flat = data.ravel()
    others = [np.prod(np.delete(flat, place)) for place in range(flat.size)]
    np.testing.assert_allclose(gradient, np.reshape(others, data.shape), atol=1e-15)

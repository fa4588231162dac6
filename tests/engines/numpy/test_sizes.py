"""Axes whose sizes come from the data: changing batch sizes, several outputs, and conflicting data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import IndexOutOfRange, ShapeError


class Batch(wy.Dim): ...


class Hidden(wy.Dim): ...


def batch(size: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(size, 3))


def inputs(name: str = "x") -> Any:
    x: Any = wy.Input(dims=(Batch(), Hidden(3)), name=name, dtype=np.float64)
    return x


def test_alternating_batch_sizes() -> None:
    x, labels = inputs(), wy.IndexInput(dims=(Batch(),), name="labels")
    w = wy.Parameter(np.ones((3, 4)), dims=(Hidden, 4), name="w")
    loss: Any = (x @ w).cross_entropy(labels)
    for round_, size in enumerate((3, 5, 3, 1, 3, 5, 2, 7, 4, 3)):
        data, chosen = batch(size, round_), np.arange(size) % 4
        x.set(data)
        labels.set(chosen)
        w.clear_gradient()
        loss.backward()
        twin = wy.Parameter(w.value)
        fixed = (wy.Constant(data) @ twin).cross_entropy(chosen)
        assert loss.forward() == fixed.forward()
        np.testing.assert_allclose(w.gradient, wy.grad(fixed, twin).forward(), atol=1e-15)


def test_a_gradient_that_depends_on_the_size_alone() -> None:
    """The gradient of a bias is the batch size: it depends on no data and has the same shape for every batch size."""
    x = inputs()
    bias = wy.Parameter(np.zeros(3), dims=(Hidden,), name="bias")
    loss = (x + bias).sum()
    for size in (3, 5, 3, 3, 5):
        x.set(batch(size))
        bias.clear_gradient()
        loss.backward()
        assert bias.gradient.tolist() == [float(size)] * 3


def test_two_outputs_at_alternating_batch_sizes() -> None:
    x = inputs()
    p = wy.Parameter(np.ones(3), dims=(Hidden,), name="p")
    h = x * (p * 2.0)
    ones = (p * 0.0 + 1.0).broadcast_to(x.dims) + 0.0 * x
    first, second = h.sum() + ones.sum(), (h * h).sum()
    for size in (3, 5, 3, 2):
        x.set(batch(size, size))
        for root in (first, second) if size % 2 else (second,):
            root.forward()
            assert h.value.shape == (size, 3)
            np.testing.assert_allclose(h.value, 2.0 * batch(size, size))
        np.testing.assert_allclose(first.forward(), 2.0 * batch(size, size).sum() + 3 * size)


def test_nodes_without_the_batch_axis_are_right_after_a_change_of_size() -> None:
    x = inputs()
    p = wy.Parameter(np.ones(3), dims=(Hidden,), name="p")
    q = (p * 2.0).tanh()
    loss = (x * q).sum()
    for size, value in ((2, 1.0), (4, 2.0), (2, 2.0), (4, 3.0), (2, 3.0)):
        p.set(np.full(3, value))
        x.set(batch(size))
        np.testing.assert_allclose(loss.forward(), (batch(size) * np.tanh(2.0 * value)).sum())
        np.testing.assert_allclose(q.value, np.tanh(2.0 * np.full(3, value)))


def test_the_error_names_both_conflicting_inputs() -> None:
    x, y = inputs("x"), inputs("y")
    loss = (x * y).sum()
    x.set(batch(3))
    y.set(batch(4))
    for run in (loss.forward, loss.forward):
        with pytest.raises(ShapeError, match=r"axis Batch is 4 in the data of y \(.*\) and 3 in x \("):
            run()
    y.set(batch(3))
    assert loss.forward() == pytest.approx((batch(3) ** 2).sum())


def test_data_that_disagrees_with_a_size_in_the_graph() -> None:
    x = inputs()
    fixed = wy.Constant(np.ones((4, 3)), dims=(Batch(4), Hidden(3)), name="fixed")
    loss = (x * fixed).sum()
    x.set(batch(3))
    with pytest.raises(ShapeError, match=r"axis Batch is 3 in the data of x .* and 4 in (multiply|fixed)"):
        loss.forward()
    x.set(batch(4))
    assert loss.forward() == pytest.approx(batch(4).sum())


def test_one_name_with_two_sizes_in_one_graph_names_both() -> None:
    x = inputs("x")
    first = wy.Parameter(np.ones(4), dims=(Batch,), name="first")
    second = wy.Parameter(np.ones(5), dims=(Batch,), name="second")
    x.set(batch(4))
    with pytest.raises(
        ShapeError,
        match=r"axis Batch is bound twice to different sizes in one graph: 4 by first \(Batch\(4\),\).*"
        r"5 by second \(Batch\(5\),\)",
    ):
        (x.sum() + first.sum() + second.sum()).forward()


def test_a_size_that_only_derived_axes_have() -> None:
    flat: wy.Times[Batch, Hidden] = wy.Times((Batch(), Hidden(3)))
    x, y = inputs(), wy.Input(dims=(flat,), name="y", dtype=np.float64)
    loss: Any = (x.reshape(-1) * y).sum()
    x.set(batch(2))
    y.set(np.ones(6))
    assert loss.forward() == pytest.approx(batch(2).sum())
    y.set(np.ones(7))
    with pytest.raises(ShapeError, match=r"y .*needs shape \(6,\) to fit the other data, not \(7,\)"):
        loss.forward()


def test_an_axis_that_nothing_binds() -> None:
    p = wy.Parameter(np.ones(3), dims=(Hidden,))
    with pytest.raises(ShapeError, match="axis Batch has no size: no input of this graph binds it"):
        p.broadcast_to((Batch(), Hidden(3))).forward()


def test_an_index_out_of_range_of_a_data_sized_axis_raises_in_the_run() -> None:
    x, rows = inputs(), wy.IndexInput([0, 3], name="rows")
    chosen = x.take(rows, axis=0)
    x.set(batch(3))
    with pytest.raises(IndexOutOfRange, match=r"rows .*holds 3 at position \(1,\).*takes -3 to 2"):
        chosen.forward()
    x.set(batch(4))
    np.testing.assert_array_equal(chosen.forward(), batch(4)[[0, 3]])

"""Gradients with respect to interior, repeated and unused nodes and tables, and errors where there is no gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, NotDifferentiable, ShapeError, UnusedParameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.traversal import topological_order
from wyrm.ops.indexing.index import RowGradient
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Hidden(wy.Dim): ...


def parameter(*values: float, name: str | None = None) -> Any:
    return wy.Parameter(np.array(values), name=name)


def test_a_gradient_is_a_node_of_the_shape_of_what_it_is_taken_by() -> None:
    p = wy.Parameter(np.ones((2, 3)), dims=(Batch, Hidden), name="p")
    gradient = wy.grad((p * 2.0).sum(), p)
    assert isinstance(gradient, wy.Node) and gradient.dims == p.dims and gradient.dtype == p.dtype
    assert [g.shape for g in wy.grad((p * 2.0).sum())] == [(2, 3)]


def test_by_an_interior_node_and_by_what_lies_below_it() -> None:
    x = parameter(2.0)
    h = x * x
    loss = (h * h + x).sum()
    by_h, by_x = wy.grad(loss, [h, x])
    assert by_h.forward().tolist() == [8.0] and by_x.forward().tolist() == [33.0]
    assert wy.grad(loss, loss).forward() == 1.0


def test_by_the_same_node_twice() -> None:
    x = parameter(2.0, 3.0)
    first, second = wy.grad((x * x).sum(), [x, x])
    assert first.forward().tolist() == second.forward().tolist() == [4.0, 6.0]
    assert wy.jvp(x * x, [x, x], [np.ones(2), np.ones(2)]).forward().tolist() == [8.0, 12.0]


def test_a_node_used_twice_by_one_op() -> None:
    x = parameter(2.0, 3.0)
    assert wy.grad((x / x).sum(), x).forward().tolist() == [0.0, 0.0]
    assert wy.grad((x**x).sum(), x).forward().tolist() == pytest.approx(
        (x.value**x.value * (np.log(x.value) + 1)).tolist()
    )
    matrix = wy.Parameter(np.array([[1.0, 2.0], [3.0, 4.0]]))
    check_grads(matrix @ matrix)
    check_grads(wy.concatenate([matrix, matrix], axis=1) * wy.stack([matrix, matrix]).sum(axis=0).reshape(4)[:4])


@pytest.mark.parametrize("take", [lambda loss, wrt: wy.grad(loss, wrt), lambda loss, wrt: wy.vjp(loss, wrt, 1.0)])
def test_an_unused_node_is_an_error_that_names_it(take: Any) -> None:
    x, unused = parameter(1.0, name="x"), parameter(1.0, name="unused")
    with pytest.raises(UnusedParameter, match=r"sum .*does not depend on unused \(1,\) float64 .*allow_unused=True"):
        take(x.sum(), [x, unused])
    assert wy.grad(x.sum(), unused, allow_unused=True).forward().tolist() == [0.0]


def test_a_declared_zero_is_zeros_and_no_error() -> None:
    x = parameter(1.0, -2.0, name="x")
    for loss in (x.sign().sum(), (x > 0.0).astype(np.float64).sum(), x.stop_gradient().sum()):
        assert wy.grad(loss, x).forward().tolist() == [0.0, 0.0]
        x.clear_gradient()
        loss.backward()
        assert x.gradient.tolist() == [0.0, 0.0]
    assert wy.grad((x * (x > 0.0)).sum(), x).forward().tolist() == [1.0, 0.0]
    assert wy.grad((x.stop_gradient() * x).sum(), x).forward().tolist() == [1.0, -2.0]


@pytest.mark.parametrize("wrt", [wy.IndexInput([0], name="rows"), wy.Input(np.array([True]), name="rows")])
def test_integers_and_masks_have_no_gradient(wrt: Any) -> None:
    with pytest.raises(NotDifferentiable, match=r"rows \(1,\) (int64|bool) .*only float32 and float64 nodes have"):
        wy.grad(parameter(1.0).sum(), wrt)


def test_a_gradient_of_integers_or_masks() -> None:
    x: Any = parameter(1.0, name="x")
    for output in (x.argmax(), (x > 0.0)[0]):
        with pytest.raises(NotDifferentiable, match="only float32 and float64 have gradients"):
            wy.grad(output, x)
    with pytest.raises(NotDifferentiable):
        (x > 0.0)[0].backward()


def test_a_gradient_of_what_is_no_scalar_or_no_node() -> None:
    x: Any = parameter(1.0, 2.0, name="x")
    for call in (lambda: wy.grad(x, x), x.backward):
        with pytest.raises(ShapeError, match=r"takes a scalar, not x \(2,\).*wy\.vjp"):
            call()
    bads: list[Any] = [2.0, "x", [2.0]]
    for bad in bads:
        with pytest.raises(TypeError, match="a node"):
            wy.grad(bad, x)
        with pytest.raises(TypeError, match="a gradient is taken with respect to"):
            wy.grad(x.sum(), bad)


def test_backward_without_parameters_is_an_error() -> None:
    with pytest.raises(UnusedParameter, match=r"square .*depends on no parameter.*wy\.Parameter"):
        wy.Input(1.0).square().backward()


def test_a_parameter_alone_is_a_loss() -> None:
    p = wy.Parameter(3.0)
    p.backward(2.0)
    p.backward()
    assert p.gradient == 3.0


def test_backward_accumulates_by_weight() -> None:
    p, q = parameter(2.0, 3.0), parameter(5.0, 7.0)
    loss = (p * p * q).sum()
    loss.backward(2.0)
    loss.backward(-0.5)
    np.testing.assert_allclose(p.gradient, 1.5 * 2.0 * p.value * q.value)
    other = (p * 10.0).sum()
    other.backward()
    np.testing.assert_allclose(p.gradient, 3.0 * p.value * q.value + 10.0)
    np.testing.assert_allclose(q.gradient, 1.5 * p.value**2)
    loss.zero_gradient()
    assert not p.gradient.any() and not q.gradient.any()


def test_parameters_whose_gradients_are_one_node_do_not_share_memory() -> None:
    p, q = parameter(1.0), parameter(2.0)
    loss = (p + q).sum()
    for _ in range(2):
        loss.backward()
    assert (p.gradient, q.gradient) == (2.0, 2.0)


TABLE = np.arange(8.0).reshape(4, 2)
TABLE_LOSSES: dict[str, Any] = {
    "rows": lambda t: t.index([1, 1, 3]).square().sum(),
    "rows-twice": lambda t: (t.index([1, 1, 3]) * t.index([0, 1, 1])).sum(),
    "rows-and-whole": lambda t: (t.index([1, 1, 3]).sum(axis=0) * t.sum(axis=0)).sum() + (t * t).sum(),
    "rows-of-product": lambda t: (t * t).take([1, 1, 3], axis=0).sum(),
    "rows-of-rows": lambda t: t.index([[1, 1], [3, 0]]).take([1, 1], axis=0).square().sum(),
    "rows-along-axis": lambda t: t.take([1, 1, 0], axis=1).square().sum() + t.index([2]).sum(),
}


@pytest.mark.parametrize("name", TABLE_LOSSES)
def test_tables_used_by_rows_and_as_a_whole(name: str) -> None:
    table = wy.Parameter(TABLE, name="table")
    loss = TABLE_LOSSES[name](table)
    check_grads(loss)
    loss.backward()
    loss.backward(0.5)
    np.testing.assert_allclose(table.gradient, 1.5 * wy.grad(loss, table).forward())


def test_rows_stay_rows_until_something_dense_is_added() -> None:
    table: Any = wy.Parameter(TABLE, name="table")
    rows = (table.index([1, 1]) * table.index([3, 1])).sum()
    rows.backward()
    sparse = table.row_gradient
    assert isinstance(sparse, RowSparse) and set(sparse.rows.tolist()) == {1, 3}
    rows.backward()
    (table * 2.0).sum().backward()
    assert table.row_gradient is None
    expected = 2.0 * wy.grad(rows, table).forward() + 2.0
    np.testing.assert_allclose(table.gradient, expected)
    rows.backward()
    np.testing.assert_allclose(table.gradient, expected + wy.grad(rows, table).forward())


def test_rows_do_not_pile_up_over_many_backwards() -> None:
    table = wy.Parameter(TABLE, name="table")
    loss = table.index([1, 1, 3]).sum()
    for _ in range(20):
        loss.backward()
    assert table.row_gradient is not None and len(table.row_gradient.rows) <= len(TABLE)
    assert table.gradient[:, 0].tolist() == [0.0, 40.0, 0.0, 20.0]


def test_the_gradient_of_rows_is_a_row_sparse_node() -> None:
    table = wy.Parameter(TABLE, name="table")
    gradient = wy.grad(table.index([1, 1]).sum(), table)
    assert isinstance(gradient, RowGradient)
    assert gradient.forward().tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]


def test_ties_share_the_gradient() -> None:
    x = parameter(1.0, 3.0, 3.0)
    assert wy.grad(x.max(), x).forward().tolist() == [0.0, 0.5, 0.5]
    y = parameter(1.0, 2.0, 3.0)
    assert wy.grad(x.maximum(y).sum(), x).forward().tolist() == [0.5, 1.0, 0.5]
    assert wy.grad(x.minimum(y).sum(), y).forward().tolist() == [0.5, 1.0, 0.5]
    # Around a tie that persists the maximum is linear, so its second derivative is zero.
    second = wy.grad((wy.grad((x.max() * x.max()), x) * np.array([1.0, 0.0, 0.0])).sum(), x)
    assert second.forward().tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("exponent", "first", "second"),
    [(0.0, 0.0, 0.0), (1.0, 1.0, 0.0), (2.0, 0.0, 2.0), (3.0, 0.0, 0.0), (1.5, 0.0, np.inf), (0.5, np.inf, -np.inf)],
)
def test_powers_at_zero(exponent: float, first: float, second: float) -> None:
    x = parameter(0.0)
    gradient = wy.grad((x**exponent).sum(), x)
    assert gradient.forward() == first
    assert wy.grad(gradient.sum(), x).forward() == second


def test_powers_of_negative_numbers_and_of_zero_by_the_exponent() -> None:
    x, y = parameter(-2.0, 0.0), parameter(3.0, 2.0)
    assert wy.grad((x**y).sum(), x).forward().tolist() == [12.0, 0.0]
    assert wy.grad((wy.Constant(np.zeros(2)) ** y).sum(), y).forward().tolist() == [0.0, 0.0]


def test_relu_and_abs_are_flat_at_zero() -> None:
    x = parameter(0.0, -1.0, 1.0)
    assert wy.grad(x.relu().sum(), x).forward().tolist() == [0.0, 0.0, 1.0]
    assert wy.grad(abs(x).sum(), x).forward().tolist() == [0.0, -1.0, 1.0]
    assert wy.grad(x.clip(-1.0, 0.0).sum(), x).forward().tolist() == [1.0, 1.0, 0.0]


OPEN_LOSSES: dict[str, Any] = {
    "sum": lambda x, p: x.sum(),
    "mask": lambda x, p: (x > 0.0).astype(np.float64).sum(),
    "mean": lambda x, p: x.mean(),
    "number": lambda x, p: x[0].sum(),
    "rows": lambda x, p: x.take([0, 0], axis=0).sum(),
    "bias": lambda x, p: (x + p).sum() * p.sum(),
    "flat": lambda x, p: x.reshape(-1).sum(),
    "einsum": lambda x, p: wy.einsum("bh,k->k", x, p).sum(),
    "max": lambda x, p: x.max(axis=0).sum() + x.logsumexp(axis=1).sum() + x.var(axis=0).sum(),
}


@pytest.mark.parametrize("name", OPEN_LOSSES)
def test_a_gradient_stands_alone_though_only_the_data_sizes_its_axes(name: str) -> None:
    x: Any = wy.Input(dims=(Batch(), Hidden(3)), name="x", dtype=np.float64)
    p = wy.Parameter(np.array([1.0, 2.0, 3.0]), dims=(Hidden,), name="p")
    loss = OPEN_LOSSES[name](x, p)
    gradient = wy.grad(loss, x)
    twin = wy.Parameter(np.ones((2, 3)))
    for size in (2, 4):
        data = np.random.default_rng(0).normal(size=(size, 3))
        x.set(data)
        twin = wy.Parameter(data)
        np.testing.assert_allclose(gradient.forward(), wy.grad(OPEN_LOSSES[name](twin, p), twin).forward())
    check_grads(loss, [x])
    # A loss without x still knows the sizes.
    zeros = wy.grad(p.sum() * 1.0, x, allow_unused=True)
    with pytest.raises(ShapeError, match="axis Batch has no size"):
        zeros.forward()


def test_the_gradient_that_stands_alone_holds_what_it_needs_and_no_more() -> None:
    x: Any = wy.Input(np.ones((2, 3)), dims=(Batch(), Hidden(3)), name="x")
    order = topological_order([wy.grad((x * 2.0).tanh().sum(), x)])
    assert sum(node is x for node in order) == 1
    sized = wy.Parameter(np.ones((2, 3)), dims=(Batch, Hidden))
    assert sized not in set(topological_order([wy.grad(sized.sum(), sized)]))


def test_products_with_open_axes_take_arrays() -> None:
    x: Any = wy.Input(np.ones((2, 3)), dims=(Batch(), Hidden(3)), name="x")
    cotangent = np.arange(6.0).reshape(2, 3)
    y = (x * x).reshape(-1, 3).reshape(-1).reshape(Batch(), Hidden(3))
    np.testing.assert_allclose(wy.vjp(y, x, cotangent).forward(), 2.0 * cotangent)
    np.testing.assert_allclose(wy.jvp(y, x, cotangent).forward(), 2.0 * cotangent)
    p = wy.Parameter(np.ones(3), dims=(Hidden,))
    assert wy.jvp(p.broadcast_to(x.dims) + 0.0 * x, p, np.arange(3.0)).forward().tolist() == [[0.0, 1.0, 2.0]] * 2


@pytest.mark.parametrize("product", [wy.vjp, wy.jvp])
def test_products_check_what_they_are_given(product: Any) -> None:
    x = parameter(1.0, 2.0, name="x")
    with pytest.raises(ShapeError, match=r"must have the shape of (multiply|x) \(2,\).*, not \(3,\)"):
        product(x * x, x, np.ones(3))
    with pytest.raises(ShapeError, match="must have the shape of"):
        product(x * x, x, 1.0)
    with pytest.raises(DTypeError):
        product(x * x, x, wy.Constant(np.ones(2, np.float32))).forward()
    with pytest.raises(ShapeError, match="2 tangents for 1 nodes"):
        wy.jvp(x * x, [x], [np.ones(2), np.ones(2)])


def test_a_jvp_of_what_does_not_move() -> None:
    x = parameter(1.0, 2.0)
    assert wy.jvp(x.stop_gradient() * 2.0, x, np.ones(2)).forward().tolist() == [0.0, 0.0]
    with pytest.raises(UnusedParameter):
        wy.jvp(x * 2.0, parameter(1.0), np.ones(1))


def test_value_and_grad_run_together() -> None:
    x = parameter(3.0)
    loss, gradient = wy.value_and_grad((x * x).sum(), x)
    assert [float(value.item()) for value in wy.run([loss, gradient])] == [9.0, 6.0]


def test_a_cast_brings_the_gradient_back_to_the_type_of_its_operand() -> None:
    p = wy.Parameter(np.array([1.0, 2.0], np.float32))
    loss = (p.astype(np.float64) * np.array([3.0, 4.0])).sum()
    loss.backward()
    assert p.gradient.dtype == np.float32 and p.gradient.tolist() == [3.0, 4.0]


def test_check_grads_finds_a_wrong_gradient_and_leaves_the_leaf_as_it_was() -> None:
    class Wrong(wy.Unary):
        formula = "x * x"

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient * self.parents[0],)

    x = parameter(1.0, 2.0, name="x")
    with pytest.raises(AssertionError, match=r"wrong .*gradient of order 1 with respect to x"):
        check_grads(Wrong(x))
    assert x.value.tolist() == [1.0, 2.0]
    with pytest.raises(DTypeError, match=r"p .*gradients are checked in float64"):
        check_grads(wy.Parameter(1.0, name="p") * 2.0)


def test_gradients_by_a_tuple_are_a_tuple() -> None:
    x, y = wy.Parameter(2.0), wy.Parameter([1.0, 2.0])
    loss = (x * y).sum()
    found = wy.grad(loss, (x, y))
    assert isinstance(found, tuple)
    assert [gradient.shape for gradient in found] == [(), (2,)]
    assert isinstance(wy.grad(loss, [x, y]), list)

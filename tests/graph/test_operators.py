"""Operators with numbers and arrays on both sides, and nodes in Python's protocols."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, ShapeError


class Batch(wy.Dim): ...


VALUES = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
OTHERS: list[Any] = [
    2,
    2.5,
    np.float64(2.5),
    np.float32(2.5),
    np.int64(3),
    np.array([1.0, 2.0]),
    np.array([[1], [2]]),
    np.array([1, 2], np.uint8),
    np.array(3.0),
]
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]


@pytest.mark.parametrize("other", OTHERS, ids=repr)
@pytest.mark.parametrize("op", OPERATORS)
def test_numbers_and_arrays_on_both_sides_take_the_nodes_float_type(op: Callable[[Any, Any], Any], other: Any) -> None:
    node: Any = wy.Parameter(VALUES)
    wide = np.asarray(other, np.float32)
    for built, expected in ((op(node, other), op(VALUES, wide)), (op(other, node), op(wide, VALUES))):
        assert isinstance(built, wy.Node)
        assert built.dtype == np.float32 == built.forward().dtype
        np.testing.assert_allclose(built.forward(), expected, rtol=1e-6)


@pytest.mark.parametrize("op", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne])
@pytest.mark.parametrize("other", [2, np.float64(3.0), np.array([1.0, 4.0])], ids=repr)
def test_comparisons_on_both_sides(op: Callable[[Any, Any], Any], other: Any) -> None:
    node: Any = wy.Parameter(VALUES)
    for built, expected in ((op(node, other), op(VALUES, other)), (op(other, node), op(other, VALUES))):
        assert built.dtype == np.bool_
        assert built.forward().tolist() == expected.tolist()


def test_matrix_products_with_arrays_on_both_sides() -> None:
    node = wy.Parameter(VALUES)
    array = np.array([[1, 2, 0], [0, 1, 1]])
    np.testing.assert_allclose((node @ array).forward(), VALUES @ array)
    np.testing.assert_allclose((array.T @ node).forward(), array.T @ VALUES)


@pytest.mark.parametrize("other", [True, np.bool_(True), np.array([True, False])], ids=repr)
@pytest.mark.parametrize("op", [operator.and_, operator.or_])
def test_masks_go_with_masks_on_both_sides(op: Callable[[Any, Any], Any], other: Any) -> None:
    node: Any = wy.Parameter(VALUES) > 2.0
    for built, expected in ((op(node, other), op(VALUES > 2.0, other)), (op(other, node), op(other, VALUES > 2.0))):
        assert built.dtype == np.bool_
        assert built.forward().tolist() == expected.tolist()


def test_a_mask_of_a_list_or_a_number_is_refused() -> None:
    mask: Any = wy.Parameter(VALUES) > 2.0
    with pytest.raises(DTypeError, match="operands must be masks"):
        mask & 1.0
    with pytest.raises(DTypeError, match="a mask has no arithmetic"):
        mask + True
    with pytest.raises(DTypeError, match="dropout scales numbers, not masks"):
        mask.dropout(0.5)


@pytest.mark.parametrize("other", ["word", None, ["word"], 1j, np.array(["a"]), np.array([1j])], ids=repr)
@pytest.mark.parametrize("op", [operator.add, operator.matmul, operator.lt])
def test_what_is_no_number_is_a_type_error(op: Callable[[Any, Any], Any], other: Any) -> None:
    with pytest.raises(TypeError):
        op(wy.Parameter(VALUES), other)


@pytest.mark.parametrize("op", [operator.add, operator.mul, operator.gt])
def test_integers_have_no_arithmetic(op: Callable[[Any, Any], Any]) -> None:
    x, rows = wy.Parameter(VALUES), wy.IndexInput([0, 1], name="rows")
    for left, right in ((x, rows), (rows, x)):
        with pytest.raises(DTypeError, match=r"rows \(2,\) int64 .*holds integers"):
            op(left, right)


def test_in_place_operators_make_a_new_node() -> None:
    p: Any = wy.Parameter(VALUES)
    h = p
    h += 1.0
    h *= 2.0
    h @= np.eye(2)
    assert h is not p
    np.testing.assert_allclose(h.forward(), (VALUES + 1.0) * 2.0)
    np.testing.assert_allclose(p.value, VALUES)
    array: Any = VALUES.copy()
    with pytest.raises(TypeError, match=r"numpy\.add with out takes arrays.*write array = array \+ node"):
        array += p


def test_item_assignment_says_which_op_to_use() -> None:
    p: Any = wy.Parameter(VALUES, name="p")
    with pytest.raises(TypeError, match=r"p \(2, 2\) float32 .*node\.at\[key\]\.set\(values\).*wy\.where"):
        p[0] = 1.0


@pytest.mark.parametrize(
    "use", [bool, lambda x: not x, lambda x: 1 if x else 0, lambda x: 0 < x < 1, lambda x: x and x]
)
def test_a_node_has_no_truth_value(use: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"no truth value .*wy\.where"):
        use(wy.Parameter(VALUES))


def test_integers_have_no_truth_value_either() -> None:
    with pytest.raises(TypeError, match=r"rows .*no truth value"):
        bool(wy.IndexInput([0, 1], name="rows"))


def test_iteration_goes_through_the_rows() -> None:
    rows = list(wy.Parameter(VALUES))
    assert [row.forward().tolist() for row in rows] == VALUES.tolist()
    first, second = wy.IndexInput([4, 5])
    assert (first.forward(), second.forward()) == (4, 5)
    with pytest.raises(TypeError, match="is a scalar and has no rows"):
        iter(wy.Parameter(1.0))


def test_iteration_over_an_axis_without_a_size_is_an_error_and_not_endless() -> None:
    x = wy.Input(dims=(Batch(), 2), name="x")
    x.set(VALUES)
    with pytest.raises(ShapeError, match=r"x \(Batch\(\), 2\).*the number of rows is known only when data is bound"):
        for _ in x:
            pass


def test_in_is_refused_instead_of_false() -> None:
    p: Any = wy.Parameter(VALUES)
    with pytest.raises(TypeError, match="node == value"):
        _ = 2.0 in p


def test_len_is_that_of_the_first_axis() -> None:
    assert len(wy.Parameter(np.ones((3, 2)))) == len(wy.IndexInput([1, 2, 3])) == 3
    with pytest.raises(TypeError, match="is a scalar and has no length"):
        len(wy.Parameter(1.0))
    with pytest.raises(ShapeError, match="Batch has no size of its own"):
        len(wy.Input(dims=(Batch(),)))


def test_float_reads_the_computed_number() -> None:
    p = wy.Parameter(3.0)
    loss = p * p
    loss.forward()
    assert float(loss) == 9.0
    with pytest.raises(TypeError):
        float(wy.Parameter(VALUES))


@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda x: np.asarray([x, x]), wy.Parameter, wy.Constant])
def test_a_node_is_no_array(convert: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"p \(2, 2\) float32 .*is not an array: compute it with node\.forward\(\)"):
        convert(wy.Parameter(VALUES, name="p"))


def test_numpys_functions_of_indices_say_what_to_use() -> None:
    indices: Any = wy.IndexInput(np.array([1, 2]))
    with pytest.raises(AttributeError, match=r"IndexNode has no attribute 'mean'.*convert with x\.astype"):
        np.mean(indices)
    with pytest.raises(TypeError, match=r"is not an array: compute it with node\.forward\(\)"):
        np.linalg.norm(indices)
    with pytest.raises(TypeError, match=r"numpy\.exp: .* holds integers"):
        np.exp(indices)


def test_a_repr_is_one_line_with_name_axes_type_and_place() -> None:
    p = wy.Parameter(VALUES, dims=(Batch, 2), name="weights")
    assert repr(p).startswith("<Parameter weights (Batch(2), 2) float32 (at test_operators.py:")
    assert repr(p.sum()).startswith("<Sum () float32 (at test_operators.py:")
    assert "\n" not in repr(wy.grad(p.sum(), p))


def test_the_users_line_is_where_the_operator_stands() -> None:
    p = wy.Parameter(1.0)
    node = p * 2.0
    assert node.location.filename == __file__
    assert node.location.source == "node = p * 2.0"
    # A gradient's nodes carry the line of the node that they differentiate.
    assert wy.grad(node * node, p).location.filename == __file__

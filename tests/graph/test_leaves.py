"""What leaves accept, hold and reject; rejected data leaves the old data in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, NotSet, ShapeError


class Batch(wy.Dim): ...


class Hidden(wy.Dim): ...


def test_python_numbers_become_float32_and_arrays_keep_their_type() -> None:
    assert wy.Parameter(1.0).dtype == np.float32
    assert wy.Parameter([1, 2]).dtype == np.float32
    assert wy.Parameter(np.ones(2)).dtype == np.float64
    assert wy.Parameter(np.float64(2.0)).dtype == np.float64
    assert wy.Parameter(np.ones(2), dtype=np.float32).dtype == np.float32
    assert wy.Input(np.array([True])).dtype == np.bool_


@pytest.mark.parametrize("value", [np.array([1, 2]), np.ones(2, np.float16), "word", None, np.ones(2, complex), [{}]])
def test_a_parameter_refuses_other_types(value: Any) -> None:
    with pytest.raises(DTypeError):
        wy.Parameter(value)


def test_a_parameter_refuses_a_mask_and_an_input_integers() -> None:
    with pytest.raises(DTypeError, match="float32 or float64, not bool"):
        wy.Parameter(np.array([True]))
    with pytest.raises(DTypeError, match=r"wy\.IndexInput"):
        wy.Input(dtype=np.int64)
    with pytest.raises(DTypeError, match=r"an input holds float32, float64 or bool, not int32; .*wy\.IndexInput"):
        wy.Input(dims=(3,), dtype="int32")


def test_a_leaf_does_not_share_memory_with_what_it_was_given() -> None:
    array = np.ones(2, np.float32)
    p, x = wy.Parameter(array), wy.Input(dims=(2,))
    x.set(array)
    array[:] = 7.0
    assert p.value.tolist() == x.value.tolist() == [1.0, 1.0]
    indices = np.array([1, 2])
    i = wy.IndexInput(indices)
    indices[:] = 0
    assert i.value.tolist() == [1, 2]


def test_values_and_gradients_are_read_only_copies() -> None:
    p = wy.Parameter([1.0, 2.0])
    before = p.value
    p.square().sum().backward()
    gradient = p.gradient
    for array in (before, gradient, (p * 2.0).forward(), wy.Parameter(1.0).gradient):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    p.set([5.0, 5.0])
    p.square().sum().backward()
    assert before.tolist() == [1.0, 2.0]
    assert gradient.tolist() == [2.0, 4.0]


def test_dims_name_the_axes() -> None:
    assert wy.Parameter(np.ones((2, 3)), dims=(Batch, Hidden)).dims == (Batch(2), Hidden(3))
    assert wy.Parameter(np.ones((2, 3)), dims=(Batch(), 3)).dims == (Batch(2), 3)
    assert wy.Input(dims=(Batch, wy.One)).dims == (Batch(), wy.One())
    assert wy.Input(np.ones((2, 3)), dims=(Batch(), Hidden)).dims == (Batch(), Hidden(3))
    assert wy.Input(dims=3).dims == (3,)  # type: ignore[call-overload]  # one axis may stand alone at run time
    assert wy.Parameter.zeros((Hidden(3), Batch(2)), name="w").dims == (Hidden(3), Batch(2))


@pytest.mark.parametrize(
    ("dims", "reason"),
    [
        ((Batch(2), Hidden(4)), r"w is declared as \(Batch\(2\), Hidden\(4\)\), but the array has shape \(2, 3\)"),
        ((Batch,), r"w is declared with 1 axes, \(Batch\), but the array has shape \(2, 3\)"),
        ((2, -1), "w: an axis must have at least 0 elements, not -1"),
    ],
)
def test_dims_that_do_not_fit_name_the_leaf(dims: Any, reason: str) -> None:
    with pytest.raises(ShapeError, match=reason):
        wy.Parameter(np.ones((2, 3)), dims=dims, name="w")


def test_a_negative_axis_of_an_input_is_refused() -> None:
    with pytest.raises(ShapeError, match="x: an axis must have at least 0 elements"):
        wy.Input(dims=(-1,), name="x")
    with pytest.raises(TypeError):
        wy.Input(dims=(3.0,), name="x")


BAD_DATA: list[tuple[Any, type[Exception]]] = [
    (np.ones((3, 2)), ShapeError),
    (np.ones(3), ShapeError),
    (1.0, ShapeError),
    ("word", DTypeError),
    (None, DTypeError),
    (np.ones((2, 3), complex), DTypeError),
    ([[1.0, 2.0, float("nan")], [1.0, 2.0, 3.0]], NotFinite),
    ([[1.0, 2.0, float("-inf")], [1.0, 2.0, 3.0]], NotFinite),
    (np.full((2, 3), 1e300), NotFinite),
    ([[1.0], [1.0, 2.0]], ValueError),
]


@pytest.mark.parametrize(("bad", "error"), BAD_DATA, ids=str)
@pytest.mark.parametrize("make", [wy.Parameter, wy.Input])
def test_refused_data_leaves_the_old_in_place(make: Any, bad: Any, error: type[Exception]) -> None:
    leaf = make(np.ones((2, 3), np.float32), name="leaf")
    total = (leaf * 1.0).sum()
    assert total.forward() == 6.0
    with pytest.raises(error):
        leaf.set(bad)
    assert leaf.value.tolist() == [[1.0] * 3] * 2
    assert total.forward() == 6.0


def test_a_mask_takes_masks_only() -> None:
    mask = wy.Input(np.array([True, False]), name="mask")
    for bad in ([1.0, 0.0], [1, 0]):
        with pytest.raises(DTypeError, match="mask"):
            mask.set(bad)
    mask.set([False, False])
    assert mask.value.tolist() == [False, False]


def test_an_input_may_let_nan_in() -> None:
    x = wy.Input(dims=(2,), finite=False)
    x.set([np.nan, np.inf])
    assert np.isnan(x.value[0]) and np.isinf(x.value[1])


BAD_INDICES: list[tuple[Any, type[Exception]]] = [
    ([1, 2, 3], ShapeError),
    ([1.0, 2.0], DTypeError),
    ([True, False], DTypeError),
    (np.array([2**63, 0], np.uint64), DTypeError),
    ([4, 0], IndexOutOfRange),
    ([-1, 0], IndexOutOfRange),
    (None, DTypeError),
]


@pytest.mark.parametrize(("bad", "error"), BAD_INDICES, ids=str)
def test_refused_indices_leave_the_old_in_place(bad: Any, error: type[Exception]) -> None:
    rows = wy.IndexInput([0, 3], name="rows")
    table = wy.Parameter(np.arange(4.0), name="table")
    chosen = table.index(rows)
    with pytest.raises(error):
        rows.set(bad)
    assert rows.value.tolist() == [0, 3]
    assert chosen.forward().tolist() == [0.0, 3.0]


def test_an_empty_list_is_no_indices() -> None:
    rows = wy.IndexInput(dims=(Batch(),), name="rows")
    rows.set([])
    assert wy.Parameter(np.ones((4, 2))).index(rows).forward().shape == (0, 2)


def test_indices_are_limited_by_every_op_that_lives() -> None:
    rows = wy.IndexInput([0], name="rows")
    small, large = wy.Parameter(np.ones(2), name="small"), wy.Parameter(np.ones(5), name="large")
    users = [small.index(rows), large.index(rows)]
    with pytest.raises(IndexOutOfRange, match=r"rows .*holds 3 at position \(0,\), but index of small .*takes 0 to 1"):
        rows.set([3])
    del users[0]
    rows.set([3])
    with pytest.raises(IndexOutOfRange, match="of large"):
        rows.set([5])


@pytest.mark.parametrize(
    "build",
    [
        lambda t, i: t.index(i.reshape(2)),
        lambda t, i: t.index(i),
        lambda t, i: t.scatter_add(i.reshape(-1), wy.Constant(np.ones((2, 3)))),
        lambda t, i: t.take(i, axis=0),
        lambda t, i: t.T.take(i, axis=1),
    ],
)
def test_indices_are_checked_when_they_are_set_through_other_shapes_too(build: Any) -> None:
    rows = wy.IndexInput([[0, 1]], name="rows")
    node = build(wy.Parameter(np.ones((4, 3)), name="table"), rows)
    with pytest.raises(IndexOutOfRange):
        rows.set([[0, 4]])
    assert node.forward().size


def test_using_an_index_over_and_over_keeps_nothing_of_the_ops_that_are_gone() -> None:
    rows, table = wy.IndexInput([0]), wy.Parameter(np.ones(3))
    for _ in range(50):
        table.index(rows)
    assert len(rows._storage.limits or {}) <= 1


def test_a_leaf_without_data_says_how_to_bind_some() -> None:
    x = wy.Input(name="x")
    with pytest.raises(NotSet, match=r"x \(\) float32 .*x\.set\(value\)"):
        (x * 2.0).forward()
    with pytest.raises(NotSet, match="x"):
        _ = x.value


def test_a_node_that_was_never_computed_says_how_to_compute_it() -> None:
    with pytest.raises(NotSet, match=r"multiply .*call \.forward\(\)"):
        _ = (wy.Parameter(1.0) * 2.0).value


@pytest.mark.parametrize("name", ["name", "dims", "dtype", "anything", "value"])
def test_nodes_are_immutable(name: str) -> None:
    with pytest.raises(AttributeError, match=f"p .*is immutable, so {name} cannot be set"):
        setattr(wy.Parameter(1.0, name="p"), name, 1)
    with pytest.raises(AttributeError, match="is immutable"):
        delattr(wy.Parameter(1.0, name="p"), name)

"""Named axes and axes without a size in ops that reshape, slice and join."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Hidden(wy.Dim): ...


def images() -> Any:
    x: Any = wy.Input(np.arange(48.0).reshape(2, 4, 6), dims=(Batch(), 4, 6), name="images")
    return x


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((-1, 24), (Batch(), 24)),
        ((Batch(), 24), (Batch(), 24)),
        ((Batch(), 2, -1), (Batch(), 2, 12)),
        ((-1, 6, 4), (Batch(), 6, 4)),
        ((-1,), (wy.Times((Batch(), 24)),)),
        ((-1, 12), (wy.Times((Batch(), 2)), 12)),
    ],
)
def test_reshape_around_an_axis_without_a_size(shape: Any, dims: Any) -> None:
    x = images()
    node = x.reshape(*shape)
    assert node.dims == dims
    for size in (2, 5, 0, 2):
        data = np.arange(24.0 * size).reshape(size, 4, 6)
        x.set(data)
        target = [size if isinstance(axis, Batch) else axis for axis in shape]
        if size or -1 not in target:
            np.testing.assert_array_equal(node.forward(), data.reshape(target))
        np.testing.assert_array_equal(wy.grad(node.sum(), x).forward(), np.ones((size, 4, 6)))


def test_flattening_and_back() -> None:
    x = images()
    back = x.reshape(-1).reshape(Batch(), 4, 6)
    np.testing.assert_array_equal(back.forward(), x.value)
    check_grads((back * back).sum(), [x])


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((-1, 25), "24 elements are not divisible by 25"),
        ((2, 24), r"cannot reshape \(Batch\(\), 4, 6\) to \(2, 24\)"),
        ((-1, -1), "-1 for more than one axis"),
        ((-2, 12), "negative axis"),
        ((Batch(), 25), r"24 elements against 25|cannot reshape"),
        ((Time(), 24), "cannot reshape"),
        ((-1, 0), "are not divisible by 0"),
    ],
)
def test_reshapes_that_do_not_fit(shape: Any, reason: str) -> None:
    with pytest.raises(ShapeError, match=reason) as error:
        images().reshape(*shape)
    assert "images (Batch(), 4, 6)" in str(error.value)


def test_a_mean_over_an_axis_without_a_size_divides_by_the_size_of_the_run() -> None:
    x = images()
    for node in (x.mean(), x.mean(axis=0).sum(), x.var(axis=(0, 2)).sum(), (x.mean(axis=1) / 3.0).sum()):
        for size in (2, 5):
            x.set(np.random.default_rng(0).normal(size=(size, 4, 6)))
            check_grads(node, [x])


REDUCTIONS = ["mean", "max", "min", "logsumexp", "var"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_batch_without_elements_has_no_such_reduction(name: str) -> None:
    x = images()
    node = getattr(x, name)(axis=0)
    x.set(np.zeros((0, 4, 6)))
    with pytest.raises(
        ShapeError, match=rf"^{name}\(.*over an axis of size 0, which the data of this run has"
    ) as error:
        node.forward()
    assert "images (Batch(), 4, 6)" in str(error.value)
    x.set(np.ones((2, 4, 6)))
    assert node.forward().shape == (4, 6)
    with pytest.raises(ShapeError, match="over an axis of size 0"):
        getattr(wy.Constant(np.zeros((0, 3))), name)(axis=0)
    assert getattr(wy.Constant(np.zeros((0, 3))), name)(axis=1).forward().shape == (0,)


@pytest.mark.parametrize("name", ["max", "min"])
def test_a_mask_without_elements_has_no_extreme(name: str) -> None:
    with pytest.raises(ShapeError, match="over an axis of size 0"):
        getattr(wy.Constant(np.zeros((2, 0), bool)), name)(axis=1)
    rows: Any = wy.Input(dims=(Batch(), 3), dtype=bool)
    node = getattr(rows, name)(axis=0)
    rows.set(np.zeros((0, 3), bool))
    with pytest.raises(ShapeError, match="over an axis of size 0, which the data of this run has"):
        node.forward()
    for mask in (np.array([[True, False, True]]), np.array([[True, False, True], [True, True, False]])):
        rows.set(mask)
        assert node.dtype == bool
        np.testing.assert_array_equal(node.forward(), getattr(mask, name)(axis=0))


def test_other_ops_take_a_batch_without_elements() -> None:
    x = images()
    x.set(np.zeros((0, 4, 6)))
    p = wy.Parameter(np.ones((6, 3)), name="p")
    loss = (x @ p).relu().softmax().sum() + x.reshape(-1, 24).sum() + x.sum(axis=0).log_softmax().sum() * 0.0
    loss.backward()
    assert p.gradient.tolist() == np.zeros((6, 3)).tolist()
    assert wy.Constant(np.zeros((3, 0))).softmax().forward().shape == (3, 0)
    assert wy.Constant(np.zeros((3, 0))).log_softmax().forward().shape == (3, 0)


def test_argmax_and_cross_entropy_of_nothing() -> None:
    x, labels = images().reshape(-1, 24), wy.IndexInput(dims=(Batch(),), name="labels")
    leaf = x.parents[0]
    leaf.set(np.zeros((0, 4, 6)))
    labels.set([])
    with pytest.raises(ShapeError, match="argmax"):
        x.argmax(axis=0).forward()
    with pytest.raises(ShapeError, match=r"cross_entropy\(reduction='mean'\): has no mean over an axis of size 0"):
        x.cross_entropy(labels).forward()
    assert x.cross_entropy(labels, reduction="sum").forward() == 0.0
    assert x.cross_entropy(labels, reduction="none").forward().shape == (0,)
    with pytest.raises(ShapeError, match="no mean over an axis of size 0"):
        wy.Constant(np.zeros((0, 3))).cross_entropy(np.zeros(0, int))


@pytest.mark.parametrize("ddof", [2, 3])
def test_a_variance_that_divides_by_nothing(ddof: int) -> None:
    with pytest.raises(ShapeError, match=rf"divides by n - ddof, which must be above 0 but is 2 - {ddof}"):
        wy.Constant(np.ones((3, 2))).var(axis=1, ddof=ddof)
    x = images()
    with pytest.raises(ShapeError, match="divides by n - ddof"):
        x.var(axis=0, ddof=ddof).forward()


KEYS: list[Any] = [
    0,
    -1,
    slice(1, 3),
    slice(-100, 100),
    slice(None, None, -1),
    slice(3, 1),
    (..., -1),
    (None, 1),
    (1, -2),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_slices_are_numpys(key: Any) -> None:
    array = np.arange(12.0).reshape(3, 4)
    p = wy.Parameter(array)
    node: Any = p[key]
    np.testing.assert_array_equal(node.forward(), array[key])
    expected = np.zeros((3, 4))
    expected[key] = 1.0
    np.testing.assert_array_equal(wy.grad(node.sum(), p).forward(), expected)


@pytest.mark.parametrize("key", [3, -4, (0, 4), (0, -5)], ids=str)
def test_numbers_out_of_range(key: Any) -> None:
    with pytest.raises(IndexOutOfRange, match=r"index -?\d is out of range on axis"):
        _ = wy.Parameter(np.ones((3, 4)), name="p")[key]


def test_numbers_on_an_axis_without_a_size_are_checked_in_the_run() -> None:
    x = images()
    node = x[2].sum() + x[-3].sum()
    with pytest.raises(IndexOutOfRange, match="index 2 is out of range on an axis that has 2 elements in this run"):
        node.forward()
    x.set(np.ones((3, 4, 6)))
    assert node.forward() == 48.0
    np.testing.assert_array_equal(wy.grad(node, x).forward()[:, 0, 0], [1.0, 0.0, 1.0])
    rows = wy.IndexInput([1, 2], dims=(Batch(),))
    with pytest.raises(IndexOutOfRange, match="index 4"):
        rows[4].forward()


@pytest.mark.parametrize(
    ("key", "error", "reason"),
    [
        ((0, 0, 0), ShapeError, "has 2 axes, but the key indexes 3"),
        ((..., ...), ShapeError, r"more than one '\.\.\.'"),
        (slice(None, None, 0), ShapeError, "step of a slice must not be 0"),
        ([0, 3], IndexOutOfRange, "3"),
        ([0, -4], IndexOutOfRange, "index -4 is out of range on an axis that has 3 elements"),
        (([0], [0], [0]), ShapeError, "has 2 axes, but the key indexes 3"),
        (([0, 1], [0, 1, 2]), ShapeError, "2 against 3"),
        ((..., [0], ...), ShapeError, r"more than one '\.\.\.'"),
        (np.array([0.0, 1.0]), DTypeError, "indices must be integers or bools, not float64"),
        (np.array([2**64 - 1], np.uint64), DTypeError, r"up to 2\*\*63 - 1"),
        (["a"], DTypeError, "indices must be integers or bools"),
        (np.array([True, False]), ShapeError, r"a mask of shape \(2,\) indexes axis 0, which is 3"),
        (np.ones((3, 4, 5), bool), ShapeError, "has 2 axes, but the key indexes 3"),
        (np.array(True), TypeError, "NumPy treats as a mask"),
        (wy.Input(np.array([True, False, True])), TypeError, "the shape would depend on the data; use wy.where"),
        (wy.Input([1.0, 2.0]), DTypeError, "indices must be integers"),
        (([0], "a"), TypeError, "not by 'a'"),
        (True, TypeError, "NumPy treats as a mask"),
        (1.0, TypeError, "integer"),
        ("a", TypeError, "integer"),
    ],
)
def test_invalid_keys(key: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        _ = wy.Parameter(np.ones((3, 4)))[key]


def test_concatenation_of_named_axes() -> None:
    a: Any = wy.Input(np.ones((2, 3)), dims=(Batch(), Hidden), name="a")
    b: Any = wy.Input(np.ones((2, 4)), dims=(Batch(), Time), name="b")
    joined = a.concat(b)
    assert joined.dims == (Batch(), wy.Plus((Hidden(3), Time(4)))) == wy.concatenate([a, b], axis=-1).dims
    p = wy.Parameter(np.arange(7.0), name="p")
    check_grads((joined * p).square(), [a, b, p])
    with pytest.raises(ShapeError, match=r"axes Batch\(\) and Batch\(\) get their sizes from the data"):
        wy.concatenate([a, a], axis=0)
    with pytest.raises(ShapeError, match=r"Hidden\(3\) against Time\(4\)"):
        wy.stack([a, b])


@pytest.mark.parametrize("join", [wy.concatenate, wy.stack])
def test_arrays_among_nodes_and_what_is_no_list(join: Any) -> None:
    x = wy.Parameter(np.ones(2, np.float32))
    joined = join([np.arange(2), x])
    assert joined.dtype == np.float32 and joined.forward().sum() == 3.0
    with pytest.raises(TypeError, match="takes a list of nodes, not float"):
        join(2.0)
    with pytest.raises(ShapeError, match="takes at least one node"):
        join([])
    with pytest.raises(DTypeError, match="do not mix"):
        join([x, wy.Parameter(np.ones(2))])


@pytest.mark.parametrize(
    ("subscripts", "reason"),
    [
        ("ij,jk->il", "must use letters of the operands, each at most once"),
        ("ij,jk->ii", "must use letters of the operands, each at most once"),
        ("ij,kj->ik", "axis 'j': 3 against 4"),
        ("ijk,jk->i", "'ijk' names 3 axes, but the operand has 2"),
        ("ii,jk->i", r"'ii' takes a diagonal of axes 2 and 3, whose sizes must be equal"),
        ("ij->i", "name 1 operands, not 2"),
        ("i1,jk->i", "are not of the form"),
        ("ij,jk,kl->il", "name 3 operands, not 2"),
    ],
)
def test_einsums_that_do_not_fit(subscripts: str, reason: str) -> None:
    x, y = wy.Parameter(np.ones((2, 3)), name="x"), wy.Parameter(np.ones((3, 4)), name="y")
    with pytest.raises(ShapeError, match=reason) as error:
        wy.einsum(subscripts, x, y)
    assert "x (2, 3) float64" in str(error.value) and "wy.einsum(subscripts, x, y)" in str(error.value)


def test_einsum_takes_an_array_on_either_side() -> None:
    x: Any = wy.Parameter(np.ones((2, 3), np.float32))
    array: Any = np.arange(12).reshape(3, 4)
    expected = np.ones((2, 3)) @ array
    np.testing.assert_allclose(wy.einsum("ij,jk->ik", x, array).forward(), expected)
    np.testing.assert_allclose(wy.einsum("jk,ij->ik", array, x).forward(), expected)
    with pytest.raises(TypeError, match=r"for arrays use numpy\.einsum"):
        wy.einsum("ij,jk->ik", array, array)


def test_rows_of_what_has_no_size() -> None:
    x = images().reshape(-1, 24)
    p = wy.Parameter(np.ones(24), name="p")
    node = ((x * p).take([1, 0, 1], axis=0) * p).sum()
    check_grads(node, [p])
    gradient = wy.grad(node, x.parents[0])
    assert gradient.forward()[:, 0, 0].tolist() == [1.0, 2.0]
    x.parents[0].set(np.ones((1, 4, 6)))
    with pytest.raises(IndexOutOfRange, match="takes 0 to 0"):
        node.forward()


def test_a_mismatch_of_named_axes_names_both() -> None:
    x: Any = wy.Input(dims=(Batch(), Hidden(3)), name="x", dtype=np.float64)
    w: Any = wy.Parameter(np.ones((3, 5)), dims=(Time(3), Hidden(5)), name="w")
    with pytest.raises(ShapeError, match=r"Hidden\(3\) against Time\(3\) \(equal sizes, different names\)"):
        _ = x @ w
    with pytest.raises(ShapeError, match=r"Batch\(\) against Time\(3\) \(different axes\)"):
        _ = x + w
    with pytest.raises(ShapeError, match=r"Hidden\(3\) against Hidden\(5\)"):
        _ = x + w[0]


@pytest.mark.parametrize(
    "part",
    [
        lambda x: x[1:][-1], lambda x: x[:3][-1], lambda x: x[1::2][::-1], lambda x: x[::2][1:][::-1],
        lambda x: x[::-1][::2][-1], lambda x: x.reshape(2, 3)[-1][-2],
    ],
)  # fmt: skip
def test_parts_of_parts_are_the_same_in_generated_loops(part: Any) -> None:
    array = np.arange(6.0)
    np.testing.assert_array_equal(wy.compile(part(wy.Constant(array)) * 1.0)(), part(array))
    x = wy.Parameter(array)
    gradient = wy.grad((part(x) * part(x)).sum(), x)
    np.testing.assert_array_equal(wy.compile(gradient)(), gradient.forward())


def test_a_new_axis_by_none_is_the_one_of_expand_dims() -> None:
    x = wy.Input(dims=(4, 7))
    assert x[:, None].dims == x.expand_dims(1).dims == (4, wy.One(), 7)

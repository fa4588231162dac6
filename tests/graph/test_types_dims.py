"""Named axes: sizes, names, and which axes are the same."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wyrm as wy
from wyrm.errors import ShapeError
from wyrm.graph.axes import axis_size, broadcast, normalize_axis, open_axes, product, resolve, unify


class Batch(wy.Dim): ...


class Hidden(wy.Dim): ...


def test_a_dim_is_its_class_and_its_size() -> None:
    assert Batch(3) == Batch(3) and hash(Batch(3)) == hash(Batch(3))
    assert Batch(3) != Batch(4) and Batch(3) != Hidden(3) and Batch() != Batch(3) and Batch() == Batch()
    assert not isinstance(Batch(3), int) and Batch(3) != 3
    assert repr(Batch(3)) == "Batch(3)" and repr(Batch()) == "Batch()"


def test_a_dim_with_a_size_is_used_as_a_number() -> None:
    assert np.zeros((Batch(2), Hidden(3))).shape == (2, 3)
    assert list(range(Batch(2))) == [0, 1]
    assert Batch(np.int64(3)).size == 3


def test_a_dim_without_a_size_says_so_where_a_number_is_needed() -> None:
    with pytest.raises(ShapeError, match=r"Batch has no size of its own.*Batch\(32\)"):
        range(Batch())


@pytest.mark.parametrize("size", [-1, -100])
def test_a_negative_size_is_refused(size: int) -> None:
    with pytest.raises(ShapeError, match="Batch: a size must be at least 0"):
        Batch(size)


def test_a_size_is_an_integer() -> None:
    size: Any = 3.0
    with pytest.raises(TypeError):
        Batch(size)


@pytest.mark.parametrize("dim", [Batch(3), Batch(), wy.One(), wy.Plus((Batch(2), 3)), wy.Times((Batch(), 3))])
def test_dims_survive_pickle_and_copy(dim: wy.Dim) -> None:
    for other in (pickle.loads(pickle.dumps(dim)), copy.deepcopy(dim)):
        assert other == dim and type(other) is type(dim) and other.size == dim.size


def test_one_is_of_size_one() -> None:
    assert wy.One().size == 1
    with pytest.raises(ShapeError, match="One must have size 1, not 2"):
        wy.One(2)


def test_derived_axes_know_their_size_once_their_parts_do() -> None:
    assert wy.Plus((Batch(2), Hidden(3))).size == 5
    assert wy.Times((Batch(2), Hidden(3))).size == 6
    flat: wy.Times[Batch, Hidden] = wy.Times((Batch(), Hidden(3)))
    assert flat.size is None
    assert flat.resolve({Batch: 5}) == 15
    assert resolve((flat, 7, Hidden(3)), {Batch: 5}) == (15, 7, 3)
    assert list(open_axes((flat, Hidden(3), Batch()))) == [Batch, Batch]


def test_an_axis_that_no_data_binds_has_no_size() -> None:
    with pytest.raises(ShapeError, match="axis Batch has no size: no input of this graph binds it"):
        resolve((Batch(),), {Hidden: 3})


def test_unify_keeps_the_name_and_the_size() -> None:
    assert unify(Batch(3), 3) == Batch(3) == unify(3, Batch(3))
    assert unify(Batch(), Batch(3)) == Batch(3) == unify(Batch(3), Batch())
    assert unify(4, 4) == 4
    # A derived axis has no name of its own.
    assert axis_size(unify(wy.Plus((Batch(2), Hidden(3))), Hidden(5))) == 5
    assert unify(wy.Times((Batch(), 3)), wy.Times((Batch(2), 3))) == wy.Times((Batch(2), 3))


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        (Batch(3), Hidden(3), "equal sizes, different names"),
        (Batch(3), Hidden(4), "different axes"),
        (Batch(3), Batch(4), r"Batch\(3\) against Batch\(4\)"),
        (Batch(), Hidden(), "different axes"),
        (Batch(), 3, "gets its size from the data"),
        (3, 4, "3 against 4"),
        (wy.Times((Batch(), 3)), Batch(), "not known to be equal"),
        (wy.Times((Batch(), 3)), wy.Times((Batch(), 4)), "3 against 4"),
        (wy.Times((Batch(), 3)), wy.Times((Batch(), 3, 1)), "not known to be equal"),
    ],
)
def test_unify_refuses_what_is_not_the_same(left: Any, right: Any, reason: str) -> None:
    with pytest.raises(ShapeError, match=reason):
        unify(left, right)


def test_a_class_that_was_defined_again_is_told_apart() -> None:
    again = type("Batch", (wy.Dim,), {"__slots__": ()})
    with pytest.raises(ShapeError, match="two classes are named Batch; was it defined again"):
        unify(Batch(3), again(3))


def test_a_named_axis_does_not_stretch_to_another_name_however_small() -> None:
    with pytest.raises(ShapeError, match="different names"):
        broadcast((Batch(1),), (Hidden(1),))
    with pytest.raises(ShapeError, match="different axes"):
        broadcast((Batch(1),), (Hidden(5),))
    assert broadcast((wy.One(), Hidden(5)), (Batch(), Hidden(5))) == (Batch(), Hidden(5))
    assert broadcast((1,), (Batch(),)) == (Batch(),)


@settings(deadline=None)
@given(st.lists(st.integers(1, 3), max_size=4), st.lists(st.integers(1, 3), max_size=4))
def test_broadcast_is_numpys(left: list[int], right: list[int]) -> None:
    try:
        expected = np.broadcast_shapes(tuple(left), tuple(right))
    except ValueError:
        with pytest.raises(ShapeError):
            broadcast(tuple(left), tuple(right))
    else:
        assert broadcast(tuple(left), tuple(right)) == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=3))
def test_broadcast_keeps_names_on_either_side(sizes: list[int]) -> None:
    named = tuple(type(f"Axis{i}", (wy.Dim,), {"__slots__": ()})(size) for i, size in enumerate(sizes))
    assert broadcast(named, tuple(sizes)) == named == broadcast(tuple(sizes), named)


def test_normalize_axis() -> None:
    assert [normalize_axis(a, 3) for a in (0, 2, -1, -3, np.int64(1))] == [0, 2, 2, 0, 1]
    with pytest.raises(ShapeError, match="axis -1 of a scalar, which has none"):
        normalize_axis(-1, 0)
    for wrong in (3, -4):
        with pytest.raises(ShapeError, match=f"axis {wrong} is out of range for 3 axes"):
            normalize_axis(wrong, 3)


def test_product_of_axes() -> None:
    assert product((2, 3)) == 6
    assert product((Batch(),)) == Batch()
    assert axis_size(product((Batch(2), 3))) == 6
    assert axis_size(product((Batch(), 3))) is None


def test_any_dim_is_a_number() -> None:
    assert wy.any_dim(7) == 7
    assert wy.Input(dims=(Batch(2), wy.any_dim(7))).shape == (2, 7)

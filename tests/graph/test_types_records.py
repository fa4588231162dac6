"""Records: equal by class and fields, immutable, copied and pickled."""

from __future__ import annotations

import copy
import pickle

import pytest

from wyrm.support.records import Record


class Point(Record):
    __slots__ = ("x", "y")
    x: int
    y: int


class Place(Point):
    __slots__ = ("name",)
    name: str


class Other(Record):
    __slots__ = ("x", "y")
    x: int
    y: int


def test_equal_are_those_of_one_class_with_equal_fields() -> None:
    assert Point(1, 2) == Point(1, 2) and len({Point(1, 2), Point(1, 2)}) == 1
    assert Point(1, 2) != Point(2, 1) and Point(1, 2) != Other(1, 2) and Point(1, 2) != (1, 2)
    assert Place(1, 2, "here") != Place(1, 2, "there")


def test_fields_come_in_the_order_of_the_classes_that_have_them() -> None:
    match Place(1, 2, "here"):
        case Place(x, y, name):
            assert (x, y, name) == (1, 2, "here")
    assert repr(Place(1, 2, "here")) == "Place(1, 2, 'here')"


def test_a_record_does_not_change() -> None:
    with pytest.raises(AttributeError, match=r"Point\(1, 2\) is immutable, so x cannot be set"):
        Point(1, 2).x = 3  # type: ignore[misc]  # the test


def test_a_record_has_a_value_for_each_field() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Point(1)  # type: ignore[call-arg]  # the test


def test_a_record_is_copied_and_pickled() -> None:
    place = Place(1, 2, "here")
    assert copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == place

"""Axes whose size follows from that of another axis."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, axis_name, open_axes, resolve_axis, unify
from wyrm.graph.quotients import Least, Quotient, scaled


class Height(wy.Dim): ...


class Width(wy.Dim): ...


H = Height()
NUMBERS = list(itertools.product((1, 2, 3), (-4, -1, 0, 1, 3), (1, 2, 3, 4)))


@pytest.mark.parametrize("first", NUMBERS)
def test_sizes_of_two_steps(first: tuple[int, int, int]) -> None:
    """They are those of one step after another, and axes of the same sizes are equal, unless the second multiplies."""
    found: dict[tuple[int, ...], Axis] = {}
    for second in NUMBERS:
        axis = scaled(scaled(H, *first), *second)
        sizes = []
        for size in range(60):
            inner = (first[0] * size + first[1]) // first[2]
            expected = (second[0] * inner + second[1]) // second[2]
            assert resolve_axis(axis, {Height: size}) == expected
            sizes.append(expected)
        assert scaled(axis) == axis
        assert found.setdefault(tuple(sizes), axis) == axis or second[0] > 1
        assert list(open_axes((axis,))) == [Height]


def test_one_form() -> None:
    half = scaled(H, over=2)
    assert scaled(half, over=2) == scaled(H, over=4)
    assert (
        scaled(half, 2) == half * 2
        and scaled(half * 2, over=2) == half
        and scaled(half * 2, over=4) == scaled(H, 1, 0, 4)
    )
    assert scaled(H * 6, 1, 3, 3) == scaled(H, 2, 1) and scaled(H) is H
    assert scaled(H, 1, 2) == H + 2 and scaled(H, 3) == H * 3 and scaled(H + 2, 1, -2) == H
    assert scaled(scaled(H, 1, 5, 4), 3, 0, 2) == scaled(scaled(H, 1, 1, 4), 3, 3, 2)
    assert scaled(Height(9), 1, 0, 2) == 4 and scaled(9, 2, 1) == 19
    assert scaled(H, over=2) != scaled(H, 1, 1, 2) and half != scaled(Width(), over=2)


@pytest.mark.parametrize(
    ("axis", "text"),
    [
        (scaled(H, over=2), "Height()//2"),
        (scaled(H, 1, 1, 2), "(Height()+1)//2"),
        (scaled(H, 1, -2), "Height()-2"),
        (scaled(H, 2, -1), "2*Height()-1"),
        (scaled(scaled(H, over=3), 2, 1, 5), "(2*(Height()//3)+1)//5"),
    ],
)
def test_names(axis: Axis, text: str) -> None:
    assert repr(axis) == axis_name(axis) == text


def test_copies_are_equal() -> None:
    for axis in (scaled(H, 2, 1, 3), Least((H, scaled(Width(), over=2)))):
        for other in (pickle.loads(pickle.dumps(axis)), copy.deepcopy(axis)):
            assert other == axis and hash(other) == hash(axis) and repr(other) == repr(axis)


def test_common_axes() -> None:
    half = scaled(H, over=2)
    assert unify(half, scaled(Height(), over=2)) == half
    nested, other = scaled(half, 3, 1, 2), scaled(scaled(H, over=2), 3, 1, 2)
    assert isinstance(nested, Quotient) and unify(nested, other) == nested
    for wrong in (scaled(H, 1, 1, 2), scaled(Width(), over=2), H, 4):
        with pytest.raises(ShapeError):
            unify(half, wrong)
    assert resolve_axis(Least((half, Width())), {Height: 9, Width: 7}) == 4
    with pytest.raises(ShapeError, match="axis Height has no size"):
        resolve_axis(half, {})


def test_multiples_give_the_sizes_of_names() -> None:
    """Of a leaf whose axis is a multiple of a named one, unless another leaf has that one."""
    x, y = wy.Input(dims=(H * 2 + 1, Width() * 3), name="x"), wy.Input(dims=(Width(),), name="y")
    x.set(np.ones((7, 6)))
    ones = wy.grad(x.sum(), x)
    assert ones.forward().shape == (7, 6)
    total = x.sum() + y.sum()
    y.set(np.ones(2))
    assert total.forward() == 44.0
    y.set(np.ones(3))
    with pytest.raises(ShapeError, match=r"x .* needs shape \(7, 9\) to fit the other data"):
        total.forward()
    for shape in ((8, 6), (0, 6), (7, 5)):
        x.set(np.ones(shape))
        with pytest.raises(ShapeError, match=r"needs a size of (2 \* n \+ 1|3 \* n), not"):
            x.sum().forward()

"""Axes `Dim()` without a class of their own: each is an axis, equal only to itself."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import OptionError, ShapeError


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_two_axes_without_names_have_sizes_of_their_own(engine: Any) -> None:
    rows, entries = wy.Dim(), wy.Dim()
    x, y = wy.Input(dims=(rows, 3), name="x"), wy.Input(dims=(entries, 3), name="y")
    products = x @ y.T
    assert products.dims == (rows, entries) != (entries, rows)
    given = np.arange(6.0).reshape(2, 3), np.arange(15.0).reshape(5, 3)
    program: Any = wy.compile(products, engine=engine)
    np.testing.assert_allclose(program({x: given[0], y: given[1]}), given[0] @ given[1].T)
    x.set(given[0])
    y.set(given[1])
    np.testing.assert_allclose(products.forward(), given[0] @ given[1].T)


def test_an_axis_without_a_name_is_shared_by_giving_it_to_both() -> None:
    images = wy.Input(dims=(wy.Dim(), 4), name="images")
    labels = wy.IndexInput(dims=images.dims[:1], name="labels")
    loss = images.cross_entropy(labels)
    with pytest.raises(ShapeError, match=r"axis Dim is 2 in the data of labels .* and 3 in images"):
        wy.compile(loss)({images: np.ones((3, 4)), labels: [0, 1]})


def test_two_axes_without_names_that_meet_are_told_apart_with_their_inputs_and_what_to_do() -> None:
    x, y = wy.Input(dims=(wy.Dim(), 4), name="pixels"), wy.Input(dims=(wy.Dim(),), name="targets")
    with pytest.raises(ShapeError) as caught:
        x.square().sum(-1) - y
    text = str(caught.value)
    first, second = map(repr, (x.dims[0], y.dims[0]))
    assert first.startswith("Dim#") and second.startswith("Dim#") and first != second
    assert f"{first} against {second} (each Dim() is an axis of its own; give both inputs the same one" in text
    assert f"  {first} is an axis of pixels, {second} is an axis of targets\n" in text
    assert "  right  targets" in text


def test_an_axis_without_a_name_is_no_named_axis_and_no_axis_with_a_size() -> None:
    class Batch(wy.Dim): ...

    x = wy.Input(dims=(wy.Dim(),))
    for other in (Batch(), wy.Dim(3)):
        with pytest.raises(ShapeError, match=r"different axes: each Dim\(\) is one of its own"):
            x + wy.Input(dims=(other,))
    assert (wy.Input(dims=(wy.Dim(3),)) + wy.Input(dims=(wy.Dim(3),))).shape == (3,)


def test_axes_with_a_size_and_without_a_name_may_have_several_sizes_in_one_graph() -> None:
    model = wy.nn.Linear(wy.Dim(3), wy.Dim(2))
    assert model(wy.Constant(np.ones((5, 3), np.float32))).forward().shape == (5, 2)


def test_a_parameter_gives_an_axis_without_a_name_the_size_of_its_array() -> None:
    axis = wy.Dim()
    table = wy.Parameter(np.ones((5, 2), np.float32), (axis, 2))
    x = wy.Input(dims=(axis,), name="x")
    assert (x @ table).shape == (2,)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_of_an_axis_without_a_name_are_the_same_axis(way: Any) -> None:
    rows, entries = wy.Dim(), wy.Dim()
    copied: Any = way((rows, entries, rows * 2))
    assert copied == (rows, entries, rows * 2)
    x = wy.Input(dims=(rows, entries), name="x")
    again: Any = way(x.tanh())
    assert again.dims == x.dims


def test_a_pickle_tells_axes_without_names_apart_in_a_process_that_does_not_know_them() -> None:
    saved = pickle.dumps([wy.Dim()] * 2 + [wy.Dim()])
    first, same, other = pickle.loads(saved)  # the axes are gone
    assert first == same != other


def test_programs_that_differ_in_axes_without_names_alone_have_the_same_code() -> None:
    def source() -> str:
        rows, entries = wy.Dim(), wy.Dim()
        x, y = wy.Input(dims=(rows, 3), name="x"), wy.Input(dims=(entries, 3), name="y")
        program = wy.compile((x @ y.T).tanh().sum())
        program({x: np.ones((2, 3)), y: np.ones((4, 3))})
        return program.source

    assert source() == source()


def test_exports_take_sizes_of_axes_without_names_by_their_classes() -> None:
    x = wy.Input(dims=(wy.Dim(), wy.Dim()), name="x")
    program = wy.compile(x.tanh().sum(axis=1))
    with pytest.raises(ShapeError, match=r"sizes=\{type\(axis\): 16\}"):
        program.export("unused", target="c")
    with pytest.raises(OptionError, match=r"open axes are: type\(axis\), type\(axis\)"):
        wy.summary(x, sizes={wy.Dim: 3})
    assert wy.summary(x, sizes={type(x.dims[1]): 3}).sizes == {"Dim_0": 1, "Dim_1": 3}

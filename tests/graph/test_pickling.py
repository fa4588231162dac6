"""Copies, deep copies and pickles of graphs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import IndexOutOfRange
from wyrm.graph.storage import stored
from wyrm.graph.traversal import topological_order


class Batch(wy.Dim): ...


class Hidden(wy.Dim): ...


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


COPIES = [through_pickle, copy.deepcopy]


def model() -> Any:
    x = wy.Input(np.ones((2, 3)), dims=(Batch(), Hidden), name="x")
    table = wy.Parameter(np.arange(12.0).reshape(4, 3), dims=(4, Hidden), name="table")
    rows = wy.IndexInput([1, 3], dims=(Batch(),), name="rows")
    h = (x * table.index(rows)).tanh().reshape(-1, Hidden(3))
    labels = wy.IndexInput([0, 2], dims=(Batch(),), name="labels")
    return wy.where(h > 0.5, h, 2.0).clip(-1.0, 1.5).cross_entropy(labels) + h.var(axis=0, ddof=1).sum()


@pytest.mark.parametrize("make", COPIES)
def test_a_copied_graph_computes_the_same_on_leaves_of_its_own(make: Callable[[Any], Any]) -> None:
    loss = model()
    loss.backward()
    other = make(loss)
    other.backward()
    assert other.forward() == loss.forward()
    (p,), (q,) = loss.parameters(), other.parameters()
    np.testing.assert_array_equal(p.gradient, q.gradient)
    q.set(np.zeros((4, 3)))
    assert p.value.any() and other.forward() != loss.forward()


@pytest.mark.parametrize("make", COPIES)
def test_a_copy_keeps_names_axes_types_and_lines(make: Callable[[Any], Any]) -> None:
    loss = model()
    for node, other in zip(topological_order([loss]), topological_order([make(loss)]), strict=True):
        assert type(node) is type(other)
        assert (node.name, node.dims, node.dtype, node.location) == (
            other.name,
            other.dims,
            other.dtype,
            other.location,
        )
        assert node.attribute_values() == other.attribute_values()


@pytest.mark.parametrize("make", COPIES)
def test_leaves_that_several_roots_share_stay_shared(make: Callable[[Any], Any]) -> None:
    p = wy.Parameter(2.0, name="p")
    first, second = make([p * 3.0, (p * 3.0).square()])
    assert first.parameters()[0] is second.parameters()[0]
    first.parameters()[0].set(1.0)
    assert (first.forward(), second.forward()) == (3.0, 9.0)


def test_a_deep_copy_keeps_shared_nodes_shared() -> None:
    h = wy.Parameter(2.0) * 3.0
    copied, loss = copy.deepcopy((h, h.square()))
    assert wy.grad(loss, copied).forward() == 12.0


def test_a_shallow_copy_is_the_node() -> None:
    node = wy.Parameter(1.0) * 2.0
    assert copy.copy(node) is node


@pytest.mark.parametrize("make", COPIES)
def test_a_copied_graph_checks_its_indices(make: Callable[[Any], Any]) -> None:
    rows = wy.IndexInput([0], name="rows")
    p = wy.Parameter(np.ones((3, 2)))
    for loss in (p.index(rows), p.cross_entropy(wy.IndexInput([0, 1, 0])), p.take_along_axis(np.zeros((3, 1), int))):
        other = make(loss)
        leaves = [n for n in topological_order([other]) if isinstance(n, wy.IndexInput)]
        for leaf in leaves:
            with pytest.raises(IndexOutOfRange):
                leaf.set(np.full(leaf.value.shape, 7))


@pytest.mark.parametrize("make", COPIES)
def test_parameters_that_diverged_are_copied_too(make: Callable[[Any], Any]) -> None:
    p = wy.Parameter([1.0, 2.0])
    array = stored(p).array
    assert array is not None
    array[0] = np.nan
    assert np.isnan(make(p).value[0])


@pytest.mark.parametrize("make", COPIES)
def test_inputs_stay_open_to_other_sizes(make: Callable[[Any], Any]) -> None:
    x = wy.Input(dims=(Batch(), 2), name="x", finite=False)
    other = make(x)
    other.set(np.full((5, 2), np.inf))
    assert other.dims == (Batch(), 2) and other.value.shape == (5, 2)


def test_dropout_draws_the_same_after_pickling() -> None:
    node = wy.Constant(np.ones(64)).dropout(0.5, seed=3)
    other = through_pickle(node)
    wy.random.set_step(5)
    value = node.forward()
    wy.random.set_step(5)
    np.testing.assert_array_equal(other.forward(), value)

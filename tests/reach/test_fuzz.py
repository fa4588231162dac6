"""What is proved of random graphs, compared with what changes; wrong versions of the analysis must be noticed.

`python -m tests.reach.fuzz 20000` and `python -m tests.reach.mutants` check and search more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.reach.fuzz import check, wrong
from tests.reach.graphs import GENERATORS, Batch, Graph, Time, graphs
from tests.reach.mutants import MUTANTS, Mutant, mutated
from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.errors import NotProved, ShapeError


@pytest.mark.parametrize("name", GENERATORS)
def test_nothing_changes_that_is_proved_not_to(name: str) -> None:
    assert check(name, 0, 4 if name == "cells" else 40) is None


@pytest.mark.parametrize("name", GENERATORS)
def test_nothing_changes_that_is_proved_not_to_in_many_graphs(name: str) -> None:
    assert check(name, 40, 40 if name == "cells" else 400) is None


# Those of which a graph is known that notices them.
KNOWN = [mutant for mutant in MUTANTS if mutant.generator]


@pytest.mark.parametrize("mutant", KNOWN, ids=lambda mutant: mutant.name)
def test_a_wrong_analysis_is_noticed(mutant: Mutant) -> None:
    (graph,) = (graph for _, graph in graphs(mutant.generator, mutant.seed, 1))
    assert wrong(graph, mutant.seed) is None
    with mutated(mutant):
        assert wrong(graph, mutant.seed) is not None


# --- claims by more than positions ------------------------------------------------------------------------------------


def computed(graph: Graph, leaves: dict[Any, Any]) -> dict[Any, Any]:
    for leaf, array in leaves.items():
        leaf.set(array)
    wy.random.set_step(0)
    plan = ReferenceRunner(graph.nodes).run()
    return {node: np.array(plan.value(node)) for node in graph.nodes}


def axes_of(node: Any, kind: type[wy.Dim]) -> list[int]:
    return [k for k, axis in enumerate(node.dims) if type(axis) is kind]


def prefixes(name: str, first: int, count: int) -> int:
    """Compare the results of a shorter input with the first ones of a longer one, where that is proved."""
    proved = 0
    for seed, graph in graphs(name, first, count):
        if not any(axis.size is None for leaf in graph.leaves for axis in leaf.dims if isinstance(axis, Time)):
            continue
        size = graph.sizes[Time]
        short = {
            leaf: array[tuple(slice(size - 1) if type(axis) is Time else slice(None) for axis in leaf.dims)]
            for leaf, array in graph.leaves.items()
        }
        long_values = computed(graph, graph.leaves)
        try:
            short_values = computed(graph, short)
        except wy.WyrmError:  # a slice that needs more positions
            continue
        for node in graph.nodes:
            if len(axes_of(node, Time)) != 1:
                continue
            try:
                wy.prove(node).prefix(Time)
            except (NotProved, ShapeError):
                continue
            proved += 1
            (axis,) = axes_of(node, Time)
            beginning = np.take(long_values[node], range(size - 1), axis)
            np.testing.assert_allclose(short_values[node], beginning, 1e-9, 1e-9, err_msg=f"{name} {seed} {node}")
    return proved


@pytest.mark.parametrize(("name", "least"), [("sequences", 20), ("layers", 5)])
def test_a_shorter_input_gives_the_first_results(name: str, least: int) -> None:
    assert prefixes(name, 0, 60) >= least


def permuted(name: str, first: int, count: int) -> tuple[int, int]:
    """Permute the batch of all inputs, and compare the results where that is proved."""
    proved = [0, 0]
    for seed, graph in graphs(name, first, count):
        order = np.array([1, 0])
        turned = {}
        for leaf, array in graph.leaves.items():
            for k in axes_of(leaf, Batch):
                array = np.take(array, order, k)
            turned[leaf] = array
        before, after = computed(graph, graph.leaves), computed(graph, turned)
        for node in graph.nodes:
            places = axes_of(node, Batch)
            try:
                claims = wy.prove(node)
                claims.equivariant(Batch) if places else claims.invariant(Batch)
            except (NotProved, ShapeError):
                continue
            proved[not places] += 1
            expected = np.take(before[node], order, places[0]) if places else before[node]
            np.testing.assert_allclose(after[node], expected, 1e-9, 1e-9, err_msg=f"{name} {seed} {node}")
    return proved[0], proved[1]


@pytest.mark.parametrize("name", ["sequences", "layers"])
def test_a_permuted_input_gives_a_permuted_result(name: str) -> None:
    rows, others = permuted(name, 0, 40)
    assert rows >= 20
    assert others >= 0

"""What is proved of random graphs, compared with what changes; wrong versions of the analysis must be noticed.

`python -m tests.reach.fuzz 20000` and `python -m tests.reach.mutants` check and search more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.reach.fuzz import axes_of, by_rounding, check, prefixes, unordered, wrong
from tests.reach.graphs import GENERATORS, Batch, Time, graphs
from tests.reach.mutants import MUTANTS, Mutant, mutated
from tests.reach.views import Items
from wyrm.graph.axes import axis_size


@pytest.mark.parametrize("name", GENERATORS)
def test_nothing_changes_that_is_proved_not_to(name: str) -> None:
    assert check(name, 0, 4 if name == "cells" else 40) is None


@pytest.mark.parametrize("name", GENERATORS)
def test_nothing_changes_that_is_proved_not_to_in_many_graphs(name: str) -> None:
    assert check(name, 40, 20 if name == "cells" else 200) is None


# Those of which a graph is known that notices them.
KNOWN = [mutant for mutant in MUTANTS if mutant.generator]


@pytest.mark.parametrize("mutant", KNOWN, ids=lambda mutant: mutant.name)
def test_a_wrong_analysis_is_noticed(mutant: Mutant) -> None:
    (graph,) = (graph for _, graph in graphs(mutant.generator, mutant.seed, 1))
    assert wrong(graph, mutant.seed) is None
    with mutated(mutant):
        assert wrong(graph, mutant.seed) is not None


def test_an_order_that_rounding_decides_is_not_compared() -> None:
    assert check("views", 502159, 1) is None
    x: Any = wy.Input(dims=(Items(3),), dtype=np.float64)
    order = wy.argsort(x, 0)
    nodes, values = [x, order, wy.take(x, order, 0)], np.array([1.0, 2.0, 2.0])
    for last, expected in ((2.0, set()), (2.0 + 1e-15, {order, nodes[2]}), (2.1, set())):
        values[2] = last
        assert by_rounding(nodes, {x: values}, 1e-12) == expected


@pytest.mark.parametrize(("name", "kind", "least"), [("sequences", Time, 20), ("layers", Time, 5)])
def test_shorter_inputs_are_among_what_is_compared(name: str, kind: type[wy.Dim], least: int) -> None:
    opened = (
        graph for _, graph in graphs(name, 0, 60) if any(axis_size(a) is None for x in graph.leaves for a in x.dims)
    )
    assert sum(len(prefixes(graph, kind)) for graph in opened) >= least


@pytest.mark.parametrize(
    ("name", "kind", "least"), [("sequences", Batch, 20), ("layers", Batch, 20), ("views", Items, 100)]
)
def test_permuted_inputs_are_among_what_is_compared(name: str, kind: type[wy.Dim], least: int) -> None:
    alike = [node for _, graph in graphs(name, 0, 40) for node in unordered(graph, kind)[0]]
    assert sum(bool(axes_of(node, kind)) for node in alike) >= least

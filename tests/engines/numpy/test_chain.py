"""A chain of 100,000 nodes: no operation on graphs recurses."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

import wyrm as wy
from wyrm.graph.traversal import topological_order

LENGTH = 100_000


def test_a_chain_of_a_hundred_thousand_nodes() -> None:
    p = wy.Parameter(np.array([1.0, 2.0]), name="p")
    h: Any = p
    for i in range(LENGTH):
        h = -h if i % 2 else h.abs()
    loss = (h * p).sum()
    assert loss.forward() == -5.0
    loss.backward()
    assert p.gradient.tolist() == [-2.0, -4.0]
    assert repr(loss).startswith("<Sum () float64")
    assert loss.parameters()[0] is p and len(loss.parameters()) == 1
    other = pickle.loads(pickle.dumps(loss))
    assert len(topological_order([other])) == LENGTH + 3
    assert other.parameters()[0].name == "p"
    del h, loss, other  # freeing the graph does not recurse either

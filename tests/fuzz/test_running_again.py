"""Random programs run again after some of their leaves changed: what is cached is what a new graph would compute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fuzz.generate import Generator
from tests.fuzz.program import Graph, Leaf, Program
from tests.fuzz.run import PRODUCTIONS
from wyrm.errors import NotDifferentiable

ROWS, ROUNDS = 3, 4


def changed(program: Program, random: np.random.Generator) -> Program:
    """Return the program with other data in about half of its float leaves."""
    parts = [
        replace(part, array=part.array * random.uniform(0.8, 1.2, part.array.shape))
        if isinstance(part, Leaf) and part.array.dtype.kind == "f" and random.random() < 0.5
        else part
        for part in program.parts
    ]
    return replace(program, parts=tuple(parts))


def loss_of(graph: Graph) -> Any:
    """Return a function of the float outputs; None if there are none."""
    floats = [(node * node.sin()).sum() for node in graph.outputs if node.dtype.kind == "f"]
    return sum(floats) if floats else None


@pytest.mark.parametrize("number", range(40))
def test_running_again_computes_what_a_new_graph_would(number: int) -> None:
    random = np.random.default_rng(number)
    program = replace(Generator(PRODUCTIONS, 6).program((5, number)), order=0)
    if "draws" in program.tags:
        pytest.skip("another draw for each run")
    graph = program.graph(ROWS)
    graph.feed(ROWS)
    loss = loss_of(graph)
    with np.errstate(all="ignore"):
        for round_ in range(ROUNDS):
            old, program = program, changed(program, random)
            for node, before, after in zip(graph.nodes, old.parts, program.parts, strict=True):
                if isinstance(after, Leaf) and after is not before:
                    node.set(after.data(ROWS).astype(node.dtype))
            fresh = program.graph(ROWS)
            fresh.feed(ROWS)
            inner = int(random.integers(len(graph.nodes)))
            np.testing.assert_array_equal(graph.nodes[inner].forward(), fresh.nodes[inner].forward())
            if loss is None:
                continue
            new = loss_of(fresh)
            np.testing.assert_array_equal(loss.forward(), new.forward())
            if round_ % 2 and loss.parameters():
                try:
                    new.backward()
                except NotDifferentiable:
                    continue
                loss.zero_gradient()
                loss.backward()
                for leaf, twin in zip(loss.parameters(), new.parameters(), strict=True):
                    np.testing.assert_array_equal(leaf.gradient, twin.gradient)

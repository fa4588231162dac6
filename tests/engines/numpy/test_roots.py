"""Several outputs with shared nodes, run in random order while data, batch sizes and graphs change.

Whatever ran before, each value equals that of the same graph built from scratch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import wyrm as wy
from tests.programs import MATRICES, ROOTS, VECTORS, Program, draw, programs, small
from wyrm.graph.traversal import topological_order

ACTIONS = ["forward", "forward", "backward", "backward", "batch", "set", "run", "watch", "forget"]
actions = st.lists(st.tuples(st.sampled_from(ACTIONS), small), min_size=3, max_size=20)


def close(mine: Any, other: Any) -> None:
    np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)


@settings(max_examples=80, deadline=None)
@given(programs, actions, st.integers(0, 1000))
def test_any_order_of_runs(program: Program, todo: list[tuple[str, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    data = [*draw(2, random), random.normal(size=3), random.normal(size=(5, 3))]
    leaves, inner, roots = program.build(data)
    for action, which in todo:
        place = which % len(roots)
        root = roots[place]
        if action == "batch":
            data[:3] = draw(which % 4 + 1, random)
            for leaf, value in zip(leaves[:3], data, strict=False):
                leaf.set(value)
        elif action == "set":
            data[which % 5] = (
                random.integers(0, 5, len(data[2])) if which % 5 == 2 else random.normal(size=data[which % 5].shape)
            )
            leaves[which % 5].set(data[which % 5])
        elif action == "forget" and len(roots) > 1:
            del roots[place], root
            program = program._replace(roots=[r for i, r in enumerate(program.roots) if i != place])
        else:
            fresh_leaves, fresh_inner, fresh_roots = program.build(data)
            if action == "run":
                close(wy.run([inner[which % len(inner)]])[0], fresh_inner[which % len(inner)].forward())
            elif action == "backward" and root.ndim == 0 and root.parameters():
                root.zero_gradient()
                root.backward()
                fresh_roots[place].backward()
                for leaf, twin in zip(leaves[3:], fresh_leaves[3:], strict=True):
                    if leaf in set(root.parameters()):
                        close(leaf.gradient, twin.gradient)
            else:
                if action == "watch":
                    with wy.watch_nan():
                        root.forward()
                close(root.forward(), fresh_roots[place].forward())
                close(root.value, fresh_roots[place].value)
                below = set(topological_order([root]))
                for node, twin in zip(inner, fresh_inner, strict=True):
                    if node in below and node.parents:
                        close(node.value, twin.forward())


def test_the_programs_cover_every_op() -> None:
    data = [*draw(2, np.random.default_rng(0)), np.ones(3), np.ones((5, 3))]
    steps = [(op, op, op + 1) for op in range(len(MATRICES) + len(VECTORS))]
    _, inner, roots = Program(steps, [(kind, 0) for kind in range(len(ROOTS))]).build(data)
    assert len(inner) == 3 + 1 + len(steps)
    assert [root.ndim for root in roots] == [1, 0, 0, 1]
    assert all(np.isfinite(root.forward()).all() for root in roots)

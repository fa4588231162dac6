"""Properties of all gradients: the two products are transposes of each other, and second derivatives commute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import wyrm as wy
from tests.programs import Program, draw, programs
from wyrm.graph.traversal import topological_order


def prepare(program: Program, seed: int) -> tuple[Any, list[Any], np.random.Generator]:
    """Return a root, the float leaves that it depends on, and a generator for the directions."""
    random = np.random.default_rng(seed)
    leaves, _, roots = program.build([*draw(3, random), random.normal(size=3), random.normal(size=(5, 3))])
    below = set(topological_order(roots[:1]))
    return roots[0], [leaf for leaf in leaves if leaf in below and leaf.dtype.kind == "f"], random


def directions(leaves: list[Any], random: np.random.Generator) -> list[Any]:
    return [random.normal(size=leaf.value.shape) for leaf in leaves]


def dot(arrays: list[Any], others: list[Any]) -> float:
    return float(sum((a * b).sum() for a, b in zip(arrays, others, strict=True)))


@settings(max_examples=50, deadline=None)
@given(programs, st.integers(0, 1000))
def test_the_two_products_are_transposes(program: Program, seed: int) -> None:
    root, leaves, random = prepare(program, seed)
    assume(leaves)
    tangents, cotangent = directions(leaves, random), random.normal(size=root.forward().shape)
    pushed = wy.jvp(root, leaves, tangents).forward()
    pulled = [gradient.forward() for gradient in wy.vjp(root, leaves, cotangent)]
    assert [gradient.shape for gradient in pulled] == [leaf.value.shape for leaf in leaves]
    assert dot([pushed], [cotangent]) == pytest.approx(dot(pulled, tangents), rel=1e-8, abs=1e-10)


@settings(max_examples=50, deadline=None)
@given(programs, st.integers(0, 1000))
def test_second_derivatives_commute(program: Program, seed: int) -> None:
    root, leaves, random = prepare(program, seed)
    assume(leaves)
    loss = (root * 1.0).sum()
    first, second = directions(leaves, random), directions(leaves, random)

    def along(direction: list[Any]) -> list[Any]:
        """Return the Hessian of the loss times a direction."""
        steps = [wy.Constant(step, leaf.dims) for step, leaf in zip(direction, leaves, strict=True)]
        total: Any = sum((g * s).sum() for g, s in zip(wy.grad(loss, leaves), steps, strict=True))
        return [gradient.forward() for gradient in wy.grad(total, leaves, allow_unused=True)]

    assert dot(along(first), second) == pytest.approx(dot(along(second), first), rel=1e-7, abs=1e-8)

"""Random graphs with several roots, described by numbers, over inputs whose batch size only the data determine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import wyrm as wy


class Batch(wy.Dim): ...


class Hidden(wy.Dim): ...


MATRICES: list[Any] = [
    lambda a, b, v, w: a * b,
    lambda a, b, v, w: (a + v).tanh(),
    lambda a, b, v, w: a.T.reshape(-1).reshape(3, *a.dims[:1]).T,
    lambda a, b, v, w: a.softmax(),
    lambda a, b, v, w: wy.where(a > b, a, v + 0.0 * a),
    lambda a, b, v, w: a.stop_gradient() + b.sin(),
    lambda a, b, v, w: a - a.max(axis=1, keepdims=True),
    lambda a, b, v, w: v.broadcast_to(a.dims) + 0.0 * b,
]
VECTORS: list[Any] = [
    lambda a, b, v, w: a.sum(axis=0) * 0.1,
    lambda a, b, v, w: v * w + 1.0,
    lambda a, b, v, w: a.mean(axis=0),
    lambda a, b, v, w: a[0] * v,
]
ROOTS: list[Any] = [lambda n: n * 1.0, lambda n: n.sum(), lambda n: n.square().sum() * 0.5, lambda n: n.reshape(-1)]


class Program(NamedTuple):
    """A graph with several roots, encoded as numbers."""

    steps: list[tuple[int, int, int]]
    roots: list[tuple[int, int]]

    def build(self, data: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the leaves, set to `data`, the inner nodes, and the roots."""
        x: Any = wy.Input(dims=(Batch(), Hidden(3)), name="x", dtype=np.float64)
        z: Any = wy.Input(dims=(Batch(), Hidden(3)), name="z", dtype=np.float64)
        rows = wy.IndexInput(dims=(Batch(),), name="rows")
        p = wy.Parameter(data[3], dims=(Hidden,), name="p")
        q = wy.Parameter(data[4], name="q")
        leaves = [x, z, rows, p, q]
        for leaf, value in zip(leaves, data, strict=True):
            leaf.set(value)
        matrices, vectors = [x * 1.0, z, q.index(rows)], [p, p * p]
        for op, i, j in self.steps:
            operands: tuple[Any, ...] = (matrices[i % len(matrices)], matrices[j % len(matrices)])
            operands = (*operands, vectors[i % len(vectors)], vectors[j % len(vectors)])
            if op < len(MATRICES):
                matrices.append(MATRICES[op](*operands))
            else:
                vectors.append(VECTORS[op - len(MATRICES)](*operands))
        inner = [*matrices, *vectors[1:]]
        return leaves, inner, [ROOTS[kind](inner[-1 - place % len(inner)]) for kind, place in self.roots]


small = st.integers(0, 20)
programs = st.builds(
    Program,
    st.lists(st.tuples(st.integers(0, len(MATRICES) + len(VECTORS) - 1), small, small), min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, len(ROOTS) - 1), small), min_size=2, max_size=4),
)


def draw(size: int, random: np.random.Generator) -> list[Any]:
    return [random.normal(size=(size, 3)), random.normal(size=(size, 3)), random.integers(0, 5, size)]

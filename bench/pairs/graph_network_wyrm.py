"""A graph network that finds the communities of a graph."""

from __future__ import annotations

import wyrm as wy
from bench.pairs.data import graph


def train(steps: int = 100) -> float:
    features, sources, targets, labels = graph()
    wy.nn.seed(0)
    first, second, output = wy.nn.Linear(8, 16), wy.nn.Linear(16, 16), wy.nn.Linear(16, 2)

    def gathered(x: wy.Node) -> wy.Node:
        return x + wy.segment_mean(x.take(sources, axis=0), targets, len(features))

    hidden = first(gathered(wy.Constant(features))).relu()
    hidden = second(gathered(hidden)).relu()
    loss = output(hidden).cross_entropy(labels)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=1e-2))
    for _ in range(steps):
        value = program()
    return float(value)

"""The analysis of reach compared with random graphs: `python -m tests.reach.fuzz 20000` checks so many."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

import wyrm as wy
from tests.reach.graphs import GENERATORS, Graph, graphs
from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.graph.base import BaseNode, describe
from wyrm.testing.reaching import Wrong, unsound


def wrong(graph: Graph, seed: int) -> Wrong | None:
    """Return what an analysis of a graph says that is not so."""
    runner = ReferenceRunner(graph.nodes)

    def compute(leaves: Mapping[BaseNode, np.ndarray]) -> Sequence[np.ndarray]:
        for leaf, array in leaves.items():
            leaf.set(array)  # type: ignore[attr-defined]  # leaves that take data
        wy.random.set_step(0)
        with np.errstate(all="ignore"):
            plan = runner.run()
        return [np.array(plan.value(node)) for node in graph.nodes]

    return unsound(graph.nodes, graph.leaves, compute, graph.sizes, seed)


def check(name: str, first: int, count: int, ops: Counter[str] | None = None) -> str | None:
    """Return the first graph of a generator of which an analysis says something that is not so."""
    for seed, graph in graphs(name, first, count):
        if ops is not None:
            ops.update({type(node).__name__ for node in graph.nodes})
        found = wrong(graph, seed)
        if found is not None:
            return f"{name} {seed}: {describe(found.node)}: {found.text}"
    return None


def main(count: int, first: int = 0) -> int:
    """Check graphs of all generators in turn; return 1 if one is wrong."""
    ops: Counter[str] = Counter()
    failed, share = 0, max(1, count // len(GENERATORS))
    for name in GENERATORS:
        seed, end = first, first + share
        while seed < end:
            found = check(name, seed, min(100, end - seed), ops)
            if found is not None:
                failed += 1
                sys.stdout.write(f"{found}\n")
                sys.stdout.flush()
                seed = int(found.split(":")[0].split()[1]) + 1
            else:
                seed += 100
        sys.stdout.write(f"{name}: {share} graphs\n")
        sys.stdout.flush()
    sys.stdout.write(f"{failed} unsound; {len(ops)} classes of ops: {', '.join(sorted(ops))}\n")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main(*(int(each) for each in sys.argv[1:])))
